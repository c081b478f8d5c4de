//! Guards of the lifecycle whose absence no small world notices, each with a test that does. `docs/testing.md` lists all that
//! were taken out, one at a time, and says which nothing misses.

use pagelift_planner::error::{LifecycleError, Resource};
use pagelift_planner::import::{Arrival, Policy, Recurrence};
use pagelift_planner::lifecycle::*;
use pagelift_planner::quantity::Tokens;

use crate::requests::{RANKS, admit, answer, hash, lifted, options, step};

#[test]
fn messages_of_a_request_that_is_over_are_not_another_ones() {
    let mut lifecycle = Lifecycle::new(options()).unwrap();
    let first = lifted(&mut lifecycle, 6, &[]);
    lifecycle.apply(&Event::Finish { request: first }).unwrap();
    answer(&mut lifecycle, first);
    let second = admit(&mut lifecycle, 6, &[]);
    assert_eq!(first.slot(), second.slot());
    let before = lifecycle.clone();
    let late = Event::Answer { request: first, round: 1, rank: RANKS[0], answer: Answer::Done };
    assert_eq!(lifecycle.apply(&late), Err(LifecycleError::UnknownRequest { request: first }));
    assert_eq!(lifecycle, before);
}

#[test]
fn case_14_of_what_is_given_up_nothing_more_is_published() {
    for (end, found) in [(true, true), (false, false)] {
        let mut lifecycle = Lifecycle::new(options()).unwrap();
        let request = lifted(&mut lifecycle, 4, &[hash(7)]);
        // Its last token is replayed, and ranks have not said that the row is safe: their stop does.
        step(&mut lifecycle, request, 1, 1);
        assert_eq!(lifecycle.find(hash(7)), None);
        lifecycle.apply(&if end { Event::Finish { request } } else { Event::Abort { request } }).unwrap();
        answer(&mut lifecycle, request);
        assert_eq!(lifecycle.find(hash(7)).is_some(), found, "finished: {end}");
    }
}

#[test]
fn a_read_that_was_lost_is_missed_even_if_its_rank_is_there_again() {
    let mut lifecycle = Lifecycle::new(options()).unwrap();
    let request = admit(&mut lifecycle, 6, &[]);
    lifecycle.apply(&Event::Posted { request, ranks: Ranks::first(2), each: 1 }).unwrap();
    lifecycle.apply(&Event::RankLost { rank: RANKS[1] }).unwrap();
    lifecycle.apply(&Event::RankJoined { rank: RANKS[1] }).unwrap();
    let read = Event::Read { request, rank: RANKS[0], part: 0, read: Read::Landed };
    let effects = lifecycle.apply(&read).unwrap();
    let (outcome, valid) = (Outcome::Failed, Tokens::ZERO);
    assert_eq!(effects.last(), Some(&Effect::Ended { request, outcome, valid }));
}

#[test]
fn a_preempted_request_keeps_no_block_that_only_rejected_drafts_had_reached() {
    let mut lifecycle = Lifecycle::new(options()).unwrap();
    let request = lifted(&mut lifecycle, 4, &[]);
    // Tokens 3 to 7, of which one is accepted.
    step(&mut lifecycle, request, 5, 1);
    assert_eq!(lifecycle.request(request).unwrap().blocks().len(), 2);
    lifecycle.apply(&Event::Preempt { request }).unwrap();
    answer(&mut lifecycle, request);
    assert_eq!(lifecycle.request(request).unwrap().blocks().len(), 1);
    assert_eq!(lifecycle.free_blocks(), 3);
}

#[test]
fn a_step_without_blocks_or_pages_takes_nothing() {
    for (blocks, pages, of) in [(2, 4, Resource::HostBlocks), (4, 2, Resource::Pages)] {
        let options = LifecycleOptions { requests: 2, blocks, pages, ..options() };
        let mut lifecycle = Lifecycle::new(options).unwrap();
        let [request, _] = [(); 2].map(|()| lifted(&mut lifecycle, 4, &[]));
        let before = lifecycle.clone();
        let error = lifecycle.apply(&Event::Begin { request, tokens: 2 }).map(<[_]>::len);
        assert_eq!(error, Err(LifecycleError::NoRoom { of, needed: 1, free: 0 }));
        assert_eq!(lifecycle, before);
    }
}

