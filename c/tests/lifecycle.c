/*
 * A scheduler and a rank in small: a prompt is imported, lifted and generated on from, its rows are mirrored, and its pages sealed. Rows
 * are compared wherever they should be.
 */
#include "check.h"

enum { TOKENS = 4, ROW = 24, BLOCK = TOKENS * ROW, BLOCKS = 12, PAGES = 4, SLOTS = 4, PROMPT = 6, GENERATED = 11, TEXT = 1 << 16 };

static unsigned char host[BLOCKS * BLOCK], pages[PAGES * BLOCK];
static int64_t slots[SLOTS];
static pagelift_lifecycle lifecycle;
static pagelift_runner runner;
/* The JSON of the request, and the names of all effects. */
static char request[256], seen[TEXT];

static void fill(unsigned char *row, uint32_t token) {
    for (uint32_t byte = 0; byte < ROW; ++byte) row[byte] = (unsigned char)(31 * token + byte + 1);
}

static bool is_row(const unsigned char *row, uint32_t token) {
    unsigned char expected[ROW];
    fill(expected, token);
    return memcmp(row, expected, ROW) == 0;
}

/* The end of the JSON value that begins at `at`: no text of these has brackets in it. */
static const char *end_of(const char *at) {
    int depth = 0;
    for (; *at != 0; ++at) {
        if (*at == '{' || *at == '[') ++depth;
        if ((*at == ',' || *at == '}' || *at == ']') && depth == 0) return at;
        if ((*at == '}' || *at == ']') && --depth == 0) return at + 1;
    }
    return at;
}

static void copied(char *to, size_t room, const char *from, const char *end) {
    CHECK((size_t)(end - from) < room);
    memcpy(to, from, (size_t)(end - from));
    to[end - from] = 0;
}

/* The next item of a list, of which `at` is behind the bracket or an item, and is moved on; false at its end. */
static bool next(const char **at, char *item, size_t room) {
    while (**at == ',') ++*at;
    if (**at == ']' || **at == 0) return false;
    const char *end = end_of(*at);
    copied(item, room, *at, end);
    *at = end;
    return true;
}

/* The value of a name in a JSON object, as it is written. */
static void value(const char *object, const char *name, char *found, size_t room) {
    char key[64];
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = strstr(object, key);
    CHECK(at != NULL);
    at += strlen(key);
    copied(found, room, at, end_of(at));
}

static uint32_t number(const char *object, const char *name) {
    char found[256];
    value(object, name, found, sizeof found);
    return (uint32_t)strtoul(found, NULL, 10);
}

/* What is known of the request; asked for with too little room before. */
static void view(char *known, size_t room) {
    size_t needed = 0;
    IS(PAGELIFT_CAPACITY, pagelift_lifecycle_request(lifecycle, request, known, 3, &needed));
    CHECK(needed > 3 && needed < room);
    OK(pagelift_lifecycle_request(lifecycle, request, known, needed, NULL));
    CHECK(strlen(known) + 1 == needed);
}

/* The item of number `index` of a list of the request's. */
static uint32_t block_of(uint32_t index) {
    char known[4096], list[1024], item[64];
    view(known, sizeof known);
    value(known, "blocks", list, sizeof list);
    const char *at = list + 1;
    for (uint32_t place = 0; next(&at, item, sizeof item); ++place) {
        if (place == index) return (uint32_t)strtoul(item, NULL, 10);
    }
    CHECK(false);
    return 0;
}

/* The page at a position: a list of [position, page, state]. */
static uint32_t page_of(uint32_t position) {
    char known[4096], list[1024], item[64];
    view(known, sizeof known);
    value(known, "pages", list, sizeof list);
    const char *at = list + 1;
    while (next(&at, item, sizeof item)) {
        unsigned found, page;
        CHECK(sscanf(item, "[%u,%u", &found, &page) == 2);
        if (found == position) return page;
    }
    CHECK(false);
    return 0;
}

static void apply(const char *event);

