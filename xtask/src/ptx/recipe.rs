//! How the PTX is built: for which architectures, and with which flags.

use std::path::Path;

use pagelift_device::BLOCK_THREADS;

/// The target triple of rustc's NVPTX backend.
pub const TRIPLE: &str = "nvptx64-nvidia-cuda";

/// The profile of the root `Cargo.toml` that the PTX is built with.
pub const PROFILE: &str = "ptx";

/// What the project's own folder is called in the PTX's line directives.
pub const PROJECT: &str = "/pagelift";

/// What the folder of the library's source is called there; the compiler's commit follows, as in released compilers.
pub const LIBRARY: &str = "/rustc";

/// One committed PTX file.
#[derive(Debug)]
pub struct Architecture {
    /// The oldest GPU it is for, as PTX's `.target` says.
    pub name: &'static str,
    /// PTX's `.version`.
    pub version: &'static str,
    /// LLVM's name for that version.
    isa: &'static str,
    /// GPUs that it is assembled for in checks.
    pub gpus: &'static [&'static str],
}

impl Architecture {
    /// The name of its file.
    pub fn file(&self) -> String {
        format!("{}.ptx", self.name)
    }
}

/// All committed PTX files.
///
/// The versions are the lowest that will do, so that the oldest drivers take them: 7.4 has `L1::no_allocate`, 7.8 has sm_90.
pub const ARCHITECTURES: &[Architecture] = &[
    Architecture { name: "sm_80", version: "7.4", isa: "ptx74", gpus: &["sm_80", "sm_100"] },
    Architecture { name: "sm_90", version: "7.8", isa: "ptx78", gpus: &["sm_90"] },
];

/// Flags of the compiler for one architecture, on any machine.
pub fn flags(architecture: &Architecture) -> Vec<String> {
    vec![
        format!("-Ctarget-cpu={}", architecture.name),
        format!("-Ctarget-feature=+{}", architecture.isa),
        // Jump threading copies convergent operations (shuffles, votes) into both arms of a branch.
        "-Zmir-enable-passes=-JumpThreading".to_owned(),
        // A kernel has nobody to tell of a panic: no message is formatted, no strings are kept.
        "-Zunstable-options".to_owned(),
        "-Cpanic=immediate-abort".to_owned(),
    ]
}

/// Arguments of cargo, on any machine.
pub fn arguments() -> Vec<String> {
    let fixed = ["rustc", "--lib", "--crate-type=cdylib", "-Zbuild-std=core", "--no-default-features"];
    let mut arguments = fixed.map(str::to_owned).to_vec();
    arguments.push(format!("--target={TRIPLE}"));
    arguments.push(format!("--profile={PROFILE}"));
    arguments
}

/// Arguments for the compiler of the kernels crate itself.
///
/// The PTX is the assembly; there is nothing to link, so the linker is a program that does nothing.
pub const LAST_STEP: &[&str] = &["--emit=asm", "-Clinker=true"];

/// What each entry says behind its parameters, so that whoever compiles it, ptxas or a driver, gives a thread no more
/// registers than there are for so many. The compiler has no attribute for it: it is put into its text.
pub fn bound() -> String {
    format!(".maxntid {BLOCK_THREADS}, 1, 1")
}

/// Flags that replace this machine's folders, so that the PTX is the same wherever it is built.
///
/// The compiler takes the last prefix that matches, so the narrower ones come last.
pub fn remaps(project: &Path, registry: &Path, library: &Path, commit: &str) -> Vec<String> {
    [
        (project, PROJECT.to_owned()),
        (registry, "/registry".to_owned()),
        (library, format!("{LIBRARY}/{commit}")),
    ]
    .into_iter()
    .map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()))
    .collect()
}
