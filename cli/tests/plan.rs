//! `plan`: its numbers are those of the run, and its picture is well formed and shows what they say.

#![allow(clippy::unwrap_used, reason = "a test says what it expects by panicking")]

mod support;

use std::fs;
use std::process::Command;

use roxmltree::{Document, Node};
use serde_json::Value;

use support::{all_manifests, changed, file, json, manifests, pagelift, small};

/// The plan of a manifest, and its picture.
fn planned(path: &str, mode: &str) -> (Value, String) {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("picture.svg");
    let plan = json(&["plan", path, "--json", "--mode", mode, "--svg", svg.to_str().unwrap()]);
    (plan, fs::read_to_string(svg).unwrap())
}

/// The elements that have all of these classes.
fn with_classes<'a>(node: Node<'a, 'a>, classes: &'a [&str]) -> impl Iterator<Item = Node<'a, 'a>> {
    node.descendants().filter(|node| {
        let own = node.attribute("class").unwrap_or_default();
        classes.iter().all(|class| own.split(' ').any(|own| own == *class))
    })
}

/// The sum of a number that elements of a class carry.
fn sum(node: Node<'_, '_>, class: &str, attribute: &str) -> u64 {
    let nodes: Vec<u64> = node
        .descendants()
        .filter(|node| node.attribute("class") == Some(class))
        .map(|node| node.attribute(attribute).unwrap().parse().unwrap())
        .collect();
    nodes.iter().sum()
}

#[test]
fn a_plan_says_what_restore_does() {
    for name in support::small_manifests() {
        for mode in ["whole", "exact", "exact-zeroed"] {
            let plan = json(&["plan", &name, "--json", "--mode", mode]);
            let run = json(&["restore", &name, "--json", "--mode", mode]);
            let same = [
                ("prompt_tokens", "prompt_tokens"),
                ("imported_tokens", "imported_tokens"),
                ("resume_at", "resume_at"),
                ("block_tokens", "block_tokens"),
                ("host_blocks", "host_blocks"),
                ("capacity", "capacity"),
                ("holes", "holes"),
                ("tail_page", "tail_page"),
                ("tail_tokens", "tail_tokens"),
                ("mode", "mode"),
                ("jobs", "jobs"),
                ("units", "units"),
                ("launches", "lift_launches"),
                ("bytes", "bytes_lifted"),
            ];
            for (of_plan, of_run) in same {
                assert!(!plan[of_plan].is_null(), "{of_plan}");
                assert_eq!(plan[of_plan], run[of_run], "{name} {mode}: {of_plan}");
            }
            let groups = plan["groups"].as_array().unwrap();
            let total = |field: &str| groups.iter().map(|group| group[field].as_u64().unwrap()).sum::<u64>();
            for field in ["jobs", "units", "bytes"] {
                assert_eq!(Some(total(field)), plan[field].as_u64(), "{name} {mode}: {field} of all groups");
            }
            let header = 48;
            let entries = plan["table_bytes"].as_u64().unwrap() - header - 32 * total("jobs");
            let listed = entries / 8;
            assert!(entries.is_multiple_of(8) && listed <= total("rows_lifted"), "{name} {mode}: {plan}");
        }
    }
}