/* Does what the last event's effects ask the engine for, and tells the rank its orders. */
static void obey(void) {
    static char text[TEXT], item[4096];
    size_t needed = 0;
    OK(pagelift_lifecycle_effects(lifecycle, text, sizeof text, &needed));
    char name[64];
    bool reads = false;
    const char *at = text + 1;
    while (next(&at, item, sizeof item)) {
        value(item, "effect", name, sizeof name);
        strcat(seen, name);
        if (strcmp(name, "\"admitted\"") == 0) value(item, "request", request, sizeof request);
        if (strcmp(name, "\"read\"") == 0) reads = true;
    }
    OK(pagelift_lifecycle_orders(lifecycle, text, sizeof text, NULL));
    at = text + 1;
    while (next(&at, item, sizeof item)) OK(pagelift_runner_hear(runner, item));
    if (!reads) return;
    /* Another engine's rows land, and holes behind them. */
    for (uint32_t token = 0; token < 2 * TOKENS; ++token) {
        unsigned char *row = host + (size_t)block_of(token / TOKENS) * BLOCK + (size_t)(token % TOKENS) * ROW;
        memset(row, 0xcc, ROW);
        if (token < PROMPT) fill(row, token);
    }
    char event[512];
    snprintf(event, sizeof event, "{\"event\":\"posted\",\"request\":%s,\"ranks\":1,\"each\":1}", request);
    apply(event);
    snprintf(event, sizeof event, "{\"event\":\"read\",\"request\":%s,\"rank\":0,\"part\":0,\"read\":\"landed\"}", request);
    apply(event);
}

static void apply(const char *event) {
    OK(pagelift_lifecycle_apply(lifecycle, event));
    obey();
}

/* A graph that is replayed: here both launches of a step, by a function of the engine's. */
static int32_t refuses(void *user) {
    ++*(int *)user;
    /* What the replay is made with is in use. */
    pagelift_staged staged = {.size = sizeof staged};
    CHECK(pagelift_runner_stage(runner, UINT64_MAX, &staged) == PAGELIFT_BUSY);
    return 7;
}

/* One step, which computes a token where it is told to; events go to the scheduler. */
static void step(bool computes) {
    pagelift_staged staged = {.size = sizeof staged};
    OK(pagelift_runner_stage(runner, UINT64_MAX, &staged));
    CHECK(staged.failed == PAGELIFT_OK);
    OK(pagelift_runner_before_forward(runner));
    for (unsigned entry = 0; entry < SLOTS; ++entry) slots[entry] = -1;
    char known[4096], event[512];
    uint32_t begun = 0;
    if (computes) {
        view(known, sizeof known);
        uint32_t token = number(known, "next_token"), page = page_of(token / TOKENS);
        begun = number(known, "begun");
        /* All rows before it are in the page. */
        for (uint32_t before = token / TOKENS * TOKENS; before < token; ++before) {
            CHECK(is_row(pages + (size_t)page * BLOCK + (size_t)(before % TOKENS) * ROW, before));
        }
        fill(pages + (size_t)page * BLOCK + (size_t)(token % TOKENS) * ROW, token);
        slots[1] = (int64_t)page * TOKENS + token % TOKENS;
    }
    OK(pagelift_runner_after_forward(runner));
    OK(pagelift_runner_wait(runner));
    if (computes) {
        snprintf(event, sizeof event, "{\"event\":\"accept\",\"request\":%s,\"step\":%u,\"tokens\":1}", request, begun);
        apply(event);
    }
    /* What there is no room for is said by the next call. */
    static char text[TEXT], item[4096];
    size_t needed = 0;
    pagelift_status status = pagelift_runner_poll(runner, NULL, 0, &needed);
    CHECK(status == PAGELIFT_CAPACITY && needed >= 3);
    OK(pagelift_runner_poll(runner, text, sizeof text, &needed));
    CHECK(strlen(text) + 1 == needed);
    const char *at = text + 1;
    while (next(&at, item, sizeof item)) apply(item);
}

