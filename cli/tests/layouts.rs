//! `layouts`: the list and each description, against numbers that were worked out by hand.

#![allow(clippy::unwrap_used, reason = "a test says what it expects by panicking")]

mod support;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use support::{all_manifests, json, manifests, pagelift};

fn layouts() -> Vec<Value> {
    json(&["layouts", "--json"])["layouts"].as_array().unwrap().clone()
}

/// Tokens a row, bytes a row, segments and access widths, for blocks of 64 tokens.
#[test]
fn worked_numbers() {
    let expected = [
        ("mla-bf16", json!(1), 1152, 1, vec![16]),
        ("fp8-ds-mla", json!(1), 656, 1, vec![16]),
        ("indexer-fp8", json!(1), 132, 2, vec![16, 4]),
        ("indexer-mxfp4", json!(1), 68, 2, vec![16, 4]),
        ("deepseek-v4", json!(1), 584, 2, vec![16, 8]),
        ("deepseek-v4.1", json!(1), 528, 2, vec![16]),
        ("qsa-main-bf16", json!(1), 2 * 1024, 2, vec![16]),
        ("qsa-main-fp8", json!(1), 2 * 512, 2, vec![16]),
        ("qsa-compressed-bf16", json!(4), 256, 1, vec![16]),
        ("qsa-compressed-fp8", json!(4), 128, 1, vec![16]),
        ("dense", json!(1), 2 * (2 * 128 + 8), 6, vec![16, 8]),
        ("ring", Value::Null, 256, 1, vec![16]),
        ("gdn", Value::Null, 102_400 + 3_145_728, 2, vec![16]),
        ("ssm", Value::Null, 5 * 10_240 * 2 + 128 * 64 * 128 * 4, 2, vec![16]),
        ("ple", Value::Null, (3 * 3 + 2) * 2048 * 4 * 2, 1, vec![16]),
        ("segments", json!(1), 1024, 2, vec![16]),
        ("state", Value::Null, 69_632, 2, vec![16]),
    ];
    let found = layouts();
    assert_eq!(found.len(), expected.len());
    for (layout, (name, tokens, row_bytes, segments, widths)) in found.iter().zip(expected) {
        assert_eq!(layout["name"], name);
        assert_eq!(layout["tokens_per_row"], tokens, "{name}");
        assert_eq!(layout["row_bytes"], row_bytes, "{name}");
        assert_eq!(layout["segments"].as_array().unwrap().len(), segments, "{name}");
        assert_eq!(layout["widths"], json!(widths), "{name}");
        for field in ["from", "about"] {
            assert!(!layout[field].as_str().unwrap().is_empty(), "{name}: {field}");
        }
    }
    let page = |name: &str| found.iter().find(|layout| layout["name"] == name).unwrap()["page_bytes"].clone();
    assert_eq!(page("indexer-fp8"), 8448);
    assert_eq!(page("deepseek-v4"), 65 * 576);
    assert_eq!(page("ring"), 8 * 256);
}

/// manifests/README.md describes every layout, and names its segments and fields as the program does.
#[test]
fn the_format_names_segments_and_fields_as_they_are() {
    let text = std::fs::read_to_string(manifests().join("README.md")).unwrap();
    for layout in layouts() {
        let name = layout["name"].as_str().unwrap();
        let row = text.lines().find(|line| line.starts_with(&format!("| `{name}` |"))).unwrap();
        let named = |names: &Value| -> Vec<String> {
            names.as_array().unwrap().iter().map(|of| of["name"].as_str().unwrap().to_owned()).collect()
        };
        let mut expected = named(&layout["fields"]);
        // Whoever writes these two names their segments; of many heads the first stands for all.
        if !["segments", "state"].contains(&name) {
            let other_head = |segment: &String| ["head1", "k.1", "v.1"].contains(&segment.as_str());
            expected.extend(named(&layout["segments"]).into_iter().filter(|segment| !other_head(segment)));
        }
        for word in expected {
            assert!(row.contains(&format!("`{word}`")), "{name}: no `{word}` in {row}");
        }
    }
}

/// Segments lie in their page, and no byte of it belongs to two rows.
#[test]
fn segments_share_no_byte_and_stay_in_their_page() {
    for layout in layouts() {
        let name = layout["name"].as_str().unwrap();
        let number = |value: &Value| value.as_u64().unwrap();
        let mut rows = Vec::new();
        for segment in layout["segments"].as_array().unwrap() {
            for row in 0..number(&layout["rows"]) {
                let start = number(&segment["offset"]) + row * number(&segment["row_stride"]);
                rows.push((start, start + number(&segment["row_bytes"])));
            }
        }
        rows.sort_unstable();
        assert!(rows.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{name}");
        assert!(rows.last().unwrap().1 <= number(&layout["page_bytes"]), "{name}");
    }
}

#[test]
fn each_layout_is_described_with_its_fields_and_a_page() {
    for layout in layouts() {
        let name = layout["name"].as_str().unwrap();
        assert_eq!(json(&["layouts", name, "--json"]), layout);
        let output = pagelift(&["layouts", name]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.starts_with(name) && text.contains('█'), "{text}");
        let example = layout["example"].as_object().unwrap();
        assert_eq!(example["kind"], name);
        for field in layout["fields"].as_array().unwrap() {
            let field = field["name"].as_str().unwrap();
            assert!(text.contains(&format!("  {field} ")), "{field} in\n{text}");
        }
        // The example has no field that is not described.
        let fields = layout["fields"].as_array().unwrap();
        let described: BTreeSet<&str> = fields.iter().map(|field| field["name"].as_str().unwrap()).collect();
        assert!(example.keys().all(|key| key == "kind" || described.contains(key.as_str())), "{name}");
        let drawn = text.lines().find(|line| line.starts_with("  █")).unwrap();
        assert_eq!(drawn.trim_start().chars().count(), 64, "{text}");
    }
}

#[test]
fn every_layout_of_the_manifests_is_listed() {
    let names: BTreeSet<String> =
        layouts().iter().map(|layout| layout["name"].as_str().unwrap().to_owned()).collect();
    for path in all_manifests() {
        let manifest: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        for group in manifest["groups"].as_array().unwrap() {
            assert!(names.contains(group["layout"]["kind"].as_str().unwrap()), "{path}");
        }
    }
    let output = pagelift(&["layouts"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && names.iter().all(|name| text.contains(name)), "{text}");
}

#[test]
fn an_unknown_layout_is_refused_with_those_there_are() {
    for name in ["mla", "", "x\u{1b}[31m"] {
        let output = pagelift(&["layouts", name]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains("`mla-bf16`, ") && !message.contains('\u{1b}'), "{message}");
    }
}
