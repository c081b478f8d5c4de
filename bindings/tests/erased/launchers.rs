//! Launchers of every type of plan, over the CPU.

use pagelift::launcher::{LauncherOptions, TicketState};
use pagelift_bindings::launcher::{Launches, bind};
use pagelift_bindings::plan::AnyPlan;
use pagelift_bindings::recorded::{Recordable, RecordedCount};
use pagelift_bindings::{Error, Mismatch};

use crate::world::{Plain, World};

fn launcher(world: &World, plan: &mut AnyPlan) -> Box<dyn Launches<Plain>> {
    bind(&world.engine, &world.memory, plan, LauncherOptions::default(), None).unwrap()
}

#[test]
fn a_launcher_takes_plans_of_its_type() {
    let world = World::new();
    for mut bound in world.plans() {
        let mut own = launcher(&world, &mut bound);
        for mut other in world.plans() {
            let same = other.name() == bound.name();
            // The page map of a plan of rows is in its launcher's keeping.
            let plan = if same { &mut bound } else { &mut other };
            match own.stage(&world.memory, plan) {
                Ok(ticket) => assert!(same && ticket.launcher() == own.id()),
                Err(Error::Mismatch(Mismatch::Launcher { expected, found })) => {
                    assert!(!same);
                    assert_eq!((expected, found), (bound.name(), other.name()));
                }
                Err(error) => panic!("{} and {}: {error}", bound.name(), other.name()),
            }
        }
        assert_eq!(own.counters().staged, 1);
    }
}

#[test]
fn what_is_gathered_is_what_is_launched() {
    let mut world = World::new();
    for group in 0..3 {
        // To the device, on it, and back.
        for (number, (from, to)) in [(0, 1), (1, 0), (1, 1)].into_iter().enumerate() {
            world.fill(group, 0, 1);
            world.fill(group, 1, 101);
            let mut plan = world.plans().swap_remove(number);
            let mut own = launcher(&world, &mut plan);
            plan.gather(&world.groups[group].routes[number], vec![1, 2], vec![5, 4]).unwrap();
            let expected = [1, 2].map(|block| world.block(group, from, block));
            let ticket = own.stage(&world.memory, &mut plan).unwrap();
            assert_eq!(own.state(ticket), TicketState::Pending);
            own.launch(&mut world.memory).unwrap();
            own.wait().unwrap();
            assert!(matches!(own.state(ticket), TicketState::Done(_)));
            assert_eq!([5, 4].map(|block| world.block(group, to, block)), expected);
        }
    }
}

#[test]
fn digests_are_those_of_their_launcher() {
    let mut world = World::new();
    world.fill(0, 0, 1);
    world.fill(0, 1, 1);
    let digests = world.groups[0].digests;
    let mut plan = world.plans().pop().unwrap();
    let mut own = launcher(&world, &mut plan);
    let numbers = [
        plan.digest_host(digests[0], vec![1, 2], 8).unwrap(),
        plan.digest_device(digests[1], vec![1, 2], 8).unwrap(),
        plan.digest_device(digests[1], vec![2, 1], 8).unwrap(),
    ];
    let ticket = own.stage(&world.memory, &mut plan).unwrap();
    assert!(matches!(own.digest(ticket, numbers[0]), Err(Error::Library(_))), "it is not done");
    own.launch(&mut world.memory).unwrap();
    let [host, device, turned] = numbers.map(|number| own.digest(ticket, number).unwrap());
    assert!(host == device && host != turned);

    let number = plan.digest_host(digests[0], vec![1], 1).unwrap();
    let mut pages = world.plans().swap_remove(0);
    let other = launcher(&world, &mut pages);
    let found = other.digest(ticket, number);
    let expected = Mismatch::Plan { expected: "a digest plan", found: "a restore plan" };
    assert!(matches!(found, Err(Error::Mismatch(found)) if found == expected), "{found:?}");
}

#[test]
fn the_cpu_has_neither_streams_nor_graphs() {
    let mut world = World::new();
    let mut plan = world.plans().swap_remove(0);
    let mut own = Recordable::new(launcher(&world, &mut plan));
    let found = own.value_mut().set_stream(Some(7));
    assert!(matches!(found, Err(Error::Mismatch(Mismatch::NoStreams))), "{found:?}");
    own.value_mut().set_stream(None).unwrap();
    let count = RecordedCount::default();
    own.record(&count, |own| own.record(&mut world.memory)).unwrap_err();
    assert!(!own.is_recorded() && count.get() == 0);
}
