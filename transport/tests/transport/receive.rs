//! Imports on one rank: who is told what, and how often.

use std::time::Duration;

use pagelift_planner::geometry::Memory;
use pagelift_planner::quantity::Tokens;
use pagelift_transport::error::{NoticeError, ReceiveError};
use pagelift_transport::lease::{Moment, Terms};
use pagelift_transport::notice::{ExportId, Notice, ReadOutcome};
use pagelift_transport::pairing::Peer;
use pagelift_transport::plan::{BlockTable, BlockTables, ReadLimits, ReadPlan};
use pagelift_transport::receive::{Ending, ReadEffect, ReadEvent, Receive, ReceiveOptions};
use proptest::prelude::*;

use crate::payload::every_kind;

const EXPORT: ExportId = ExportId { incarnation: 5, number: 9 };

fn at(seconds: u64) -> Moment {
    Moment::new(Duration::from_secs(seconds))
}

fn options() -> ReceiveOptions {
    ReceiveOptions {
        export: EXPORT,
        rank: 1,
        awaited: true,
        terms: Terms::default(),
        asked: at(0),
        timeout: Duration::from_secs(600),
    }
}

fn notice(outcome: ReadOutcome) -> ReadEffect {
    ReadEffect::Notify(Notice { export: EXPORT, rank: 1, outcome })
}

/// Main's four blocks as two reads of two, and one read of a state.
pub fn three_reads() -> ReadPlan {
    let peer = Peer::pair(&every_kind(Memory::Host), &every_kind(Memory::Device)).unwrap();
    let blocks = BlockTables::new()
        .with("main", BlockTable::from_first(&[0, 1, 2, 3]))
        .with("gdn", BlockTable::at(3, vec![Some(0)]));
    let limits = ReadLimits { most_bytes: 2 * 2 * 16 * 656, ..ReadLimits::default() };
    let plan = peer.plan(Tokens::new(60), &blocks, &blocks, limits).unwrap();
    let groups: Vec<&str> = plan.reads().iter().map(|read| &**plan.groups()[read.group()].name()).collect();
    assert_eq!(groups, ["gdn", "main", "main"]);
    plan
}

fn valid(gdn: u64, main: u64) -> Vec<(std::sync::Arc<str>, Tokens)> {
    vec![("gdn".into(), Tokens::new(gdn)), ("main".into(), Tokens::new(main))]
}

#[test]
fn case_23_all_parts_and_then_one_notice_and_one_received() {
    let (mut own, begun) = Receive::begin(&three_reads(), options(), at(0));
    assert!(begun.is_empty());
    for part in [2, 0, 2, 2, 0] {
        assert!(own.handle(at(1), ReadEvent::Landed { part }).unwrap().is_empty());
        assert!(!own.is_over());
    }
    let last = own.handle(at(1), ReadEvent::Landed { part: 1 }).unwrap();
    assert_eq!(last, [notice(ReadOutcome::Read), ReadEffect::Received, ReadEffect::Released]);
    // Whatever comes now is late.
    for event in [
        ReadEvent::Landed { part: 1 },
        ReadEvent::Failed { part: 0 },
        ReadEvent::Cancel,
        ReadEvent::Refused,
        ReadEvent::Tick,
    ] {
        assert!(own.handle(at(1000), event).unwrap().is_empty());
    }
}

#[test]
fn case_23_nothing_to_read_notifies_and_was_awaited_by_nobody() {
    let peer = Peer::pair(&every_kind(Memory::Host), &every_kind(Memory::Device)).unwrap();
    let plan =
        peer.plan(Tokens::new(20), &BlockTables::new(), &BlockTables::new(), ReadLimits::default()).unwrap();
    let (mut own, begun) = Receive::begin(&plan, options(), at(0));
    assert_eq!(begun, [notice(ReadOutcome::Read), ReadEffect::Released]);
    assert!(own.is_over());
    assert!(own.handle(at(100), ReadEvent::Tick).unwrap().is_empty());
    assert_eq!(
        own.handle(at(100), ReadEvent::Landed { part: 0 }),
        Err(ReceiveError::NoSuchPart { part: 0, parts: 0 })
    );
}

