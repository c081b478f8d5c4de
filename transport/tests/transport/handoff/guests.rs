//! Connections of others: whoever they are, they hurt nobody else.

use std::io::Write;
use std::time::Duration;

use pagelift_planner::quantity::Tokens;
use pagelift_transport::consumer::End;
use pagelift_transport::control::{Link, Message, Role, Secret, Wire, nonce};
use pagelift_transport::error::{ControlError, PairError, ProducerError};
use pagelift_transport::notice::ExportId;
use pagelift_transport::producer::{ProducerEvent, ProducerOptions};
use proptest::prelude::*;

use super::wires::{Pipe, link};
use super::{World, options, terms};
use crate::world::BASE;

/// Why P has closed the only connection besides D's.
fn closed(world: &World) -> Option<ProducerError> {
    world.seen.iter().find_map(|event| match event {
        ProducerEvent::Closed { why, .. } => Some(why.clone().expect("it did not say goodbye")),
        _ => None,
    })
}

/// An import beside a guest goes as if that were not there.
fn goes_on(world: &mut World) {
    world.begin(1);
    world.pass(40);
    assert_eq!(world.end(1), Some(End::Landed { awaited: true, filled: true }));
}

fn guest(world: &World) -> Link<Pipe> {
    link(world.door.waiting.connect(), Role::Consumer)
}

#[test]
fn a_stranger_is_closed_and_counted() {
    let mut world = World::new();
    let other = Secret::new(b"drawn at random?").unwrap();
    let mut stranger = Link::new(world.door.waiting.connect(), Role::Consumer, &other, nonce().unwrap());
    for _ in 0..3 {
        world.pass(1);
        // It finds the same of P.
        let _: Result<Option<Message>, ControlError> = stranger.receive();
    }
    assert_eq!(closed(&world), Some(ProducerError::Control(ControlError::Forged)));
    assert_eq!(world.producer.as_ref().unwrap().counters().0.misbehaved, 1);
    goes_on(&mut world);
}

#[test]
fn case_24_a_guest_that_means_something_else_by_a_block_is_told_by_name() {
    let mut world = World::new();
    let mut guest = guest(&world);
    let mut offer = Box::new(world.d.node.engine.borrow().offer(BASE));
    offer.schema.groups.get_mut("main").unwrap().draft = true;
    guest.send(&Message::Offer { offer, metadata: Vec::new() }).unwrap();
    for _ in 0..3 {
        world.pass(1);
        let _: Result<Option<Message>, ControlError> = guest.receive();
    }
    let Some(ProducerError::Pair(PairError::Schema(why))) = closed(&world) else {
        panic!("{:?}", closed(&world))
    };
    assert_eq!(
        why.to_string(),
        "the payload schemas differ: `groups.main.draft` is false here and true there"
    );
    goes_on(&mut world);
}

#[test]
fn a_guest_that_makes_no_sense_is_closed() {
    let ask = |request| Message::Ask { request, imported: Tokens::new(1), sent: Duration::ZERO };
    let export = ExportId { incarnation: 0x5eed, number: 0 };
    let heartbeat = Message::Heartbeat { export, rank: 0, sent: Duration::ZERO };
    for (message, name) in
        [(ask(1), "ask"), (heartbeat, "heartbeat"), (Message::NotHeld { export, rank: 0 }, "not-held")]
    {
        let mut world = World::new();
        let mut guest = guest(&world);
        guest.send(&message).unwrap();
        for _ in 0..3 {
            world.pass(1);
            let _: Result<Option<Message>, ControlError> = guest.receive();
        }
        assert_eq!(closed(&world), Some(ProducerError::Unexpected { message: name }));
        goes_on(&mut world);
    }
}

