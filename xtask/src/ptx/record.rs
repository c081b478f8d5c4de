//! `BUILD.json` beside the PTX: what it was built from, and by what.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::compiler::Identity;
use super::inputs;
use super::recipe::{self, ARCHITECTURES, Architecture};

use crate::hash;
use crate::workspace::Workspace;

const ABOUT: &str = "Written by `cargo xtask ptx`. Do not edit it, nor the PTX.";

/// How to get out of any disagreement.
pub const REMEDY: &str = "run `cargo xtask ptx` and commit what it writes";

/// What `BUILD.json` says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    about: String,
    pub compiler: Identity,
    /// Flags of the compiler by architecture, without those that hide this machine's folders.
    flags: BTreeMap<String, Vec<String>>,
    /// Hash of all inputs.
    inputs: String,
    /// Hash of each file.
    outputs: BTreeMap<String, String>,
}

/// One PTX file's text and what it was built for.
pub struct Ptx {
    pub architecture: &'static Architecture,
    pub text: String,
}

/// Writes the PTX files and their record.
pub fn write(workspace: &Workspace, compiler: &Identity, files: &[Ptx]) -> Result<()> {
    let folder = folder(workspace)?;
    fs::create_dir_all(&folder).with_context(|| format!("could not make {}", folder.display()))?;
    let mut outputs = BTreeMap::new();
    for file in files {
        let name = file.architecture.file();
        put(&folder.join(&name), &file.text)?;
        outputs.insert(name, hash::of(file.text.as_bytes()));
    }
    let record = Record {
        about: ABOUT.to_owned(),
        compiler: compiler.clone(),
        flags: flags(),
        inputs: inputs::hash(workspace)?,
        outputs,
    };
    put(&folder.join("BUILD.json"), &format!("{}\n", serde_json::to_string_pretty(&record)?))
}

/// Reads the record.
pub fn read(workspace: &Workspace) -> Result<Record> {
    let path = folder(workspace)?.join("BUILD.json");
    let text = fs::read_to_string(&path).with_context(|| format!("no {}: {REMEDY}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is damaged: {REMEDY}", path.display()))
}

/// Reads the committed PTX files.
pub fn committed(workspace: &Workspace) -> Result<Vec<Ptx>> {
    let folder = folder(workspace)?;
    let read = |architecture: &'static Architecture| {
        let path = folder.join(architecture.file());
        let text = fs::read_to_string(&path).with_context(|| format!("no {}: {REMEDY}", path.display()))?;
        Ok(Ptx { architecture, text })
    };
    ARCHITECTURES.iter().map(read).collect()
}

/// Fails unless the committed PTX is what the present sources and flags were recorded to give.
pub fn compare(workspace: &Workspace, record: &Record, files: &[Ptx]) -> Result<()> {
    if record.flags != flags() {
        bail!("the flags of the PTX have changed since it was built: {REMEDY}");
    }
    let inputs = inputs::hash(workspace)?;
    if record.inputs != inputs {
        bail!(
            "the sources of the PTX have changed since it was built ({} recorded, {inputs} now): {REMEDY}",
            record.inputs
        );
    }
    for file in files {
        let name = file.architecture.file();
        if record.outputs.get(&name) != Some(&hash::of(file.text.as_bytes())) {
            bail!("{name} is not the file that was built: {REMEDY}");
        }
    }
    Ok(())
}

/// The folder of the committed PTX.
pub fn folder(workspace: &Workspace) -> Result<PathBuf> {
    Ok(workspace.kernels()?.join("ptx"))
}

fn flags() -> BTreeMap<String, Vec<String>> {
    ARCHITECTURES
        .iter()
        .map(|architecture| (architecture.name.to_owned(), recipe::flags(architecture)))
        .collect()
}

fn put(path: &std::path::Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("could not write {}", path.display()))
}
