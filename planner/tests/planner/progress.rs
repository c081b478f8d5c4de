//! Imports lifted over several plans: the same bytes as in one, however small the budgets.

use std::sync::Arc;

use pagelift_planner::error::PlanError;
use pagelift_planner::geometry::PagedLift;
use pagelift_planner::import::ImportGroup;
use pagelift_planner::layout::PagedLayout;
use pagelift_planner::plan::{LiftProgress, Plan as _, PlanCapacity, RestorePlan, TailRows};
use pagelift_planner::quantity::Bytes;
use proptest::prelude::*;

use crate::fixed::{DEVICE, HOST, One, Three, hybrid, import, prompt};
use pagelift_cases::decode::{Move, checked_moves, merged};
use pagelift_cases::draw::Draw;
use pagelift_cases::ids::Free;
use pagelift_cases::lift::LiftCall;
use pagelift_cases::shape::Scale;
use pagelift_cases::world::World;
use pagelift_cases::{bytes, encoded, hosts, pages};

/// One import, on its way.
struct Lifted {
    import: LiftCall,
    progress: LiftProgress,
}

/// One plan with as much as the budget allows of all imports, one after the other.
fn step(world: &World, plan: &mut RestorePlan, lifted: &mut [Lifted], budget: u64) -> u64 {
    plan.clear();
    let mut left = Bytes::new(budget);
    for Lifted { import, progress } in lifted {
        let mode = import.mode;
        import.with(world, |import| plan.lift_within(import, mode, progress, &mut left)).unwrap();
    }
    left.get()
}

fn progress_of(lifted: &[Lifted]) -> Vec<LiftProgress> {
    lifted.iter().map(|lifted| lifted.progress).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    #[test]
    fn nothing_is_lost_or_lifted_twice(seed: u64, size in 1_u32..7, imports in 1_u64..4) {
        let mut draw = Draw::seeded(seed);
        let world = World::draw(&mut draw, &Scale::planned(size));
        let mut free = Free::all(&mut draw, &world);
        let mut lifted = Vec::new();
        for _ in 0..imports {
            let Some(import) = LiftCall::fitting(&mut draw, &world, &mut free) else { break };
            lifted.push(Lifted { import, progress: LiftProgress::default() });
        }
        let mut expected = Vec::new();
        for Lifted { import, .. } in &lifted {
            expected.extend(import.effect(&world).unwrap().moves(&world));
        }
        let largest = lifted.iter().map(|lifted| lifted.import.largest_step(&world)).max().unwrap_or(0);
        let mut plan = RestorePlan::new(Arc::clone(&world.geometry), PlanCapacity::default()).unwrap();
        let mut moves: Vec<Move> = Vec::new();
        let mut plans = 0;
        let every = draw.pick(&[0, 1, largest, 3 * largest, 100 * largest, u64::MAX]);
        while !lifted.iter().all(|lifted| lifted.progress.is_finished()) {
            let budget = if draw.below(2) == 0 { every } else { draw.pick(&[0, 1, 100, largest, 5 * largest, 1 << 40]) };
            let before = progress_of(&lifted);
            let left = step(&world, &mut plan, &mut lifted, budget);
            let table = encoded(&plan);
            if draw.below(3) == 0 {
                // Thrown away, and made again from the old progress.
                let after = progress_of(&lifted);
                for (lifted, before) in lifted.iter_mut().zip(&before) {
                    lifted.progress = *before;
                }
                prop_assert_eq!(step(&world, &mut plan, &mut lifted, budget), left);
                prop_assert_eq!(&encoded(&plan), &table);
                prop_assert_eq!(progress_of(&lifted), after);
            }
            prop_assert!(progress_of(&lifted) != before, "a plan that does not get ahead");
            prop_assert!(left <= budget);
            prop_assert!(bytes(&plan) <= budget.max(largest));
            if bytes(&plan) > budget {
                // One step, as the plan was empty: and its zeros at most.
                prop_assert_eq!(left, 0);
                let zeros = usize::from(checked_moves(&world.geometry, &table).iter().any(|piece| piece.from.is_none()));
                prop_assert!(plan.jobs() <= 1 + zeros * lifted.len() * world.groups.len());
            } else {
                prop_assert!(bytes(&plan) <= budget - left, "more bytes than were taken from the budget");
            }
            moves.extend(checked_moves(&world.geometry, &table));
            plans += 1;
            prop_assert!(plans < 5000, "no end");
        }
        prop_assert_eq!(merged(moves), merged(expected));
        // What is finished stays so, and plans nothing more.
        prop_assert_eq!(step(&world, &mut plan, &mut lifted, 1 << 40), 1 << 40);
        prop_assert!(plan.is_empty());
    }
}

