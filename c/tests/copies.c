/* What plans copy: every byte of every pool, against loops over rows. */
#include "world.h"

static pagelift_launcher bound(const struct world *world, pagelift_plan plan) {
    pagelift_launcher launcher;
    OK(pagelift_launcher_bind(world->backend, world->registry, plan, NULL, &launcher));
    return launcher;
}

static void free_both(pagelift_launcher launcher, pagelift_plan plan) {
    OK(pagelift_launcher_free(launcher));
    OK(pagelift_plan_free(plan));
}

static void copy_row(unsigned char *to, const unsigned char *from, unsigned segment) {
    memcpy(to, from, row_bytes(segment));
}

static void lifts(struct world *world) {
    pagelift_plan plan;
    OK(pagelift_restore_plan_new(world->geometry, NULL, &plan));
    pagelift_launcher launcher = bound(world, plan);
    struct lists lists;
    for (uint32_t round = 0; round < 90; ++round) {
        uint32_t mode = round % 3;
        import_of(world, &lists, 1 + draw(BLOCKS * TOKENS), draw(BLOCKS), draw(PAGES), draw(STATES));
        poison(&world->host);
        OK(pagelift_plan_clear(plan));
        OK(pagelift_restore_plan_lift(plan, &lists.import, mode));
        size_t jobs = 0;
        uint64_t bytes = 0;
        OK(pagelift_plan_jobs(plan, &jobs));
        OK(pagelift_plan_bytes(plan, &bytes));
        CHECK(jobs >= 3 && bytes > 0);
        run(launcher, plan);
        expect_lift(world, &lists, mode);
        compare_all(world);
    }
    pagelift_counters counters = {.size = sizeof counters};
    OK(pagelift_launcher_counters(launcher, &counters));
    CHECK(counters.staged == 90 && counters.launches == 90 && counters.done == 90 && counters.superseded == 0);
    CHECK(counters.bytes != PAGELIFT_UNCOUNTED && counters.rows == PAGELIFT_UNCOUNTED && counters.skipped == PAGELIFT_UNCOUNTED);
    free_both(launcher, plan);
}

static void reserved_lifts(struct world *world) {
    pagelift_plan_capacity capacity = {.size = sizeof capacity, .jobs = 16, .list_entries = 64};
    pagelift_reservations reservations;
    OK(pagelift_reservations_new(world->geometry, 2, &capacity, &reservations));
    pagelift_plan plan;
    OK(pagelift_page_plan_new(world->geometry, PAGELIFT_DIRECTION_HOST_TO_DEVICE, &capacity, &plan));
    pagelift_launcher launcher = bound(world, plan);
    struct lists first, second, third;
    import_of(world, &first, 21, 0, 3, 0);
    import_of(world, &second, 7, 11, 4, 1);
    import_of(world, &third, 9, 6, 3, 2);
    pagelift_import_id ids[3];
    OK(pagelift_reservations_reserve(reservations, &first.import, PAGELIFT_TAIL_ROWS_EXACT, &ids[0]));
    IS(PAGELIFT_PLAN, pagelift_reservations_reserve(reservations, &third.import, PAGELIFT_TAIL_ROWS_EXACT, &ids[2]));
    SAID("Reserved", "page 3");
    OK(pagelift_reservations_reserve(reservations, &second.import, PAGELIFT_TAIL_ROWS_EXACT, &ids[1]));
    size_t length = 0;
    OK(pagelift_reservations_len(reservations, &length));
    CHECK(length == 2);
    uint64_t bytes = 0, planned = 0;
    OK(pagelift_reservations_bytes(reservations, ids[0], &bytes));
    OK(pagelift_restore_plan_lift_reserved(plan, reservations, ids[0]));
    OK(pagelift_plan_bytes(plan, &planned));
    CHECK(bytes == planned && bytes == LAYERS * 5 * (K_ROW + V_ROW) + RING_PAGE + STATE_CONV + STATE_TEMPORAL);
    IS(PAGELIFT_PLAN, pagelift_restore_plan_lift_reserved(plan, reservations, ids[0]));
    OK(pagelift_restore_plan_lift_reserved(plan, reservations, ids[1]));
    run(launcher, plan);
    expect_lift(world, &first, PAGELIFT_TAIL_ROWS_EXACT);
    expect_lift(world, &second, PAGELIFT_TAIL_ROWS_EXACT);
    compare_all(world);
    bool contains = false;
    OK(pagelift_reservations_contains(reservations, ids[0], &contains));
    CHECK(contains);
    OK(pagelift_reservations_release(reservations, ids[0]));
    OK(pagelift_reservations_contains(reservations, ids[0], &contains));
    CHECK(!contains);
    IS(PAGELIFT_PLAN, pagelift_reservations_release(reservations, ids[0]));
    SAID("UnknownImport", "import");
    IS(PAGELIFT_PLAN, pagelift_reservations_bytes(reservations, ids[0], &bytes));
    OK(pagelift_plan_clear(plan));
    IS(PAGELIFT_PLAN, pagelift_restore_plan_lift_reserved(plan, reservations, ids[0]));
    OK(pagelift_reservations_release(reservations, ids[1]));
    OK(pagelift_reservations_free(reservations));
    free_both(launcher, plan);
}

