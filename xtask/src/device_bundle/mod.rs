//! One folder with everything that runs on a machine with a GPU and without Rust.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::c;
use crate::workspace::Workspace;
use crate::{nixl, process};

mod libraries;

#[derive(clap::Args)]
pub struct Args {
    /// The folder to make; it must not be there yet. Where something fails it is not made.
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
    whole(&args.folder, |folder| fill(workspace, folder, args.nixl))?;
    println!(
        "{0} is ready. Take it to a machine with a GPU and run {0}/run.sh, which writes results.md.",
        args.folder.display()
    );
    Ok(ExitCode::SUCCESS)
}

/// Makes a folder that is there with all that `fill` puts into it, or not at all.
fn whole(folder: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let failed = || format!("could not make {}", folder.display());
    if folder.symlink_metadata().is_ok() {
        bail!("{}: it is there already; name another, or remove it", failed());
    }
    // Beside it, so that it only has to be renamed.
    let beside = folder.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    let mut part = tempfile::Builder::new();
    // As any folder: less what the user's mask says.
    let part = part.prefix(".device-bundle-").permissions(fs::Permissions::from_mode(0o777));
    let part = part.tempdir_in(beside).with_context(failed)?;
    fill(part.path())?;
    fs::rename(part.path(), folder).with_context(failed)?;
    // It is no temporary one any more.
    let _ = part.keep();
    Ok(())
}

/// Builds everything, and puts it into a folder.
fn fill(workspace: &Workspace, folder: &Path, with_nixl: bool) -> Result<()> {
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
    if with_nixl {
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
    if with_nixl {
        libraries::copy(workspace, &folder.join("nixl"))?;
        scripts.push(("handoff.sh", HANDOFF));
    }
    for (name, text) in scripts {
        let script = folder.join(name);
        fs::write(&script, text)?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
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
    fn a_bundle_that_cannot_be_made_leaves_no_folder() {
        let outer = tempfile::tempdir().unwrap();
        let names = || {
            let entries = fs::read_dir(outer.path()).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
        };
        let folder = outer.path().join("bundle");
        let write = |text: &'static str| move |into: &Path| Ok(fs::write(into.join("commit"), text)?);
        let failed = whole(&folder, |into| {
            write("half")(into)?;
            bail!("a build failed")
        });
        assert_eq!(failed.unwrap_err().to_string(), "a build failed");
        assert!(names().is_empty());
        // So it can be tried again; and what is there stays as it is.
        whole(&folder, write("first")).unwrap();
        let twice = whole(&folder, write("second")).unwrap_err();
        assert!(twice.to_string().contains("it is there already"), "{twice}");
        assert_eq!(names(), ["bundle"]);
        assert_eq!(fs::read_to_string(folder.join("commit")).unwrap(), "first");
        // Others may read it as they may read any that this user makes.
        let plain = outer.path().join("plain");
        fs::create_dir(&plain).unwrap();
        let mode = |of: &Path| of.metadata().unwrap().permissions().mode();
        assert_eq!(mode(&folder), mode(&plain));
    }

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
