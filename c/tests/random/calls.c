/*
 * Every call of the header, at random and in any order. Whatever it is handed, it answers a status that its description names. One that is
 * not PAGELIFT_OK has written nothing and made nothing, and says why; one that was handed a bad pointer, count or size is not
 * PAGELIFT_OK; and at the end everything can be freed.
 *
 * `cargo xtask test --only c` compares the calls of this file with the header, and makes `documented.inc` of it. In the environment,
 * PAGELIFT_CALLS is how many calls are made, PAGELIFT_SEED what they are drawn with, PAGELIFT_THREADS how many threads share all objects.
 * With --cuda backends are GPUs.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>

#include "structs.h"

enum { ROUND = 4000, THREADS = 16 };

/* What a call may answer, beside what is said of arguments in the header's first comment. */
static const struct {
    const char *call;
    pagelift_status status;
} documented[] = {
#include "documented.inc"
};

static unsigned threads = 1;
/* The call that was made. */
static _Thread_local const char *made;

#define OF(name, kind) ((pagelift_##name){value(kind)})
/* One that may be freed: seldom that at the front. */
#define DEAD(name, kind) ((pagelift_##name){once_in(24) ? value(kind) : known[kind][1 + draw(KNOWN - 1)][0]})
#define NEW(name, kind) OUT_OF(pagelift_##name, kind)
#define GIVEN(name, kind) GIVEN_AT(name, kind, once_in(4) ? draw(KNOWN) : 0)
#define CALL(name, ...) CALL_AS(name, pagelift_##name(__VA_ARGS__))
#define CALL_AS(name, status) case __LINE__: return made = #name, status;

/* What a call that answers no status comes to. */
static pagelift_status answered(bool is_right) {
    return is_right ? PAGELIFT_OK : PAGELIFT_INTERNAL;
}

enum { FIRST = __LINE__ };

