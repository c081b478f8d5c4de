//! From the kernels' sources to PTX.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use cargo_metadata::Message;

use super::compiler::Compiler;
use super::recipe::{self, Architecture};
use crate::process;
use crate::workspace::Workspace;

/// Builds the PTX of one architecture and returns its text.
pub fn build(workspace: &Workspace, compiler: &Compiler, architecture: &Architecture) -> Result<String> {
    // A folder for each, or every change of flags would have the library built again.
    let target = workspace.target().join("ptx").join(architecture.name);
    let outputs = target.join(recipe::TRIPLE).join(recipe::PROFILE).join("deps");
    // What an earlier build left there must not be taken for this one's.
    for stale in assembly(&outputs)? {
        fs::remove_file(&stale).with_context(|| format!("could not remove {}", stale.display()))?;
    }
    let mut cargo = Command::new(&compiler.cargo);
    cargo
        .current_dir(workspace.kernels()?)
        .args(recipe::arguments())
        .args(["--message-format=json-render-diagnostics", "--"])
        .args(recipe::LAST_STEP)
        .env("RUSTC", &compiler.rustc)
        // The PTX backend and a rebuilt core are unstable features, and the compiler is a released one.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_TARGET_DIR", &target)
        .env("CARGO_ENCODED_RUSTFLAGS", encoded_flags(workspace, compiler, architecture)?)
        .env_remove("RUSTC_WRAPPER")
        .env_remove("RUSTC_WORKSPACE_WRAPPER");
    let strangers = third_parties(&process::read(&mut cargo)?)?;
    if !strangers.is_empty() {
        bail!("third-party crates in the PTX: {}; only our own sources may change it", strangers.join(", "));
    }
    match assembly(&outputs)?.as_slice() {
        [one] => {
            let text =
                fs::read_to_string(one).with_context(|| format!("could not read {}", one.display()))?;
            Ok(bounded(&text))
        }
        other => bail!("expected one .s file in {}, found {}", outputs.display(), other.len()),
    }
}

/// The flags of the recipe and of this machine, as cargo takes them from its environment.
fn encoded_flags(workspace: &Workspace, compiler: &Compiler, architecture: &Architecture) -> Result<String> {
    let registry = home::cargo_home().context("there is no home folder for cargo")?.join("registry");
    let mut flags = recipe::flags(architecture);
    flags.extend(recipe::remaps(workspace.root(), &registry, &compiler.library, &compiler.identity.commit));
    Ok(flags.join("\u{1f}"))
}

/// The packages from a registry that were compiled for the device, by cargo's messages.
///
/// Those of macros are compiled for the host and do not count.
fn third_parties(messages: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for message in Message::parse_stream(messages.as_bytes()) {
        let Message::CompilerArtifact(artifact) = message.context("cargo's messages")? else { continue };
        let mut files = artifact.filenames.iter();
        let on_device = files.any(|file| file.components().any(|part| part.as_str() == recipe::TRIPLE));
        if on_device && !artifact.package_id.repr.starts_with("path+") {
            found.push(artifact.target.name);
        }
    }
    Ok(found)
}

/// Adds the bound on a block's threads to each entry.
fn bounded(text: &str) -> String {
    let mut bounded = String::with_capacity(text.len());
    let mut in_parameters = false;
    for line in text.split_inclusive('\n') {
        bounded.push_str(line);
        in_parameters |= line.contains(".entry ");
        if in_parameters && line.trim_end().ends_with(')') {
            in_parameters = false;
            bounded.push_str(&recipe::bound());
            bounded.push('\n');
        }
    }
    bounded
}

/// The assembly files in a folder; none if there is no such folder.
fn assembly(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(folder).with_context(|| format!("could not list {}", folder.display()))?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    Ok(paths.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "s")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(name: &str, id: &str, file: &str) -> String {
        let target = serde_json::json!({
            "kind": ["lib"], "crate_types": ["lib"], "name": name, "src_path": "lib.rs", "edition": "2021",
            "doc": true, "doctest": true, "test": true,
        });
        let profile = serde_json::json!({
            "opt_level": "3", "debuginfo": 0, "debug_assertions": false, "overflow_checks": false, "test": false,
        });
        let message = serde_json::json!({
            "reason": "compiler-artifact", "package_id": id, "manifest_path": "Cargo.toml", "target": target,
            "profile": profile, "features": [], "filenames": [file], "executable": null, "fresh": false,
        });
        format!("{message}\n")
    }

    #[test]
    fn each_entry_is_bounded_and_nothing_else_changes() {
        let text = "\t// .globl\tone\n.visible .entry one(\n\t.param .align 8 .b8 one_param_0[48]\n)\n{\n\tret;\n\n}\n\
                    .func two(\n\t.param .b32 two_param_0\n)\n{\n}\n.visible .entry three()\n{\n}\n";
        let want = text
            .replace("[48]\n)\n", "[48]\n)\n.maxntid 768, 1, 1\n")
            .replace("three()\n", "three()\n.maxntid 768, 1, 1\n");
        assert_eq!(bounded(text), want);
        assert_eq!(want.matches(".maxntid").count(), 2);
    }

    #[test]
    fn only_registry_crates_built_for_the_device_are_strangers() {
        let registry = "registry+https://example.org/index";
        let messages = [
            artifact("syn", &format!("{registry}#syn@2.0.0"), "target/ptx/release/deps/libsyn.rlib"),
            artifact(
                "half",
                &format!("{registry}#half@2.7.0"),
                "target/ptx/nvptx64-nvidia-cuda/ptx/libhalf.rlib",
            ),
            artifact(
                "core",
                "path+file:///src/core#0.0.0",
                "target/ptx/nvptx64-nvidia-cuda/ptx/libcore.rlib",
            ),
        ];
        assert_eq!(third_parties(&messages.concat()).unwrap(), ["half"]);
    }
}