/// One group of 5 full pages and a tail, 64 bytes a page.
fn five_and_a_tail() -> One {
    let layout = PagedLayout::builder(4).segment("row", 16).build().unwrap();
    One::new(&layout, 1, 8, 8, PagedLift::All)
}

#[test]
fn whole_pages_as_far_as_the_budget_goes() {
    let one = five_and_a_tail();
    let (blocks, page) = (hosts(&[0, 1, 2, 3, 4, 5]), pages(&[0, 1, 2, 3, 4, 5]));
    let groups = [ImportGroup::new(one.group, &blocks, &page)];
    let import = import(prompt(22), &groups);
    let (mut progress, mut plan) = (LiftProgress::default(), one.plan());
    let mut next = |budget: u64| {
        plan.clear();
        let mut left = Bytes::new(budget);
        plan.lift_within(&import, TailRows::ExactZeroed, &mut progress, &mut left).unwrap();
        (checked_moves(&one.geometry, &encoded(&plan)), left.get(), progress.is_finished())
    };
    let copied = |page: u64, bytes: u64| Move { to: DEVICE + page * 64, from: Some(HOST + page * 64), bytes };
    assert_eq!(next(63), (vec![copied(0, 64)], 0, false), "one page at least");
    assert_eq!(next(191), (vec![copied(1, 128)], 63, false));
    assert_eq!(next(0), (vec![copied(3, 64)], 0, false));
    let zeros = Move { to: DEVICE + 5 * 64 + 32, from: None, bytes: 32 };
    assert_eq!(next(1000), (vec![copied(4, 64 + 32), zeros], 1000 - 96, true));
    assert_eq!(next(1000), (vec![], 1000, true));
}

#[test]
fn a_partial_last_step_costs_what_it_copies() {
    let one = five_and_a_tail();
    let (blocks, page) = (hosts(&[0, 1, 2, 3, 4, 5]), pages(&[0, 1, 2, 3, 4, 5]));
    let groups = [ImportGroup::new(one.group, &blocks, &page)];
    let all = 5 * 64 + 32;
    for (budget, left, finished) in [(all - 1, 31, false), (all, 0, true), (all + 1, 1, true)] {
        let (mut progress, mut plan) = (LiftProgress::default(), one.plan());
        let mut budget = Bytes::new(budget);
        plan.lift_within(&import(prompt(22), &groups), TailRows::Exact, &mut progress, &mut budget).unwrap();
        assert_eq!((budget.get(), progress.is_finished()), (left, finished));
    }
}

#[test]
fn a_plan_that_has_something_waits_for_budget() {
    let one = five_and_a_tail();
    let (blocks, page) = (hosts(&[0, 1]), pages(&[0, 1]));
    let (other_blocks, other_page) = (hosts(&[2]), pages(&[2]));
    let groups = [ImportGroup::new(one.group, &blocks, &page)];
    let other = [ImportGroup::new(one.group, &other_blocks, &other_page)];
    let mut plan = one.plan();
    plan.lift(&import(prompt(4), &other), TailRows::Whole).unwrap();
    let (mut progress, mut left) = (LiftProgress::default(), Bytes::new(63));
    let before = encoded(&plan);
    plan.lift_within(&import(prompt(8), &groups), TailRows::Whole, &mut progress, &mut left).unwrap();
    assert_eq!((encoded(&plan), progress, left), (before, LiftProgress::default(), Bytes::new(63)));
}

