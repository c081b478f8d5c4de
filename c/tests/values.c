/* Layouts by their worked sizes, and the arithmetic of prompts. */
#include "check.h"

static void layout_is(pagelift_layout layout, uint32_t kind, uint64_t tokens, uint64_t per_row, uint32_t rows, uint64_t page,
                      uint32_t regions) {
    pagelift_layout_facts facts = {.size = sizeof facts};
    OK(pagelift_layout_info(layout, &facts));
    CHECK(facts.size == sizeof facts && facts.kind == kind && facts.block_tokens == tokens && facts.tokens_per_row == per_row);
    CHECK(facts.rows_per_block == rows && facts.page_bytes == page && facts.regions == regions);
    CHECK(facts.region_bytes * regions == page);
    OK(pagelift_layout_free(layout));
}

static void layouts(void) {
    pagelift_layout layout;
    OK(pagelift_paged_layout_mla_bf16(128, &layout));
    layout_is(layout, PAGELIFT_KIND_PAGED, 128, 1, 128, 128 * 1152, 1);
    OK(pagelift_paged_layout_fp8_ds_mla(64, &layout));
    layout_is(layout, PAGELIFT_KIND_PAGED, 64, 1, 64, 64 * 656, 1);
    OK(pagelift_paged_layout_indexer_fp8(64, &layout));
    layout_is(layout, PAGELIFT_KIND_PAGED, 64, 1, 64, 64 * (128 + 4), 1);
    OK(pagelift_paged_layout_indexer_mxfp4(64, &layout));
    layout_is(layout, PAGELIFT_KIND_PAGED, 64, 1, 64, 64 * (64 + 4), 1);
    OK(pagelift_paged_layout_qsa_main_bf16(16, 2, &layout));
    layout_is(layout, PAGELIFT_KIND_PAGED, 16, 1, 16, 16 * 2 * 2 * 256 * 2, 1);
    OK(pagelift_paged_layout_qsa_main_fp8(16, 2, &layout));
    layout_is(layout, PAGELIFT_KIND_PAGED, 16, 1, 16, 16 * 2 * 2 * 256, 1);
    OK(pagelift_paged_layout_qsa_compressed_bf16(64, &layout));
    layout_is(layout, PAGELIFT_KIND_PAGED, 64, 4, 16, 16 * 256, 1);
    OK(pagelift_paged_layout_qsa_compressed_fp8(64, 132, &layout));
    layout_is(layout, PAGELIFT_KIND_PAGED, 64, 4, 16, 16 * 132, 1);
    /* Rounded up to a multiple of 576, and of 512. */
    pagelift_layout_facts facts = {.size = sizeof facts};
    OK(pagelift_paged_layout_deepseek_v4(256, 576, &layout));
    OK(pagelift_layout_info(layout, &facts));
    CHECK(facts.page_bytes % 576 == 0);
    CHECK(facts.page_bytes >= (uint64_t)facts.rows_per_block * (576 + 8) && facts.page_bytes < (uint64_t)facts.rows_per_block * 584 + 576);
    OK(pagelift_layout_free(layout));
    OK(pagelift_paged_layout_deepseek_v4_1(256, &layout));
    OK(pagelift_layout_info(layout, &facts));
    CHECK(facts.page_bytes % 512 == 0 && facts.page_bytes >= (uint64_t)facts.rows_per_block * (512 + 16));
    OK(pagelift_layout_free(layout));
    pagelift_dense_shape dense = {.size = sizeof dense, .heads = 8, .dim = 128, .value_bytes = 2, .order = PAGELIFT_HEAD_ORDER_HND,
                                  .regions = PAGELIFT_KV_REGIONS_SEPARATE, .scales = PAGELIFT_KV_SCALES_OUTSIDE};
    OK(pagelift_paged_layout_dense(16, &dense, &layout));
    layout_is(layout, PAGELIFT_KIND_PAGED, 16, 1, 16, 2 * 16 * 8 * 128 * 2, 2);
    dense.regions = PAGELIFT_KV_REGIONS_PACKED, dense.order = PAGELIFT_HEAD_ORDER_NHD, dense.scales = PAGELIFT_KV_SCALES_PER_TOKEN_HEAD;
    OK(pagelift_paged_layout_dense(16, &dense, &layout));
    layout_is(layout, PAGELIFT_KIND_PAGED, 16, 1, 16, 2 * 16 * 8 * (128 * 2 + 4), 1);

    OK(pagelift_ring_layout_qsa(1600, 2, 256, &layout));
    layout_is(layout, PAGELIFT_KIND_RING, 8, 1, 8, 8 * 256, 1);
    pagelift_ring_layout_spec ring = {.size = sizeof ring, .slots = 6, .slot_bytes = 40, .slot_padding = 8, .page_bytes = 300};
    OK(pagelift_ring_layout_new(&ring, &layout));
    layout_is(layout, PAGELIFT_KIND_RING, 6, 1, 6, 300, 1);

    pagelift_gdn_shape gdn = {.size = sizeof gdn, .conv_dim = 10240, .v_heads = 48, .v_dim = 128, .k_dim = 128, .spec = 2, .tp = 1};
    OK(pagelift_state_layout_gdn(&gdn, 0, &layout));
    layout_is(layout, PAGELIFT_KIND_STATE, 1, 1, 0, 3248128, 1);
    pagelift_ssm_shape ssm = {.size = sizeof ssm, .kernel = 4, .inner = 64, .groups = 2, .state = 16, .heads = 4, .head_dim = 16,
                              .spec = 1, .tp = 2};
    OK(pagelift_state_layout_ssm(&ssm, 0, &layout));
    layout_is(layout, PAGELIFT_KIND_STATE, 1, 1, 0, (3 + 1) * (64 + 2 * 2 * 16) / 2 * 2 + 4 / 2 * 16 * 16 * 4, 1);
    pagelift_ple_shape ple = {.size = sizeof ple, .kernel = 4, .ngram = 3, .hidden = 32, .hc = 2, .spec = 1};
    OK(pagelift_state_layout_ple(&ple, 8192, &layout));
    layout_is(layout, PAGELIFT_KIND_STATE, 1, 1, 0, 8192, 1);
    pagelift_state_part parts[] = {{.name = "a", .offset = 64, .bytes = 8}, {.name = "b", .offset = 0, .bytes = 60}};
    pagelift_state_layout_spec state = {.size = sizeof state, .conv_order = PAGELIFT_CONV_ORDER_DS, .parts = parts, .parts_count = 2};
    OK(pagelift_state_layout_new(&state, &layout));
    layout_is(layout, PAGELIFT_KIND_STATE, 1, 1, 0, 72, 1);
}

