//! Manifests that must load, and manifests that must not.

mod blocks;
mod limits;
mod shipped;
mod text;
mod wrong;

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Group, Manifest, ManifestError};

/// Every manifest that comes with the program.
pub fn shipped() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests");
    let folders = [root.clone(), root.join("small")];
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let mut paths: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    assert!(paths.len() >= 8, "{paths:?}");
    paths
}

/// A shipped manifest by its path below `manifests/`.
pub fn shipped_file(name: &str) -> PathBuf {
    shipped().into_iter().find(|path| path.ends_with(name)).unwrap()
}

fn group<'m>(manifest: &'m Manifest, name: &str) -> &'m Group {
    manifest.groups().iter().find(|group| group.name == name).unwrap()
}

fn parse(text: &[u8]) -> Result<Manifest, ManifestError> {
    Manifest::parse(text, Path::new("m.json"))
}

fn read(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(shipped_file(name)).unwrap()).unwrap()
}