static void lifts_by_and_by(struct world *world) {
    pagelift_plan plan;
    OK(pagelift_restore_plan_new(world->geometry, NULL, &plan));
    pagelift_launcher launcher = bound(world, plan);
    struct lists lists;
    import_of(world, &lists, 30, 4, 5, 1);
    poison(&world->host);
    pagelift_lift_progress progress = {0, 0, 0};
    unsigned plans = 0;
    while (!progress.is_finished) {
        uint64_t budget = 1;
        OK(pagelift_plan_clear(plan));
        OK(pagelift_restore_plan_lift_within(plan, &lists.import, PAGELIFT_TAIL_ROWS_WHOLE, &progress, &budget));
        CHECK(budget <= 1);
        run(launcher, plan);
        CHECK(++plans < 10);
    }
    CHECK(plans >= 3);
    expect_lift(world, &lists, PAGELIFT_TAIL_ROWS_WHOLE);
    compare_all(world);
    /* A progress that was made up is an error, or lifts nothing wrong: never a crash. */
    pagelift_lift_progress forged = {UINT64_MAX, UINT32_MAX, 0}, other = {1, UINT32_MAX, 0};
    uint64_t budget = 1000;
    OK(pagelift_plan_clear(plan));
    (void)pagelift_restore_plan_lift_within(plan, &lists.import, PAGELIFT_TAIL_ROWS_WHOLE, &forged, &budget);
    (void)pagelift_restore_plan_lift_within(plan, &lists.import, PAGELIFT_TAIL_ROWS_WHOLE, &other, &budget);
    free_both(launcher, plan);
}

static void writes_back(struct world *world) {
    pagelift_plan plan;
    OK(pagelift_write_back_plan_new(world->geometry, NULL, &plan));
    pagelift_launcher launcher = bound(world, plan);
    poison(&world->device);
    poison(&world->state_device);
    uint32_t pages[] = {6, 0, 3}, blocks[] = {1, 11, 4};
    OK(pagelift_write_back_plan_spill(plan, world->main, pages, 3, blocks, 3));
    OK(pagelift_write_back_plan_checkpoint(plan, world->state, 2, 0));
    run(launcher, plan);
    for (unsigned list = 0; list < 3; ++list) {
        for (unsigned layer = 0; layer < LAYERS; ++layer) {
            for (unsigned segment = 0; segment < 2; ++segment) {
                for (unsigned row = 0; row < TOKENS; ++row) {
                    copy_row(world->host.expected + host_at(blocks[list], layer, segment, row),
                             world->device.expected + device_at(pages[list], layer, segment, row), segment);
                }
            }
        }
    }
    memcpy(world->state_host.expected, world->state_device.expected + 2 * STATE_PAGE, STATE_CONV + STATE_TEMPORAL);
    compare_all(world);
    free_both(launcher, plan);
}