/* Makes the call of a line of this file, if there is one. */
static pagelift_status call(int line) {
    switch (line) {
    CALL(cpu_open, once_in(8) ? 1 + draw(2) : (uint32_t)number() | 1025, NEW(backend, BACKEND))
    CALL(cuda_open, below(2), NEW(backend, BACKEND))
    CALL(backend_free, DEAD(backend, BACKEND))
    CALL(backend_name, OF(backend, BACKEND), TOLD)
    CALL(backend_device, OF(backend, BACKEND), TOLD)
    CALL(backend_info, OF(backend, BACKEND), OUT_SIZED(gpu_facts, .multiprocessors = 7))
    CALL(geometry_builder_new, NEW(geometry_builder, BUILDER))
    CALL(geometry_builder_pool, OF(geometry_builder, BUILDER), READ(pool_spec, pool()), NEW(pool_id, POOL))
    CALL(geometry_builder_group, OF(geometry_builder, BUILDER), READ(group_spec, group()), NEW(group_key, KEY_GROUP))
    CALL(geometry_builder_side, OF(geometry_builder, BUILDER), OF(group_key, KEY_GROUP), READ(side_spec, side()), NEW(side_key, SIDE))
    CALL(geometry_builder_main_side, OF(geometry_builder, BUILDER), OF(group_key, KEY_GROUP), below(2), NEW(side_key, SIDE))
    CALL(geometry_builder_route, OF(geometry_builder, BUILDER), OF(side_key, SIDE), OF(side_key, SIDE), NEW(route_key, KEY_ROUTE))
    CALL(geometry_builder_compact_route, OF(geometry_builder, BUILDER), OF(side_key, SIDE), OF(side_key, SIDE), NEW(compact_route_key,
         KEY_COMPACT))
    CALL(geometry_builder_digest, OF(geometry_builder, BUILDER), OF(side_key, SIDE), NEW(digest_key, KEY_DIGEST))
    CALL(geometry_builder_build, DEAD(geometry_builder, BUILDER), NEW(geometry, GEOMETRY))
    CALL(geometry_builder_free, DEAD(geometry_builder, BUILDER))
    CALL(geometry_lift_route, OF(geometry, GEOMETRY), OF(group_key, GROUP), NEW(route_key, ROUTE))
    CALL(geometry_spill_route, OF(geometry, GEOMETRY), OF(group_key, GROUP), NEW(route_key, ROUTE))
    CALL(geometry_block_slots, OF(geometry, GEOMETRY), OF(group_key, GROUP), below(2), OUT_OF(uint64_t, NOTHING))
    CALL(geometry_free, DEAD(geometry, GEOMETRY))
    CALL(live_handles, OUT_OF(uint64_t, NOTHING))
    CALL(launcher_bind, OF(backend, BACKEND), OF(registry, REGISTRY), OF(plan, PLAN), IN_OR_NULL(launcher_options, launching()),
         NEW(launcher, LAUNCHER))
    CALL(launcher_stage, OF(launcher, LAUNCHER), OF(plan, PLAN), NEW(ticket, TICKET))
    CALL(launcher_launch, OF(launcher, LAUNCHER))
    CALL(launcher_record, OF(launcher, LAUNCHER))
    CALL(launcher_set_stream, OF(launcher, LAUNCHER), stream())
    CALL(launcher_set_own_stream, OF(launcher, LAUNCHER))
    CALL(launcher_wait, OF(launcher, LAUNCHER))
    CALL(launcher_state, OF(launcher, LAUNCHER), GIVEN(ticket, TICKET), NEW(ticket_state, NOTHING))
    CALL(launcher_is_done, OF(launcher, LAUNCHER), GIVEN(ticket, TICKET), OUT_OF(bool, NOTHING))
    CALL(launcher_report, OF(launcher, LAUNCHER), GIVEN(ticket, TICKET), OUT_SIZED(report, .bad = 7))
    CALL(launcher_digest, OF(launcher, LAUNCHER), GIVEN(ticket, TICKET), GIVEN(digest_number, DIGEST_NUMBER), OUT_OF(uint64_t, NOTHING))
    CALL(launcher_counters, OF(launcher, LAUNCHER), OUT_SIZED(counters, .reserved = 7))
    CALL(launcher_id, OF(launcher, LAUNCHER), OUT_OF(uint64_t, NOTHING))
    CALL(launcher_free, DEAD(launcher, LAUNCHER))
    CALL(paged_layout_new, READ(paged_layout_spec, paged()), NEW(layout, LAYOUT))
    CALL(paged_layout_mla_bf16, SOME(TOKENS), NEW(layout, LAYOUT))
    CALL(paged_layout_fp8_ds_mla, SOME(TOKENS), NEW(layout, LAYOUT))
    CALL(paged_layout_indexer_fp8, SOME(TOKENS), NEW(layout, LAYOUT))
    CALL(paged_layout_indexer_mxfp4, SOME(TOKENS), NEW(layout, LAYOUT))
    CALL(paged_layout_deepseek_v4, SOME(TOKENS), SOME(576), NEW(layout, LAYOUT))
    CALL(paged_layout_deepseek_v4_1, SOME(TOKENS), NEW(layout, LAYOUT))
    CALL(paged_layout_qsa_main_bf16, SOME(TOKENS), SOME(2), NEW(layout, LAYOUT))
    CALL(paged_layout_qsa_main_fp8, SOME(TOKENS), SOME(2), NEW(layout, LAYOUT))
    CALL(paged_layout_qsa_compressed_bf16, SOME(TOKENS), NEW(layout, LAYOUT))
    CALL(paged_layout_qsa_compressed_fp8, SOME(TOKENS), SOME(132), NEW(layout, LAYOUT))
    CALL(paged_layout_dense, SOME(TOKENS), READ_SIZED(dense_shape, .heads = SOME(1), .dim = SOME(ROW), .value_bytes = SOME(1),
         .order = below(2), .regions = below(2), .scales = below(2)), NEW(layout, LAYOUT))
    CALL(ring_layout_new, READ_SIZED(ring_layout_spec, .slots = SOME(TOKENS), .slot_bytes = SOME(ROW), .slot_padding = SOME(0),
         .page_bytes = mostly(0)), NEW(layout, LAYOUT))
    CALL(ring_layout_qsa, SOME(TOKENS), SOME(0), SOME(ROW), NEW(layout, LAYOUT))
    CALL(state_layout_new, READ(state_layout_spec, states()), NEW(layout, LAYOUT))
    CALL(state_layout_gdn, READ_SIZED(gdn_shape, .conv_dim = SOME(8), .v_heads = SOME(2), .v_dim = SOME(2), .k_dim = SOME(2),
         .spec = SOME(0), .tp = SOME(1)), mostly(0), NEW(layout, LAYOUT))
    CALL(state_layout_ssm, READ_SIZED(ssm_shape, .kernel = SOME(4), .inner = SOME(4), .groups = SOME(1), .state = SOME(4),
         .heads = SOME(1), .head_dim = SOME(4), .spec = SOME(0), .tp = SOME(1)), mostly(0), NEW(layout, LAYOUT))
    CALL(state_layout_ple, READ_SIZED(ple_shape, .kernel = SOME(3), .ngram = SOME(2), .hidden = SOME(4), .hc = SOME(1), .spec = SOME(0)),
         mostly(0), NEW(layout, LAYOUT))
    CALL(layout_info, OF(layout, LAYOUT), OUT_SIZED(layout_facts, .kind = 7))
    CALL(paged_layout_padded_to, OF(layout, LAYOUT), mostly(PAGE), NEW(layout, LAYOUT))
    CALL(layout_free, DEAD(layout, LAYOUT))
    CALL(lifecycle_new, READ(lifecycle_options, living()), NEW(lifecycle, LIFECYCLE))
    CALL(lifecycle_apply, OF(lifecycle, LIFECYCLE), event())
    CALL(lifecycle_effects, OF(lifecycle, LIFECYCLE), TOLD)
    CALL(lifecycle_orders, OF(lifecycle, LIFECYCLE), TOLD)
    CALL(lifecycle_request, OF(lifecycle, LIFECYCLE), some_request(), TOLD)
    CALL(lifecycle_find, OF(lifecycle, LIFECYCLE), mostly(0), below(9), OUT_OF(uint32_t, NOTHING))
    CALL(lifecycle_users, OF(lifecycle, LIFECYCLE), below(BLOCKS), OUT_OF(uint32_t, NOTHING))
    CALL(lifecycle_rooms, OF(lifecycle, LIFECYCLE), OUT_SIZED(lifecycle_room, .reserved = 7))
    CALL(lifecycle_counters, OF(lifecycle, LIFECYCLE), TOLD)
    CALL(lifecycle_free, DEAD(lifecycle, LIFECYCLE))
    CALL(registry_new, NEW(registry, REGISTRY))
    CALL(registry_adopt, OF(registry, REGISTRY), OF(backend, BACKEND), adopted_as(), start(), adopted(), NEW(region_id, REGION))
    CALL(registry_allocate, OF(registry, REGISTRY), OF(backend, BACKEND), below(2), allocated(), NEW(region_id, REGION))
    CALL(registry_adopt_pool, OF(registry, REGISTRY), OF(backend, BACKEND), READ(host_pool_spec, host_pool()), start(), NEW(region_id,
         REGION), SOME(1) != 0, OUT_OF(size_t, NOTHING), OUT_OF(uint32_t, NEEDED))
    CALL(registry_region, OF(registry, REGISTRY), GIVEN(region_id, REGION), NEW(region, PLACE))
    CALL(registry_release, OF(registry, REGISTRY), GIVEN_AT(region_id, REGION, once_in(32) ? 0 : 7))
    CALL(registry_read, OF(registry, REGISTRY), GIVEN(region_id, REGION), mostly(draw(64)), BYTES)
    CALL(registry_write, OF(registry, REGISTRY), GIVEN(region_id, REGION), mostly(draw(64)), BYTES)
    CALL(registry_len, OF(registry, REGISTRY), OUT_OF(size_t, NOTHING))
    CALL(registry_free, DEAD(registry, REGISTRY))
    CALL(page_plan_new, OF(geometry, GEOMETRY), below(3), IN_OR_NULL(plan_capacity, room()), NEW(plan, PLAN))
    CALL(restore_plan_new, OF(geometry, GEOMETRY), IN_OR_NULL(plan_capacity, room()), NEW(plan, PLAN))
    CALL(write_back_plan_new, OF(geometry, GEOMETRY), IN_OR_NULL(plan_capacity, room()), NEW(plan, PLAN))
    CALL(digest_plan_new, OF(geometry, GEOMETRY), IN_OR_NULL(plan_capacity, room()), NEW(plan, PLAN))
    CALL(plan_clear, OF(plan, PLAN))
    CALL(plan_jobs, OF(plan, PLAN), OUT_OF(size_t, NOTHING))
    CALL(plan_bytes, OF(plan, PLAN), OUT_OF(uint64_t, NOTHING))
    CALL(plan_free, DEAD(plan, PLAN))
    CALL(page_plan_gather, OF(plan, PLAN), OF(route_key, ROUTE), LIST(0), LIST(1))
    CALL(page_plan_zero, OF(plan, PLAN), OF(route_key, ROUTE), below(BLOCKS), below(TOKENS), below(TOKENS))
    CALL(restore_plan_lift, OF(plan, PLAN), READ(import, import()), below(3))
    CALL(restore_plan_lift_within, OF(plan, PLAN), READ(import, import()), below(3), CHANGED(lift_progress, .groups = mostly(0),
         .steps = SOME(0), .is_finished = SOME(0)), out(sizeof(uint64_t), _Alignof(uint64_t), NOTHING, &(uint64_t){number()}))
    CALL(restore_plan_lift_reserved, OF(plan, PLAN), OF(reservations, RESERVATIONS), GIVEN(import_id, IMPORT))
    CALL(write_back_plan_spill, OF(plan, PLAN), OF(group_key, GROUP), LIST(0), LIST(1))
    CALL(write_back_plan_checkpoint, OF(plan, PLAN), OF(group_key, GROUP), below(4), below(4))
    CALL(digest_plan_host, OF(plan, PLAN), OF(digest_key, DIGEST), LIST(0), mostly(draw(17)), NEW(digest_number, DIGEST_NUMBER))
    CALL(digest_plan_device, OF(plan, PLAN), OF(digest_key, DIGEST), LIST(0), mostly(draw(17)), NEW(digest_number, DIGEST_NUMBER))
    CALL(reservations_new, OF(geometry, GEOMETRY), room_for(4, 1 << 20), IN_OR_NULL(plan_capacity, room()), NEW(reservations, RESERVATIONS))
    CALL(reservations_reserve, OF(reservations, RESERVATIONS), READ(import, import()), below(3), NEW(import_id, IMPORT))
    CALL(reservations_release, OF(reservations, RESERVATIONS), GIVEN(import_id, IMPORT))
    CALL(reservations_bytes, OF(reservations, RESERVATIONS), GIVEN(import_id, IMPORT), OUT_OF(uint64_t, NOTHING))
    CALL(reservations_contains, OF(reservations, RESERVATIONS), GIVEN(import_id, IMPORT), OUT_OF(bool, NOTHING))
    CALL(reservations_len, OF(reservations, RESERVATIONS), OUT_OF(size_t, NOTHING))
    CALL(reservations_free, DEAD(reservations, RESERVATIONS))
    CALL(row_plan_new, OF(geometry, GEOMETRY), below(3), IN_OR_NULL(row_capacity, rows()), NEW(plan, PLAN))
    CALL(mirror_plan_new, OF(geometry, GEOMETRY), IN_OR_NULL(row_capacity, rows()), NEW(plan, PLAN))
    CALL(row_plan_gather_rows, OF(plan, PLAN), OF(compact_route_key, COMPACT), READ(row_binding, binding()))
    CALL(row_plan_clear_bindings, OF(plan, PLAN))
    CALL(mirror_plan_bind, OF(plan, PLAN), OF(group_key, GROUP), READ(row_binding, binding()))
    CALL(page_map_map, OF(plan, PLAN), OF(group_key, GROUP), below(BLOCKS), below(BLOCKS))
    CALL(page_map_map_rows, OF(plan, PLAN), OF(group_key, GROUP), below(BLOCKS), mostly(0), below(BLOCKS), mostly(0))
    CALL(page_map_unmap, OF(plan, PLAN), OF(group_key, GROUP), below(BLOCKS))
    CALL(page_map_block_of, OF(plan, PLAN), OF(group_key, GROUP), below(BLOCKS), OUT_OF(uint32_t, NOTHING))
    CALL(page_map_pending, OF(plan, PLAN), OUT_OF(size_t, NOTHING))
    CALL(runner_bind, OF(backend, BACKEND), OF(registry, REGISTRY), OF(geometry, GEOMETRY), all_frames(), once_in(8) ? draw(4) : 3,
         READ(runner_options, running()), NEW(runner, RUNNER))
    CALL(runner_bind_rows, OF(runner, RUNNER), OF(group_key, GROUP), READ(row_binding, binding()))
    CALL(runner_hear, OF(runner, RUNNER), order())
    CALL(runner_stage, OF(runner, RUNNER), number(), OUT_SIZED(staged, .failed = 7))
    CALL(runner_before_forward, OF(runner, RUNNER))
    CALL(runner_after_forward, OF(runner, RUNNER))
    CALL(runner_record_before_forward, OF(runner, RUNNER))
    CALL(runner_record_after_forward, OF(runner, RUNNER))
    CALL(runner_poll, OF(runner, RUNNER), TOLD)
    CALL(runner_wait, OF(runner, RUNNER))
    CALL(runner_is_idle, OF(runner, RUNNER), OUT_OF(bool, NOTHING))
    CALL(runner_is_lost, OF(runner, RUNNER), OUT_OF(bool, NOTHING))
    CALL(runner_set_stream, OF(runner, RUNNER), stream())
    CALL(runner_set_own_stream, OF(runner, RUNNER))
    CALL(runner_counters, OF(runner, RUNNER), below(3), OUT_SIZED(counters, .reserved = 7))
    CALL(runner_free, DEAD(runner, RUNNER))
    CALL(prompt_span_new, mostly(draw(40)), below(2), NEW(prompt_span, NOTHING))
    CALL(prompt_span_explicit, mostly(20), mostly(20), mostly(19), NEW(prompt_span, NOTHING))
    CALL(prompt_span_in_blocks_of, READ(prompt_span, span()), mostly(TOKENS), NEW(block_span, NOTHING))
    CALL(decide, below(3), mostly(draw(40)), below(2), mostly(TOKENS), below(4), OUT_SIZED(decision, .pages = 7))
    CALL(last_error, TOLD)
    CALL(last_error_kind, TOLD)
    CALL_AS(runner_replay, replay(OF(runner, RUNNER)))
    CALL_AS(version, answered(strchr(pagelift_version(), '.') != NULL))
    CALL_AS(abi, answered(pagelift_abi() == PAGELIFT_ABI))
    CALL_AS(status_name, answered(pagelift_status_name((int32_t)number()) != NULL))
    default: return made = NULL, PAGELIFT_INTERNAL;
    }
}

