/*
 * The shared library is opened and closed again and again, by threads that end, while its own threads may still run: it stays where it is,
 * and knows what it has given.
 */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <pthread.h>

#include "check.h"

enum { ROUNDS = 20 };

static void *library;
static bool frees;
static uint64_t lives;

static void find(const char *name, void *function) {
    void *found = dlsym(library, name);
    CHECK(found != NULL);
    memcpy(function, &found, sizeof found);
}

static void *uses(void *none) {
    pagelift_status (*open)(uint32_t, pagelift_backend *);
    pagelift_status (*free)(pagelift_backend);
    pagelift_status (*live)(uint64_t *);
    find("pagelift_cpu_open", &open);
    find("pagelift_backend_free", &free);
    find("pagelift_live_handles", &live);
    pagelift_backend backend;
    CHECK(open(3, &backend) == PAGELIFT_OK);
    if (frees) CHECK(free(backend) == PAGELIFT_OK && free(backend) == PAGELIFT_STALE_HANDLE);
    CHECK(live(&lives) == PAGELIFT_OK);
    return none;
}

int main(void) {
    for (unsigned round = 0; round < ROUNDS; ++round) {
        library = dlopen("libpagelift.so", RTLD_NOW | RTLD_LOCAL);
        if (library == NULL) fprintf(stderr, "%s\n", dlerror());
        CHECK(library != NULL);
        frees = round % 2 == 0;
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, uses, NULL) == 0 && pthread_join(thread, NULL) == 0);
        CHECK(lives == (round + 1) / 2);
        CHECK(dlclose(library) == 0);
    }
    /* That which this program is linked to is another one. */
    check_nothing_lives();
    return 0;
}