#[test]
fn case_10_pages_of_a_lift_that_is_not_finished_are_nobody_elses() {
    let one = five_and_a_tail();
    let (blocks, page) = (hosts(&[0, 1, 2]), pages(&[0, 1, 2]));
    let groups = [ImportGroup::new(one.group, &blocks, &page)];
    let mut progress = LiftProgress::default();
    let mut plan = one.plan();
    let mut tiny = Bytes::new(1);
    // One page now; the other two with later plans.
    plan.lift_within(&import(prompt(12), &groups), TailRows::Whole, &mut progress, &mut tiny).unwrap();
    assert_eq!((plan.jobs(), bytes(&plan)), (1, 64));
    for taken in 0..3 {
        let (blocks, page) = (hosts(&[7]), pages(&[taken]));
        let other = [ImportGroup::new(one.group, &blocks, &page)];
        let found = plan.lift(&import(prompt(4), &other), TailRows::Whole);
        let (group, block) = ("main".into(), format!("page {taken}"));
        assert_eq!(found, Err(PlanError::WrittenTwice { group, block, first: 0, end: 4 }));
        let route = one.geometry.lift_route(one.group).unwrap();
        assert!(plan.gather(route, &blocks, &page).is_err());
    }
    // Nor with the plan that lifts the rest: the first page was lifted by an earlier one.
    plan.clear();
    let mut left = Bytes::new(1 << 20);
    plan.lift_within(&import(prompt(12), &groups), TailRows::Whole, &mut progress, &mut left).unwrap();
    assert!(progress.is_finished());
    let (blocks, page) = (hosts(&[7]), pages(&[0]));
    let other = [ImportGroup::new(one.group, &blocks, &page)];
    assert!(plan.lift(&import(prompt(4), &other), TailRows::Whole).is_err());
}

#[test]
fn a_refused_lift_leaves_plan_progress_and_budget() {
    let three = Three::new();
    let mut plan = three.plan();
    let (blocks, page) = (hosts(&[0, 1, 2, 3, 4]), pages(&[0, 1, 2, 8]));
    // The state's page does not exist.
    let lists =
        three.lists((&blocks[..2], &page[..1]), (&blocks[2..4], &page[1..3]), (&blocks[4..], &page[3..]));
    for budget in [0, 1000, 100_000] {
        let (mut progress, mut left) = (LiftProgress::default(), Bytes::new(budget));
        let before = (encoded(&plan), plan.summary());
        let found = plan.lift_within(&import(prompt(6), &lists), TailRows::Exact, &mut progress, &mut left);
        assert!(matches!(found, Err(PlanError::OutOfRange { .. })), "checked though it is not lifted yet");
        assert_eq!((encoded(&plan), plan.summary()), before);
        assert_eq!((progress, left), (LiftProgress::default(), Bytes::new(budget)));
    }
}

#[test]
fn nothing_to_lift_is_finished_at_once() {
    let one = five_and_a_tail();
    let (blocks, page) = (hosts(&[0]), pages(&[0]));
    let groups = [ImportGroup::new(one.group, &blocks, &page)];
    let (mut progress, mut left) = (LiftProgress::default(), Bytes::ZERO);
    let mut plan = one.plan();
    plan.lift_within(&import(hybrid(1), &groups), TailRows::Exact, &mut progress, &mut left).unwrap();
    assert!(progress.is_finished() && plan.is_empty());
}

#[test]
fn progress_can_be_kept() {
    let one = five_and_a_tail();
    let (blocks, page) = (hosts(&[0, 1, 2]), pages(&[0, 1, 2]));
    let groups = [ImportGroup::new(one.group, &blocks, &page)];
    let mut progress = LiftProgress::default();
    one.plan()
        .lift_within(&import(prompt(12), &groups), TailRows::Whole, &mut progress, &mut Bytes::new(128))
        .unwrap();
    let text = serde_json::to_string(&progress).unwrap();
    let mut kept: LiftProgress = serde_json::from_str(&text).unwrap();
    let mut plan = one.plan();
    plan.lift_within(&import(prompt(12), &groups), TailRows::Whole, &mut kept, &mut Bytes::new(64)).unwrap();
    assert_eq!((bytes(&plan), kept.is_finished()), (64, true));
}