enum { LAST = __LINE__ };

static bool is_made(const char *call) {
    return strcmp(made, call) == 0;
}

/* Whether the call frees what it is handed. */
static bool frees(pagelift_status status) {
    const char *last = strrchr(made, '_');
    if (is_made("geometry_builder_build")) return status == PAGELIFT_OK || status == PAGELIFT_GEOMETRY;
    return last != NULL && strcmp(last, "_free") == 0 && status == PAGELIFT_OK;
}

static bool may_answer(pagelift_status status) {
    if (status < PAGELIFT_IN_USE) return true;
    for (size_t at = 0; at < sizeof documented / sizeof *documented; ++at) {
        if (documented[at].status == status && is_made(documented[at].call)) return true;
    }
    return false;
}

static void expect(bool is_so, const char *what, pagelift_status status) {
    if (is_so) return;
    char message[512] = "";
    pagelift_last_error(message, sizeof message, NULL);
    fprintf(stderr, "%s answered %s: %s; last error: %s\n", made, pagelift_status_name(status), what, message);
    abort();
}

static uint64_t live(void) {
    uint64_t count = 0;
    OK(pagelift_live_handles(&count));
    return count;
}

/* Keeps what a call has given, where it is drawn often or seldom. */
static void keep(int kind, unsigned at, const void *given, size_t bytes) {
    uint64_t copy[WORDS] = {0};
    memcpy(copy, given, bytes);
    for (unsigned word = 0; word < WORDS; ++word) known[kind][at][word] = copy[word];
    if (kind >= POOL) return;
    CHECK(my.made_count < MADE);
    my.made[my.made_count].kind = kind;
    my.made[my.made_count++].value = copy[0];
}
#define KEEP(kind, at, given) keep(kind, at, &given, sizeof given)

