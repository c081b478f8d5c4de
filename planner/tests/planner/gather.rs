//! Gathers, zeros and copies back to the host: every byte once, between any two sides, and nothing that would race.

use std::sync::Arc;

use pagelift_planner::error::PlanError;
use pagelift_planner::geometry::PagedLift;
use pagelift_planner::id::{HostBlockId, PageId};
use pagelift_planner::layout::PagedLayout;
use pagelift_planner::plan::{
    DeviceToDevice, DeviceToHost, Direction, HostToDevice, PagePlan, Plan, PlanCapacity, WriteBackPlan,
};
use pagelift_planner::quantity::Rows;
use proptest::prelude::*;

use crate::fixed::{BUFFER, DEVICE, HOST, One, Ways};
use pagelift_cases::decode::{Move, checked_moves};
use pagelift_cases::draw::Draw;
use pagelift_cases::pages::Calls;
use pagelift_cases::shape::{Scale, Shape};
use pagelift_cases::{bytes, encoded, hosts, pages, plans};

/// Calls that are mostly accepted, and some that would race, name what is not there or do not fit: each is planned or
/// refused whole, as the model says.
fn agrees<D: Calls>(seed: u64, size: u32) {
    let mut draw = Draw::seeded(seed);
    let shape = Shape::draw(&mut draw, &Scale::planned(size));
    let addresses = shape.nowhere();
    plans::pages::<D>(&mut draw, &shape.build(&addresses), &shape.build(&addresses));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn calls_from_host_to_device_agree_with_the_model(seed: u64, size in 1_u32..6) {
        agrees::<HostToDevice>(seed, size);
    }

    #[test]
    fn calls_from_device_to_host_agree_with_the_model(seed: u64, size in 1_u32..6) {
        agrees::<DeviceToHost>(seed, size);
    }

    #[test]
    fn calls_on_the_device_agree_with_the_model(seed: u64, size in 1_u32..6) {
        agrees::<DeviceToDevice>(seed, size);
    }
}

fn moves_of<D: Direction>(plan: &PagePlan<D>) -> Vec<Move> {
    checked_moves(plan.geometry(), &encoded(plan))
}

/// One block from one place to another.
fn block(from: u64, to: u64) -> Move {
    Move { to, from: Some(from), bytes: 64 }
}

#[test]
fn inside_a_pool_and_between_pools_of_the_device() {
    let ways = Ways::new();
    let mut plan = ways.plan();
    // A private copy of a page that others can see; and two pages to a buffer, one back.
    plan.gather(ways.across, &pages(&[5]), &pages(&[0])).unwrap();
    plan.gather(ways.out, &pages(&[5, 3]), &pages(&[2, 0])).unwrap();
    plan.gather(ways.back, &pages(&[1]), &pages(&[7])).unwrap();
    let expected = [
        block(DEVICE + 5 * 64, DEVICE),
        block(BUFFER + 64, DEVICE + 7 * 64),
        block(DEVICE + 3 * 64, BUFFER),
        block(DEVICE + 5 * 64, BUFFER + 2 * 64),
    ];
    assert_eq!(checked_moves(&ways.geometry, &encoded(&plan)), expected);
    assert_eq!((plan.jobs(), bytes(&plan)), (3, 4 * 64));
}

#[test]
fn case_09_empty_lists_are_fine_and_plan_nothing() {
    let ways = Ways::new();
    let mut plan = ways.plan();
    plan.gather(ways.down, &[], &[]).unwrap();
    assert!(plan.is_empty());
    assert_eq!(checked_moves(&ways.geometry, &encoded(&plan)), []);
    let mut plan = ways.plan();
    plan.spill(ways.main, &[], &[]).unwrap();
    assert!(plan.is_empty());
    let mut plan = ways.plan();
    plan.gather(ways.halves, &[], &[]).unwrap();
    assert!(plan.is_empty());
}

fn length(expected: u64, found: u64) -> PlanError {
    PlanError::ListLength { group: "main".into(), list: "destinations", expected, found }
}