static void wrong_layouts(void) {
    pagelift_layout layout;
    IS(PAGELIFT_LAYOUT, pagelift_paged_layout_mla_bf16(0, &layout));
    IS(PAGELIFT_LAYOUT, pagelift_paged_layout_deepseek_v4(256, 0, &layout));
    IS(PAGELIFT_LAYOUT, pagelift_paged_layout_qsa_main_bf16(16, UINT32_MAX, &layout));
    IS(PAGELIFT_LAYOUT, pagelift_ring_layout_qsa(7, 2, 256, &layout));
    SAID("NoSlots", "slot");
    pagelift_gdn_shape gdn = {.size = sizeof gdn, .conv_dim = 10, .v_heads = 4, .v_dim = 1, .k_dim = 1, .tp = 0};
    IS(PAGELIFT_LAYOUT, pagelift_state_layout_gdn(&gdn, 0, &layout));
    pagelift_dense_shape dense = {.size = sizeof dense, .heads = 8, .dim = 128, .value_bytes = 2, .order = 2};
    IS(PAGELIFT_BAD_VALUE, pagelift_paged_layout_dense(16, &dense, &layout));
    SAID("BadValue", "`shape->order` is 2; expected a pagelift_head_order");
    dense.order = 0, dense.regions = 9;
    IS(PAGELIFT_BAD_VALUE, pagelift_paged_layout_dense(16, &dense, &layout));
    dense.regions = 0, dense.scales = UINT32_MAX;
    IS(PAGELIFT_BAD_VALUE, pagelift_paged_layout_dense(16, &dense, &layout));
    pagelift_segment segments[] = {{.name = "k", .offset = PAGELIFT_AFTER, .row_bytes = 8},
                                   {.name = "k", .offset = PAGELIFT_AFTER, .row_bytes = 8}};
    pagelift_paged_layout_spec paged = {.size = sizeof paged, .block_tokens = 4, .segments = segments, .segments_count = 2};
    IS(PAGELIFT_LAYOUT, pagelift_paged_layout_new(&paged, &layout));
    segments[1].name = "v", segments[1].row_stride = 16;
    IS(PAGELIFT_BAD_VALUE, pagelift_paged_layout_new(&paged, &layout));
    segments[1].row_stride = 0, segments[1].name = NULL;
    IS(PAGELIFT_NULL_POINTER, pagelift_paged_layout_new(&paged, &layout));
    segments[1].name = "\xff\xfe";
    IS(PAGELIFT_BAD_TEXT, pagelift_paged_layout_new(&paged, &layout));
    SAID("BadText", "`segment->name` is not UTF-8");
    segments[1].name = "v", segments[1].reserved = 1;
    IS(PAGELIFT_BAD_VALUE, pagelift_paged_layout_new(&paged, &layout));
    segments[1].reserved = 0, paged.segments_count = 0;
    IS(PAGELIFT_LAYOUT, pagelift_paged_layout_new(&paged, &layout));
    paged.segments = NULL, paged.segments_count = 2;
    IS(PAGELIFT_NULL_POINTER, pagelift_paged_layout_new(&paged, &layout));
    paged.segments = (const pagelift_segment *)(const void *)((const char *)segments + 1);
    IS(PAGELIFT_MISALIGNED, pagelift_paged_layout_new(&paged, &layout));
    SAID("Misaligned", "not aligned to 8 bytes");
    paged.segments = segments, paged.segments_count = SIZE_MAX;
    IS(PAGELIFT_BAD_VALUE, pagelift_paged_layout_new(&paged, &layout));
    pagelift_state_part parts[] = {{.name = "a", .offset = 0, .bytes = 8}, {.name = "b", .offset = PAGELIFT_AFTER, .bytes = 8}};
    pagelift_state_layout_spec state = {.size = sizeof state, .parts = parts, .parts_count = 2};
    IS(PAGELIFT_BAD_VALUE, pagelift_state_layout_new(&state, &layout));
    state.conv_order = 3;
    IS(PAGELIFT_BAD_VALUE, pagelift_state_layout_new(&state, &layout));
    pagelift_layout ring;
    OK(pagelift_ring_layout_qsa(1600, 2, 256, &ring));
    IS(PAGELIFT_WRONG_PLAN, pagelift_paged_layout_padded_to(ring, 4096, &layout));
    OK(pagelift_layout_free(ring));
}

