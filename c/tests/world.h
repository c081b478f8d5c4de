/*
 * A small engine's memory and geometry: pages of rows in two segments, a ring and a state, each between a host pool and a device pool
 * that keep them differently. What every byte should be stands beside what it is.
 */
#ifndef WORLD_H
#define WORLD_H

#include "check.h"

enum {
    LAYERS = 3,
    TOKENS = 8, /* of a block and a page */
    K_ROW = 48,
    V_ROW = 16,
    HOST_PAGE = TOKENS * (K_ROW + V_ROW),
    HOST_STRIDE = LAYERS * HOST_PAGE + 32, /* layers of a block lie together, with padding after them */
    DEVICE_PAGE = HOST_PAGE + 64,          /* padded; pages of a layer lie together */
    BLOCKS = 12,
    PAGES = 7,
    RING_SLOTS = 4,
    RING_ROW = 32,
    RING_PAGE = RING_SLOTS * RING_ROW,
    STATE_CONV = 40,
    STATE_TEMPORAL = 64,
    STATE_PAGE = 128,
    STATES = 3, /* blocks and pages of ring and state */
    ENTRIES = 32,
    REQUESTS = 4,
    COMPACT_ROWS = 16,
    COMPACT = COMPACT_ROWS * (K_ROW + V_ROW)
};

/* Memory that was adopted, and what should be in it. */
struct memory {
    unsigned char *bytes, *expected;
    size_t size;
    pagelift_region_id id;
    pagelift_region region;
    pagelift_pool_id pool;
};

struct world {
    pagelift_backend backend;
    pagelift_registry registry;
    struct memory host, device, ring_host, ring_device, state_host, state_device, compact;
    int64_t *slots;
    int32_t *count, *starts, *accepted;
    pagelift_region slots_at, count_at, starts_at, accepted_at;
    pagelift_geometry geometry;
    pagelift_group_key main, ring, state;
    pagelift_route_key across;
    pagelift_compact_route_key to_compact;
    pagelift_digest_key digest_host, digest_device;
};

/* Numbers that are the same in every run. */
static inline uint32_t draw(uint32_t below) {
    static uint64_t state = 0x9e3779b97f4a7c15ull;
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (uint32_t)((state >> 33) % below);
}

/* Poison: no copy may leave any of it where a row should be, nor write over any of it elsewhere. */
static inline void poison(struct memory *memory) {
    for (size_t at = 0; at < memory->size; ++at) memory->bytes[at] = (unsigned char)draw(256);
    memcpy(memory->expected, memory->bytes, memory->size);
}

static inline void *allocated(size_t size) {
    void *start = aligned_alloc(64, (size + 63) / 64 * 64);
    CHECK(start != NULL);
    return start;
}

static inline void adopt(struct world *world, struct memory *memory, uint32_t place, size_t size) {
    memory->bytes = allocated(size);
    memory->expected = allocated(size);
    memory->size = size;
    poison(memory);
    OK(pagelift_registry_adopt(world->registry, world->backend, place, memory->bytes, size, &memory->id));
    OK(pagelift_registry_region(world->registry, memory->id, &memory->region));
    CHECK(memory->region.address == (uint64_t)(uintptr_t)memory->bytes && memory->region.bytes == size);
}

static inline void release(struct memory *memory) {
    free(memory->bytes);
    free(memory->expected);
}

/* Every byte of a memory, against what it should be. */
static inline void compare(const struct memory *memory, const char *name) {
    for (size_t at = 0; at < memory->size; ++at) {
        if (memory->bytes[at] != memory->expected[at]) {
            fprintf(stderr, "byte %zu of %s is %d, expected %d\n", at, name, memory->bytes[at], memory->expected[at]);
            exit(1);
        }
    }
}

static inline void compare_all(const struct world *world) {
    compare(&world->host, "host");
    compare(&world->device, "device");
    compare(&world->ring_host, "ring_host");
    compare(&world->ring_device, "ring_device");
    compare(&world->state_host, "state_host");
    compare(&world->state_device, "state_device");
    compare(&world->compact, "compact");
}

/* Where the reference finds a row of the paged group: segment 0 is k, 1 is v. */
static inline size_t in_page(unsigned segment, unsigned row) {
    return segment == 0 ? (size_t)row * K_ROW : (size_t)TOKENS * K_ROW + (size_t)row * V_ROW;
}

static inline size_t row_bytes(unsigned segment) {
    return segment == 0 ? K_ROW : V_ROW;
}

