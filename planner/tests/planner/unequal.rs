//! Blocks and pages of unequal size: rows meet by their place in the prompt, whatever the sizes.

use std::sync::Arc;

use pagelift_planner::error::PlanError;
use pagelift_planner::geometry::*;
use pagelift_planner::id::{HostBlockId, PageId};
use pagelift_planner::import::{ImportGroup, PromptSpan};
use pagelift_planner::layout::PagedLayout;
use pagelift_planner::plan::{MirrorPlan, Plan, RowBinding, RowCapacity, TailRows};
use pagelift_planner::quantity::{Rows, Tokens};

use crate::fixed::{DEVICE, HOST, One, hybrid, import, paged, pool, prompt};
use pagelift_cases::decode::{HEADER_BYTES, Move, ROW_JOB_BYTES, checked_moves, u32_at};
use pagelift_cases::{bytes, encoded, hosts, pages};

/// One layer of 16 bytes a token.
fn layout(tokens: u32) -> PagedLayout {
    PagedLayout::builder(tokens).segment("row", 16).build().unwrap()
}

fn between(block: u32, page: u32, lift: PagedLift) -> One {
    One::between((&layout(block), 16), (&layout(page), 16), 1, lift)
}

/// What a lift moves, in rows: `(to, from, rows)` from the pools' starts, or zeros.
fn lifted(
    one: &One,
    span: PromptSpan,
    blocks: &[u32],
    page: &[u32],
    mode: TailRows,
) -> Result<Vec<(u64, Option<u64>, u64)>, PlanError> {
    let mut plan = one.plan();
    let (blocks, page) = (hosts(blocks), pages(page));
    plan.lift(&import(span, &[ImportGroup::new(one.group, &blocks, &page)]), mode)?;
    let moves = checked_moves(&one.geometry, &encoded(&plan));
    let copied: u64 = moves.iter().filter(|piece| piece.from.is_some()).map(|piece| piece.bytes).sum();
    assert_eq!(copied, bytes(&plan));
    let rows = |piece: &Move| {
        ((piece.to - DEVICE) / 16, piece.from.map(|from| (from - HOST) / 16), piece.bytes / 16)
    };
    Ok(moves.iter().map(rows).collect())
}

#[test]
fn case_07_160_tokens_are_2_blocks_of_128_and_3_pages_of_64() {
    let one = between(128, 64, PagedLift::All);
    let lift = |mode| lifted(&one, prompt(160), &[5, 3], &[9, 2, 4], mode).unwrap();
    // Page 9 is the first half of block 5, page 2 its second, page 4 the first half of block 3.
    let (first, second, third) = ((9 * 64, 5 * 128), (2 * 64, 5 * 128 + 64), (4 * 64, 3 * 128));
    let full = |(to, from): (u64, u64), rows| (to, Some(from), rows);
    assert_eq!(lift(TailRows::Whole), [full(second, 64), full(third, 64), full(first, 64)]);
    assert_eq!(lift(TailRows::Exact), [full(second, 64), full(third, 32), full(first, 64)]);
    assert_eq!(
        lift(TailRows::ExactZeroed),
        [full(second, 64), full(third, 32), (4 * 64 + 32, None, 32), full(first, 64)]
    );
    // The tail alone: the last block's only page.
    let one = between(128, 64, PagedLift::Tail);
    let lift = |mode| lifted(&one, prompt(160), &[5, 3], &[4], mode).unwrap();
    assert_eq!(lift(TailRows::Whole), [full(third, 64)]);
    assert_eq!(lift(TailRows::Exact), [full(third, 32)]);
    assert_eq!(lift(TailRows::ExactZeroed), [full(third, 32), (4 * 64 + 32, None, 32)]);
}

