/* Handles that are null, made up, of something else, or freed; and the version. */
#include "check.h"

static void versions(void) {
    CHECK(strchr(pagelift_version(), '.') != NULL);
    CHECK(pagelift_abi() == PAGELIFT_ABI);
    CHECK(strcmp(pagelift_status_name(PAGELIFT_STALE_HANDLE), "PAGELIFT_STALE_HANDLE") == 0);
    CHECK(strcmp(pagelift_status_name(-5), "?") == 0);
}

static void last_errors(void) {
    char text[64] = "x";
    size_t needed = 0;
    OK(pagelift_last_error(text, sizeof text, &needed));
    CHECK(text[0] == 0 && needed == 1);
    IS(PAGELIFT_INVALID_HANDLE, pagelift_backend_free((pagelift_backend){0}));
    SAID("InvalidHandle", "the handle is 0; expected a backend");
    /* Cut where there is no room, and told how much there should be. */
    memset(text, 'x', sizeof text);
    OK(pagelift_last_error(text, 11, &needed));
    CHECK(strcmp(text, "the handle") == 0 && text[11] == 'x' && needed == sizeof "the handle is 0; expected a backend");
    OK(pagelift_last_error(NULL, 0, &needed));
    OK(pagelift_last_error(NULL, 0, NULL));
    IS(PAGELIFT_NULL_POINTER, pagelift_last_error(NULL, 1, &needed));
    IS(PAGELIFT_MISALIGNED, pagelift_last_error(text, sizeof text, (size_t *)(void *)(text + 1)));
    /* A call that succeeds leaves the message. */
    SAID("InvalidHandle", "the handle is 0");
}

static void every_kind(void) {
    pagelift_layout layout;
    OK(pagelift_paged_layout_mla_bf16(16, &layout));
    uint64_t live = 0;
    OK(pagelift_live_handles(&live));
    CHECK(live == 1);

    /* Each handle of another kind is told as what it is. */
    IS(PAGELIFT_WRONG_KIND, pagelift_backend_free((pagelift_backend){layout.value}));
    SAID("WrongKind", "expected a backend, found a layout");
    IS(PAGELIFT_WRONG_KIND, pagelift_registry_free((pagelift_registry){layout.value}));
    IS(PAGELIFT_WRONG_KIND, pagelift_geometry_builder_free((pagelift_geometry_builder){layout.value}));
    IS(PAGELIFT_WRONG_KIND, pagelift_geometry_free((pagelift_geometry){layout.value}));
    IS(PAGELIFT_WRONG_KIND, pagelift_plan_free((pagelift_plan){layout.value}));
    IS(PAGELIFT_WRONG_KIND, pagelift_reservations_free((pagelift_reservations){layout.value}));
    IS(PAGELIFT_WRONG_KIND, pagelift_launcher_free((pagelift_launcher){layout.value}));
    /* Numbers that were made up: each bit of a good one wrong, and others. */
    for (int bit = 0; bit < 64; ++bit) {
        pagelift_layout forged = {layout.value ^ (1ull << bit)};
        pagelift_layout_facts facts = {.size = sizeof facts};
        pagelift_status status = pagelift_layout_info(forged, &facts);
        CHECK(status == PAGELIFT_INVALID_HANDLE || status == PAGELIFT_WRONG_KIND || status == PAGELIFT_STALE_HANDLE);
    }
    uint64_t number = 88172645463325252ull;
    for (int round = 0; round < 100000; ++round) {
        number ^= number << 13, number ^= number >> 7, number ^= number << 17;
        CHECK(number == layout.value || pagelift_layout_free((pagelift_layout){number}) != PAGELIFT_OK);
    }
    /* Freed, and its place used again. */
    OK(pagelift_layout_free(layout));
    IS(PAGELIFT_STALE_HANDLE, pagelift_layout_free(layout));
    SAID("StaleHandle", "freed, or built, before");
    pagelift_layout next;
    OK(pagelift_paged_layout_mla_bf16(16, &next));
    CHECK(next.value != layout.value);
    IS(PAGELIFT_STALE_HANDLE, pagelift_layout_free(layout));
    OK(pagelift_layout_free(next));
}

int main(void) {
    versions();
    last_errors();
    every_kind();
    check_nothing_lives();
    return 0;
}
