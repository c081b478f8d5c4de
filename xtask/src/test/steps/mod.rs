//! The steps, in the order they run: the quick ones first.

mod asan;
mod c;
mod cargo;
mod cuda_std;
mod driver;
mod manifests;
mod nixl;
mod package;
mod python;

use anyhow::Result;

pub use asan::obstacle as sanitizer_obstacle;

use super::verdict::Verdict;
use crate::ptx;
use crate::workspace::Workspace;

/// One named part of all tests.
pub struct Step {
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// Runs it. An error is a failure; what this machine lacks is a skip.
    pub run: fn(&Workspace) -> Result<Verdict>,
}

/// The steps that concern the PTX.
pub const PTX: &[&str] = &["ptx", "ptx-rebuild", "ptx-assemble"];

/// All steps.
pub const STEPS: &[Step] = &[
    Step { name: "format", about: "the sources are formatted", run: cargo::format },
    Step {
        name: "ptx",
        about: "the committed PTX belongs to the sources and is well built",
        run: ptx::committed,
    },
    Step {
        name: "ptx-assemble",
        about: "ptxas takes the PTX, within the kernels' budgets",
        run: ptx::assembled,
    },
    Step { name: "ptx-rebuild", about: "the PTX can be built again, byte for byte", run: ptx::rebuilt },
    Step { name: "clippy", about: "lints of all targets, warnings denied", run: cargo::clippy },
    Step { name: "tests", about: "unit, property and documentation tests", run: cargo::tests },
    Step { name: "compile-fail", about: "wrong plans do not compile", run: cargo::compile_fail },
    Step { name: "docs", about: "the documentation builds, warnings denied", run: cargo::docs },
    Step {
        name: "cuda-std",
        about: "the kernels type-check against rust-cuda's own cuda_std",
        run: cuda_std::run,
    },
    Step { name: "asan", about: "the kernels and what drives them, under AddressSanitizer", run: asan::run },
    Step {
        name: "manifests",
        about: "every manifest is restored and verified, in every mode",
        run: manifests::run,
    },
    Step { name: "nixl", about: "two processes read from each other over NIXL", run: nixl::run },
    Step {
        name: "python",
        about: "the wheel, in a clean environment, passes the tests of the Python package",
        run: python::run,
    },
    Step {
        name: "python-nixl",
        about: "the wheel with NIXL hands imports over between two processes",
        run: python::with_nixl,
    },
    Step {
        name: "c",
        about: "the C library, its header, and programs in C that use it, under AddressSanitizer too",
        run: c::run,
    },
    Step { name: "package", about: "every crate that is meant to be published packages", run: package::run },
];
