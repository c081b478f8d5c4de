//! `pagelift prefill` and `pagelift decode`: an import between processes, over the real library. Each side compares every byte
//! of its pools, and both the digests of every block.

use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{all_manifests, command, documented, file, keys, small};

/// A run of P, and where it listens.
struct Producer {
    child: Child,
    addresses: String,
    folder: TempDir,
}

impl Producer {
    fn start(manifest: &str, arguments: &[&str]) -> Self {
        Self::patient(60, manifest, arguments)
    }

    /// P, that waits for so many seconds.
    fn patient(seconds: u32, manifest: &str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ready = folder.path().join("ready");
        let mut command = command(&["prefill", manifest, "--json", "--backend", "cpu"]);
        command
            .args(["--timeout", &seconds.to_string()])
            .args(arguments)
            .arg("--ready")
            .arg(&ready)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = secret(&mut command, folder.path()).spawn().unwrap();
        let start = Instant::now();
        while !ready.exists() {
            if let Some(status) = child.try_wait().unwrap() {
                panic!("P has ended before it listened, with {status}: {:?}", child.wait_with_output());
            }
            assert!(start.elapsed() < Duration::from_secs(60), "P does not listen");
            std::thread::sleep(Duration::from_millis(5));
        }
        let addresses = std::fs::read_to_string(&ready).unwrap().trim().to_owned();
        Self { child, addresses, folder }
    }

    fn decode(&self, manifest: &str, arguments: &[&str]) -> Output {
        let mut command = command(&["decode", manifest, "--json", "--backend", "cpu", "--timeout", "60"]);
        command.args(["--from", &self.addresses]).args(arguments);
        secret(&mut command, self.folder.path()).output().unwrap()
    }

    /// It ends by itself.
    fn finish(self) -> Output {
        self.child.wait_with_output().unwrap()
    }
}

/// Both sides make a secret in a folder of the test.
pub fn secret<'c>(command: &'c mut std::process::Command, folder: &Path) -> &'c mut std::process::Command {
    command.env("XDG_RUNTIME_DIR", folder).env_remove("PAGELIFT_SECRET_FILE")
}

