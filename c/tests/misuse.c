/* Everything that can be done wrong with a small engine: an error each time, and nothing is moved by it. */
#include "world.h"

/* Where a pointer to something of 8 bytes is no such thing. */
static void *misaligned(void) {
    static uint64_t room[8];
    return (char *)room + 1;
}

static void pointers(struct world *world) {
    pagelift_plan plan;
    pagelift_registry registry;
    pagelift_backend backend;
    size_t jobs;
    OK(pagelift_restore_plan_new(world->geometry, NULL, &plan));
    IS(PAGELIFT_NULL_POINTER, pagelift_cpu_open(1, NULL));
    IS(PAGELIFT_MISALIGNED, pagelift_cpu_open(1, misaligned()));
    IS(PAGELIFT_NULL_POINTER, pagelift_cuda_open(0, NULL));
    IS(PAGELIFT_NULL_POINTER, pagelift_registry_new(NULL));
    IS(PAGELIFT_MISALIGNED, pagelift_registry_new(misaligned()));
    IS(PAGELIFT_NULL_POINTER, pagelift_geometry_builder_new(NULL));
    IS(PAGELIFT_NULL_POINTER, pagelift_restore_plan_new(world->geometry, NULL, NULL));
    IS(PAGELIFT_MISALIGNED, pagelift_restore_plan_new(world->geometry, misaligned(), &plan));
    IS(PAGELIFT_NULL_POINTER, pagelift_plan_jobs(plan, NULL));
    IS(PAGELIFT_MISALIGNED, pagelift_plan_jobs(plan, misaligned()));
    IS(PAGELIFT_NULL_POINTER, pagelift_restore_plan_lift(plan, NULL, 0));
    IS(PAGELIFT_MISALIGNED, pagelift_restore_plan_lift(plan, misaligned(), 0));
    IS(PAGELIFT_NULL_POINTER, pagelift_live_handles(NULL));
    IS(PAGELIFT_NULL_POINTER, pagelift_launcher_bind(world->backend, world->registry, plan, NULL, NULL));
    IS(PAGELIFT_MISALIGNED, pagelift_launcher_bind(world->backend, world->registry, plan, misaligned(), (void *)&registry));
    IS(PAGELIFT_NULL_POINTER, pagelift_prompt_span_new(5, 0, NULL));
    uint64_t live_before, live_after;
    OK(pagelift_live_handles(&live_before));
    char name[8];
    IS(PAGELIFT_NULL_POINTER, pagelift_backend_name(world->backend, NULL, 8, NULL));
    OK(pagelift_backend_name(world->backend, name, sizeof name, NULL));
    CHECK(strcmp(name, "cpu") == 0);
    IS(PAGELIFT_BACKEND, pagelift_backend_device(world->backend, name, sizeof name, NULL));
    pagelift_gpu_facts facts = {.size = sizeof facts};
    IS(PAGELIFT_BACKEND, pagelift_backend_info(world->backend, &facts));
    facts.size = 1;
    IS(PAGELIFT_WRONG_SIZE, pagelift_backend_info(world->backend, &facts));
    OK(pagelift_live_handles(&live_after));
    CHECK(live_before == live_after);
    OK(pagelift_plan_jobs(plan, &jobs));
    CHECK(jobs == 0);
    OK(pagelift_plan_free(plan));
    /* Without a driver that is an error; with one, a backend. */
    pagelift_status status = pagelift_cuda_open(4000, &backend);
    CHECK(status == PAGELIFT_NO_DRIVER || status == PAGELIFT_BACKEND);
}

