//! Running the program, and manifests to run it on.

#![allow(dead_code, reason = "each test uses some of it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// Runs the program.
pub fn pagelift(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pagelift")).args(arguments).output().unwrap()
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

/// A small manifest with something changed.
pub fn changed(name: &str, change: impl Fn(&mut Value)) -> (TempDir, String) {
    let mut manifest: Value = serde_json::from_slice(&std::fs::read(small(name)).unwrap()).unwrap();
    change(&mut manifest);
    file(&serde_json::to_vec(&manifest).unwrap())
}
