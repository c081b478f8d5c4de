//! Each call of each type of plan.

use pagelift::geometry::GroupKind;
use pagelift::id::{HostBlockId, PageId};
use pagelift::import::{Import, ImportGroup, PromptSpan, Recurrence};
use pagelift::lifecycle::Reservations;
use pagelift::plan::{LiftProgress, PlanCapacity, RestorePlan, TailRows};
use pagelift::quantity::{Bytes, Tokens};
use pagelift_bindings::import::{OwnedGroup, OwnedImport};
use pagelift_bindings::keys::{AnyGroup, Way};
use pagelift_bindings::plan::AnyPlan;
use pagelift_bindings::{Error, Mismatch, Result};

use crate::world::{ROWS, World};

/// A prompt of two blocks, of which the second is half full.
fn import(world: &World) -> OwnedImport {
    let span = PromptSpan::new(Tokens::new(u64::from(ROWS) + 2), Recurrence::State).unwrap();
    let [paged, ring, state] = &world.groups;
    let groups = vec![
        OwnedGroup::new(paged.key, vec![3, 5], vec![1]),
        OwnedGroup::new(ring.key, vec![2], vec![4]),
        OwnedGroup::landed(state.key, vec![6]),
    ];
    OwnedImport { span, groups }
}

type Call = fn(&World, &mut AnyPlan) -> Result;

/// Every call, with the types of plan that have it, by their places among [`World::plans`].
const CALLS: &[(&str, &[usize], Call)] = &[
    ("clear", &[0, 1, 2, 6], |_, plan| plan.clear()),
    ("gather", &[0, 1, 2], |world, plan| plan.gather(&world.groups[0].routes[0], vec![0], vec![0])),
    ("zero", &[0, 1, 2], |world, plan| plan.zero(&world.groups[0].routes[0], 7, 0, 1)),
    ("lift", &[0], |world, plan| plan.lift(&import(world), TailRows::Whole)),
    ("lift within", &[0], |world, plan| {
        let (mut progress, mut budget) = (LiftProgress::default(), Bytes::new(1));
        plan.lift_within(&import(world), TailRows::Whole, &mut progress, &mut budget)
    }),
    ("lift reserved", &[0], |world, plan| {
        let mut reservations = Reservations::new(world.geometry.clone(), 1, PlanCapacity::default())?;
        let id = import(world).with(|import| reservations.reserve(import, TailRows::Whole))?;
        plan.lift_reserved(&reservations, id)
    }),
    ("spill", &[1], |world, plan| plan.spill(world.groups[0].key, vec![0], vec![0])),
    ("checkpoint", &[1], |world, plan| plan.checkpoint(world.groups[2].key, 0, 0)),
    ("digest of the host", &[6], |world, plan| {
        plan.digest_host(world.groups[0].digests[0], vec![0], 1).map(drop)
    }),
    ("digest of the device", &[6], |world, plan| {
        plan.digest_device(world.groups[0].digests[1], vec![0], 1).map(drop)
    }),
    ("gather rows", &[3, 4, 5], |world, plan| plan.gather_rows(&world.compact[0], world.binding())),
    ("clear bindings", &[3, 4, 5], |_, plan| plan.clear_bindings()),
    ("bind", &[4], |world, plan| plan.bind(world.groups[0].key, world.binding())),
    ("map", &[4], |world, plan| plan.map(world.groups[0].key, 1, 2)),
    ("map rows", &[4], |world, plan| plan.map_rows(world.groups[1].key, (1, 0), (2, 0))),
    ("unmap", &[4], |world, plan| plan.unmap(world.groups[0].key, 1)),
    ("block of", &[4], |world, plan| plan.block_of(world.groups[0].key, 1).map(drop)),
];

#[test]
fn each_type_of_plan_has_its_own_calls() {
    let world = World::new();
    for (name, has, call) in CALLS {
        for (number, mut plan) in world.plans().into_iter().enumerate() {
            let before = plan.to_string();
            match call(&world, &mut plan) {
                Ok(()) => assert!(has.contains(&number), "{name} of {}", plan.name()),
                // A route of another direction, which other tests are about.
                Err(Error::Mismatch(Mismatch::Way { .. })) => assert!(has.contains(&number)),
                Err(Error::Mismatch(Mismatch::Plan { found, .. })) => {
                    assert!(!has.contains(&number) && found == plan.name(), "{name} of {found}");
                    assert_eq!(plan.to_string(), before);
                }
                Err(other) => panic!("{name} of {}: {other}", plan.name()),
            }
        }
    }
}

#[test]
fn a_plan_takes_routes_of_its_direction() {
    let world = World::new();
    for group in &world.groups {
        for (plan, mut own) in Way::ALL.into_iter().zip(world.plans()) {
            for (way, route) in Way::ALL.into_iter().zip(group.routes) {
                let found = own.gather(&route, vec![1, 2], vec![3, 4]);
                match (plan == way, found) {
                    (true, Ok(())) => {}
                    (false, Err(Error::Mismatch(Mismatch::Way { expected, found }))) => {
                        assert_eq!((expected, found), (plan, way));
                    }
                    (_, found) => panic!("{plan} by a route {way}: {found:?}"),
                }
            }
            assert_eq!(own.jobs(), 1);
        }
    }
    for (plan, mut own) in Way::ALL.into_iter().zip(world.plans().into_iter().skip(3)) {
        for (way, route) in [Way::Down, Way::Across].into_iter().zip(world.compact) {
            let found = own.gather_rows(&route, world.binding());
            match (plan == way, found) {
                (true, Ok(())) => {}
                (false, Err(Error::Mismatch(Mismatch::Way { expected, found }))) => {
                    assert_eq!((expected, found), (plan, way));
                }
                (_, found) => panic!("{plan} by a compact route {way}: {found:?}"),
            }
        }
    }
}