static void gathers(struct world *world) {
    /* Down, with rows that are zeroed. */
    pagelift_plan plan;
    OK(pagelift_page_plan_new(world->geometry, PAGELIFT_DIRECTION_HOST_TO_DEVICE, NULL, &plan));
    pagelift_launcher launcher = bound(world, plan);
    pagelift_route_key down, up;
    OK(pagelift_geometry_lift_route(world->geometry, world->main, &down));
    OK(pagelift_geometry_spill_route(world->geometry, world->main, &up));
    uint32_t blocks[] = {7, 2}, pages[] = {5, 1};
    OK(pagelift_page_plan_gather(plan, down, blocks, 2, pages, 2));
    OK(pagelift_page_plan_zero(plan, down, 4, 2, 3));
    run(launcher, plan);
    for (unsigned layer = 0; layer < LAYERS; ++layer) {
        for (unsigned segment = 0; segment < 2; ++segment) {
            for (unsigned row = 0; row < TOKENS; ++row) {
                for (unsigned list = 0; list < 2; ++list) {
                    copy_row(world->device.expected + device_at(pages[list], layer, segment, row),
                             world->host.expected + host_at(blocks[list], layer, segment, row), segment);
                }
                if (row >= 2 && row < 5) memset(world->device.expected + device_at(4, layer, segment, row), 0, row_bytes(segment));
            }
        }
    }
    compare_all(world);
    IS(PAGELIFT_WRONG_PLAN, pagelift_page_plan_gather(plan, up, pages, 2, blocks, 2));
    free_both(launcher, plan);

    /* On the device. */
    OK(pagelift_page_plan_new(world->geometry, PAGELIFT_DIRECTION_DEVICE_TO_DEVICE, NULL, &plan));
    launcher = bound(world, plan);
    poison(&world->device);
    uint32_t from[] = {0, 6}, to[] = {2, 3};
    OK(pagelift_page_plan_gather(plan, world->across, from, 2, to, 2));
    run(launcher, plan);
    for (unsigned list = 0; list < 2; ++list) {
        for (unsigned layer = 0; layer < LAYERS; ++layer) {
            for (unsigned segment = 0; segment < 2; ++segment) {
                for (unsigned row = 0; row < TOKENS; ++row) {
                    copy_row(world->device.expected + device_at(to[list], layer, segment, row),
                             world->device.expected + device_at(from[list], layer, segment, row), segment);
                }
            }
        }
    }
    compare_all(world);
    free_both(launcher, plan);
}