fn report(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Hands an import over by a policy, and returns what both sides say of it.
fn hand_over(manifest: &str, policy: &str, ranks: u32, arguments: &[&str]) -> [Value; 2] {
    let ranks = ranks.to_string();
    let both = ["--tp", &ranks, "--policy", policy];
    let producer = Producer::start(manifest, &both);
    let decoded = producer.decode(manifest, &[&both, arguments].concat());
    let prefilled = producer.finish();
    [report(&prefilled), report(&decoded)]
}

/// A manifest with two layers of each group at most, so that its pools are small: nothing else of it is another.
fn few_layers(manifest: &str) -> (TempDir, String) {
    let mut value: Value = serde_json::from_slice(&std::fs::read(manifest).unwrap()).unwrap();
    let mut needed = std::collections::BTreeMap::<String, u64>::new();
    for group in value["groups"].as_array_mut().unwrap() {
        let layers = group["layers"].as_u64().unwrap().min(2);
        group["layers"] = layers.into();
        for side in ["host", "device"].iter().filter_map(|memory| group.get(memory)) {
            let regions = if side["kv_regions"] == "two" { 2 } else { 1 };
            let end = side["first_layer"].as_u64().unwrap_or(0) + layers * regions;
            let layers = needed.entry(side["pool"].as_str().unwrap().into()).or_default();
            *layers = end.max(*layers);
        }
    }
    for pool in value["pools"].as_array_mut().unwrap() {
        pool["layers"] = needed[pool["name"].as_str().unwrap()].into();
    }
    file(&serde_json::to_vec(&value).unwrap())
}

#[test]
fn every_manifest_is_handed_over_on_one_rank_and_on_two() {
    for manifest in all_manifests() {
        let (_folder, manifest) = few_layers(&manifest);
        let [p, d] = hand_over(&manifest, "lift", 1, &["--generate", "20"]);
        assert_eq!(p["exports"][0]["end"], "read", "{manifest}: {p}");
        assert_eq!((&p["verified"], &d["verified"]), (&true.into(), &true.into()));
        assert_eq!(p["exports"][0]["digests"], d["digests_compared"], "{manifest}");
        assert!(d["digests_compared"].as_u64().unwrap() > 0 && d["bytes_read"].as_u64().unwrap() > 0);
        assert_eq!(d["generated_tokens"], 20);
        let [p, d] = hand_over(&manifest, "lift", 2, &[]);
        for rank in 0..2 {
            assert_eq!(p["ranks"][rank]["exports"][0]["end"], "read", "{manifest}: {p}");
            assert_eq!(d["ranks"][rank]["verified"], true, "{manifest}: {d}");
            assert_eq!(d["ranks"][rank]["rank"], rank);
        }
    }
}

#[test]
fn a_prompt_of_1152_tokens_is_handed_over_and_sixteen_tokens_follow() {
    let manifest = small("gqa.json");
    let producer = Producer::start(&manifest, &["--requests", "3", "--arrangement", "5"]);
    for request in ["1", "2", "3"] {
        let d = report(&producer.decode(&manifest, &["--generate", "16", "--request", request]));
        assert_eq!((&d["prompt_tokens"], &d["generated_tokens"]), (&1152.into(), &16.into()));
        assert_eq!(d["verified"], true);
        assert!(d["pages_sealed"].as_u64().unwrap() >= 9 && d["published"].as_u64().unwrap() >= 8, "{d}");
    }
    let p = report(&producer.finish());
    assert_eq!(p["exports"].as_array().unwrap().len(), 3);
}

#[test]
fn what_both_print_as_json_is_documented() {
    let documented = documented();
    let [p, d] = hand_over(&small("hybrid.json"), "lift", 1, &[]);
    assert_eq!(keys(&p), documented["prefill"][0]);
    assert_eq!(keys(&p["exports"][0]), documented["prefill"][1]);
    assert_eq!(keys(&d), &documented["decode"][0] | &documented["restore"][0]);
    let [p, d] = hand_over(&small("aligned.json"), "lift", 2, &[]);
    assert_eq!(keys(&p), ["ranks", "verified"].map(str::to_owned).into());
    assert_eq!(keys(&p), keys(&d));
}

#[test]
fn what_is_rounded_down_is_computed_again() {
    for name in ["unaligned.json", "hybrid.json", "sub-block.json", "kernel-pages.json"] {
        let [p, d] = hand_over(&small(name), "round-down", 1, &["--generate", "5"]);
        assert_eq!((&p["verified"], &d["verified"]), (&true.into(), &true.into()));
        assert_eq!(d["policy"], "round-down");
        assert!(d["left_tokens"].as_u64().unwrap() > 0, "{name}: {d}");
        // Of a prompt that is shorter than a block nothing is read, and P hears of it all the same.
        let short = matches!(name, "sub-block.json" | "kernel-pages.json");
        assert_eq!(d["bytes_read"] == 0, short, "{name}: {d}");
        assert_eq!(p["exports"][0]["end"], "read");
    }
}

#[test]
fn what_lands_on_the_device_is_written_back_and_sealed() {
    for name in ["unaligned.json", "hybrid.json", "gqa.json", "kernel-pages.json", "qsa-fp8.json"] {
        // Without a step that overwrites and mirrors them, rows of a ring are there only as they were written back.
        for generate in ["0", "100"] {
            let [p, d] = hand_over(&small(name), "direct", 1, &["--generate", generate]);
            assert_eq!((&p["verified"], &d["verified"]), (&true.into(), &true.into()));
            assert_eq!((&d["policy"], &d["bytes_lifted"]), (&"land-on-device".into(), &0.into()), "{name}");
            assert!(generate == "0" || d["pages_sealed"].as_u64().unwrap() > 0, "{name}: {d}");
        }
    }
}

#[test]
fn a_byte_that_differs_is_told_by_group_and_block() {
    let manifest = small("hybrid.json");
    let producer = Producer::start(&manifest, &["--inject", "spoil"]);
    let d = producer.decode(&manifest, &[]);
    let said = String::from_utf8_lossy(&d.stderr).into_owned();
    assert_eq!(d.status.code(), Some(1), "{said}");
    assert!(said.contains("group `main`: the digest of the block at position 0 is 0x"), "{said}");
    // P finds it too, among its own bytes.
    let p = producer.finish();
    assert_eq!(p.status.code(), Some(1));
}

#[test]
fn a_producer_with_another_seed_is_told_from_bytes_that_were_lost() {
    let manifest = small("hybrid.json");
    let producer = Producer::start(&manifest, &["--seed", "5"]);
    let d = producer.decode(&manifest, &["--seed", "6"]);
    let said = String::from_utf8_lossy(&d.stderr).into_owned();
    assert_eq!(d.status.code(), Some(1), "{said}");
    assert!(said.contains("the producer says the same of its bytes: is its --seed 6 too?"), "{said}");
    assert_eq!(producer.finish().status.code(), Some(0));
}

#[test]
fn case_24_a_side_with_another_manifest_is_refused_by_field() {
    let producer = Producer::patient(8, &small("aligned.json"), &[]);
    let d = producer.decode(&small("unaligned.json"), &[]);
    let said = String::from_utf8_lossy(&d.stderr).into_owned();
    assert_eq!(d.status.code(), Some(1), "{said}");
    assert!(
        said.contains("the payload schemas differ: `groups.indexer` is present here and absent there"),
        "{said}"
    );
    // P waits for somebody else, and ends when it has waited long enough.
    let p = producer.finish();
    let said = String::from_utf8_lossy(&p.stderr).into_owned();
    assert_eq!(p.status.code(), Some(1), "{said}");
    assert!(said.contains("0 of 1 exports are free and 0 are held"), "{said}");
}

#[test]
fn another_secret_is_refused_and_between_machines_one_must_be_named() {
    let (_folder, other) = file(b"sixteen other bytes");
    let mut producer = Producer::start(&small("aligned.json"), &[]);
    let d = producer.decode(&small("aligned.json"), &["--secret-file", &other]);
    let said = String::from_utf8_lossy(&d.stderr).into_owned();
    assert!(said.contains("do both sides have the same secret?"), "{said}");
    // P waits on for who knows it.
    assert!(producer.child.try_wait().unwrap().is_none());
    producer.child.kill().unwrap();
    drop(producer.finish());
    let mut elsewhere = command(&["prefill", &small("aligned.json"), "--listen", "0.0.0.0:0"]);
    let output = elsewhere.env_remove("PAGELIFT_SECRET_FILE").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--secret-file"), "{said}");
}

#[test]
fn without_the_library_both_say_what_to_do() {
    let file = "/nowhere/libnixl_capi.so";
    for arguments in [&["prefill"][..], &["decode", "--from", "127.0.0.1:1", "--timeout", "1"]] {
        let mut command = command(&[arguments[0], &small("aligned.json"), "--backend", "cpu"]);
        let output = command.args(&arguments[1..]).env("PAGELIFT_NIXL", file).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("pip install nixl-cu12"), "{said}");
    }
}
