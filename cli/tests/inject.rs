//! `restore` through the lifecycle: faults, what comes of them, and the log that plays them again.

#![allow(clippy::unwrap_used, reason = "a test says what it expects by panicking")]

mod support;

use std::collections::BTreeSet;

use serde_json::Value;

use support::{json, pagelift, small, small_manifests};

/// A restore with a fault, of which every byte was right.
fn injected(manifest: &str, fault: &str, tokens: u32, seed: u64) -> Value {
    let (tokens, seed) = (tokens.to_string(), seed.to_string());
    let arguments = ["restore", manifest, "--json", "--generate", &tokens, "--seed", &seed];
    let object = json(&[&arguments[..], &["--inject", fault]].concat());
    assert_eq!(
        (&object["verified"], &object["injected"]["fault"]),
        (&true.into(), &fault.into()),
        "{object}"
    );
    object
}

fn clean(manifest: &str, tokens: u32, seed: u64) -> Value {
    json(&["restore", manifest, "--json", "--generate", &tokens.to_string(), "--seed", &seed.to_string()])
}

fn number(object: &Value, field: &str) -> u64 {
    object[field].as_u64().unwrap()
}

/// The first word or two of when a fault was played.
fn moment(object: &Value) -> String {
    let words = object["injected"]["moment"].as_str().unwrap();
    words.split(' ').filter(|word| word.parse::<u64>().is_err()).collect::<Vec<_>>().join(" ")
}

#[test]
fn without_a_fault_everything_full_is_published() {
    let object = clean(&small("aligned.json"), 40, 1);
    // 64 tokens of the prompt and 39 after the replayed one, in blocks of 16.
    assert_eq!((number(&object, "published"), number(&object, "pages_sealed")), (6, 6), "{object}");
    for field in ["withheld", "aborted", "failed", "preempted", "found", "duplicate", "late", "refused"] {
        assert_eq!(number(&object, field), 0, "{field} in {object}");
    }
    // Admission, reads, lift, end, and three of each step: it begins, is accepted, is mirrored.
    assert!(number(&object, "events") >= 6 + 3 * number(&object, "steps"), "{object}");
    assert!(object["injected"].is_null());
    // A group that is not mirrored keeps its blocks from being whole.
    assert_eq!(number(&clean(&small("kernel-pages.json"), 300, 1), "published"), 0);
}

#[test]
fn every_fault_in_every_small_manifest_leaves_every_byte_right_and_nothing_held() {
    for (manifest, tokens) in small_manifests().into_iter().zip([50, 0, 40].into_iter().cycle()) {
        // A request is also preempted before it has computed anything.
        let faults = ["abort", "late", "duplicate", "worker-death", "preempt"].map(|fault| (fault, tokens));
        for (seed, (fault, tokens)) in (0..).zip(faults.into_iter().chain([("preempt", 0)])) {
            let object = injected(&manifest, fault, tokens, seed);
            assert_eq!(number(&object, "generated_tokens"), u64::from(tokens), "{manifest} {fault}");
            let ended = &object["injected"];
            assert_eq!(ended["pages_held"], 0, "{manifest} {fault}: {object}");
            assert!(fault == "preempt" || ended["blocks_held"] == 0, "{manifest} {fault}: {object}");
        }
    }
}

#[test]
fn an_abort_publishes_nothing_that_is_not_lifted_and_the_prompt_is_restored_after_it() {
    let manifest = small("unaligned.json");
    let expected = clean(&manifest, 60, 0);
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let log = log.to_str().unwrap();
    let mut moments = BTreeSet::new();
    for seed in 0..12 {
        let text = seed.to_string();
        let arguments = ["restore", &manifest, "--json", "--generate", "60", "--seed", &text];
        let object = json(&[&arguments[..], &["--inject", "abort", "--log", log]].concat());
        let when = moment(&object);
        let lifted = u64::from(when == "in step");
        assert_eq!((number(&object, "aborted"), number(&object, "failed")), (1, 0), "{object}");
        assert_eq!(number(&object, "withheld"), 1 - lifted, "{object}");
        // What was published stays: the second request finds it, and names no block twice.
        let in_prompt = number(&object["injected"], "published").min(4);
        assert_eq!(number(&object, "found"), in_prompt, "{object}");
        assert_eq!(number(&object["injected"], "published") > 0, lifted == 1, "{object}");
        // Whatever is full of the second request was found, is known already, or is published anew: what the pool has no
        // room for was evicted meanwhile.
        let known = number(&json(&["replay", log, "--json"]), "known");
        let anew = number(&object, "published") - number(&object["injected"], "published");
        assert_eq!(in_prompt + known + anew, number(&expected, "published"), "{object}");
        moments.insert(when);
    }
    let all = ["before its lift", "in step", "while its blocks were read"].map(str::to_owned);
    assert_eq!(moments, all.into());
}