/// A state at a page's end has to be written before anything is computed after it.
#[test]
fn with_states_no_step_goes_past_a_page_that_may_end() {
    let options = LifecycleOptions { recurrence: Recurrence::State, ..options() };
    // 5 of 6 tokens were imported: 5 is computed next, and 7 ends the page.
    let begun = |tokens: &[u32]| -> Vec<bool> {
        let mut lifecycle = Lifecycle::new(options).unwrap();
        let request = lifted(&mut lifecycle, 6, &[]);
        let begin = |tokens: &u32| lifecycle.apply(&Event::Begin { request, tokens: *tokens }).is_ok();
        tokens.iter().map(begin).collect()
    };
    assert_eq!(begun(&[3]), [true], "up to the page's end");
    assert_eq!(begun(&[4]), [false], "past it");
    assert_eq!(begun(&[1, 1, 1, 1]), [true, true, true, false], "the state at its end is not written");
    assert_eq!(begun(&[2, 1]), [true, false], "where the second step begins is not known");
    assert_eq!(begun(&[1, 2]), [true, false], "how far drafts go is not known");
}

#[test]
fn a_request_is_preempted_when_all_ranks_have_written_what_they_have_and_fails_otherwise() {
    let mut lifecycle = Lifecycle::new(options()).unwrap();
    let request = lifted(&mut lifecycle, 6, &[]);
    lifecycle.apply(&Event::Preempt { request }).unwrap();
    let round = lifecycle.request(request).unwrap().round();
    for (rank, answer) in RANKS.into_iter().zip([Answer::Done, Answer::Failed]) {
        lifecycle.apply(&Event::Answer { request, round, rank, answer }).unwrap();
    }
    assert!(lifecycle.request(request).is_none());
    let counters = lifecycle.counters();
    assert_eq!((counters.failed, counters.preempted), (1, 0));
}

#[test]
fn case_17_nothing_is_resumed_while_a_rank_is_lost() {
    let mut lifecycle = Lifecycle::new(options()).unwrap();
    let request = lifted(&mut lifecycle, 6, &[]);
    lifecycle.apply(&Event::Preempt { request }).unwrap();
    answer(&mut lifecycle, request);
    lifecycle.apply(&Event::RankLost { rank: RANKS[1] }).unwrap();
    let resume = Event::Resume { request, behind: 0 };
    assert_eq!(lifecycle.apply(&resume).unwrap_err(), LifecycleError::RanksLost { lost: 1 });
    lifecycle.apply(&Event::RankJoined { rank: RANKS[1] }).unwrap();
    lifecycle.apply(&resume).unwrap();
    assert_eq!(lifecycle.request(request).unwrap().stage(), Stage::Lifting);
}

/// A block that an import brought has no state at its end, but the last one.
#[test]
fn a_state_is_written_into_a_block_of_its_own_and_nothing_resumes_where_there_is_none() {
    let options = LifecycleOptions { recurrence: Recurrence::State, requests: 3, blocks: 8, ..options() };
    let mut lifecycle = Lifecycle::new(options).unwrap();
    lifted(&mut lifecycle, 6, &[hash(7)]);
    let published = lifecycle.find(hash(7)).unwrap();
    // All blocks of these 5 tokens are there, but their state, of 4 tokens, comes from the producer.
    let brought = admit(&mut lifecycle, 5, &[hash(7)]);
    let brought = lifecycle.request(brought).unwrap();
    assert_eq!(brought.found(), 0);
    assert!(!brought.blocks().contains(&published));
    // And without a producer all is computed again.
    let prompt = Tokens::new(6);
    let hashes = [hash(7)];
    let admission =
        Admission { prompt, policy: Policy::LiftTail, producer: false, hashes: hashes[..].into() };
    let effects = lifecycle.apply(&Event::Admit(admission)).unwrap();
    let Some(&Effect::Admitted { request, .. }) = effects.first() else { panic!("{effects:?}") };
    let alone = lifecycle.request(request).unwrap();
    assert_eq!((alone.found(), alone.span().resume_at()), (0, Tokens::ZERO));
}