#[test]
fn case_11_lists_of_unequal_length_are_refused() {
    let ways = Ways::new();
    let mut plan = ways.plan();
    for (from, to) in [(1, 0), (0, 1), (2, 1), (1, 3)] {
        let (from, to) = (hosts(&[0, 1, 2][..from]), pages(&[0, 1, 2][..to]));
        let error = length(from.len() as u64, to.len() as u64);
        assert_eq!(plan.gather(ways.down, &from, &to), Err(error));
    }
    assert!(plan.is_empty());
}

#[test]
fn case_07_case_11_unequal_blocks_are_used_at_least_in_part() {
    // Pages of 4 rows to pages of 2: the last one of either list may be used in part, but not left over.
    let ways = Ways::new();
    let ids = [0, 1, 2, 3, 4, 5, 6];
    let halves = |from: usize, to: usize| {
        let mut plan = ways.plan();
        let added = plan.gather(ways.halves, &pages(&ids[..from]), &pages(&ids[7 - to..]));
        added.map(|()| bytes(&plan) / 16)
    };
    assert_eq!((halves(1, 2), halves(1, 1), halves(2, 3), halves(2, 4)), (Ok(4), Ok(2), Ok(6), Ok(8)));
    for (from, to, expected) in [(0, 1, 0), (1, 0, 2), (1, 3, 2), (2, 2, 4), (2, 5, 4), (2, 1, 4), (3, 4, 6)]
    {
        assert_eq!(halves(from, to), Err(length(expected, to as u64)), "{from} to {to}");
    }
    // The other way round: two pages of 64 are one block of 128, and so is the first of them alone.
    let layout = |rows| PagedLayout::builder(rows).segment("row", 16).build().unwrap();
    let one = One::between((&layout(128), 4), (&layout(64), 8), 1, PagedLift::Tail);
    let mut plan = WriteBackPlan::new(Arc::clone(&one.geometry), PlanCapacity::default()).unwrap();
    let mut spill = |from: &[u32], to: &[u32]| {
        plan.clear();
        plan.spill(one.group, &pages(from), &hosts(to)).map(|()| bytes(&plan) / 16)
    };
    assert_eq!(
        (spill(&[0, 1], &[0]), spill(&[1], &[3]), spill(&[4, 0, 2], &[1, 0])),
        (Ok(128), Ok(64), Ok(192))
    );
    assert_eq!(spill(&[], &[0]), Err(length(0, 1)));
    assert_eq!(spill(&[0], &[]), Err(length(1, 0)));
    assert_eq!(spill(&[0, 1, 2], &[0]), Err(length(2, 1)), "a page that no block is left for");
    assert_eq!(spill(&[0, 1], &[0, 1]), Err(length(1, 2)), "a block that no page is left for");
}

fn twice(block: &str, first: u32, end: u32) -> PlanError {
    PlanError::WrittenTwice { group: "main".into(), block: block.into(), first, end }
}

fn overlap(page: u32) -> PlanError {
    PlanError::Overlap { group: "main".into(), block: format!("page {page}") }
}

/// A refused gather leaves the plan as it was.
fn refused<D: Direction>(
    plan: &mut PagePlan<D>,
    call: impl Fn(&mut PagePlan<D>) -> Result<(), PlanError>,
) -> PlanError {
    let before = (encoded(plan), plan.summary());
    let error = call(plan).unwrap_err();
    assert_eq!((encoded(plan), plan.summary()), before, "{error}");
    error
}

