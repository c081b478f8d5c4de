//! Events that a lifecycle refuses: why, in words that are so, and without any change. And which are worth asking again.

use pagelift_planner::error::{LifecycleError, Resource};
use pagelift_planner::import::{Policy, Recurrence};
use pagelift_planner::lifecycle::*;
use pagelift_planner::quantity::Tokens;

use crate::requests::{RANKS, admit, answer, lifted, options, step};

/// What an event is refused for; nothing has changed then.
fn refusal(lifecycle: &mut Lifecycle, event: &Event<'_>) -> LifecycleError {
    let before = lifecycle.clone();
    let error = lifecycle.apply(event).unwrap_err();
    assert_eq!(*lifecycle, before, "{error}");
    assert_eq!(lifecycle.effects(), []);
    error
}

fn prompt(tokens: u64) -> Event<'static> {
    let (prompt, policy) = (Tokens::new(tokens), Policy::LiftTail);
    Event::Admit(Admission { prompt, policy, producer: true, hashes: [].as_slice().into() })
}

#[test]
fn options_have_limits() {
    let wrong = [
        (LifecycleOptions { ranks: 0, ..options() }, "the number of ranks is 0; expected 1 to 64"),
        (LifecycleOptions { ranks: 65, ..options() }, "the number of ranks is 65; expected 1 to 64"),
        (
            LifecycleOptions { block_tokens: 0, ..options() },
            "the number of tokens of a block is 0; expected 1 to 4294967295",
        ),
        (
            LifecycleOptions { requests: LifecycleOptions::MOST_REQUESTS + 1, ..options() },
            "the number of requests is 1048577; expected 0 to 1048576",
        ),
        (
            LifecycleOptions { blocks: 2_000_000_000, ..options() },
            "the number of host blocks is 2000000000; expected 0 to 67108864",
        ),
        (
            LifecycleOptions { pages: LifecycleOptions::MOST_PAGES + 1, ..options() },
            "the number of pages is 67108865; expected 0 to 67108864",
        ),
        (
            LifecycleOptions { draft_lag: 3, ..options() },
            "the number of steps after which drafts are final is 3; expected 0 to 2",
        ),
        (
            LifecycleOptions { writers: Ranks::NONE, ..options() },
            "the writers are no ranks; expected one or more of the ranks 0 to 1",
        ),
        (
            LifecycleOptions { writers: Ranks::first(3), ..options() },
            "the writers are ranks 0, 1, 2; expected one or more of the ranks 0 to 1",
        ),
    ];
    for (options, message) in wrong {
        let error = Lifecycle::new(options).unwrap_err();
        assert_eq!((error.to_string().as_str(), error.is_transient()), (message, false));
    }
}

#[test]
fn what_there_is_no_room_for_now_may_be_asked_again() {
    let mut lifecycle = Lifecycle::new(LifecycleOptions { requests: 2, pages: 1, ..options() }).unwrap();
    let request = lifted(&mut lifecycle, 4, &[]);
    let error = refusal(&mut lifecycle, &prompt(4));
    assert_eq!(error, LifecycleError::NoRoom { of: Resource::Pages, needed: 1, free: 0 });
    assert!(error.is_transient());
    let words =
        "too few pages are free: 1 needed, 0 free; wait until some are released, or preempt a request";
    assert_eq!(error.to_string(), words);
    // As the error says.
    lifecycle.apply(&Event::Preempt { request }).unwrap();
    answer(&mut lifecycle, request);
    admit(&mut lifecycle, 4, &[]);
    let error = refusal(&mut lifecycle, &prompt(4));
    assert_eq!(error, LifecycleError::NoRoom { of: Resource::Requests, needed: 1, free: 0 });
    assert!(error.to_string().ends_with("wait until requests have ended"), "{error}");
}

#[test]
fn what_will_never_fit_may_not() {
    let mut lifecycle = Lifecycle::new(options()).unwrap();
    let error = refusal(&mut lifecycle, &prompt(17));
    assert_eq!(error, LifecycleError::TooLarge { of: Resource::HostBlocks, needed: 5, most: 4 });
    assert!(!error.is_transient());
    let request = lifted(&mut lifecycle, 16, &[]);
    step(&mut lifecycle, request, 1, 1);
    let error = refusal(&mut lifecycle, &Event::Begin { request, tokens: 1 });
    assert_eq!(error, LifecycleError::TooLarge { of: Resource::HostBlocks, needed: 5, most: 4 });
    let mut lifecycle = Lifecycle::new(LifecycleOptions { pages: 0, ..options() }).unwrap();
    let error = refusal(&mut lifecycle, &prompt(4));
    assert_eq!(error, LifecycleError::TooLarge { of: Resource::Pages, needed: 1, most: 0 });
}

