/*
 * Arguments at random, as a careless program would hand them over: mostly right, so that calls get somewhere, and now and then null,
 * misaligned, stale, of another kind, made up, out of range or too long. What callers promise is kept: an array has as many items as its
 * count says, or the count is one that no array can have.
 */
#ifndef DRAWS_H
#define DRAWS_H

#include <stdatomic.h>

#include "../check.h"

/* What calls give and take: handles, keys, and the like. `NAMED` are those that geometries are asked for, `KEY` those of builders. */
enum kind {
    BACKEND, LAYOUT, REGISTRY, BUILDER, GEOMETRY, PLAN, RESERVATIONS, LAUNCHER, LIFECYCLE, RUNNER, /* objects */
    POOL, KEY_GROUP, SIDE, KEY_ROUTE, KEY_COMPACT, KEY_DIGEST, GROUP, ROUTE, COMPACT, DIGEST,     /* keys */
    TICKET, IMPORT, REGION, PLACE, DIGEST_NUMBER,                                                  /* structs */
    KINDS, NEEDED, NOTHING
};

enum { KNOWN = 8, WORDS = 3, ITEMS = 16, LISTS = 3, MADE = 8192, ROOM = 96, OUTS = 4, LONG = 1 << 14, INPUTS = 1 << 13 };

/* What calls have given, whether it lives or not. Threads share it. */
static _Atomic uint64_t known[KINDS][KNOWN][WORDS];

/* Room for what a call writes, and what was there before. */
struct out {
    unsigned char *at;
    size_t bytes;
    int kind;
    unsigned char before[ROOM];
};

struct list {
    const uint32_t *items;
    size_t count;
    bool is_bad;
};

/* What one thread draws with, and has drawn for a call. */
static _Thread_local struct {
    uint64_t state;
    /* A pointer, a count or a size of this call's is wrong: it cannot succeed. */
    bool is_bad;
    /* The struct that is read lies where the result goes. */
    bool is_alias;
    struct out outs[OUTS];
    unsigned outs_count;
    size_t length;
    struct list lists[LISTS];
    uint32_t items[LISTS][ITEMS];
    size_t inputs_used;
    _Alignas(64) unsigned char inputs[INPUTS], shared[256], rooms[OUTS][ROOM + 32], long_text[LONG];
    struct {
        int kind;
        uint64_t value;
    } made[MADE];
    unsigned made_count;
} my;

/* Whether backends are a GPU's, or that of a driver in software. */
static bool on_gpu;
/* Memory that is adopted here and there, and whose content means nothing. */
static _Alignas(4096) unsigned char arena[1 << 17];

static inline uint64_t any(void) {
    my.state ^= my.state << 13, my.state ^= my.state >> 7, my.state ^= my.state << 17;
    return my.state * 0x2545f4914f6cdd1dull;
}

static inline uint32_t draw(uint32_t below) {
    return (uint32_t)((any() >> 32) % below);
}

/* Once in `of` times. */
static inline bool once_in(uint32_t of) {
    return draw(of) == 0;
}

/* Numbers at which something ends. */
static inline uint64_t number(void) {
    static const uint64_t edges[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 63, 64, 65, 128, 255, 576, 4096, 1 << 16, 1 << 20,
                                     (1 << 24) + 1, INT32_MAX, UINT32_MAX, (uint64_t)UINT32_MAX + 1, (uint64_t)1 << 40, INT64_MAX,
                                     UINT64_MAX - 1, UINT64_MAX};
    return once_in(8) ? any() : edges[draw(sizeof edges / sizeof *edges)];
}

/* One below `count`, mostly. */
static inline uint32_t below(uint32_t count) {
    return once_in(32) ? (uint32_t)number() : draw(count);
}

/* That one, mostly. */
static inline uint64_t mostly(uint64_t right) {
    return once_in(32) ? number() : right;
}
#define SOME(right) ((uint32_t)mostly(right))

