/*
 * What may be done while streams are captured, and what recorded launchers keep: on a GPU, or over a driver in software. A graph is
 * replayed after all of it, and every byte compared.
 */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>

#include "../check.h"

enum { ROWS = 16, ROW = 64, PAGE = ROWS * ROW, COUNT = 4, BYTES = COUNT * PAGE };

typedef void *handle;
typedef unsigned long long device_address;

static struct {
    int (*init)(unsigned);
    int (*primary_retain)(handle *, int);
    int (*primary_release)(int);
    int (*set_current)(handle);
    int (*alloc)(device_address *, size_t);
    int (*free)(device_address);
    int (*to_device)(device_address, const void *, size_t, handle);
    int (*from_device)(void *, device_address, size_t, handle);
    int (*stream_create)(handle *, unsigned);
    int (*stream_destroy)(handle);
    int (*stream_synchronize)(handle);
    int (*begin_capture)(handle, int);
    int (*end_capture)(handle, handle *);
    int (*instantiate)(handle *, handle, unsigned long long);
    int (*graph_launch)(handle, handle);
    int (*exec_destroy)(handle);
    int (*graph_destroy)(handle);
} cu;

/* Calls of the driver in software since this was last asked; none on a GPU. */
static size_t (*calls)(void);

static void find(void *library, const char *name, void *function) {
    void *found = dlsym(library, name);
    CHECK(found != NULL);
    memcpy(function, &found, sizeof found);
}

static void open_driver(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    CHECK(library != NULL);
    find(library, "cuInit", &cu.init);
    find(library, "cuDevicePrimaryCtxRetain", &cu.primary_retain);
    find(library, "cuDevicePrimaryCtxRelease_v2", &cu.primary_release);
    find(library, "cuCtxSetCurrent", &cu.set_current);
    find(library, "cuMemAlloc_v2", &cu.alloc);
    find(library, "cuMemFree_v2", &cu.free);
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
    void *counted = dlsym(library, "fake_driver_calls");
    memcpy(&calls, &counted, sizeof calls);
}

static handle stream, other;
static pagelift_backend backend;
static pagelift_registry registry;
static pagelift_geometry geometry;
static pagelift_group_key group;
static pagelift_region_id host_id, device_id;
static unsigned char *host;
static device_address device;

static void refused(void) {
    /* What the GPU does not reach is not taken for its memory: a launch that touched it would lose the context. */
    unsigned char *unreached = malloc(BYTES);
    pagelift_region_id none;
    IS(PAGELIFT_REGISTRY, pagelift_registry_adopt(registry, backend, PAGELIFT_MEMORY_DEVICE, unreached, BYTES, &none));
    SAID("NotOnGpu", "GPU");
    free(unreached);
    /* Nor is a pool pinned that there is no room for. */
    size_t count = 0;
    pagelift_host_pool_spec spec = {.size = sizeof spec, .blocks = 2, .block_bytes = 4096, .chunk_bytes = 4096, .threads = 1};
    CHECK(posix_memalign((void **)&unreached, 4096, 2 * 4096) == 0);
    if (calls != NULL) calls();
    IS(PAGELIFT_CAPACITY, pagelift_registry_adopt_pool(registry, backend, &spec, unreached, &none, 1, &count, NULL));
    CHECK(count == 2 && (calls == NULL || calls() == 0));
    free(unreached);
}

