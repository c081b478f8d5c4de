//! The command line.

mod about;
mod bench;
mod handoff;
mod import;
#[cfg(feature = "nixl")]
mod load;
mod values;

use clap::{Parser, Subcommand};

pub use about::{Completions, Doctor, Layouts, Man, Replay};
pub use bench::{Bench, Budget, Calibrate};
pub use handoff::{Decode, Prefill};
#[cfg(feature = "nixl")]
pub use handoff::{Hand, Policy};
pub use import::{Digest, Gather, Plan, Restore};
#[cfg(feature = "nixl")]
pub use load::{Load, Place};
pub use values::Backend;
#[cfg(feature = "nixl")]
pub use values::Parameter;

/// Restores imported KV-cache pages, and proves every byte.
#[derive(Debug, Parser)]
#[command(name = "pagelift", version, about = "Restores imported KV-cache pages, and proves every byte")]
#[command(
    after_help = "Exit codes: 0 done, 1 a byte was wrong or a step failed, 2 wrong usage or manifest, 3 this \
                        machine or build cannot do it."
)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Arguments of a command that this build has not.
#[cfg(not(feature = "nixl"))]
#[derive(Debug, clap::Args)]
pub struct Anything {
    /// Whatever it is.
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<std::ffi::OsString>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Land an import, lift its last block into a page, generate tokens, and verify every byte of every pool.
    Restore(Restore),
    /// Explain an import without running it: what is lifted, how, and what that takes. It needs none of the pools'
    /// memory.
    Plan(Plan),
    /// Land and lift an import, print one digest for the rows of each group on both sides, and check that they agree.
    Digest(Digest),
    /// Gather blocks, and rows by index lists, of the manifest's pools, and verify every byte of them.
    Gather(Gather),
    /// Compare the kernels with plain copies and copy engines: medians, by multiprocessor budget.
    Bench(Bench),
    /// Find the smallest multiprocessor budget that is nearly as fast as the best, for each direction, and keep it for this
    /// GPU and link.
    Calibrate(Calibrate),
    /// Be a prefill engine, P: fill pools with the manifest's import, export it over NIXL, and end when it was read.
    Prefill(Prefill),
    /// Be a decode engine, D: read an import from `pagelift prefill`, lift its last block, generate tokens, and verify every byte
    /// of every pool.
    Decode(Decode),
    /// Hand caches from a process to another over NIXL: how fast that is beside one large read, what of it is pagelift's own
    /// cost, and whether many at a time last.
    #[cfg(feature = "nixl")]
    Load(Load),
    /// Hand caches from a process to another over NIXL and measure it, where that is built in.
    #[cfg(not(feature = "nixl"))]
    Load(Anything),
    /// List the layouts that a manifest may name, or describe one.
    Layouts(Layouts),
    /// Say what this build and this machine can do, and what to do next.
    Doctor(Doctor),
    /// Play a lifecycle's log again, and compare every effect.
    Replay(Replay),
    /// Print completions for a shell.
    Completions(Completions),
    /// Print a manual page: `pagelift man | man -l -`.
    Man(Man),
}
