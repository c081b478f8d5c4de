//! Imports that go well, are refused, or are not wanted any more.

use std::time::Duration;

use pagelift_transport::consumer::{ConsumerEvent, ConsumerOptions, End, Failure, Notices, Wanted};
use pagelift_transport::control::Message;
use pagelift_transport::error::{ConsumerError, ReadPlanError};
use pagelift_transport::plan::{BlockTable, BlockTables, ReadLimits};
use pagelift_transport::producer::{Answer, ProducerEvent, ProducerOptions};
use pagelift_transport::receive::Ending;

use super::{CANCELLED, FAILED, Log, READ, World, options, terms};

#[test]
fn an_import_lands_byte_by_byte_and_p_hears_of_it_once() {
    let mut world = World::new();
    world.begin(7);
    world.pass(40);
    assert_eq!(world.end(7), Some(End::Landed { awaited: true, filled: true }));
    let [
        ConsumerEvent::Paired,
        ConsumerEvent::Begun { reads, bytes, zeroed, .. },
        ConsumerEvent::Ended { .. },
    ] = world.events[..]
    else {
        panic!("{:?}", world.events)
    };
    assert!(reads > super::groups().len() && bytes > 0 && zeroed > 0, "{:?}", world.events);
    assert!(world.d.node.engine.borrow().bytes == world.expected(), "some byte is wrong");
    assert_eq!((world.held(), &world.engine.freed[..]), (0, &[(1007, READ)][..]));
    let (counters, exports) = world.producer.as_ref().unwrap().counters();
    assert_eq!((counters.granted, counters.freed, counters.expired), (1, 1, 0));
    assert_eq!((exports.duplicate, exports.unknown), (0, 0));
    // What was read into a GPU's memory was made visible once all of it was there.
    assert_eq!(*world.d.node.settled.borrow(), [(0, 0)]);
    assert!(matches!(world.seen[..], [ProducerEvent::Connected { .. }, ProducerEvent::Granted { .. }]));
}

/// A world in which D begins one read a turn, of a block each.
fn one_read_a_turn() -> World {
    let limits = ReadLimits { most_bytes: 1, ..ReadLimits::default() };
    let own = ConsumerOptions { turn_limits: limits, read_limits: limits, ..options() };
    let mut world = World::with(own, ProducerOptions { terms: terms(), ..ProducerOptions::new(0x5eed) });
    world.pass(5);
    world
}

#[test]
fn a_lease_lasts_though_it_is_longer_until_all_reads_are_begun() {
    let mut world = one_read_a_turn();
    world.begin(1);
    let start = world.fabric.now.get();
    let begun = |world: &World| {
        let mut events = world.events.iter();
        events.find_map(|event| match event {
            ConsumerEvent::Begun { reads, .. } => Some(*reads as u64),
            _ => None,
        })
    };
    while begun(&world).is_none() && world.end(1).is_none() {
        // A transport that takes its time for each.
        world.fabric.now.set(world.fabric.now.get() + 149);
        world.pass(1);
    }
    let lasted = Duration::from_millis(world.fabric.now.get() - start);
    let reads = begun(&world).unwrap();
    assert!(
        lasted > terms().lease && lasted >= Duration::from_millis(150 * reads),
        "{reads} reads: {lasted:?}"
    );
    world.pass(20);
    assert_eq!(world.end(1), Some(End::Landed { awaited: true, filled: true }));
    assert!(world.d.node.engine.borrow().bytes == world.expected(), "some byte is wrong");
    assert_eq!(world.engine.freed, [(1001, READ)]);
    // It is settled once, when all of them are there.
    assert_eq!(*world.d.node.settled.borrow(), [(0, 0)]);
}

#[test]
fn reads_that_were_not_begun_are_not_when_nobody_wants_them() {
    let mut world = one_read_a_turn();
    world.d.node.lasts.set(Some(30));
    world.begin(1);
    while world.d.node.in_flight.get() == 0 {
        world.pass(1);
    }
    let begun = world.d.node.in_flight.get();
    assert_eq!(begun, 1);
    world.consumer.as_mut().unwrap().cancel(1);
    world.pass(1);
    assert_eq!(world.d.node.in_flight.get(), begun);
    world.pass(40);
    let Some(End::Failed { why: Failure::Reads { why: Ending::Cancelled, .. }, .. }) = world.end(1) else {
        panic!("{:?}", world.events)
    };
    assert!(!world.events.iter().any(|event| matches!(event, ConsumerEvent::Begun { .. })));
    assert_eq!((world.held(), &world.engine.freed[..]), (0, &[(1001, CANCELLED)][..]));
}

