//! Each fault once, with what comes of it on both sides: D fails the import, publishes nothing and holds nothing; P frees when D
//! has said so, or when the lease is over, and never before.

use pagelift_planner::lifecycle::Outcome;
use pagelift_transport::consumer::{ConsumerEvent, End, Failure};
use pagelift_transport::control::{Message, Role, Wire};
use pagelift_transport::error::{ConsumerError, ControlError, PairError, ProducerError};
use pagelift_transport::lease::RankEnd;
use pagelift_transport::notice::{Notice, ReadOutcome};
use pagelift_transport::producer::ProducerEvent;
use pagelift_transport::receive::Ending;
use serde_json::Value;

use super::pair::Pair;
use super::wires::link;
use super::{CANCELLED, FAILED, READ};
use crate::engines::Outcomes;
use crate::payload::{at, leaves, other};
use crate::world::BASE;

/// Another prompt each, of three blocks.
const FIRST: u64 = 2;

/// Milliseconds that a lease lasts.
const LEASE: u64 = 1000;

/// A request whose reads take so long, and are in flight.
fn reading(lasts: u64) -> Pair {
    let mut pair = Pair::new();
    pair.d.node.lasts.set(Some(lasts));
    pair.request(FIRST).unwrap();
    pair.pass(20);
    assert_eq!((pair.held(), pair.d.node.in_flight.get() > 0), (1, true));
    pair
}

/// D's request has failed, and nothing of it can be found; another one goes well, and then nothing is held.
fn failed(pair: &mut Pair, outcome: Outcome) {
    assert_eq!(pair.decoder.ended, [(FIRST, outcome)]);
    assert_eq!(pair.decoder.outcomes.published, 0);
    assert_eq!(pair.d.node.in_flight.get(), 0);
    goes_on(pair);
}

fn goes_on(pair: &mut Pair) {
    *pair.tap.copies.borrow_mut() = Box::new(|_| 1);
    *pair.door.tap.copies.borrow_mut() = Box::new(|_| 1);
    pair.d.node.lasts.set(Some(3));
    pair.d.node.stoppable.set(true);
    if pair.consumer.as_ref().is_none_or(|consumer| consumer.over().is_some()) {
        pair.connect();
    }
    let before = pair.decoder.outcomes.finished;
    pair.request(FIRST).unwrap();
    pair.pass(40);
    assert_eq!(pair.decoder.outcomes.finished, before + 1);
    assert!(pair.decoder.outcomes.published > 0);
    pair.pass(2 * LEASE);
    pair.assert_idle();
}

fn why(pair: &Pair) -> Failure {
    let ends = pair.events.iter().filter_map(|event| match event {
        ConsumerEvent::Ended { end: End::Failed { why, .. }, .. } => Some(why.clone()),
        _ => None,
    });
    let ends: Vec<_> = ends.collect();
    assert_eq!(ends.len(), 1, "{:?}", pair.events);
    ends.into_iter().next().unwrap()
}

fn ending(pair: &Pair) -> Ending {
    match why(pair) {
        Failure::Reads { why, .. } => why,
        other => panic!("{other:?}"),
    }
}

/// A message that is never heard.
fn without(name: &'static str) -> Box<dyn FnMut(&Message) -> u32> {
    Box::new(move |message| u32::from(message.name() != name))
}

#[test]
fn case_23_p_is_killed_before_the_read() {
    let mut pair = Pair::new();
    pair.pass(5);
    pair.request(FIRST).unwrap();
    pair.kill_p();
    pair.pass(5);
    assert!(matches!(why(&pair), Failure::Lost(_)), "{:?}", pair.events);
    pair.start_p();
    failed(&mut pair, Outcome::Failed);
}

#[test]
fn case_23_p_is_killed_during_the_read_and_another_takes_its_place_or_not() {
    for restarts in [false, true] {
        let mut pair = reading(300);
        if restarts {
            pair.start_p()
        } else {
            pair.kill_p()
        }
        pair.pass(200);
        // The connection is lost; the reads are still awaited, and their blocks held.
        assert!(pair.consumer.as_ref().unwrap().over().is_some());
        assert!(pair.decoder.ended.is_empty() && pair.d.node.in_flight.get() > 0);
        pair.pass(200);
        assert_eq!(ending(&pair), Ending::ReadFailed);
        assert_eq!(pair.held(), 0, "who takes its place holds nothing for D");
        if !restarts {
            pair.start_p();
        }
        failed(&mut pair, Outcome::Failed);
    }
}

