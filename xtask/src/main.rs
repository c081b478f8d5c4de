//! Tasks of the repository. `cargo xtask --help` lists them.
#![forbid(unsafe_code)]

mod bench;
mod c;
mod device_bundle;
mod fuzz;
mod hash;
mod nixl;
mod process;
mod ptx;
mod soak;
mod test;
mod tools;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

/// Tasks of the pagelift repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run every test and check that this machine can, and say what was skipped and why.
    Test(test::Args),
    /// Run the benches, and show their figures; `--out FOLDER` keeps them.
    Bench(bench::Args),
    /// Fuzz planner, kernels, manifests and conversations with cargo-fuzz, and say what was found.
    Fuzz(fuzz::Args),
    /// Run random plans, and engines in simulation, by the CPU's kernels, and compare every byte with a reference.
    Soak(soak::Args),
    /// Build the C library and install it, with its header and pkg-config file, or make the header anew.
    C(c::Args),
    /// Make a folder with all tests that need a GPU and the bench, for a machine without Rust.
    DeviceBundle(device_bundle::Args),
    /// Build the kernels' PTX, or check what is committed.
    Ptx(ptx::Args),
    /// Install test-only tools (NVIDIA's ptxas, from PyPI) under the target folder.
    Tools,
    /// Install NIXL's library and libclang, from PyPI, under the target folder, and say what to set.
    Nixl,
}

fn main() -> ExitCode {
    match run(Cli::parse().task) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<ExitCode> {
    let workspace = Workspace::find()?;
    match task {
        Task::Test(args) => test::main(&workspace, &args),
        Task::Bench(args) => bench::main(&workspace, &args),
        Task::Fuzz(args) => fuzz::main(&workspace, &args),
        Task::Soak(args) => soak::main(&workspace, &args),
        Task::C(args) => c::main(&workspace, &args),
        Task::DeviceBundle(args) => device_bundle::main(&workspace, &args),
        Task::Ptx(args) => ptx::main(&workspace, &args),
        Task::Nixl => nixl::install(&workspace).map(|()| ExitCode::SUCCESS),
        Task::Tools => tools::install(&workspace).map(|()| ExitCode::SUCCESS),
    }
}