#[test]
fn many_imports_are_in_flight_at_one_time() {
    let mut world = World::new();
    world.d.node.lasts.set(Some(50));
    for id in 0..64 {
        world.begin(id);
    }
    world.pass(20);
    assert_eq!((world.held(), world.consumer.as_ref().unwrap().in_flight()), (64, 64));
    world.pass(100);
    assert!((0..64).all(|id| world.end(id) == Some(End::Landed { awaited: true, filled: true })));
    assert_eq!((world.held(), world.engine.freed.len()), (0, 64));
    assert!(world.engine.freed.iter().all(|(_, end)| *end == READ));
}

#[test]
fn case_23_where_nothing_is_wanted_p_is_notified_and_nobody_else() {
    let mut world = World::new();
    let blocks = BlockTables::new().with("main", BlockTable::default());
    let wanted = Wanted { blocks, ..world.wanted(1) };
    world.consumer.as_mut().unwrap().begin(1, wanted).unwrap();
    world.pass(20);
    assert_eq!(world.end(1), Some(End::Landed { awaited: false, filled: false }));
    assert_eq!(world.engine.freed, [(1, READ)]);
}

#[test]
fn p_is_asked_again_until_it_has_computed_and_its_refusals_are_told() {
    let mut world = World::new();
    world.engine.answers.extend(std::iter::repeat_n(Answer::NotYet, 30));
    world.begin(1);
    world.pass(20);
    assert_eq!((world.end(1), world.held()), (None, 0));
    world.pass(40);
    assert_eq!(world.end(1), Some(End::Landed { awaited: true, filled: true }));
    world.engine.answers.push_back(Answer::Refuse { reason: "no such prompt".into() });
    world.begin(2);
    world.pass(20);
    let Some(End::Failed { why, valid }) = world.end(2) else { panic!("{:?}", world.end(2)) };
    assert_eq!(why.to_string(), "the producer refuses: no such prompt");
    // The first block was here before; of a state there is nothing.
    let valid: Vec<_> = valid.iter().map(|(name, tokens)| (&**name, tokens.get())).collect();
    assert_eq!(valid, [("compressed", 16), ("gdn", 0), ("main", 16), ("ring", 0)]);
}

#[test]
fn a_full_p_answers_when_there_is_room() {
    let options_of_p = ProducerOptions { terms: terms(), most_exports: 2, ..ProducerOptions::new(1) };
    let mut world = World::with(options(), options_of_p);
    world.d.node.lasts.set(Some(30));
    for id in 0..5 {
        world.begin(id);
    }
    world.pass(20);
    assert_eq!(world.held(), 2);
    world.pass(150);
    assert!((0..5).all(|id| world.end(id) == Some(End::Landed { awaited: true, filled: true })));
}

#[test]
fn what_p_exports_and_d_does_not_want_is_told_by_name() {
    let mut world = World::new();
    world.engine.exported = BlockTables::new();
    world.begin(1);
    world.pass(20);
    let Some(End::Failed { why: Failure::Plan(why), .. }) = world.end(1) else {
        panic!("{:?}", world.end(1))
    };
    assert!(matches!(why, ReadPlanError::NotExported { .. }), "{why}");
    assert_eq!(world.engine.freed, [(1001, FAILED)]);
    // Blocks past P's pools are refused before anything is read.
    world.engine.exported = super::tables(&super::groups(), &world.lists, true)
        .with("main", BlockTable::from_first(&[0, 1, 2, 3, 1 << 20]));
    world.begin(2);
    world.pass(20);
    let Some(End::Failed { why: Failure::Plan(why), .. }) = world.end(2) else {
        panic!("{:?}", world.end(2))
    };
    assert!(matches!(why, ReadPlanError::OutOfRange { block: 0x10_0000, .. }), "{why}");
}