/// Pages that are a request's own are so many.
#[test]
fn what_is_longer_than_its_pages_is_refused_before_any_rank_hears_of_it() {
    let limits = FrameLimits { positions: 2, ..FrameLimits::default() };
    let mut lifecycle = Lifecycle::new(LifecycleOptions { limits, ..options() }).unwrap();
    let long = LifecycleError::TooLarge { of: Resource::HostBlocks, needed: 3, most: 2 };
    assert_eq!(refusal(&mut lifecycle, &prompt(9)), long);
    assert!(long.to_string().contains("can have 2 at most"), "{long}");
    let request = lifted(&mut lifecycle, 8, &[]);
    step(&mut lifecycle, request, 1, 1);
    assert_eq!(refusal(&mut lifecycle, &Event::Begin { request, tokens: 1 }), long);
}

#[test]
fn a_host_that_is_too_far_ahead_waits_for_its_ranks() {
    let mut lifecycle = Lifecycle::new(options()).unwrap();
    let request = lifted(&mut lifecycle, 4, &[]);
    let most = LifecycleOptions::MOST_AHEAD;
    for _ in 0..most {
        lifecycle.apply(&Event::Begin { request, tokens: 1 }).unwrap();
    }
    let error = refusal(&mut lifecycle, &Event::Begin { request, tokens: 1 });
    assert_eq!(error, LifecycleError::TooFarAhead { request, ahead: most, most });
    assert!(error.is_transient());
    // To be accepted is not enough: every rank has to have finished it.
    lifecycle.apply(&Event::Accept { request, step: 1, tokens: 1 }).unwrap();
    for rank in RANKS {
        let error = refusal(&mut lifecycle, &Event::Begin { request, tokens: 1 });
        assert_eq!(error, LifecycleError::TooFarAhead { request, ahead: most, most });
        lifecycle.apply(&Event::Mirrored { request, rank, step: 1 }).unwrap();
    }
    lifecycle.apply(&Event::Begin { request, tokens: 1 }).unwrap();
}

#[test]
fn a_state_is_waited_for_and_a_step_past_it_is_never_taken() {
    let options = LifecycleOptions { recurrence: Recurrence::State, ..options() };
    let mut lifecycle = Lifecycle::new(options).unwrap();
    // Token 5 is computed next, and 7 ends the page.
    let request = lifted(&mut lifecycle, 6, &[]);
    let error = refusal(&mut lifecycle, &Event::Begin { request, tokens: 4 });
    assert!(matches!(error, LifecycleError::Range { found: 4, least: 1, most: 3, .. }), "{error:?}");
    assert!(!error.is_transient());
    lifecycle.apply(&Event::Begin { request, tokens: 3 }).unwrap();
    let error = refusal(&mut lifecycle, &Event::Begin { request, tokens: 1 });
    assert_eq!(error, LifecycleError::StatePending { request, open: 1 });
    assert!(error.is_transient());
    lifecycle.apply(&Event::Accept { request, step: 1, tokens: 3 }).unwrap();
    lifecycle.apply(&Event::Begin { request, tokens: 1 }).unwrap();
}

/// Steps that are not mirrored yet say nothing of how far the open ones reach.
#[test]
fn a_state_is_waited_for_behind_steps_that_are_not_mirrored_too() {
    let options = LifecycleOptions { recurrence: Recurrence::State, ..options() };
    let mut lifecycle = Lifecycle::new(options).unwrap();
    let request = lifted(&mut lifecycle, 5, &[]);
    // Accepted, and not mirrored; the second of the next one's two tokens may be rejected.
    step(&mut lifecycle, request, 1, 1);
    lifecycle.apply(&Event::Begin { request, tokens: 2 }).unwrap();
    let error = refusal(&mut lifecycle, &Event::Begin { request, tokens: 1 });
    assert_eq!(error, LifecycleError::StatePending { request, open: 1 });
}

