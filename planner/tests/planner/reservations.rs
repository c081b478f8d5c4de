//! Reserved imports: what they hold, until they are released, and what a plan still checks.

use std::sync::Arc;

use pagelift_planner::error::PlanError;
use pagelift_planner::geometry::{GroupKey, Paged, PagedLift};
use pagelift_planner::id::{HostBlockId, ImportId, PageId};
use pagelift_planner::import::ImportGroup;
use pagelift_planner::layout::PagedLayout;
use pagelift_planner::lifecycle::Reservations;
use pagelift_planner::plan::{PlanCapacity, RestorePlan, TailRows};
use pagelift_planner::quantity::Rows;

use crate::fixed::{One, Three, Ways, import, prompt};
use pagelift_cases::{bytes, encoded, hosts, pages};

const EACH: PlanCapacity = PlanCapacity { jobs: 8, list_entries: 8 };

/// One group of 8 host blocks and 8 pages of 4 rows of 16 bytes.
fn one() -> One {
    One::new(&PagedLayout::builder(4).segment("row", 16).build().unwrap(), 1, 8, 8, PagedLift::Tail)
}

fn reservations(one: &One) -> Reservations {
    Reservations::new(Arc::clone(&one.geometry), 4, EACH).unwrap()
}

/// Six tokens: two blocks, the second with two rows, and a page.
fn six(
    reservations: &mut Reservations,
    group: GroupKey<Paged>,
    blocks: &[u32],
    page: u32,
) -> Result<ImportId, PlanError> {
    let (blocks, page): (Vec<HostBlockId>, [PageId; 1]) = (hosts(blocks), [PageId::new(page)]);
    let groups = [ImportGroup::new(group, &blocks, &page)];
    reservations.reserve(&import(prompt(6), &groups), TailRows::Exact)
}

#[test]
fn case_10_a_page_is_one_imports_until_that_is_released() {
    let one = one();
    let mut reservations = reservations(&one);
    let first = six(&mut reservations, one.group, &[0, 1], 3).unwrap();
    let taken = PlanError::Reserved { group: "main".into(), block: "page 3".into() };
    assert_eq!(six(&mut reservations, one.group, &[2, 4], 3), Err(taken));
    // Nothing of the refused import is held: its blocks may be lifted from elsewhere, and its slot is free.
    assert_eq!(reservations.len(), 1);
    let second = six(&mut reservations, one.group, &[2, 4], 5).unwrap();
    reservations.release(first).unwrap();
    let third = six(&mut reservations, one.group, &[0, 1], 3).unwrap();
    assert!(third != first && reservations.contains(second) && !reservations.contains(first));
}

#[test]
fn prompts_that_begin_alike_share_host_blocks() {
    let one = one();
    let mut reservations = reservations(&one);
    let imports: Vec<ImportId> =
        (0..4).map(|page| six(&mut reservations, one.group, &[0, 1], page).unwrap()).collect();
    let full = PlanError::Capacity { what: "imports", needed: 5, capacity: 4 };
    assert_eq!(six(&mut reservations, one.group, &[0, 1], 5), Err(full));
    let mut plan = one.plan();
    imports.iter().for_each(|import| plan.lift_reserved(&reservations, *import).unwrap());
    assert_eq!(bytes(&plan), 4 * 2 * 16);
    imports.into_iter().for_each(|import| reservations.release(import).unwrap());
    assert!(reservations.is_empty());
}

#[test]
fn case_10_no_block_is_of_two_groups() {
    let three = Three::new();
    let mut reservations = Reservations::new(Arc::clone(&three.geometry), 4, EACH).unwrap();
    let reserve = |reservations: &mut Reservations, ids: [u32; 3]| {
        let (blocks, pages) = (ids.map(HostBlockId::new), ids.map(PageId::new));
        let list = |n: usize| (&blocks[n..=n], &pages[n..=n]);
        let groups = three.lists(list(0), list(1), list(2));
        reservations.reserve(&import(prompt(3), &groups), TailRows::Whole)
    };
    reserve(&mut reservations, [0, 1, 2]).unwrap();
    let error = reserve(&mut reservations, [3, 0, 4]).unwrap_err();
    let words = "page 0 of pool `device` is used by group `tail` and by group `all`";
    assert_eq!(error.to_string(), words);
    reserve(&mut reservations, [3, 5, 4]).unwrap();
}

#[test]
fn what_landed_on_the_device_may_be_shared_and_not_lifted_into() {
    let one = one();
    let mut reservations = reservations(&one);
    let there = pages(&[6, 7]);
    let landed = [ImportGroup::landed(one.group, &there)];
    let arrived = |reservations: &mut Reservations| {
        reservations.reserve(&import(prompt(6), &landed), TailRows::Exact).unwrap()
    };
    let [first, second] = [arrived(&mut reservations), arrived(&mut reservations)];
    let mut plan = one.plan();
    for import in [first, second, first] {
        plan.lift_reserved(&reservations, import).unwrap();
    }
    assert!(plan.is_empty());
    for import in [first, second] {
        let taken = PlanError::Reserved { group: "main".into(), block: "page 7".into() };
        assert_eq!(six(&mut reservations, one.group, &[0, 1], 7), Err(taken));
        reservations.release(import).unwrap();
    }
    six(&mut reservations, one.group, &[0, 1], 7).unwrap();
}