#[test]
fn worked_numbers() {
    let deepseek = manifests().join("deepseek-v3-bf16.json");
    let plan = json(&["plan", deepseek.to_str().unwrap(), "--json"]);
    let main = &plan["groups"][0];
    assert_eq!((&plan["bytes"], &main["bytes"]), (&8_994_816.into(), &8_994_816.into()));
    assert_eq!(
        (&main["rows_lifted"], &main["holes_lifted"], &main["pages_lifted"]),
        (&128.into(), &109.into(), &1.into())
    );
    assert_eq!((&main["tokens_per_row"], &main["rows"]["host"]), (&1.into(), &128.into()));
    assert_eq!(main["segments"], serde_json::json!([{ "name": "latent", "row_bytes": 1152 }]));
    assert_eq!(main["widths"], serde_json::json!([16]));

    let v32 = manifests().join("deepseek-v3.2.json");
    let plan = json(&["plan", v32.to_str().unwrap(), "--json", "--mode", "exact"]);
    let indexer = &plan["groups"][1];
    assert_eq!(indexer["bytes"], serde_json::json!(32_019 * 132 * 61));
    assert_eq!((&indexer["rows_lifted"], &indexer["holes_lifted"]), (&32_019.into(), &0.into()));
    assert_eq!(indexer["widths"], serde_json::json!([16, 4]));
    assert_eq!(
        (&indexer["landing"], &indexer["lift"], &indexer["kind"]),
        (&"host".into(), &"all".into(), &"paged".into())
    );
}

/// The pools of DeepSeek-V3 have 2.6 GiB.
#[cfg(target_os = "linux")]
#[test]
fn a_plan_takes_none_of_the_pools_memory() {
    let deepseek = manifests().join("deepseek-v3-bf16.json");
    let limited = "ulimit -v 1000000; exec \"$0\" plan \"$1\" --json";
    let run = Command::new("sh")
        .args(["-c", limited, env!("CARGO_BIN_EXE_pagelift"), deepseek.to_str().unwrap()])
        .output()
        .unwrap();
    let plan: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert!(plan["host_pool_bytes"].as_u64().unwrap() > 1 << 31, "{plan}");
}

