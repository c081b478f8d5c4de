//! Plays every input of the fuzzers' committed seeds again, on the stable compiler: what a fuzzer once found stays found.
#![allow(clippy::unwrap_used, reason = "a test says what it expects by panicking")]

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

use pagelift_cases::draw::Draw;
use pagelift_cases::{control, manifests, plans, tables};

/// Plays all inputs of a target.
fn replay(target: &str, play: impl Fn(&mut Draw)) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds").join(target);
    let mut inputs: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    inputs.sort();
    assert!(inputs.len() >= 10, "{} has only {} inputs", folder.display(), inputs.len());
    for input in inputs {
        let bytes = fs::read(&input).unwrap();
        let played = catch_unwind(AssertUnwindSafe(|| play(&mut Draw::from_bytes(&bytes))));
        if let Err(panic) = played {
            eprintln!("while playing {}", input.display());
            resume_unwind(panic);
        }
    }
}

#[test]
fn plans_of_the_seeds() {
    replay("plans", plans::run);
}

#[test]
fn tables_of_the_seeds() {
    replay("tables", |draw| {
        tables::run(draw);
    });
}

#[test]
fn manifests_of_the_seeds() {
    replay("manifests", manifests::run);
}

#[test]
fn control_of_the_seeds() {
    replay("control", control::run);
}