/// What a state was before later steps cannot be had any more.
#[test]
fn a_checkpoint_that_comes_too_late_has_failed() {
    let mut lifecycle = Lifecycle::new(options()).unwrap();
    let request = admit(&mut lifecycle, 6, &[]);
    let mut worker = Worker::new(RANKS[0], 1).unwrap();
    let run = |worker: &mut Worker, lane, ticket, settled| {
        worker.draft(lane);
        worker.staged(lane, ticket);
        worker.settle(lane, ticket, settled);
        worker.say().collect::<Vec<_>>()
    };
    worker.hear(&Effect::Lift { request, round: 1 });
    let (round, rank) = (1, RANKS[0]);
    let done = Event::Answer { request, round, rank, answer: Answer::Done };
    assert_eq!(run(&mut worker, Lane::Lift, 1, Settled::Done), [done]);
    worker.begin(request, 0, 0, 0);
    let mirrored = Event::Mirrored { request, rank, step: 0 };
    assert_eq!(run(&mut worker, Lane::Mirror, 1, Settled::Done), [mirrored]);
    worker.hear(&Effect::Checkpoint { request, position: 0 });
    worker.draft(Lane::WriteBack);
    worker.staged(Lane::WriteBack, 1);
    worker.begin(request, 1, 1, 1);
    worker.settle(Lane::WriteBack, 1, Settled::Superseded);
    assert_eq!(worker.next(Lane::WriteBack), None, "it is not asked for again");
    assert_eq!(worker.say().collect::<Vec<_>>(), [Event::Broken { request, rank }]);
    // Nothing is said to be safe after it, and the rank's stop has failed.
    assert_eq!(run(&mut worker, Lane::Mirror, 2, Settled::Done), []);
    worker.hear(&Effect::Stop { request, round: 2 });
    let failed = Event::Answer { request, round: 2, rank, answer: Answer::Failed };
    assert_eq!(worker.say().collect::<Vec<_>>(), [failed]);
}

/// Where some group's rows are not all in host blocks, nobody finds a block; where some are on the device alone, a lost rank takes
/// them with it.
#[test]
fn what_host_blocks_do_not_give_back_nobody_finds() {
    for (restores, found, survives) in
        [(Restores::Prefixes, 1, true), (Restores::Requests, 0, true), (Restores::Nothing, 0, false)]
    {
        let limits = FrameLimits { restores, ..FrameLimits::default() };
        let mut lifecycle =
            Lifecycle::new(LifecycleOptions { requests: 2, blocks: 8, limits, ..options() }).unwrap();
        let first = lifted(&mut lifecycle, 6, &[hash(7)]);
        assert_eq!(lifecycle.find(hash(7)).is_some(), found > 0, "{restores:?}");
        let second = admit(&mut lifecycle, 6, &[hash(7)]);
        assert_eq!(lifecycle.request(second).unwrap().found(), found, "{restores:?}");
        lifecycle.apply(&Event::Preempt { request: first }).unwrap();
        answer(&mut lifecycle, first);
        let effects = lifecycle.apply(&Event::RankLost { rank: RANKS[1] }).unwrap();
        let failed = effects.iter().any(|effect| {
            matches!(effect, Effect::Ended { request, outcome: Outcome::Failed, .. } if *request == first)
        });
        assert_eq!(failed, !survives, "{restores:?}");
        assert_eq!(lifecycle.request(first).is_some(), survives, "{restores:?}");
    }
}

