//! `cargo xtask soak`: random plans by the CPU's kernels until so many jobs are done, and then engines in simulation until so
//! many imports are; or every state of larger worlds.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::process;
use crate::workspace::Workspace;

/// Arguments of `cargo xtask soak`.
#[derive(clap::Args)]
pub struct Args {
    /// Jobs of plans to do; 0 for none.
    #[arg(long, default_value_t = 100_000)]
    jobs: u64,
    /// Imports to simulate; 0 for none.
    #[arg(long, default_value_t = 100_000)]
    imports: u64,
    /// The first case, and the first engine.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Threads that do plans, or visit worlds; as many as the machine has, if not said.
    #[arg(long)]
    threads: Option<u32>,
    /// Visit every state of the lifecycle's larger worlds instead: some minutes, and about 2 GB of memory.
    #[arg(long, conflicts_with_all = ["jobs", "imports", "seed"])]
    worlds: bool,
}

/// Builds the soaks, and runs them.
pub fn main(workspace: &Workspace, args: &Args) -> Result<ExitCode> {
    if args.worlds {
        return worlds(workspace, args.threads);
    }
    let seed = args.seed.to_string();
    if args.jobs > 0 {
        let example = ["--package", "pagelift-cases", "--features", "memory", "--example", "soak"];
        process::run(workspace.cargo().args(["build", "--release"]).args(example))?;
        let program = workspace.target().join("release").join("examples").join("soak");
        let mut soak = Command::new(&program);
        soak.args(["--jobs", &args.jobs.to_string(), "--seed", &seed]);
        if let Some(threads) = args.threads {
            soak.args(["--threads", &threads.to_string()]);
        }
        if !run(soak)? {
            return Ok(ExitCode::FAILURE);
        }
    }
    if args.imports > 0 {
        let simulation = ["--package", "pagelift-simulation", "--bin", "simulation"];
        process::run(workspace.cargo().args(["build", "--release"]).args(simulation))?;
        let mut soak = Command::new(workspace.target().join("release").join("simulation"));
        soak.args(["--imports", &args.imports.to_string(), "--seed", &seed]);
        if !run(soak)? {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether a soak found nothing.
fn run(mut soak: Command) -> Result<bool> {
    let program = soak.get_program().to_owned();
    eprintln!("{} can be copied to another machine, and run there alone", program.display());
    Ok(soak.status().with_context(|| format!("could not start {}", program.display()))?.success())
}

/// The tests that a run of all tests leaves out, for they take minutes.
fn worlds(workspace: &Workspace, threads: Option<u32>) -> Result<ExitCode> {
    let mut tests = workspace.cargo();
    tests.args(["test", "--release", "--package", "pagelift-planner", "--test", "explore", "--"]);
    tests.args(["--ignored", "--nocapture"]);
    if let Some(threads) = threads {
        tests.args(["--test-threads", &threads.to_string()]);
    }
    process::run(&mut tests)?;
    Ok(ExitCode::SUCCESS)
}