#[test]
fn case_10_no_row_is_written_twice() {
    let ways = Ways::new();
    let mut plan = ways.plan();
    let down = |from: &'static [u32], to: &'static [u32]| {
        move |plan: &mut PagePlan<HostToDevice>| plan.gather(ways.down, &hosts(from), &pages(to))
    };
    assert_eq!(refused(&mut plan, down(&[0, 1], &[3, 3])), twice("page 3", 0, 4));
    down(&[0, 0], &[3, 4])(&mut plan).unwrap();
    assert_eq!(refused(&mut plan, down(&[1], &[4])), twice("page 4", 0, 4));
    assert_eq!(refused(&mut plan, down(&[1, 2], &[5, 3])), twice("page 3", 0, 4));
    down(&[2], &[5])(&mut plan).unwrap();
    // Nor along another route that ends there.
    let ways = Ways::new();
    let mut plan = ways.plan();
    plan.gather(ways.across, &pages(&[1]), &pages(&[0])).unwrap();
    let back = |plan: &mut PagePlan<_>| plan.gather(ways.back, &pages(&[1]), &pages(&[0]));
    assert_eq!(refused(&mut plan, back), twice("page 0", 0, 4));
}

#[test]
fn case_10_no_row_is_read_and_written() {
    let ways = Ways::new();
    let mut plan = ways.plan();
    let across = |from: &'static [u32], to: &'static [u32]| {
        move |plan: &mut PagePlan<_>| plan.gather(ways.across, &pages(from), &pages(to))
    };
    assert_eq!(refused(&mut plan, across(&[2], &[2])), overlap(2));
    assert_eq!(refused(&mut plan, across(&[2, 3], &[3, 4])), overlap(3));
    assert_eq!(refused(&mut plan, across(&[2, 3], &[4, 2])), overlap(2));
    across(&[2], &[3])(&mut plan).unwrap();
    assert_eq!(refused(&mut plan, across(&[4], &[2])), overlap(2));
    assert_eq!(refused(&mut plan, across(&[3], &[4])), overlap(3));
    let out = |plan: &mut PagePlan<_>| plan.gather(ways.out, &pages(&[3]), &pages(&[0]));
    assert_eq!(refused(&mut plan, out), overlap(3));
    // Page 3 of the buffer is another page.
    plan.gather(ways.back, &pages(&[3]), &pages(&[4])).unwrap();
}

#[test]
fn rows_of_two_sides_in_one_block_may_be_the_same_bytes() {
    // Rows 2 and 3 of page 5, and rows 0 and 1 of page 5 as the other side has it, have different numbers; whether they
    // have different bytes is not looked at.
    let ways = Ways::new();
    let mut plan = ways.plan();
    plan.zero(ways.across, PageId::new(5), Rows::new(2), Rows::new(2)).unwrap();
    let halves =
        |to: &'static [u32]| move |plan: &mut PagePlan<_>| plan.gather(ways.halves, &pages(&[1]), &pages(to));
    assert_eq!(refused(&mut plan, halves(&[6, 5])), twice("page 5", 0, 2));
    assert_eq!(refused(&mut plan, halves(&[1, 6])), overlap(1));
    halves(&[6, 7])(&mut plan).unwrap();
}

#[test]
fn case_10_a_block_belongs_to_one_group() {
    let ways = Ways::new();
    let mut plan = ways.plan();
    plan.gather(ways.across, &pages(&[0]), &pages(&[1])).unwrap();
    for (from, to, shared) in [(2, 1, 1), (0, 3, 0)] {
        let other = |plan: &mut PagePlan<_>| plan.gather(ways.other_across, &pages(&[from]), &pages(&[to]));
        let expected = PlanError::BlockOfTwoGroups {
            block: format!("page {shared}"),
            pool: "device".into(),
            first: "main".into(),
            second: "other".into(),
        };
        assert_eq!(refused(&mut plan, other), expected);
    }
    plan.gather(ways.other_across, &pages(&[2]), &pages(&[3])).unwrap();
}

