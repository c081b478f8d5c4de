//! What takes NIXL: lints, documentation, and two processes that exchange every kind of group.

use anyhow::Result;

use crate::test::Verdict;
use crate::workspace::Workspace;
use crate::{nixl, process};

/// Lints, documents and tests what has the feature. All of the workspace is named, so that what other steps have built is
/// built for this one too.
pub fn run(workspace: &Workspace) -> Result<Verdict> {
    if let Some((reason, remedy)) = nixl::obstacle(workspace) {
        return Ok(Verdict::skipped(reason, remedy));
    }
    let features = format!("{},pagelift-transport/nixl,pagelift-cli/nixl", workspace.features());
    let cargo = |command: &str| {
        let mut cargo = workspace.cargo();
        cargo.args([command, "--workspace", "--features", &features]).envs(nixl::environment(workspace));
        cargo
    };
    process::run(cargo("clippy").args(["--all-targets", "--", "-Dwarnings"]))?;
    process::run(cargo("doc").arg("--no-deps").env("RUSTDOCFLAGS", "-Dwarnings"))?;
    // One at a time: each test has a process of its own beside it, whose threads do not sleep.
    process::run(cargo("test").args(["--test=nixl", "--", "--test-threads=1"]))?;
    Ok(Verdict::plain())
}