#[test]
fn a_table_for_a_person_names_every_group() {
    let output = pagelift(&["plan", &small("hybrid.json")]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    for word in ["main", "gdn.0", "nothing: landed on the GPU", "tail: 5 rows and 11 holes", "the whole page"]
    {
        assert!(text.contains(word), "{word} in\n{text}");
    }
}

#[test]
fn pictures_are_well_formed_and_show_each_block_and_lifted_page_once() {
    for path in all_manifests() {
        for mode in ["whole", "exact", "exact-zeroed"] {
            let (plan, svg) = planned(&path, mode);
            let document = Document::parse(&svg).unwrap();
            let root = document.root_element();
            let title = root.children().find(|node| node.has_tag_name("title")).unwrap();
            assert!(title.text().unwrap().contains(plan["model"].as_str().unwrap()), "{path}");
            assert!(!root.descendants().any(|node| node.has_tag_name("script")));
            let groups = plan["groups"].as_array().unwrap();
            let drawn: Vec<Node<'_, '_>> =
                root.descendants().filter(|node| node.attribute("class") == Some("group")).collect();
            assert_eq!(drawn.len(), groups.len(), "{path}");
            for (group, node) in groups.iter().zip(drawn) {
                let at = format!("{path} {mode} {}", group["name"]);
                assert_eq!(node.attribute("data-group"), group["name"].as_str(), "{at}");
                let count = |classes: &[&str]| with_classes(node, classes).count() as u64;
                // A run that is left out says how many blocks and lifted pages it stands for.
                let blocks = count(&["block"]) + count(&["page"]) + sum(node, "hidden", "data-blocks");
                let expected =
                    group["host_blocks"].as_u64().unwrap() + group["device_pages"].as_u64().unwrap();
                assert_eq!(blocks, expected, "{at}");
                let lifted = count(&["page", "lifted"]) + sum(node, "hidden", "data-lifted");
                assert_eq!(lifted, group["pages_lifted"].as_u64().unwrap(), "{at}");
                let zeroed = group["rows_zeroed"].as_u64().unwrap();
                assert_eq!(count(&["zeroed"]) > 0, zeroed > 0, "{at}");
                let holes = group["holes_lifted"].as_u64().unwrap();
                assert_eq!(count(&["lifted-hole"]) > 0, holes > 0, "{at}");
            }
        }
    }
}

/// Numbers of a rectangle.
fn rectangle(node: Node<'_, '_>) -> [f64; 4] {
    ["x", "y", "width", "height"].map(|name| node.attribute(name).unwrap().parse().unwrap())
}

#[test]
fn rows_are_to_scale_and_parts_stay_in_their_block() {
    for (name, imported) in [("sub-block.json", 5.0 / 16.0), ("unaligned.json", 5.0 / 16.0)] {
        let (_, svg) = planned(&small(name), "exact");
        let document = Document::parse(&svg).unwrap();
        let group =
            document.root_element().descendants().find(|n| n.attribute("class") == Some("group")).unwrap();
        let pages: Vec<Node<'_, '_>> = with_classes(group, &["page", "lifted"]).collect();
        let page = pages.first().unwrap();
        let part = |class: &str| {
            let found =
                page.children().find(|n| n.has_tag_name("rect") && n.attribute("class") == Some(class));
            rectangle(found.unwrap())
        };
        let (frame, lifted) = (part("frame"), part("lifted"));
        assert_eq!((lifted[0], lifted[1], lifted[3]), (frame[0], frame[1], frame[3]), "{name}");
        assert!((lifted[2] / frame[2] - imported).abs() < 0.01, "{name}: {lifted:?} of {frame:?}");
    }
    for path in all_manifests() {
        let (_, svg) = planned(&path, "exact-zeroed");
        let document = Document::parse(&svg).unwrap();
        let root = document.root_element();
        let width: f64 = root.attribute("width").unwrap().parse().unwrap();
        let height: f64 = root.attribute("height").unwrap().parse().unwrap();
        for node in root.descendants().filter(|n| n.has_tag_name("rect") && n.attribute("x").is_some()) {
            let [x, y, w, h] = rectangle(node);
            assert!(
                x >= 0.0 && w >= 0.0 && x + w <= width && y + h <= height,
                "{path}: {:?}",
                rectangle(node)
            );
        }
        for text in root.descendants().filter(|n| n.has_tag_name("text")) {
            let y: f64 = text.attribute("y").unwrap().parse().unwrap();
            assert!(y < height, "{path}: {:?}", text.text());
        }
    }
}

#[test]
fn a_person_is_told_where_the_picture_is() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("p.svg");
    let plan = |more: &[&str]| {
        let output = pagelift(&[&["plan", &small("aligned.json")][..], more].concat());
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(!plan(&[]).contains("picture"));
    assert!(plan(&["--svg", svg.to_str().unwrap()]).contains("picture"));
}

#[test]
fn names_are_escaped() {
    let (_folder, path) = changed("aligned.json", |manifest| {
        manifest["model"] = "a < b & \"c\" ]]> \u{fffe}".into();
        manifest["groups"][0]["name"] = "<script>".into();
    });
    let (_, svg) = planned(&path, "whole");
    let document = Document::parse(&svg).unwrap();
    let title = document.descendants().find(|node| node.has_tag_name("title")).unwrap();
    assert_eq!(title.text(), Some("Restoring a < b & \"c\" ]]> \u{fffd}"));
    assert!(document.descendants().any(|node| node.attribute("data-group") == Some("<script>")));
}

#[test]
fn wrong_input_is_refused() {
    let output = pagelift(&["plan", &small("aligned.json"), "--svg", "/nowhere/at/all.svg"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("/nowhere/at/all.svg") && output.stdout.is_empty(), "{message}");
    let (_folder, path) = file(b"{}");
    assert_eq!(pagelift(&["plan", &path]).status.code(), Some(2));
}

#[test]
fn the_picture_in_the_readme_is_what_the_program_draws() {
    let manifest = manifests().join("deepseek-v3.2.json");
    let (_, svg) = planned(manifest.to_str().unwrap(), "whole");
    let committed = manifests().join("../docs/images/restore.svg");
    let redo = "pagelift plan manifests/deepseek-v3.2.json --svg docs/images/restore.svg";
    assert!(fs::read_to_string(committed).unwrap() == svg, "draw it again: {redo}");
}