static inline size_t host_at(unsigned block, unsigned layer, unsigned segment, unsigned row) {
    return (size_t)block * HOST_STRIDE + (size_t)layer * HOST_PAGE + in_page(segment, row);
}

static inline size_t device_at(unsigned page, unsigned layer, unsigned segment, unsigned row) {
    return ((size_t)layer * PAGES + page) * DEVICE_PAGE + in_page(segment, row);
}

static inline pagelift_region array(struct world *world, void *start, size_t size) {
    pagelift_region_id id;
    pagelift_region region;
    OK(pagelift_registry_adopt(world->registry, world->backend, PAGELIFT_MEMORY_DEVICE, start, size, &id));
    OK(pagelift_registry_region(world->registry, id, &region));
    return region;
}

static inline pagelift_pool_id pool(pagelift_geometry_builder builder, struct memory *memory, const char *name, uint32_t place,
                                    uint32_t blocks) {
    pagelift_pool_spec spec = {.size = sizeof spec, .memory = place, .name = name, .blocks = blocks, .regions = &memory->region,
                               .regions_count = 1};
    OK(pagelift_geometry_builder_pool(builder, &spec, &memory->pool));
    return memory->pool;
}

/* One of one layer, in a pool of its own. */
static inline pagelift_side_spec alone(struct memory *memory, pagelift_layout layout, uint64_t page) {
    pagelift_side_spec side = {.size = sizeof side, .pool = memory->pool, .layout = layout, .block_stride = page,
                               .layers = &memory->region.address, .layers_count = 1};
    return side;
}