static void sizes(struct world *world) {
    pagelift_plan plan;
    pagelift_launcher launcher;
    OK(pagelift_mirror_plan_new(world->geometry, NULL, &plan));
    pagelift_plan_capacity capacity = {.size = 0, .jobs = 4, .list_entries = 4};
    pagelift_row_capacity rows = {.size = 4};
    pagelift_launcher_options options = {.size = UINT32_MAX, .slots = 1};
    pagelift_row_binding binding = {.size = sizeof binding + 8, .width = 8};
    pagelift_plan other;
    IS(PAGELIFT_WRONG_SIZE, pagelift_restore_plan_new(world->geometry, &capacity, &other));
    SAID("WrongSize", "`capacity->size` is 0; `pagelift_plan_capacity` has 12 bytes");
    IS(PAGELIFT_WRONG_SIZE, pagelift_mirror_plan_new(world->geometry, &rows, &other));
    IS(PAGELIFT_WRONG_SIZE, pagelift_launcher_bind(world->backend, world->registry, plan, &options, &launcher));
    IS(PAGELIFT_WRONG_SIZE, pagelift_mirror_plan_bind(plan, world->main, &binding));
    struct lists lists;
    import_of(world, &lists, 20, 0, 0, 0);
    lists.import.size = 8;
    OK(pagelift_plan_free(plan));
    OK(pagelift_restore_plan_new(world->geometry, NULL, &plan));
    IS(PAGELIFT_WRONG_SIZE, pagelift_restore_plan_lift(plan, &lists.import, 0));
    OK(pagelift_plan_free(plan));
    pagelift_geometry_builder builder;
    OK(pagelift_geometry_builder_new(&builder));
    pagelift_pool_spec pool = {.size = 3};
    pagelift_pool_id pool_id;
    IS(PAGELIFT_WRONG_SIZE, pagelift_geometry_builder_pool(builder, &pool, &pool_id));
    pagelift_side_spec side = {.size = 16};
    pagelift_group_spec group = {.size = sizeof group, .layers = 1, .name = "main", .host = &side};
    pagelift_group_key key;
    IS(PAGELIFT_WRONG_SIZE, pagelift_geometry_builder_group(builder, &group, &key));
    group.size = 1;
    IS(PAGELIFT_WRONG_SIZE, pagelift_geometry_builder_group(builder, &group, &key));
    OK(pagelift_geometry_builder_free(builder));
    pagelift_host_pool_spec host_pool = {.size = 9};
    pagelift_region_id region;
    size_t count;
    IS(PAGELIFT_WRONG_SIZE,
       pagelift_registry_adopt_pool(world->registry, world->backend, &host_pool, world->host.bytes, &region, 1, &count, NULL));
}

static void memories(struct world *world) {
    pagelift_region_id region;
    pagelift_registry registry = world->registry;
    pagelift_backend backend = world->backend;
    unsigned char bytes[64];
    IS(PAGELIFT_NULL_POINTER, pagelift_registry_adopt(registry, backend, 0, NULL, 64, &region));
    IS(PAGELIFT_BAD_VALUE, pagelift_registry_adopt(registry, backend, 0, bytes, 0, &region));
    IS(PAGELIFT_BAD_VALUE, pagelift_registry_adopt(registry, backend, 0, bytes, SIZE_MAX, &region));
    IS(PAGELIFT_BAD_VALUE, pagelift_registry_adopt(registry, backend, 2, bytes, 64, &region));
    IS(PAGELIFT_REGISTRY, pagelift_registry_adopt(registry, backend, 0, world->host.bytes + 8, 64, &region));
    SAID("Overlaps", "shares bytes");
    IS(PAGELIFT_WRONG_KIND, pagelift_registry_adopt(registry, (pagelift_backend){registry.value}, 0, bytes, 64, &region));
    IS(PAGELIFT_OUT_OF_MEMORY, pagelift_registry_allocate(registry, backend, 0, (uint64_t)1 << 60, &region));
    IS(PAGELIFT_REGISTRY, pagelift_registry_read(registry, world->host.id, world->host.size - 3, bytes, 4));
    SAID("Outside", "not inside");
    IS(PAGELIFT_REGISTRY, pagelift_registry_read(registry, world->host.id, UINT64_MAX, bytes, 4));
    IS(PAGELIFT_REGISTRY, pagelift_registry_write(registry, world->host.id, world->host.size, bytes, 1));
    IS(PAGELIFT_NULL_POINTER, pagelift_registry_read(registry, world->host.id, 0, NULL, 4));
    IS(PAGELIFT_NULL_POINTER, pagelift_registry_write(registry, world->host.id, 0, NULL, 4));
    pagelift_region_id other = world->host.id;
    other.number += 1000;
    IS(PAGELIFT_REGISTRY, pagelift_registry_release(registry, other));
    other = world->host.id, other.registry += 1;
    IS(PAGELIFT_REGISTRY, pagelift_registry_release(registry, other));
    pagelift_region found;
    IS(PAGELIFT_REGISTRY, pagelift_registry_region(registry, other, &found));
    pagelift_host_pool_spec pool = {.size = sizeof pool, .blocks = UINT32_MAX, .block_bytes = UINT64_MAX};
    size_t count;
    IS(PAGELIFT_BAD_VALUE, pagelift_registry_adopt_pool(registry, backend, &pool, bytes, &region, 1, &count, NULL));
    pool.blocks = 0;
    IS(PAGELIFT_BAD_VALUE, pagelift_registry_adopt_pool(registry, backend, &pool, bytes, &region, 1, &count, NULL));
    pool.reserved = 1;
    IS(PAGELIFT_BAD_VALUE, pagelift_registry_adopt_pool(registry, backend, &pool, bytes, &region, 1, &count, NULL));
    compare_all(world);
}

