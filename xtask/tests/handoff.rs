//! The script that hands imports over on another machine, with a program in place of `pagelift` that hands nothing over.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what it expects by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// Of each of its runs P says another number, and D fails where there is a file `failing` beside it.
const PROGRAM: &str = r#"#!/bin/sh
home=$(dirname "$0")
case $1 in
    prefill)
        echo x >> "$home/runs"
        echo "P of run $(wc -l < "$home/runs")" >&2
        touch ready
        ;;
    decode)
        echo "D is here" >&2
        [ -e "$home/failing" ] && exit 1
        echo '{ "bytes_read": 3, "digests_compared": 2 }'
        ;;
esac
"#;

/// One GPU.
const NVIDIA_SMI: &str = r#"#!/bin/sh
case $1 in
    --list-gpus) echo "GPU 0: of no make" ;;
    *) echo "of no make, 1.2" ;;
esac
"#;

/// A bundle, as far as the script needs one.
struct Bundle(TempDir);

impl Bundle {
    fn new() -> Self {
        let own = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(own.path().join("nixl/some.libs")).unwrap();
        fs::create_dir(own.path().join("bin")).unwrap();
        fs::write(own.path().join("commit"), "abcdefg").unwrap();
        let script = include_str!("../src/device_bundle/handoff.sh");
        for (name, text) in [("pagelift", PROGRAM), ("bin/nvidia-smi", NVIDIA_SMI), ("handoff.sh", script)] {
            let file = own.path().join(name);
            fs::write(&file, text).unwrap();
            fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        own
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Runs some part of it; whether all passed.
    fn run(&self, part: &str) -> bool {
        let path = std::env::var("PATH").unwrap();
        let mut script = Command::new(self.path().join("handoff.sh"));
        script.arg(part).env("PATH", format!("{}:{path}", self.path().join("bin").display()));
        script.output().unwrap().status.success()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(name)).unwrap()
    }

    fn failing(&self, failing: bool) {
        let file = self.path().join("failing");
        if failing { fs::write(file, "").unwrap() } else { fs::remove_file(file).unwrap() }
    }

    /// What is kept of imports that have failed.
    fn failed(&self) -> usize {
        let names = fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_str().unwrap().starts_with("failed-")).count()
    }
}

#[test]
fn what_the_transports_said_stays_where_nothing_is_run_again() {
    let bundle = Bundle::new();
    assert!(bundle.run("probe"));
    let said = bundle.read("probe.log");
    assert_eq!(said.matches("== ").count(), 5, "{said}");
    assert!(said.contains("== cuda,cuda,direct\nP of run 5\nD is here\n"), "{said}");
    assert!(bundle.run("probe"));
    assert_eq!(bundle.read("probe.log"), said);
    assert_eq!(bundle.read("runs").lines().count(), 5);
    // One of them is run again: the others' words stay, and its own are the new ones.
    let rows = bundle.read("rows.md");
    let others: String =
        rows.lines().filter(|row| !row.contains("cuda 0 to cpu 0")).map(|row| format!("{row}\n")).collect();
    fs::write(bundle.path().join("rows.md"), others).unwrap();
    assert!(bundle.run("probe"));
    assert_eq!(bundle.read("probe.log"), said.replace("P of run 3", "P of run 6"));
}

#[test]
fn logs_of_a_failure_go_once_it_passes() {
    let bundle = Bundle::new();
    bundle.failing(true);
    assert!(!bundle.run("no-ipc"));
    assert_eq!((bundle.failed(), bundle.read("handoff.md").matches("FAILED").count()), (6, 3));
    bundle.failing(false);
    assert!(bundle.run("no-ipc"));
    assert_eq!((bundle.failed(), bundle.read("handoff.md").matches("FAILED").count()), (0, 0));
}

#[test]
fn logs_of_another_commit_go_with_its_rows() {
    let bundle = Bundle::new();
    bundle.failing(true);
    assert!(!bundle.run("no-ipc"));
    bundle.failing(false);
    fs::write(bundle.path().join("commit"), "gfedcba").unwrap();
    assert!(bundle.run("segments"));
    assert_eq!(bundle.failed(), 0);
}