/* The size that a struct says. */
static inline uint32_t said(size_t right) {
    if (!once_in(64)) return (uint32_t)right;
    my.is_bad = true;
    const size_t wrong[] = {0, 4, right - 4, right + 4, right + 8, UINT32_MAX};
    return (uint32_t)wrong[draw(6)];
}
#define SIZED(name, ...) ((pagelift_##name){.size = said(sizeof(pagelift_##name)), __VA_ARGS__})

/* A handle or a key. */
static inline uint64_t value(int kind) {
    switch (draw(80)) {
    case 0: return 0;
    case 1: return any();
    case 2: return known[draw(DIGEST + 1)][draw(KNOWN)][0];
    case 3: return known[kind][draw(KNOWN)][0] ^ (uint64_t)1 << draw(64);
    default: return known[kind][once_in(4) ? draw(KNOWN) : 0][0];
    }
}

/* One of the structs that calls give. */
static inline void *words(int kind, void *to, size_t bytes, unsigned at) {
    uint64_t copy[WORDS];
    for (unsigned word = 0; word < WORDS; ++word) copy[word] = known[kind][at][word];
    if (once_in(16)) copy[draw((uint32_t)(bytes / 8))] = number();
    return memcpy(to, copy, bytes);
}
#define GIVEN_AT(name, kind, at) (*(pagelift_##name *)words(kind, &(pagelift_##name){0}, sizeof(pagelift_##name), at))

/* Something that a call reads, where it stays until that returns. */
static inline void *input(const void *from, size_t bytes, size_t align) {
    my.inputs_used = (my.inputs_used + align - 1) / align * align;
    CHECK(my.inputs_used + bytes <= INPUTS);
    unsigned char *at = my.inputs + my.inputs_used;
    my.inputs_used += bytes;
    return memcpy(at, from, bytes);
}