static void keep_out(const struct out *own) {
    /* How seldom the front is given up; never, where that is 0. */
    static const unsigned front[KINDS] = {[LAYOUT] = 24, [BUILDER] = 24, [PLAN] = 3, [RESERVATIONS] = 4, [LAUNCHER] = 2, [LIFECYCLE] = 12,
                                          [RUNNER] = 3, [POOL] = 2, [KEY_GROUP] = 2, [SIDE] = 2, [KEY_ROUTE] = 2, [KEY_COMPACT] = 2,
                                          [KEY_DIGEST] = 2, [TICKET] = 1, [IMPORT] = 2, [DIGEST_NUMBER] = 1};
    /* Keys that builders give are those of geometries, once these are built. */
    static const int later[KINDS] = {[KEY_GROUP] = GROUP, [KEY_ROUTE] = ROUTE, [KEY_COMPACT] = COMPACT, [KEY_DIGEST] = DIGEST};
    bool is_front = known[own->kind][0][0] == 0 || (front[own->kind] > 0 && once_in(front[own->kind]));
    keep(own->kind, is_front ? 0 : 1 + draw(KNOWN - 1), own->at, own->bytes);
    if (later[own->kind] != 0) keep(later[own->kind], 3 + draw(KNOWN - 3), own->at, own->bytes);
}

