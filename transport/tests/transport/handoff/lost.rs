//! What is lost: connections, messages, processes, reads.

use pagelift_transport::consumer::{Consumer, ConsumerEvent, End, Failure};
use pagelift_transport::control::{Message, Wire};
use pagelift_transport::error::{ConsumerError, ControlError};
use pagelift_transport::lease::RankEnd;
use pagelift_transport::producer::{Producer, ProducerOptions};
use pagelift_transport::receive::Ending;

use super::{READ, World, options, terms};
use crate::world::BASE;

fn why(world: &World, id: u32) -> Option<Ending> {
    match world.end(id)? {
        End::Failed { why: Failure::Reads { why, .. }, .. } => Some(why),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_connection_that_is_lost_while_reads_are_in_flight_does_not_hurt_those_that_end_in_time() {
    let mut world = World::new();
    world.d.node.lasts.set(Some(500));
    world.begin(1);
    world.pass(20);
    world.tap.cut.set(true);
    world.pass(20);
    let lost = ConsumerError::Control(ControlError::Ended);
    assert!(world.events.contains(&ConsumerEvent::Lost { why: lost.clone() }), "{:?}", world.events);
    assert_eq!(world.held(), 1, "what a lost connection was given is held");
    let wanted = world.wanted(9);
    assert_eq!(world.consumer.as_mut().unwrap().begin(9, wanted), Err(lost));
    world.pass(500);
    // The notice takes the transport's way.
    assert_eq!(
        (world.end(1), &world.engine.freed[..]),
        (Some(End::Landed { awaited: true, filled: true }), &[(1001, READ)][..])
    );
    // A new connection goes on as if nothing had been.
    world.connect(options());
    world.begin(2);
    world.pass(600);
    assert_eq!(world.end(2), Some(End::Landed { awaited: true, filled: true }));
}

#[test]
fn a_new_connection_reads_on_when_the_one_before_it_goes() {
    let mut world = World::new();
    world.d.node.lasts.set(Some(300));
    world.begin(1);
    world.pass(20);
    world.tap.cut.set(true);
    world.pass(20);
    // What it reads still lands, while the engine has connected again.
    let mut before = world.consumer.take().unwrap();
    world.connect(options());
    world.begin(2);
    world.pass(20);
    assert_eq!((before.in_flight(), world.d.node.peers.get()), (1, 2));
    world.pass(300);
    let events = before.poll(|| world.now(), &mut &*world.d.node);
    assert!(matches!(events[..], [ConsumerEvent::Ended { id: 1, end: End::Landed { .. } }]), "{events:?}");
    drop(before);
    world.begin(3);
    world.pass(400);
    assert_eq!(
        [2, 3].map(|id| world.end(id)),
        [(); 2].map(|()| Some(End::Landed { awaited: true, filled: true }))
    );
    world.consumer = None;
    assert_eq!(world.d.node.peers.get(), 0);
}

#[test]
fn a_peer_whose_lists_cannot_be_made_ready_is_forgotten() {
    let mut world = World::new();
    world.d.node.prepares.set(false);
    world.pass(20);
    let over = world.consumer.as_ref().unwrap().over();
    assert!(matches!(over, Some(ConsumerError::Transfer { .. })), "{over:?}");
    assert_eq!(world.d.node.peers.get(), 0);
}

/// P's word, without an end.
struct Endless;

impl Wire for Endless {
    fn send(&mut self, _: &Message) -> Result<(), ControlError> {
        Ok(())
    }

    fn receive(&mut self) -> Result<Option<Message>, ControlError> {
        Ok(Some(Message::Here))
    }

    fn is_flushed(&self) -> bool {
        true
    }
}

#[test]
fn a_p_that_never_ends_speaking_keeps_nobody_who_leaves() {
    let world = World::new();
    let offer = world.d.node.engine.borrow().offer(BASE);
    let mut consumer: Consumer<_, _, u32> =
        Consumer::new(world.d.clone(), Endless, offer, options(), world.now()).unwrap();
    consumer.close();
    assert_eq!(consumer.poll(|| world.now(), &mut &*world.d.node), []);
    assert!(!consumer.is_left());
}

#[test]
fn case_23_reads_that_outlast_a_lease_without_heartbeats_are_not_believed() {
    let mut world = World::new();
    world.d.node.lasts.set(Some(1500));
    world.d.node.stoppable.set(false);
    world.begin(1);
    world.pass(20);
    *world.tap.copies.borrow_mut() =
        Box::new(|message| u32::from(!matches!(message, Message::Heartbeat { .. })));
    world.pass(1000);
    // P has freed; D has not released, for the read may still write.
    assert_eq!((world.end(1), world.held()), (None, 0));
    assert_eq!(world.engine.freed, [(1001, RankEnd::Expired)]);
    world.pass(600);
    assert_eq!(why(&world, 1), Some(Ending::LeaseLost));
    assert_eq!(world.d.node.in_flight.get(), 0);
}

#[test]
fn case_23_a_notice_that_is_lost_or_doubled_delays_and_does_no_more() {
    for copies in [0, 2] {
        let mut world = World::new();
        world.d.node.notices.set(copies);
        world.begin(1);
        world.begin(2);
        world.pass(100);
        assert_eq!(world.end(1), Some(End::Landed { awaited: true, filled: true }));
        assert_eq!(world.held(), if copies == 0 { 2 } else { 0 });
        world.pass(1000);
        let end = if copies == 0 { RankEnd::Expired } else { READ };
        assert_eq!(world.engine.freed, [(1001, end), (1002, end)]);
        assert_eq!(world.held(), 0);
    }
}

#[test]
fn case_23_a_d_that_dies_is_held_for_until_its_lease_is_over() {
    let mut world = World::new();
    world.d.node.lasts.set(Some(10_000));
    world.begin(1);
    world.pass(500);
    let heartbeats = world.producer.as_ref().unwrap().counters().0.heartbeats;
    assert!(heartbeats >= 2);
    (world.consumer, _) = (None, world.d.kill());
    world.pass(700);
    assert_eq!(world.held(), 1, "the last heartbeat was at 400 at least");
    world.pass(400);
    assert_eq!(world.engine.freed, [(1001, RankEnd::Expired)]);
    assert_eq!(world.producer.as_ref().unwrap().connections(), 0);
}

#[test]
fn case_23_a_p_that_dies_fails_what_was_read_and_what_was_asked() {
    let mut world = World::new();
    world.d.node.lasts.set(Some(300));
    world.begin(1);
    world.pass(20);
    world.begin(2);
    (world.producer, _) = (None, world.p.kill());
    world.pass(5);
    let Some(End::Failed { why: Failure::Lost(_), .. }) = world.end(2) else { panic!("{:?}", world.end(2)) };
    assert_eq!(world.end(1), None);
    world.pass(400);
    assert_eq!(why(&world, 1), Some(Ending::ReadFailed));
    assert_eq!(world.d.node.in_flight.get(), 0);
}

#[test]
fn case_23_who_takes_p_s_place_under_its_name_holds_nothing_of_before() {
    let mut world = World::new();
    world.d.node.lasts.set(Some(300));
    world.begin(1);
    world.pass(20);
    // The bytes are there still, so the read will not fail; but nobody holds them.
    let offer = world.p.node.engine.borrow().offer(BASE);
    let own = ProducerOptions { terms: terms(), ..ProducerOptions::new(0xace) };
    world.producer = Some(Producer::new(world.p.clone(), world.door.clone(), offer, own).unwrap());
    world.engine.held.clear();
    world.pass(400);
    // It came in time by D's count, for the first P had granted it until then: that is what a lease says.
    assert_eq!(world.end(1), Some(End::Landed { awaited: true, filled: true }));
    // Its notice means nothing to the second.
    assert_eq!(world.producer.as_ref().unwrap().counters().1.unknown, 1);
    assert!(world.engine.freed.is_empty());
}

#[test]
fn case_23_a_read_that_never_ends_is_told_to_stop_and_the_engine_hears_where_it_does_not() {
    for stoppable in [true, false] {
        let mut world = World::new();
        world.d.node.lasts.set(None);
        world.d.node.stoppable.set(stoppable);
        world.begin(1);
        world.pass(4990);
        assert_eq!((world.end(1), world.held()), (None, 1));
        world.pass(100);
        if stoppable {
            assert_eq!((why(&world, 1), world.held()), (Some(Ending::TimedOut), 0));
            continue;
        }
        world.pass(3000);
        let stuck = world.events.iter().filter(|event| matches!(event, ConsumerEvent::Stuck { id: 1 }));
        assert_eq!((stuck.count(), world.end(1), world.held()), (1, None, 1));
    }
}

#[test]
fn reads_that_cannot_be_begun_or_fail_are_told_with_what_is_valid() {
    let mut world = World::new();
    world.d.node.fails.set(true);
    world.begin(1);
    world.pass(30);
    let Some(End::Failed { why, valid }) = world.end(1) else { panic!("{:?}", world.end(1)) };
    assert_eq!(why.to_string(), "a read failed: the wire was cut");
    assert!(valid.iter().all(|(_, tokens)| tokens.get() <= 16), "{valid:?}");
    // The peer is gone, and the connection does not know it yet.
    world.p.kill();
    world.begin(2);
    world.pass(30);
    let Some(End::Failed { why, .. }) = world.end(2) else { panic!("{:?}", world.end(2)) };
    assert_eq!(why.to_string(), "a read failed: there is no such peer");
    // P is told of both, of the second over the control channel.
    assert_eq!(world.engine.freed, [(1001, super::FAILED), (1002, super::FAILED)]);
}
