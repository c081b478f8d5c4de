//! Steps that are one call of cargo.

use anyhow::Result;

use crate::process;
use crate::test::Verdict;
use crate::workspace::Workspace;

/// Formatting.
pub fn format(workspace: &Workspace) -> Result<Verdict> {
    if !has(workspace, "fmt") {
        return Ok(Verdict::skipped("cargo has no rustfmt", "rustup component add rustfmt"));
    }
    process::run(workspace.cargo().args(["fmt", "--all", "--check"]))?;
    Ok(Verdict::plain())
}

/// Lints.
pub fn clippy(workspace: &Workspace) -> Result<Verdict> {
    if !has(workspace, "clippy") {
        return Ok(Verdict::skipped("cargo has no clippy", "rustup component add clippy"));
    }
    let all = ["clippy", "--workspace", "--all-targets", "--all-features"];
    process::run(workspace.cargo().args(all).args(["--", "-Dwarnings"]))?;
    Ok(Verdict::plain())
}

/// Tests, those in documentation too.
pub fn tests(workspace: &Workspace) -> Result<Verdict> {
    process::run(workspace.cargo().args(["test", "--workspace", "--all-features", "--no-fail-fast"]))?;
    Ok(Verdict::plain())
}

/// Documentation.
pub fn docs(workspace: &Workspace) -> Result<Verdict> {
    let mut cargo = workspace.cargo();
    cargo.args(["doc", "--workspace", "--all-features", "--no-deps"]).env("RUSTDOCFLAGS", "-Dwarnings");
    process::run(&mut cargo)?;
    Ok(Verdict::plain())
}

fn has(workspace: &Workspace, subcommand: &str) -> bool {
    process::succeeds(workspace.cargo().args([subcommand, "--version"]))
}
