//! The main job on every manifest: `pagelift restore`, which verifies each byte itself.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use cargo_metadata::Message;
use serde_json::Value;
use walkdir::WalkDir;

use crate::process;
use crate::test::Verdict;
use crate::workspace::Workspace;

/// Values of `--mode`.
const MODES: &[&str] = &["whole", "exact", "exact-zeroed"];

/// Tokens to generate after the lift: none, and enough to fill and seal pages of every manifest.
const TOKENS: &[u32] = &[0, 300];

/// One call of the program.
struct Restore<'a> {
    manifest: &'a Path,
    mode: &'static str,
    tokens: u32,
}

/// Restores all manifests in all modes.
pub fn run(workspace: &Workspace) -> Result<Verdict> {
    let program = build(workspace)?;
    let manifests = manifests(workspace.root())?;
    let restores = restores(&manifests);
    let mut wrong = Vec::new();
    for restore in &restores {
        let start = Instant::now();
        let seconds = || start.elapsed().as_secs_f64();
        match restore.run(workspace.root(), &program) {
            Ok(()) => eprintln!("{restore}: verified in {:.1} s", seconds()),
            Err(error) => {
                eprintln!("{restore}: {error:#}");
                wrong.push(restore.to_string());
            }
        }
    }
    if let Some(first) = wrong.first() {
        bail!(
            "{} of {} restores failed, each with its reason above; the first was {first}",
            wrong.len(),
            restores.len()
        );
    }
    Ok(Verdict::passed(format!("{} restores of {} manifests verified", restores.len(), manifests.len())))
}

fn restores(manifests: &[PathBuf]) -> Vec<Restore<'_>> {
    let mut restores = Vec::new();
    for manifest in manifests {
        for &mode in MODES {
            restores.extend(TOKENS.iter().map(|&tokens| Restore { manifest, mode, tokens }));
        }
    }
    restores
}

impl Restore<'_> {
    fn run(&self, root: &Path, program: &Path) -> Result<()> {
        let mut command = Command::new(program);
        command.current_dir(root).arg("restore").arg(self.manifest).args(["--json", "--mode", self.mode]);
        if self.tokens > 0 {
            command.args(["--generate", &self.tokens.to_string()]);
        }
        verified(&process::ask(&mut command)?.stdout, self.tokens > 0)
    }
}

impl fmt::Display for Restore<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} --mode {} --generate {}", self.manifest.display(), self.mode, self.tokens)
    }
}

/// Builds the program and asks cargo where it is.
fn build(workspace: &Workspace) -> Result<PathBuf> {
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--release", "--package=pagelift-cli", "--bin=pagelift"]);
    let messages = process::read(cargo.arg("--message-format=json-render-diagnostics"))?;
    for message in Message::parse_stream(messages.as_bytes()) {
        if let Message::CompilerArtifact(artifact) = message.context("cargo's messages")?
            && let Some(program) = artifact.executable
        {
            return Ok(program.into_std_path_buf());
        }
    }
    bail!("cargo built no program")
}

/// All manifests in the folder of that name and the folders below it, relative to the root.
fn manifests(root: &Path) -> Result<Vec<PathBuf>> {
    let folder = root.join("manifests");
    let mut manifests = Vec::new();
    for entry in WalkDir::new(&folder).sort_by_file_name() {
        let path = entry.with_context(|| format!("could not list {}", folder.display()))?.into_path();
        if path.extension().is_some_and(|extension| extension == "json") {
            manifests.push(path.strip_prefix(root)?.to_owned());
        }
    }
    if manifests.is_empty() {
        bail!("{} holds no manifest", folder.display());
    }
    Ok(manifests)
}

/// Fails unless the program's object says that all was verified and, where tokens were generated, that pages were
/// sealed.
fn verified(printed: &str, generated: bool) -> Result<()> {
    let object: Value = serde_json::from_str(printed).context("it printed no JSON object")?;
    let word = |field: &str| object.get(field).map_or_else(|| "absent".to_owned(), Value::to_string);
    if object.get("verified") != Some(&Value::Bool(true)) {
        bail!("'verified' is {}", word("verified"));
    }
    let sealed = object.get("pages_sealed").and_then(Value::as_u64);
    if generated && sealed.is_none_or(|pages| pages == 0) {
        bail!("no page was sealed: 'pages_sealed' is {}", word("pages_sealed"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_true_is_verified() {
        assert!(verified("{\"verified\": true, \"holes\": 109}\n", false).is_ok());
        assert!(verified("{\"verified\": true, \"pages_sealed\": 1}", true).is_ok());
        assert!(verified("{\"verified\": true, \"pages_sealed\": 0}", true).is_err());
        for other in
            ["", "{}", "{\"verified\": false}", "{\"verified\": \"true\"}", "{\"verified\": true} {}"]
        {
            assert!(verified(other, false).is_err(), "{other}");
        }
    }
}