static void build(void) {
    pagelift_region regions[2];
    CHECK(posix_memalign((void **)&host, 4096, BYTES) == 0);
    CHECK(cu.alloc(&device, BYTES) == 0);
    OK(pagelift_registry_new(&registry));
    refused();
    OK(pagelift_registry_adopt(registry, backend, PAGELIFT_MEMORY_HOST, host, BYTES, &host_id));
    OK(pagelift_registry_adopt(registry, backend, PAGELIFT_MEMORY_DEVICE, (void *)(uintptr_t)device, BYTES, &device_id));
    OK(pagelift_registry_region(registry, host_id, &regions[0]));
    OK(pagelift_registry_region(registry, device_id, &regions[1]));
    CHECK(regions[1].address == device);
    pagelift_layout layout;
    pagelift_segment segment = {.name = "kv", .offset = PAGELIFT_AFTER, .row_bytes = ROW};
    pagelift_paged_layout_spec rows = {.size = sizeof rows, .block_tokens = ROWS, .segments = &segment, .segments_count = 1};
    OK(pagelift_paged_layout_new(&rows, &layout));
    pagelift_geometry_builder builder;
    OK(pagelift_geometry_builder_new(&builder));
    pagelift_side_spec sides[2];
    for (uint32_t at = 0; at < 2; ++at) {
        pagelift_pool_spec pool = {.size = sizeof pool, .memory = at, .name = at == 0 ? "host" : "device", .blocks = COUNT,
                                   .regions = &regions[at], .regions_count = 1};
        pagelift_pool_id id;
        OK(pagelift_geometry_builder_pool(builder, &pool, &id));
        sides[at] = (pagelift_side_spec){.size = sizeof sides[at], .pool = id, .layout = layout, .block_stride = PAGE,
                                         .layers = &regions[at].address, .layers_count = 1};
    }
    pagelift_group_spec spec = {.size = sizeof spec, .layers = 1, .name = "kv", .lift = PAGELIFT_LIFT_TAIL, .host = &sides[0],
                                .device = &sides[1]};
    OK(pagelift_geometry_builder_group(builder, &spec, &group));
    OK(pagelift_geometry_builder_build(builder, &geometry));
    OK(pagelift_layout_free(layout));
}

/* Gathers block `block` to page `page`, of which `expected` is then what the slab should hold. */
static void plan_gather(pagelift_plan plan, uint32_t block, uint32_t page, unsigned char *expected) {
    pagelift_route_key down;
    OK(pagelift_geometry_lift_route(geometry, group, &down));
    OK(pagelift_plan_clear(plan));
    OK(pagelift_page_plan_gather(plan, down, &block, 1, &page, 1));
    memcpy(expected + (size_t)page * PAGE, host + (size_t)block * PAGE, PAGE);
}

