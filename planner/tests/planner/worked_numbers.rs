//! The numbers that the documentation works out, as plans really built.

use std::sync::Arc;

use pagelift_planner::geometry::{
    Geometry, GeometryBuilder, GroupKey, Memory, Paged, PagedLift, PoolSpec, Region, SideSpec,
};
use pagelift_planner::import::{BlockSpan, ImportGroup, PromptSpan};
use pagelift_planner::layout::{GdnShape, PagedLayout, PleShape, RingLayout, Segment, SsmShape, StateLayout};
use pagelift_planner::plan::{Plan as _, PlanCapacity, RestorePlan, TailRows};
use pagelift_planner::quantity::Tokens;

use crate::fixed::{
    DEVICE, HOST, One, blocks_outermost, hybrid, import, layers_outermost, paged, pool, prompt,
};
use pagelift_cases::decode::{checked_moves, header};
use pagelift_cases::{bytes, encoded, hosts, pages};

fn blocks(span: PromptSpan, block: u64) -> BlockSpan {
    span.in_blocks_of(Tokens::new(block)).unwrap()
}

/// Received blocks, slots, holes, tail page, imported tokens in it.
fn numbers(span: PromptSpan, block: u64) -> (u32, u64, u64, u32, u64) {
    let span = blocks(span, block);
    (span.received(), span.capacity().get(), span.holes().get(), span.tail_page(), span.tail_tokens().get())
}

#[test]
fn unaligned_aligned_and_short_prompts() {
    assert_eq!(numbers(prompt(32_019), 128), (251, 32_128, 109, 250, 19));
    assert_eq!(numbers(prompt(32_000), 128), (250, 32_000, 0, 249, 128));
    assert_eq!(numbers(prompt(100), 128), (1, 128, 28, 0, 100));
    assert_eq!(numbers(prompt(32_019), 64), (501, 32_064, 45, 500, 19));
}

#[test]
fn case_07_160_tokens_are_2_blocks_of_128_and_3_of_64() {
    assert_eq!(numbers(prompt(160), 128), (2, 256, 96, 1, 32));
    assert_eq!(numbers(prompt(160), 64), (3, 192, 32, 2, 32));
}

#[test]
fn hybrid_models_leave_the_last_token() {
    let span = hybrid(32_001);
    assert_eq!((span.imported().get(), span.resume_at().get()), (32_000, 32_000));
    // Nothing of page 250 was imported, and it is the writable one all the same.
    assert_eq!(numbers(span, 128), (250, 32_000, 0, 250, 0));
    assert_eq!(blocks(span, 128).endpoints(), 251);
    let span = prompt(32_001);
    assert_eq!((span.imported().get(), span.resume_at().get()), (32_001, 32_000));
    assert_eq!(numbers(span, 128), (251, 32_128, 127, 250, 1));
    assert_eq!(blocks(span, 128).endpoints(), 251);
}

/// Bytes and units of a lift of a prompt's blocks `0..n` into page 0, or pages `0..n`.
fn lifted(one: &One, span: PromptSpan, block: u64, lift: PagedLift, mode: TailRows) -> (u64, u32) {
    let endpoints: Vec<u32> = (0..blocks(span, block).endpoints()).collect();
    let blocks = hosts(&endpoints);
    let pages = if lift == PagedLift::All { pages(&endpoints) } else { pages(&[0]) };
    let mut plan = one.plan();
    plan.lift(&import(span, &[ImportGroup::new(one.group, &blocks, &pages)]), mode).unwrap();
    let moved = checked_moves(&one.geometry, &encoded(&plan));
    let copied: u64 = moved.iter().filter(|piece| piece.from.is_some()).map(|piece| piece.bytes).sum();
    assert_eq!(copied, bytes(&plan));
    (copied, header(&encoded(&plan)).units)
}

#[test]
fn tail_page_of_mla_bf16() {
    let layout = PagedLayout::mla_bf16(128).unwrap();
    assert_eq!(layout.page_bytes().get(), 147_456);
    let one = One::new(&layout, 61, 251, 1, PagedLift::Tail);
    let lift = |tokens, mode| lifted(&one, prompt(tokens), 128, PagedLift::Tail, mode);
    assert_eq!(lift(32_019, TailRows::Whole), (8_994_816, 61 * 9));
    assert_eq!(lift(32_000, TailRows::Whole), (8_994_816, 61 * 9));
    assert_eq!(lift(32_019, TailRows::Exact), (61 * 19 * 1152, 61 * 2));
    assert_eq!(lift(32_019, TailRows::ExactZeroed), (61 * 19 * 1152, 61 * (2 + 8)));
}

#[test]
fn indexer_lifted_whole_and_its_tail_alone() {
    let layout = PagedLayout::indexer_fp8(64).unwrap();
    assert_eq!(layout.page_bytes().get(), 8_448);
    let all = One::new(&layout, 61, 501, 501, PagedLift::All);
    let tail = One::new(&layout, 61, 501, 1, PagedLift::Tail);
    assert_eq!(lifted(&all, prompt(32_019), 64, PagedLift::All, TailRows::Whole).0, 258_179_328);
    assert_eq!(lifted(&tail, prompt(32_019), 64, PagedLift::Tail, TailRows::Whole).0, 515_328);
}