/* Makes a call, and holds it to what is said above. */
static bool one_call(void) {
    char before[2][256], after[2][256];
    begin();
    uint64_t lived = threads == 1 ? live() : 0;
    OK(pagelift_last_error(before[0], sizeof *before, NULL));
    OK(pagelift_last_error_kind(before[1], sizeof *before, NULL));
    pagelift_status status = call(FIRST + (int)draw(LAST - FIRST));
    if (made == NULL) return false;
    OK(pagelift_last_error(after[0], sizeof *after, NULL));
    OK(pagelift_last_error_kind(after[1], sizeof *after, NULL));

    expect(may_answer(status), "its description does not name that", status);
    expect(status != PAGELIFT_OK || !my.is_bad, "it was handed a bad pointer, count or size", status);
    expect(threads > 1 || status != PAGELIFT_BUSY, "nobody else is there", status);
    if (strncmp(made, "last_error", 10) == 0 || (status == PAGELIFT_OK && !is_made("runner_stage") && !is_made("runner_replay"))) {
        expect(strcmp(before[0], after[0]) == 0 && strcmp(before[1], after[1]) == 0, "the last error is another", status);
    } else if (status != PAGELIFT_OK) {
        expect(after[0][0] != 0 && after[1][0] != 0, "the last error is empty", status);
    }
    uint64_t given = 0;
    for (const struct out *own = my.outs; own < my.outs + my.outs_count; ++own) {
        if (status == PAGELIFT_OK && own->kind < KINDS) {
            given += own->kind < POOL;
            keep_out(own);
        }
        /* How long a text is, and how many regions there are, is said where there is no room for it. */
        int counts = is_made("registry_adopt_pool") ? NOTHING : NEEDED;
        bool is_count = own->kind == counts && status == PAGELIFT_CAPACITY;
        if (status == PAGELIFT_OK || is_count || own->at == my.shared) continue;
        expect(memcmp(own->at, own->before, own->bytes) == 0, "a result was written", status);
    }
    if (threads == 1) expect(live() == lived + given - frees(status), "another number of objects lives", status);
    return true;
}