#[test]
fn a_request_is_preempted_when_its_steps_are_accepted() {
    let mut lifecycle = Lifecycle::new(options()).unwrap();
    let request = lifted(&mut lifecycle, 6, &[]);
    lifecycle.apply(&Event::Begin { request, tokens: 1 }).unwrap();
    let error = refusal(&mut lifecycle, &Event::Preempt { request });
    assert_eq!(error, LifecycleError::StepsOpen { request, open: 1 });
    assert!(error.is_transient());
    lifecycle.apply(&Event::Accept { request, step: 1, tokens: 1 }).unwrap();
    lifecycle.apply(&Event::Preempt { request }).unwrap();
}

#[test]
fn steps_are_accepted_in_order() {
    let mut lifecycle = Lifecycle::new(options()).unwrap();
    let request = lifted(&mut lifecycle, 4, &[]);
    step(&mut lifecycle, request, 1, 1);
    lifecycle.apply(&Event::Begin { request, tokens: 1 }).unwrap();
    for wrong in [0, 1, 3] {
        let error = refusal(&mut lifecycle, &Event::Accept { request, step: wrong, tokens: 1 });
        assert_eq!(error, LifecycleError::OutOfOrder { request, step: wrong, next: 2, begun: 2 });
    }
    let error = refusal(&mut lifecycle, &Event::Accept { request, step: 2, tokens: 2 });
    assert!(matches!(error, LifecycleError::Range { found: 2, least: 1, most: 1, .. }), "{error:?}");
    lifecycle.apply(&Event::Accept { request, step: 2, tokens: 1 }).unwrap();
}

#[test]
fn reads_are_those_that_were_posted() {
    let mut lifecycle = Lifecycle::new(options()).unwrap();
    let request = admit(&mut lifecycle, 6, &[]);
    let read = |rank, part| Event::Read { request, rank, part, read: Read::Landed };
    let unknown = |rank, part| LifecycleError::UnknownRead { request, rank, part };
    assert_eq!(refusal(&mut lifecycle, &read(RANKS[0], 0)), unknown(RANKS[0], 0), "before they were posted");

    let posted = |ranks, each| Event::Posted { request, ranks, each };
    let (rank, ranks) = (Rank::new(2), 2);
    let error = refusal(&mut lifecycle, &posted(Ranks::first(4), 1));
    assert_eq!(error, LifecycleError::UnknownRank { rank, ranks });
    assert_eq!(error.to_string(), "rank 2 is not known: the engine has ranks 0 to 1");
    let error = refusal(&mut lifecycle, &posted(Ranks::first(2), 65));
    let most = Event::MOST_READS.into();
    assert_eq!(error, LifecycleError::Range { what: "the number of reads", found: 130, least: 0, most });

    lifecycle.apply(&posted(Ranks::one(RANKS[1]), 2)).unwrap();
    for (rank, part) in [(RANKS[0], 0), (RANKS[1], 2)] {
        assert_eq!(refusal(&mut lifecycle, &read(rank, part)), unknown(rank, part));
    }
    let words = format!("{request} is being received: it cannot begin a step");
    assert_eq!(refusal(&mut lifecycle, &Event::Begin { request, tokens: 1 }).to_string(), words);
}

#[test]
fn positions_have_32_bits() {
    let mut lifecycle = Lifecycle::new(LifecycleOptions { block_tokens: 1, ..options() }).unwrap();
    let request = lifted(&mut lifecycle, 4, &[]);
    let error = refusal(&mut lifecycle, &Event::Begin { request, tokens: u32::MAX });
    let what = "the end of what the request may compute, in tokens,";
    let (found, most) = (u64::from(u32::MAX) + 3, u32::MAX.into());
    assert_eq!(error, LifecycleError::Range { what, found, least: 1, most });
}

#[test]
fn ranks_that_are_lost_are_waited_for_and_one_that_was_not_is_a_duplicate() {
    let mut lifecycle = Lifecycle::new(options()).unwrap();
    let rank = RANKS[1];
    lifecycle.apply(&Event::RankJoined { rank }).unwrap();
    assert_eq!(lifecycle.counters().duplicate, 1);
    lifecycle.apply(&Event::RankLost { rank }).unwrap();
    let error = refusal(&mut lifecycle, &prompt(4));
    assert_eq!(error, LifecycleError::RanksLost { lost: 1 });
    assert!(error.is_transient());
    lifecycle.apply(&Event::RankJoined { rank }).unwrap();
    admit(&mut lifecycle, 4, &[]);
    assert_eq!(lifecycle.counters().duplicate, 1);
}