/// A group that is whole on the device has none of the pages of what was found.
#[test]
fn an_import_that_found_its_first_blocks_lands_in_host_blocks() {
    let mut lifecycle =
        Lifecycle::new(LifecycleOptions { requests: 3, blocks: 12, pages: 8, ..options() }).unwrap();
    let arrival = |lifecycle: &mut Lifecycle| {
        let (prompt, policy, hashes) = (Tokens::new(10), Policy::LandOnDevice, [hash(7), hash(8)]);
        let admission = Admission { prompt, policy, producer: true, hashes: hashes[..].into() };
        let effects = lifecycle.apply(&Event::Admit(admission)).unwrap();
        let Some(&Effect::Admitted { found, arrival, .. }) = effects.first() else { panic!("{effects:?}") };
        (found, arrival)
    };
    assert_eq!(arrival(&mut lifecycle), (0, Arrival::Device));
    lifted(&mut lifecycle, 6, &[hash(7)]);
    assert_eq!(arrival(&mut lifecycle), (1, Arrival::HostThenLift));
}

/// What a rank could not write back it says once, and the request fails: otherwise its steps would wait for ever.
#[test]
fn what_cannot_be_written_back_ends_its_request() {
    let mut lifecycle = Lifecycle::new(options()).unwrap();
    let request = lifted(&mut lifecycle, 6, &[]);
    let (mut worker, rank) = (Worker::new(RANKS[0], 1).unwrap(), RANKS[0]);
    worker.hear(&Effect::Lift { request, round: 1 });
    for lane in [Lane::Lift, Lane::Mirror, Lane::Mirror] {
        if lane == Lane::Mirror {
            lifecycle.apply(&Event::Begin { request, tokens: 1 }).unwrap();
            let step = lifecycle.request(request).unwrap().begun();
            worker.begin(request, step, 1, 1);
            lifecycle.apply(&Event::Accept { request, step, tokens: 1 }).unwrap();
        }
        worker.draft(lane);
        worker.staged(lane, 1);
        worker.settle(lane, 1, if lane == Lane::Lift { Settled::Done } else { Settled::Superseded });
    }
    // Both steps' rows are written back in whole pages, or would be.
    worker.say().for_each(drop);
    for ticket in [1, 2] {
        worker.draft(Lane::WriteBack);
        worker.staged(Lane::WriteBack, ticket);
    }
    worker.settle(Lane::WriteBack, 1, Settled::Failed);
    worker.settle(Lane::WriteBack, 2, Settled::Failed);
    let said: Vec<_> = worker.say().collect();
    assert_eq!(said, [Event::Broken { request, rank }], "once");
    let all = Ranks::first(2);
    assert_eq!(lifecycle.request(request).unwrap().unsettled(), all);
    let effects = lifecycle.apply(&said[0]).unwrap().to_vec();
    assert_eq!(effects, [Effect::Stop { request, round: 2 }]);
    // The other rank says the same, too late.
    lifecycle.apply(&Event::Broken { request, rank: RANKS[1] }).unwrap();
    for (rank, answer) in [(RANKS[0], Answer::Failed), (RANKS[1], Answer::Done)] {
        lifecycle.apply(&Event::Answer { request, round: 2, rank, answer }).unwrap();
    }
    assert!(lifecycle.request(request).is_none());
    let counters = lifecycle.counters();
    assert_eq!((counters.failed, counters.late, counters.published), (1, 1, 0));
    let unknown = lifecycle.apply(&Event::Broken { request, rank });
    assert_eq!(unknown.unwrap_err(), LifecycleError::UnknownRequest { request });
}

#[test]
fn progress_never_goes_back() {
    let mut lifecycle = Lifecycle::new(options()).unwrap();
    let request = lifted(&mut lifecycle, 6, &[]);
    for _ in 0..2 {
        step(&mut lifecycle, request, 1, 1);
    }
    for rank in RANKS {
        lifecycle.apply(&Event::Mirrored { request, rank, step: 2 }).unwrap();
    }
    let durable = lifecycle.request(request).unwrap().durable();
    lifecycle.apply(&Event::Mirrored { request, rank: RANKS[0], step: 1 }).unwrap();
    assert_eq!(lifecycle.request(request).unwrap().durable(), durable);
    assert_eq!((durable, lifecycle.counters().duplicate), (Tokens::new(7), 1));
}