#[test]
fn case_03_case_08_ids_past_a_pools_end() {
    let ways = Ways::new();
    let mut plan = ways.plan();
    let range = |pool: &str, block: &str, blocks: u32| PlanError::OutOfRange {
        group: "main".into(),
        pool: pool.into(),
        block: block.into(),
        blocks,
    };
    let out = |from: &'static [u32], to: &'static [u32]| {
        move |plan: &mut PagePlan<_>| plan.gather(ways.out, &pages(from), &pages(to))
    };
    // The buffer has fewer pages than the pool.
    assert_eq!(refused(&mut plan, out(&[7, 1], &[3, 4])), range("buffer", "page 4", 4));
    assert_eq!(refused(&mut plan, out(&[7, 8], &[3, 2])), range("device", "page 8", 8));
    assert_eq!(refused(&mut plan, out(&[u32::MAX], &[3])), range("device", "page 4294967295", 8));
    out(&[7, 0], &[3, 0])(&mut plan).unwrap();
}

#[test]
fn keys_of_another_geometry_and_full_plans() {
    let (ways, other) = (Ways::new(), Ways::new());
    let mut plan = ways.plan();
    let foreign = |plan: &mut PagePlan<_>| plan.gather(other.down, &hosts(&[0]), &pages(&[0]));
    assert_eq!(refused(&mut plan, foreign), PlanError::ForeignKey);
    let zero = |plan: &mut PagePlan<_>| plan.zero(other.down, PageId::new(0), Rows::new(0), Rows::new(1));
    assert_eq!(refused(&mut plan, zero), PlanError::ForeignKey);
    let capacity = PlanCapacity { jobs: 2, list_entries: 3 };
    let mut plan = PagePlan::<HostToDevice>::new(Arc::clone(&ways.geometry), capacity).unwrap();
    let down = |from: &'static [u32], to: &'static [u32]| {
        move |plan: &mut PagePlan<_>| plan.gather(ways.down, &hosts(from), &pages(to))
    };
    let full = |what, needed, capacity| PlanError::Capacity { what, needed, capacity };
    assert_eq!(refused(&mut plan, down(&[0, 1, 2, 3], &[0, 1, 2, 3])), full("block list entries", 4, 3));
    down(&[0, 1, 2], &[0, 1, 2])(&mut plan).unwrap();
    assert_eq!(refused(&mut plan, down(&[3, 4], &[3, 4])), full("block list entries", 5, 3));
    down(&[3], &[3])(&mut plan).unwrap();
    assert_eq!(refused(&mut plan, down(&[4], &[4])), full("jobs", 3, 2));
    let zero = |plan: &mut PagePlan<_>| plan.zero(ways.down, PageId::new(5), Rows::new(0), Rows::new(1));
    assert_eq!(refused(&mut plan, zero), full("jobs", 3, 2));
    // What was refused left no claims behind.
    plan.clear();
    down(&[4, 3], &[4, 3])(&mut plan).unwrap();
}

#[test]
fn zeros() {
    let ways = Ways::new();
    let mut plan = ways.plan();
    let zero = |page: u32, first: u32, rows: u32| {
        move |plan: &mut PagePlan<_>| {
            plan.zero(ways.down, PageId::new(page), Rows::new(first), Rows::new(rows))
        }
    };
    zero(3, 1, 2)(&mut plan).unwrap();
    zero(3, 3, 1)(&mut plan).unwrap();
    zero(0, 0, 4)(&mut plan).unwrap();
    let zeros = |page: u64, first: u64, rows: u64| Move {
        to: DEVICE + page * 64 + first * 16,
        from: None,
        bytes: rows * 16,
    };
    assert_eq!(checked_moves(&ways.geometry, &encoded(&plan)), [zeros(0, 0, 4), zeros(3, 1, 3)]);
    assert_eq!(bytes(&plan), 0, "zeros are not copied");
    // No rows: nothing to do, but the page must exist.
    for first in 0..=4 {
        zero(3, first, 0)(&mut plan).unwrap();
    }
    assert_eq!(plan.jobs(), 3);
    let range = PlanError::OutOfRange {
        group: "main".into(),
        pool: "device".into(),
        block: "page 8".into(),
        blocks: 8,
    };
    assert_eq!(refused(&mut plan, zero(8, 0, 0)), range);
    assert_eq!(refused(&mut plan, zero(8, 0, 1)), range);
    for (first, rows) in [(0, 5), (4, 1), (5, 0), (u32::MAX, 1), (1, u32::MAX), (u32::MAX, u32::MAX)] {
        let expected = PlanError::RowsOutOfRange { group: "main".into(), first, rows, block_rows: 4 };
        assert_eq!(refused(&mut plan, zero(2, first, rows)), expected);
    }
    assert_eq!(refused(&mut plan, zero(3, 0, 2)), twice("page 3", 0, 2));
    zero(3, 0, 1)(&mut plan).unwrap();
    let gather = |plan: &mut PagePlan<_>| plan.gather(ways.down, &hosts(&[1]), &pages(&[3]));
    assert_eq!(refused(&mut plan, gather), twice("page 3", 0, 4));
}