static void geometries(struct world *world) {
    pagelift_geometry_builder builder;
    OK(pagelift_geometry_builder_new(&builder));
    pagelift_pool_spec pool = {.size = sizeof pool, .name = "pool", .blocks = 4, .regions = &world->host.region, .regions_count = 1};
    pagelift_pool_id id;
    pool.memory = 7;
    IS(PAGELIFT_BAD_VALUE, pagelift_geometry_builder_pool(builder, &pool, &id));
    pool.memory = PAGELIFT_MEMORY_HOST, pool.blocks = 0;
    IS(PAGELIFT_GEOMETRY, pagelift_geometry_builder_pool(builder, &pool, &id));
    pool.blocks = 4, pool.regions = NULL;
    IS(PAGELIFT_NULL_POINTER, pagelift_geometry_builder_pool(builder, &pool, &id));
    pool.regions = &world->host.region, pool.name = NULL;
    IS(PAGELIFT_NULL_POINTER, pagelift_geometry_builder_pool(builder, &pool, &id));
    pool.name = "pool";
    OK(pagelift_geometry_builder_pool(builder, &pool, &id));

    pagelift_layout paged, state;
    OK(pagelift_paged_layout_mla_bf16(1, &paged));
    pagelift_state_part part = {.name = "a", .offset = 0, .bytes = 8};
    pagelift_state_layout_spec spec = {.size = sizeof spec, .parts = &part, .parts_count = 1};
    OK(pagelift_state_layout_new(&spec, &state));
    pagelift_side_spec host = {.size = sizeof host, .pool = id, .layout = paged, .block_stride = 1152,
                               .layers = &world->host.region.address, .layers_count = 1};
    pagelift_side_spec device = host;
    pagelift_group_spec group = {.size = sizeof group, .layers = 1, .name = "main", .lift = PAGELIFT_LIFT_NONE, .host = &host};
    pagelift_group_key key;
    group.lift = PAGELIFT_LIFT_STATE;
    IS(PAGELIFT_BAD_VALUE, pagelift_geometry_builder_group(builder, &group, &key));
    group.lift = PAGELIFT_LIFT_NONE, group.landing = 2;
    IS(PAGELIFT_BAD_VALUE, pagelift_geometry_builder_group(builder, &group, &key));
    group.landing = PAGELIFT_LANDING_HOST, group.layers = 2;
    IS(PAGELIFT_GEOMETRY, pagelift_geometry_builder_group(builder, &group, &key));
    group.layers = 1, group.host = NULL;
    IS(PAGELIFT_GEOMETRY, pagelift_geometry_builder_group(builder, &group, &key));
    group.host = &host, group.device = &device, device.layout = state;
    IS(PAGELIFT_WRONG_PLAN, pagelift_geometry_builder_group(builder, &group, &key));
    group.device = NULL, host.pool = world->host.pool;
    IS(PAGELIFT_GEOMETRY, pagelift_geometry_builder_group(builder, &group, &key));
    SAID("Geometry", "a pool of another geometry");
    host.pool = id, host.extents = &world->host.region.address, host.extents_count = 1;
    IS(PAGELIFT_BAD_VALUE, pagelift_geometry_builder_group(builder, &group, &key));
    host.extents_count = 0, host.reserved = 1;
    IS(PAGELIFT_BAD_VALUE, pagelift_geometry_builder_group(builder, &group, &key));
    host.reserved = 0, host.layout = (pagelift_layout){7};
    IS(PAGELIFT_INVALID_HANDLE, pagelift_geometry_builder_group(builder, &group, &key));
    host.layout = paged;
    OK(pagelift_geometry_builder_group(builder, &group, &key));

    pagelift_side_key side, on_host;
    IS(PAGELIFT_GEOMETRY, pagelift_geometry_builder_main_side(builder, key, PAGELIFT_MEMORY_DEVICE, &side));
    IS(PAGELIFT_BAD_VALUE, pagelift_geometry_builder_main_side(builder, key, 3, &side));
    OK(pagelift_geometry_builder_main_side(builder, key, PAGELIFT_MEMORY_HOST, &on_host));
    IS(PAGELIFT_GEOMETRY, pagelift_geometry_builder_main_side(builder, world->main, PAGELIFT_MEMORY_HOST, &side));
    IS(PAGELIFT_WRONG_KIND,
       pagelift_geometry_builder_main_side(builder, (pagelift_group_key){on_host.value}, PAGELIFT_MEMORY_HOST, &side));
    SAID("WrongKind", "expected a group, found a side");
    IS(PAGELIFT_INVALID_HANDLE, pagelift_geometry_builder_main_side(builder, (pagelift_group_key){0}, PAGELIFT_MEMORY_HOST, &side));
    IS(PAGELIFT_INVALID_HANDLE,
       pagelift_geometry_builder_main_side(builder, (pagelift_group_key){key.value + 9}, PAGELIFT_MEMORY_HOST, &side));
    IS(PAGELIFT_INVALID_HANDLE,
       pagelift_geometry_builder_main_side(builder, (pagelift_group_key){key.value | 0xff000000u}, PAGELIFT_MEMORY_HOST, &side));
    pagelift_route_key route;
    pagelift_compact_route_key compact;
    IS(PAGELIFT_GEOMETRY, pagelift_geometry_builder_route(builder, on_host, on_host, &route));
    IS(PAGELIFT_GEOMETRY, pagelift_geometry_builder_compact_route(builder, on_host, on_host, &compact));
    host.layout = state;
    IS(PAGELIFT_WRONG_PLAN, pagelift_geometry_builder_side(builder, key, &host, &side));
    pagelift_geometry geometry;
    IS(PAGELIFT_NULL_POINTER, pagelift_geometry_builder_build(builder, NULL));
    OK(pagelift_geometry_builder_build(builder, &geometry));
    IS(PAGELIFT_STALE_HANDLE, pagelift_geometry_builder_build(builder, &geometry));
    IS(PAGELIFT_STALE_HANDLE, pagelift_geometry_builder_free(builder));
    IS(PAGELIFT_GEOMETRY, pagelift_geometry_lift_route(geometry, key, &route));
    IS(PAGELIFT_GEOMETRY, pagelift_geometry_spill_route(geometry, key, &route));
    uint64_t slots = 0;
    OK(pagelift_geometry_block_slots(geometry, key, PAGELIFT_MEMORY_HOST, &slots));
    CHECK(slots == 1);
    IS(PAGELIFT_GEOMETRY, pagelift_geometry_block_slots(geometry, key, PAGELIFT_MEMORY_DEVICE, &slots));
    IS(PAGELIFT_GEOMETRY, pagelift_geometry_block_slots(geometry, world->main, PAGELIFT_MEMORY_HOST, &slots));
    OK(pagelift_geometry_free(geometry));
    IS(PAGELIFT_STALE_HANDLE, pagelift_geometry_free(geometry));
    OK(pagelift_layout_free(paged));
    OK(pagelift_layout_free(state));
    /* A geometry that cannot be: its builder is gone too. */
    OK(pagelift_geometry_builder_new(&builder));
    OK(pagelift_paged_layout_mla_bf16(1, &paged));
    OK(pagelift_geometry_builder_pool(builder, &pool, &id));
    host.pool = id, host.layout = paged, host.block_stride = 100;
    pagelift_status status = pagelift_geometry_builder_group(builder, &group, &key);
    if (status == PAGELIFT_OK) {
        IS(PAGELIFT_GEOMETRY, pagelift_geometry_builder_build(builder, &geometry));
        IS(PAGELIFT_STALE_HANDLE, pagelift_geometry_builder_free(builder));
    } else {
        CHECK(status == PAGELIFT_GEOMETRY);
        OK(pagelift_geometry_builder_free(builder));
    }
    OK(pagelift_layout_free(paged));
}