#[test]
fn case_23_p_is_killed_after_the_read() {
    let mut pair = Pair::new();
    pair.d.node.notices.set(0);
    pair.request(FIRST).unwrap();
    pair.pass(30);
    // It holds what was read, for it has not heard; that it is gone changes nothing for D.
    assert_eq!((pair.held(), pair.decoder.outcomes.finished), (1, 1));
    pair.start_p();
    pair.pass(10);
    assert_eq!((pair.held(), &pair.freed[..]), (0, &[][..]));
    let Outcomes { finished, published, .. } = pair.decoder.outcomes;
    assert!(finished == 1 && published > 0, "what was read is D's own");
    pair.d.node.notices.set(1);
    goes_on(&mut pair);
}

#[test]
fn case_23_d_is_killed_during_the_read() {
    let mut pair = reading(5000);
    pair.pass(500);
    pair.restart_d();
    // Its last heartbeat was sent at 400 at least.
    pair.pass(LEASE - 150);
    assert_eq!((pair.held(), &pair.freed[..]), (1, &[][..]));
    pair.pass(400);
    assert_eq!(pair.freed, [(FIRST, RankEnd::Expired)]);
    goes_on(&mut pair);
}

#[test]
fn case_23_a_client_cancels_during_the_read() {
    let mut pair = reading(1100);
    let id = pair.decoder.reading()[0];
    pair.cancel(id);
    pair.pass(1000);
    assert_eq!((pair.held(), pair.decoder.ended.len()), (1, 0), "the reads are awaited, and held for");
    pair.pass(200);
    assert_eq!(ending(&pair), Ending::Cancelled);
    assert_eq!(pair.freed, [(FIRST, CANCELLED)]);
    failed(&mut pair, Outcome::Aborted);
}

#[test]
fn case_23_heartbeats_or_their_answers_are_lost() {
    for (of_d, name) in [(true, "heartbeat"), (false, "held")] {
        let mut pair = reading(1150);
        let side = if of_d { &pair.tap } else { &pair.door.tap };
        *side.copies.borrow_mut() = without(name);
        pair.d.node.stoppable.set(false);
        pair.pass(LEASE - 100);
        assert_eq!(pair.held(), 1);
        pair.pass(300);
        assert_eq!(ending(&pair), Ending::LeaseLost);
        // P has freed, where it has heard nothing; where it has, it hears the notice.
        assert_eq!(pair.freed, [(FIRST, if of_d { RankEnd::Expired } else { FAILED })]);
        failed(&mut pair, Outcome::Failed);
    }
}

#[test]
fn case_23_p_holds_it_no_more_and_says_so() {
    let mut pair = reading(800);
    let export = pair.seen.iter().find_map(|event| match event {
        ProducerEvent::Granted { export, .. } => Some(*export),
        _ => None,
    });
    // Somebody with the secret gives notice in D's name. Reads are not asked about, so it is the next heartbeat that tells.
    let mut guest = link(pair.door.waiting.connect(), Role::Consumer);
    guest.send(&Message::Offer { offer: Box::new(pair.offer()), metadata: Vec::new() }).unwrap();
    let outcome = ReadOutcome::Read;
    guest.send(&Message::Notice(Notice { export: export.unwrap(), rank: 0, outcome })).unwrap();
    for _ in 0..300 {
        let _: Result<Option<Message>, ControlError> = guest.receive();
        pair.pass(1);
    }
    assert_eq!((pair.held(), &pair.freed[..]), (0, &[(FIRST, READ)][..]));
    pair.pass(600);
    assert_eq!(ending(&pair), Ending::LeaseLost);
    failed(&mut pair, Outcome::Failed);
}

#[test]
fn case_23_a_read_never_completes_until_it_is_told_to_stop() {
    let mut pair = Pair::new();
    pair.d.node.lasts.set(None);
    pair.request(FIRST).unwrap();
    pair.pass(1150);
    assert_eq!((pair.held(), pair.decoder.ended.len()), (1, 0));
    pair.pass(200);
    assert_eq!(ending(&pair), Ending::TimedOut);
    assert_eq!(pair.freed, [(FIRST, FAILED)]);
    failed(&mut pair, Outcome::Failed);
}

#[test]
fn case_23_a_read_never_completes_until_its_transport_is_dropped() {
    let mut pair = Pair::new();
    pair.d.node.lasts.set(None);
    pair.d.node.stoppable.set(false);
    pair.request(FIRST).unwrap();
    pair.pass(3000);
    let stuck = pair.events.iter().filter(|event| matches!(event, ConsumerEvent::Stuck { .. }));
    assert_eq!(stuck.count(), 1);
    // Three leases long, P holds what may still be read, and D what may still be written.
    assert_eq!((pair.held(), pair.decoder.ended.len()), (1, 0));
    pair.drop_transport();
    assert_eq!(pair.held(), 1);
    pair.pass(LEASE);
    assert_eq!(pair.freed, [(FIRST, RankEnd::Expired)]);
    failed(&mut pair, Outcome::Failed);
}

