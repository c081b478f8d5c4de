//! Guards of the lifecycle whose absence no small world notices, each with a test that does: of the 54 that were taken out, one
//! at a time, these are 8. `docs/testing.md` lists all, and says which were not tried.

use pagelift_planner::error::{LifecycleError, Resource};
use pagelift_planner::import::Recurrence;
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
