//! The driver in software, as a library that programs open in place of NVIDIA's.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::c;
use crate::workspace::Workspace;

/// Builds it. Programs whose `LD_LIBRARY_PATH` is the folder that is returned find it there as `libcuda.so.1`.
pub fn in_software(workspace: &Workspace) -> Result<PathBuf> {
    let mut cargo = workspace.cargo();
    // What it is made of is built already, for the libraries that are tested over it.
    cargo.args([
        "rustc",
        "--release",
        "--package=pagelift-fake-driver",
        "--lib",
        "--features=library",
        "--crate-type=cdylib",
    ]);
    let files = c::built(&mut cargo, "pagelift_fake_driver")?;
    let folder = workspace.target().join("driver");
    fs::create_dir_all(&folder).with_context(|| format!("could not make {}", folder.display()))?;
    let library = files.first().context("cargo built no library")?;
    let to = folder.join("libcuda.so.1");
    fs::copy(library, &to).with_context(|| format!("could not copy {}", library.display()))?;
    Ok(folder)
}
