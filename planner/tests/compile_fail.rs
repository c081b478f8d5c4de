//! Wrong plans that the types refuse. Each file of `compile-fail` is one, with what the compiler says.
//!
//! The words are those of one compiler: with another, the check is left out and says so. After a change, look at what
//! `TRYBUILD=overwrite` writes, and keep it only if each message still names the wrong type.
#![allow(clippy::print_stderr, reason = "says why nothing was checked")]

use std::process::Command;

/// The compiler whose words are recorded.
const RECORDED: &str = "rustc 1.95.0";

#[test]
fn wrong_plans_do_not_compile() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output();
    let version = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let version = version.unwrap_or_else(|error| format!("none: {error}"));
    if !version.starts_with(RECORDED) {
        eprintln!("skipped: messages were recorded with {RECORDED}, found {}", version.trim());
        return;
    }
    let cases = trybuild::TestCases::new();
    cases.pass("tests/compile-fail/right.rs");
    cases.compile_fail("tests/compile-fail/wrong-*.rs");
}