static void plans(struct world *world) {
    pagelift_plan restore, mirror, back;
    OK(pagelift_restore_plan_new(world->geometry, NULL, &restore));
    OK(pagelift_mirror_plan_new(world->geometry, NULL, &mirror));
    OK(pagelift_write_back_plan_new(world->geometry, NULL, &back));
    pagelift_plan none;
    IS(PAGELIFT_BAD_VALUE, pagelift_page_plan_new(world->geometry, 3, NULL, &none));
    IS(PAGELIFT_BAD_VALUE, pagelift_row_plan_new(world->geometry, 9, NULL, &none));
    pagelift_plan_capacity capacity = {.size = sizeof capacity, .jobs = UINT32_MAX, .list_entries = UINT32_MAX};
    IS(PAGELIFT_CAPACITY, pagelift_restore_plan_new(world->geometry, &capacity, &none));
    pagelift_reservations reservations;
    IS(PAGELIFT_CAPACITY, pagelift_reservations_new(world->geometry, UINT32_MAX, NULL, &reservations));

    struct lists lists;
    import_of(world, &lists, 20, 0, 0, 0);
    IS(PAGELIFT_BAD_VALUE, pagelift_restore_plan_lift(restore, &lists.import, 3));
    IS(PAGELIFT_WRONG_PLAN, pagelift_restore_plan_lift(mirror, &lists.import, 0));
    lists.blocks[0] = BLOCKS;
    IS(PAGELIFT_PLAN, pagelift_restore_plan_lift(restore, &lists.import, 0));
    SAID("OutOfRange", "12");
    import_of(world, &lists, 20, 0, 0, 0);
    lists.import.groups_count = 2;
    IS(PAGELIFT_PLAN, pagelift_restore_plan_lift(restore, &lists.import, 0));
    SAID("GroupMissing", "state");
    lists.import.groups_count = 3, lists.groups[0].blocks_count = 1;
    IS(PAGELIFT_PLAN, pagelift_restore_plan_lift(restore, &lists.import, 0));
    lists.groups[0].blocks_count = 3, lists.groups[0].blocks = NULL;
    IS(PAGELIFT_NULL_POINTER, pagelift_restore_plan_lift(restore, &lists.import, 0));
    lists.groups[0].blocks = (uint32_t *)misaligned();
    IS(PAGELIFT_MISALIGNED, pagelift_restore_plan_lift(restore, &lists.import, 0));
    lists.groups[0].blocks = lists.blocks, lists.groups[0].blocks_count = SIZE_MAX / 4;
    IS(PAGELIFT_BAD_VALUE, pagelift_restore_plan_lift(restore, &lists.import, 0));
    lists.groups[0].blocks_count = 3, lists.groups[0].landed = 1;
    IS(PAGELIFT_BAD_VALUE, pagelift_restore_plan_lift(restore, &lists.import, 0));
    lists.groups[0].landed = 2;
    IS(PAGELIFT_BAD_VALUE, pagelift_restore_plan_lift(restore, &lists.import, 0));
    lists.groups[0].landed = 0, lists.import.span.resume_at = 100;
    IS(PAGELIFT_SPAN, pagelift_restore_plan_lift(restore, &lists.import, 0));
    import_of(world, &lists, 20, 0, 0, 0);
    lists.groups[0].group.value = 0;
    IS(PAGELIFT_INVALID_HANDLE, pagelift_restore_plan_lift(restore, &lists.import, 0));
    import_of(world, &lists, 20, 0, 0, 0);
    lists.import.reserved = 1;
    IS(PAGELIFT_BAD_VALUE, pagelift_restore_plan_lift(restore, &lists.import, 0));
    pagelift_lift_progress progress = {0, 0, 2};
    uint64_t budget = 5;
    lists.import.reserved = 0;
    IS(PAGELIFT_BAD_VALUE, pagelift_restore_plan_lift_within(restore, &lists.import, 0, &progress, &budget));
    size_t jobs = 9;
    OK(pagelift_plan_jobs(restore, &jobs));
    CHECK(jobs == 0);

    uint32_t one = 1, many[] = {1, 1};
    IS(PAGELIFT_WRONG_PLAN, pagelift_write_back_plan_spill(restore, world->main, &one, 1, &one, 1));
    IS(PAGELIFT_WRONG_PLAN, pagelift_write_back_plan_spill(back, world->state, &one, 1, &one, 1));
    IS(PAGELIFT_WRONG_PLAN, pagelift_write_back_plan_checkpoint(back, world->main, 1, 1));
    IS(PAGELIFT_WRONG_PLAN, pagelift_write_back_plan_checkpoint(mirror, world->state, 1, 1));
    IS(PAGELIFT_PLAN, pagelift_write_back_plan_spill(back, world->main, &one, 1, many, 2));
    IS(PAGELIFT_PLAN, pagelift_write_back_plan_spill(back, world->main, many, 2, many, 2));
    IS(PAGELIFT_WRONG_PLAN, pagelift_plan_clear(mirror));
    IS(PAGELIFT_WRONG_PLAN, pagelift_row_plan_clear_bindings(restore));
    pagelift_route_key down;
    OK(pagelift_geometry_lift_route(world->geometry, world->main, &down));
    IS(PAGELIFT_WRONG_PLAN, pagelift_page_plan_gather(back, down, &one, 1, &one, 1));
    IS(PAGELIFT_WRONG_PLAN, pagelift_page_plan_gather(mirror, down, &one, 1, &one, 1));
    IS(PAGELIFT_WRONG_PLAN, pagelift_page_plan_zero(back, down, 1, 0, 1));
    IS(PAGELIFT_PLAN, pagelift_page_plan_zero(restore, down, 1, 7, 2));
    IS(PAGELIFT_WRONG_KIND, pagelift_page_plan_gather(restore, (pagelift_route_key){world->to_compact.value}, &one, 1, &one, 1));

    pagelift_row_binding binding = {.size = sizeof binding, .width = 8, .slots = world->slots_at.address, .capacity = ENTRIES,
                                    .null_page = PAGELIFT_NONE};
    IS(PAGELIFT_WRONG_PLAN, pagelift_mirror_plan_bind(restore, world->main, &binding));
    IS(PAGELIFT_WRONG_PLAN, pagelift_mirror_plan_bind(mirror, world->state, &binding));
    IS(PAGELIFT_WRONG_PLAN, pagelift_row_plan_gather_rows(mirror, world->to_compact, &binding));
    binding.width = 2;
    IS(PAGELIFT_BAD_VALUE, pagelift_mirror_plan_bind(mirror, world->main, &binding));
    binding.width = 8, binding.requests = 3;
    IS(PAGELIFT_BAD_VALUE, pagelift_mirror_plan_bind(mirror, world->main, &binding));
    binding.requests = 0, binding.reserved = 1;
    IS(PAGELIFT_BAD_VALUE, pagelift_mirror_plan_bind(mirror, world->main, &binding));
    binding.reserved = 0, binding.slots += 4;
    IS(PAGELIFT_PLAN, pagelift_mirror_plan_bind(mirror, world->main, &binding));
    binding.slots = 0;
    IS(PAGELIFT_PLAN, pagelift_mirror_plan_bind(mirror, world->main, &binding));
    uint32_t block;
    size_t pending;
    IS(PAGELIFT_PLAN, pagelift_page_map_map(mirror, world->main, PAGES, 0));
    IS(PAGELIFT_PLAN, pagelift_page_map_map(mirror, world->main, 0, BLOCKS));
    IS(PAGELIFT_WRONG_PLAN, pagelift_page_map_map(mirror, world->state, 0, 0));
    IS(PAGELIFT_WRONG_PLAN, pagelift_page_map_map(back, world->main, 0, 0));
    IS(PAGELIFT_WRONG_PLAN, pagelift_page_map_pending(back, &pending));
    IS(PAGELIFT_PLAN, pagelift_page_map_unmap(mirror, world->main, PAGES));
    IS(PAGELIFT_PLAN, pagelift_page_map_map_rows(mirror, world->main, 0, 3, 0, 0));
    IS(PAGELIFT_NULL_POINTER, pagelift_page_map_block_of(mirror, world->main, 0, NULL));
    OK(pagelift_page_map_block_of(mirror, world->main, UINT32_MAX, &block));
    CHECK(block == PAGELIFT_NONE);
    pagelift_digest_number number;
    IS(PAGELIFT_WRONG_PLAN, pagelift_digest_plan_host(restore, world->digest_host, &one, 1, 1, &number));
    OK(pagelift_plan_free(restore));
    OK(pagelift_plan_free(mirror));
    OK(pagelift_plan_free(back));
    IS(PAGELIFT_STALE_HANDLE, pagelift_plan_jobs(back, &jobs));
}

