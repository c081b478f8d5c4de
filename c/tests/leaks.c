/*
 * Memory stays as it is, however many plans are staged and launched, and however many objects are made and freed.
 *
 * PAGELIFT_PAIRS in the environment is how many plans are staged and launched: a million unless said.
 */
#define _POSIX_C_SOURCE 200809L
#include <unistd.h>

#include "world.h"

/* AddressSanitizer keeps what is freed for a while. It says itself what is never freed. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define FLAT(grown) ((void)(grown))
#else
#define FLAT(grown) CHECK((grown) < 1 << 20)
#endif

/* Bytes of this process that are in memory. */
static long resident(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    long size = 0, pages = 0;
    CHECK(file != NULL && fscanf(file, "%ld %ld", &size, &pages) == 2);
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

static void steps(struct world *world, unsigned long pairs) {
    struct lists lists;
    import_of(world, &lists, 21, 1, 2, 0);
    pagelift_plan restore, mirror;
    pagelift_launcher lifts, mirrors;
    pagelift_reservations reservations;
    pagelift_import_id id;
    OK(pagelift_restore_plan_new(world->geometry, NULL, &restore));
    OK(pagelift_mirror_plan_new(world->geometry, NULL, &mirror));
    OK(pagelift_reservations_new(world->geometry, 1, NULL, &reservations));
    pagelift_row_binding binding = {.size = sizeof binding, .width = 8, .slots = world->slots_at.address, .capacity = 1,
                                    .null_page = PAGELIFT_NONE};
    world->slots[0] = 2 * TOKENS;
    OK(pagelift_mirror_plan_bind(mirror, world->main, &binding));
    pagelift_launcher_options options = {.size = sizeof options, .slots = 2, .workers = 1};
    OK(pagelift_launcher_bind(world->backend, world->registry, restore, &options, &lifts));
    OK(pagelift_launcher_bind(world->backend, world->registry, mirror, &options, &mirrors));
    long before = 0;
    for (unsigned long pair = 0; pair < pairs; ++pair) {
        if (pair == pairs / 10) before = resident();
        pagelift_ticket ticket;
        bool done = false;
        if (pair % 2 == 0) {
            OK(pagelift_reservations_reserve(reservations, &lists.import, PAGELIFT_TAIL_ROWS_EXACT, &id));
            OK(pagelift_plan_clear(restore));
            OK(pagelift_restore_plan_lift_reserved(restore, reservations, id));
            OK(pagelift_launcher_stage(lifts, restore, &ticket));
            OK(pagelift_launcher_launch(lifts));
            OK(pagelift_launcher_is_done(lifts, ticket, &done));
            OK(pagelift_reservations_release(reservations, id));
        } else {
            OK(pagelift_page_map_map(mirror, world->main, 2, 7));
            OK(pagelift_launcher_stage(mirrors, mirror, &ticket));
            OK(pagelift_launcher_launch(mirrors));
            OK(pagelift_launcher_is_done(mirrors, ticket, &done));
            OK(pagelift_page_map_unmap(mirror, world->main, 2));
            /* A call that fails keeps its message, and no more than one. */
            IS(PAGELIFT_NULL_POINTER, pagelift_launcher_stage(mirrors, mirror, NULL));
        }
        CHECK(done);
    }
    long grown = resident() - before;
    printf("%lu plans staged and launched: %ld bytes grown\n", pairs, grown);
    FLAT(grown);
    OK(pagelift_launcher_free(lifts));
    OK(pagelift_launcher_free(mirrors));
    OK(pagelift_reservations_free(reservations));
    OK(pagelift_plan_free(restore));
    OK(pagelift_plan_free(mirror));
}

static void objects(struct world *world, unsigned long rounds) {
    long before = 0;
    unsigned char bytes[64];
    for (unsigned long round = 0; round < rounds; ++round) {
        if (round == rounds / 10) before = resident();
        pagelift_layout layout;
        pagelift_plan plan;
        pagelift_launcher launcher;
        pagelift_plan_capacity capacity = {.size = sizeof capacity, .jobs = 4, .list_entries = 4};
        pagelift_region_id region;
        OK(pagelift_paged_layout_mla_bf16(16, &layout));
        OK(pagelift_registry_adopt(world->registry, world->backend, PAGELIFT_MEMORY_HOST, bytes, sizeof bytes, &region));
        OK(pagelift_restore_plan_new(world->geometry, &capacity, &plan));
        OK(pagelift_launcher_bind(world->backend, world->registry, plan, NULL, &launcher));
        OK(pagelift_launcher_free(launcher));
        OK(pagelift_plan_free(plan));
        OK(pagelift_registry_release(world->registry, region));
        OK(pagelift_layout_free(layout));
    }
    long grown = resident() - before;
    printf("%lu objects of four kinds made and freed: %ld bytes grown\n", rounds, grown);
    FLAT(grown);
}

int main(void) {
    const char *said = getenv("PAGELIFT_PAIRS");
    unsigned long pairs = said != NULL ? strtoul(said, NULL, 10) : 1000000;
    struct world world;
    build(&world);
    steps(&world, pairs);
    objects(&world, pairs / 40);
    tear_down(&world);
    check_nothing_lives();
    return 0;
}
