//! `gather` and `digest`: exit codes, what is refused, and what the JSON object says.

#![allow(clippy::unwrap_used, reason = "a test says what it expects by panicking")]

mod support;

use serde_json::{Value, json};

use support::{json, pagelift, small, small_manifests};

/// What is said, with which exit code, of arguments that are wrong.
fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let output = pagelift(arguments);
    assert!(output.stdout.is_empty(), "{arguments:?} was refused, yet something was printed");
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(!message.contains("panicked"), "{message}");
    (output.status.code(), message)
}

#[test]
fn gather_says_what_it_gathered() {
    let object = json(&["gather", &small("hybrid.json"), "--json", "--seed", "3"]);
    assert_eq!((&object["verified"], &object["backend"]), (&Value::Bool(true), &"cpu".into()));
    assert_eq!(
        (&object["launches"], &object["from"], &object["seed"]),
        (&3.into(), &"host".into(), &3.into())
    );
    assert!(object["bytes_verified"].as_u64().unwrap() > 0 && object["seconds"].is_number());
    let names = |list: &str| -> Vec<&str> {
        object[list].as_array().unwrap().iter().map(|done| done["group"].as_str().unwrap()).collect()
    };
    assert_eq!(names("blocks"), ["main", "index", "ring", "gdn.0", "gdn.1", "ssm"]);
    assert_eq!(names("rows"), ["main", "index", "ring", "main", "index", "ring"]);
    for done in object["blocks"].as_array().unwrap() {
        for field in ["sources", "destinations", "rows", "bytes"] {
            assert!(done[field].as_u64().unwrap() > 0, "{field}: {done}");
        }
    }
    for (index, done) in object["rows"].as_array().unwrap().iter().enumerate() {
        assert_eq!((&done["entries"], &done["count"]), (&100.into(), &88.into()));
        assert_eq!(done["index"], if index < 3 { "i32" } else { "i64" });
        assert_eq!(done["rows"].as_u64().unwrap() + done["skipped"].as_u64().unwrap(), 88);
    }
    // A row of `main` has 1024 bytes in each of four layers.
    let main = &object["rows"][0];
    assert_eq!(main["bytes"].as_u64().unwrap(), main["rows"].as_u64().unwrap() * 4 * 1024);
}

#[test]
fn gather_takes_one_group_one_kind_and_either_side() {
    let path = small("kernel-pages.json");
    let blocks = json(&["gather", &path, "--json", "--group", "kv", "--blocks", "3"]);
    assert_eq!((&blocks["rows"], &blocks["launches"]), (&json!([]), &1.into()));
    let expected =
        json!([{ "group": "kv", "sources": 3, "destinations": 6, "rows": 384, "bytes": 384 * 2 * 128 }]);
    assert_eq!(blocks["blocks"], expected);
    let back = json(&["gather", &path, "--json", "--group", "kv", "--blocks", "6", "--from", "device"]);
    let expected =
        json!([{ "group": "kv", "sources": 6, "destinations": 3, "rows": 384, "bytes": 384 * 2 * 128 }]);
    assert_eq!(back["blocks"], expected);
    // A group that landed on the GPU has no host side, but rows.
    let rows = json(&["gather", &path, "--json", "--group", "landed", "--rows", "1000", "--from", "device"]);
    assert_eq!((&rows["blocks"], &rows["launches"]), (&json!([]), &2.into()));
    assert_eq!(rows["rows"][1]["entries"], 1000);
    for entry in ["--rows", "--blocks"] {
        let one = json(&["gather", &path, "--json", "--group", "index", entry, "1"]);
        assert_eq!(one["verified"], true);
    }
}

