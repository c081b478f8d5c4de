//! Every byte that a lift moves, against the address formula written out row by row.

use std::sync::Arc;

use pagelift_planner::geometry::{Geometry, PagedLift};
use pagelift_planner::import::ImportGroup;
use pagelift_planner::layout::{PagedLayout, Segment};
use pagelift_planner::plan::{HostToDevice, PlanCapacity, RestorePlan, TailRows};
use proptest::prelude::*;

use crate::fixed::{DEVICE, HOST, One, hybrid, import, prompt};
use pagelift_cases::decode::{self, Move, checked_moves};
use pagelift_cases::draw::Draw;
use pagelift_cases::ids::Free;
use pagelift_cases::lift::LiftCall;
use pagelift_cases::pages::{Call, Session};
use pagelift_cases::shape::Scale;
use pagelift_cases::world::World;
use pagelift_cases::{bytes, encoded, hosts, pages};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn moves_every_byte_once_and_nothing_else(seed: u64, size in 1_u32..7, imports in 0_u64..5) {
        let mut draw = Draw::seeded(seed);
        let world = World::draw(&mut draw, &Scale::planned(size));
        let mut session = Session::<HostToDevice>::new(&world, PlanCapacity::default());
        let mut free = Free::all(&mut draw, &world);
        for _ in 0..imports {
            let Some(import) = LiftCall::fitting(&mut draw, &world, &mut free) else { break };
            prop_assert!(session.call(Call::Lift(import)));
        }
    }
}

/// The one move of a plan with one contiguous job.
fn only_move(geometry: &Geometry, plan: &RestorePlan) -> Move {
    let moves = checked_moves(geometry, &encoded(plan));
    assert_eq!(moves.len(), 1, "{moves:x?}");
    moves[0]
}

#[test]
fn case_01_offsets_past_4_gib_stay_exact() {
    // One layer of 147,456 bytes a page: block 40,000 begins at 5,898,240,000, past 2³².
    let one = One::new(&PagedLayout::mla_bf16(128).unwrap(), 1, 40_001, 40_001, PagedLift::Tail);
    let mut plan = one.plan();
    let (blocks, page) = (hosts(&[40_000]), pages(&[39_999]));
    plan.lift(&import(prompt(100), &[ImportGroup::new(one.group, &blocks, &page)]), TailRows::Exact).unwrap();
    let page = 128 * 1152;
    let expected = Move { to: DEVICE + 39_999 * page, from: Some(HOST + 40_000 * page), bytes: 100 * 1152 };
    assert_eq!(only_move(&one.geometry, &plan), expected);
}

#[test]
fn case_01_rows_past_2_to_31_bytes_of_one_page_stay_exact() {
    // Row 3,728,271 · 576 is the first past 2³¹ bytes.
    let layout = PagedLayout::mla_bf16(1).unwrap();
    assert_eq!(layout.page_bytes().get(), 1152);
    let layout = PagedLayout::builder(4_000_000).segment("latent", 576).build().unwrap();
    let one = One::new(&layout, 1, 1, 1, PagedLift::Tail);
    for tokens in [3_728_270_u64, 3_728_271, 4_000_000] {
        let mut plan = one.plan();
        let (blocks, page) = (hosts(&[0]), pages(&[0]));
        let groups = [ImportGroup::new(one.group, &blocks, &page)];
        plan.lift(&import(prompt(tokens), &groups), TailRows::Exact).unwrap();
        assert_eq!(bytes(&plan), tokens * 576);
        assert_eq!(u64::from(plan.units()), (tokens * 576).div_ceil(16_384));
        let expected = Move { to: DEVICE, from: Some(HOST), bytes: tokens * 576 };
        assert_eq!(only_move(&one.geometry, &plan), expected);
    }
}