static inline void build(struct world *world) {
    memset(world, 0, sizeof *world);
    OK(pagelift_cpu_open(2, &world->backend));
    OK(pagelift_registry_new(&world->registry));
    adopt(world, &world->host, PAGELIFT_MEMORY_HOST, (size_t)BLOCKS * HOST_STRIDE);
    adopt(world, &world->device, PAGELIFT_MEMORY_DEVICE, (size_t)LAYERS * PAGES * DEVICE_PAGE);
    adopt(world, &world->ring_host, PAGELIFT_MEMORY_HOST, STATES * RING_PAGE);
    adopt(world, &world->ring_device, PAGELIFT_MEMORY_DEVICE, STATES * RING_PAGE);
    adopt(world, &world->state_host, PAGELIFT_MEMORY_HOST, STATES * STATE_PAGE);
    adopt(world, &world->state_device, PAGELIFT_MEMORY_DEVICE, STATES * STATE_PAGE);
    adopt(world, &world->compact, PAGELIFT_MEMORY_DEVICE, (size_t)LAYERS * COMPACT);
    world->slots = allocated(ENTRIES * sizeof(int64_t));
    world->count = allocated(sizeof(int32_t));
    world->starts = allocated((REQUESTS + 1) * sizeof(int32_t));
    world->accepted = allocated(REQUESTS * sizeof(int32_t));
    world->slots_at = array(world, world->slots, ENTRIES * sizeof(int64_t));
    world->count_at = array(world, world->count, sizeof(int32_t));
    world->starts_at = array(world, world->starts, (REQUESTS + 1) * sizeof(int32_t));
    world->accepted_at = array(world, world->accepted, REQUESTS * sizeof(int32_t));

    pagelift_segment segments[] = {{.name = "k", .offset = PAGELIFT_AFTER, .row_bytes = K_ROW},
                                   {.name = "v", .offset = (uint64_t)TOKENS * K_ROW, .row_bytes = V_ROW}};
    pagelift_paged_layout_spec paged = {.size = sizeof paged, .block_tokens = TOKENS, .segments = segments, .segments_count = 2};
    pagelift_layout on_host, on_device, ring, state, compact;
    OK(pagelift_paged_layout_new(&paged, &on_host));
    OK(pagelift_paged_layout_padded_to(on_host, DEVICE_PAGE, &on_device));
    paged.block_tokens = COMPACT_ROWS;
    segments[1].offset = PAGELIFT_AFTER;
    OK(pagelift_paged_layout_new(&paged, &compact));
    pagelift_ring_layout_spec slots = {.size = sizeof slots, .slots = RING_SLOTS, .slot_bytes = RING_ROW};
    OK(pagelift_ring_layout_new(&slots, &ring));
    pagelift_state_part parts[] = {{.name = "conv", .offset = PAGELIFT_AFTER, .bytes = STATE_CONV},
                                   {.name = "temporal", .offset = PAGELIFT_AFTER, .bytes = STATE_TEMPORAL}};
    pagelift_state_layout_spec states = {.size = sizeof states, .conv_order = PAGELIFT_CONV_ORDER_SD, .page_bytes = STATE_PAGE,
                                         .parts = parts, .parts_count = 2};
    OK(pagelift_state_layout_new(&states, &state));

    pagelift_geometry_builder builder;
    OK(pagelift_geometry_builder_new(&builder));
    pool(builder, &world->host, "host", PAGELIFT_MEMORY_HOST, BLOCKS);
    pool(builder, &world->device, "device", PAGELIFT_MEMORY_DEVICE, PAGES);
    pool(builder, &world->ring_host, "ring host", PAGELIFT_MEMORY_HOST, STATES);
    pool(builder, &world->ring_device, "ring device", PAGELIFT_MEMORY_DEVICE, STATES);
    pool(builder, &world->state_host, "state host", PAGELIFT_MEMORY_HOST, STATES);
    pool(builder, &world->state_device, "state device", PAGELIFT_MEMORY_DEVICE, STATES);
    pool(builder, &world->compact, "compact", PAGELIFT_MEMORY_DEVICE, 1);

    uint64_t offsets[LAYERS], layers[LAYERS], compacts[LAYERS];
    for (unsigned layer = 0; layer < LAYERS; ++layer) {
        offsets[layer] = (uint64_t)layer * HOST_PAGE;
        layers[layer] = world->device.region.address + device_at(0, layer, 0, 0);
        compacts[layer] = world->compact.region.address + (uint64_t)layer * COMPACT;
    }
    pagelift_side_spec host = {.size = sizeof host, .pool = world->host.pool, .layout = on_host, .block_stride = HOST_STRIDE,
                               .extents = &world->host.region.address, .extents_count = 1, .layer_offsets = offsets,
                               .layer_offsets_count = LAYERS};
    pagelift_side_spec device = {.size = sizeof device, .pool = world->device.pool, .layout = on_device,
                                 .block_stride = DEVICE_PAGE, .layers = layers, .layers_count = LAYERS};
    pagelift_group_spec group = {.size = sizeof group, .layers = LAYERS, .name = "main", .landing = PAGELIFT_LANDING_HOST,
                                 .lift = PAGELIFT_LIFT_TAIL, .host = &host, .device = &device};
    OK(pagelift_geometry_builder_group(builder, &group, &world->main));
    host = alone(&world->ring_host, ring, RING_PAGE), device = alone(&world->ring_device, ring, RING_PAGE);
    group.layers = 1, group.name = "ring", group.lift = PAGELIFT_LIFT_STATE;
    OK(pagelift_geometry_builder_group(builder, &group, &world->ring));
    host = alone(&world->state_host, state, STATE_PAGE), device = alone(&world->state_device, state, STATE_PAGE);
    group.name = "state";
    OK(pagelift_geometry_builder_group(builder, &group, &world->state));

    pagelift_side_key pages, blocks, rows;
    OK(pagelift_geometry_builder_main_side(builder, world->main, PAGELIFT_MEMORY_DEVICE, &pages));
    OK(pagelift_geometry_builder_main_side(builder, world->main, PAGELIFT_MEMORY_HOST, &blocks));
    OK(pagelift_geometry_builder_route(builder, pages, pages, &world->across));
    pagelift_side_spec buffer = {.size = sizeof buffer, .pool = world->compact.pool, .layout = compact, .block_stride = COMPACT,
                                 .layers = compacts, .layers_count = LAYERS};
    OK(pagelift_geometry_builder_side(builder, world->main, &buffer, &rows));
    OK(pagelift_geometry_builder_compact_route(builder, blocks, rows, &world->to_compact));
    OK(pagelift_geometry_builder_digest(builder, blocks, &world->digest_host));
    OK(pagelift_geometry_builder_digest(builder, pages, &world->digest_device));
    OK(pagelift_geometry_builder_build(builder, &world->geometry));
    OK(pagelift_layout_free(on_host));
    OK(pagelift_layout_free(on_device));
    OK(pagelift_layout_free(compact));
    OK(pagelift_layout_free(ring));
    OK(pagelift_layout_free(state));
}

