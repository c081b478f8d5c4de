//! Steps that are one call of cargo.

use std::process::Command;

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
    let all = ["clippy", "--workspace", "--all-targets", "--features", &workspace.features()];
    process::run(workspace.cargo().args(all).args(["--", "-Dwarnings"]))?;
    Ok(Verdict::plain())
}

/// Tests, those in documentation too.
pub fn tests(workspace: &Workspace) -> Result<Verdict> {
    let all = ["test", "--workspace", "--features", &workspace.features(), "--no-fail-fast"];
    process::run(workspace.cargo().args(all).args(["--", "--skip", "do_not_compile"]))?;
    Ok(Verdict::plain())
}

/// The compiler whose messages the compile-fail tests hold.
const RECORDED: &str = "1.95.0";

/// What must not compile.
pub fn compile_fail(workspace: &Workspace) -> Result<Verdict> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = process::ask(Command::new(rustc).arg("--version"))?.stdout;
    if version.split_whitespace().nth(1) != Some(RECORDED) {
        let reason = format!("the messages are those of rustc {RECORDED}, here is {}", version.trim());
        return Ok(Verdict::skipped(
            reason,
            format!("rustup toolchain install {RECORDED}, and cargo +{RECORDED} xtask"),
        ));
    }
    // All of the workspace is named, so that what `tests` has built is not built again for this package alone.
    let test = ["test", "--workspace", "--features", &workspace.features(), "--test=compile_fail"];
    process::run(workspace.cargo().args(test))?;
    Ok(Verdict::plain())
}

/// Documentation.
pub fn docs(workspace: &Workspace) -> Result<Verdict> {
    let mut cargo = workspace.cargo();
    cargo.args(["doc", "--workspace", "--features", &workspace.features(), "--no-deps"]);
    cargo.env("RUSTDOCFLAGS", "-Dwarnings");
    process::run(&mut cargo)?;
    Ok(Verdict::plain())
}

fn has(workspace: &Workspace, subcommand: &str) -> bool {
    process::succeeds(workspace.cargo().args([subcommand, "--version"]))
}