#[test]
fn a_guest_that_asks_for_too_much_or_speaks_for_another_rank_is_closed() {
    for too_much in [true, false] {
        let own = ProducerOptions { terms: terms(), most_asked: 8, ..ProducerOptions::new(1) };
        let mut world = World::with(options(), own);
        let mut guest = guest(&world);
        let offer = Box::new(world.d.node.engine.borrow().offer(BASE));
        guest.send(&Message::Offer { offer, metadata: Vec::new() }).unwrap();
        let export = ExportId { incarnation: 1, number: 0 };
        let imported = Tokens::new(super::IMPORTED.into());
        match too_much {
            true => (0..9).for_each(|request| {
                guest.send(&Message::Ask { request, imported, sent: Duration::ZERO }).unwrap();
            }),
            false => guest.send(&Message::Heartbeat { export, rank: 1, sent: Duration::ZERO }).unwrap(),
        }
        world.engine.answers.extend(std::iter::repeat_n(super::Answer::NotYet, 9));
        for _ in 0..4 {
            let _: Result<Option<Message>, ControlError> = guest.receive();
            world.pass(1);
        }
        let expected = match too_much {
            true => ProducerError::TooManyAsked { most: 8 },
            false => ProducerError::Unexpected { message: "heartbeat" },
        };
        assert_eq!(closed(&world), Some(expected));
        world.engine.answers.clear();
        goes_on(&mut world);
    }
}

#[test]
fn a_guest_that_says_nothing_is_closed_and_one_too_many_turned_away() {
    let limits =
        ProducerOptions { most_connections: 3, silence_timeout: terms().lease, ..ProducerOptions::new(1) };
    let mut world = World::with(options(), ProducerOptions { terms: terms(), ..limits });
    let guests: Vec<Pipe> = (0..4).map(|_| world.door.waiting.connect()).collect();
    world.pass(10);
    assert_eq!(world.producer.as_ref().unwrap().counters().0.turned_away, 2);
    goes_on(&mut world);
    world.pass(1000);
    assert!(matches!(closed(&world), Some(ProducerError::Silent { .. })));
    // D says that it is there, though it wants nothing.
    assert_eq!(world.producer.as_ref().unwrap().connections(), 1);
    drop(guests);
}

#[test]
fn strangers_that_say_nothing_keep_nobody_out() {
    let own = ProducerOptions { terms: terms(), most_connections: 3, ..ProducerOptions::new(1) };
    let mut world = World::with(options(), own);
    let guests: Vec<Pipe> = (0..2).map(|_| world.door.waiting.connect()).collect();
    world.pass(5);
    assert_eq!(world.producer.as_ref().unwrap().connections(), 3);
    // There are as many as there may be, of which one is D's. It comes twice more, and each time a stranger makes room.
    let mut before = Vec::new();
    for _ in 0..2 {
        before.extend(world.consumer.take());
        world.connect(options());
        world.pass(5);
        assert!(world.consumer.as_ref().unwrap().is_paired());
        assert_eq!(world.producer.as_ref().unwrap().connections(), 3);
    }
    // Those that have paired make room for nobody.
    let late = world.door.waiting.connect();
    goes_on(&mut world);
    assert_eq!(world.producer.as_ref().unwrap().counters().0.turned_away, 3);
    assert_eq!(world.producer.as_ref().unwrap().connections(), 3);
    drop((guests, before, late));
}

#[test]
fn however_many_come_at_once_the_others_have_their_turn() {
    let mut world = World::new();
    let guests: Vec<Pipe> = (0..500).map(|_| world.door.waiting.connect()).collect();
    world.pass(1);
    assert_eq!(world.producer.as_ref().unwrap().connections(), 64);
    goes_on(&mut world);
    drop(guests);
}

#[test]
fn a_system_that_brings_nobody_is_said_once_and_hurts_nobody_who_is_there() {
    let mut world = World::new();
    world.pass(2);
    let failures = |world: &World| {
        let failed = |event: &&ProducerEvent| matches!(event, ProducerEvent::Unreached { .. });
        world.seen.iter().filter(failed).count()
    };
    world.door.stuck.set(true);
    goes_on(&mut world);
    assert_eq!(failures(&world), 1);
    world.door.stuck.set(false);
    let guest = guest(&world);
    world.pass(2);
    assert_eq!(world.producer.as_ref().unwrap().connections(), 2);
    world.door.stuck.set(true);
    world.pass(2);
    assert_eq!(failures(&world), 2);
    drop(guest);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn noise_hurts_nobody(noise in prop::collection::vec(any::<u8>(), 1..400), greets in any::<bool>()) {
        let mut world = World::new();
        let mut pipe = world.door.waiting.connect();
        if greets {
            let own = pagelift_transport::control::Greeting::new(Role::Consumer, [7; 32]);
            pipe.write_all(&own.to_bytes()).unwrap();
        }
        pipe.write_all(&noise).unwrap();
        goes_on(&mut world);
    }
}