/// A question may come twice: nothing is done again for it, and the answer is the same.
#[test]
fn case_17_a_rank_answers_each_question_once_and_says_it_again() {
    let mut lifecycle = Lifecycle::new(options()).unwrap();
    let request = admit(&mut lifecycle, 6, &[]);
    let mut worker = Worker::new(RANKS[0], 1).unwrap();
    let question = Effect::Lift { request, round: 1 };
    worker.hear(&question);
    worker.hear(&question);
    assert_eq!(worker.waiting().collect::<Vec<_>>(), [Work::Lift { request }]);
    worker.draft(Lane::Lift);
    worker.staged(Lane::Lift, 1);
    worker.settle(Lane::Lift, 1, Settled::Done);
    let done = [Event::Answer { request, round: 1, rank: RANKS[0], answer: Answer::Done }];
    assert_eq!(worker.say().collect::<Vec<_>>(), done);
    worker.hear(&question);
    assert_eq!(worker.say().collect::<Vec<_>>(), done);
    assert_eq!(worker.waiting().count(), 0);
}

#[test]
fn a_lift_that_was_cancelled_and_never_ran_is_acknowledged() {
    let mut lifecycle = Lifecycle::new(options()).unwrap();
    let request = admit(&mut lifecycle, 6, &[]);
    let mut worker = Worker::new(RANKS[0], 1).unwrap();
    worker.hear(&Effect::Lift { request, round: 1 });
    worker.draft(Lane::Lift);
    worker.staged(Lane::Lift, 1);
    worker.hear(&Effect::Cancel { request, round: 1 });
    assert_eq!(worker.say().count(), 0, "it may be running");
    worker.settle(Lane::Lift, 1, Settled::Superseded);
    let (round, rank) = (1, RANKS[0]);
    let acknowledged = Event::Answer { request, round, rank, answer: Answer::Acknowledged };
    assert_eq!(worker.say().collect::<Vec<_>>(), [acknowledged]);
    assert_eq!(worker.waiting().count(), 0);
}

#[test]
fn a_lift_of_a_request_that_is_over_is_not_begun() {
    let mut lifecycle = Lifecycle::new(options()).unwrap();
    let over = lifted(&mut lifecycle, 6, &[]);
    lifecycle.apply(&Event::Finish { request: over }).unwrap();
    answer(&mut lifecycle, over);
    let request = admit(&mut lifecycle, 6, &[]);
    let mut worker = Worker::new(RANKS[0], 1).unwrap();
    for request in [request, over] {
        worker.hear(&Effect::Lift { request, round: 1 });
    }
    assert_eq!(worker.waiting().collect::<Vec<_>>(), [Work::Lift { request }]);
}

/// A request that reads a block by one rank.
fn receiving(lifecycle: &mut Lifecycle) -> RequestId {
    let request = admit(lifecycle, 6, &[]);
    lifecycle.apply(&Event::Posted { request, ranks: Ranks::first(1), each: 1 }).unwrap();
    request
}

#[test]
fn the_first_reason_of_an_end_stands_and_the_producer_hears_once() {
    let mut lifecycle = Lifecycle::new(options()).unwrap();
    let request = receiving(&mut lifecycle);
    lifecycle.apply(&Event::Abort { request }).unwrap();
    let read = Read::Failed { valid: Tokens::ZERO };
    let read = Event::Read { request, rank: RANKS[0], part: 0, read };
    let effects = lifecycle.apply(&read).unwrap();
    let aborted = |effect: &&Effect| matches!(effect, Effect::Ended { outcome: Outcome::Aborted, .. });
    assert_eq!(effects.iter().filter(aborted).count(), 1, "{effects:?}");
    let told = |effect: &&Effect| matches!(effect, Effect::Notify { .. });
    assert_eq!(effects.iter().filter(told).count(), 1, "{effects:?}");
}

#[test]
fn a_preemption_gives_way_to_an_end() {
    let mut lifecycle = Lifecycle::new(options()).unwrap();
    let request = lifted(&mut lifecycle, 6, &[]);
    lifecycle.apply(&Event::Preempt { request }).unwrap();
    lifecycle.apply(&Event::Abort { request }).unwrap();
    answer(&mut lifecycle, request);
    assert!(lifecycle.request(request).is_none());
    assert_eq!((lifecycle.counters().aborted, lifecycle.counters().preempted), (1, 0));
}