/* Drafts of several requests, of which some were accepted; padding, pages without a mirror, and entries that make no sense. */
static void mirrors(struct world *world) {
    pagelift_row_capacity capacity = {.size = sizeof capacity, .jobs = 2, .changes = 64};
    pagelift_plan plan;
    OK(pagelift_mirror_plan_new(world->geometry, &capacity, &plan));
    pagelift_row_binding binding = {.size = sizeof binding,
                                    .width = 8,
                                    .slots = world->slots_at.address,
                                    .count = world->count_at.address,
                                    .query_starts = world->starts_at.address,
                                    .accepted = world->accepted_at.address,
                                    .capacity = ENTRIES,
                                    .requests = REQUESTS,
                                    .null_page = 6};
    OK(pagelift_mirror_plan_bind(plan, world->main, &binding));
    pagelift_launcher launcher = bound(world, plan);
    int map[PAGES];
    for (unsigned page = 0; page < PAGES; ++page) map[page] = -1;
    OK(pagelift_page_map_map(plan, world->main, 0, 9));
    OK(pagelift_page_map_map(plan, world->main, 2, 0));
    OK(pagelift_page_map_map_rows(plan, world->main, 5, 0, 4, 0));
    map[0] = 9, map[2] = 0, map[5] = 4;
    size_t pending = 0;
    OK(pagelift_page_map_pending(plan, &pending));
    CHECK(pending == 3);
    uint32_t block = 0;
    OK(pagelift_page_map_block_of(plan, world->main, 2, &block));
    CHECK(block == 0);
    OK(pagelift_page_map_block_of(plan, world->main, 1, &block));
    CHECK(block == PAGELIFT_NONE);
    uint64_t rows = 0, skipped = 0, bad = 0;
    for (unsigned round = 0; round < 60; ++round) {
        if (round == 30) {
            OK(pagelift_page_map_unmap(plan, world->main, 0));
            OK(pagelift_page_map_map(plan, world->main, 1, 9));
            map[0] = -1, map[1] = 9;
        }
        poison(&world->device);
        int32_t tokens = 0;
        for (unsigned request = 0; request < REQUESTS; ++request) {
            world->starts[request] = tokens;
            int32_t own = (int32_t)draw(5);
            world->accepted[request] = (int32_t)draw((uint32_t)own + 1);
            tokens += own;
        }
        world->starts[REQUESTS] = tokens;
        world->count[0] = tokens;
        /* Each token has a slot of its own; what is behind the last is never read. */
        bool used[PAGES * TOKENS] = {false};
        for (unsigned entry = 0; entry < ENTRIES; ++entry) {
            world->slots[entry] = (int64_t)1 << 40;
            if (entry >= (unsigned)tokens) continue;
            uint32_t slot = draw(PAGES * TOKENS);
            while (used[slot]) slot = (slot + 1) % (PAGES * TOKENS);
            used[slot] = true;
            uint32_t kind = draw(8);
            world->slots[entry] = kind == 0 ? -1 : (int64_t)slot + (kind == 1 ? PAGES * TOKENS : 0);
        }
        pagelift_report expected = {.size = sizeof expected};
        for (unsigned request = 0; request < REQUESTS; ++request) {
            for (int32_t token = world->starts[request]; token < world->starts[request + 1]; ++token) {
                int64_t slot = world->slots[token];
                bool accepted = token - world->starts[request] < world->accepted[request];
                if (!accepted || slot < 0) {
                    ++expected.skipped;
                } else if (slot >= PAGES * TOKENS) {
                    ++expected.bad;
                } else if (slot / TOKENS == 6 || map[slot / TOKENS] < 0) {
                    ++expected.skipped;
                } else {
                    ++expected.rows;
                    for (unsigned layer = 0; layer < LAYERS; ++layer) {
                        for (unsigned segment = 0; segment < 2; ++segment) {
                            unsigned row = (unsigned)(slot % TOKENS);
                            copy_row(world->host.expected + host_at((unsigned)map[slot / TOKENS], layer, segment, row),
                                     world->device.expected + device_at((unsigned)(slot / TOKENS), layer, segment, row), segment);
                        }
                    }
                }
            }
        }
        pagelift_report found = run(launcher, plan);
        CHECK(found.rows == expected.rows && found.skipped == expected.skipped && found.bad == expected.bad);
        rows += found.rows, skipped += found.skipped, bad += found.bad;
        compare_all(world);
    }
    CHECK(rows > 50 && skipped > 50 && bad > 3);
    pagelift_counters counters = {.size = sizeof counters};
    OK(pagelift_launcher_counters(launcher, &counters));
    CHECK(counters.rows == rows && counters.skipped == skipped && counters.bad == bad && counters.bytes == PAGELIFT_UNCOUNTED);
    uint64_t bytes;
    IS(PAGELIFT_WRONG_PLAN, pagelift_plan_bytes(plan, &bytes));
    OK(pagelift_row_plan_clear_bindings(plan));
    free_both(launcher, plan);
}

static void gathers_rows(struct world *world) {
    pagelift_plan plan;
    OK(pagelift_row_plan_new(world->geometry, PAGELIFT_DIRECTION_HOST_TO_DEVICE, NULL, &plan));
    pagelift_row_binding list = {.size = sizeof list, .width = 8, .slots = world->slots_at.address, .capacity = COMPACT_ROWS,
                                 .null_page = PAGELIFT_NONE};
    OK(pagelift_row_plan_gather_rows(plan, world->to_compact, &list));
    pagelift_launcher launcher = bound(world, plan);
    unsigned copied = 0;
    for (unsigned entry = 0; entry < COMPACT_ROWS; ++entry) {
        world->slots[entry] = draw(5) == 0 ? -1 : (int64_t)draw(BLOCKS * TOKENS);
        if (world->slots[entry] < 0) continue;
        ++copied;
        unsigned row = (unsigned)(world->slots[entry] % TOKENS), block = (unsigned)(world->slots[entry] / TOKENS);
        for (unsigned layer = 0; layer < LAYERS; ++layer) {
            unsigned char *to = world->compact.expected + (size_t)layer * COMPACT;
            copy_row(to + (size_t)entry * K_ROW, world->host.expected + host_at(block, layer, 0, row), 0);
            copy_row(to + COMPACT_ROWS * K_ROW + (size_t)entry * V_ROW, world->host.expected + host_at(block, layer, 1, row), 1);
        }
    }
    CHECK(run(launcher, plan).rows == copied);
    compare_all(world);
    free_both(launcher, plan);
}

