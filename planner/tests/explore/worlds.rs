//! The engines that are explored.

use pagelift_planner::import::{Policy, Recurrence};
use pagelift_planner::lifecycle::{FrameLimits, LifecycleOptions, Ranks};

use crate::search::all_states;
use crate::world::{Faults, Script, World};

/// Two ranks, of which the first writes; three pages of two tokens.
const OPTIONS: LifecycleOptions = LifecycleOptions {
    ranks: 2,
    writers: Ranks::first(1),
    block_tokens: 2,
    recurrence: Recurrence::None,
    requests: 2,
    blocks: 6,
    pages: 3,
    keep: 0,
    draft_lag: 0,
    retries: 1,
    limits: FrameLimits::NONE,
};

/// A prompt of a full block and one token more, and one step.
fn script() -> Script {
    let policy = Policy::LiftTail;
    Script { prompt: 3, policy, producer: true, hashes: vec![1], steps: 1, tokens: 1, ahead: 1 }
}

/// One of each kind, at most so many in all.
const fn any(all: u32) -> Faults {
    Faults {
        all,
        aborts: 1,
        reads: 1,
        superseded: 1,
        failed: 1,
        deaths: 1,
        duplicates: 1,
        reordered: 1,
        preemptions: 1,
    }
}

fn explore(name: &str, options: LifecycleOptions, scripts: &[Script], faults: Faults) {
    visit(name, World::new(options, scripts, faults));
}

fn visit(name: &str, world: World<'_>) {
    let (states, rests) = all_states(name, world, 100_000_000);
    assert!(states > 10 && rests > 0);
}

/// A prompt that fills its last block: its last token is replayed. Another one finds all of it.
fn aligned() -> [Script; 2] {
    let first = Script { prompt: 4, hashes: vec![1, 2], ..script() };
    [first.clone(), Script { producer: false, ..first }]
}

/// A fault of a launch, or somebody who wants something else.
const SOME: Faults = Faults { aborts: 1, superseded: 1, failed: 1, preemptions: 1, ..NONE };

/// No kind.
const NONE: Faults = Faults {
    all: 1,
    aborts: 0,
    reads: 0,
    superseded: 0,
    failed: 0,
    deaths: 0,
    duplicates: 0,
    reordered: 0,
    preemptions: 0,
};

fn decoding() -> ([Script; 1], LifecycleOptions) {
    let options = LifecycleOptions { writers: Ranks::first(2), keep: 1, ..OPTIONS };
    ([Script { steps: 3, ahead: 2, ..script() }], options)
}

fn drafts() -> [Script; 1] {
    [Script { steps: 2, tokens: 2, ..script() }]
}

fn states() -> ([Script; 1], LifecycleOptions) {
    let options = LifecycleOptions { recurrence: Recurrence::State, ..OPTIONS };
    ([Script { steps: 2, ..script() }], options)
}

fn device() -> [Script; 1] {
    [Script { policy: Policy::LandOnDevice, ..script() }]
}

/// Three requests, and blocks for one and a half: what others had published is evicted.
fn eviction() -> ([Script; 3], LifecycleOptions) {
    let scripts = [script(), Script { hashes: vec![9], ..script() }, script()];
    (scripts, LifecycleOptions { blocks: 3, pages: 2, ..OPTIONS })
}

#[test]
fn one_import_with_any_two_faults() {
    explore("one import, two faults", OPTIONS, &[script()], any(2));
}

#[test]
fn two_imports_of_the_same_prompt() {
    let first = Script { steps: 0, ..script() };
    let second = Script { producer: false, ..first.clone() };
    explore("two imports", OPTIONS, &[first, second], NONE);
}

#[test]
fn an_aligned_prompt_and_one_that_finds_it() {
    // One after the other: there is one page.
    let options = LifecycleOptions { pages: 1, ..OPTIONS };
    explore("aligned prompts, a preemption", options, &aligned(), Faults { preemptions: 1, ..NONE });
}

#[test]
fn decoding_over_pages_with_drafts() {
    explore("drafts, some fault", OPTIONS, &drafts(), SOME);
}