/* A small world, in which most calls make sense. */
static void build(void) {
    for (unsigned kind = 0; kind < KINDS; ++kind) {
        for (unsigned at = 0; at < KNOWN; ++at) known[kind][at][0] = 0;
    }
    pagelift_backend backend;
    pagelift_registry registry;
    OK(on_gpu ? pagelift_cuda_open(0, &backend) : pagelift_cpu_open(1, &backend));
    OK(pagelift_registry_new(&registry));
    KEEP(BACKEND, 0, backend);
    KEEP(REGISTRY, 0, registry);
    /* Pools of pages, rings and states, each on the host and on the device; then arrays. */
    pagelift_region places[7];
    for (unsigned at = 0; at < 7; ++at) {
        pagelift_region_id id;
        OK(pagelift_registry_allocate(registry, backend, at % 2, at < 2 ? LAYERS * BLOCKS * PAGE : 4 * PAGE, &id));
        OK(pagelift_registry_region(registry, id, &places[at]));
        KEEP(REGION, at, id);
        KEEP(PLACE, at, places[at]);
    }
    pagelift_segment segment = {.name = "k", .offset = PAGELIFT_AFTER, .row_bytes = ROW};
    pagelift_paged_layout_spec pages = {.size = sizeof pages, .block_tokens = TOKENS, .segments = &segment, .segments_count = 1};
    pagelift_ring_layout_spec slots = {.size = sizeof slots, .slots = TOKENS, .slot_bytes = ROW};
    pagelift_state_part part = {.name = "conv", .offset = PAGELIFT_AFTER, .bytes = STATE};
    pagelift_state_layout_spec state = {.size = sizeof state, .page_bytes = PAGE, .parts = &part, .parts_count = 1};
    pagelift_layout layouts[3];
    OK(pagelift_paged_layout_new(&pages, &layouts[0]));
    OK(pagelift_ring_layout_new(&slots, &layouts[1]));
    OK(pagelift_state_layout_new(&state, &layouts[2]));

    static const char *const names[] = {"main", "ring", "state"}, *const pools[] = {"0", "1", "2", "3", "4", "5"};
    pagelift_geometry_builder builder;
    OK(pagelift_geometry_builder_new(&builder));
    pagelift_group_key groups[3];
    for (unsigned at = 0; at < 3; ++at) {
        uint64_t layers[2][LAYERS];
        pagelift_side_spec sides[2];
        for (uint32_t memory = 0; memory < 2; ++memory) {
            const pagelift_region *place = &places[2 * at + memory];
            pagelift_pool_spec pool = {.size = sizeof pool, .memory = memory, .name = pools[2 * at + memory], .regions = place,
                                       .regions_count = 1, .blocks = at == 0 ? BLOCKS : 4};
            pagelift_pool_id id;
            OK(pagelift_geometry_builder_pool(builder, &pool, &id));
            layers[memory][0] = place->address, layers[memory][1] = place->address + BLOCKS * PAGE;
            sides[memory] = (pagelift_side_spec){.size = sizeof *sides, .pool = id, .layout = layouts[at], .block_stride = PAGE,
                                                 .layers = layers[memory], .layers_count = at == 0 ? LAYERS : 1};
        }
        pagelift_group_spec group = {.size = sizeof group, .layers = at == 0 ? LAYERS : 1, .name = names[at], .host = &sides[0],
                                     .lift = at == 0 ? PAGELIFT_LIFT_TAIL : PAGELIFT_LIFT_STATE, .device = &sides[1]};
        OK(pagelift_geometry_builder_group(builder, &group, &groups[at]));
        KEEP(LAYOUT, at, layouts[at]);
        KEEP(GROUP, at, groups[at]);
    }
    pagelift_side_key side;
    for (uint32_t memory = 0; memory < 2; ++memory) {
        pagelift_digest_key digest;
        OK(pagelift_geometry_builder_main_side(builder, groups[0], memory, &side));
        OK(pagelift_geometry_builder_digest(builder, side, &digest));
        KEEP(DIGEST, memory, digest);
    }
    pagelift_route_key across;
    OK(pagelift_geometry_builder_route(builder, side, side, &across));
    KEEP(ROUTE, 4, across);
    pagelift_geometry geometry;
    OK(pagelift_geometry_builder_build(builder, &geometry));
    KEEP(GEOMETRY, 0, geometry);
    for (unsigned at = 0; at < 2; ++at) {
        pagelift_route_key down, up;
        OK(pagelift_geometry_lift_route(geometry, groups[at], &down));
        OK(pagelift_geometry_spill_route(geometry, groups[at], &up));
        KEEP(ROUTE, 2 * at, down);
        KEEP(ROUTE, 2 * at + 1, up);
    }
    pagelift_lifecycle_options options = {.size = sizeof options, .ranks = 1, .block_tokens = TOKENS, .requests = 4, .blocks = BLOCKS,
                                          .pages = BLOCKS, .retries = 1};
    pagelift_lifecycle lifecycle;
    OK(pagelift_lifecycle_new(&options, &lifecycle));
    KEEP(LIFECYCLE, 0, lifecycle);
}

