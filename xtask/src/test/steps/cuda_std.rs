//! The kernels against rust-cuda's own `cuda_std`, so that our facade cannot drift from it.
//!
//! A copy of the kernels' crates, in a workspace of its own, takes the published crate where the facade was.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use toml_edit::{Array, DocumentMut, value};
use walkdir::WalkDir;

use crate::process;
use crate::test::Verdict;
use crate::workspace::{KERNELS, Workspace};

/// The last published version.
const VERSION: &str = "=0.2.2";

/// Our crate in its place.
const FACADE: &str = "pagelift-cuda-std";

/// Versions of all that `cuda_std` depends on, so that the check says the same tomorrow.
const LOCK: &str = "xtask/cuda_std.lock";

/// Type-checks the kernels with the published crate.
pub fn run(workspace: &Workspace) -> Result<Verdict> {
    let scratch = workspace.target().join("cuda-std");
    let packages = workspace.built_from(KERNELS)?;
    let mut members = Array::new();
    for (name, folder) in packages.iter().filter(|(name, _)| *name != FACADE) {
        let relative =
            folder.strip_prefix(workspace.root()).with_context(|| format!("{name} is elsewhere"))?;
        copy(folder, &scratch.join(relative))?;
        members.push(relative.to_string_lossy().as_ref());
    }
    let root = rewrite(&workspace.root().join("Cargo.toml"), |manifest| only_workspace(manifest, members))?;
    put(&scratch.join("Cargo.toml"), &root)?;
    let kernels = workspace.kernels()?.join("Cargo.toml");
    let relative = kernels.strip_prefix(workspace.root()).context("the kernels are elsewhere")?;
    put(&scratch.join(relative), &rewrite(&kernels, published)?)?;
    let lock = workspace.root().join(LOCK);
    fs::copy(&lock, scratch.join("Cargo.lock"))
        .with_context(|| format!("could not copy {}", lock.display()))?;
    check(workspace, &scratch)
}

fn check(workspace: &Workspace, scratch: &Path) -> Result<Verdict> {
    let cargo = |arguments: &[&str]| {
        let mut cargo = workspace.cargo();
        cargo
            .current_dir(scratch)
            .args(arguments)
            .env("CARGO_TARGET_DIR", scratch.join("target"))
            // The published macro asks for a target name that rustc has dropped since.
            .env("CARGO_ENCODED_RUSTFLAGS", "-Aunexpected_cfgs");
        cargo
    };
    // A manifest that we got wrong must not pass for a registry that cannot be reached.
    process::ask(&mut cargo(&["metadata", "--no-deps", "--format-version=1"]))?;
    if let Err(error) = process::run(&mut cargo(&["fetch"])) {
        return Ok(Verdict::skipped(format!("cuda_std could not be fetched ({error:#})"), "reach crates.io"));
    }
    process::run(&mut cargo(&["check", "--offline", "--package", KERNELS]))?;
    Ok(Verdict::passed(format!("cuda_std {VERSION}")))
}

/// Keeps of the root manifest what members inherit.
fn only_workspace(manifest: &mut DocumentMut, members: Array) -> Result<()> {
    manifest.retain(|key, _| key == "workspace");
    let Some(workspace) = manifest.get_mut("workspace").and_then(|item| item.as_table_mut()) else {
        bail!("the root manifest has no workspace");
    };
    workspace.insert("members", value(members));
    workspace.remove("default-members");
    Ok(())
}

/// Takes the published crate where the facade was.
fn published(manifest: &mut DocumentMut) -> Result<()> {
    let Some(dependency) = manifest.get_mut("dependencies").and_then(|table| table.get_mut("cuda_std"))
    else {
        bail!("the kernels do not depend on cuda_std");
    };
    *dependency = value(VERSION);
    Ok(())
}

fn rewrite(path: &Path, change: impl FnOnce(&mut DocumentMut) -> Result<()>) -> Result<String> {
    let text = fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))?;
    let mut manifest: DocumentMut =
        text.parse().with_context(|| format!("{} is not TOML", path.display()))?;
    change(&mut manifest).with_context(|| path.display().to_string())?;
    Ok(manifest.to_string())
}

/// Copies a folder anew, writing only what differs, so that cargo rebuilds only that.
fn copy(from: &Path, to: &Path) -> Result<()> {
    for entry in
        WalkDir::new(to).into_iter().filter_map(Result::ok).filter(|entry| entry.file_type().is_file())
    {
        let relative = entry.path().strip_prefix(to)?;
        if !from.join(relative).exists() {
            fs::remove_file(entry.path())
                .with_context(|| format!("could not remove {}", entry.path().display()))?;
        }
    }
    for entry in WalkDir::new(from) {
        let entry = entry?;
        if entry.file_type().is_file() {
            let content = fs::read(entry.path())?;
            write_if_new(&to.join(entry.path().strip_prefix(from)?), &content)?;
        }
    }
    Ok(())
}

fn put(path: &Path, text: &str) -> Result<()> {
    write_if_new(path, text.as_bytes())
}

fn write_if_new(path: &Path, content: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|present| present == content) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("could not make {}", folder.display()))?;
    }
    fs::write(path, content).with_context(|| format!("could not write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_facade_gives_way_to_the_published_crate() {
        let text = "[dependencies]\ncuda_std = { package = \"pagelift-cuda-std\", path = \"../cuda_std\" }\n";
        let mut manifest: DocumentMut = text.parse().unwrap();
        published(&mut manifest).unwrap();
        assert_eq!(manifest.to_string(), "[dependencies]\ncuda_std = \"=0.2.2\"\n");
        assert!(published(&mut DocumentMut::new()).is_err());
    }

    #[test]
    fn members_inherit_but_the_root_package_goes() {
        let text = "[workspace]\nmembers = [\"a\"]\ndefault-members = [\"a\"]\n[workspace.package]\nversion = \"1\"\n\
                    [package]\nname = \"root\"\n[profile.ptx]\nopt-level = 3\n";
        let mut manifest: DocumentMut = text.parse().unwrap();
        only_workspace(&mut manifest, Array::from_iter(["b"])).unwrap();
        let rest = manifest.to_string();
        assert!(rest.contains("members = [\"b\"]") && rest.contains("version = \"1\""), "{rest}");
        assert!(!rest.contains("root") && !rest.contains("profile") && !rest.contains("default"), "{rest}");
    }

    #[test]
    fn a_copy_forgets_what_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        for file in ["a.rs", "b.rs"] {
            put(&from.join(file), file).unwrap();
        }
        copy(&from, &to).unwrap();
        fs::remove_file(from.join("b.rs")).unwrap();
        copy(&from, &to).unwrap();
        assert!(to.join("a.rs").is_file() && !to.join("b.rs").exists());
    }
}
