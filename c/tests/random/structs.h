/* Structs, texts and memory at random, for a world as `calls.c` builds it. */
#ifndef STRUCTS_H
#define STRUCTS_H

#include "draws.h"

enum { TOKENS = 8, ROW = 16, PAGE = TOKENS * ROW, LAYERS = 2, BLOCKS = 8, STATE = 64, ENTRIES = 16 };

static inline pagelift_segment segment(const char *name) {
    return (pagelift_segment){.name = text(name), .offset = once_in(2) ? PAGELIFT_AFTER : mostly(0), .row_bytes = SOME(ROW),
                              .row_stride = once_in(4) ? SOME(ROW) : 0, .region = SOME(0), .reserved = SOME(0)};
}

static inline pagelift_paged_layout_spec paged(void) {
    pagelift_segment segments[2] = {segment("k")};
    uint32_t count = 1 + draw(2);
    if (count == 2) segments[1] = segment("v");
    return SIZED(paged_layout_spec, .block_tokens = SOME(TOKENS), .tokens_per_row = SOME(1), .row_padding = SOME(0),
                 .page_bytes = mostly(0), .segments = spoilt(input(segments, sizeof segments, 8), 8), .segments_count = count);
}

static inline pagelift_state_layout_spec states(void) {
    pagelift_state_part part = {.name = text("conv"), .offset = once_in(2) ? PAGELIFT_AFTER : mostly(0), .bytes = SOME(STATE),
                                .reserved = SOME(0)};
    return SIZED(state_layout_spec, .conv_order = below(3), .page_bytes = mostly(0), .parts = IN(pagelift_state_part, part),
                 .parts_count = 1);
}