#[test]
fn case_23_a_notice_is_lost_or_doubled() {
    for copies in [0, 2] {
        let mut pair = Pair::new();
        pair.d.node.notices.set(copies);
        pair.request(FIRST).unwrap();
        pair.pass(LEASE - 50);
        assert_eq!((pair.held(), pair.decoder.outcomes.finished), (u32::from(copies == 0) as usize, 1));
        pair.pass(100);
        assert_eq!(pair.freed, [(FIRST, if copies == 0 { RankEnd::Expired } else { READ })]);
        pair.d.node.notices.set(1);
        goes_on(&mut pair);
    }
}

#[test]
fn case_23_messages_that_are_doubled_change_nothing() {
    let mut pair = Pair::new();
    pair.pass(5);
    *pair.tap.copies.borrow_mut() = Box::new(|_| 2);
    *pair.door.tap.copies.borrow_mut() = Box::new(|_| 2);
    pair.d.node.lasts.set(Some(1000));
    pair.request(FIRST).unwrap();
    pair.pass(500);
    // The question was doubled, and each answer: the second export is not wanted, and the first is not given back.
    assert_eq!((pair.held(), &pair.freed[..]), (1, &[(FIRST, CANCELLED)][..]));
    pair.pass(600);
    assert_eq!(pair.freed, [(FIRST, CANCELLED), (FIRST, READ)]);
    assert_eq!(pair.decoder.outcomes.finished, 1);
    goes_on(&mut pair);
}

#[test]
fn case_23_blocks_past_p_s_pool_are_refused_before_anything_is_read() {
    let mut pair = Pair::new();
    pair.p.as_mut().unwrap().engine.beyond = true;
    pair.request(FIRST).unwrap();
    pair.pass(20);
    assert!(matches!(why(&pair), Failure::Plan(_)), "{:?}", pair.events);
    assert_eq!(pair.freed, [(FIRST, FAILED)]);
    pair.p.as_mut().unwrap().engine.beyond = false;
    failed(&mut pair, Outcome::Failed);
}

#[test]
fn case_24_each_field_of_a_schema_that_is_changed_is_refused_on_both_sides_and_nothing_is_held() {
    let offer = Pair::new().offer();
    let schema = serde_json::to_value(&offer.schema).unwrap();
    let mut fields = Vec::new();
    leaves("", &schema, &mut fields, &[]);
    assert!(fields.len() > 50, "{fields:?}");
    for (field, way) in fields {
        let mut changed: Value = schema.clone();
        let value = at(&mut changed, &way);
        *value = other(&field, value);
        let mut pair = Pair::new();
        pair.pass(3);
        let mut theirs = pair.offer();
        theirs.schema = serde_json::from_value(changed).unwrap();
        pair.connect_with(theirs);
        pair.pass(150);
        let closed = pair.seen.iter().find_map(|event| match event {
            ProducerEvent::Closed { why: Some(why), .. } if !is_loss(why) => Some(why.clone()),
            _ => None,
        });
        let told = closed.unwrap_or_else(|| panic!("{field} was taken")).to_string();
        assert!(told.contains(way.last().unwrap().as_str()) || told.contains("group"), "{field}: {told}");
        // D hears nothing of P but that it has gone, and asks for nothing.
        assert!(pair.consumer.as_ref().unwrap().over().is_some() && pair.held() == 0, "{field}");
        pair.connect();
        goes_on(&mut pair);
    }
}

const fn is_loss(why: &ProducerError) -> bool {
    matches!(why, ProducerError::Control(_))
}

#[test]
fn case_24_d_refuses_a_p_of_another_schema_by_itself() {
    let mut pair = Pair::new();
    let p = pair.p.take().unwrap();
    let mut offer = p.agent.node.engine.borrow().offer(BASE);
    offer.schema.groups.get_mut("main").unwrap().live_blocks += 1;
    // P says so whatever D is: it is not this crate.
    let mut guest = link(pair.door.waiting.take().unwrap(), Role::Producer);
    guest.send(&Message::Offer { offer: Box::new(offer), metadata: b"prefill".to_vec() }).unwrap();
    for _ in 0..5 {
        let _: Result<Option<Message>, ControlError> = guest.receive();
        pair.pass(1);
    }
    let lost = pair.consumer.as_ref().unwrap().over();
    let Some(ConsumerError::Pair(PairError::Schema(why))) = lost else { panic!("{lost:?}") };
    assert!(why.to_string().contains("`groups.main.live_blocks`"), "{why}");
    pair.start_p();
    goes_on(&mut pair);
}
