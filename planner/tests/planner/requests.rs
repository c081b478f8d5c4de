//! Requests of a small engine, by events alone: two ranks, blocks of four tokens.

use pagelift_planner::import::{Policy, Recurrence};
use pagelift_planner::lifecycle::*;
use pagelift_planner::quantity::Tokens;

pub const RANKS: [Rank; 2] = [Rank::new(0), Rank::new(1)];

pub fn options() -> LifecycleOptions {
    LifecycleOptions {
        ranks: 2,
        writers: Ranks::first(2),
        block_tokens: 4,
        recurrence: Recurrence::None,
        requests: 1,
        blocks: 4,
        pages: 4,
        keep: 0,
        draft_lag: 0,
        retries: 0,
        limits: FrameLimits::default(),
    }
}

pub fn hash(number: u128) -> ContentHash {
    ContentHash::new(number)
}

pub fn admit(lifecycle: &mut Lifecycle, prompt: u64, hashes: &[ContentHash]) -> RequestId {
    let (prompt, policy) = (Tokens::new(prompt), Policy::LiftTail);
    let admission = Admission { prompt, policy, producer: true, hashes: hashes.into() };
    let effects = lifecycle.apply(&Event::Admit(admission)).unwrap();
    let Some(Effect::Admitted { request, .. }) = effects.first() else { panic!("{effects:?}") };
    *request
}

pub fn answer(lifecycle: &mut Lifecycle, request: RequestId) {
    let round = lifecycle.request(request).unwrap().round();
    for rank in RANKS {
        let answer = Event::Answer { request, round, rank, answer: Answer::Done };
        lifecycle.apply(&answer).unwrap();
    }
}

/// A prompt without reads, lifted by both ranks.
pub fn lifted(lifecycle: &mut Lifecycle, prompt: u64, hashes: &[ContentHash]) -> RequestId {
    let request = admit(lifecycle, prompt, hashes);
    lifecycle.apply(&Event::Posted { request, ranks: Ranks::NONE, each: 0 }).unwrap();
    answer(lifecycle, request);
    request
}

pub fn step(lifecycle: &mut Lifecycle, request: RequestId, tokens: u32, accepted: u32) {
    lifecycle.apply(&Event::Begin { request, tokens }).unwrap();
    let step = lifecycle.request(request).unwrap().begun();
    lifecycle.apply(&Event::Accept { request, step, tokens: accepted }).unwrap();
}