#[test]
fn case_02_each_layer_has_its_offset() {
    let layout = PagedLayout::builder(2).segment("row", 16).build().unwrap();
    let one = One::new(&layout, 3, 4, 4, PagedLift::Tail);
    let mut plan = one.plan();
    let (blocks, page) = (hosts(&[2]), pages(&[3]));
    plan.lift(&import(prompt(2), &[ImportGroup::new(one.group, &blocks, &page)]), TailRows::Whole).unwrap();
    let layer =
        |l: u64| Move { to: DEVICE + 3 * 96 + l * 32, from: Some(HOST + l * 4 * 32 + 2 * 32), bytes: 32 };
    assert_eq!(checked_moves(&one.geometry, &encoded(&plan)), [0, 1, 2].map(layer));
}

/// A page whose rows and padding differ from the other side's.
fn padded(bytes: u32, offset: u64, stride: u32, page: u64) -> PagedLayout {
    let segment = Segment::new("row", offset, bytes, stride).unwrap();
    PagedLayout::builder(2).segment_at(segment).page_bytes(page).build().unwrap()
}

/// The widths of a plan that lifts one page of two rows from `host` to `device`.
fn width_between(host: &PagedLayout, device: &PagedLayout) -> u64 {
    use crate::fixed::{blocks_outermost, layers_outermost, paged, pool};
    use pagelift_planner::geometry::{GeometryBuilder, Memory};
    let mut builder = GeometryBuilder::new();
    let pools = [Memory::Host, Memory::Device].map(|memory| pool(&mut builder, memory, 2, 1 << 20));
    let sides = (
        layers_outermost(pools[0], 0, 1, 2, host),
        blocks_outermost(pools[1], 1, device.page_bytes().get(), device),
    );
    let group = builder.group(paged("main", 1, PagedLift::Tail, sides.0, sides.1)).unwrap();
    let geometry = Arc::new(builder.build().unwrap());
    let mut plan = RestorePlan::new(Arc::clone(&geometry), PlanCapacity::default()).unwrap();
    let (blocks, page) = (hosts(&[1]), pages(&[1]));
    plan.lift(&import(prompt(2), &[ImportGroup::new(group, &blocks, &page)]), TailRows::Whole).unwrap();
    let table = encoded(&plan);
    checked_moves(&geometry, &table);
    decode::units(&geometry, &table)[0].width
}

#[test]
fn case_04_width_is_the_widest_that_both_sides_allow() {
    let packed = |bytes: u32| padded(bytes, 0, bytes, 2 * u64::from(bytes));
    for (bytes, width) in
        [(1152, 16), (656, 16), (584, 8), (576, 16), (280, 8), (132, 4), (68, 4), (6, 2), (7, 1)]
    {
        assert_eq!(width_between(&packed(bytes), &packed(bytes)), width, "rows of {bytes} bytes");
    }
    let plain = packed(64);
    // The same row, with one number of one side at fault: offset, row stride, block stride.
    for (what, odd) in [
        ("offset", padded(64, 4, 64, 160)),
        ("row stride", padded(64, 0, 68, 144)),
        ("block stride", padded(64, 0, 64, 132)),
    ] {
        assert_eq!(width_between(&odd, &plain), 4, "{what} of the source");
        assert_eq!(width_between(&plain, &odd), 4, "{what} of the destination");
    }
}

#[test]
fn case_05_tails_shorter_than_an_access_are_not_dropped() {
    for bytes in [1, 2, 3, 5, 7, 9, 13, 15, 17, 31, 33] {
        let layout = PagedLayout::builder(4).segment("row", bytes).build().unwrap();
        let one = One::new(&layout, 1, 1, 1, PagedLift::Tail);
        for tokens in 1..=4 {
            let mut plan = one.plan();
            let (blocks, page) = (hosts(&[0]), pages(&[0]));
            let groups = [ImportGroup::new(one.group, &blocks, &page)];
            plan.lift(&import(prompt(tokens), &groups), TailRows::Exact).unwrap();
            assert_eq!(only_move(&one.geometry, &plan).bytes, tokens * u64::from(bytes));
        }
    }
}

