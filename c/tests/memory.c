/* Memory that cannot be had: whatever asks for more than some bytes answers PAGELIFT_OUT_OF_MEMORY, has done nothing, and does it when
 * there is memory again. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "world.h"

#ifdef __SANITIZE_ADDRESS__

int main(void) {
    puts("the sanitizer has an allocator of its own");
    return 0;
}

#else

/* The program's allocator is glibc's, but for what is told to fail: a thread's allocations of `least` bytes and more, from the one after
 * `pass`. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static _Thread_local size_t least = SIZE_MAX;
static _Thread_local unsigned pass, failed;

static int fails(size_t size) {
    if (size < least) return 0;
    if (pass > 0) return --pass, 0;
    ++failed;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t size) { return fails(size) ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return fails(count * size) ? NULL : __libc_calloc(count, size); }
void *realloc(void *old, size_t size) { return fails(size) ? NULL : __libc_realloc(old, size); }
void *aligned_alloc(size_t alignment, size_t size) { return fails(size) ? NULL : __libc_memalign(alignment, size); }
int posix_memalign(void **to, size_t alignment, size_t size) {
    *to = fails(size) ? NULL : __libc_memalign(alignment, size);
    return *to == NULL ? ENOMEM : 0;
}

/* What follows from no argument is less than this: where there is no memory for that, the process ends. */
#define SOME_BYTES 16384

static void memory_is_short(unsigned after) { pass = after, failed = 0, least = SOME_BYTES; }
static unsigned memory_is_there(void) { return least = SIZE_MAX, failed; }

/* Makes a call with each of its larger allocations failing in turn, until it asks for no more. What it says when one has failed is
 * this, and nothing is left of it. */