static void launchers(struct world *world) {
    pagelift_plan restore, mirror;
    OK(pagelift_restore_plan_new(world->geometry, NULL, &restore));
    OK(pagelift_mirror_plan_new(world->geometry, NULL, &mirror));
    pagelift_launcher launcher, other;
    pagelift_launcher_options options = {.size = sizeof options, .slots = 0};
    IS(PAGELIFT_LAUNCH, pagelift_launcher_bind(world->backend, world->registry, restore, &options, &launcher));
    SAID("NoSlots", "slot");
    options.slots = 65;
    IS(PAGELIFT_LAUNCH, pagelift_launcher_bind(world->backend, world->registry, restore, &options, &launcher));
    options.slots = 1, options.repeat = 2;
    IS(PAGELIFT_BAD_VALUE, pagelift_launcher_bind(world->backend, world->registry, restore, &options, &launcher));
    pagelift_registry empty;
    OK(pagelift_registry_new(&empty));
    IS(PAGELIFT_REGISTRY, pagelift_launcher_bind(world->backend, empty, restore, NULL, &launcher));
    SAID("Unregistered", "pool `host`");
    OK(pagelift_registry_free(empty));

    OK(pagelift_launcher_bind(world->backend, world->registry, restore, NULL, &launcher));
    pagelift_ticket ticket;
    IS(PAGELIFT_WRONG_PLAN, pagelift_launcher_stage(launcher, mirror, &ticket));
    SAID("Launcher", "another type of plan");
    IS(PAGELIFT_NULL_POINTER, pagelift_launcher_stage(launcher, restore, NULL));
    IS(PAGELIFT_MISALIGNED, pagelift_launcher_stage(launcher, restore, misaligned()));
    IS(PAGELIFT_WRONG_KIND, pagelift_launcher_stage((pagelift_launcher){restore.value}, restore, &ticket));
    IS(PAGELIFT_WRONG_KIND, pagelift_launcher_stage(launcher, (pagelift_plan){launcher.value}, &ticket));
    /* No stream of the CPU's is ever captured, and it has none to give. */
    IS(PAGELIFT_CAPTURE, pagelift_launcher_record(launcher));
    SAID("NotCapturing", "not being captured");
    IS(PAGELIFT_BACKEND, pagelift_launcher_set_stream(launcher, misaligned()));
    SAID("NoStreams", "has no streams");
    /* A larger plan than it was bound for. */
    pagelift_plan_capacity capacity = {.size = sizeof capacity, .jobs = 5000, .list_entries = 8192};
    pagelift_plan large;
    OK(pagelift_restore_plan_new(world->geometry, &capacity, &large));
    IS(PAGELIFT_LAUNCH, pagelift_launcher_stage(launcher, large, &ticket));
    SAID("TableTooSmall", "capacity");
    OK(pagelift_plan_free(large));
    /* A plan of another geometry. */
    struct world second;
    build(&second);
    pagelift_plan foreign;
    OK(pagelift_restore_plan_new(second.geometry, NULL, &foreign));
    IS(PAGELIFT_LAUNCH, pagelift_launcher_stage(launcher, foreign, &ticket));
    SAID("OtherGeometry", "another geometry");
    struct lists lists;
    import_of(world, &lists, 20, 0, 0, 0);
    IS(PAGELIFT_GEOMETRY, pagelift_restore_plan_lift(foreign, &lists.import, 0));
    OK(pagelift_plan_free(foreign));
    /* A mirror plan that another launcher keeps. */
    OK(pagelift_launcher_bind(world->backend, world->registry, mirror, NULL, &other));
    pagelift_launcher newer;
    OK(pagelift_launcher_bind(world->backend, world->registry, mirror, NULL, &newer));
    IS(PAGELIFT_LAUNCH, pagelift_launcher_stage(other, mirror, &ticket));
    SAID("OtherLauncher", "another launcher");
    uint64_t digest;
    IS(PAGELIFT_WRONG_PLAN, pagelift_launcher_digest(newer, ticket, (pagelift_digest_number){0, 0, 0}, &digest));
    OK(pagelift_launcher_free(other));
    OK(pagelift_launcher_free(newer));
    /* An array that is not registered. */
    int64_t slots[4] = {0, 0, 0, 0};
    pagelift_row_binding binding = {.size = sizeof binding, .width = 8, .slots = (uint64_t)(uintptr_t)slots, .capacity = 4,
                                    .null_page = PAGELIFT_NONE};
    OK(pagelift_mirror_plan_bind(mirror, world->main, &binding));
    OK(pagelift_launcher_bind(world->backend, world->registry, mirror, NULL, &other));
    IS(PAGELIFT_REGISTRY, pagelift_launcher_stage(other, mirror, &ticket));
    OK(pagelift_launcher_free(other));

    /* What launchers use is not freed before them; a pool that is released is refused, and nothing is moved. */
    IS(PAGELIFT_IN_USE, pagelift_registry_free(world->registry));
    SAID("InUse", "1 launchers are bound");
    OK(pagelift_restore_plan_lift(restore, &lists.import, 0));
    OK(pagelift_launcher_stage(launcher, restore, &ticket));
    OK(pagelift_registry_release(world->registry, world->device.id));
    IS(PAGELIFT_REGISTRY, pagelift_launcher_launch(launcher));
    SAID("Unregistered", "device");
    IS(PAGELIFT_REGISTRY, pagelift_launcher_stage(launcher, restore, &ticket));
    OK(pagelift_launcher_free(launcher));
    IS(PAGELIFT_STALE_HANDLE, pagelift_launcher_launch(launcher));
    IS(PAGELIFT_STALE_HANDLE, pagelift_launcher_free(launcher));
    IS(PAGELIFT_STALE_HANDLE, pagelift_launcher_wait(launcher));
    OK(pagelift_plan_free(restore));
    OK(pagelift_plan_free(mirror));
    compare_all(world);
    tear_down(&second);
    IS(PAGELIFT_STALE_HANDLE, pagelift_registry_free(second.registry));
}

int main(void) {
    struct world world;
    build(&world);
    pointers(&world);
    sizes(&world);
    memories(&world);
    geometries(&world);
    plans(&world);
    launchers(&world);
    tear_down(&world);
    check_nothing_lives();
    return 0;
}
