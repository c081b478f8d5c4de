/*
 * Threads that share every object: each call does all of its work or answers PAGELIFT_BUSY, and handles that are freed meanwhile are
 * stale.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdatomic.h>

#include "world.h"

enum { THREADS = 4, ROUNDS = 10000 };

static struct world world;
static struct lists lists;
static pagelift_plan plan;
static pagelift_launcher launcher;
static pagelift_reservations reservations;
static pagelift_import_id import_id;
static atomic_uint_fast64_t staged, launched, busy, looked, refreshed, stale;
/* What one thread makes and frees, and the others use. */
static atomic_uint_fast64_t fleeting;

/* Whether a call was done; one that was not found its object in use. */
static bool was_done(pagelift_status status, const char *what) {
    if (status == PAGELIFT_OK) return true;
    if (status != PAGELIFT_BUSY) {
        char text[256];
        pagelift_last_error(text, sizeof text, NULL);
        fprintf(stderr, "%s answered %s: %s\n", what, pagelift_status_name(status), text);
        exit(1);
    }
    /* The last error is this thread's own. */
    SAID("Busy", "another thread is in a call");
    atomic_fetch_add(&busy, 1);
    return false;
}
#define DONE(call) was_done(call, #call)

static void *shares(void *argument) {
    (void)argument;
    for (unsigned round = 0; round < ROUNDS; ++round) {
        pagelift_ticket ticket;
        pagelift_status status = pagelift_launcher_stage(launcher, plan, &ticket);
        if (status == PAGELIFT_OK) {
            atomic_fetch_add(&staged, 1);
        } else if (status != PAGELIFT_RING_FULL) {
            was_done(status, "stage");
        }
        if (DONE(pagelift_launcher_launch(launcher))) atomic_fetch_add(&launched, 1);
        pagelift_ticket_state state = PAGELIFT_TICKET_STATE_PENDING;
        if (status == PAGELIFT_OK && DONE(pagelift_launcher_state(launcher, ticket, &state))) {
            CHECK(state != PAGELIFT_TICKET_STATE_LOST && state != PAGELIFT_TICKET_STATE_REFUSED);
            atomic_fetch_add(&looked, 1);
        }
        size_t jobs = 0;
        if (DONE(pagelift_plan_jobs(plan, &jobs))) CHECK(jobs == 0 || jobs == 3);
        uint64_t bytes = 0;
        if (DONE(pagelift_reservations_bytes(reservations, import_id, &bytes))) CHECK(bytes > 0);
        if (round % 8 == 0 && DONE(pagelift_plan_clear(plan))) {
            pagelift_status lifted;
            do {
                lifted = pagelift_restore_plan_lift_reserved(plan, reservations, import_id);
            } while (lifted == PAGELIFT_BUSY);
            /* Another thread may have been faster. */
            CHECK(lifted == PAGELIFT_OK || lifted == PAGELIFT_PLAN);
            atomic_fetch_add(&refreshed, 1);
        }
    }
    return NULL;
}

static void *uses_what_is_freed(void *argument) {
    (void)argument;
    while (atomic_load(&fleeting) != 1) {
        pagelift_plan other = {atomic_load(&fleeting)};
        size_t jobs = 7;
        pagelift_status status = pagelift_plan_jobs(other, &jobs);
        if (status == PAGELIFT_STALE_HANDLE) {
            atomic_fetch_add(&stale, 1);
        } else if (status == PAGELIFT_OK) {
            CHECK(jobs == 0);
        } else {
            CHECK(status == PAGELIFT_BUSY || status == PAGELIFT_INVALID_HANDLE);
        }
    }
    return NULL;
}

static void *makes_and_frees(void *argument) {
    (void)argument;
    for (unsigned round = 0; round < ROUNDS / 4; ++round) {
        pagelift_plan_capacity capacity = {.size = sizeof capacity, .jobs = 4, .list_entries = 4};
        pagelift_plan other;
        OK(pagelift_restore_plan_new(world.geometry, &capacity, &other));
        atomic_store(&fleeting, other.value);
        while (pagelift_plan_free(other) == PAGELIFT_BUSY) {
        }
        /* Now and then until another thread has found it gone. */
        uint64_t before = atomic_load(&stale);
        while (round % 100 == 0 && atomic_load(&stale) == before) {
        }
    }
    atomic_store(&fleeting, 1);
    return NULL;
}

int main(void) {
    build(&world);
    import_of(&world, &lists, 21, 1, 2, 0);
    OK(pagelift_restore_plan_new(world.geometry, NULL, &plan));
    OK(pagelift_reservations_new(world.geometry, 1, NULL, &reservations));
    OK(pagelift_reservations_reserve(reservations, &lists.import, PAGELIFT_TAIL_ROWS_EXACT, &import_id));
    OK(pagelift_restore_plan_lift_reserved(plan, reservations, import_id));
    OK(pagelift_launcher_bind(world.backend, world.registry, plan, NULL, &launcher));

    pthread_t threads[THREADS + 2];
    for (unsigned thread = 0; thread < THREADS; ++thread) CHECK(pthread_create(&threads[thread], NULL, shares, NULL) == 0);
    CHECK(pthread_create(&threads[THREADS], NULL, makes_and_frees, NULL) == 0);
    CHECK(pthread_create(&threads[THREADS + 1], NULL, uses_what_is_freed, NULL) == 0);
    for (unsigned thread = 0; thread < THREADS + 2; ++thread) CHECK(pthread_join(threads[thread], NULL) == 0);

    pagelift_counters counters = {.size = sizeof counters};
    OK(pagelift_launcher_counters(launcher, &counters));
    CHECK(counters.staged == atomic_load(&staged) && counters.launches == atomic_load(&launched));
    CHECK(atomic_load(&stale) > 0);
    CHECK(counters.staged > 0 && atomic_load(&looked) > 0 && atomic_load(&refreshed) > 0);
    printf("%llu plans staged, %llu launches, %llu calls refused as busy, %llu stale handles\n", (unsigned long long)counters.staged,
           (unsigned long long)counters.launches, (unsigned long long)atomic_load(&busy), (unsigned long long)atomic_load(&stale));
    expect_lift(&world, &lists, PAGELIFT_TAIL_ROWS_EXACT);
    compare_all(&world);

    OK(pagelift_launcher_free(launcher));
    OK(pagelift_reservations_free(reservations));
    OK(pagelift_plan_free(plan));
    tear_down(&world);
    check_nothing_lives();
    return 0;
}
