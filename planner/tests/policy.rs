//! What each policy imports, lifts and leaves to the decoder.
#![allow(clippy::unwrap_used, reason = "a test says what it expects by panicking")]

use pagelift_planner::import::{Arrival, Decision, Policy, Recurrence};
use pagelift_planner::quantity::Tokens;

fn decide(policy: Policy, prompt: u64, recurrence: Recurrence, block: u64, free: u32) -> Decision {
    policy.decide(Tokens::new(prompt), recurrence, Tokens::new(block), free).unwrap()
}

/// Imported tokens, resume_at, left to the decoder, pages, arrival.
fn numbers(decision: Decision) -> (u64, u64, u64, u32, Arrival) {
    let Decision { span, left, pages, arrival, .. } = decision;
    (span.imported().get(), span.resume_at().get(), left.get(), pages, arrival)
}

#[test]
fn the_tail_is_lifted_and_one_token_is_left() {
    let lift = |prompt, recurrence| numbers(decide(Policy::LiftTail, prompt, recurrence, 128, 0));
    assert_eq!(lift(32_019, Recurrence::None), (32_019, 32_018, 1, 1, Arrival::HostThenLift));
    assert_eq!(lift(32_000, Recurrence::None), (32_000, 31_999, 1, 1, Arrival::HostThenLift));
    assert_eq!(lift(32_019, Recurrence::State), (32_018, 32_018, 1, 1, Arrival::HostThenLift));
    // A hybrid prompt of whole blocks and one token has nothing to lift.
    assert_eq!(lift(32_001, Recurrence::State), (32_000, 32_000, 1, 1, Arrival::Host));
}

#[test]
fn rounding_down_leaves_the_tail_to_the_decoder() {
    let round = |prompt, recurrence| numbers(decide(Policy::RoundDown, prompt, recurrence, 128, 0));
    assert_eq!(round(32_019, Recurrence::None), (32_000, 32_000, 19, 1, Arrival::Host));
    assert_eq!(round(32_019, Recurrence::State), (32_000, 32_000, 19, 1, Arrival::Host));
    // The last token is computed in any case, so a prompt of whole blocks loses its last block.
    assert_eq!(round(32_000, Recurrence::None), (31_872, 31_872, 128, 1, Arrival::Host));
    assert_eq!(round(100, Recurrence::None), (0, 0, 100, 1, Arrival::Host));
    assert_eq!(round(1, Recurrence::State), (0, 0, 1, 1, Arrival::Host));
}

#[test]
fn landing_on_the_device_needs_all_pages_and_lifts_without_them() {
    let land = |free| numbers(decide(Policy::LandOnDevice, 32_019, Recurrence::None, 128, free));
    assert_eq!(land(251), (32_019, 32_018, 1, 251, Arrival::Device));
    assert_eq!(land(250), (32_019, 32_018, 1, 1, Arrival::HostThenLift));
}

#[test]
fn what_is_imported_and_what_is_left_make_the_prompt() {
    for policy in [Policy::LiftTail, Policy::RoundDown, Policy::LandOnDevice] {
        for recurrence in [Recurrence::None, Recurrence::State] {
            for prompt in 1..200 {
                let decision = decide(policy, prompt, recurrence, 16, (prompt % 9) as u32);
                let (imported, resume_at, left, pages, arrival) = numbers(decision);
                assert_eq!(resume_at + left, prompt);
                assert!(imported <= prompt && left >= 1 && pages >= 1);
                assert!(imported == resume_at || imported == resume_at + 1);
                let lifts = decision.blocks.tail_tokens() > Tokens::ZERO;
                assert_eq!(arrival == Arrival::HostThenLift, lifts && arrival != Arrival::Device);
            }
        }
    }
}

#[test]
fn empty_prompts_and_blocks_are_refused() {
    for policy in [Policy::LiftTail, Policy::RoundDown, Policy::LandOnDevice] {
        let decide = |prompt, block| {
            policy.decide(Tokens::new(prompt), Recurrence::None, Tokens::new(block), 1).map(drop)
        };
        assert!(decide(0, 16).is_err() && decide(5, 0).is_err() && decide(u64::MAX, 1).is_err());
    }
}
