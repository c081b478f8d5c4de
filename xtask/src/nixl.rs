//! NIXL's library, and what its bindings are built with: `cargo xtask nixl`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::workspace::Workspace;
use crate::{process, tools};

/// The library, with its plugins.
const LIBRARY: &str = "nixl-cu12==1.5.1";

/// libclang, which reads the bindings' header.
const CLANG: &str = "libclang==18.1.1";

/// The variable that names the library's file.
const VARIABLE: &str = "PAGELIFT_NIXL";

/// Installs both, unless they are there, and says what to set.
pub fn install(workspace: &Workspace) -> Result<()> {
    for (wheel, file) in [(LIBRARY, "libnixl_capi.so"), (CLANG, "libclang.so")] {
        let folder = folder(workspace, wheel);
        if tools::find(&folder, file).is_none() {
            tools::pip_install(wheel, &folder)?;
        }
        let found = tools::find(&folder, file);
        found.with_context(|| format!("{wheel} has no {file} for this machine"))?;
    }
    println!("to build and run with NIXL:");
    for (name, value) in environment(workspace) {
        println!("export {name}='{}'", value.display());
    }
    println!("cargo run --release --features nixl -- doctor");
    Ok(())
}

/// The library's file, as the user has set it, or as it was installed here.
pub fn library(workspace: &Workspace) -> Result<PathBuf> {
    let set = std::env::var_os(VARIABLE).map(PathBuf::from);
    let found = set.or_else(|| tools::find(&folder(workspace, LIBRARY), "libnixl_capi.so"));
    found.context("NIXL's library is not here: cargo xtask nixl")
}

/// What to set so that the feature `nixl` builds and runs; what the user has set stays.
pub fn environment(workspace: &Workspace) -> Vec<(&'static str, PathBuf)> {
    let mut variables = Vec::new();
    if std::env::var_os(VARIABLE).is_none()
        && let Some(file) = tools::find(&folder(workspace, LIBRARY), "libnixl_capi.so")
    {
        variables.push((VARIABLE, file));
    }
    if std::env::var_os("LIBCLANG_PATH").is_none()
        && let Some(file) = tools::find(&folder(workspace, CLANG), "libclang.so")
    {
        variables.extend(file.parent().map(|folder| ("LIBCLANG_PATH", folder.to_owned())));
        // The wheel has the library alone, without the headers of the language itself: those of g++ will do.
        let asked = process::ask(Command::new("g++").arg("-print-file-name=include"));
        if let Ok(answer) = asked {
            variables.push(("BINDGEN_EXTRA_CLANG_ARGS", format!("-I{}", answer.stdout.trim()).into()));
        }
    }
    variables
}

/// What this machine lacks for the feature, and what to do about it.
pub fn obstacle(workspace: &Workspace) -> Option<(&'static str, &'static str)> {
    if !cfg!(target_os = "linux") {
        return Some(("NIXL is for Linux", "use Linux"));
    }
    if !process::succeeds(Command::new("g++").arg("--version")) {
        return Some(("there is no g++, which builds NIXL's bindings", "install g++"));
    }
    let library = std::env::var_os(VARIABLE).is_some();
    if !library && tools::find(&folder(workspace, LIBRARY), "libnixl_capi.so").is_none() {
        return Some(("NIXL's library is not here", "cargo xtask nixl"));
    }
    None
}

fn folder(workspace: &Workspace, wheel: &str) -> PathBuf {
    let tools: &Path = workspace.target();
    tools.join("tools").join(wheel.replace("==", "-"))
}
