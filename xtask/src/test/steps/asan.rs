//! AddressSanitizer: the kernels' pointers, and those of the code that drives them, on the CPU.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;
use crate::test::Verdict;
use crate::workspace::Workspace;

const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// The crates with unsafe code, and the random cases that drive all of it: with what the planner tells them to do.
const PACKAGES: &[&str] = &["pagelift-device", "pagelift-kernels", "pagelift", "pagelift-cases"];

/// Runs the tests of the packages under the sanitizer.
pub fn run(workspace: &Workspace) -> Result<Verdict> {
    if let Some(reason) = obstacle()? {
        return Ok(Verdict::skipped(reason, format!("use rustup's toolchain on {TRIPLE}")));
    }
    let mut cargo = workspace.cargo();
    cargo.args(["test", "--all-features", "--lib", "--tests", "--no-fail-fast"]);
    // Naming the target keeps the flags away from macros and build scripts, which the compiler itself loads.
    cargo.args(["--target", TRIPLE]);
    for package in PACKAGES {
        cargo.args(["--package", package]);
    }
    cargo
        .env("CARGO_TARGET_DIR", workspace.target().join("asan"))
        .env("CARGO_ENCODED_RUSTFLAGS", "-Zsanitizer=address")
        // Memory that cannot be had is an error to be returned, here as elsewhere.
        .env("ASAN_OPTIONS", "allocator_may_return_null=1")
        // The flag is an unstable one, and the compiler is a released one.
        .env("RUSTC_BOOTSTRAP", "1");
    process::run(&mut cargo)?;
    Ok(Verdict::plain())
}

/// Why the sanitizer cannot run here, if so.
pub fn obstacle() -> Result<Option<String>> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")) {
        return Ok(Some(format!("this machine is not {TRIPLE}")));
    }
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let answer = process::ask(Command::new(rustc).args(["--print", "target-libdir"]))?;
    let folder = Path::new(answer.stdout.trim());
    let entries = folder.read_dir().with_context(|| format!("could not list {}", folder.display()))?;
    let runtime = |name: &str| name.starts_with("librustc-") && name.ends_with("_rt.asan.a");
    let mut names = entries.filter_map(Result::ok).map(|entry| entry.file_name());
    let found = names.any(|name| name.to_str().is_some_and(runtime));
    Ok((!found).then(|| format!("the compiler has no sanitizer runtime in {}", folder.display())))
}