#[test]
fn an_import_that_nobody_awaits_is_not_reported() {
    let (mut own, _) = Receive::begin(&three_reads(), ReceiveOptions { awaited: false, ..options() }, at(0));
    own.handle(at(1), ReadEvent::Landed { part: 0 }).unwrap();
    own.handle(at(1), ReadEvent::Landed { part: 1 }).unwrap();
    let last = own.handle(at(1), ReadEvent::Landed { part: 2 }).unwrap();
    assert_eq!(last, [notice(ReadOutcome::Read), ReadEffect::Released]);
}

#[test]
fn a_read_that_fails_tells_what_of_each_group_is_valid() {
    // Which reads fail, and tokens that are valid: states are whole or nothing, main up to its first block that is not there.
    for (failed, gdn, main) in [(&[1][..], 60, 0), (&[2], 60, 32), (&[0], 0, 60), (&[0, 2], 0, 32)] {
        let (mut own, _) = Receive::begin(&three_reads(), options(), at(0));
        let mut effects = Vec::new();
        for part in 0..3 {
            assert!(effects.is_empty(), "nothing is said while a read may still write");
            let event = match failed.contains(&part) {
                true => ReadEvent::Failed { part },
                false => ReadEvent::Landed { part },
            };
            effects = own.handle(at(1), event).unwrap();
        }
        let told = ReadEffect::Failed { why: Ending::ReadFailed, valid: valid(gdn, main) };
        assert_eq!(effects, [notice(ReadOutcome::Failed), told, ReadEffect::Released]);
    }
}

#[test]
fn case_23_heartbeats_go_on_after_the_client_has_cancelled() {
    let (mut own, _) = Receive::begin(&three_reads(), options(), at(0));
    assert!(own.handle(at(1), ReadEvent::Cancel).unwrap().is_empty());
    for second in (5..300).step_by(5) {
        let beat = own.handle(at(second), ReadEvent::Tick).unwrap();
        assert_eq!(beat, [ReadEffect::Heartbeat { sent: at(second) }]);
        assert!(own.handle(at(second + 1), ReadEvent::Acknowledged { sent: at(second) }).unwrap().is_empty());
        assert!(own.handle(at(second + 1), ReadEvent::Tick).unwrap().is_empty());
    }
    for part in [0, 1] {
        own.handle(at(300), ReadEvent::Landed { part }).unwrap();
    }
    let last = own.handle(at(300), ReadEvent::Landed { part: 2 }).unwrap();
    let told = ReadEffect::Failed { why: Ending::Cancelled, valid: valid(60, 60) };
    assert_eq!(last, [notice(ReadOutcome::Cancelled), told, ReadEffect::Released]);
}

#[test]
fn case_23_what_lands_after_the_lease_is_not_believed() {
    // Heartbeats are sent, and no answer comes: P may have freed its blocks at 30, and D does not know when.
    let (mut own, _) = Receive::begin(&three_reads(), options(), at(0));
    own.handle(at(28), ReadEvent::Landed { part: 1 }).unwrap();
    let stop = own.handle(at(29), ReadEvent::Tick).unwrap();
    assert_eq!(stop, [ReadEffect::Stop { part: 0 }, ReadEffect::Stop { part: 2 }]);
    // A late answer does not bring it back, and nothing is told to stop twice.
    assert!(own.handle(at(30), ReadEvent::Tick).unwrap().is_empty());
    assert!(own.handle(at(30), ReadEvent::Landed { part: 0 }).unwrap().is_empty());
    let last = own.handle(at(31), ReadEvent::Failed { part: 2 }).unwrap();
    let told = ReadEffect::Failed { why: Ending::LeaseLost, valid: valid(0, 32) };
    assert_eq!(last, [notice(ReadOutcome::Failed), told, ReadEffect::Released]);
}

