//! Bad input: the error that says what is wrong, and a plan that is as it was.

use std::sync::Arc;

use pagelift_planner::error::PlanError;
use pagelift_planner::geometry::*;
use pagelift_planner::id::{HostBlockId, PageId, Ticket};
use pagelift_planner::import::{ImportGroup, PromptSpan};
use pagelift_planner::layout::{PagedLayout, StateLayout, StatePart};
use pagelift_planner::plan::{Plan, PlanCapacity, RestorePlan, Staging, TailRows, WriteBackPlan};

use crate::fixed::{DEVICE, One, Three, hybrid, import, pool, prompt};
use pagelift_cases::encoded;
use pagelift_cases::{hosts, pages};

type Ids<'a> = (&'a [u32], &'a [u32]);

/// Lifts one prompt into a plan of [`Three`].
fn lift(
    three: &Three,
    plan: &mut RestorePlan,
    span: PromptSpan,
    lists: [Ids<'_>; 3],
    mode: TailRows,
) -> Result<(), PlanError> {
    let [a, b, c] = lists.map(|(blocks, page)| (hosts(blocks), pages(page)));
    let groups = three.lists((&a.0, &a.1), (&b.0, &b.1), (&c.0, &c.1));
    plan.lift(&import(span, &groups), mode)
}

/// A prompt of 6 tokens in blocks of 4: two blocks, the second of which is the tail.
const GOOD: [Ids<'static>; 3] = [(&[0, 1], &[0]), (&[2, 3], &[1, 2]), (&[4], &[3])];

fn with(group: usize, lists: Ids<'static>) -> [Ids<'static>; 3] {
    let mut all = GOOD;
    all[group] = lists;
    all
}

fn name(group: usize) -> Arc<str> {
    ["tail", "all", "state"][group].into()
}

fn length(group: usize, list: &'static str, expected: u64, found: u64) -> PlanError {
    PlanError::ListLength { group: name(group), list, expected, found }
}

fn range(group: usize, pool: &str, block: &str) -> PlanError {
    PlanError::OutOfRange { group: name(group), pool: pool.into(), block: block.into(), blocks: 8 }
}

fn twice(group: usize, block: &str, end: u32) -> PlanError {
    PlanError::WrittenTwice { group: name(group), block: block.into(), first: 0, end }
}

fn two_groups(block: &str, pool: &str, first: usize, second: usize) -> PlanError {
    PlanError::BlockOfTwoGroups {
        block: block.into(),
        pool: pool.into(),
        first: name(first),
        second: name(second),
    }
}

#[test]
fn bad_lists_are_refused_and_leave_the_plan_as_it_was() {
    let cases: Vec<([Ids<'_>; 3], PlanError)> = vec![
        // Case 11: lists of unequal or wrong length.
        (with(0, (&[1], &[0])), length(0, "host blocks", 2, 1)),
        (with(0, (&[0, 1, 7], &[0])), length(0, "host blocks", 2, 3)),
        (with(0, (&[], &[])), length(0, "host blocks", 2, 0)),
        (with(0, (&[0, 1], &[])), length(0, "pages", 1, 0)),
        (with(0, (&[0, 1], &[0, 6])), length(0, "pages", 1, 2)),
        (with(1, (&[2, 3], &[1])), length(1, "pages", 2, 1)),
        (with(1, (&[3], &[1, 2])), length(1, "host blocks", 2, 1)),
        (with(2, (&[], &[3])), length(2, "host blocks", 1, 0)),
        (with(2, (&[4], &[])), length(2, "pages", 1, 0)),
        (with(2, (&[4, 5], &[3])), length(2, "host blocks", 1, 2)),
        // Cases 3 and 8: ids past the pool's end, -1 among them; also of blocks that are not copied.
        (with(0, (&[0, 8], &[0])), range(0, "host", "host block 8")),
        (with(0, (&[8, 1], &[0])), range(0, "host", "host block 8")),
        (with(0, (&[0, u32::MAX], &[0])), range(0, "host", "host block 4294967295")),
        (with(0, (&[0, 1], &[8])), range(0, "device", "page 8")),
        (with(0, (&[0, 1], &[u32::MAX])), range(0, "device", "page 4294967295")),
        (with(1, (&[2, 3], &[8, 2])), range(1, "device", "page 8")),
        (with(2, (&[4], &[1 << 31])), range(2, "device", "page 2147483648")),
        // Case 10: destinations that come twice, and blocks of two groups.
        (with(1, (&[2, 3], &[1, 1])), twice(1, "page 1", 4)),
        (with(1, (&[2, 3], &[0, 2])), two_groups("page 0", "device", 0, 1)),
        (with(1, (&[1, 3], &[1, 2])), two_groups("host block 1", "host", 0, 1)),
        (with(1, (&[0, 3], &[1, 2])), two_groups("host block 0", "host", 0, 1)),
        (with(2, (&[4], &[2])), two_groups("page 2", "device", 1, 2)),
        (with(2, (&[0], &[3])), two_groups("host block 0", "host", 0, 2)),
    ];
    let three = Three::new();
    for mode in [TailRows::Whole, TailRows::Exact, TailRows::ExactZeroed] {
        let mut plan = three.plan();
        for already in [false, true] {
            if already {
                // Another import of the step, with blocks of its own; the state is left for the bad ones.
                let other: [Ids<'_>; 3] = [(&[5], &[4]), (&[6], &[5]), (&[7], &[6])];
                lift(&three, &mut plan, prompt(3), other, mode).unwrap();
            }
            let before = (encoded(&plan), plan.summary());
            for (lists, expected) in &cases {
                let found = lift(&three, &mut plan, prompt(6), *lists, mode).unwrap_err();
                if !already {
                    assert_eq!(&found, expected);
                }
                assert_eq!((encoded(&plan), plan.summary()), before, "{found}");
            }
            // The failed imports left no claims behind.
            let mut fresh = three.plan();
            lift(&three, &mut fresh, prompt(6), GOOD, mode).unwrap();
            if !already {
                lift(&three, &mut plan, prompt(6), GOOD, mode).unwrap();
                assert_eq!(encoded(&plan), encoded(&fresh));
                plan.clear();
            } else {
                lift(&three, &mut plan, prompt(6), GOOD, mode).unwrap();
            }
        }
    }
}

#[test]
fn case_10_two_imports_never_share_a_page() {
    let three = Three::new();
    let second: [Ids<'_>; 3] = [(&[5, 6], &[0]), (&[2, 3], &[4, 5]), (&[4], &[6])];
    for mode in [TailRows::Whole, TailRows::Exact, TailRows::ExactZeroed] {
        let mut plan = three.plan();
        lift(&three, &mut plan, prompt(6), GOOD, mode).unwrap();
        let before = encoded(&plan);
        assert_eq!(lift(&three, &mut plan, prompt(6), second, mode), Err(twice(0, "page 0", 4)));
        // Nor where one of them lifts nothing into it: of 4 imported tokens none is in page 1.
        assert_eq!(lift(&three, &mut plan, hybrid(5), second, mode), Err(twice(0, "page 0", 4)));
        assert_eq!(encoded(&plan), before);
        // Host blocks are only read: two requests may have the same prompt.
        let mut second = second;
        second[0].1 = &[7];
        lift(&three, &mut plan, prompt(6), second, mode).unwrap();
    }
}

#[test]
fn case_10_nothing_is_lifted_into_a_page_that_landed_for_another() {
    let layout = PagedLayout::builder(4).segment("row", 16).build().unwrap();
    let one = One::new(&layout, 1, 8, 8, PagedLift::Tail);
    let (blocks, page) = (hosts(&[0, 1]), pages(&[3]));
    let lifted = [ImportGroup::new(one.group, &blocks, &page)];
    let there = pages(&[5, 3]);
    let landed = [ImportGroup::landed(one.group, &there)];
    for (first, second) in [(&lifted, &landed), (&landed, &lifted)] {
        let mut plan = one.plan();
        plan.lift(&import(prompt(6), first), TailRows::Exact).unwrap();
        let before = encoded(&plan);
        let overlap = PlanError::Overlap { group: "main".into(), block: "page 3".into() };
        assert_eq!(plan.lift(&import(prompt(6), second), TailRows::Exact), Err(overlap));
        assert_eq!(encoded(&plan), before);
    }
    // Imports that landed may share the pages of a prefix.
    let mut plan = one.plan();
    let other = pages(&[5, 6]);
    plan.lift(&import(prompt(6), &landed), TailRows::Exact).unwrap();
    plan.lift(&import(prompt(6), &[ImportGroup::landed(one.group, &other)]), TailRows::Exact).unwrap();
    assert!(plan.is_empty());
    let past = pages(&[8]);
    let past = [ImportGroup::landed(one.group, &past)];
    assert!(matches!(
        plan.lift(&import(prompt(6), &past), TailRows::Exact),
        Err(PlanError::OutOfRange { .. })
    ));
}

#[test]
fn a_page_that_nothing_is_lifted_into_is_checked_all_the_same() {
    let three = Three::new();
    for mode in [TailRows::Whole, TailRows::Exact] {
        let mut plan = three.plan();
        let lists = with(0, (&[0, 1], &[8]));
        assert_eq!(lift(&three, &mut plan, hybrid(5), lists, mode), Err(range(0, "device", "page 8")));
        let lists = with(0, (&[0, 9], &[0]));
        assert_eq!(lift(&three, &mut plan, hybrid(5), lists, mode), Err(range(0, "host", "host block 9")));
        let lists = with(1, (&[2, 3], &[1, 0]));
        let expected = two_groups("page 0", "device", 0, 1);
        assert_eq!(lift(&three, &mut plan, hybrid(5), lists, mode), Err(expected));
    }
}

#[test]
fn groups_that_are_missing_twice_or_foreign() {
    let three = Three::new();
    let mut plan = three.plan();
    let [a, b, c] = GOOD.map(|(blocks, page)| (hosts(blocks), pages(page)));
    let [tail, all, state] = three.lists((&a.0, &a.1), (&b.0, &b.1), (&c.0, &c.1));
    let before = encoded(&plan);
    let mut refused = |groups: &[ImportGroup<'_>]| {
        let error = plan.lift(&import(prompt(6), groups), TailRows::Whole).unwrap_err();
        assert_eq!(encoded(&plan), before);
        error
    };
    assert_eq!(refused(&[]), PlanError::GroupMissing { group: name(0) });
    assert_eq!(refused(&[tail, all]), PlanError::GroupMissing { group: name(2) });
    assert_eq!(refused(&[tail, all, state, all]), PlanError::GroupTwice { group: name(1) });
    assert_eq!(refused(&[state, tail, tail, all]), PlanError::GroupTwice { group: name(0) });
    let other = Three::new();
    let foreign = ImportGroup::new(other.state, &c.0, &c.1);
    assert_eq!(refused(&[tail, all, foreign]), PlanError::ForeignGroup { group: other.state.id() });
    // Any order will do.
    plan.lift(&import(prompt(6), &[state, all, tail]), TailRows::Whole).unwrap();
}

#[test]
fn capacities_are_kept_and_a_full_plan_stays_usable() {
    let three = Three::new();
    for (jobs, list_entries, error) in [
        (2, 8, PlanError::Capacity { what: "jobs", needed: 3, capacity: 2 }),
        (0, 8, PlanError::Capacity { what: "jobs", needed: 1, capacity: 0 }),
    ] {
        let mut plan = RestorePlan::new(three.geometry.clone(), PlanCapacity { jobs, list_entries }).unwrap();
        let before = encoded(&plan);
        assert_eq!(lift(&three, &mut plan, prompt(6), GOOD, TailRows::Whole), Err(error));
        assert_eq!(encoded(&plan), before);
    }
    // Lists hold the pages that are copied whole, where there are several of them: the tail too, in this mode.
    let layout = PagedLayout::builder(4).segment("row", 16).build().unwrap();
    let one = One::new(&layout, 1, 8, 8, PagedLift::All);
    let capacity = PlanCapacity { jobs: 4, list_entries: 3 };
    let mut plan = RestorePlan::new(one.geometry.clone(), capacity).unwrap();
    let (blocks, page) = (hosts(&[0, 1, 2, 3]), pages(&[0, 1, 2, 3]));
    let groups = |count: usize| [ImportGroup::new(one.group, &blocks[..count], &page[..count])];
    let full = PlanError::Capacity { what: "block list entries", needed: 4, capacity: 3 };
    assert_eq!(plan.lift(&import(prompt(13), &groups(4)), TailRows::Whole), Err(full));
    plan.lift(&import(prompt(9), &groups(3)), TailRows::Whole).unwrap();
    assert_eq!(plan.jobs(), 1);
    assert!(encoded(&plan).len() <= plan.table_bytes());
    // Exact rows of a tail are a job of their own.
    plan.clear();
    plan.lift(&import(prompt(13), &groups(4)), TailRows::Exact).unwrap();
    assert_eq!(plan.jobs(), 2);
}

#[test]
fn case_01_units_past_32_bits_are_refused() {
    // 2²² layers of 4,096 segments would be nonsense; 2¹⁶ of pages of 1 GiB are 2³² units.
    let layout = PagedLayout::builder(1 << 20).segment("row", 1 << 10).build().unwrap();
    let one = One::new(&layout, 1 << 16, 1, 1, PagedLift::Tail);
    let mut plan = one.plan();
    let (blocks, page) = (hosts(&[0]), pages(&[0]));
    let groups = [ImportGroup::new(one.group, &blocks, &page)];
    let error = PlanError::Capacity { what: "units", needed: 1 << 32, capacity: u64::from(u32::MAX) };
    assert_eq!(plan.lift(&import(prompt(1 << 20), &groups), TailRows::Whole), Err(error));
    plan.lift(&import(prompt((1 << 20) - 16), &groups), TailRows::Exact).unwrap();
    assert_eq!(plan.units(), u32::MAX - 0xFFFF);
}

#[test]
fn tables_without_room_are_refused() {
    let three = Three::new();
    let mut plan = three.plan();
    lift(&three, &mut plan, prompt(6), GOOD, TailRows::Whole).unwrap();
    let needed = encoded(&plan).len();
    let staging = Staging { ticket: Ticket::new(1, 1), completion: 0, repeat: true };
    for room in [0, 1, 47, 48, needed - 1] {
        let mut table = vec![0xAA; room];
        assert_eq!(plan.encode(staging, &mut table), Err(PlanError::Buffer { needed, room }));
        assert!(table.iter().all(|&byte| byte == 0xAA), "a table that is refused is not begun");
    }
    let mut table = vec![0; needed];
    assert_eq!(plan.encode(staging, &mut table), Ok(needed));
    assert_eq!(pagelift_cases::decode::header(&table).flags, pagelift_abi::flags::REPEAT);
}

#[test]
fn checkpoints() {
    let three = Three::new();
    let mut plan =
        WriteBackPlan::new(three.geometry.clone(), PlanCapacity { jobs: 2, list_entries: 0 }).unwrap();
    plan.checkpoint(three.state, PageId::new(1), HostBlockId::new(2)).unwrap();
    let before = encoded(&plan);
    let mut refused = |page: u32, block: u32| {
        let error = plan.checkpoint(three.state, PageId::new(page), HostBlockId::new(block)).unwrap_err();
        assert_eq!(encoded(&plan), before);
        error
    };
    assert_eq!(refused(3, 2), twice(2, "host block 2", 1));
    assert_eq!(refused(8, 3), range(2, "device", "page 8"));
    assert_eq!(refused(3, 8), range(2, "host", "host block 8"));
    let other = Three::new();
    let foreign = PlanError::ForeignGroup { group: other.state.id() };
    assert_eq!(plan.checkpoint(other.state, PageId::new(3), HostBlockId::new(3)), Err(foreign));
    plan.checkpoint(three.state, PageId::new(3), HostBlockId::new(3)).unwrap();
    let full = PlanError::Capacity { what: "jobs", needed: 3, capacity: 2 };
    assert_eq!(plan.checkpoint(three.state, PageId::new(4), HostBlockId::new(4)), Err(full));
    let moves = pagelift_cases::decode::checked_moves(&three.geometry, &encoded(&plan));
    let bytes: u64 = moves.iter().map(|piece| piece.bytes).sum();
    assert_eq!(bytes, 2 * 2 * 128, "two pages of two layers, and none of their padding");
    assert!(moves.iter().all(|piece| piece.to < DEVICE && piece.from.is_some_and(|from| from >= DEVICE)));
}

#[test]
fn a_state_without_a_host_side_cannot_be_checkpointed() {
    let mut builder = GeometryBuilder::new();
    let device = pool(&mut builder, Memory::Device, 2, 256);
    let layout = StateLayout::new(&[StatePart::new("conv", 128)], None).unwrap();
    let spec = GroupSpec::<State> {
        name: "state".into(),
        layers: 1,
        landing: Landing::Device,
        lift: StateLift::None,
        host: None,
        device: Some(SideSpec::packed(device, &[DEVICE], &[0], 128, layout)),
    };
    let state = builder.group(spec).unwrap();
    let mut plan = WriteBackPlan::new(Arc::new(builder.build().unwrap()), PlanCapacity::default()).unwrap();
    let error = plan.checkpoint(state, PageId::new(0), HostBlockId::new(0)).unwrap_err();
    assert_eq!(error.to_string(), "group `state` has no host side to copy device to host");
}

#[test]
fn lists_of_groups_that_are_not_lifted_are_checked_too() {
    let layout = PagedLayout::builder(4).segment("row", 16).build().unwrap();
    let one = One::new(&layout, 1, 4, 4, PagedLift::None);
    let mut plan = one.plan();
    let none = import(prompt(9), &[]);
    plan.lift(&none, TailRows::Whole).unwrap();
    let mut lift = |blocks: &[u32], page: &[u32]| {
        let (blocks, page) = (hosts(blocks), pages(page));
        plan.lift(&import(prompt(9), &[ImportGroup::new(one.group, &blocks, &page)]), TailRows::Whole)
    };
    assert_eq!(lift(&[], &[]), Ok(()));
    assert_eq!(lift(&[3, 3, 0], &[2]), Ok(()));
    assert!(matches!(lift(&[4], &[]), Err(PlanError::OutOfRange { .. })));
    assert!(matches!(lift(&[], &[4]), Err(PlanError::OutOfRange { .. })));
    assert!(plan.is_empty());
}
