//! What takes NIXL: lints, documentation, and two processes that exchange every kind of group.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};

use crate::test::Verdict;
use crate::workspace::Workspace;
use crate::{nixl, process};

/// Lints, documents and tests what has the feature. All of the workspace is named, so that what other steps have built is
/// built for this one too.
pub fn run(workspace: &Workspace) -> Result<Verdict> {
    if let Some((reason, remedy)) = nixl::obstacle(workspace) {
        return Ok(Verdict::skipped(reason, remedy));
    }
    let features =
        format!("{},pagelift-transport/nixl,pagelift-cli/nixl,pagelift-python/nixl", workspace.features());
    let cargo = |command: &str| {
        let mut cargo = workspace.cargo();
        cargo.args([command, "--workspace", "--features", &features]).envs(nixl::environment(workspace));
        cargo
    };
    same_calls(workspace)?;
    process::run(cargo("clippy").args(["--all-targets", "--", "-Dwarnings"]))?;
    process::run(cargo("doc").arg("--no-deps").env("RUSTDOCFLAGS", "-Dwarnings"))?;
    // One at a time: each test has a process of its own beside it, whose threads do not sleep.
    process::run(cargo("test").args(["--test=nixl", "--", "--test-threads=1"]))?;
    Ok(Verdict::plain())
}

/// Compares the calls that the transport looks up with those that the bindings make: one that is missing there would end
/// the process, where a library lacks it.
fn same_calls(workspace: &Workspace) -> Result<()> {
    let names = |text: &str, before: &str| -> BTreeSet<String> {
        let words = text.split(before).skip(1).filter_map(|rest| rest.split('"').next());
        words.map(|word| format!("nixl_capi_{word}")).collect()
    };
    let read = |path: &std::path::Path| {
        fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))
    };
    let bindings = workspace.dependency("nixl-sys")?;
    let made = names(&read(&bindings.join("stubs.cpp"))?, "resolve(\"nixl_capi_");
    let looked_up = names(&read(&workspace.root().join("transport/src/nixl/calls.rs"))?, "\"nixl_capi_");
    ensure!(made.len() > 50, "the bindings make {} calls only: are they written otherwise now?", made.len());
    ensure!(
        made == looked_up,
        "transport/src/nixl/calls.rs does not list the bindings' calls; these are in one of them only: {:?}",
        made.symmetric_difference(&looked_up).collect::<Vec<_>>()
    );
    Ok(())
}
