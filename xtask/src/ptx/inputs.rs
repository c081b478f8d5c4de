//! Everything that decides what PTX comes out, as one hash.
//!
//! A comment moves the line directives, so the sources count byte for byte. The crates that our macro is built with
//! do not count: they read and write Rust, and none of their code is in the PTX.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use toml_edit::DocumentMut;
use walkdir::WalkDir;

use super::recipe::{self, ARCHITECTURES};
use crate::hash::Pieces;
use crate::workspace::{KERNELS, Workspace};

/// The hash of sources, manifests, profile and flags: the same in any folder of any machine.
pub fn hash(workspace: &Workspace) -> Result<String> {
    let packages = workspace.built_from(KERNELS)?;
    let mut pieces = Pieces::default();
    for (name, content) in settings(workspace.root(), packages.keys())? {
        pieces.add(&name, content.as_bytes());
    }
    for architecture in ARCHITECTURES {
        let flags = [recipe::arguments(), recipe::flags(architecture)].concat();
        pieces.add(&format!("flags for {}", architecture.name), flags.join("\n").as_bytes());
    }
    pieces.add("bound of each entry", recipe::bound().as_bytes());
    pieces.add("flags of the last step", recipe::LAST_STEP.join("\n").as_bytes());
    add_files(&mut pieces, workspace.root(), packages.values())?;
    Ok(pieces.finish())
}

/// Adds each package's manifest and sources, by their sorted names relative to the root.
fn add_files<'a>(pieces: &mut Pieces, root: &Path, folders: impl Iterator<Item = &'a PathBuf>) -> Result<()> {
    let mut files = Vec::new();
    for folder in folders {
        files.push(folder.join("Cargo.toml"));
        for entry in WalkDir::new(folder.join("src")) {
            let entry = entry?;
            if entry.file_type().is_file() {
                files.push(entry.into_path());
            }
        }
    }
    let mut named = files.iter().map(|file| Ok((name(root, file)?, file))).collect::<Result<Vec<_>>>()?;
    named.sort();
    for (name, file) in named {
        let content = fs::read(file).with_context(|| format!("could not read {}", file.display()))?;
        pieces.add(&name, &content);
    }
    Ok(())
}

/// A file's name relative to the root, with the same separators everywhere.
fn name(root: &Path, file: &Path) -> Result<String> {
    let relative = file
        .strip_prefix(root)
        .with_context(|| format!("{} is outside {}", file.display(), root.display()))?;
    let parts = relative.components().map(|part| part.as_os_str().to_string_lossy());
    Ok(parts.collect::<Vec<_>>().join("/"))
}

/// What the root manifest says that reaches the PTX: the profile, the edition, and how our own crates are taken.
fn settings<'a>(root: &Path, packages: impl Iterator<Item = &'a String>) -> Result<Vec<(String, String)>> {
    let path = root.join("Cargo.toml");
    let text = fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))?;
    let manifest: DocumentMut = text.parse().with_context(|| format!("{} is not TOML", path.display()))?;
    let fixed = [vec!["profile", recipe::PROFILE], vec!["workspace", "package", "edition"]];
    let dependencies = packages.map(|package| vec!["workspace", "dependencies", package]);
    let mut settings = Vec::new();
    for keys in fixed.into_iter().chain(dependencies) {
        let found = keys.iter().try_fold(manifest.as_item(), |item, key| item.get(key));
        settings.push((keys.join("."), found.map(ToString::to_string).unwrap_or_default()));
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Pieces;

    fn hash_of(root: &Path) -> String {
        let mut pieces = Pieces::default();
        let folders = [root.join("a"), root.join("b")];
        add_files(&mut pieces, root, folders.iter()).unwrap();
        for (name, content) in settings(root, ["a".to_owned()].iter()).unwrap() {
            pieces.add(&name, content.as_bytes());
        }
        pieces.finish()
    }

    fn tree() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for package in ["a", "b"] {
            fs::create_dir_all(root.path().join(package).join("src")).unwrap();
            fs::write(root.path().join(package).join("Cargo.toml"), "[package]\n").unwrap();
            fs::write(root.path().join(package).join("src/lib.rs"), "fn f() {}\n").unwrap();
        }
        fs::write(root.path().join("Cargo.toml"), "[profile.ptx]\nopt-level = 3\n").unwrap();
        root
    }

    #[test]
    fn the_folder_does_not_matter() {
        assert_eq!(hash_of(tree().path()), hash_of(tree().path()));
    }

    #[test]
    fn each_input_matters() {
        let before = hash_of(tree().path());
        let changes = [
            ("a/src/lib.rs", "fn f() {} // a comment\n"),
            ("a/src/new.rs", ""),
            ("b/Cargo.toml", "[package]\nedition = \"2021\"\n"),
            ("Cargo.toml", "[profile.ptx]\nopt-level = 2\n"),
            ("Cargo.toml", "[profile.ptx]\nopt-level = 3\n[workspace.dependencies]\na = \"1\"\n"),
        ];
        for (file, content) in changes {
            let root = tree();
            fs::write(root.path().join(file), content).unwrap();
            assert_ne!(before, hash_of(root.path()), "{file}: {content}");
        }
    }

    #[test]
    fn what_does_not_reach_the_ptx_does_not_matter() {
        let root = tree();
        let before = hash_of(root.path());
        fs::create_dir(root.path().join("a/tests")).unwrap();
        fs::write(root.path().join("a/tests/t.rs"), "").unwrap();
        fs::write(
            root.path().join("Cargo.toml"),
            "[profile.ptx]\nopt-level = 3\n[profile.dev]\nopt-level = 1\n",
        )
        .unwrap();
        assert_eq!(before, hash_of(root.path()));
    }
}
