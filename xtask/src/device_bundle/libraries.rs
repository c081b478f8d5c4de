//! NIXL's library with all that it loads: of the wheel's hundreds of megabytes, what UCX and the library itself need.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use walkdir::WalkDir;

use crate::workspace::Workspace;
use crate::{nixl, process, tools};

/// What UCX's part for GPUs loads besides the driver.
const RUNTIME: &str = "nvidia-cuda-runtime-cu12==12.9.*";

/// What is opened by name, beside the library itself: plugins, and UCX's modules.
fn is_opened(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let module = path.parent().is_some_and(|folder| folder.ends_with("ucx"));
    // Network adapters are not what this is for.
    let module = module && ["uct_cma", "uct_cuda", "ucm_cuda"].iter().any(|part| name.contains(part));
    name == "libnixl_capi.so" || name == "libplugin_UCX.so" || (module && !name.ends_with(".la"))
}

/// Copies it, in the folders that it finds itself in.
pub fn copy(workspace: &Workspace, to: &Path) -> Result<()> {
    let library = nixl::library(workspace)?;
    let package = library.parent().and_then(Path::parent).context("the library lies in no package")?;
    let runtime = workspace.target().join("tools").join("nvidia-cuda-runtime-cu12-12.9");
    if tools::find(&runtime, "libcudart.so.12").is_none() {
        tools::pip_install(RUNTIME, &runtime)?;
    }
    let files: Vec<PathBuf> = WalkDir::new(package)
        .into_iter()
        .filter_map(Result::ok)
        .map(walkdir::DirEntry::into_path)
        .filter(|path| path.is_file())
        .collect();
    let mut wanted: BTreeSet<&PathBuf> = files.iter().filter(|path| is_opened(path)).collect();
    let mut new: Vec<&PathBuf> = wanted.iter().copied().collect();
    while let Some(file) = new.pop() {
        for name in needed(file)? {
            // The same name may lie in several folders, as may what looks for it.
            for found in files.iter().filter(|path| path.file_name().is_some_and(|own| own == name.as_str()))
            {
                if wanted.insert(found) {
                    new.push(found);
                }
            }
        }
    }
    ensure!(wanted.len() > 10, "{} has {} of the files that are needed", package.display(), wanted.len());
    let metadata = files.iter().filter(|path| path.ends_with("METADATA"));
    for file in wanted.iter().copied().chain(metadata) {
        let target = to.join(file.strip_prefix(package)?);
        fs::create_dir_all(target.parent().context("a file without a folder")?)?;
        fs::copy(file, &target).with_context(|| format!("could not copy {}", file.display()))?;
    }
    let runtime = tools::find(&runtime, "libcudart.so.12").context("the wheel has no libcudart.so.12")?;
    let beside = to.join(library.parent().and_then(Path::file_name).context("no folder")?);
    fs::copy(&runtime, beside.join("libcudart.so.12"))?;
    Ok(())
}

/// The libraries that a library names.
fn needed(file: &Path) -> Result<Vec<String>> {
    let said = process::read(Command::new("readelf").arg("--dynamic").arg(file))?;
    let names = said.lines().filter(|line| line.contains("(NEEDED)"));
    Ok(names.filter_map(|line| Some(line.split_once('[')?.1.split_once(']')?.0.to_owned())).collect())
}
