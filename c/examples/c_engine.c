/*
 * An engine's loop in small, in C: two prompts arrive in host blocks, the partly filled last block of each is lifted into a page, tokens
 * are generated, and their rows are mirrored. At the end every byte of both pools is compared with a reference that knows nothing of
 * pagelift.
 *
 *   c_engine           on the CPU
 *   c_engine --cuda    on the first GPU: both launches are nodes of captured graphs, which are replayed for each prompt and each step
 *
 * The driver's library is opened here as pagelift opens it, so that this builds without CUDA's headers and starts without a driver.
 */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pagelift.h"

enum {
    LAYERS = 8,
    BLOCK_TOKENS = 64,
    ROW = 1152,
    PAGE = BLOCK_TOKENS * ROW, /* of one layer */
    BLOCKS = 24,
    PAGES = 6,
    STEP_TOKENS = 4, /* room of the slot mapping */
    PROMPTS = 2,
    GENERATED = 20
};

static void fail(const char *what) {
    fprintf(stderr, "c_engine: %s\n", what);
    exit(1);
}

/* Ends the program with what pagelift says. */
static void need(pagelift_status status, const char *what) {
    if (status == PAGELIFT_OK) return;
    char text[512];
    pagelift_last_error(text, sizeof text, NULL);
    fprintf(stderr, "c_engine: %s: %s: %s\n", what, pagelift_status_name(status), text);
    exit(1);
}
#define NEED(call) need(call, #call)

/* ---- the driver, as far as an engine needs it ---- */

typedef int result;
typedef void *handle;
typedef unsigned long long device_address;

static struct {
    result (*init)(unsigned);
    result (*device_get)(int *, int);
    result (*primary_retain)(handle *, int);
    result (*primary_release)(int);
    result (*set_current)(handle);
    result (*alloc)(device_address *, size_t);
    result (*free)(device_address);
    result (*host_alloc)(void **, size_t, unsigned);
    result (*host_free)(void *);
    result (*to_device)(device_address, const void *, size_t, handle);
    result (*from_device)(void *, device_address, size_t, handle);
    result (*stream_create)(handle *, unsigned);
    result (*stream_destroy)(handle);
    result (*stream_synchronize)(handle);
    result (*begin_capture)(handle, int);
    result (*end_capture)(handle, handle *);
    result (*instantiate)(handle *, handle, unsigned long long);
    result (*graph_launch)(handle, handle);
    result (*exec_destroy)(handle);
    result (*graph_destroy)(handle);
} cu;

static int cuda;
static int device;
static handle context, stream;

static void needs(result code, const char *what) {
    if (code == 0) return;
    fprintf(stderr, "c_engine: %s failed with %d\n", what, code);
    exit(1);
}
#define CU(call) needs(cu.call, #call)

static void find(void *library, const char *name, void *function) {
    void *found = dlsym(library, name);
    if (found == NULL) fail(name);
    memcpy(function, &found, sizeof found);
}

static void open_driver(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == NULL) fail("there is no libcuda.so.1; leave --cuda out");
    find(library, "cuInit", &cu.init);
    find(library, "cuDeviceGet", &cu.device_get);
    find(library, "cuDevicePrimaryCtxRetain", &cu.primary_retain);
    find(library, "cuDevicePrimaryCtxRelease_v2", &cu.primary_release);
    find(library, "cuCtxSetCurrent", &cu.set_current);
    find(library, "cuMemAlloc_v2", &cu.alloc);
    find(library, "cuMemFree_v2", &cu.free);
    find(library, "cuMemHostAlloc", &cu.host_alloc);
    find(library, "cuMemFreeHost", &cu.host_free);
    find(library, "cuMemcpyHtoDAsync_v2", &cu.to_device);
    find(library, "cuMemcpyDtoHAsync_v2", &cu.from_device);
    find(library, "cuStreamCreate", &cu.stream_create);
    find(library, "cuStreamDestroy_v2", &cu.stream_destroy);
    find(library, "cuStreamSynchronize", &cu.stream_synchronize);
    find(library, "cuStreamBeginCapture_v2", &cu.begin_capture);
    find(library, "cuStreamEndCapture", &cu.end_capture);
    find(library, "cuGraphInstantiateWithFlags", &cu.instantiate);
    find(library, "cuGraphLaunch", &cu.graph_launch);
    find(library, "cuGraphExecDestroy", &cu.exec_destroy);
    find(library, "cuGraphDestroy", &cu.graph_destroy);
    CU(init(0));
    CU(device_get(&device, 0));
    /* The primary context is the one that pagelift works in. */
    CU(primary_retain(&context, device));
    CU(set_current(context));
    CU(stream_create(&stream, 1 /* not blocking */));
}

