//! Packages every crate that is meant to be published, and compiles each as its users would get it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::process;
use crate::test::Verdict;
use crate::workspace::Workspace;

/// Packages and verifies.
///
/// For that, cargo makes a registry of the packages, under the target folder. It takes a registry's packages to never
/// change while their version stays the same, and ours do; so what it unpacked and built in an earlier run has to go.
pub fn run(workspace: &Workspace) -> Result<Verdict> {
    let target = workspace.target().join("package-check");
    remove(&target)?;
    let cache = home::cargo_home().context("there is no home folder for cargo")?.join("registry/src");
    forget(&cache, &workspace.releases())?;
    let mut cargo = workspace.cargo();
    // Uncommitted changes are a person's normal state while testing.
    cargo.args(["package", "--allow-dirty"]).env("CARGO_TARGET_DIR", &target);
    cargo.args(workspace.published().map(|name| format!("--package={name}")));
    process::run(&mut cargo)?;
    Ok(Verdict::plain())
}

/// Removes our packages from what cargo has unpacked of registries that are mere folders: those without a host's name
/// before the dash.
fn forget(cache: &Path, releases: &[String]) -> Result<()> {
    if !cache.is_dir() {
        return Ok(());
    }
    let registries = fs::read_dir(cache).with_context(|| format!("could not list {}", cache.display()))?;
    for registry in registries {
        let registry = registry.with_context(|| format!("could not list {}", cache.display()))?;
        if registry.file_name().to_string_lossy().starts_with('-') {
            for release in releases {
                remove(&registry.path().join(release))?;
            }
        }
    }
    Ok(())
}

/// Removes a folder if it is there.
fn remove(folder: &Path) -> Result<()> {
    if folder.is_dir() {
        fs::remove_dir_all(folder).with_context(|| format!("could not remove {}", folder.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_packages_of_nameless_registries_are_forgotten() {
        let cache = tempfile::tempdir().unwrap();
        let folders = ["-12ab/pagelift-0.1.0", "-12ab/other-0.1.0", "example.org-34cd/pagelift-0.1.0"];
        for folder in folders {
            fs::create_dir_all(cache.path().join(folder)).unwrap();
        }
        forget(cache.path(), &["pagelift-0.1.0".to_owned(), "absent-0.1.0".to_owned()]).unwrap();
        let left = folders.map(|folder| cache.path().join(folder).is_dir());
        assert_eq!(left, [false, true, true]);
        forget(&cache.path().join("absent"), &[]).unwrap();
    }
}