static pagelift_status free_of(int kind, uint64_t value) {
    switch (kind) {
    case BACKEND: return pagelift_backend_free((pagelift_backend){value});
    case LAYOUT: return pagelift_layout_free((pagelift_layout){value});
    case REGISTRY: return pagelift_registry_free((pagelift_registry){value});
    case BUILDER: return pagelift_geometry_builder_free((pagelift_geometry_builder){value});
    case GEOMETRY: return pagelift_geometry_free((pagelift_geometry){value});
    case PLAN: return pagelift_plan_free((pagelift_plan){value});
    case RESERVATIONS: return pagelift_reservations_free((pagelift_reservations){value});
    case LAUNCHER: return pagelift_launcher_free((pagelift_launcher){value});
    case LIFECYCLE: return pagelift_lifecycle_free((pagelift_lifecycle){value});
    default: return pagelift_runner_free((pagelift_runner){value});
    }
}

/* Frees what this thread has made, of those kinds, unless it was freed before. */
static void free_made(int first, int last) {
    for (unsigned at = 0; at < my.made_count; ++at) {
        if (my.made[at].kind < first || my.made[at].kind > last) continue;
        pagelift_status status = free_of(my.made[at].kind, my.made[at].value);
        CHECK(status == PAGELIFT_OK || status == PAGELIFT_STALE_HANDLE);
    }
}