/* What makes no sense is refused, and changes nothing. */
static void misuse(void) {
    pagelift_staged staged = {.size = sizeof staged};
    char text[64];
    int calls = 0;
    IS(PAGELIFT_BAD_TEXT, pagelift_lifecycle_apply(lifecycle, "{\"event\":\"no such\"}"));
    SAID("BadText", "not an event");
    IS(PAGELIFT_BAD_TEXT, pagelift_lifecycle_apply(lifecycle, "{"));
    IS(PAGELIFT_BAD_TEXT, pagelift_lifecycle_apply(lifecycle, "\xff"));
    IS(PAGELIFT_NULL_POINTER, pagelift_lifecycle_apply(lifecycle, NULL));
    char event[512];
    snprintf(event, sizeof event, "{\"event\":\"begin\",\"request\":%s,\"tokens\":100000}", request);
    IS(PAGELIFT_LIFECYCLE, pagelift_lifecycle_apply(lifecycle, event));
    IS(PAGELIFT_BAD_TEXT, pagelift_runner_hear(runner, "{\"order\":1}"));
    IS(PAGELIFT_BAD_TEXT, pagelift_lifecycle_request(lifecycle, "7", text, sizeof text, NULL));
    IS(PAGELIFT_NULL_POINTER, pagelift_lifecycle_effects(lifecycle, NULL, 8, NULL));
    IS(PAGELIFT_NULL_POINTER, pagelift_runner_stage(runner, 0, NULL));
    IS(PAGELIFT_NULL_POINTER, pagelift_runner_replay(runner, NULL, NULL));
    IS(PAGELIFT_BACKEND, pagelift_runner_replay(runner, refuses, &calls));
    SAID("Backend", "`replay` answered 7");
    CHECK(calls == 1);
    IS(PAGELIFT_CAPTURE, pagelift_runner_record_before_forward(runner));
    IS(PAGELIFT_CAPTURE, pagelift_runner_record_after_forward(runner));
    IS(PAGELIFT_BACKEND, pagelift_runner_set_stream(runner, text));
    OK(pagelift_runner_set_own_stream(runner));
    IS(PAGELIFT_WRONG_KIND, pagelift_runner_stage((pagelift_runner){lifecycle.value}, 0, &staged));
    IS(PAGELIFT_WRONG_KIND, pagelift_lifecycle_users((pagelift_lifecycle){runner.value}, 0, &(uint32_t){0}));
    pagelift_counters counters = {.size = sizeof counters};
    IS(PAGELIFT_BAD_VALUE, pagelift_runner_counters(runner, 3, &counters));
    pagelift_lifecycle_options options = {.size = sizeof options, .ranks = 65, .block_tokens = 4, .requests = 1, .blocks = 1, .pages = 1};
    pagelift_lifecycle other;
    IS(PAGELIFT_LIFECYCLE, pagelift_lifecycle_new(&options, &other));
    options.ranks = 1000;
    IS(PAGELIFT_BAD_VALUE, pagelift_lifecycle_new(&options, &other));
    options.ranks = 1, options.recurrence = 2;
    IS(PAGELIFT_BAD_VALUE, pagelift_lifecycle_new(&options, &other));
    options.size = 4;
    IS(PAGELIFT_WRONG_SIZE, pagelift_lifecycle_new(&options, &other));
}