/* The pointer, or a bad one. */
static inline void *spoilt(void *pointer, size_t align) {
    uint32_t how = draw(200);
    if (how > 1 || (how == 1 && align == 1)) return pointer;
    my.is_bad = true;
    return how == 0 ? NULL : (unsigned char *)pointer + 1;
}
#define IN(type, ...) ((const type *)spoilt(input((type[]){__VA_ARGS__}, sizeof(type), _Alignof(type)), _Alignof(type)))
/* The struct of a call's own, which may lie where the result goes. */
static inline const void *read_at(const void *from, size_t bytes, size_t align) {
    return spoilt(my.is_alias && bytes <= sizeof my.shared ? memcpy(my.shared, from, bytes) : input(from, bytes, align), align);
}
#define READ(name, ...) \
    ((const pagelift_##name *)read_at((pagelift_##name[]){__VA_ARGS__}, sizeof(pagelift_##name), _Alignof(pagelift_##name)))
#define READ_SIZED(name, ...) READ(name, SIZED(name, __VA_ARGS__))
#define IN_OR_NULL(name, ...) \
    (once_in(2) ? NULL                                                                              \
                : (const pagelift_##name *)input((pagelift_##name[]){__VA_ARGS__}, sizeof(pagelift_##name), \
                                                 _Alignof(pagelift_##name)))

/* Room for a result. */
static inline void *out(size_t bytes, size_t align, int kind, const void *first) {
    CHECK(my.outs_count < OUTS && bytes <= ROOM);
    bool was_bad = my.is_bad;
    unsigned char *at = my.rooms[my.outs_count];
    if (my.is_alias && my.outs_count == 0) at = my.shared, bytes = bytes < sizeof my.shared ? bytes : sizeof my.shared;
    if (first != NULL) memcpy(at, first, bytes);
    struct out *own = &my.outs[my.outs_count++];
    *own = (struct out){.at = at, .bytes = bytes, .kind = kind};
    memcpy(own->before, at, bytes);
    if (kind == NEEDED && once_in(4)) return NULL;
    unsigned char *given = spoilt(at, align);
    /* Nobody has to want it. */
    if (kind == NEEDED && given == NULL) my.is_bad = was_bad;
    return given;
}
#define OUT_OF(type, kind) ((type *)out(sizeof(type), _Alignof(type), kind, NULL))
/* The same of a struct that says its size, and of one that the call reads before it writes. */
#define OUT_SIZED(name, ...) CHANGED(name, .size = said(sizeof(pagelift_##name)), __VA_ARGS__)
#define CHANGED(name, ...) \
    ((pagelift_##name *)out(sizeof(pagelift_##name), _Alignof(pagelift_##name), NOTHING, &(pagelift_##name){__VA_ARGS__}))

/* Room for text: `TOLD` is a buffer, how long it is, and where the length that it needs goes. */
static inline char *text_room(void) {
    if (my.length > ROOM) return (char *)my.long_text;
    if (my.length > 0) return out(my.length, 1, NOTHING, NULL);
    return once_in(2) ? NULL : (char *)my.long_text;
}
#define TOLD text_room(), my.length, (size_t *)out(sizeof(size_t), _Alignof(size_t), NEEDED, NULL)

/* Bytes that are read or written: `BYTES(buffer)` is that and how many. */
static inline uint8_t *bytes_room(void) {
    if (my.length > ROOM && my.length != LONG) my.is_bad = true;
    return my.length > 0 && my.length <= ROOM ? out(my.length, 1, NOTHING, NULL) : once_in(2) && my.length == 0 ? NULL : my.long_text;
}
#define BYTES bytes_room(), my.length

/* A list of numbers, and how many. */
static inline const uint32_t *items(unsigned list) {
    my.is_bad |= my.lists[list].is_bad;
    return my.lists[list].items;
}
#define LIST(list) items(list), my.lists[list].count

/* Text that ends with a 0. */
static inline const char *text(const char *right) {
    static const char *const odd[] = {"", "\xff", "a\xc3", "\xed\xa0\x80", "{", "null", "[[[[[[[[[[[[", "\"\\ud800\"", "{}", "é", "0"};
    uint32_t how = draw(200);
    if (how == 0) {
        my.is_bad = true;
        return NULL;
    }
    if (how == 1) {
        memset(my.long_text, '[', LONG - 1);
        my.long_text[LONG - 1] = 0;
        return (char *)my.long_text;
    }
    if (how < 12) return odd[how - 2 < 11 ? how - 2 : 0];
    char *at = input(right, strlen(right) + 1, 1);
    if (how < 20 && at[0] != 0) at[draw((uint32_t)strlen(at))] = (char)any();
    return at;
}

/* Draws what a call may want more than once. */
static inline void begin(void) {
    my.outs_count = 0, my.inputs_used = 0;
    my.is_bad = false, my.is_alias = once_in(64);
    const size_t lengths[] = {0, 1, 2, 8, 17, 64, ROOM, LONG, LONG, LONG};
    my.length = lengths[draw(10)];
    for (unsigned list = 0; list < LISTS; ++list) {
        uint32_t first = draw(12), step = draw(4);
        for (uint32_t at = 0; at < ITEMS; ++at) my.items[list][at] = once_in(64) ? (uint32_t)number() : (first + at * step) % 8;
        const size_t counts[] = {0, 1, 1, 1, 1, 2, 3, draw(ITEMS + 1)};
        struct list *own = &my.lists[list];
        *own = (struct list){my.items[list], counts[draw(8)], false};
        uint32_t how = draw(100);
        if (how > 3) continue;
        own->is_bad = true;
        if (own->count == 0) own->count = 1;
        if (how == 0) own->items = NULL;
        if (how == 1) own->items = (const uint32_t *)(const void *)((const char *)own->items + 2);
        if (how == 2) own->count = SIZE_MAX;
        if (how == 3) own->count = SIZE_MAX / 8 + 1;
    }
}

#endif
