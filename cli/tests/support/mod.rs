//! Running the program, and manifests to run it on.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what it expects by panicking")]
#![allow(dead_code, reason = "each test uses some of it")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// The program, to be run.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pagelift"));
    command.args(arguments);
    command
}

/// Runs the program.
pub fn pagelift(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

/// Runs the program, which must succeed, and reads the one JSON object that it prints.
pub fn json(arguments: &[&str]) -> Value {
    let output = pagelift(arguments);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {message}");
    serde_json::from_slice(&output.stdout).unwrap()
}

pub fn manifests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests")
}

pub fn small(name: &str) -> String {
    manifests().join("small").join(name).to_str().unwrap().to_owned()
}

/// The manifests of a folder.
fn of(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|e| e == "json")).collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths.into_iter().map(|path| path.to_str().unwrap().to_owned()).collect()
}

pub fn small_manifests() -> Vec<String> {
    of(&manifests().join("small"))
}

pub fn all_manifests() -> Vec<String> {
    [small_manifests(), of(&manifests())].concat()
}

/// A file with these bytes, gone with the returned folder.
pub fn file(bytes: &[u8]) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("manifest.json");
    std::fs::write(&path, bytes).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

/// The log of an engine of two ranks: one import is lifted and decoded, one is aborted, one has no room.
pub fn lifecycle_log() -> String {
    use pagelift::import::{Policy, Recurrence};
    use pagelift::lifecycle::*;
    use pagelift::quantity::Tokens;
    let options = LifecycleOptions {
        ranks: 2,
        writers: Ranks::first(1),
        block_tokens: 16,
        recurrence: Recurrence::None,
        requests: 4,
        blocks: 16,
        pages: 2,
        keep: 0,
        draft_lag: 0,
        retries: 0,
        limits: FrameLimits::default(),
    };
    let mut lifecycle = Lifecycle::new(options).unwrap();
    let mut log = serde_json::to_string(&LogHeader::of(&lifecycle)).unwrap() + "\n";
    let mut tell = |event| {
        let entry = lifecycle.record(event);
        log += &(serde_json::to_string(&entry).unwrap() + "\n");
        entry.effects
    };
    let hashes: Vec<_> = [7, 8].map(ContentHash::new).into();
    let admission = Admission {
        prompt: Tokens::new(35),
        policy: Policy::LiftTail,
        producer: true,
        hashes: hashes.into(),
    };
    let [request, aborted] = [(); 2].map(|()| match tell(Event::Admit(admission.clone())).first() {
        Some(Effect::Admitted { request, .. }) => *request,
        other => panic!("{other:?}"),
    });
    tell(Event::Admit(admission));
    tell(Event::Abort { request: aborted });
    tell(Event::Posted { request: aborted, ranks: Ranks::NONE, each: 0 });
    tell(Event::Posted { request, ranks: Ranks::first(1), each: 1 });
    tell(Event::Read { request, rank: Rank::new(0), part: 0, read: Read::Landed });
    for rank in [1, 0].map(Rank::new) {
        tell(Event::Answer { request, round: 1, rank, answer: Answer::Done });
    }
    tell(Event::Begin { request, tokens: 2 });
    tell(Event::Accept { request, step: 1, tokens: 1 });
    tell(Event::Finish { request });
    for rank in [0, 1].map(Rank::new) {
        tell(Event::Answer { request, round: 2, rank, answer: Answer::Done });
    }
    log
}

/// A small manifest with something changed.
pub fn changed(name: &str, change: impl Fn(&mut Value)) -> (TempDir, String) {
    let mut manifest: Value = serde_json::from_slice(&std::fs::read(small(name)).unwrap()).unwrap();
    change(&mut manifest);
    file(&serde_json::to_vec(&manifest).unwrap())
}

/// The names in backquotes of a text.
pub fn quoted(text: &str) -> BTreeSet<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The fields that docs/json.md has, by heading: those of the first table, and of each later one.
pub fn documented() -> BTreeMap<String, Vec<BTreeSet<String>>> {
    let text = std::fs::read_to_string(manifests().join("../docs/json.md")).unwrap();
    let mut sections = BTreeMap::new();
    for section in text.split("\n## ").skip(1) {
        let (heading, body) = section.split_once('\n').unwrap();
        let mut tables: Vec<BTreeSet<String>> = Vec::new();
        for line in body.lines() {
            if line.starts_with("| field ") {
                tables.push(BTreeSet::new());
            } else if line.starts_with("| `") {
                let column = line.split('|').nth(1).unwrap();
                tables.last_mut().unwrap().extend(quoted(column));
            }
        }
        sections.insert(heading.to_owned(), tables);
    }
    sections
}

/// The names of an object's fields.
pub fn keys(object: &Value) -> BTreeSet<String> {
    object.as_object().unwrap().keys().cloned().collect()
}