int main(void) {
    pagelift_backend backend;
    pagelift_registry registry;
    pagelift_geometry_builder builder;
    pagelift_geometry geometry;
    pagelift_layout layout;
    pagelift_region_id ids[3];
    pagelift_region regions[3];
    memset(host, 0xee, sizeof host);
    memset(pages, 0xdd, sizeof pages);
    OK(pagelift_cpu_open(1, &backend));
    OK(pagelift_registry_new(&registry));
    OK(pagelift_registry_adopt(registry, backend, PAGELIFT_MEMORY_HOST, host, sizeof host, &ids[0]));
    OK(pagelift_registry_adopt(registry, backend, PAGELIFT_MEMORY_DEVICE, pages, sizeof pages, &ids[1]));
    OK(pagelift_registry_adopt(registry, backend, PAGELIFT_MEMORY_DEVICE, slots, sizeof slots, &ids[2]));
    for (unsigned at = 0; at < 3; ++at) OK(pagelift_registry_region(registry, ids[at], &regions[at]));
    pagelift_segment segment = {.name = "kv", .offset = PAGELIFT_AFTER, .row_bytes = ROW};
    pagelift_paged_layout_spec rows = {.size = sizeof rows, .block_tokens = TOKENS, .segments = &segment, .segments_count = 1};
    OK(pagelift_paged_layout_new(&rows, &layout));
    OK(pagelift_geometry_builder_new(&builder));
    pagelift_side_spec sides[2];
    uint32_t numbers[BLOCKS];
    for (uint32_t at = 0; at < BLOCKS; ++at) numbers[at] = at;
    for (uint32_t at = 0; at < 2; ++at) {
        pagelift_pool_spec pool = {.size = sizeof pool, .memory = at, .name = at == 0 ? "host" : "device",
                                   .blocks = at == 0 ? BLOCKS : PAGES, .regions = &regions[at], .regions_count = 1};
        pagelift_pool_id id;
        OK(pagelift_geometry_builder_pool(builder, &pool, &id));
        sides[at] = (pagelift_side_spec){.size = sizeof sides[at], .pool = id, .layout = layout, .block_stride = BLOCK,
                                         .layers = &regions[at].address, .layers_count = 1};
    }
    pagelift_group_spec spec = {.size = sizeof spec, .layers = 1, .name = "kv", .lift = PAGELIFT_LIFT_TAIL, .host = &sides[0],
                                .device = &sides[1]};
    pagelift_group_key group;
    OK(pagelift_geometry_builder_group(builder, &spec, &group));
    OK(pagelift_geometry_builder_build(builder, &geometry));

    pagelift_lifecycle_options options = {.size = sizeof options, .ranks = 1, .block_tokens = TOKENS, .requests = 2, .blocks = BLOCKS,
                                          .pages = PAGES, .retries = 1};
    OK(pagelift_lifecycle_new(&options, &lifecycle));
    pagelift_group_frames frames = {.group = group, .blocks = numbers, .blocks_count = BLOCKS, .pages = numbers, .pages_count = PAGES};
    pagelift_runner_options steps = {.size = sizeof steps, .lifecycle = &options, .mode = PAGELIFT_TAIL_ROWS_EXACT, .slots = 4};
    frames.each = 2, frames.reserved = 1;
    IS(PAGELIFT_BAD_VALUE, pagelift_runner_bind(backend, registry, geometry, &frames, 1, &steps, &runner));
    frames.each = 0, frames.reserved = 0, steps.rank = 64;
    IS(PAGELIFT_BAD_VALUE, pagelift_runner_bind(backend, registry, geometry, &frames, 1, &steps, &runner));
    steps.rank = 0, steps.lifecycle = NULL;
    /* What the lifecycle is, is not said twice: no zeros may say something else of it. */
    IS(PAGELIFT_NULL_POINTER, pagelift_runner_bind(backend, registry, geometry, &frames, 1, &steps, &runner));
    pagelift_lifecycle_options zeros = {.size = sizeof zeros};
    steps.lifecycle = &zeros;
    IS(PAGELIFT_PLAN, pagelift_runner_bind(backend, registry, geometry, &frames, 1, &steps, &runner));
    steps.lifecycle = &options, steps.rank = 1;
    IS(PAGELIFT_PLAN, pagelift_runner_bind(backend, registry, geometry, &frames, 1, &steps, &runner));
    SAID("Options", "rank 1 is none of the lifecycle's; expected one of the ranks 0 to 0");
    steps.rank = 0, steps.reserved = 1;
    IS(PAGELIFT_BAD_VALUE, pagelift_runner_bind(backend, registry, geometry, &frames, 1, &steps, &runner));
    steps.reserved = 0;
    IS(PAGELIFT_PLAN, pagelift_runner_bind(backend, registry, geometry, NULL, 0, &steps, &runner));
    OK(pagelift_runner_bind(backend, registry, geometry, &frames, 1, &steps, &runner));
    pagelift_row_binding binding = {.size = sizeof binding, .width = 8, .slots = regions[2].address, .capacity = SLOTS,
                                    .null_page = PAGELIFT_NONE};
    IS(PAGELIFT_IN_USE, pagelift_registry_free(registry));

    apply("{\"event\":\"admit\",\"prompt\":6,\"policy\":\"lift-tail\",\"producer\":true,"
          "\"hashes\":[\"0000000000000001000000000000000a\"]}");
    for (unsigned turn = 0; strstr(seen, "\"lifted\"") == NULL; ++turn) {
        CHECK(turn < 20);
        step(false);
    }
    misuse();
    uint32_t block = PAGELIFT_NONE, users = 0;
    OK(pagelift_lifecycle_find(lifecycle, 1, 10, &block));
    CHECK(block == block_of(0));
    OK(pagelift_lifecycle_users(lifecycle, block, &users));
    CHECK(users == 1);
    OK(pagelift_lifecycle_find(lifecycle, 10, 1, &block));
    CHECK(block == PAGELIFT_NONE);

    char event[512], known[4096];
    for (unsigned token = 0; token < GENERATED; ++token) {
        snprintf(event, sizeof event, "{\"event\":\"begin\",\"request\":%s,\"tokens\":1}", request);
        apply(event);
        if (token == 0) {
            /* Its rows would be nowhere but in its page. */
            pagelift_staged staged = {.size = sizeof staged};
            IS(PAGELIFT_PLAN, pagelift_runner_stage(runner, UINT64_MAX, &staged));
            OK(pagelift_runner_bind_rows(runner, group, &binding));
        }
        step(true);
    }
    for (unsigned turn = 0; turn < 4; ++turn) step(false);
    view(known, sizeof known);
    CHECK(number(known, "next_token") == PROMPT - 1 + GENERATED && number(known, "durable") == PROMPT - 1 + GENERATED);
    CHECK(strstr(seen, "\"seal") != NULL);
    for (uint32_t token = 0; token < PROMPT - 1 + GENERATED; ++token) {
        CHECK(is_row(host + (size_t)block_of(token / TOKENS) * BLOCK + (size_t)(token % TOKENS) * ROW, token));
    }
    pagelift_counters counters = {.size = sizeof counters};
    OK(pagelift_runner_counters(runner, PAGELIFT_LANE_MIRROR, &counters));
    CHECK(counters.rows == GENERATED);
    OK(pagelift_runner_counters(runner, PAGELIFT_LANE_LIFT, &counters));
    CHECK(counters.bytes == (PROMPT - TOKENS) * ROW);

    snprintf(event, sizeof event, "{\"event\":\"finish\",\"request\":%s}", request);
    apply(event);
    bool idle = false, lost = true;
    for (unsigned turn = 0; !idle; ++turn) {
        CHECK(turn < 20);
        step(false);
        OK(pagelift_runner_is_idle(runner, &idle));
    }
    OK(pagelift_runner_is_lost(runner, &lost));
    CHECK(!lost);
    pagelift_lifecycle_room room = {.size = sizeof room};
    OK(pagelift_lifecycle_rooms(lifecycle, &room));
    CHECK(room.requests == 0 && room.free_pages == PAGES && room.available_blocks == BLOCKS && room.free_blocks < BLOCKS);
    OK(pagelift_lifecycle_counters(lifecycle, known, sizeof known, NULL));
    CHECK(strchr(known, '{') != NULL);

    OK(pagelift_runner_free(runner));
    OK(pagelift_lifecycle_free(lifecycle));
    OK(pagelift_geometry_free(geometry));
    OK(pagelift_layout_free(layout));
    OK(pagelift_registry_free(registry));
    OK(pagelift_backend_free(backend));
    check_nothing_lives();
    return 0;
}