static void spans(void) {
    pagelift_prompt_span span;
    OK(pagelift_prompt_span_new(32019, PAGELIFT_RECURRENCE_NONE, &span));
    CHECK(span.prompt_tokens == 32019 && span.imported_tokens == 32019 && span.resume_at == 32018);
    pagelift_block_span blocks;
    OK(pagelift_prompt_span_in_blocks_of(&span, 128, &blocks));
    CHECK(blocks.block_tokens == 128 && blocks.received == 251 && blocks.capacity == 32128 && blocks.holes == 109);
    CHECK(blocks.tail_page == 250 && blocks.tail_tokens == 19 && blocks.endpoints == 251);
    OK(pagelift_prompt_span_new(32019, PAGELIFT_RECURRENCE_STATE, &span));
    CHECK(span.imported_tokens == 32018 && span.resume_at == 32018);
    OK(pagelift_prompt_span_explicit(100, 64, 64, &span));
    CHECK(span.prompt_tokens == 100 && span.imported_tokens == 64 && span.resume_at == 64);
    IS(PAGELIFT_SPAN, pagelift_prompt_span_explicit(100, 101, 100, &span));
    IS(PAGELIFT_SPAN, pagelift_prompt_span_new(0, PAGELIFT_RECURRENCE_NONE, &span));
    IS(PAGELIFT_BAD_VALUE, pagelift_prompt_span_new(5, 7, &span));
    IS(PAGELIFT_SPAN, pagelift_prompt_span_in_blocks_of(&span, 0, &blocks));
    span.resume_at = 3;
    IS(PAGELIFT_SPAN, pagelift_prompt_span_in_blocks_of(&span, 128, &blocks));

    pagelift_decision decision = {.size = sizeof decision};
    OK(pagelift_decide(PAGELIFT_POLICY_LIFT_TAIL, 32019, PAGELIFT_RECURRENCE_NONE, 128, 1, &decision));
    CHECK(decision.arrival == PAGELIFT_ARRIVAL_HOST_THEN_LIFT && decision.pages == 1 && decision.left == 1);
    CHECK(decision.span.resume_at == 32018 && decision.blocks.tail_tokens == 19 && decision.size == sizeof decision);
    OK(pagelift_decide(PAGELIFT_POLICY_ROUND_DOWN, 32019, PAGELIFT_RECURRENCE_NONE, 128, 1, &decision));
    CHECK(decision.arrival == PAGELIFT_ARRIVAL_HOST && decision.left == 19);
    OK(pagelift_decide(PAGELIFT_POLICY_LAND_ON_DEVICE, 32019, PAGELIFT_RECURRENCE_NONE, 128, 251, &decision));
    CHECK(decision.arrival == PAGELIFT_ARRIVAL_DEVICE && decision.pages == 251);
    IS(PAGELIFT_BAD_VALUE, pagelift_decide(3, 32019, 0, 128, 251, &decision));
    IS(PAGELIFT_BAD_VALUE, pagelift_decide(0, 32019, 2, 128, 251, &decision));
    IS(PAGELIFT_SPAN, pagelift_decide(0, 32019, 0, 0, 251, &decision));
    decision.size -= 8;
    IS(PAGELIFT_WRONG_SIZE, pagelift_decide(0, 32019, 0, 128, 251, &decision));
    SAID("WrongSize", "sizeof(pagelift_decision)");
}

int main(void) {
    layouts();
    wrong_layouts();
    spans();
    check_nothing_lives();
    return 0;
}
