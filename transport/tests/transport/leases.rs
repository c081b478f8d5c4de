//! P's leases: who holds what, and who is refused.

use std::time::Duration;

use pagelift_transport::error::LeaseError;
use pagelift_transport::lease::{Exports, Holding, Moment, RankEnd, Terms};
use pagelift_transport::notice::{ExportId, Notice, ReadOutcome};

fn at(seconds: u64) -> Moment {
    Moment::new(Duration::from_secs(seconds))
}

fn exports() -> Exports<&'static str> {
    Exports::new(7, Terms::default(), 2).unwrap()
}

fn read(export: ExportId, rank: u32) -> Notice {
    Notice { export, rank, outcome: ReadOutcome::Read }
}

#[test]
fn each_rank_is_counted_once_and_blocks_are_free_after_the_last() {
    let mut exports = exports();
    let export = exports.grant(at(0), 0..3, "blocks").unwrap();
    for rank in [0, 2, 0, 0, 2] {
        exports.notice(at(1), &read(export, rank)).unwrap();
        assert!(exports.ended(at(1)).is_none());
    }
    assert_eq!(exports.counters().duplicate, 3);
    exports.notice(at(1), &Notice { outcome: ReadOutcome::Cancelled, ..read(export, 1) }).unwrap();
    let ended = exports.ended(at(1)).unwrap();
    let heard = RankEnd::Heard;
    assert_eq!(ended.blocks, "blocks");
    assert_eq!(
        ended.ranks,
        [heard(ReadOutcome::Read), heard(ReadOutcome::Cancelled), heard(ReadOutcome::Read)]
    );
    assert!(exports.is_empty() && exports.ended(at(1)).is_none());
}

#[test]
fn what_is_not_held_is_refused_and_counted() {
    let mut exports = exports();
    let export = exports.grant(at(0), 0..1, "blocks").unwrap();
    let others = [
        (ExportId { incarnation: 8, ..export }, 0),
        (ExportId { number: 1, ..export }, 0),
        (export, 1),
        (export, u32::MAX),
    ];
    for (export, rank) in others {
        let refused = Err(LeaseError::NotHeld { export, rank });
        assert_eq!(exports.heartbeat(at(1), export, rank), refused);
        assert_eq!(exports.notice(at(1), &read(export, rank)), refused);
        exports.gone(export, rank);
    }
    assert_eq!((exports.counters().unknown, exports.len()), (8, 1));
}

#[test]
fn case_23_a_late_heartbeat_does_not_bring_a_lease_back() {
    let mut exports = exports();
    let export = exports.grant(at(0), 0..2, "blocks").unwrap();
    exports.heartbeat(at(29), export, 0).unwrap();
    // Rank 1 was silent; that rank 0 still holds the blocks does not help it.
    assert_eq!(exports.heartbeat(at(30), export, 1), Err(LeaseError::NotHeld { export, rank: 1 }));
    assert_eq!(exports.notice(at(30), &read(export, 1)), Err(LeaseError::NotHeld { export, rank: 1 }));
    assert!(exports.ended(at(58)).is_none());
    assert_eq!(exports.ended(at(59)).unwrap().ranks, [RankEnd::Expired; 2]);
}

#[test]
fn a_rank_that_is_known_to_be_gone_is_not_waited_for() {
    let mut exports = exports();
    let export = exports.grant(at(0), 0..2, "blocks").unwrap();
    exports.gone(export, 1);
    assert!(exports.ended(at(1)).is_none());
    exports.gone(export, 0);
    assert_eq!(exports.ended(at(1)).unwrap().ranks, [RankEnd::Gone; 2]);
}

#[test]
fn numbers_have_limits() {
    let mut exports = exports();
    assert!(matches!(exports.grant(at(0), 0..0, "a"), Err(LeaseError::Ranks { found: 0, .. })));
    assert!(matches!(exports.grant(at(0), 0..1025, "a"), Err(LeaseError::Ranks { most: 1024, .. })));
    exports.grant(at(0), 0..1, "a").unwrap();
    exports.grant(at(0), 0..1, "b").unwrap();
    assert_eq!(exports.grant(at(0), 0..1, "c"), Err(LeaseError::Full { most: 2 }));
    // The end of time is no overflow.
    let end = Moment::new(Duration::MAX);
    assert!(exports.ended(end).is_some() && exports.ended(end).is_some());
    exports.grant(end, 0..1, "d").unwrap();
}

#[test]
fn terms_leave_room_for_a_heartbeat_that_is_lost() {
    let seconds = Duration::from_secs;
    let terms = |lease, heartbeat, margin| Terms {
        lease: seconds(lease),
        heartbeat: seconds(heartbeat),
        margin: seconds(margin),
    };
    for sound in [Terms::default(), terms(11, 5, 1), terms(2, 1, 0)] {
        assert!(sound.are_sound());
    }
    for terms in [terms(10, 5, 1), terms(10, 0, 1), terms(0, 0, 0), terms(1, u64::MAX, 0)] {
        assert_eq!(Exports::<()>::new(1, terms, 1).unwrap_err(), LeaseError::Terms { terms });
    }
}

#[test]
fn the_consumer_never_believes_for_longer_than_the_producer_holds() {
    // Whatever the ways of messages take: asked at 100, granted later, and heartbeats heard later than sent.
    for delay in 0..10 {
        let mut exports = exports();
        let export = exports.grant(at(100 + delay), 0..1, "blocks").unwrap();
        let mut lease = Holding::new(Terms::default(), at(100));
        for second in 100..400 {
            if lease.is_due(at(second)) && second < 200 {
                exports.heartbeat(at(second + delay), export, 0).unwrap();
                lease.acknowledged(at(second));
            }
            let freed = exports.ended(at(second)).is_some();
            assert!(!(freed && lease.lasts(at(second))), "freed at {second}");
            if freed {
                break;
            }
        }
        assert!(exports.is_empty());
        assert!(!lease.lasts(at(400)));
        // An answer to a heartbeat that was never sent counts for nothing.
        lease.acknowledged(at(10_000));
        assert!(!lease.lasts(at(400)));
    }
}