static unsigned long asked(const char *name, unsigned long otherwise) {
    const char *said = getenv(name);
    return said != NULL ? strtoul(said, NULL, 10) : otherwise;
}

static pthread_barrier_t barrier;
static unsigned long rounds;

static void *calls(void *own) {
    unsigned thread = *(const unsigned *)own;
    my.state = 0x9e3779b97f4a7c15ull * (asked("PAGELIFT_SEED", 1) * THREADS + thread + 1);
    for (unsigned long round = 0; round < rounds; ++round) {
        if (thread == 0) build();
        pthread_barrier_wait(&barrier);
        for (unsigned calls = 0; calls < ROUND;) calls += one_call();
        /* What uses registries goes before these. */
        pthread_barrier_wait(&barrier);
        free_made(LAUNCHER, RUNNER);
        pthread_barrier_wait(&barrier);
        free_made(BACKEND, RESERVATIONS);
        my.made_count = 0;
        pthread_barrier_wait(&barrier);
        if (thread == 0) check_nothing_lives();
    }
    return NULL;
}

int main(int count, char **arguments) {
    on_gpu = count > 1 && strcmp(arguments[1], "--cuda") == 0;
    threads = (unsigned)asked("PAGELIFT_THREADS", 1);
    CHECK(threads > 0 && threads <= THREADS);
    rounds = asked("PAGELIFT_CALLS", 20000) / ROUND / threads + 1;
    CHECK(pthread_barrier_init(&barrier, NULL, threads) == 0);
    pthread_t all[THREADS];
    unsigned numbers[THREADS];
    for (unsigned thread = 0; thread < threads; ++thread) {
        numbers[thread] = thread;
        CHECK(pthread_create(&all[thread], NULL, calls, &numbers[thread]) == 0);
    }
    for (unsigned thread = 0; thread < threads; ++thread) CHECK(pthread_join(all[thread], NULL) == 0);
    return 0;
}