int main(void) {
    handle context, graph, exec;
    open_driver();
    CHECK(cu.init(0) == 0 && cu.primary_retain(&context, 0) == 0 && cu.set_current(context) == 0);
    CHECK(cu.stream_create(&stream, 1) == 0 && cu.stream_create(&other, 1) == 0);
    OK(pagelift_cuda_open(0, &backend));
    pagelift_gpu_facts facts = {.size = sizeof facts};
    OK(pagelift_backend_info(backend, &facts));
    CHECK(facts.multiprocessors > 0 && facts.memory_bytes > 0 && facts.driver_major >= 12);
    build();
    static unsigned char expected[BYTES], found[BYTES];
    for (size_t at = 0; at < BYTES; ++at) host[at] = (unsigned char)(at * 13 + at / 256 + 1), expected[at] = 0x5a;
    CHECK(cu.to_device(device, expected, BYTES, stream) == 0 && cu.stream_synchronize(stream) == 0);

    pagelift_plan plan, second;
    pagelift_launcher launcher, beside;
    OK(pagelift_restore_plan_new(geometry, NULL, &plan));
    OK(pagelift_restore_plan_new(geometry, NULL, &second));
    OK(pagelift_launcher_bind(backend, registry, plan, NULL, &launcher));
    IS(PAGELIFT_CAPTURE, pagelift_launcher_record(launcher));
    SAID("NotCapturing", "not being captured");
    IS(PAGELIFT_BACKEND, pagelift_launcher_set_stream(launcher, (void *)(uintptr_t)2));
    SAID("PerThreadStream", "default stream");
    OK(pagelift_launcher_set_stream(launcher, stream));
    OK(pagelift_launcher_set_stream(launcher, stream));

    /* A capture in the strictest mode: what is refused does not end it, and what is done beside it does not either. */
    pagelift_ticket ticket;
    pagelift_ticket_state state;
    pagelift_region_id region;
    unsigned char bytes[256] = {1};
    CHECK(cu.begin_capture(stream, 0) == 0);
    OK(pagelift_launcher_record(launcher));
    IS(PAGELIFT_CAPTURE, pagelift_launcher_stage(launcher, plan, &ticket));
    SAID("Capturing", "being captured");
    IS(PAGELIFT_CAPTURE, pagelift_launcher_launch(launcher));
    IS(PAGELIFT_CAPTURE, pagelift_launcher_wait(launcher));
    SAID("WaitsForCapture", "end the capture first");
    IS(PAGELIFT_CAPTURE, pagelift_launcher_set_stream(launcher, other));
    OK(pagelift_launcher_state(launcher, (pagelift_ticket){1, 1}, &state));
    OK(pagelift_registry_allocate(registry, backend, PAGELIFT_MEMORY_DEVICE, 4096, &region));
    /* Bytes are waited for, and the registry's launches are on a stream that cannot be. */
    IS(PAGELIFT_CAPTURE, pagelift_registry_write(registry, region, 0, bytes, sizeof bytes));
    IS(PAGELIFT_CAPTURE, pagelift_registry_read(registry, region, 0, bytes, sizeof bytes));
    OK(pagelift_launcher_bind(backend, registry, second, NULL, &beside));
    OK(pagelift_launcher_set_stream(beside, other));
    plan_gather(second, 0, 1, expected);
    OK(pagelift_launcher_stage(beside, second, &ticket));
    OK(pagelift_launcher_launch(beside));
    OK(pagelift_launcher_wait(beside));
    bool done = false;
    OK(pagelift_launcher_is_done(beside, ticket, &done));
    CHECK(done);
    OK(pagelift_launcher_free(beside));
    CHECK(cu.end_capture(stream, &graph) == 0 && graph != NULL);
    CHECK(cu.instantiate(&exec, graph, 0) == 0);

    /* Two plans by one graph, and a replay without one, which does nothing. */
    for (uint32_t round = 0; round < 2; ++round) {
        plan_gather(plan, 3 - round, 2 * round, expected);
        OK(pagelift_launcher_stage(launcher, plan, &ticket));
        OK(pagelift_launcher_is_done(launcher, ticket, &done));
        CHECK(!done);
        CHECK(cu.graph_launch(exec, stream) == 0 && cu.graph_launch(exec, stream) == 0);
        CHECK(cu.stream_synchronize(stream) == 0);
        OK(pagelift_launcher_is_done(launcher, ticket, &done));
        CHECK(done);
    }
    CHECK(cu.from_device(found, device, BYTES, stream) == 0 && cu.stream_synchronize(stream) == 0);
    CHECK(memcmp(found, expected, BYTES) == 0);

    OK(pagelift_registry_write(registry, region, 7, bytes, sizeof bytes));
    OK(pagelift_registry_read(registry, region, 7, found, sizeof bytes));
    CHECK(memcmp(found, bytes, sizeof bytes) == 0);

    /* While a launcher is in a graph nothing is released; then it is. */
    IS(PAGELIFT_IN_USE, pagelift_registry_release(registry, region));
    SAID("InUse", "1 launchers were recorded into graphs");
    IS(PAGELIFT_IN_USE, pagelift_registry_free(registry));
    CHECK(cu.exec_destroy(exec) == 0 && cu.graph_destroy(graph) == 0);
    OK(pagelift_launcher_free(launcher));
    OK(pagelift_registry_release(registry, region));
    OK(pagelift_registry_release(registry, host_id));
    OK(pagelift_registry_free(registry));
    OK(pagelift_plan_free(plan));
    OK(pagelift_plan_free(second));
    OK(pagelift_geometry_free(geometry));
    OK(pagelift_backend_free(backend));
    check_nothing_lives();
    free(host);
    CHECK(cu.free(device) == 0);
    CHECK(cu.stream_destroy(stream) == 0 && cu.stream_destroy(other) == 0 && cu.primary_release(0) == 0);
    puts("verified every byte after captures");
    return 0;
}