#[test]
fn case_07_blocks_pair_by_their_place_in_the_prompt() {
    let layout = PagedLayout::builder(4).segment("row", 16).build().unwrap();
    let one = One::new(&layout, 1, 8, 8, PagedLift::All);
    let mut plan = one.plan();
    let (blocks, page) = (hosts(&[6, 1, 4]), pages(&[5, 0, 2]));
    plan.lift(&import(prompt(9), &[ImportGroup::new(one.group, &blocks, &page)]), TailRows::Exact).unwrap();
    let pair = |from: u64, to: u64, rows: u64| Move {
        to: DEVICE + to * 64,
        from: Some(HOST + from * 64),
        bytes: rows * 16,
    };
    assert_eq!(checked_moves(&one.geometry, &encoded(&plan)), [pair(1, 0, 4), pair(4, 2, 1), pair(6, 5, 4)]);
    // The tail is the block of `resume_at`, and not simply the last of some list of blocks.
    let one = One::new(&layout, 1, 8, 8, PagedLift::Tail);
    let mut plan = one.plan();
    let page = pages(&[7]);
    plan.lift(&import(prompt(9), &[ImportGroup::new(one.group, &blocks, &page)]), TailRows::Whole).unwrap();
    assert_eq!(only_move(&one.geometry, &plan), pair(4, 7, 4));
}

#[test]
fn case_08_block_0_and_page_0_are_ordinary() {
    let layout = PagedLayout::builder(4).segment("row", 16).build().unwrap();
    let one = One::new(&layout, 1, 2, 2, PagedLift::Tail);
    let mut plan = one.plan();
    let (blocks, page) = (hosts(&[0]), pages(&[0]));
    plan.lift(&import(prompt(3), &[ImportGroup::new(one.group, &blocks, &page)]), TailRows::Whole).unwrap();
    assert_eq!(only_move(&one.geometry, &plan), Move { to: DEVICE, from: Some(HOST), bytes: 64 });
}

#[test]
fn case_09_nothing_to_lift_is_a_valid_table_without_jobs() {
    let layout = PagedLayout::builder(4).segment("row", 16).build().unwrap();
    let one = One::new(&layout, 1, 4, 4, PagedLift::Tail);
    let mut plan = one.plan();
    assert_eq!(checked_moves(&one.geometry, &encoded(&plan)), []);
    // A hybrid prompt of 5 tokens imports 4: its writable page has none of them.
    let (blocks, page) = (hosts(&[0, 1]), pages(&[2]));
    let groups = [ImportGroup::new(one.group, &blocks, &page)];
    for mode in [TailRows::Whole, TailRows::Exact] {
        plan.clear();
        plan.lift(&import(hybrid(5), &groups), mode).unwrap();
        assert!(plan.is_empty());
        assert_eq!((plan.units(), bytes(&plan)), (0, 0));
        assert_eq!(checked_moves(&one.geometry, &encoded(&plan)), []);
    }
    plan.clear();
    plan.lift(&import(hybrid(5), &groups), TailRows::ExactZeroed).unwrap();
    let zeros = Move { to: DEVICE + 2 * 64, from: None, bytes: 64 };
    assert_eq!(checked_moves(&one.geometry, &encoded(&plan)), [zeros]);
    assert_eq!(bytes(&plan), 0, "zeros are not copied");
    // A prompt of one token of a hybrid model imports nothing at all.
    plan.clear();
    plan.lift(&import(hybrid(1), &[ImportGroup::new(one.group, &blocks[..1], &page)]), TailRows::Whole)
        .unwrap();
    assert!(plan.is_empty());
}

#[test]
fn a_cleared_plan_takes_the_same_import_again() {
    let layout = PagedLayout::builder(4).segment("row", 16).build().unwrap();
    let one = One::new(&layout, 2, 4, 4, PagedLift::All);
    let mut plan = one.plan();
    let (blocks, page) = (hosts(&[3, 1]), pages(&[2, 0]));
    let groups = [ImportGroup::new(one.group, &blocks, &page)];
    plan.lift(&import(prompt(7), &groups), TailRows::Exact).unwrap();
    let first = encoded(&plan);
    for _ in 0..3 {
        plan.clear();
        plan.lift(&import(prompt(7), &groups), TailRows::Exact).unwrap();
        assert_eq!(encoded(&plan), first);
    }
}