/* Frees everything; launchers and plans are gone. */
static inline void tear_down(struct world *world) {
    OK(pagelift_geometry_free(world->geometry));
    OK(pagelift_registry_free(world->registry));
    OK(pagelift_backend_free(world->backend));
    struct memory *all[] = {&world->host,        &world->device,       &world->ring_host, &world->ring_device,
                            &world->state_host, &world->state_device, &world->compact};
    for (size_t at = 0; at < sizeof all / sizeof *all; ++at) release(all[at]);
    free(world->slots);
    free(world->count);
    free(world->starts);
    free(world->accepted);
}

/* An import of all three groups. `lists` has room for BLOCKS and two more. */
struct lists {
    uint32_t blocks[BLOCKS], page, ring[2], state[2];
    pagelift_import_group groups[3];
    pagelift_import import;
    pagelift_block_span span;
};

/* A prompt of `tokens` tokens in blocks `first`, `first` + 5 and so on, the tail in `page`; ring and state from `slot` to `slot`. */
static inline void import_of(const struct world *world, struct lists *lists, uint64_t tokens, uint32_t first, uint32_t page,
                             uint32_t slot) {
    memset(lists, 0, sizeof *lists);
    lists->import.size = sizeof lists->import;
    OK(pagelift_prompt_span_new(tokens, PAGELIFT_RECURRENCE_NONE, &lists->import.span));
    OK(pagelift_prompt_span_in_blocks_of(&lists->import.span, TOKENS, &lists->span));
    CHECK(lists->span.endpoints <= BLOCKS);
    for (uint32_t block = 0; block < lists->span.endpoints; ++block) lists->blocks[block] = (first + 5 * block) % BLOCKS;
    lists->page = page;
    lists->ring[0] = lists->state[0] = slot, lists->ring[1] = lists->state[1] = (slot + 1) % STATES;
    pagelift_import_group groups[3] = {
        {.group = world->main, .blocks = lists->blocks, .blocks_count = lists->span.endpoints, .pages = &lists->page, .pages_count = 1},
        {.group = world->ring, .blocks = &lists->ring[0], .blocks_count = 1, .pages = &lists->ring[1], .pages_count = 1},
        {.group = world->state, .blocks = &lists->state[0], .blocks_count = 1, .pages = &lists->state[1], .pages_count = 1},
    };
    memcpy(lists->groups, groups, sizeof groups);
    lists->import.groups = lists->groups;
    lists->import.groups_count = 3;
}

/* What lifting it should do, one row after the other. */
static inline void expect_lift(struct world *world, const struct lists *lists, uint32_t mode) {
    uint32_t block = lists->blocks[lists->span.tail_page];
    for (unsigned layer = 0; layer < LAYERS; ++layer) {
        for (unsigned segment = 0; segment < 2; ++segment) {
            for (unsigned row = 0; row < TOKENS; ++row) {
                unsigned char *to = world->device.expected + device_at(lists->page, layer, segment, row);
                if (row < lists->span.tail_tokens || mode == PAGELIFT_TAIL_ROWS_WHOLE) {
                    memcpy(to, world->host.expected + host_at(block, layer, segment, row), row_bytes(segment));
                } else if (mode == PAGELIFT_TAIL_ROWS_EXACT_ZEROED) {
                    memset(to, 0, row_bytes(segment));
                }
            }
        }
    }
    memcpy(world->ring_device.expected + (size_t)lists->ring[1] * RING_PAGE,
           world->ring_host.expected + (size_t)lists->ring[0] * RING_PAGE, RING_PAGE);
    memcpy(world->state_device.expected + (size_t)lists->state[1] * STATE_PAGE,
           world->state_host.expected + (size_t)lists->state[0] * STATE_PAGE, STATE_CONV + STATE_TEMPORAL);
}

/* Stages and launches, and says what the launch reported. */
static inline pagelift_report run(pagelift_launcher launcher, pagelift_plan plan) {
    pagelift_ticket ticket;
    OK(pagelift_launcher_stage(launcher, plan, &ticket));
    pagelift_ticket_state state = PAGELIFT_TICKET_STATE_UNKNOWN;
    OK(pagelift_launcher_state(launcher, ticket, &state));
    CHECK(state == PAGELIFT_TICKET_STATE_PENDING);
    OK(pagelift_launcher_launch(launcher));
    OK(pagelift_launcher_wait(launcher));
    bool done = false;
    OK(pagelift_launcher_is_done(launcher, ticket, &done));
    CHECK(done);
    pagelift_report report = {.size = sizeof report};
    OK(pagelift_launcher_report(launcher, ticket, &report));
    return report;
}

#endif