/// A draft layer changes its rows of a step once more, a step or two later.
fn late_drafts(draft_lag: u32) -> ([Script; 1], LifecycleOptions) {
    ([Script { steps: 3, tokens: 2, ..script() }], LifecycleOptions { draft_lag, ..OPTIONS })
}

#[test]
fn drafts_whose_rows_are_final_later() {
    for (lag, name) in [(1, "rows that are final a step later"), (2, "rows that are final two steps later")] {
        let (scripts, options) = late_drafts(lag);
        let scripts = scripts.map(|script| Script { tokens: lag.min(2), ..script });
        explore(name, options, &scripts, Faults { superseded: 1, preemptions: 1, ..NONE });
    }
}

#[test]
fn decoding_with_the_host_ahead() {
    let (scripts, options) = decoding();
    let scripts = scripts.map(|script| Script { steps: 2, ..script });
    explore("two writers, two steps ahead, some fault", options, &scripts, SOME);
}

#[test]
fn states_that_land_on_the_device() {
    let (_, options) = states();
    explore("states on the device, a preemption", options, &device(), Faults { preemptions: 1, ..NONE });
}

/// A group's states may land on the device though rows do not: nothing of them is in a host block then.
#[test]
fn states_that_land_where_rows_do_not() {
    let (scripts, options) = states();
    let world = World::new(options, &scripts, Faults { preemptions: 2, all: 2, ..NONE });
    visit("states that land alone, two preemptions", World { states_land: true, ..world });
}

#[test]
fn a_model_with_states() {
    let (scripts, options) = states();
    explore("states, a preemption", options, &scripts, Faults { preemptions: 1, ..NONE });
    let longer = scripts.map(|script| Script { steps: 3, ..script });
    explore("states, a superseded launch", options, &longer, Faults { superseded: 1, ..NONE });
}

#[test]
fn landing_on_the_device() {
    explore("landing on the device, some fault", OPTIONS, &device(), SOME);
}

#[test]
fn rounding_down() {
    let scripts = [Script { policy: Policy::RoundDown, prompt: 5, hashes: vec![1, 2], ..script() }];
    explore("rounding down, one fault", OPTIONS, &scripts, any(1));
}

#[test]
fn too_few_blocks_for_two() {
    let (scripts, options) = eviction();
    explore("eviction", options, &scripts, NONE);
}

/// Of the same prompt: the second finds what the first has published, or imports all of it, as they come.
fn two_imports() -> [Script; 2] {
    [(); 2].map(|()| Script { steps: 0, ..script() })
}

#[test]
fn two_imports_with_any_two_faults() {
    explore("two imports, any two faults", OPTIONS, &two_imports(), any(2));
}

/// Larger worlds, each alone. Minutes, and best without debug assertions: `cargo xtask soak --worlds`.
mod whole {
    use super::*;

    macro_rules! worlds {
        ($($name:ident: $options:expr, $scripts:expr, $faults:expr;)*) => {$(
            #[test]
            #[ignore = "visits millions of states"]
            fn $name() {
                explore(stringify!($name), $options, &$scripts, $faults);
            }
        )*};
    }

    worlds! {
        two_imports_and_a_step: OPTIONS, [script(), two_imports()[1].clone()], any(2);
        two_imports_and_a_step_each: OPTIONS, [script(), script()], any(2);
        aligned_prompts: LifecycleOptions { pages: 2, ..OPTIONS }, aligned(), any(2);
        drafts_and_two_faults: OPTIONS, drafts(), any(2);
        two_steps_ahead: decoding().1, decoding().0, any(2);
        states_and_the_host_ahead: states().1, [Script { steps: 3, ahead: 2, ..script() }], any(1);
        states_and_two_faults: states().1, states().0, any(2);
        landing_on_the_device_and_two_faults: OPTIONS, device(), any(2);
        rows_that_are_final_a_step_later: late_drafts(1).1, late_drafts(1).0, any(1);
        rows_that_are_final_two_steps_later: late_drafts(2).1, late_drafts(2).0, any(1);
        evictions: eviction().1, eviction().0, any(2);
    }
}