#define EACH_MAY_FAIL(call, free_it)                          \
    for (unsigned after = 0;; ++after) {                      \
        uint64_t before = 0, now = 0;                         \
        OK(pagelift_live_handles(&before));                   \
        memory_is_short(after);                               \
        pagelift_status status = call;                        \
        if (memory_is_there() == 0) {                         \
            check_status(__FILE__, __LINE__, #call, status, PAGELIFT_OK); \
            free_it;                                          \
            asked += after;                                   \
            break;                                            \
        }                                                     \
        check_status(__FILE__, __LINE__, #call, status, PAGELIFT_OUT_OF_MEMORY); \
        OK(pagelift_live_handles(&now));                      \
        CHECK(now == before);                                 \
    }

static unsigned asked;

/* More handles than a table has room for at first, and more than it has after it grew. */
static void tables_grow(void) {
    static pagelift_registry all[2000];
    unsigned refused = 0;
    for (size_t at = 0; at < 2000; ++at) {
        memory_is_short(0);
        pagelift_status status = pagelift_registry_new(&all[at]);
        if (memory_is_there() > 0) {
            IS(PAGELIFT_OUT_OF_MEMORY, status);
            OK(pagelift_registry_new(&all[at]));
            ++refused;
        } else {
            OK(status);
        }
    }
    CHECK(refused >= 3);
    memory_is_short(0);
    for (size_t at = 0; at < 2000; ++at) OK(pagelift_registry_free(all[at]));
    CHECK(memory_is_there() == 0);
}

static void objects(const struct world *world) {
    pagelift_plan plan;
    EACH_MAY_FAIL(pagelift_restore_plan_new(world->geometry, NULL, &plan), OK(pagelift_plan_free(plan)));
    EACH_MAY_FAIL(pagelift_write_back_plan_new(world->geometry, NULL, &plan), OK(pagelift_plan_free(plan)));
    EACH_MAY_FAIL(pagelift_digest_plan_new(world->geometry, NULL, &plan), OK(pagelift_plan_free(plan)));
    pagelift_reservations reservations;
    EACH_MAY_FAIL(pagelift_reservations_new(world->geometry, 64, NULL, &reservations), OK(pagelift_reservations_free(reservations)));
    pagelift_lifecycle lifecycle;
    pagelift_lifecycle_options options = {.size = sizeof options, .ranks = 2, .block_tokens = 16, .requests = 512, .blocks = 100000,
                                          .pages = 100000, .keep = 1000};
    EACH_MAY_FAIL(pagelift_lifecycle_new(&options, &lifecycle), OK(pagelift_lifecycle_free(lifecycle)));
    pagelift_launcher launcher;
    OK(pagelift_restore_plan_new(world->geometry, NULL, &plan));
    EACH_MAY_FAIL(pagelift_launcher_bind(world->backend, world->registry, plan, NULL, &launcher), OK(pagelift_launcher_free(launcher)));
    OK(pagelift_plan_free(plan));
    pagelift_region_id region;
    EACH_MAY_FAIL(pagelift_registry_allocate(world->registry, world->backend, PAGELIFT_MEMORY_HOST, 1 << 20, &region),
                  OK(pagelift_registry_release(world->registry, region)));
    static unsigned char bytes[(4 << 20) + 100];
    OK(pagelift_registry_allocate(world->registry, world->backend, PAGELIFT_MEMORY_HOST, sizeof bytes, &region));
    EACH_MAY_FAIL(pagelift_registry_read(world->registry, region, 0, bytes, sizeof bytes), (void)0);
    EACH_MAY_FAIL(pagelift_registry_write(world->registry, region, 0, bytes, sizeof bytes), (void)0);
    OK(pagelift_registry_release(world->registry, region));
}

/* Text is as long as its caller likes. */
static void texts(void) {
    static char text[1 << 20];
    memset(text, ' ', sizeof text - 1);
    pagelift_lifecycle lifecycle;
    pagelift_lifecycle_options options = {.size = sizeof options, .ranks = 1, .block_tokens = 16, .requests = 1, .blocks = 8, .pages = 8};
    OK(pagelift_lifecycle_new(&options, &lifecycle));
    memory_is_short(0);
    pagelift_status status = pagelift_lifecycle_apply(lifecycle, text);
    CHECK(memory_is_there() == 1);
    IS(PAGELIFT_OUT_OF_MEMORY, status);
    SAID("OutOfMemory", "1048575 bytes");
    IS(PAGELIFT_BAD_TEXT, pagelift_lifecycle_apply(lifecycle, text));
    OK(pagelift_lifecycle_free(lifecycle));
}

static pagelift_region_id large;
static atomic_bool over;

/* Looks at the registry for most of the time. */
static void *reads(void *argument) {
    const struct world *world = argument;
    static unsigned char bytes[4 << 20];
    while (!atomic_load(&over)) {
        pagelift_status status = pagelift_registry_read(world->registry, large, 0, bytes, sizeof bytes);
        CHECK(status == PAGELIFT_OK || status == PAGELIFT_BUSY);
    }
    return NULL;
}

/* What engines meet in any step is said without any memory: a ring that is full, and a registry that is in use. */
static void hot_calls(struct world *world) {
    pagelift_plan plan;
    pagelift_launcher launcher;
    pagelift_ticket ticket;
    pagelift_launcher_options options = {.size = sizeof options, .slots = 1};
    OK(pagelift_restore_plan_new(world->geometry, NULL, &plan));
    OK(pagelift_launcher_bind(world->backend, world->registry, plan, &options, &launcher));
    OK(pagelift_launcher_stage(launcher, plan, &ticket));
    least = 0, pass = 0, failed = 0;
    pagelift_status status = pagelift_launcher_stage(launcher, plan, &ticket);
    CHECK(memory_is_there() == 0);
    IS(PAGELIFT_RING_FULL, status);
    SAID("RingFull", "all 1 staging slots");

    pthread_t thread;
    OK(pagelift_registry_allocate(world->registry, world->backend, PAGELIFT_MEMORY_HOST, 4 << 20, &large));
    CHECK(pthread_create(&thread, NULL, reads, world) == 0);
    do {
        least = 0, pass = 0, failed = 0;
        status = pagelift_launcher_launch(launcher);
        CHECK(memory_is_there() == 0);
    } while (status == PAGELIFT_OK);
    IS(PAGELIFT_BUSY, status);
    SAID("Busy", "another thread is in a call with this registry");
    atomic_store(&over, true);
    CHECK(pthread_join(thread, NULL) == 0);
    OK(pagelift_registry_release(world->registry, large));
    OK(pagelift_launcher_free(launcher));
    OK(pagelift_plan_free(plan));
}

int main(void) {
    struct world world;
    tables_grow();
    build(&world);
    objects(&world);
    texts();
    hot_calls(&world);
    tear_down(&world);
    check_nothing_lives();
    CHECK(asked > 0);
    printf("%u allocations failed and were said to\n", asked);
    return 0;
}

#endif
