//! One folder with everything that runs on a machine with a GPU and without Rust.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::c;
use crate::workspace::Workspace;
use crate::{nixl, process};

mod libraries;

#[derive(clap::Args)]
pub struct Args {
    /// The folder to make; it must not be there yet.
    folder: PathBuf,
    /// Also what hands imports over between two GPUs by NIXL, with its library. (Set what `cargo xtask nixl` prints.)
    #[arg(long)]
    nixl: bool,
}

/// What runs there.
const SCRIPT: &str = include_str!("run.sh");

/// What hands imports over there.
const HANDOFF: &str = include_str!("handoff.sh");

pub fn main(workspace: &Workspace, args: &Args) -> Result<ExitCode> {
    let folder = &args.folder;
    fs::create_dir(folder).with_context(|| format!("could not make {}", folder.display()))?;
    let commit = process::ask(
        Command::new("git").args(["describe", "--always", "--dirty"]).current_dir(workspace.root()),
    );
    let commit = commit.map_or_else(|_| "unknown".to_owned(), |answer| answer.stdout);
    let built = |words: &[&str], target| {
        let mut cargo = workspace.cargo();
        cargo.envs(nixl::environment(workspace));
        built(cargo, &commit, words, target)
    };
    let laws = built(&["test", "--no-run", "--package", "pagelift", "--test", "laws"], "laws")?;
    let mut words = vec!["build", "--package", "pagelift-cli"];
    if args.nixl {
        words.extend(["--features", "nixl"]);
    }
    let program = built(&words, "pagelift")?;
    for (from, name) in [(laws, "laws"), (program, "pagelift")] {
        let to = folder.join(name);
        fs::copy(&from, &to).with_context(|| format!("could not copy {}", from.display()))?;
        process::run(Command::new("strip").arg(&to))?;
    }
    for program in in_c(workspace, folder)? {
        process::run(Command::new("strip").arg(program))?;
    }
    copy_manifests(&workspace.root().join("manifests"), &folder.join("manifests"))?;
    fs::write(folder.join("commit"), &commit)?;
    let mut scripts = vec![("run.sh", SCRIPT)];
    if args.nixl {
        libraries::copy(workspace, &folder.join("nixl"))?;
        scripts.push(("handoff.sh", HANDOFF));
    }
    for (name, text) in scripts {
        let script = folder.join(name);
        fs::write(&script, text)?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    }
    println!(
        "{0} is ready. Take it to a machine with a GPU and run {0}/run.sh, which writes results.md.",
        folder.display()
    );
    Ok(ExitCode::SUCCESS)
}

/// Builds something of a commit in release, and asks cargo where it lies.
fn built(mut cargo: Command, commit: &str, words: &[&str], target: &str) -> Result<PathBuf> {
    // `pagelift bench` says it with its figures.
    let cargo = cargo.env("PAGELIFT_COMMIT", commit.trim());
    let said =
        process::read(cargo.args(words).args(["--release", "--message-format", "json-render-diagnostics"]))?;
    let of_target = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        let found = message["target"]["name"] == target;
        message["executable"].as_str().filter(|_| found).map(PathBuf::from)
    };
    said.lines().find_map(of_target).with_context(|| format!("cargo did not say where {target} lies"))
}

/// The example and the test in C that use a GPU, with the library in them.
fn in_c(workspace: &Workspace, folder: &Path) -> Result<[PathBuf; 2]> {
    let installed = c::install(workspace, &workspace.target().join("c/installed"))?;
    let programs = [("examples/c_engine.c", "c_engine"), ("tests/gpu/captures.c", "c_captures")];
    for (source, name) in programs {
        let mut compiler = c::compiler(&installed);
        compiler.arg("-O2").arg(workspace.root().join("c").join(source)).args(c::statically(&installed));
        process::run(compiler.arg("-o").arg(folder.join(name)))?;
    }
    Ok(programs.map(|(_, name)| folder.join(name)))
}

/// The manifests, with their folders.
fn copy_manifests(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("could not read {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_manifests(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_are_copied_with_their_folders() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::create_dir_all(from.join("small")).unwrap();
        fs::write(from.join("small/a.json"), "{}").unwrap();
        copy_manifests(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(to.join("small/a.json")).unwrap(), "{}");
    }
}
