//! `bench` on the CPU, in small: every work is done, and proved, by every way.

#![allow(clippy::unwrap_used, reason = "a test says what it expects by panicking")]

mod support;

use support::{json, pagelift};

const SMALL: [&str; 7] = ["bench", "--backend", "cpu", "--small", "--repeats", "2", "--budgets"];

#[test]
fn every_work_is_measured_by_every_way() {
    let report = json(&[&SMALL[..], &["1,all", "--json"]].concat());
    let figures = report["figures"].as_array().unwrap();
    let letters: Vec<&str> = figures.iter().map(|one| one["figure"].as_str().unwrap()).collect();
    assert_eq!(letters[..21].join(""), "abbbcdddddeefgghiiiii");
    assert_eq!(letters[21..], ["pieces"; 7]);
    let workers = report["machine"]["workers"].as_u64().unwrap();
    for figure in figures.iter().filter(|figure| figure["figure"] != "i") {
        let ways = figure["ways"].as_array().unwrap();
        let budgets = ways.iter().filter(|way| way["way"] == "kernel").map(|way| way["budget"].as_u64());
        let expected = if workers == 1 { vec![Some(1)] } else { vec![Some(1), Some(workers)] };
        assert_eq!(budgets.collect::<Vec<_>>(), expected, "{figure}");
        assert_eq!(ways[0]["ratio"], 1.0);
        for way in ways {
            let [p10, median, p90] =
                ["p10", "median", "p90"].map(|at| way["microseconds"][at].as_f64().unwrap());
            assert!(p10 <= median && median <= p90, "{way}");
            let moves = figure["bytes"].as_u64().unwrap() > 0;
            assert_eq!(way["gigabytes_per_second"].is_number(), moves, "{way}");
        }
        // A processor has no bars to meet.
        assert_eq!(figure["bars"].as_array().unwrap().len(), 0);
    }
    let steps = figures.iter().filter(|figure| figure["figure"] == "i");
    let jobs = |one: &serde_json::Value| -> Vec<Option<u64>> {
        one["ways"].as_array().unwrap().iter().map(|way| way["jobs"].as_u64()).collect()
    };
    let sizes = [12, 63, 189, 627].map(Some);
    let alike = sizes.map(|size| vec![None, size]);
    let in_turns = [&[None][..], &sizes].concat();
    assert_eq!(steps.map(jobs).collect::<Vec<_>>(), [&alike[..], &[in_turns]].concat());
    // 4 layers of 128 rows; 4 layers of 64 rows in two groups; 512 rows.
    let bytes = |index: usize| figures[index]["bytes"].as_u64().unwrap();
    assert_eq!([bytes(0), bytes(1), bytes(5)], [4 * 128 * 1152, 4 * 64 * (656 + 132), 512 * 1024]);
    let fragments = |index: usize| figures[index]["fragments"].as_u64().unwrap();
    assert_eq!([fragments(0), fragments(1), fragments(2)], [4, 8, 4 * 3 * 64]);
}

#[test]
fn a_folder_has_the_report_and_its_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("new");
    let words = ["1", "--only", "a,b,i,pieces", "--out", out.to_str().unwrap()];
    assert!(pagelift(&[&SMALL[..], &words].concat()).status.success());
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    let report: serde_json::Value = serde_json::from_str(&read("bench.json")).unwrap();
    let text = read("bench.md");
    for figure in report["figures"].as_array().unwrap() {
        assert!(text.contains(figure["work"].as_str().unwrap()), "{text}");
    }
    // Two figures by budget; a contiguous copy and the kernel by size; steps alike and in turns.
    for (name, series, points) in [("budgets.svg", 2, 2), ("pieces.svg", 2, 14), ("jobs.svg", 2, 8)] {
        assert!(text.contains(&format!("({name})")), "{text}");
        let picture = read(name);
        let document = roxmltree::Document::parse(&picture).unwrap();
        let lines: Vec<_> = document
            .descendants()
            .filter_map(|node| node.attribute("points").filter(|_| node.has_tag_name("polyline")))
            .collect();
        let found: usize = lines.iter().map(|line| line.split(' ').count()).sum();
        assert_eq!((lines.len(), found), (series, points), "{name}");
    }
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let failed = pagelift(&[&SMALL[..], &["1", "--only", "h", "--out", file.to_str().unwrap()]].concat());
    assert_eq!(failed.status.code(), Some(2));
}

#[test]
fn without_a_gpu_there_is_nothing_to_measure() {
    if json(&["doctor", "--json"])["backend"] == "cuda" {
        return;
    }
    for backend in ["auto", "cuda"] {
        let output = pagelift(&["bench", "--backend", backend]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{message}");
        assert!(message.contains("cpu"), "{message}");
    }
}

#[test]
fn figures_and_budgets_are_chosen() {
    let output = pagelift(&[&SMALL[..], &["1", "--only", "h,f"]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let headings: Vec<&str> =
        text.lines().filter(|line| line.contains("  ") && !line.contains('│')).collect();
    assert!(
        matches!(headings[..], [f, h] if f.starts_with("f  512") && h.starts_with("h  an empty")),
        "{text}"
    );
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    for (option, value) in [("--budgets", "0"), ("--budgets", "x"), ("--only", "z"), ("--repeats", "0")] {
        assert_eq!(pagelift(&["bench", option, value]).status.code(), Some(2), "{option} {value}");
    }
}

#[test]
fn what_cannot_be_measured_here_is_refused() {
    for (words, said) in [
        (&["--only", "a,j"], "figure j needs a GPU"),
        (&["--budgets", "99999"], "each of `--budgets` is more"),
    ] {
        let output = pagelift(&[&["bench", "--backend", "cpu", "--small"][..], words].concat());
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && message.contains(said), "{message}");
    }
}