#[test]
fn of_what_p_sends_no_more_is_kept_than_was_wanted() {
    let mut world = World::new();
    let needed = world.engine.exported.clone();
    // P's blocks of a longer prompt, with digests, and of a group that nobody has asked for.
    let longer = |table: &BlockTable| {
        let blocks = (0..10_000).map(|position| table.get(position).or(Some(u32::MAX))).collect();
        BlockTable::at(0, blocks).with_digests((0..10_000).collect())
    };
    let mut exported = BlockTables::new().with("else", BlockTable::from_first(&[7; 1000]));
    for (name, table) in needed.iter() {
        exported = exported.with(name, longer(table));
    }
    world.engine.exported = exported;
    let wanted = world.wanted(1001).blocks;
    world.begin(1);
    world.pass(20);
    let mut events = world.events.iter();
    let kept = events.find_map(|event| match event {
        ConsumerEvent::Begun { exported, .. } => Some(exported),
        _ => None,
    });
    let kept = kept.unwrap();
    let positions = |tables: &BlockTables| -> Vec<(String, u32)> {
        let of = |(name, table): (_, &BlockTable)| {
            table.iter().map(|(position, _)| (format!("{name}"), position)).collect::<Vec<_>>()
        };
        tables.iter().flat_map(|(name, table)| of((name.clone(), table))).collect()
    };
    assert_eq!(positions(kept), positions(&wanted));
    for (name, table) in kept.iter() {
        for (position, block) in table.iter() {
            assert_eq!(
                (Some(block), table.digest(position)),
                (needed.get(name).and_then(|own| own.get(position)), Some(position.into()))
            );
        }
        let past = wanted.get(name).and_then(|own| own.iter().last()).map_or(0, |(last, _)| last + 1);
        assert_eq!((table.get(past), table.digest(past)), (None, None));
    }
    world.pass(50);
    assert_eq!(world.end(1), Some(End::Landed { awaited: true, filled: true }));
    // And of its words as many as somebody reads, whole ones.
    world.engine.answers.push_back(Answer::Refuse { reason: "ä".repeat(1 << 20) });
    world.begin(2);
    world.pass(20);
    let Some(End::Failed { why: Failure::Refused { reason }, .. }) = world.end(2) else {
        panic!("{:?}", world.end(2))
    };
    assert_eq!(reason, "ä".repeat(512));
}

#[test]
fn case_23_a_client_that_cancels_is_told_when_nothing_reads_any_more() {
    let mut world = World::new();
    world.d.node.lasts.set(Some(3000));
    world.begin(1);
    world.pass(50);
    world.consumer.as_mut().unwrap().cancel(1);
    // Three leases long, the reads go on, and so does the lease.
    world.pass(2900);
    assert_eq!((world.end(1), world.held()), (None, 1));
    assert!(world.producer.as_ref().unwrap().counters().0.heartbeats >= 12);
    world.pass(200);
    let end = world.end(1);
    assert!(
        matches!(&end, Some(End::Failed { why: Failure::Reads { why: Ending::Cancelled, .. }, .. })),
        "{end:?}"
    );
    assert_eq!(world.engine.freed, [(1001, CANCELLED)]);
}

#[test]
fn what_is_cancelled_before_p_answers_is_over_at_once_and_p_is_told_later() {
    let mut world = World::new();
    world.engine.answers.extend(std::iter::repeat_n(Answer::NotYet, 30));
    world.begin(1);
    world.pass(10);
    world.consumer.as_mut().unwrap().cancel(1);
    world.pass(2);
    assert!(matches!(world.end(1), Some(End::Failed { why: Failure::Cancelled, .. })));
    world.pass(50);
    assert_eq!((world.held(), &world.engine.freed[..]), (0, &[(1001, CANCELLED)][..]));
    assert_eq!(world.consumer.as_ref().unwrap().counters().late_grants, 1);
}

#[test]
fn an_answer_to_an_earlier_question_is_not_taken_for_that_to_a_later_one() {
    let mut world = World::new();
    // The first question is answered after D has given up and asked again: P's lease began before the second.
    world.engine.answers.extend(std::iter::repeat_n(Answer::NotYet, 2020));
    world.begin(1);
    world.pass(2010);
    assert!(matches!(world.end(1), Some(End::Failed { why: Failure::NoAnswer, .. })));
    world.events.clear();
    world.engine.answers.clear();
    world.engine.answers.push_back(Answer::NotYet);
    world.begin(1);
    world.pass(40);
    assert_eq!(world.end(1), Some(End::Landed { awaited: true, filled: true }));
    let begun = world.events.iter().find_map(|event| match event {
        ConsumerEvent::Begun { export, .. } => Some(export.number),
        _ => None,
    });
    assert_eq!(begun, Some(1), "the second export, whose lease the second question began");
    let mut ends: Vec<_> = world.engine.freed.iter().map(|(_, end)| *end).collect();
    ends.sort_by_key(|end| *end != READ);
    assert_eq!(ends, [READ, CANCELLED]);
}

