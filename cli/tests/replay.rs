//! `replay`: a log is played again, and any effect that differs is found.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what it expects by panicking")]

mod support;

use support::{file, json, lifecycle_log, pagelift};

#[test]
fn a_log_comes_out_as_it_was() {
    let (_folder, path) = file(lifecycle_log().as_bytes());
    let object = json(&["replay", &path, "--json"]);
    for (field, expected) in
        [("published", 2), ("lifted", 1), ("withheld", 1), ("finished", 1), ("aborted", 1), ("refused", 1)]
    {
        assert_eq!(object[field], expected, "{field} in {object}");
    }
    assert_eq!((&object["requests"], &object["pages_held"]), (&0.into(), &0.into()));
    let output = pagelift(&["replay", &path]);
    assert!(String::from_utf8(output.stdout).unwrap().contains("1 lifted, 1 withheld"));
}

/// Each line with one thing changed.
#[test]
fn any_difference_is_found_and_told_by_its_line() {
    let log = lifecycle_log();
    let lines: Vec<&str> = log.lines().collect();
    for (number, line) in lines.iter().enumerate().skip(1) {
        let changed = match line.find(r#","effects":[{"#) {
            Some(at) => format!("{}}}", &line[..at]),
            None => line.replace(
                r#"{"event""#,
                r#"{"effects":[{"effect":"lifted","request":{"slot":0,"generation":1}}],"event""#,
            ),
        };
        let mut all = lines.clone();
        all[number] = &changed;
        let (_folder, path) = file(all.join("\n").as_bytes());
        let output = pagelift(&["replay", &path]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains(&format!("line {}:", number + 1)), "{message}");
    }
}

#[test]
fn what_is_no_log_is_refused() {
    let log = lifecycle_log();
    for (text, said) in [
        ("", "the file is empty"),
        ("{}", "expected the header"),
        ("{\n", "line 1: column 1: EOF while parsing an object; expected the header"),
        (&log.replacen(r#"_log":1"#, r#"_log":2"#, 1), "version 2"),
        (r#"{"pagelift_lifecycle_log":2,"whatever":1}"#, "the log has version 2; expected version 1"),
        (&log.replacen(r#""ranks":2"#, r#""ranks":0"#, 1), "the number of ranks is 0"),
        // Before the machine's memory is gone.
        (&log.replacen(r#""blocks":"#, r#""blocks":20000000"#, 1), "blocks is 20000000"),
        (&format!("{log}{{\"event\":\"dance\"}}"), "unknown variant"),
    ] {
        let (_folder, path) = file(text.as_bytes());
        let output = pagelift(&["replay", &path]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(said), "{said} in {message}");
    }
    assert_eq!(pagelift(&["replay", "/nowhere/log"]).status.code(), Some(2));
}

/// Neither a device without an end, nor a line without one, takes the machine's memory.
#[test]
fn what_never_ends_is_refused() {
    let output = pagelift(&["replay", "/dev/zero"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && message.contains("a pipe, a socket or a device"), "{message}");
    let (_folder, path) = file(&vec![b' '; (32 << 20) + 1]);
    let output = pagelift(&["replay", &path]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && message.contains("line 1: the line is too long"), "{message}");
}