#[test]
fn a_worker_that_dies_takes_its_request_with_it_and_no_more() {
    let manifest = small("hybrid.json");
    let expected = clean(&manifest, 60, 0);
    let mut moments = BTreeSet::new();
    for seed in 0..12 {
        let object = injected(&manifest, "worker-death", 60, seed);
        assert_eq!((number(&object, "aborted"), number(&object, "failed")), (0, 1), "{object}");
        let lifted = u64::from(moment(&object) == "in step");
        assert_eq!(number(&object, "withheld"), 1 - lifted, "{object}");
        assert!(number(&object, "published") >= number(&expected, "published"), "{object}");
        moments.insert(moment(&object));
    }
    assert_eq!(moments.len(), 3, "{moments:?}");
}

#[test]
fn a_preempted_request_holds_its_blocks_and_no_page() {
    for name in ["hybrid.json", "unaligned.json", "qsa-fp8.json", "kernel-pages.json"] {
        let manifest = small(name);
        for seed in 0..4 {
            let (object, expected) = (injected(&manifest, "preempt", 60, seed), clean(&manifest, 60, seed));
            assert_eq!((number(&object, "preempted"), number(&object, "withheld")), (1, 0), "{object}");
            let during = &object["injected"];
            assert!(during["pages_held"] == 0 && number(during, "blocks_held") > 0, "{object}");
            // Nothing of it shows in what came of the request.
            for field in ["published", "pages_sealed", "steps"] {
                assert_eq!(object[field], expected[field], "{name}, seed {seed}: {field}");
            }
            assert_eq!(number(&object, "lift_launches"), 2, "{object}");
        }
    }
}

#[test]
fn messages_that_come_late_or_twice_change_nothing() {
    for name in ["hybrid.json", "aligned.json", "split-pages.json"] {
        let manifest = small(name);
        for seed in 0..3 {
            let expected = clean(&manifest, 60, seed);
            for fault in ["late", "duplicate"] {
                let object = injected(&manifest, fault, 60, seed);
                assert!(number(&object["injected"], "messages") > 0, "{object}");
                for field in ["published", "pages_sealed", "steps", "withheld", "aborted", "failed"] {
                    assert_eq!(object[field], expected[field], "{name} {fault}, seed {seed}: {field}");
                }
                let known =
                    number(&object, "duplicate") + number(&object, "late") + number(&object, "refused");
                assert!(fault == "late" || known == number(&object["injected"], "messages"), "{object}");
            }
        }
    }
}

#[test]
fn the_log_of_any_run_is_played_again() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let log = log.to_str().unwrap();
    let hybrid = small("hybrid.json");
    for fault in ["", "abort", "late", "duplicate", "worker-death", "preempt"] {
        let mut arguments = vec!["restore", &hybrid, "--json", "--generate", "40", "--log", log];
        if !fault.is_empty() {
            arguments.extend(["--inject", fault]);
        }
        let (object, replayed) = (json(&arguments), json(&["replay", log, "--json"]));
        for field in
            ["events", "published", "withheld", "aborted", "failed", "preempted", "duplicate", "refused"]
        {
            assert_eq!(object[field], replayed[field], "{fault}: {field}");
        }
        assert_eq!((&replayed["pages_held"], &replayed["requests"]), (&0.into(), &0.into()), "{fault}");
    }
    let output = pagelift(&["restore", &hybrid, "--log", "/nowhere/at/all"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && message.contains("/nowhere/at/all"), "{message}");
}

#[test]
fn a_fault_is_told_to_a_person() {
    for (fault, words) in [
        ("abort", "same prompt was then restored"),
        ("late", "came late"),
        ("duplicate", "came twice"),
        ("worker-death", "the request failed"),
        ("preempt", "lifted again"),
    ] {
        let output = pagelift(&["restore", &small("hybrid.json"), "--generate", "30", "--inject", fault]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.contains("injected"), "{text}");
        // A sentence may be over several lines of the table.
        let flat: String = text.split(['│', '┆', '\n']).map(str::trim).collect::<Vec<_>>().join(" ");
        let flat = flat.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(words), "{words} in\n{text}");
    }
    assert_eq!(pagelift(&["restore", "x.json", "--inject", "fire"]).status.code(), Some(2));
}
