//! The program `pagelift`.
//!
//! | module | question |
//! |---|---|
//! | `manifest` | what is imported, and between which pools? |
//! | `reference` | what must every byte be? |
//! | `restore` | the main job: plan, land, lift, mirror, seal, verify |
//! | `plan`, `picture` | what would an import do, and what does that look like? |
//! | `gather` | are blocks and rows gathered as an independent loop does it? |
//! | `handoff` | the main job between two processes, over NIXL |
//! | `digest` | do both sides hold the same rows? |
//! | `bench` | how fast are the kernels, beside what one would do without them? |
//! | `calibrate` | how few multiprocessors are as good as more? |
//! | `load` | what do hand-offs over NIXL cost, and do they last? With the feature `nixl` |
//! | `layouts` | which layouts may a manifest name? |
//! | `doctor` | what can this machine do? |
//! | `replay` | does a lifecycle's log come out as it was? |
//! | `setup` | what does every job begin with? |
//! | `shell` | what do a shell's completion and a manual page say? |
//! | `args`, `progress`, `say`, `text` | how does a person or a program talk to it? |
//! | [`rehearse`](mod@rehearse) | what becomes of any manifest's text? |
// Pools are registered with NIXL by address; without that there is nothing unsafe here.
#![cfg_attr(not(feature = "nixl"), forbid(unsafe_code))]
#![cfg_attr(feature = "nixl", deny(unsafe_code))]

mod args;
mod bench;
mod calibrate;
mod digest;
mod doctor;
mod file;
mod gather;
mod handoff;
mod layouts;
#[cfg(feature = "nixl")]
mod load;
mod manifest;
mod picture;
mod plan;
mod progress;
mod reference;
pub mod rehearse;
mod replay;
mod restore;
mod say;
mod setup;
mod shell;
mod text;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};

/// The program: reads its arguments, does what they say, and says how it went.
#[must_use]
pub fn main() -> ExitCode {
    let args = Args::parse();
    let done = match &args.command {
        Command::Restore(command) => restore::command(command),
        Command::Prefill(command) => handoff::prefill(command),
        Command::Decode(command) => handoff::decode(command),
        Command::Digest(command) => digest::command(command),
        Command::Gather(command) => gather::command(command),
        Command::Bench(command) => bench::command(command),
        Command::Calibrate(command) => calibrate::command(command),
        #[cfg(feature = "nixl")]
        Command::Load(command) => load::command(command),
        #[cfg(not(feature = "nixl"))]
        Command::Load(_) => Err(handoff::not_built()),
        Command::Layouts(command) => layouts::command(command),
        Command::Plan(command) => plan::command(command),
        Command::Doctor(command) => doctor::command(command),
        Command::Replay(command) => replay::command(command),
        Command::Completions(command) => shell::completions(command),
        Command::Man(command) => shell::man(command),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say::note(format_args!("pagelift: {}", failure.message));
            ExitCode::from(failure.code)
        }
    }
}

/// Why the program ends without success.
#[derive(Debug)]
struct Failure {
    /// For a person: what is wrong, and what to do.
    message: String,
    /// See [`exit`].
    code: u8,
}

/// Exit codes besides 0. (`clap` ends with 2 on wrong usage.)
mod exit {
    /// A byte was not what it must be, or a step of the job failed.
    pub const FAILED: u8 = 1;
    /// The command line or the manifest is wrong.
    pub const USAGE: u8 = 2;
    /// This machine or build cannot do it.
    pub const UNABLE: u8 = 3;
}