#[test]
fn tail_page_of_v3_2_is_one_plan_of_two_groups() {
    let main = PagedLayout::fp8_ds_mla(64).unwrap();
    let indexer = PagedLayout::indexer_fp8(64).unwrap();
    assert_eq!((main.page_bytes().get(), indexer.page_bytes().get()), (41_984, 8_448));
    let (geometry, keys) = v3_2(&main, &indexer);
    let mut plan = RestorePlan::new(Arc::clone(&geometry), PlanCapacity::default()).unwrap();
    let first: Vec<u32> = (0..501).collect();
    let second: Vec<u32> = (501..1002).collect();
    let (first, second, pages) = (hosts(&first), hosts(&second), pages(&[0, 1]));
    let groups =
        [ImportGroup::new(keys[0], &first, &pages[..1]), ImportGroup::new(keys[1], &second, &pages[1..])];
    plan.lift(&import(prompt(32_019), &groups), TailRows::Whole).unwrap();
    assert_eq!((plan.jobs(), bytes(&plan)), (2, 3_076_352));
    let moved: u64 = checked_moves(&geometry, &encoded(&plan)).iter().map(|piece| piece.bytes).sum();
    assert_eq!(moved, 3_076_352);
}

/// Both groups of V3.2 in one slab and one host pool, every block padded to the main group's size.
fn v3_2(main: &PagedLayout, indexer: &PagedLayout) -> (Arc<Geometry>, [GroupKey<Paged>; 2]) {
    let stride = 61 * main.page_bytes().get();
    let mut builder = GeometryBuilder::new();
    let host = pool(&mut builder, Memory::Host, 1002, 1002 * stride);
    let device = pool(&mut builder, Memory::Device, 2, 2 * stride);
    // Layer-outermost regions alias too: layer l of both groups begins at the same byte, with the same stride.
    let mut group = |name: &str, layout: &PagedLayout| {
        let mut host = layers_outermost(host, 0, 61, 1002, main);
        host.layout = layout.clone();
        let device = blocks_outermost(device, 61, stride, layout);
        builder.group(paged(name, 61, PagedLift::Tail, host, device)).unwrap()
    };
    let keys = [group("main", main), group("indexer", indexer)];
    (Arc::new(builder.build().unwrap()), keys)
}

#[test]
fn scales_of_the_indexer_lie_after_all_keys() {
    let layout = PagedLayout::indexer_fp8(64).unwrap();
    let at = |segment: &Segment, row: u64| segment.offset() + row * u64::from(segment.row_stride());
    let [key, scale] = layout.segments() else { panic!("two segments") };
    for row in 0..64 {
        assert_eq!(at(key, row), row * 128);
        assert_eq!(at(scale, row), 64 * 128 + 4 * row);
    }
}

#[test]
fn compressed_rows_are_whole_groups_of_four_tokens() {
    let layout = PagedLayout::qsa_compressed_bf16(1600).unwrap();
    assert_eq!((layout.rows_per_block().get(), layout.page_bytes().get()), (400, 400 * 256));
    for tokens in 0..=1600 {
        assert_eq!(u64::from(layout.complete_rows(Tokens::new(tokens)).get()), tokens / 4);
    }
    assert_eq!(layout.complete_rows(Tokens::new(u64::MAX)).get(), 400);
    // 1,601 to 1,603 tokens: the open group lives in the ring, and exact rows copy nothing.
    let one = One::new(&layout, 12, 2, 1, PagedLift::Tail);
    for tokens in 1_601..=1_603 {
        for span in [prompt(tokens), hybrid(tokens)] {
            assert_eq!(blocks(span, 1600).tail_page(), 1);
            assert_eq!(lifted(&one, span, 1600, PagedLift::Tail, TailRows::Exact), (0, 0));
        }
    }
    assert_eq!(lifted(&one, prompt(1_604), 1600, PagedLift::Tail, TailRows::Exact).0, 12 * 256);
    assert_eq!(lifted(&one, hybrid(1_604), 1600, PagedLift::Tail, TailRows::Exact).0, 0);
    assert_eq!(lifted(&one, hybrid(1_605), 1600, PagedLift::Tail, TailRows::Exact).0, 12 * 256);
    assert_eq!(lifted(&one, hybrid(1_602), 1600, PagedLift::Tail, TailRows::Whole).0, 12 * 400 * 256);
}