#[test]
fn a_tail_of_a_larger_block_is_its_pages_up_to_the_writable_one() {
    // 240 tokens: the second block has two pages, the writable one is its second.
    let one = between(128, 64, PagedLift::Tail);
    let lift = |span, blocks: &[u32], page: &[u32], mode| lifted(&one, span, blocks, page, mode);
    let (third, fourth) = ((0, Some(3 * 128), 64), (7 * 64, Some(3 * 128 + 64), 48));
    assert_eq!(lift(prompt(240), &[5, 3], &[0, 7], TailRows::Exact), Ok(vec![third, fourth]));
    let length =
        |list, expected, found| PlanError::ListLength { group: "main".into(), list, expected, found };
    assert_eq!(lift(prompt(240), &[5, 3], &[7], TailRows::Exact), Err(length("pages", 2, 1)));
    assert_eq!(lift(prompt(160), &[5, 3], &[0, 7], TailRows::Exact), Err(length("pages", 1, 2)));
    assert_eq!(lift(prompt(160), &[5, 3, 1], &[0], TailRows::Exact), Err(length("host blocks", 2, 3)));
    // Aligned to pages, and to blocks: a hybrid model's writable page has nothing yet.
    assert_eq!(lift(hybrid(193), &[5, 3], &[0, 7], TailRows::Exact), Ok(vec![third]));
    let whole = Ok(vec![third, (7 * 64, Some(3 * 128 + 64), 64)]);
    assert_eq!(lift(hybrid(193), &[5, 3], &[0, 7], TailRows::Whole), whole, "all of what came");
    let zeroed = Ok(vec![third, (7 * 64, None, 64)]);
    assert_eq!(lift(hybrid(193), &[5, 3], &[0, 7], TailRows::ExactZeroed), zeroed);
    assert_eq!(lift(hybrid(257), &[5, 3, 1], &[7], TailRows::Whole), Ok(vec![]));
    assert_eq!(lift(hybrid(257), &[5, 3, 1], &[7], TailRows::ExactZeroed), Ok(vec![(7 * 64, None, 64)]));
}

#[test]
fn pages_larger_than_blocks_are_filled_from_several() {
    let all = between(64, 128, PagedLift::All);
    let tail = between(64, 128, PagedLift::Tail);
    // 160 tokens are 3 blocks of 64 and 2 pages of 128; the writable page has half a block.
    let full = [(2 * 128, Some(9 * 64), 64), (2 * 128 + 64, Some(64), 64)];
    let lift = |one: &One, page: &[u32], mode| lifted(one, prompt(160), &[9, 1, 4], page, mode).unwrap();
    let whole = (5 * 128, Some(4 * 64), 64);
    let (exact, zeros) = ((5 * 128, Some(4 * 64), 32), (5 * 128 + 32, None, 96));
    assert_eq!(lift(&all, &[2, 5], TailRows::Whole), [full[0], full[1], whole]);
    assert_eq!(lift(&all, &[2, 5], TailRows::ExactZeroed), [full[0], full[1], exact, zeros]);
    assert_eq!(lift(&tail, &[5], TailRows::Whole), [whole], "what no block brought is left alone");
    assert_eq!(lift(&tail, &[5], TailRows::Exact), [exact]);
    assert_eq!(lift(&tail, &[5], TailRows::ExactZeroed), [exact, zeros]);
    // 250 tokens: four blocks, two of them in the writable page.
    let found = lifted(&tail, prompt(250), &[9, 1, 4, 2], &[5], TailRows::Exact).unwrap();
    assert_eq!(found, [(5 * 128, Some(4 * 64), 64), (5 * 128 + 64, Some(2 * 64), 58)]);
}

#[test]
fn a_run_is_one_job_for_each_part_of_a_block() {
    let blocks: Vec<u32> = (0..16).collect();
    for (block, page, tokens, jobs) in
        [(128, 64, 1024, 2), (64, 128, 1024, 2), (256, 64, 1000, 4), (64, 256, 1000, 4)]
    {
        let one = between(block, page, PagedLift::All);
        let mut plan = one.plan();
        let count = |size: u32| (tokens as usize).div_ceil(size as usize);
        let (blocks, page) = (hosts(&blocks[..count(block)]), pages(&blocks[..count(page)]));
        plan.lift(&import(prompt(tokens), &[ImportGroup::new(one.group, &blocks, &page)]), TailRows::Whole)
            .unwrap();
        assert_eq!((plan.jobs(), bytes(&plan)), (jobs, 1024 * 16), "{block} to {page:?}");
    }
}

#[test]
fn worked_tail_of_unequal_sizes() {
    // 32,019 tokens are 251 blocks of 128 and 501 pages of 64: page 500 is the first half of block 250, with 19 rows.
    let mla = |tokens| PagedLayout::mla_bf16(tokens).unwrap();
    let one = One::between((&mla(128), 251), (&mla(64), 1), 61, PagedLift::Tail);
    let blocks: Vec<u32> = (0..251).collect();
    let (blocks, page) = (hosts(&blocks), pages(&[0]));
    let bytes_of = |mode| {
        let mut plan = one.plan();
        plan.lift(&import(prompt(32_019), &[ImportGroup::new(one.group, &blocks, &page)]), mode).unwrap();
        bytes(&plan)
    };
    assert_eq!((bytes_of(TailRows::Whole), bytes_of(TailRows::Exact)), (61 * 64 * 1152, 61 * 19 * 1152));
}

