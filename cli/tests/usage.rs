//! The command line itself: numbers and their ranges, help, completions, manual pages, and the doctor's verdict.

#![allow(clippy::unwrap_used, reason = "a test says what it expects by panicking")]

mod support;

use support::{changed, command, json, pagelift, small};

fn text(arguments: &[&str]) -> String {
    let output = pagelift(arguments);
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn numbers_out_of_range_say_what_was_found_and_expected() {
    let path = small("aligned.json");
    let cases = [
        ("restore", "--generate", "-5", "from 0 to 1048576"),
        ("restore", "--generate", "1048577", "from 0 to 1048576"),
        ("restore", "--generate", "99999999999999999999", "from 0 to 1048576"),
        ("restore", "--generate", "1.5", "from 0 to 1048576"),
        ("restore", "--generate", "", "from 0 to 1048576"),
        ("restore", "--seed", "-1", "from 0 to 9007199254740991"),
        ("restore", "--seed", "9007199254740992", "from 0 to 9007199254740991"),
        ("digest", "--seed", "x", "from 0 to 9007199254740991"),
        ("gather", "--seed", "-1", "from 0 to 9007199254740991"),
        ("gather", "--rows", "-1", "from 1 to 1048576"),
        ("gather", "--blocks", "0", "from 1 to 1048576"),
    ];
    for (command, option, number, expected) in cases {
        let output = pagelift(&[command, &path, option, number]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{message}");
        let found = format!("'{number}'");
        assert!(message.contains(&found) && message.contains(option), "{message}");
        assert!(message.contains(&format!("expected a whole number {expected}")), "{message}");
    }
    let last = json(&["digest", &path, "--json", "--seed", "9007199254740991"]);
    assert_eq!(last["seed"], 9_007_199_254_740_991_u64);
}

#[test]
fn an_error_that_nobody_hears_has_its_code_all_the_same() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let status = command(&["restore", "/nowhere/at/all.json"]).stderr(full).status().unwrap();
    assert_eq!(status.code(), Some(2));
}

const COMMANDS: [&str; 14] = [
    "restore",
    "prefill",
    "decode",
    "plan",
    "digest",
    "gather",
    "load",
    "bench",
    "calibrate",
    "layouts",
    "doctor",
    "replay",
    "completions",
    "man",
];

#[test]
fn help_names_every_command_and_what_this_build_lacks() {
    let help = text(&["--help"]);
    for command in COMMANDS {
        assert!(help.lines().any(|line| line.trim_start().starts_with(command)), "{command} in\n{help}");
        assert!(text(&[command, "--help"]).contains("Usage: pagelift"), "{command}");
    }
    assert!(help.contains("Exit codes: 0 done"), "{help}");
    assert!(text(&["restore", "--help"]).contains("cuda: The first NVIDIA GPU"));
}

#[test]
fn completions_know_commands_and_options() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = text(&["completions", shell]);
        for word in COMMANDS.into_iter().chain(["svg"]) {
            assert!(script.contains(word), "{word} for {shell}");
        }
        // Values of options are completed by these only.
        let values = ["bash", "zsh", "fish"].contains(&shell);
        assert_eq!(script.contains("exact-zeroed"), values, "{shell}");
    }
    assert_eq!(pagelift(&["completions", "none"]).status.code(), Some(2));
}

#[cfg(unix)]
#[test]
fn the_completions_for_bash_are_a_script() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("pagelift.bash");
    std::fs::write(&script, text(&["completions", "bash"])).unwrap();
    // A system without bash has nothing to check them with.
    let Ok(checked) = std::process::Command::new("bash").arg("-n").arg(&script).output() else { return };
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn each_command_has_a_manual_page() {
    let page = text(&["man"]);
    assert!(page.contains(".TH pagelift 1") && page.contains(".SH NAME"), "{page}");
    for command in COMMANDS {
        assert!(page.contains(&format!("pagelift\\-{command}(1)")), "{command} in\n{page}");
        let page = text(&["man", command]);
        assert!(page.contains(&format!(".TH pagelift-{command} 1")), "{page}");
        assert!(page.contains(&format!("\\fBpagelift {command}\\fR")), "{page}");
    }
    assert_eq!(pagelift(&["man", "nothing"]).status.code(), Some(2));
}

#[test]
fn the_doctor_says_what_to_do_next() {
    let found = json(&["doctor", "--json"]);
    assert_eq!((&found["verdict"]["ready"], &found["manifests"]), (&true.into(), &serde_json::json!([])));
    let path = small("hybrid.json");
    let found = json(&["doctor", &path, "--json"]);
    assert_eq!(found["verdict"]["next"], format!("pagelift restore {path}"));
    assert!(found["manifests"][0]["needed_memory"].as_u64().unwrap() > 7_000_000);
    let table = text(&["doctor", &path]);
    assert!(table.contains("verdict") && table.contains("fits"), "{table}");
}

/// Pools of a hundred gigabytes make a manifest, but hardly one for this machine.
#[cfg(target_os = "linux")]
#[test]
fn the_doctor_fails_where_an_import_does_not_fit() {
    let (_folder, path) = changed("aligned.json", |manifest| {
        for pool in manifest["pools"].as_array_mut().unwrap() {
            pool["page_bytes"] = (1_u64 << 30).into();
        }
    });
    let output = pagelift(&["doctor", &path, "--json"]);
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    if found["manifests"][0]["fits"] == true {
        // A machine that large is ready.
        return;
    }
    assert_eq!(output.status.code(), Some(3), "{found}");
    assert_eq!(found["verdict"]["ready"], false);
    assert!(String::from_utf8(output.stderr).unwrap().contains("too little memory"));
    assert_eq!(pagelift(&["restore", &path]).status.code(), Some(3));
    assert_eq!(pagelift(&["gather", &path]).status.code(), Some(3));
    // A plan needs none of it.
    assert!(pagelift(&["plan", &path]).status.success());
}

#[test]
fn the_doctor_refuses_what_is_no_manifest() {
    let output = pagelift(&["doctor", "nowhere.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("nowhere.json"));
}

#[cfg(not(feature = "nixl"))]
#[test]
fn a_build_without_nixl_says_how_to_have_it() {
    let path = small("aligned.json");
    for arguments in
        [&["load", "--only", "mla-128"][..], &["prefill", &path], &["decode", &path, "--from", "127.0.0.1:1"]]
    {
        let output = pagelift(arguments);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{message}");
        assert!(message.contains("cargo xtask nixl"), "{message}");
    }
}
