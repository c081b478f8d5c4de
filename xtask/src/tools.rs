//! Test-only tools that come from a package registry: `cargo xtask tools`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use walkdir::WalkDir;

use crate::process;
use crate::workspace::Workspace;

/// The wheel with `ptxas`. 13.0 is what the driver branch 580 assembles PTX with.
const WHEEL: &str = "nvidia-cuda-nvcc==13.0.*";

/// Installs the tools, unless they are there.
pub fn install(workspace: &Workspace) -> Result<()> {
    if let Some(ptxas) = installed_ptxas(workspace) {
        println!("ptxas is there: {}", ptxas.display());
        return Ok(());
    }
    let folder = folder(workspace);
    pip_install(WHEEL, &folder)?;
    let ptxas = find(&folder, &ptxas_name())
        .with_context(|| format!("{WHEEL} has no ptxas for this machine; set PAGELIFT_PTXAS to one"))?;
    println!("installed {}", ptxas.display());
    Ok(())
}

/// The `ptxas` that [`install`] installed.
pub fn installed_ptxas(workspace: &Workspace) -> Option<PathBuf> {
    find(&folder(workspace), &ptxas_name())
}

fn folder(workspace: &Workspace) -> PathBuf {
    workspace.target().join("tools").join("nvidia-cuda-nvcc-13.0")
}

fn ptxas_name() -> String {
    format!("ptxas{}", std::env::consts::EXE_SUFFIX)
}

/// Unpacks a wheel into a folder, without what it depends on: of `ptxas` that would be headers and libNVVM, some 250 MB.
pub fn pip_install(wheel: &str, folder: &Path) -> Result<()> {
    let arguments = ["-m", "pip", "install", "--no-deps", "--disable-pip-version-check", "--upgrade"];
    process::run(python()?.args(arguments).arg("--target").arg(folder).arg(wheel))
}

/// The first file of that name in a folder and those below it.
pub fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let files = WalkDir::new(folder).into_iter().filter_map(Result::ok);
    files.map(walkdir::DirEntry::into_path).find(|path| path.is_file() && path.ends_with(name))
}

/// A Python that has pip.
fn python() -> Result<Command> {
    for name in ["python3", "python"] {
        if process::succeeds(Command::new(name).args(["-m", "pip", "--version"])) {
            return Ok(Command::new(name));
        }
    }
    bail!(
        "no Python with pip: install python3-pip (or set PAGELIFT_PTXAS to a ptxas of CUDA 13.0, where that is missing)"
    )
}