#[test]
fn states_of_qwen_flash() {
    let flash = |tp| GdnShape { conv_dim: 10_240, v_heads: 48, v_dim: 128, k_dim: 128, spec: 2, tp };
    let page = |tp: u32, bytes| StateLayout::gdn(flash(tp), Some(bytes)).unwrap();
    assert_eq!(page(1, 1600 * 2048).state_bytes().get(), 102_400 + 3_145_728);
    assert_eq!(page(1, 1600 * 2048).state_bytes().get(), 3_248_128);
    assert_eq!(page(1, 1600 * 2048).page_bytes().get(), 3_276_800);
    assert_eq!(page(2, 1_638_400).state_bytes().get(), 51_200 + 1_572_864);
    assert_eq!(page(2, 1_638_400).state_bytes().get(), 1_624_064);
    assert!(StateLayout::gdn(flash(1), Some(3_248_127)).is_err());
    assert!(StateLayout::gdn(flash(7), None).is_err(), "7 ranks do not share 48 heads");
    // One KV head of TP2: 1024 bytes a row.
    assert_eq!(PagedLayout::qsa_main_bf16(1600, 1).unwrap().page_bytes().get(), 1600 * 1024);
    assert_eq!(PagedLayout::qsa_main_bf16(1600, 2).unwrap().segments().len(), 2);
}

#[test]
fn states_of_other_families() {
    let ssm =
        SsmShape { kernel: 4, inner: 8192, groups: 8, state: 128, heads: 128, head_dim: 64, spec: 1, tp: 2 };
    let conv = 4 * ((8192 + 2 * 8 * 128) / 2) * 2;
    let state = (128 / 2) * 64 * 128 * 4;
    assert_eq!(StateLayout::ssm(ssm, None).unwrap().state_bytes().get(), conv + state);
    let ple = PleShape { kernel: 4, ngram: 2, spec: 3, hidden: 2048, hc: 4 };
    assert_eq!(StateLayout::ple(ple, None).unwrap().state_bytes().get(), (3 * 2 + 3) * 2048 * 4 * 2);
}

#[test]
fn rings_are_the_least_multiple_of_four_that_divides_the_block() {
    for block in (4_u32..=1600).step_by(4).chain([1, 2, 3, 6, 1599]) {
        for spec in [0, 1, 2, 4, 5, 13] {
            let naive = (1..=block).find(|ring| ring % 4 == 0 && *ring >= 4 + spec && block % ring == 0);
            let ring = RingLayout::qsa(block, spec, 256).ok().map(|ring| ring.slots().get());
            assert_eq!(ring, naive, "block {block}, spec {spec}");
        }
    }
    // Quick, and no overflow, for any numbers.
    assert!(RingLayout::qsa(u32::MAX - 3, 1 << 31, 4).is_ok());
    assert!(RingLayout::qsa(u32::MAX, u32::MAX, 4).is_err());
    let ring = RingLayout::builder(8, 280).build().unwrap();
    assert_eq!(ring.page_bytes().get(), 2_240);
}

#[test]
fn a_step_of_64_imports_is_less_than_a_fiftieth_of_its_descriptors() {
    let layouts =
        [PagedLayout::fp8_ds_mla(64), PagedLayout::indexer_fp8(64), PagedLayout::deepseek_v4(64, 576)];
    let mut builder = GeometryBuilder::new();
    let groups: Vec<GroupKey<Paged>> = (0_u32..)
        .zip(layouts)
        .map(|(n, layout)| {
            let layout = layout.unwrap();
            let page = layout.page_bytes().get();
            let mut side = |memory: Memory, base: u64| {
                let region = [Region::new(base, 61 * page * 64)];
                let pool = PoolSpec::new(&format!("{}{n}", memory.name()), memory, 64, &region);
                let offsets: Vec<u64> = (0..61).map(|layer| layer * page).collect();
                SideSpec::packed(builder.pool(pool).unwrap(), &[base], &offsets, 61 * page, layout.clone())
            };
            let base = u64::from(n) << 40;
            let (host, device) = (side(Memory::Host, base + HOST), side(Memory::Device, base + DEVICE));
            builder.group(paged(&format!("group{n}"), 61, PagedLift::Tail, host, device)).unwrap()
        })
        .collect();
    let geometry = Arc::new(builder.build().unwrap());
    let mut plan =
        RestorePlan::new(Arc::clone(&geometry), PlanCapacity { jobs: 192, list_entries: 0 }).unwrap();
    for id in 0..64 {
        let (block, page) = (hosts(&[id]), pages(&[id]));
        let lists: Vec<ImportGroup<'_>> =
            groups.iter().map(|group| ImportGroup::new(*group, &block, &page)).collect();
        plan.lift(&import(prompt(19), &lists), TailRows::Whole).unwrap();
    }
    let table = encoded(&plan);
    // A copy call wants source, destination and bytes of each of 1 + 2 + 2 segments of each layer.
    let descriptors = 64 * 61 * (1 + 2 + 2) * 3 * size_of::<u64>();
    assert_eq!(descriptors, 468_480);
    assert!(table.len() * 50 <= descriptors, "{} bytes of table", table.len());
    let fixed =
        size_of_val(geometry.routes()) + size_of_val(geometry.segments()) + size_of_val(geometry.bases());
    assert!(table.len() + fixed < 64 << 10, "{} and {fixed} bytes", table.len());
}
