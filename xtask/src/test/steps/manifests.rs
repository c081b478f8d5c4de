//! The main job on every manifest: `pagelift restore`, which verifies each byte itself.

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

/// Restores all manifests in all modes.
pub fn run(workspace: &Workspace) -> Result<Verdict> {
    let program = build(workspace)?;
    let manifests = manifests(&workspace.root().join("manifests"))?;
    let mut wrong = Vec::new();
    let mut runs = 0_usize;
    for manifest in &manifests {
        for mode in MODES {
            for tokens in TOKENS {
                let start = Instant::now();
                let shown = manifest.strip_prefix(workspace.root()).unwrap_or(manifest).display();
                let what = format!("{shown} --mode {mode} --generate {tokens}");
                runs = runs.saturating_add(1);
                match restore(&program, manifest, mode, *tokens) {
                    Ok(()) => eprintln!("{what}: verified in {:.1} s", start.elapsed().as_secs_f64()),
                    Err(error) => {
                        eprintln!("{what}: {error:#}");
                        wrong.push(what);
                    }
                }
            }
        }
    }
    if !wrong.is_empty() {
        bail!("{} of {runs} restores failed:\n  {}", wrong.len(), wrong.join("\n  "));
    }
    Ok(Verdict::passed(format!("{runs} restores of {} manifests verified", manifests.len())))
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

/// All manifests in a folder and the folders below it.
fn manifests(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut manifests = Vec::new();
    for entry in WalkDir::new(folder).sort_by_file_name() {
        let path = entry.with_context(|| format!("could not list {}", folder.display()))?.into_path();
        if path.extension().is_some_and(|extension| extension == "json") {
            manifests.push(path);
        }
    }
    if manifests.is_empty() {
        bail!("{} holds no manifest", folder.display());
    }
    Ok(manifests)
}

fn restore(program: &Path, manifest: &Path, mode: &str, tokens: u32) -> Result<()> {
    let mut command = Command::new(program);
    command.arg("restore").arg(manifest).args(["--json", "--mode", mode]);
    if tokens > 0 {
        command.args(["--generate", &tokens.to_string()]);
    }
    verified(&process::ask(&mut command)?.stdout)
}

/// Fails unless the program's object says that all was verified.
fn verified(printed: &str) -> Result<()> {
    let object: Value = serde_json::from_str(printed).context("it printed no JSON object")?;
    match object.get("verified") {
        Some(Value::Bool(true)) => Ok(()),
        other => bail!("'verified' is {}", other.map_or_else(|| "absent".to_owned(), Value::to_string)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_true_is_verified() {
        assert!(verified("{\"verified\": true, \"holes\": 109}\n").is_ok());
        for other in
            ["", "{}", "{\"verified\": false}", "{\"verified\": \"true\"}", "{\"verified\": true} {}"]
        {
            assert!(verified(other).is_err(), "{other}");
        }
    }
}
