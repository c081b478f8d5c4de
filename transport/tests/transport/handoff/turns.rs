//! What happens within one turn: time passes in it, all imports share it, and what it says is valid is visible.

use std::cell::Cell;

use pagelift_transport::consumer::Failure;
use pagelift_transport::descriptors::Descriptor;
use pagelift_transport::receive::Ending;
use pagelift_transport::transfer::Destination;

use super::fabric::Node;
use super::*;

/// A clock that is so many milliseconds later each time but the first that it is asked.
fn slow(from: Moment, milliseconds: u64) -> impl Fn() -> Moment {
    let later = Cell::new(Duration::ZERO);
    move || from.after(later.replace(later.get() + Duration::from_millis(milliseconds)))
}

#[test]
fn case_23_what_lands_late_in_a_turn_is_judged_by_the_time_it_is_seen() {
    for (milliseconds, lands) in [(0, true), (100, true), (400, false)] {
        let mut world = World::new();
        world.begin(1);
        world.pass(3);
        while world.d.node.in_flight.get() == 0 {
            world.pass(1);
        }
        // All of it has landed; nobody has looked yet.
        world.fabric.now.set(world.fabric.now.get() + 10);
        // What took so long was before: of this import, P has answered within a millisecond.
        let clock = slow(world.now(), milliseconds);
        let consumer = world.consumer.as_mut().unwrap();
        world.events.extend(consumer.poll(clock, &mut &*world.d.node));
        // Those that it had not looked at were told to stop.
        world.pass(5);
        let Some(end) = world.end(1) else { panic!("{milliseconds} ms: {:?}", world.events) };
        match (end, lands) {
            (End::Landed { awaited: true, filled: true }, true) => {}
            (End::Failed { why: Failure::Reads { why: Ending::LeaseLost, .. }, valid }, false) => {
                assert!(valid.iter().all(|(_, tokens)| tokens.get() <= u64::from(IMPORTED)), "{valid:?}");
            }
            (other, _) => panic!("{milliseconds} ms: {other:?}"),
        }
    }
}

#[test]
fn case_23_what_p_hears_late_in_a_turn_is_held_from_then() {
    let mut world = World::new();
    world.pass(10);
    world.d.node.lasts.set(None);
    world.begin(1);
    let now = world.now();
    world.events.extend(world.consumer.as_mut().unwrap().poll(|| now, &mut &*world.d.node));
    // P takes long, and hears the question at the end of that.
    let producer = world.producer.as_mut().unwrap();
    producer.poll(slow(now, 400), &mut world.engine).unwrap();
    assert_eq!(world.held(), 1);
    // By the beginning of that turn the lease would be over.
    let lease = terms().lease.as_millis() as u64;
    world.fabric.now.set(world.fabric.now.get() + lease + 100);
    let now = world.now();
    world.producer.as_mut().unwrap().poll(|| now, &mut world.engine).unwrap();
    assert_eq!((world.held(), &world.engine.freed[..]), (1, &[][..]));
}

#[test]
fn all_imports_share_what_is_begun_in_a_turn() {
    let limits = ReadLimits { most_bytes: 1, ..ReadLimits::default() };
    let own = ConsumerOptions { turn_limits: limits, read_limits: limits, ..options() };
    let mut world = World::with(own, ProducerOptions { terms: terms(), ..ProducerOptions::new(0x5eed) });
    world.pass(5);
    world.d.node.lasts.set(None);
    (1..=5).for_each(|id| world.begin(id));
    let mut before = 0;
    for _ in 0..40 {
        world.pass(1);
        let now = world.d.node.in_flight.get();
        assert!(now <= before + 1, "{now} reads after {before}");
        before = now;
    }
    assert!(before > 20 && world.held() == 5, "{before} reads, {} held", world.held());
}

/// Memory whose GPU orders nothing, and cannot be made to.
struct Unsettled<'n>(&'n Node);

impl Destination for Unsettled<'_> {
    type Error = &'static str;

    fn zero(&mut self, range: Descriptor) -> Result<(), &'static str> {
        (&mut &*self.0).zero(range).map_err(|_| "it is not there")
    }

    fn settle(&mut self, _: u64) -> Result<(), &'static str> {
        Err("the GPU does not say when it is done")
    }
}

#[test]
fn what_is_said_to_be_valid_of_a_failed_import_was_made_visible() {
    for settles in [true, false] {
        let limits = ReadLimits { most_bytes: 1, ..ReadLimits::default() };
        let own = ConsumerOptions { turn_limits: limits, read_limits: limits, ..options() };
        let mut world = World::with(own, ProducerOptions { terms: terms(), ..ProducerOptions::new(0x5eed) });
        world.pass(5);
        world.begin(1);
        world.pass(12);
        assert!(world.end(1).is_none() && world.d.node.settled.borrow().is_empty());
        world.consumer.as_mut().unwrap().cancel(1);
        for _ in 0..20 {
            world.fabric.now.set(world.fabric.now.get() + 1);
            let (now, node) = (world.now(), world.d.node.clone());
            let consumer = world.consumer.as_mut().unwrap();
            world.events.extend(match settles {
                true => consumer.poll(|| now, &mut &*node),
                false => consumer.poll(|| now, &mut Unsettled(&node)),
            });
        }
        let Some(End::Failed { why: Failure::Reads { why, reason }, valid }) = world.end(1) else {
            panic!("{:?}", world.end(1))
        };
        let most = valid.iter().map(|(_, tokens)| tokens.get()).max().unwrap();
        assert_eq!(why, Ending::Cancelled);
        if settles {
            assert!(most > u64::from(BLOCK), "some of it has landed: {valid:?}");
            assert_eq!(*world.d.node.settled.borrow(), [(0, 0)]);
        } else {
            assert_eq!(most, u64::from(BLOCK), "what was there before: {valid:?}");
            assert_eq!(reason.as_deref(), Some("the GPU does not say when it is done"));
        }
    }
}

#[test]
fn an_ask_stays_the_same_however_long_d_waits_and_is_withdrawn_with_its_connection() {
    let mut world = World::new();
    let not_yet = std::iter::repeat_with(|| Answer::NotYet);
    world.engine.answers.extend(not_yet.take(5000));
    world.begin(1);
    world.begin(2);
    // D says five times that it waits.
    world.pass(1000);
    assert_eq!((world.engine.asked.len(), world.engine.withdrawn.len()), (2, 0));
    world.tap.cut.set(true);
    world.pass(5);
    let withdrawn = world.engine.withdrawn.iter().map(|ask| ask.number);
    assert!(withdrawn.eq(world.engine.asked.iter().copied()), "{:?}", world.engine.withdrawn);
    assert!(world.engine.withdrawn.iter().all(|ask| ask.connection == 0));
    assert_eq!(world.held(), 0);
}