#[test]
fn zeros_of_no_rows_leave_the_block_free_for_copies() {
    let ways = Ways::new();
    let mut plan = ways.plan();
    plan.zero(ways.down, PageId::new(1), Rows::new(2), Rows::ZERO).unwrap();
    plan.gather(ways.down, &hosts(&[0]), &pages(&[1])).unwrap();
    plan.zero(ways.down, PageId::new(1), Rows::new(2), Rows::ZERO).unwrap();
    assert_eq!(checked_moves(&ways.geometry, &encoded(&plan)), [block(HOST, DEVICE + 64)]);
}

#[test]
fn pages_and_states_go_back_to_the_host_whole() {
    let ways = Ways::new();
    let mut plan = ways.plan();
    plan.spill(ways.main, &pages(&[4, 1]), &hosts(&[0, 6])).unwrap();
    plan.spill(ways.other, &pages(&[0]), &hosts(&[1])).unwrap();
    plan.checkpoint(ways.state, PageId::new(2), HostBlockId::new(3)).unwrap();
    let state = Move { to: HOST + 3 * 64, from: Some(DEVICE + 2 * 64), bytes: 48 };
    let expected =
        [block(DEVICE + 4 * 64, HOST), block(DEVICE, HOST + 64), state, block(DEVICE + 64, HOST + 6 * 64)];
    assert_eq!(checked_moves(&ways.geometry, &encoded(&plan)), expected);
    // The same as a gather along the group's route.
    let route = ways.geometry.spill_route(ways.main).unwrap();
    let (mut spill, mut gather) = (ways.plan(), ways.plan());
    spill.spill(ways.main, &pages(&[4, 1]), &hosts(&[0, 6])).unwrap();
    gather.gather(route, &pages(&[4, 1]), &hosts(&[0, 6])).unwrap();
    assert_eq!(encoded(&spill), encoded(&gather));
    // And as along a route of its own between the same sides.
    gather.clear();
    gather.gather(ways.up, &pages(&[4, 1]), &hosts(&[0, 6])).unwrap();
    assert_eq!(moves_of(&gather), moves_of(&spill));
    let twice = |plan: &mut PagePlan<_>| plan.checkpoint(ways.state, PageId::new(5), HostBlockId::new(3));
    let expected =
        PlanError::WrittenTwice { group: "state".into(), block: "host block 3".into(), first: 0, end: 1 };
    assert_eq!(refused(&mut plan, twice), expected);
    let other = Ways::new();
    let foreign = |plan: &mut PagePlan<_>| plan.spill(other.main, &pages(&[5]), &hosts(&[5]));
    assert_eq!(refused(&mut plan, foreign), PlanError::ForeignGroup { group: other.main.id() });
}

#[test]
fn a_group_without_a_host_side_cannot_be_spilled() {
    let One { geometry, group } = One::on_the_device();
    let mut plan = WriteBackPlan::new(geometry, PlanCapacity::default()).unwrap();
    let error = plan.spill(group, &pages(&[0]), &hosts(&[0])).unwrap_err();
    assert_eq!(error.to_string(), "group `main` has no host side to copy device to host");
}