static inline const char *some_name(void) {
    static const char *const all[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    return all[draw(8)];
}

/* Where pools and sides lie: in the same memory for a while, so that they fit each other. */
static _Thread_local uint32_t at_place;

static inline pagelift_region place(void) {
    if (once_in(32)) return GIVEN_AT(region, PLACE, draw(KNOWN));
    return (pagelift_region){known[PLACE][at_place][0], known[PLACE][at_place][1]};
}

static inline uint64_t address(void) {
    return place().address + (once_in(2) ? 0 : mostly((uint64_t)draw(4) * ROW));
}

static inline pagelift_pool_spec pool(void) {
    at_place = draw(2);
    pagelift_region region = place();
    return SIZED(pool_spec, .memory = SOME(at_place % 2), .name = text(some_name()), .blocks = below(BLOCKS + 1),
                 .blocks_per_extent = SOME(0), .regions = IN(pagelift_region, region), .regions_count = 1);
}

static inline pagelift_side_spec side(void) {
    uint64_t bases[LAYERS] = {once_in(4) ? address() : place().address, place().address};
    bool layered = !once_in(4);
    const uint64_t *list = layered ? IN(uint64_t, bases[0]) : NULL, *extents = layered ? NULL : IN(uint64_t, bases[1]);
    return SIZED(side_spec, .reserved = SOME(0), .pool = {value(POOL)}, .layout = {once_in(4) ? value(LAYOUT) : known[LAYOUT][0][0]},
                 .block_stride = mostly(PAGE), .layers = list, .layers_count = layered, .extents = extents,
                 .extents_count = layered ? 0 : 1);
}

static inline pagelift_group_spec group(void) {
    return SIZED(group_spec, .layers = SOME(1), .name = text(some_name()), .landing = below(2), .lift = below(4),
                 .host = IN_OR_NULL(side_spec, side()), .device = IN_OR_NULL(side_spec, side()));
}

static inline pagelift_prompt_span span(void) {
    uint64_t prompt = mostly(1 + draw(24)), imported = mostly(prompt);
    return (pagelift_prompt_span){prompt, imported, mostly(prompt - 1)};
}

static inline pagelift_import import(void) {
    pagelift_prompt_span tokens = span();
    size_t blocks = (size_t)(tokens.resume_at / TOKENS) + 1;
    pagelift_import_group groups[3];
    bool is_odd = once_in(4);
    size_t count = is_odd ? 1 + draw(3) : 3;
    static const uint32_t in_order[ITEMS] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (unsigned at = 0; at < 3; ++at) {
        pagelift_import_group *own = &groups[at];
        *own = (pagelift_import_group){.group = {is_odd ? value(GROUP) : known[GROUP][at][0]}, .reserved = SOME(0)};
        own->landed = once_in(16) ? SOME(1) : 0;
        own->blocks = in_order + draw(4), own->pages = in_order + draw(4);
        own->blocks_count = is_odd ? draw(4) : at == 0 && blocks < 4 ? blocks : 1, own->pages_count = is_odd ? draw(4) : 1;
        if (at >= count || !is_odd || !once_in(16)) continue;
        my.is_bad = true;
        if (once_in(2)) own->blocks = NULL, own->blocks_count = 1;
        else own->pages_count = SIZE_MAX;
    }
    return SIZED(import, .reserved = SOME(0), .span = tokens, .groups = spoilt(input(groups, sizeof groups, 8), 8),
                 .groups_count = count);
}

static inline pagelift_row_binding binding(void) {
    return SIZED(row_binding, .width = once_in(2) ? 8 : SOME(4), .slots = address(), .count = once_in(2) ? 0 : address(),
                 .query_starts = once_in(2) ? 0 : address(), .accepted = once_in(2) ? 0 : address(), .capacity = below(ENTRIES),
                 .requests = once_in(2) ? 0 : below(3), .null_page = once_in(2) ? PAGELIFT_NONE : below(BLOCKS), .reserved = SOME(0));
}

/* How much there is room for: little, or more than there may be; what lies between takes long. */
static inline uint32_t room_for(uint32_t right, uint32_t most) {
    const uint32_t odd[] = {0, 1, most + 1, UINT32_MAX};
    return once_in(32) ? odd[draw(4)] : right;
}

static inline pagelift_plan_capacity room(void) {
    return SIZED(plan_capacity, .jobs = room_for(16, 1 << 20), .list_entries = room_for(64, 1 << 24));
}

static inline pagelift_row_capacity rows(void) {
    return SIZED(row_capacity, .jobs = room_for(4, 1 << 16), .changes = room_for(16, 1 << 24));
}

static inline pagelift_group_frames frames(unsigned at) {
    static const uint32_t all[BLOCKS] = {0, 1, 2, 3, 4, 5, 6, 7};
    size_t right = at == 0 ? BLOCKS : 4;
    return (pagelift_group_frames){.group = {once_in(16) ? value(GROUP) : known[GROUP][at][0]},
                                   .blocks = once_in(8) ? my.items[0] : all, .blocks_count = once_in(8) ? draw(BLOCKS) : right,
                                   .pages = once_in(8) ? my.items[1] : all, .pages_count = once_in(8) ? draw(BLOCKS) : right,
                                   .each = SOME(0), .reserved = SOME(0)};
}

static inline pagelift_group_frames *all_frames(void) {
    pagelift_group_frames list[] = {frames(0), frames(1), frames(2)};
    return spoilt(input(list, sizeof list, 8), 8);
}

static inline pagelift_lifecycle_options living(void) {
    return SIZED(lifecycle_options, .ranks = SOME(1), .writers = mostly(0), .block_tokens = SOME(TOKENS), .recurrence = below(2),
                 .requests = room_for(4, 1 << 20), .blocks = room_for(BLOCKS, INT32_MAX), .pages = room_for(BLOCKS, INT32_MAX),
                 .keep = SOME(0), .draft_lag = SOME(0), .retries = SOME(1),
                 .restores = below(3), .positions = SOME(0));
}

static inline pagelift_runner_options running(void) {
    return SIZED(runner_options, .rank = SOME(0), .lifecycle = IN(pagelift_lifecycle_options, living()), .reserved = SOME(0),
                 .mode = below(3), .pages = IN_OR_NULL(plan_capacity, room()), .rows = IN_OR_NULL(row_capacity, rows()),
                 .slots = SOME(2), .lift_workers = SOME(0), .write_back_workers = SOME(0), .mirror_workers = SOME(1));
}

/* A request as JSON has it. */
static inline const char *request(char *to, size_t room) {
    snprintf(to, room, "{\"slot\":%u,\"generation\":%u}", below(4), 1 + below(3));
    return to;
}

static inline const char *event(void) {
    static const char *const fields[] = {
        "\"posted\",\"request\":%s,\"ranks\":1,\"each\":%u",
        "\"read\",\"request\":%s,\"rank\":0,\"part\":0,\"read\":\"landed\"",
        "\"read\",\"request\":%s,\"rank\":%u,\"part\":0,\"read\":{\"failed\":{\"valid\":5}}",
        "\"answer\",\"request\":%s,\"round\":%u,\"rank\":0,\"answer\":\"done\"",
        "\"answer\",\"request\":%s,\"round\":%u,\"rank\":0,\"answer\":\"failed\"",
        "\"begin\",\"request\":%s,\"tokens\":%u",
        "\"accept\",\"request\":%s,\"step\":%u,\"tokens\":1",
        "\"name\",\"request\":%s,\"hash\":\"%x\"",
        "\"mirrored\",\"request\":%s,\"rank\":0,\"step\":%u",
        "\"checkpointed\",\"request\":%s,\"rank\":0,\"pages\":%u",
        "\"spilled\",\"request\":%s,\"rank\":0,\"pages\":%u",
        "\"broken\",\"request\":%s,\"rank\":0",
        "\"finish\",\"request\":%s", "\"abort\",\"request\":%s", "\"preempt\",\"request\":%s", "\"resume\",\"request\":%s,\"behind\":%u",
    };
    char own[64], what[256], json[320];
    snprintf(what, sizeof what, fields[draw(sizeof fields / sizeof *fields)], request(own, sizeof own), below(4));
    if (once_in(4)) {
        snprintf(what, sizeof what, "\"admit\",\"prompt\":%u,\"policy\":\"lift-tail\",\"producer\":%s,\"hashes\":[\"%x\"]", below(30),
                 once_in(2) ? "true" : "false", below(9));
    }
    snprintf(json, sizeof json, "{\"event\":%s}", what);
    return text(json);
}

static inline const char *order(void) {
    static const char *const fields[] = {
        "\"map\",\"request\":%s,\"position\":%u,\"page\":%u,\"block\":%u", "\"release-page\",\"request\":%s,\"page\":%u",
        "\"cancel\",\"request\":%s,\"round\":%u", "\"begin\",\"request\":%s,\"step\":%u,\"from\":%u,\"to\":%u",
        "\"checkpoint\",\"request\":%s,\"position\":%u", "\"spill\",\"request\":%s,\"position\":%u",
        "\"save\",\"request\":%s,\"position\":%u", "\"stop\",\"request\":%s,\"round\":%u",
        "\"lift\",\"request\":%s,\"round\":%u,\"lists\":{\"blocks\":[%u],\"pages\":[[0,%u]],\"state\":0,\"tokens\":5}",
    };
    char own[64], what[256], json[320];
    snprintf(what, sizeof what, fields[draw(sizeof fields / sizeof *fields)], request(own, sizeof own), below(4), below(4), below(4));
    snprintf(json, sizeof json, "{\"order\":%s}", what);
    return text(json);
}

static inline const char *some_request(void) {
    char own[64];
    return text(request(own, sizeof own));
}

/* A replay that calls back: the runner is in use. */
static inline int32_t replayed(void *user) {
    const pagelift_runner *runner = user;
    CHECK(pagelift_runner_wait(*runner) == PAGELIFT_BUSY && pagelift_runner_free(*runner) == PAGELIFT_BUSY);
    return once_in(4);
}

static inline pagelift_status replay(pagelift_runner runner) {
    my.is_bad = once_in(32);
    return pagelift_runner_replay(runner, my.is_bad ? NULL : replayed, &runner);
}

/* A stream: one that is refused, or the default one. */
static inline void *stream(void) {
    return (void *)(uintptr_t)(once_in(2) ? 2 : 0);
}

/* Memory to be adopted: some that is there, or more than there can be. */
static inline size_t adopted(void) {
    const size_t odd[] = {0, SIZE_MAX, (size_t)INT64_MAX + 1};
    return once_in(16) ? odd[draw(3)] : 64u << draw(7);
}

static inline void *start(void) {
    return spoilt(arena + (once_in(2) ? 0 : (size_t)draw(14) * 4096), 1);
}

static inline uint32_t adopted_as(void) {
    return on_gpu ? (once_in(16) ? 2 : 0) : below(2);
}

static inline pagelift_host_pool_spec host_pool(void) {
    return SIZED(host_pool_spec, .blocks = 1 + draw(8), .block_bytes = once_in(16) ? UINT64_MAX / 4 : 64u << draw(7),
                 .chunk_bytes = once_in(2) ? 0 : mostly(4096), .threads = below(3), .reserved = SOME(0));
}

static inline uint64_t allocated(void) {
    const uint64_t odd[] = {0, (uint64_t)1 << 50, UINT64_MAX, UINT64_MAX - 100};
    return once_in(16) ? odd[draw(4)] : 1u + draw(9000);
}

static inline pagelift_launcher_options launching(void) {
    return SIZED(launcher_options, .slots = SOME(2), .workers = SOME(1), .repeat = once_in(8) ? SOME(1) : 0);
}

#endif