/// Of one group, whatever it has is gathered where nothing else is said.
#[test]
fn a_group_is_gathered_as_far_as_it_can_be() {
    let state = json(&["gather", &small("hybrid.json"), "--json", "--group", "gdn.0"]);
    assert_eq!((&state["launches"], &state["rows"]), (&1.into(), &json!([])));
    assert_eq!(state["blocks"][0]["group"], "gdn.0");
    let path = small("kernel-pages.json");
    let landed = json(&["gather", &path, "--json", "--group", "landed", "--from", "device"]);
    assert_eq!((&landed["launches"], &landed["blocks"]), (&2.into(), &json!([])));
    let (code, message) = refused(&["gather", &path, "--group", "landed", "--rows", "1"]);
    assert!(
        code == Some(2) && message.contains("does not lie on the host: use the other --from"),
        "{message}"
    );
}

#[test]
fn gathers_that_cannot_be_are_refused() {
    let path = small("hybrid.json");
    let (code, message) = refused(&["gather", &path, "--group", "nix"]);
    assert!(code == Some(2) && message.contains("`nix`") && message.contains("`gdn.0`"), "{message}");
    let (code, message) = refused(&["gather", &path, "--group", "gdn.0", "--rows", "5"]);
    assert!(code == Some(2) && message.contains("`gdn.0`: it is a state and has no rows"), "{message}");
    let (code, message) = refused(&["gather", &path, "--group", "ple", "--blocks", "5"]);
    assert!(code == Some(2) && message.contains("`ple`: it lies on the device only"), "{message}");
    for (option, number) in [("--rows", "0"), ("--rows", "-1"), ("--blocks", "1048577"), ("--blocks", "many")]
    {
        let (code, message) = refused(&["gather", &path, &format!("{option}={number}")]);
        assert!(code == Some(2) && message.contains(number) && message.contains(option), "{message}");
    }
    assert_eq!(refused(&["gather", &path, "--from", "nowhere"]).0, Some(2));
    assert_eq!(refused(&["gather", &path, "--backend", "cuda"]).0, Some(3));
}

#[test]
fn digests_of_both_sides_are_equal_in_every_mode() {
    for path in small_manifests() {
        let mut imported = None;
        for mode in ["whole", "exact", "exact-zeroed"] {
            let object = json(&["digest", &path, "--json", "--mode", mode]);
            assert_eq!((&object["verified"], &object["mode"]), (&Value::Bool(true), &mode.into()), "{path}");
            let groups = object["groups"].as_array().unwrap();
            for group in groups {
                assert_eq!(group["lifted_host"], group["lifted_device"], "{path}: {group}");
                let digest = group["imported"].as_str().unwrap();
                assert!(digest.starts_with("0x") && digest.len() == 18, "{digest}");
                let lifted = group["lifted_rows"].as_u64().unwrap();
                assert!(lifted <= group["imported_rows"].as_u64().unwrap(), "{path}: {group}");
                // All that was imported was lifted: then the digests are of the same rows.
                if group["lifted_rows"] == group["imported_rows"] {
                    assert_eq!(group["lifted_device"], group["imported"], "{path}: {group}");
                }
            }
            let all: Vec<Value> = groups.iter().map(|group| group["imported"].clone()).collect();
            assert_eq!(*imported.get_or_insert_with(|| all.clone()), all, "{path} {mode}");
        }
    }
}

#[test]
fn digests_follow_from_the_seed_and_read_every_imported_row() {
    let path = small("unaligned.json");
    let digest = |seed: &str| json(&["digest", &path, "--json", "--seed", seed]);
    let (one, two) = (digest("1"), digest("2"));
    assert_eq!(one["groups"], digest("1")["groups"]);
    for group in 0..2 {
        assert_ne!(one["groups"][group]["imported"], two["groups"][group]["imported"]);
        assert_eq!(one["groups"][group]["imported_rows"], 69);
    }
    // The imported rows of both groups, and the lifted ones of each on either side: five of the tail, and all.
    assert_eq!(one["bytes"], 8 * ((69 + 2 * 5) * 656 + 3 * 69 * 132));
    let output = pagelift(&["digest", &path]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success() && text.contains(one["groups"][0]["imported"].as_str().unwrap()),
        "{text}"
    );
    assert_eq!(refused(&["digest", &path, "--backend", "cuda"]).0, Some(3));
    assert_eq!(refused(&["digest", "nowhere.json"]).0, Some(2));
}
