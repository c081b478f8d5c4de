//! What `--json` prints is what docs/json.md says, field by field.

#![allow(clippy::unwrap_used, reason = "a test says what it expects by panicking")]

mod support;

use support::{documented, file, json, keys, lifecycle_log, manifests, quoted, small};

#[test]
fn every_field_is_documented_and_every_documented_field_is_there() {
    let documented = documented();
    let hybrid = small("hybrid.json");
    let run = |arguments: &[&str]| {
        let object = json(&[arguments, &["--json"]].concat());
        assert_eq!(keys(&object), documented[arguments[0]][0], "{arguments:?}");
        object
    };
    run(&["restore", &hybrid, "--generate", "20"]);
    let plan = run(&["plan", &hybrid]);
    for group in plan["groups"].as_array().unwrap() {
        assert_eq!(keys(group), documented["plan"][1]);
    }
    run(&["gather", &hybrid]);
    run(&["digest", &hybrid]);
    let bench =
        run(&["bench", "--backend", "cpu", "--small", "--only", "a", "--budgets", "1", "--repeats", "1"]);
    for figure in bench["figures"].as_array().unwrap() {
        assert_eq!(keys(figure), documented["bench"][1]);
        for way in figure["ways"].as_array().unwrap() {
            assert_eq!(keys(way), documented["bench"][2]);
        }
    }
    let layouts = run(&["layouts"]);
    for layout in layouts["layouts"].as_array().unwrap() {
        assert_eq!(keys(layout), documented["layouts"][1]);
    }
    run(&["doctor", &hybrid]);
    let (_folder, log) = file(lifecycle_log().as_bytes());
    run(&["replay", &log]);
    // `calibrate` needs a GPU, and hand-offs NIXL: tests beside them compare their fields.
    assert_eq!(documented.len(), 12);
}

/// Items of lists have the fields that the text beside the list names.
#[test]
fn items_of_lists_have_the_fields_that_are_said() {
    let text = std::fs::read_to_string(manifests().join("../docs/json.md")).unwrap();
    let hybrid = small("hybrid.json");
    let lists = [
        (vec!["gather", &hybrid], "blocks"),
        (vec!["gather", &hybrid], "rows"),
        (vec!["digest", &hybrid], "groups"),
        (vec!["doctor", &hybrid], "findings"),
        (vec!["doctor", &hybrid], "manifests"),
    ];
    for (arguments, list) in lists {
        let section = text.split("\n## ").find(|section| section.starts_with(arguments[0])).unwrap();
        let line = section.lines().find(|line| line.starts_with(&format!("| `{list}` "))).unwrap();
        let said = quoted(line.split('|').nth(2).unwrap());
        let object = json(&[&arguments[..], &["--json"]].concat());
        for item in object[list].as_array().unwrap() {
            let missing: Vec<String> = keys(item).difference(&said).cloned().collect();
            assert!(missing.is_empty(), "{arguments:?} {list}: {missing:?} in {line}");
        }
    }
    let doctor = json(&["doctor", "--json"]);
    assert_eq!(keys(&doctor["verdict"]), ["next", "ready", "summary"].map(str::to_owned).into());
}
