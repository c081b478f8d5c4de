//! The program as a person and a script meet it: exit codes, messages, and the JSON object.

#![allow(clippy::unwrap_used, reason = "a test says what it expects by panicking")]

mod support;

use std::process::Command;

use serde_json::Value;

use support::{file, manifests, pagelift, small};

/// What the program says of a manifest that is wrong: one line, and an exit code for wrong input.
fn refused(path: &str) -> String {
    let output = pagelift(&["restore", path, "--json"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{path}: {message}");
    assert!(output.stdout.is_empty(), "{path} was refused, yet something was printed");
    assert!(message.starts_with("pagelift: "), "{message}");
    assert!(!message.contains("panicked"), "{message}");
    message
}

#[test]
fn restore_prints_one_json_object_with_every_field() {
    let output = pagelift(&["restore", &small("hybrid.json"), "--json", "--generate", "50", "--seed", "9"]);
    assert!(output.status.success());
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    let fields = [
        "prompt_tokens",
        "imported_tokens",
        "resume_at",
        "block_tokens",
        "host_blocks",
        "capacity",
        "holes",
        "tail_page",
        "tail_tokens",
        "groups",
        "layers",
        "jobs",
        "launches",
        "bytes_lifted",
        "rows_mirrored",
        "pages_sealed",
        "bytes_verified",
        "verifications",
        "lift_seconds",
        "seconds",
    ];
    for field in fields {
        assert!(object[field].is_number(), "{field}: {}", object[field]);
    }
    assert_eq!((&object["verified"], &object["backend"]), (&Value::Bool(true), &Value::from("cpu")));
}

#[test]
fn restore_prints_a_table_for_a_person() {
    for (name, tokens, absent) in
        [("sub-block", "0", "mirror"), ("hybrid", "30", " 0 "), ("aligned", "30", "checkpoints")]
    {
        let output = pagelift(&["restore", &small(&format!("{name}.json")), "--generate", tokens]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success());
        assert!(text.contains("writable page") && text.contains("verified"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        // What did not happen is not said.
        assert!(!text.contains(absent), "{absent:?} in {text}");
    }
}

#[test]
fn pools_are_counted_once_however_often_they_are_verified() {
    let report = |tokens: &str| -> (u64, u64) {
        let output = pagelift(&["restore", &small("gqa.json"), "--json", "--generate", tokens]);
        let object: Value = serde_json::from_slice(&output.stdout).unwrap();
        (object["bytes_verified"].as_u64().unwrap(), object["verifications"].as_u64().unwrap())
    };
    // Host: 4 layers of 24 blocks; device: 16 blocks of 9 layers and padding.
    let bytes = 4 * 24 * 32_768 + 16 * (9 * 16_640 + 512);
    assert_eq!([report("0"), report("9")], [(bytes, 1), (bytes, 2)]);
}

#[test]
fn each_mode_and_backend_is_named_as_documented() {
    for mode in ["whole", "exact", "exact-zeroed"] {
        let output =
            pagelift(&["restore", &small("unaligned.json"), "--json", "--mode", mode, "--backend", "cpu"]);
        let object: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(object["mode"], mode);
    }
    assert_eq!(pagelift(&["restore", "x.json", "--mode", "half"]).status.code(), Some(2));
}

#[test]
fn doctor_says_what_runs_the_kernels() {
    let output = pagelift(&["doctor", "--json"]);
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    let gpu = pagelift::backends::Cuda::open(0).is_ok();
    assert_eq!(object["backend"], if gpu { "cuda" } else { "cpu" });
    assert!(pagelift(&["doctor"]).status.success());
}

#[test]
fn a_backend_that_is_not_there_is_said() {
    if pagelift::backends::Cuda::open(0).is_ok() {
        return;
    }
    for command in [vec!["doctor"], vec!["restore", "MANIFEST"]] {
        let path = small("aligned.json");
        let mut arguments: Vec<&str> =
            command.iter().map(|a| if *a == "MANIFEST" { &path } else { *a }).collect();
        arguments.extend(["--backend", "cuda"]);
        let output = pagelift(&arguments);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{message}");
        assert!(message.contains("driver"), "{message}");
    }
}

#[test]
fn a_missing_file_and_a_folder_are_named() {
    assert!(refused("nowhere.json").contains("nowhere.json"));
    assert!(refused(manifests().to_str().unwrap()).contains("manifests"));
}

#[cfg(unix)]
#[test]
fn what_is_not_a_regular_file_is_refused_and_shown_without_control_characters() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("a\u{1b}[31mpipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let message = refused(pipe.to_str().unwrap());
    assert!(message.contains("a\\u{1b}[31mpipe: it is a pipe") && !message.contains('\u{1b}'), "{message}");
    assert!(refused("/dev/zero").contains("/dev/zero"));
    assert!(!refused("no\u{1b}where.json").contains('\u{1b}'));
}

#[test]
fn truncated_manifests_are_refused() {
    let text = std::fs::read(small("unaligned.json")).unwrap();
    let whole = text.iter().rposition(|byte| *byte == b'}').unwrap();
    for end in (0..=whole).step_by(97) {
        let (_folder, path) = file(&text[..end]);
        refused(&path);
    }
}

#[test]
fn random_bytes_are_refused() {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for length in [0, 1, 10, 1000, 100_000] {
        let bytes: Vec<u8> = (0..length)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state as u8
            })
            .collect();
        let (_folder, path) = file(&bytes);
        refused(&path);
    }
}

#[test]
fn a_huge_file_is_refused_without_being_read() {
    let (folder, path) = file(b"");
    std::fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    assert!(refused(&path).contains("bytes"));
    drop(folder);
}

/// What is said of a right manifest that one change made wrong.
fn changed(name: &str, change: impl Fn(&mut Value)) -> String {
    let (_folder, path) = support::changed(name, change);
    refused(&path)
}

#[test]
fn wrong_manifests_name_the_place_and_what_was_expected() {
    let unknown = changed("aligned.json", |m| m["groups"][0]["colour"] = "blue".into());
    assert!(unknown.contains("groups[0]") && unknown.contains("colour"), "{unknown}");
    let version = changed("aligned.json", |m| m["version"] = 2.into());
    assert!(version.contains("version"), "{version}");
    let pool = changed("aligned.json", |m| m["groups"][0]["host"]["pool"] = "nowhere".into());
    assert!(pool.contains("nowhere"), "{pool}");
    let page = changed("aligned.json", |m| m["pools"][0]["page_bytes"] = 7.into());
    assert!(page.contains("needs 18432 bytes a page"), "{page}");
    let tokens = changed("aligned.json", |m| m["prompt_tokens"] = 100_000.into());
    assert!(tokens.contains("blocks"), "{tokens}");
    let negative = changed("aligned.json", |m| m["pools"][0]["blocks"] = (-1).into());
    assert!(negative.contains("pools[0].blocks"), "{negative}");
    let overflow = changed("aligned.json", |m| m["pools"][0]["page_bytes"] = u64::MAX.into());
    assert!(overflow.contains("pools[0].page_bytes"), "{overflow}");
    let partial = changed("hybrid.json", |m| {
        let groups = m["groups"].as_array_mut().unwrap();
        let state =
            groups.iter_mut().find(|g| g["lift"] == "state" && g["layout"]["kind"] != "ring").unwrap();
        state["lift"] = "tail".into();
    });
    assert!(partial.contains("`state` or `none`"), "{partial}");
}

#[test]
fn calibrate_needs_a_gpu_and_keeps_what_it_measured() {
    let folder = tempfile::tempdir().unwrap();
    let calibrate = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pagelift"));
        command.args(["calibrate", "--json"]).env("XDG_CACHE_HOME", folder.path()).output().unwrap()
    };
    let output = calibrate();
    if output.status.success() {
        let cached =
            |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap()["cached"].as_bool().unwrap();
        assert!(!cached(&output.stdout) && cached(&calibrate().stdout));
        return;
    }
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(message.contains("NVIDIA driver") || message.contains("GPU"), "{message}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