#[test]
fn case_10_rows_that_an_import_leaves_free_are_nobody_elses() {
    let ways = Ways::new();
    let mut reservations = Reservations::new(Arc::clone(&ways.geometry), 4, EACH).unwrap();
    let (block, page) = (hosts(&[0]), pages(&[0]));
    let (others, other) = (hosts(&[1]), pages(&[1]));
    let lists = [ImportGroup::new(ways.other, &others, &other), ImportGroup::new(ways.main, &block, &page)];
    // Two rows of page 0 are lifted. The other two are the decoder's.
    let import = reservations.reserve(&import(prompt(2), &lists), TailRows::Exact).unwrap();
    let mut plan = ways.plan();
    plan.lift_reserved(&reservations, import).unwrap();
    let before = encoded(&plan);
    let twice = plan.zero(ways.down, PageId::new(0), Rows::new(2), Rows::new(2));
    assert!(matches!(twice, Err(PlanError::WrittenTwice { .. })), "{twice:?}");
    assert!(plan.lift_reserved(&reservations, import).is_err());
    assert_eq!(encoded(&plan), before);
}

#[test]
fn case_10_a_plan_tells_pages_of_an_import_that_was_released_since() {
    let layout = PagedLayout::builder(4).segment("row", 16).build().unwrap();
    let one = One::new(&layout, 1, 8, 8, PagedLift::All);
    let mut reservations = reservations(&one);
    // Six tokens, all of them lifted: two blocks, and two pages.
    let blocks = hosts(&[0, 1]);
    let [first, second, there] = [pages(&[3, 5]), pages(&[4, 5]), pages(&[6, 5])];
    let lifted = |pages| [ImportGroup::new(one.group, &blocks, pages)];
    let landed = [ImportGroup::landed(one.group, &there)];
    let before = reservations.reserve(&import(prompt(6), &lifted(&first)), TailRows::Exact).unwrap();
    let mut plan = one.plan();
    plan.lift_reserved(&reservations, before).unwrap();
    reservations.release(before).unwrap();

    // Page 5 is free now, but the plan lifts into it.
    let taken = encoded(&plan);
    let later = reservations.reserve(&import(prompt(6), &lifted(&second)), TailRows::Exact).unwrap();
    let twice = PlanError::WrittenTwice { group: "main".into(), block: "page 5".into(), first: 0, end: 4 };
    assert_eq!(plan.lift_reserved(&reservations, later), Err(twice));
    reservations.release(later).unwrap();
    let later = reservations.reserve(&import(prompt(6), &landed), TailRows::Exact).unwrap();
    let overlap = PlanError::Overlap { group: "main".into(), block: "page 5".into() };
    assert_eq!(plan.lift_reserved(&reservations, later), Err(overlap));
    assert_eq!(encoded(&plan), taken);
}

#[test]
fn ids_are_known_where_they_were_given_and_only_while_they_last() {
    let one = one();
    let [mut ours, mut theirs] = [reservations(&one), reservations(&one)];
    let import = six(&mut ours, one.group, &[0, 1], 3).unwrap();
    six(&mut theirs, one.group, &[0, 1], 4).unwrap();
    let unknown = PlanError::UnknownImport { import };
    let mut plan = one.plan();
    assert_eq!(plan.lift_reserved(&theirs, import), Err(unknown.clone()));
    assert_eq!(theirs.release(import), Err(unknown.clone()));
    let elsewhere = self::one();
    assert_eq!(elsewhere.plan().lift_reserved(&ours, import), Err(PlanError::ForeignReservations));
    ours.release(import).unwrap();
    assert_eq!(plan.lift_reserved(&ours, import), Err(unknown.clone()));
    assert_eq!(ours.release(import), Err(unknown));
    assert!(plan.is_empty());
}

#[test]
fn a_full_plan_refuses_an_import_and_stays_as_it_was() {
    let one = one();
    let mut reservations = reservations(&one);
    let imports = [3, 4].map(|page| six(&mut reservations, one.group, &[0, 1], page).unwrap());
    let capacity = PlanCapacity { jobs: 1, list_entries: 0 };
    let mut plan = RestorePlan::new(Arc::clone(&one.geometry), capacity).unwrap();
    plan.lift_reserved(&reservations, imports[0]).unwrap();
    let before = encoded(&plan);
    let full = PlanError::Capacity { what: "jobs", needed: 2, capacity: 1 };
    assert_eq!(plan.lift_reserved(&reservations, imports[1]), Err(full));
    assert_eq!(encoded(&plan), before);
    plan.clear();
    plan.lift_reserved(&reservations, imports[1]).unwrap();
}