/* ---- memory of the engine's: pools, and the arrays of a step ---- */

static void *host_alloc(size_t bytes) {
    void *start = NULL;
    if (cuda) {
        CU(host_alloc(&start, bytes, 3 /* portable, mapped */));
    } else {
        start = malloc(bytes);
    }
    if (start == NULL) fail("out of memory");
    return start;
}

static void host_free(void *start) {
    if (cuda) {
        CU(host_free(start));
    } else {
        free(start);
    }
}

static void *device_alloc(size_t bytes) {
    if (!cuda) return host_alloc(bytes);
    device_address address = 0;
    CU(alloc(&address, bytes));
    return (void *)(uintptr_t)address;
}

static void device_free(void *start) {
    if (cuda) {
        CU(free((device_address)(uintptr_t)start));
    } else {
        free(start);
    }
}

/* Both in the order of the stream. */
static void to_device(void *to, const void *from, size_t bytes) {
    if (cuda) {
        CU(to_device((device_address)(uintptr_t)to, from, bytes, stream));
    } else {
        memcpy(to, from, bytes);
    }
}

static void from_device(void *to, const void *from, size_t bytes) {
    if (cuda) {
        CU(from_device(to, (device_address)(uintptr_t)from, bytes, stream));
        CU(stream_synchronize(stream));
    } else {
        memcpy(to, from, bytes);
    }
}

/* ---- where things lie, and what they hold: the reference goes by these alone ---- */

/* The host pool keeps all layers of a block together, the slab all pages of a layer. */
static size_t host_at(unsigned block, unsigned layer, unsigned row) {
    return ((size_t)block * LAYERS + layer) * PAGE + (size_t)row * ROW;
}

static size_t slab_at(unsigned page, unsigned layer, unsigned row) {
    return ((size_t)layer * PAGES + page) * PAGE + (size_t)row * ROW;
}

static unsigned char content(unsigned prompt, unsigned layer, unsigned token, unsigned byte) {
    unsigned long long mix = (((prompt * 31ull + layer) * 65537ull + token) * 1315423911ull + byte) * 2654435761ull;
    return (unsigned char)(mix >> 24);
}

static void fill_row(unsigned char *row, unsigned prompt, unsigned layer, unsigned token) {
    for (unsigned byte = 0; byte < ROW; ++byte) row[byte] = content(prompt, layer, token, byte);
}

static const size_t HOST_BYTES = (size_t)BLOCKS * LAYERS * PAGE, SLAB_BYTES = (size_t)LAYERS * PAGES * PAGE;

/* ---- pagelift ---- */

static pagelift_region_id adopt(pagelift_registry registry, pagelift_backend backend, uint32_t memory, void *start,
                                size_t bytes, pagelift_region *region) {
    pagelift_region_id id;
    NEED(pagelift_registry_adopt(registry, backend, memory, start, bytes, &id));
    NEED(pagelift_registry_region(registry, id, region));
    return id;
}

/* A graph with one launch in it. */
struct graph {
    handle graph, exec;
};

static struct graph capture(pagelift_launcher launcher, pagelift_plan plan) {
    struct graph made = {NULL, NULL};
    if (!cuda) return made;
    NEED(pagelift_launcher_set_stream(launcher, stream));
    CU(begin_capture(stream, 0 /* global */));
    NEED(pagelift_launcher_record(launcher));
    /* What no graph may hold is refused meanwhile, and the capture goes on. */
    pagelift_ticket ticket;
    if (pagelift_launcher_stage(launcher, plan, &ticket) != PAGELIFT_CAPTURE) fail("a plan was staged in a capture");
    if (pagelift_launcher_launch(launcher) != PAGELIFT_CAPTURE) fail("a launch was made in a capture");
    if (pagelift_launcher_wait(launcher) != PAGELIFT_CAPTURE) fail("a capture was waited for");
    CU(end_capture(stream, &made.graph));
    CU(instantiate(&made.exec, made.graph, 0));
    return made;
}