#[test]
fn sizes_of_both_sides_are_told_apart() {
    let layout = |tokens| PagedLayout::builder(tokens).tokens_per_row(4).segment("row", 16).build().unwrap();
    let one = One::between((&layout(32), 4), (&layout(8), 4), 1, PagedLift::Tail);
    let (geometry, group) = (&one.geometry, one.group);
    let slots = |memory| geometry.block_slots(group.id(), memory).map(Tokens::get);
    let rows = |memory| geometry.block_rows(group, memory).map(Rows::get);
    assert_eq!((slots(Memory::Host), slots(Memory::Device)), (Some(32), Some(8)));
    assert_eq!((rows(Memory::Host), rows(Memory::Device)), (Some(8), Some(2)));
    let text = geometry.to_string();
    assert!(text.contains("blocks of 8 rows, pages of 2 rows"), "{text}");
}

#[test]
fn mirrors_say_the_rows_of_a_map_entry_and_of_a_block() {
    let layout = |tokens| PagedLayout::builder(tokens).tokens_per_row(4).segment("row", 16).build().unwrap();
    for (block, page, entries) in [(32, 8, 6), (8, 32, 24), (16, 16, 6), (64, 32, 6)] {
        let one = One::between((&layout(block), 5), (&layout(page), 6), 1, PagedLift::Tail);
        let mut plan = MirrorPlan::new(Arc::clone(&one.geometry), RowCapacity::default()).unwrap();
        plan.bind(one.group, RowBinding::new(8, 16)).unwrap();
        let table = encoded(&plan);
        assert_eq!(table.len(), HEADER_BYTES + ROW_JOB_BYTES);
        let word = |at: usize| u32_at(&table, HEADER_BYTES + at);
        assert_eq!((word(48), word(52)), (page, 4), "slots of a page, tokens of a row");
        assert_eq!((word(64), word(68)), (block.min(page) / 4, block / 4), "{block} and {page}");
        assert_eq!(one.geometry.map_entries(), entries, "one for each part of a page that has its own block");
    }
}

/// Two groups that share both pools, with blocks and pages of 8 and 4 rows, and of 2 and 8.
struct Two {
    geometry: Arc<Geometry>,
    groups: [GroupKey<Paged>; 2],
}

impl Two {
    const PAGES: u32 = 5;
    const BLOCKS: u32 = 6;
    /// Rows of a block and of a page.
    const ROWS: [(u32, u32); 2] = [(8, 4), (2, 8)];

    fn new() -> Self {
        let mut builder = GeometryBuilder::new();
        let host = pool(&mut builder, Memory::Host, Self::BLOCKS, 128 * u64::from(Self::BLOCKS));
        let device = pool(&mut builder, Memory::Device, Self::PAGES, 128 * u64::from(Self::PAGES));
        let at = |pool, base, rows| SideSpec::packed(pool, &[base], &[0], 128, layout(rows));
        let groups = [0, 1].map(|index: usize| {
            let (block, page) = Self::ROWS[index];
            let (host, device) = (at(host, HOST, block), at(device, DEVICE, page));
            builder.group(paged(["a", "b"][index], 1, PagedLift::Tail, host, device)).unwrap()
        });
        Self { geometry: Arc::new(builder.build().unwrap()), groups }
    }
}