#[test]
fn calls_are_for_groups_of_their_kind() {
    type Call = fn(&World, &mut AnyPlan, AnyGroup) -> Result;
    let world = World::new();
    let calls: [(usize, &[GroupKind], Call); 5] = [
        (1, &[GroupKind::Paged], |_, plan, group| plan.spill(group, vec![0], vec![0])),
        (1, &[GroupKind::State], |_, plan, group| plan.checkpoint(group, 0, 0)),
        (4, &[GroupKind::Paged, GroupKind::Ring], |world, plan, group| plan.bind(group, world.binding())),
        (4, &[GroupKind::Paged, GroupKind::Ring], |_, plan, group| plan.map(group, 1, 1)),
        (4, &[GroupKind::Paged, GroupKind::Ring], |_, plan, group| plan.block_of(group, 1).map(drop)),
    ];
    for (number, (of, kinds, call)) in calls.into_iter().enumerate() {
        for group in &world.groups {
            let kind = group.key.kind();
            let mut plan = world.plans().swap_remove(of);
            match call(&world, &mut plan, group.key) {
                Ok(()) => assert!(kinds.contains(&kind), "call {number}, {kind:?}"),
                Err(Error::Mismatch(Mismatch::Group { found, .. })) => {
                    assert!(!kinds.contains(&kind) && found == kind, "call {number}, {kind:?}");
                }
                Err(other) => panic!("call {number}, {kind:?}: {other}"),
            }
        }
    }
    // Rows of a state cannot be zeroed.
    let mut plan = world.plans().swap_remove(0);
    let found = plan.zero(&world.groups[2].routes[0], 0, 0, 1);
    let states = matches!(found, Err(Error::Mismatch(Mismatch::Group { found: GroupKind::State, .. })));
    assert!(states, "{found:?}");
}

#[test]
fn an_import_of_its_own_lists_is_lifted_as_one_that_is_borrowed() {
    let world = World::new();
    let (AnyGroup::Paged(paged), AnyGroup::Ring(ring), AnyGroup::State(state)) =
        (world.groups[0].key, world.groups[1].key, world.groups[2].key)
    else {
        panic!("the groups are of these kinds");
    };
    let (blocks, pages) = ([3, 5].map(HostBlockId::new), [1, 4, 6].map(PageId::new));
    let (slots, [tail, slot, landed]) = ([HostBlockId::new(2)], pages.map(|page| [page]));
    let groups = [
        ImportGroup::new(paged, &blocks, &tail),
        ImportGroup::new(ring, &slots, &slot),
        ImportGroup::landed(state, &landed),
    ];
    let own = import(&world);
    for mode in [TailRows::Whole, TailRows::Exact, TailRows::ExactZeroed] {
        let mut expected = RestorePlan::new(world.geometry.clone(), PlanCapacity::default()).unwrap();
        expected.lift(&Import { span: own.span, groups: &groups }, mode).unwrap();
        let mut plan = world.plans().swap_remove(0);
        plan.lift(&own, mode).unwrap();
        let AnyPlan::Restore(found) = &plan else { panic!("{} is none", plan.name()) };
        assert_eq!(found.summary(), expected.summary());
        assert!(found.summary().jobs.len() >= 2);
        for job in 0..found.summary().jobs.len() {
            assert!(found.blocks_of(job).eq(expected.blocks_of(job)));
        }
        plan.clear().unwrap();
        assert_eq!((plan.jobs(), plan.bytes()), (0, Some(Bytes::new(0))));
    }
    assert_eq!(own.groups.iter().map(OwnedGroup::lengths).collect::<Vec<_>>(), [(2, 1), (1, 1), (0, 1)]);
}

#[test]
fn the_page_map_is_the_plan_s() {
    let world = World::new();
    let [paged, ring, _] = &world.groups;
    let mut plan = world.plans().swap_remove(4);
    plan.map(paged.key, 1, 2).unwrap();
    plan.map_rows(ring.key, (3, 0), (4, 0)).unwrap();
    let blocks = |plan: &AnyPlan| {
        [(paged, 1), (paged, 3), (ring, 3)].map(|(group, page)| plan.block_of(group.key, page).unwrap())
    };
    assert_eq!(blocks(&plan), [Some(2), None, Some(4)]);
    assert_eq!(plan.page_map().unwrap().pending().len(), 2);
    plan.unmap(paged.key, 1).unwrap();
    assert_eq!(blocks(&plan), [None, None, Some(4)]);
    assert_eq!((plan.jobs(), plan.bytes()), (0, None));
    plan.bind(paged.key, world.binding()).unwrap();
    assert_eq!(plan.jobs(), 1);
    plan.clear_bindings().unwrap();
    assert_eq!(plan.jobs(), 0);
}