/* A launch, or a replay of the graph that it is in. */
static void run(pagelift_launcher launcher, struct graph graph) {
    if (cuda) {
        CU(graph_launch(graph.exec, stream));
    } else {
        NEED(pagelift_launcher_launch(launcher));
    }
}

static void destroy(struct graph graph) {
    if (!cuda) return;
    CU(exec_destroy(graph.exec));
    CU(graph_destroy(graph.graph));
}

/* An engine looks at tickets in later steps; this one waits. */
static pagelift_report done(pagelift_launcher launcher, pagelift_ticket ticket) {
    if (cuda) CU(stream_synchronize(stream));
    bool is_done = false;
    NEED(pagelift_launcher_is_done(launcher, ticket, &is_done));
    if (!is_done) fail("a plan that ran is not done");
    pagelift_report report = {.size = sizeof report};
    NEED(pagelift_launcher_report(launcher, ticket, &report));
    return report;
}

/* The first byte that differs, or -1. */
static long long difference(const unsigned char *found, const unsigned char *expected, size_t bytes) {
    for (size_t at = 0; at < bytes; ++at) {
        if (found[at] != expected[at]) return (long long)at;
    }
    return -1;
}

int main(int arguments, char **words) {
    cuda = arguments == 2 && strcmp(words[1], "--cuda") == 0;
    if (arguments > 1 && !cuda) fail("usage: c_engine [--cuda]");
    if (pagelift_abi() != PAGELIFT_ABI) fail("the library is of another interface than the header");
    if (cuda) open_driver();

    pagelift_backend backend;
    if (cuda) {
        NEED(pagelift_cuda_open(0, &backend));
    } else {
        NEED(pagelift_cpu_open(0, &backend));
    }

    /* Memory: the engine's, in both pools something in every byte that no lift may touch. */
    unsigned char *host = host_alloc(HOST_BYTES), *slab = device_alloc(SLAB_BYTES);
    unsigned char *host_expected = malloc(HOST_BYTES), *slab_expected = malloc(SLAB_BYTES);
    if (host_expected == NULL || slab_expected == NULL) fail("out of memory");
    for (size_t at = 0; at < HOST_BYTES; ++at) host[at] = host_expected[at] = (unsigned char)(at * 7 + 1);
    for (size_t at = 0; at < SLAB_BYTES; ++at) slab_expected[at] = (unsigned char)(at * 11 + 3);
    to_device(slab, slab_expected, SLAB_BYTES);
    int64_t *slots = device_alloc(STEP_TOKENS * sizeof *slots), *slots_staging = host_alloc(STEP_TOKENS * sizeof *slots);
    unsigned char *row_staging = host_alloc((size_t)LAYERS * ROW);

    pagelift_registry registry;
    NEED(pagelift_registry_new(&registry));
    pagelift_region host_region, slab_region, slots_region;
    adopt(registry, backend, PAGELIFT_MEMORY_HOST, host, HOST_BYTES, &host_region);
    adopt(registry, backend, PAGELIFT_MEMORY_DEVICE, slab, SLAB_BYTES, &slab_region);
    adopt(registry, backend, PAGELIFT_MEMORY_DEVICE, slots, STEP_TOKENS * sizeof *slots, &slots_region);

    /* Geometry: one group, its blocks packed on the host, its layers apart on the device. */
    pagelift_layout layout;
    NEED(pagelift_paged_layout_mla_bf16(BLOCK_TOKENS, &layout));
    pagelift_geometry_builder builder;
    NEED(pagelift_geometry_builder_new(&builder));
    pagelift_pool_spec host_pool = {.size = sizeof host_pool, .memory = PAGELIFT_MEMORY_HOST, .name = "host", .blocks = BLOCKS,
                                    .regions = &host_region, .regions_count = 1};
    pagelift_pool_spec slab_pool = {.size = sizeof slab_pool, .memory = PAGELIFT_MEMORY_DEVICE, .name = "slab", .blocks = PAGES,
                                    .regions = &slab_region, .regions_count = 1};
    pagelift_pool_id blocks_id, pages_id;
    NEED(pagelift_geometry_builder_pool(builder, &host_pool, &blocks_id));
    NEED(pagelift_geometry_builder_pool(builder, &slab_pool, &pages_id));
    uint64_t layer_offsets[LAYERS], layer_addresses[LAYERS];
    for (unsigned layer = 0; layer < LAYERS; ++layer) {
        layer_offsets[layer] = host_at(0, layer, 0);
        layer_addresses[layer] = slab_region.address + slab_at(0, layer, 0);
    }
    pagelift_side_spec on_host = {.size = sizeof on_host, .pool = blocks_id, .layout = layout, .block_stride = (uint64_t)LAYERS * PAGE,
                                  .extents = &host_region.address, .extents_count = 1,
                                  .layer_offsets = layer_offsets, .layer_offsets_count = LAYERS};
    pagelift_side_spec on_device = {.size = sizeof on_device, .pool = pages_id, .layout = layout, .block_stride = PAGE,
                                    .layers = layer_addresses, .layers_count = LAYERS};
    pagelift_group_spec main_spec = {.size = sizeof main_spec, .layers = LAYERS, .name = "main", .landing = PAGELIFT_LANDING_HOST,
                                     .lift = PAGELIFT_LIFT_TAIL, .host = &on_host, .device = &on_device};
    pagelift_group_key main_group;
    NEED(pagelift_geometry_builder_group(builder, &main_spec, &main_group));
    pagelift_geometry geometry;
    NEED(pagelift_geometry_builder_build(builder, &geometry));
    NEED(pagelift_layout_free(layout));

    /* A plan and a launcher for what comes before a forward, and for what comes after it. */
    pagelift_plan restore, mirror;
    NEED(pagelift_restore_plan_new(geometry, NULL, &restore));
    NEED(pagelift_mirror_plan_new(geometry, NULL, &mirror));
    pagelift_row_binding binding = {.size = sizeof binding, .width = sizeof *slots, .slots = slots_region.address,
                                    .capacity = STEP_TOKENS, .null_page = PAGELIFT_NONE};
    NEED(pagelift_mirror_plan_bind(mirror, main_group, &binding));
    pagelift_launcher lifts, mirrors;
    NEED(pagelift_launcher_bind(backend, registry, restore, NULL, &lifts));
    NEED(pagelift_launcher_bind(backend, registry, mirror, NULL, &mirrors));
    struct graph lift_graph = capture(lifts, restore), mirror_graph = capture(mirrors, mirror);

    pagelift_reservations reservations;
    NEED(pagelift_reservations_new(geometry, PROMPTS, NULL, &reservations));

    static const uint64_t tokens[PROMPTS] = {7 * BLOCK_TOKENS + 19, 3 * BLOCK_TOKENS + 41};
    uint64_t mirrored = 0;
    for (unsigned prompt = 0; prompt < PROMPTS; ++prompt) {
        /* What is received, and where decoding goes on. */
        pagelift_decision decision = {.size = sizeof decision};
        NEED(pagelift_decide(PAGELIFT_POLICY_LIFT_TAIL, tokens[prompt], PAGELIFT_RECURRENCE_NONE, BLOCK_TOKENS, PAGES, &decision));
        uint32_t list[BLOCKS];
        for (uint32_t block = 0; block < decision.blocks.endpoints; ++block) list[block] = (block * 5 + prompt * 11 + 2) % BLOCKS;
        uint32_t page = 4 - 3 * prompt, tail_block = list[decision.blocks.tail_page];

        pagelift_import_group group = {.group = main_group, .blocks = list, .blocks_count = decision.blocks.endpoints, .pages = &page,
                                       .pages_count = 1};
        pagelift_import import = {.size = sizeof import, .span = decision.span, .groups = &group, .groups_count = 1};
        pagelift_import_id id;
        NEED(pagelift_reservations_reserve(reservations, &import, PAGELIFT_TAIL_ROWS_EXACT, &id));

        /* The transport lands the prompt's rows. */
        for (unsigned token = 0; token < decision.span.imported_tokens; ++token) {
            for (unsigned layer = 0; layer < LAYERS; ++layer) {
                size_t at = host_at(list[token / BLOCK_TOKENS], layer, token % BLOCK_TOKENS);
                fill_row(host + at, prompt, layer, token);
                fill_row(host_expected + at, prompt, layer, token);
            }
        }

        /* The step that begins it: plan, stage, launch or replay. */
        pagelift_ticket ticket;
        NEED(pagelift_plan_clear(restore));
        NEED(pagelift_restore_plan_lift_reserved(restore, reservations, id));
        NEED(pagelift_launcher_stage(lifts, restore, &ticket));
        run(lifts, lift_graph);
        done(lifts, ticket);
        for (unsigned row = 0; row < decision.blocks.tail_tokens; ++row) {
            for (unsigned layer = 0; layer < LAYERS; ++layer) {
                unsigned token = decision.blocks.tail_page * BLOCK_TOKENS + row;
                fill_row(slab_expected + slab_at(page, layer, row), prompt, layer, token);
            }
        }

        /* Decode: the first step computes the prompt's last token again. */
        NEED(pagelift_page_map_map(mirror, main_group, page, tail_block));
        for (unsigned step = 0; step < GENERATED; ++step) {
            unsigned token = (unsigned)decision.span.resume_at + step, row = token % BLOCK_TOKENS;
            NEED(pagelift_launcher_stage(mirrors, mirror, &ticket));
            /* The forward writes a row in each layer, and says in which slot. Other entries are padding. */
            for (unsigned layer = 0; layer < LAYERS; ++layer) {
                fill_row(row_staging + (size_t)layer * ROW, prompt + 100, layer, token);
                to_device(slab + slab_at(page, layer, row), row_staging + (size_t)layer * ROW, ROW);
                fill_row(slab_expected + slab_at(page, layer, row), prompt + 100, layer, token);
                fill_row(host_expected + host_at(tail_block, layer, row), prompt + 100, layer, token);
            }
            for (unsigned entry = 0; entry < STEP_TOKENS; ++entry) slots_staging[entry] = -1;
            slots_staging[step % STEP_TOKENS] = (int64_t)page * BLOCK_TOKENS + row;
            to_device(slots, slots_staging, STEP_TOKENS * sizeof *slots);
            run(mirrors, mirror_graph);
            pagelift_report report = done(mirrors, ticket);
            if (report.rows != 1 || report.skipped != STEP_TOKENS - 1 || report.bad != 0) fail("a step's row was not mirrored");
            mirrored += report.rows;
        }
        NEED(pagelift_page_map_unmap(mirror, main_group, page));
        NEED(pagelift_reservations_release(reservations, id));
    }

    /* Every byte of both pools. */
    unsigned char *slab_found = malloc(SLAB_BYTES);
    if (slab_found == NULL) fail("out of memory");
    from_device(slab_found, slab, SLAB_BYTES);
    long long wrong = difference(slab_found, slab_expected, SLAB_BYTES);
    if (wrong >= 0) {
        fprintf(stderr, "c_engine: byte %lld of the slab is wrong\n", wrong);
        return 1;
    }
    wrong = difference(host, host_expected, HOST_BYTES);
    if (wrong >= 0) {
        fprintf(stderr, "c_engine: byte %lld of the host pool is wrong\n", wrong);
        return 1;
    }
    pagelift_counters counters = {.size = sizeof counters};
    NEED(pagelift_launcher_counters(lifts, &counters));
    if (counters.done != PROMPTS) fail("a lift is missing");
    char name[256] = "the CPU";
    if (cuda) NEED(pagelift_backend_device(backend, name, sizeof name, NULL));
    printf("verified every byte of %zu after %llu lifts of %llu bytes and %llu mirrored rows%s on %s, pagelift %s\n",
           HOST_BYTES + SLAB_BYTES, (unsigned long long)counters.done, (unsigned long long)counters.bytes,
           (unsigned long long)mirrored, cuda ? ", replayed from graphs," : "", name, pagelift_version());

    /* Graphs go before launchers, launchers before the registry, and that before the memory. */
    destroy(lift_graph);
    destroy(mirror_graph);
    NEED(pagelift_launcher_free(lifts));
    NEED(pagelift_launcher_free(mirrors));
    NEED(pagelift_reservations_free(reservations));
    NEED(pagelift_plan_free(restore));
    NEED(pagelift_plan_free(mirror));
    NEED(pagelift_geometry_free(geometry));
    NEED(pagelift_registry_free(registry));
    NEED(pagelift_backend_free(backend));
    uint64_t live = 1;
    NEED(pagelift_live_handles(&live));
    if (live != 0) fail("a handle was not freed");
    free(slab_found);
    free(host_expected);
    free(slab_expected);
    host_free(host);
    host_free(slots_staging);
    host_free(row_staging);
    device_free(slab);
    device_free(slots);
    if (cuda) {
        CU(stream_destroy(stream));
        CU(primary_release(device));
    }
    return 0;
}
