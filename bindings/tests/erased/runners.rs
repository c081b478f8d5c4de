//! Runners, over the CPU.

use pagelift::geometry::GroupKind;
use pagelift::import::Recurrence;
use pagelift::lifecycle::{
    FrameLimits, GroupFrames, Lane, LifecycleOptions, Rank, Ranks, StepOptions, StepPlans,
};
use pagelift::plan::{PlanCapacity, RowCapacity, TailRows};
use pagelift::quantity::Bytes;
use pagelift::runner::RunnerOptions;
use pagelift_bindings::runner::{Steps, bind, frames};
use pagelift_bindings::{Error, Mismatch};

use crate::world::{Plain, World};

fn runner(world: &World) -> Box<dyn Steps<Plain>> {
    let numbers = || (0..4).collect();
    let of = |group: usize| frames(world.groups[group].key, numbers(), numbers(), None).unwrap();
    let lifecycle = LifecycleOptions {
        ranks: 1,
        writers: Ranks::first(1),
        block_tokens: 4,
        recurrence: Recurrence::State,
        requests: 4,
        blocks: 4,
        pages: 4,
        keep: 0,
        draft_lag: 0,
        retries: 0,
        limits: FrameLimits::NONE,
    };
    let (pages, rows, mode) = (PlanCapacity::default(), RowCapacity::default(), TailRows::Whole);
    let (geometry, frames) = (world.geometry.clone(), (0..3).map(of).collect());
    let plans = StepPlans::new(Rank::new(0), geometry, frames, lifecycle, StepOptions { pages, rows, mode });
    bind(&world.engine, &world.memory, plans.unwrap(), RunnerOptions::default()).unwrap()
}

#[test]
fn frames_are_those_of_the_group_s_kind() {
    let world = World::new();
    for (group, each) in [(0, None), (0, Some(2)), (1, None), (2, None), (1, Some(2)), (2, Some(1))] {
        let key = world.groups[group].key;
        let found = frames(key, vec![0, 1], vec![2, 3], each);
        let kind = key.kind();
        let good = match (&found, each) {
            (Ok(GroupFrames::Paged { blocks, pages, .. }), None) => {
                kind == GroupKind::Paged && blocks.len() == 2 && pages.len() == 2
            }
            (Ok(GroupFrames::Whole { each, .. }), Some(2)) => kind == GroupKind::Paged && *each == 2,
            (Ok(GroupFrames::Ring { .. }), None) => kind == GroupKind::Ring,
            (Ok(GroupFrames::State { .. }), None) => kind == GroupKind::State,
            (Err(Error::Mismatch(Mismatch::Each { found })), Some(_)) => {
                *found == kind && kind != GroupKind::Paged
            }
            _ => false,
        };
        assert!(good, "{kind:?}, {each:?}: {found:?}");
    }
}

#[test]
fn a_step_of_nothing_is_one() {
    let mut world = World::new();
    let mut own = runner(&world);
    assert!(own.is_idle() && !own.is_lost());
    own.bind_rows(world.groups[0].key, world.binding()).unwrap();
    let state = own.bind_rows(world.groups[2].key, world.binding());
    let refused = matches!(state, Err(Error::Mismatch(Mismatch::Group { found: GroupKind::State, .. })));
    assert!(refused, "{state:?}");
    let staged = own.stage(&world.memory, Bytes::new(1 << 20)).unwrap();
    assert_eq!((staged.lifts, staged.write_backs, staged.mirrors), (0, 0, 0));
    own.before_forward(&mut world.memory).unwrap();
    own.after_forward(&mut world.memory).unwrap();
    own.wait().unwrap();
    let mut said = Vec::new();
    own.poll(&mut said);
    assert_eq!(said, []);
    assert_eq!(own.counters(Lane::Lift).done, own.counters(Lane::Lift).launches);
    own.clear_bindings();
    own.set_stream(None).unwrap();
    let named = own.set_stream(Some(1));
    assert!(matches!(named, Err(Error::Mismatch(Mismatch::NoStreams))), "{named:?}");
}

#[test]
fn a_replay_fails_in_the_language_s_own_words() {
    let mut world = World::new();
    let mut own = runner(&world);
    own.replay(&mut world.memory, &mut || Ok(())).unwrap();
    let said = own.replay(&mut world.memory, &mut || Err("it was not played".to_owned()));
    assert_eq!(said, Err("it was not played".to_owned()));
    // What the library refuses comes by the same type, and nothing is played.
    let region = world.groups[0].regions[0];
    world.memory.release(region).unwrap();
    let mut played = false;
    let said = own.replay(&mut world.memory, &mut || {
        played = true;
        Ok(())
    });
    assert!(!played && said.unwrap_err().contains("not registered"));
}