static void digests(struct world *world) {
    /* The same 13 rows on both sides. */
    uint32_t blocks[] = {8, 3}, pages[] = {1, 4};
    for (unsigned list = 0; list < 2; ++list) {
        for (unsigned layer = 0; layer < LAYERS; ++layer) {
            for (unsigned segment = 0; segment < 2; ++segment) {
                for (unsigned row = 0; row < (list == 0 ? 8u : 5u); ++row) {
                    copy_row(world->device.bytes + device_at(pages[list], layer, segment, row),
                             world->host.bytes + host_at(blocks[list], layer, segment, row), segment);
                }
            }
        }
    }
    memcpy(world->device.expected, world->device.bytes, world->device.size);
    pagelift_plan plan;
    OK(pagelift_digest_plan_new(world->geometry, NULL, &plan));
    pagelift_launcher launcher = bound(world, plan);
    pagelift_digest_number on_host, on_device, fewer;
    OK(pagelift_digest_plan_host(plan, world->digest_host, blocks, 2, 13, &on_host));
    OK(pagelift_digest_plan_device(plan, world->digest_device, pages, 2, 13, &on_device));
    OK(pagelift_digest_plan_device(plan, world->digest_device, pages, 2, 12, &fewer));
    pagelift_ticket ticket;
    OK(pagelift_launcher_stage(launcher, plan, &ticket));
    uint64_t host = 0, device = 1, less = 1;
    IS(PAGELIFT_LAUNCH, pagelift_launcher_digest(launcher, ticket, on_host, &host));
    SAID("DigestsPending", "not complete");
    OK(pagelift_launcher_launch(launcher));
    OK(pagelift_launcher_digest(launcher, ticket, on_host, &host));
    OK(pagelift_launcher_digest(launcher, ticket, on_device, &device));
    OK(pagelift_launcher_digest(launcher, ticket, fewer, &less));
    CHECK(host == device && host != less);
    pagelift_digest_number forged = {on_host.filling, 0, UINT32_MAX}, backwards = {on_host.filling, 7, 2};
    IS(PAGELIFT_LAUNCH, pagelift_launcher_digest(launcher, ticket, forged, &host));
    (void)pagelift_launcher_digest(launcher, ticket, backwards, &host);
    forged.filling += 100;
    IS(PAGELIFT_LAUNCH, pagelift_launcher_digest(launcher, ticket, forged, &host));
    IS(PAGELIFT_PLAN, pagelift_digest_plan_host(plan, world->digest_device, blocks, 2, 13, &on_host));
    IS(PAGELIFT_PLAN, pagelift_digest_plan_host(plan, world->digest_host, blocks, 2, 17, &on_host));
    /* One other byte is another digest. */
    world->device.bytes[device_at(4, 2, 1, 4)] ^= 1;
    OK(pagelift_launcher_stage(launcher, plan, &ticket));
    OK(pagelift_launcher_launch(launcher));
    OK(pagelift_launcher_digest(launcher, ticket, on_device, &less));
    CHECK(less != device);
    world->device.bytes[device_at(4, 2, 1, 4)] ^= 1;
    compare_all(world);
    free_both(launcher, plan);
}