#[test]
fn what_p_computes_for_longer_than_a_lease_lasts_is_read_all_the_same() {
    let mut world = World::new();
    world.engine.answers.extend(std::iter::repeat_n(Answer::NotYet, 1900));
    world.begin(1);
    world.pass(1950);
    assert_eq!(world.end(1), Some(End::Landed { awaited: true, filled: true }));
    assert_eq!(world.engine.freed, [(1001, READ)]);
}

#[test]
fn case_23_of_what_is_granted_too_late_to_be_believed_nothing_is_read() {
    // By D's count the lease is over before P has heard that its answer is waited for.
    let presence_interval = Duration::from_millis(999);
    let producer = ProducerOptions { terms: terms(), ..ProducerOptions::new(0x5eed) };
    let mut world = World::with(ConsumerOptions { presence_interval, ..options() }, producer);
    world.engine.answers.extend(std::iter::repeat_n(Answer::NotYet, 970));
    world.begin(1);
    world.pass(1100);
    let Some(End::Failed { why: Failure::Reads { why, .. }, .. }) = world.end(1) else {
        panic!("{:?}", world.end(1))
    };
    assert_eq!(why, Ending::LeaseLost);
    assert!(!world.events.iter().any(|event| matches!(event, ConsumerEvent::Begun { .. })));
    assert_eq!(world.engine.freed, [(1001, FAILED)]);
}

#[test]
fn one_import_of_a_request_at_a_time() {
    let mut world = World::new();
    world.begin(1);
    let wanted = world.wanted(1001);
    let third = world.wanted(9);
    let consumer = world.consumer.as_mut().unwrap();
    assert_eq!(consumer.begin(2, wanted.clone()), Err(ConsumerError::Twice { request: 1001 }));
    let other = Wanted { request: 5, ..wanted };
    assert_eq!(consumer.begin(1, other), Err(ConsumerError::Twice { request: 5 }));
    consumer.close();
    assert_eq!(consumer.begin(3, third), Err(ConsumerError::Closed));
}

#[test]
fn a_notice_takes_the_way_that_is_asked_for_and_the_other_where_that_is_lost() {
    for (notices, cut, over_control) in [
        (Notices::default(), false, true),
        (Notices::Control, true, false),
        (Notices::Transfer, false, false),
    ] {
        let own = ProducerOptions { terms: terms(), ..ProducerOptions::new(1) };
        let mut world = World::with(super::ConsumerOptions { notices, ..options() }, own);
        let said: Log = Log::default();
        let log = said.clone();
        *world.tap.copies.borrow_mut() = Box::new(move |message: &Message| {
            log.borrow_mut().push(message.name());
            1
        });
        world.d.node.lasts.set(Some(20));
        world.begin(1);
        world.pass(10);
        world.tap.cut.set(cut);
        world.pass(40);
        assert_eq!(world.engine.freed, [(1001, READ)]);
        assert_eq!(said.borrow().contains(&"notice"), over_control, "{notices:?}");
        assert_eq!(said.borrow().iter().filter(|name| **name == "ask").count(), 1);
    }
}

#[test]
fn a_d_that_leaves_has_said_all_when_p_has_closed_the_connection() {
    let mut world = World::with(
        super::ConsumerOptions { notices: Notices::Control, ..options() },
        ProducerOptions { terms: terms(), ..ProducerOptions::new(1) },
    );
    world.begin(1);
    while world.end(1).is_none() {
        world.pass(1);
    }
    let consumer = world.consumer.as_mut().unwrap();
    assert!(!consumer.is_left());
    consumer.close();
    assert!(!consumer.is_left());
    world.pass(3);
    assert!(world.consumer.as_ref().unwrap().is_left());
    assert_eq!(world.engine.freed, [(1001, READ)]);
    assert_eq!(world.producer.as_ref().unwrap().connections(), 0);
    assert_eq!(world.producer.as_ref().unwrap().counters().0.misbehaved, 0);
}

#[test]
fn a_p_that_is_stopped_ends_when_it_holds_nothing() {
    let mut world = World::new();
    world.d.node.lasts.set(Some(100));
    world.begin(1);
    world.pass(20);
    world.producer.as_mut().unwrap().stop();
    world.begin(2);
    world.pass(20);
    let Some(End::Failed { why, .. }) = world.end(2) else { panic!("{:?}", world.end(2)) };
    assert_eq!(why.to_string(), "the producer refuses: this producer is shutting down");
    assert!(!world.producer.as_ref().unwrap().is_finished());
    world.pass(100);
    assert_eq!(world.end(1), Some(End::Landed { awaited: true, filled: true }));
    assert!(world.producer.as_ref().unwrap().is_finished());
    assert_eq!(world.engine.freed, [(1001, READ)]);
}
