//! `pagelift load`: hand-offs between two processes beside one large read, and many at a time.

use crate::support::{command, json};

#[test]
fn what_the_plugin_refuses_is_said_whichever_process_finds_it() {
    let output = command(&["load", "--seconds", "0", "--parameter", "num_workers=many"]).output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && words.contains("start a plugin"), "{words}");
}

#[test]
fn what_is_loaded_lands_or_is_given_up_and_nothing_stays_held() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("load");
    let arguments = [
        "load",
        "--only",
        "indexer-64",
        "--mebibytes",
        "2",
        "--pairs",
        "1",
        "--rounds",
        "2",
        "--imports",
        "3",
    ];
    let flood = ["--seconds", "2", "--in-flight", "8", "--aborts", "20", "--compare", "100", "--json"];
    let found = json(&[&arguments[..], &flood, &["--out", out.to_str().unwrap()]].concat());
    let [ratio] = found["ratios"].as_array().unwrap().as_slice() else { panic!("{found}") };
    assert!(ratio["ratio"]["median"].as_f64().unwrap() > 0.0, "{ratio}");
    let flood = &found["flood"];
    let count = |name: &str| flood[name].as_u64().unwrap();
    assert_eq!(count("begun"), count("landed") + count("aborted"), "{flood}");
    assert!(count("landed") > 0 && count("aborted") > 0 && count("blocks_compared") > 0, "{flood}");
    let exported = |name: &str| flood["exported"][name].as_u64().unwrap();
    assert_eq!((exported("held"), exported("expired")), (0, 0), "{flood}");
    assert_eq!(exported("granted"), exported("freed"));
    for ending in ["md", "json", "svg"] {
        assert!(out.with_extension(ending).is_file(), "{ending}");
    }
}

#[test]
fn a_cache_that_nobody_knows_is_refused_by_name() {
    let output = command(&["load", "--only", "mla-127"]).output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && words.contains("`mla-127`; expected `mla-128`, "), "{words}");
}

#[test]
fn what_this_machine_lacks_is_said_by_the_code_whichever_process_finds_it() {
    for place in ["--from", "--into"] {
        let mut command = command(&["load", "--seconds", "0", place, "device:99"]);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_result_that_cannot_be_kept_is_not_measured() {
    let output = command(&["load", "--out", "/proc/nowhere/load"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn tails_are_lifted_from_where_imports_have_landed() {
    let words = "load --json --into lift --only rows-16,mla-128 --mebibytes 1 --pairs 1 --rounds 1 --imports 2 --seconds 0 \
                 --parameter num_threads=2 --parameter split_batch_size=8";
    let found = json(&words.split(' ').collect::<Vec<_>>());
    for ratio in found["ratios"].as_array().unwrap() {
        assert!(ratio["ready_microseconds"]["median"].is_f64(), "{ratio}");
    }
    assert_eq!(found["parameters"], serde_json::json!(["num_threads=2", "split_batch_size=8"]));
    assert_eq!(found["setup"]["pieces"], 9 * 61);
    assert!(found["flood"].is_null());
}