#[test]
fn whole_pages_are_mapped_only_where_blocks_are_as_large() {
    let two = Two::new();
    let mut plan = MirrorPlan::new(Arc::clone(&two.geometry), RowCapacity::default()).unwrap();
    let map = plan.page_map_mut();
    let (page, block) = (PageId::new, HostBlockId::new);
    assert_eq!(
        map.map(two.groups[0], page(0), block(0)).unwrap_err().to_string(),
        "group `a`: pages have 4 rows and blocks 8; map their parts with `map_rows`"
    );
    let at = |id, row| (page(id), Rows::new(row));
    let to = |id, row| (block(id), Rows::new(row));
    let range = |group: &str, first, rows, block_rows| {
        Err(PlanError::RowsOutOfRange { group: group.into(), first, rows, block_rows })
    };
    assert_eq!(map.map_rows(two.groups[0], at(0, 0), to(0, 2)), range("a", 2, 4, 8));
    assert_eq!(map.map_rows(two.groups[0], at(0, 0), to(0, 8)), range("a", 8, 4, 8));
    assert_eq!(map.map_rows(two.groups[0], at(0, 4), to(0, 4)), range("a", 4, 4, 4));
    assert_eq!(map.map_rows(two.groups[1], at(0, 3), to(0, 0)), range("b", 3, 2, 8));
    assert_eq!(map.map_rows(two.groups[1], at(0, 2), to(0, 2)), range("b", 2, 2, 2));
    assert!(map.pending().is_empty());
    // Two pages share one block, each a half of it.
    map.map_rows(two.groups[0], at(3, 0), to(5, 4)).unwrap();
    map.map_rows(two.groups[0], at(1, 0), to(5, 0)).unwrap();
    assert_eq!(
        map.map_rows(two.groups[0], at(2, 0), to(5, 4)).unwrap_err().to_string(),
        "group `a`: host block 5 is the mirror of page 3 of group `a` already; it cannot mirror page 2 too"
    );
    assert_eq!(
        map.map_rows(two.groups[1], at(2, 0), to(5, 0)).unwrap_err().to_string(),
        "group `b`: host block 5 is the mirror of page 1 of group `a` already; it cannot mirror page 2 too"
    );
    // While one of them is left, the block is that group's.
    map.unmap(two.groups[0], page(1)).unwrap();
    assert!(map.map_rows(two.groups[1], at(2, 0), to(5, 0)).is_err());
    map.unmap(two.groups[0], page(3)).unwrap();
    map.map_rows(two.groups[1], at(2, 0), to(5, 0)).unwrap();
    // Where they are equally large, both calls are one.
    let one = between(4, 4, PagedLift::Tail);
    let (mut first, mut second) = (
        MirrorPlan::new(Arc::clone(&one.geometry), RowCapacity::default()).unwrap(),
        MirrorPlan::new(Arc::clone(&one.geometry), RowCapacity::default()).unwrap(),
    );
    first.page_map_mut().map(one.group, page(3), block(7)).unwrap();
    second.page_map_mut().map_rows(one.group, at(3, 0), to(7, 0)).unwrap();
    assert_eq!(encoded(&first), encoded(&second));
}

#[test]
fn an_unmap_without_room_leaves_all_parts() {
    let two = Two::new();
    let mut plan = MirrorPlan::new(Arc::clone(&two.geometry), RowCapacity { jobs: 0, changes: 2 }).unwrap();
    let group = two.groups[1];
    for part in 0..4 {
        let (page, block) = ((PageId::new(1), Rows::new(part * 2)), (HostBlockId::new(part), Rows::ZERO));
        plan.page_map_mut().map_rows(group, page, block).unwrap();
        plan.staged();
    }
    let before = plan.maps().to_vec();
    let full = PlanError::Capacity { what: "page-map changes", needed: 4, capacity: 2 };
    assert_eq!(plan.page_map_mut().unmap(group, PageId::new(1)), Err(full));
    assert_eq!((plan.maps(), plan.page_map().pending()), (&before[..], &[][..]));
}

#[test]
fn case_01_maps_of_too_many_parts_are_refused_and_leave_nothing_behind() {
    // 2²⁶ pages are as many entries as all maps may have; in two parts each they are too many.
    let (pages, stride) = (1_u32 << 26, 32_u64);
    let mut builder = GeometryBuilder::new();
    let bytes = u64::from(pages) * stride;
    let host = builder.pool(PoolSpec::new("host", Memory::Host, 4, &[Region::new(HOST, 4 * 32)])).unwrap();
    let device = PoolSpec::new("device", Memory::Device, pages, &[Region::new(DEVICE, bytes)]);
    let device = builder.pool(device).unwrap();
    let side = |pool, base, rows: u32| SideSpec::packed(pool, &[base], &[0], stride, layout(rows));
    let group = |name, rows| paged(name, 1, PagedLift::Tail, side(host, HOST, 1), side(device, DEVICE, rows));
    let error = builder.group(group("parts", 2)).unwrap_err();
    assert_eq!(error.to_string(), "parts: the page map is too large");
    builder.group(group("first", 1)).unwrap();
    let error = builder.group(group("second", 1)).unwrap_err();
    assert_eq!(error.to_string(), "second: the page map is too large");
    let geometry = builder.build().unwrap();
    assert_eq!((geometry.groups().len(), geometry.routes().len(), geometry.map_entries()), (1, 2, pages));
}
