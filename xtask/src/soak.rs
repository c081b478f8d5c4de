//! `cargo xtask soak`: random plans by the CPU's kernels, until so many jobs are done.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::process;
use crate::workspace::Workspace;

/// Arguments of `cargo xtask soak`.
#[derive(clap::Args)]
pub struct Args {
    /// Jobs to do.
    #[arg(long, default_value_t = 100_000)]
    jobs: u64,
    /// The first case.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Threads; as many as the machine has, if not said.
    #[arg(long)]
    threads: Option<u32>,
}

/// Builds the soak, and runs it.
pub fn main(workspace: &Workspace, args: &Args) -> Result<ExitCode> {
    let example = ["--package", "pagelift-cases", "--features", "memory", "--example", "soak"];
    process::run(workspace.cargo().args(["build", "--release"]).args(example))?;
    let program = workspace.target().join("release").join("examples").join("soak");
    eprintln!("{} can be copied to another machine, and run there alone", program.display());
    let mut soak = Command::new(&program);
    soak.args(["--jobs", &args.jobs.to_string(), "--seed", &args.seed.to_string()]);
    if let Some(threads) = args.threads {
        soak.args(["--threads", &threads.to_string()]);
    }
    let status = soak.status().with_context(|| format!("could not start {}", program.display()))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
