/* What tests say when something is not as it should be. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pagelift.h"

static inline void check_failed(const char *file, int line, const char *what) {
    fprintf(stderr, "%s:%d: %s\n", file, line, what);
    exit(1);
}
#define CHECK(condition) ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, #condition))

static inline void check_status(const char *file, int line, const char *call, pagelift_status found, pagelift_status expected) {
    if (found == expected) return;
    char text[512] = "";
    pagelift_last_error(text, sizeof text, NULL);
    fprintf(stderr, "%s:%d: %s answered %s, expected %s; last error: %s\n", file, line, call, pagelift_status_name(found),
            pagelift_status_name(expected), text);
    exit(1);
}
/* A call that answers a status, and one that answers PAGELIFT_OK. */
#define IS(status, call) check_status(__FILE__, __LINE__, #call, call, status)
#define OK(call) IS(PAGELIFT_OK, call)

/* The last call's error is of that kind, and its message has those words. */
static inline void check_said(const char *file, int line, const char *kind, const char *words) {
    char text[512], found[64];
    size_t needed = 0;
    OK(pagelift_last_error(text, sizeof text, &needed));
    OK(pagelift_last_error_kind(found, sizeof found, NULL));
    if (needed == strlen(text) + 1 && strcmp(found, kind) == 0 && strstr(text, words) != NULL) return;
    fprintf(stderr, "%s:%d: the last error is %s: %s; expected %s: …%s…\n", file, line, found, text, kind, words);
    exit(1);
}
#define SAID(kind, words) check_said(__FILE__, __LINE__, kind, words)

/* Everything was freed. */
static inline void check_nothing_lives(void) {
    uint64_t live = 1;
    OK(pagelift_live_handles(&live));
    CHECK(live == 0);
}

#endif