#[test]
fn case_23_a_read_that_lands_as_the_lease_ends_is_not_believed_without_a_tick() {
    let (mut own, _) = Receive::begin(&three_reads(), options(), at(0));
    for part in 0..3 {
        own.handle(at(29), ReadEvent::Landed { part }).unwrap();
    }
    assert!(own.is_over());
    let (mut own, _) = Receive::begin(&three_reads(), options(), at(0));
    own.handle(at(29), ReadEvent::Landed { part: 0 }).unwrap();
    own.handle(at(29), ReadEvent::Landed { part: 1 }).unwrap();
    let last = own.handle(at(29), ReadEvent::Landed { part: 2 }).unwrap();
    assert!(
        matches!(&last[1], ReadEffect::Failed { why: Ending::LeaseLost, valid } if valid[1].1.get() == 0)
    );
}

#[test]
fn case_23_a_producer_that_holds_nothing_ends_the_import() {
    let (mut own, _) = Receive::begin(&three_reads(), options(), at(0));
    let stop = own.handle(at(1), ReadEvent::Refused).unwrap();
    assert_eq!(stop, [0, 1, 2].map(|part| ReadEffect::Stop { part }));
    assert!(own.handle(at(6), ReadEvent::Tick).unwrap().is_empty(), "no heartbeat for what is not held");
}

#[test]
fn case_23_a_read_that_never_ends_is_stopped_and_awaited() {
    let timeout = Duration::from_secs(20);
    let (mut own, _) = Receive::begin(&three_reads(), ReceiveOptions { timeout, ..options() }, at(0));
    own.handle(at(1), ReadEvent::Landed { part: 0 }).unwrap();
    own.handle(at(1), ReadEvent::Landed { part: 1 }).unwrap();
    assert_eq!(own.handle(at(19), ReadEvent::Tick).unwrap(), [ReadEffect::Heartbeat { sent: at(19) }]);
    own.handle(at(19), ReadEvent::Acknowledged { sent: at(19) }).unwrap();
    assert_eq!(own.handle(at(20), ReadEvent::Tick).unwrap(), [ReadEffect::Stop { part: 2 }]);
    // It may still write: the lease is kept.
    assert_eq!(own.handle(at(24), ReadEvent::Tick).unwrap(), [ReadEffect::Heartbeat { sent: at(24) }]);
    let last = own.handle(at(25), ReadEvent::Failed { part: 2 }).unwrap();
    let told = ReadEffect::Failed { why: Ending::TimedOut, valid: valid(60, 32) };
    assert_eq!(last, [notice(ReadOutcome::Failed), told, ReadEffect::Released]);
}

proptest! {
    #[test]
    fn notices_come_back_and_nothing_else_does(
        incarnation in any::<u64>(),
        number in any::<u64>(),
        rank in any::<u32>(),
        outcome in prop_oneof![
            Just(ReadOutcome::Read), Just(ReadOutcome::Failed), Just(ReadOutcome::Cancelled)
        ],
        noise in prop::collection::vec(any::<u8>(), 0..100),
        place in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let notice = Notice { export: ExportId { incarnation, number }, rank, outcome };
        let text = notice.to_string().into_bytes();
        prop_assert!(text.len() <= Notice::MOST_BYTES);
        prop_assert_eq!(Notice::parse(&text), Ok(notice));
        prop_assert_eq!(Notice::parse(&noise), Err(NoticeError { bytes: noise.len() }));
        prop_assert!(Notice::parse(&text[..place.index(text.len())]).is_err());
        prop_assert!(Notice::parse(&[&text[..], &[byte]].concat()).is_err());
        // One byte more or less is another notice, or none: each has one spelling.
        let mut other = text.clone();
        other[place.index(text.len())] = byte;
        if let Ok(other_notice) = Notice::parse(&other) {
            prop_assert_eq!(other_notice == notice, other == text);
        }
    }
}