/* Plans that are staged one over the other, and one that repeats. */
static void tickets(struct world *world) {
    pagelift_plan plan;
    OK(pagelift_restore_plan_new(world->geometry, NULL, &plan));
    pagelift_launcher_options options = {.size = sizeof options, .slots = 2, .workers = 1, .repeat = 0};
    pagelift_launcher launcher;
    OK(pagelift_launcher_bind(world->backend, world->registry, plan, &options, &launcher));
    uint64_t id = 0;
    OK(pagelift_launcher_id(launcher, &id));
    pagelift_ticket first, second, third;
    OK(pagelift_launcher_stage(launcher, plan, &first));
    OK(pagelift_launcher_stage(launcher, plan, &second));
    CHECK(first.launcher == id && first.number == 1 && second.number == 2);
    IS(PAGELIFT_RING_FULL, pagelift_launcher_stage(launcher, plan, &third));
    SAID("RingFull", "2 staging slots");
    pagelift_report report = {.size = sizeof report};
    IS(PAGELIFT_LAUNCH, pagelift_launcher_report(launcher, first, &report));
    OK(pagelift_launcher_launch(launcher));
    pagelift_ticket_state state;
    OK(pagelift_launcher_state(launcher, first, &state));
    CHECK(state == PAGELIFT_TICKET_STATE_SUPERSEDED);
    OK(pagelift_launcher_state(launcher, second, &state));
    CHECK(state == PAGELIFT_TICKET_STATE_DONE);
    OK(pagelift_launcher_state(launcher, (pagelift_ticket){id, 99}, &state));
    CHECK(state == PAGELIFT_TICKET_STATE_UNKNOWN);
    OK(pagelift_launcher_state(launcher, (pagelift_ticket){id + 1, 2}, &state));
    CHECK(state == PAGELIFT_TICKET_STATE_UNKNOWN);
    OK(pagelift_launcher_set_own_stream(launcher));
    free_both(launcher, plan);
}

/* Memory of the registry's own, and a pool in chunks. */
static void registries(void) {
    pagelift_backend backend;
    pagelift_registry registry;
    OK(pagelift_cpu_open(1, &backend));
    OK(pagelift_registry_new(&registry));
    pagelift_region_id own;
    pagelift_region region;
    OK(pagelift_registry_allocate(registry, backend, PAGELIFT_MEMORY_DEVICE, 5000, &own));
    OK(pagelift_registry_region(registry, own, &region));
    CHECK(region.bytes >= 5000 && region.address % 4096 == 0);
    unsigned char written[300], found[302];
    for (unsigned at = 0; at < sizeof written; ++at) written[at] = (unsigned char)(at * 3 + 1);
    OK(pagelift_registry_write(registry, own, 100, written, sizeof written));
    memset(found, 0xee, sizeof found);
    OK(pagelift_registry_read(registry, own, 99, found, sizeof found));
    CHECK(found[0] == 0 && memcmp(found + 1, written, sizeof written) == 0 && found[301] == 0);
    OK(pagelift_registry_read(registry, own, 0, NULL, 0));

    unsigned char *pool = aligned_alloc(4096, 10 * 8192);
    CHECK(pool != NULL);
    memset(pool, 5, 10 * 8192);
    pagelift_host_pool_spec spec = {.size = sizeof spec, .blocks = 10, .block_bytes = 8192, .chunk_bytes = 3 * 8192, .threads = 2};
    pagelift_region_id chunks[4];
    size_t count = 0, regions = 0;
    uint32_t each = 0;
    IS(PAGELIFT_CAPACITY, pagelift_registry_adopt_pool(registry, backend, &spec, pool, chunks, 3, &count, &each));
    CHECK(count == 4 && each == 0);
    count = 0;
    IS(PAGELIFT_CAPACITY, pagelift_registry_adopt_pool(registry, backend, &spec, pool, NULL, 0, &count, NULL));
    CHECK(count == 4);
    OK(pagelift_registry_adopt_pool(registry, backend, &spec, pool, chunks, 4, &count, &each));
    CHECK(count == 4 && each == 3);
    OK(pagelift_registry_region(registry, chunks[3], &region));
    CHECK(region.bytes == 8192 && region.address == (uint64_t)(uintptr_t)(pool + 9 * 8192));
    OK(pagelift_registry_len(registry, &regions));
    CHECK(regions == 5);
    OK(pagelift_registry_release(registry, chunks[1]));
    IS(PAGELIFT_REGISTRY, pagelift_registry_release(registry, chunks[1]));
    SAID("Released", "released");
    OK(pagelift_registry_len(registry, &regions));
    CHECK(regions == 4);
    OK(pagelift_registry_free(registry));
    OK(pagelift_backend_free(backend));
    free(pool);
}

int main(void) {
    struct world world;
    build(&world);
    lifts(&world);
    reserved_lifts(&world);
    lifts_by_and_by(&world);
    writes_back(&world);
    gathers(&world);
    mirrors(&world);
    gathers_rows(&world);
    digests(&world);
    tickets(&world);
    tear_down(&world);
    registries();
    check_nothing_lives();
    return 0;
}
