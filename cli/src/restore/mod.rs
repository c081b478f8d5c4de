//! The main job: an import becomes a restored, growing, sealed set of pages, and every byte is proved.
//!
//! The steps are an engine's own, in its order:
//!
//! | file | step |
//! |---|---|
//! | `world` | pools, filled with random bytes; the geometry over them |
//! | `layouts` | the library's layouts for the manifest's |
//! | `import` | the producer's blocks land; one launch lifts what each group lifts |
//! | `generate` | each step writes rows, mirrors them by one launch, and seals pages as they fill |
//! | `step` | what one step writes: slots, queries, accepted tokens, padding |
//! | `pages` | pages and host blocks of a growing request |
//! | `span`, `report` | what is said of the prompt, and of all of it |
//!
//! The engine's forward, the producer and the transfer are played by [`crate::reference`], whose model follows along;
//! at the end it is asked about every byte of every pool.

mod generate;
mod import;
mod layouts;
mod pages;
mod report;
mod span;
mod step;
mod world;

#[cfg(test)]
mod tests;

use std::time::Instant;

use pagelift::backends::{Backend, Engine, open};
use pagelift::error::{BackendError, MemoryError};
use pagelift::launcher::TicketState;
use pagelift::plan::TailRows;
use thiserror::Error;

use crate::args;
use crate::manifest::{Draft, Footprint, Manifest, ManifestError, mix};
use crate::progress::Progress;
use crate::reference::{Model, Producer, ReferenceError};
use crate::{Failure, calibrate, exit, say};
pub use generate::Generated;
pub use import::{Lifted, land, lift, plan};
pub use report::{Report, mode_name};
pub use span::{Imported, span_of};
pub use world::{AnyKey, World, describe};

/// What a run is asked for, besides the manifest.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Which rows of the writable page are lifted.
    pub mode: TailRows,
    /// Tokens to generate.
    pub generate: u32,
    /// What the random bytes follow from.
    pub seed: u64,
}

/// Why a run ended early.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The manifest is wrong.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A step of the library failed.
    #[error(transparent)]
    Pagelift(#[from] pagelift::Error),
    /// A byte is wrong, or the run broke the reference's rules.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// The machine has too little memory.
    #[error(
        "this takes {} of memory, and {} are available; use a smaller manifest, or a smaller work",
        say::bytes(*needed), say::bytes(*available)
    )]
    TooLittleMemory {
        /// Bytes of pools, and of what is known of them.
        needed: u64,
        /// Bytes that the system has left.
        available: u64,
    },
    /// A pool has too few free blocks for the tokens that were asked for.
    #[error(
        "{tokens} more tokens need {needed} free blocks of pool `{pool}`, which has {free}; at most {most} tokens fit: \
         give it more blocks, or generate fewer tokens"
    )]
    PoolTooSmall {
        /// The pool.
        pool: String,
        /// Tokens to generate.
        tokens: u64,
        /// Blocks that they need at most.
        needed: u64,
        /// Blocks that no group has.
        free: u64,
        /// Tokens that all pools have room for.
        most: u64,
    },
    /// A pool has no block left for the next token, though there seemed to be enough.
    #[error("pool `{pool}` has no free block for token {position}")]
    PoolExhausted {
        /// The pool.
        pool: String,
        /// The token.
        position: u64,
    },
    /// A launch was not done when it had returned, or met a bad entry.
    #[error("a launch of the {what} is {state} instead of done")]
    NotDone {
        /// Which plan.
        what: &'static str,
        /// The ticket's state.
        state: String,
    },
    /// A page was sealed that misses a row: the bookkeeping is wrong.
    #[error("group `{group}`: {block} was sealed with a row missing")]
    SealedTooEarly {
        /// The group.
        group: String,
        /// The host block.
        block: String,
    },
}

impl From<pagelift::error::PlanError> for RestoreError {
    fn from(error: pagelift::error::PlanError) -> Self {
        Self::Pagelift(error.into())
    }
}

impl From<pagelift::error::GeometryError> for RestoreError {
    fn from(error: pagelift::error::GeometryError) -> Self {
        Self::Pagelift(error.into())
    }
}

impl From<RestoreError> for Failure {
    fn from(error: RestoreError) -> Self {
        use pagelift::Error;
        let code = match &error {
            RestoreError::Manifest(_) | RestoreError::PoolTooSmall { .. } => exit::USAGE,
            RestoreError::TooLittleMemory { .. }
            | RestoreError::Pagelift(
                Error::Memory(MemoryError::OutOfMemory { .. })
                | Error::Backend(
                    BackendError::NoDriver { .. }
                    | BackendError::NoDevice { .. }
                    | BackendError::Device { .. }
                    | BackendError::Module { .. }
                    | BackendError::Threads { .. },
                ),
            ) => exit::UNABLE,
            RestoreError::Pagelift(Error::Layout(_) | Error::Span(_) | Error::Geometry(_)) => exit::USAGE,
            _ => exit::FAILED,
        };
        Self { message: error.to_string(), code }
    }
}

/// `pagelift restore`.
pub fn command(args: &args::Restore) -> Result<(), Failure> {
    let options = Options { mode: args.mode.into(), generate: args.generate, seed: args.seed };
    let draft = Draft::load(&args.manifest).map_err(RestoreError::from)?;
    // Before anything is drawn or allocated, which may take a while.
    check_memory(draft.footprint())?;
    let opened = calibrate::apply(open(args.backend.into()).map_err(RestoreError::from)?);
    let manifest = draft.assign().map_err(RestoreError::from)?;
    let progress = Progress::new(args.json);
    let mut report = match opened.engine {
        Engine::Cpu(cpu) => run(&manifest, cpu, options, progress),
        Engine::Cuda(gpu) => run(&manifest, gpu, options, progress),
    }?;
    report.backend_reason = opened.reason;
    if args.json { say::json(&report) } else { report.print() }
}

/// Runs the main job on a backend.
pub fn run<B: Backend>(
    manifest: &Manifest,
    backend: B,
    options: Options,
    progress: Progress,
) -> Result<Report, RestoreError> {
    let started = Instant::now();
    pages::check_room(manifest, options.generate)?;
    let backend = &backend;
    let mut world = World::new(manifest, backend, progress)?;
    let mut model = Model::new(manifest, options.seed);
    world.fill(&model, progress)?;
    let producer = Producer::new(manifest, options.seed);

    let span = span_of(manifest)?;
    import::land(&mut world, &mut model, producer, progress)?;
    let lifted = import::lift(&mut world, &mut model, backend, span, options.mode)?;
    let mut verifications = 1;
    let mut generated = Generated::default();
    if options.generate > 0 {
        // The restored pools are proved before anything is written over them.
        world.verify(&model, "verify", progress)?;
        verifications += 1;
        let acceptance = mix(options.seed);
        generated =
            generate::run(&mut world, &mut model, backend, span, options.generate, acceptance, progress)?;
    }
    let bytes_verified = world.verify(&model, "verify", progress)?;

    Ok(Report {
        bytes_verified,
        verifications,
        seconds: started.elapsed().as_secs_f64(),
        ..Report::new(manifest, span, options, backend.name(), &lifted, &generated)?
    })
}

/// Refuses a launch that is not done, or that met a bad entry.
pub fn done(what: &'static str, state: TicketState) -> Result<(), RestoreError> {
    match state {
        TicketState::Done(report) if report.bad == 0 => Ok(()),
        _ => Err(RestoreError::NotDone { what, state: format!("{state:?}") }),
    }
}

/// Refuses a manifest that this machine has no memory for, before the system kills the process.
pub fn check_memory(footprint: Footprint) -> Result<(), RestoreError> {
    let needed = needed_memory(footprint);
    match available_memory() {
        Some(available) if needed > available => Err(RestoreError::TooLittleMemory { needed, available }),
        _ => Ok(()),
    }
}

/// What a run takes on this machine.
pub fn needed_memory(footprint: Footprint) -> u64 {
    // Each thread compares a page at a time with one of its own.
    let images = footprint.largest_page.saturating_mul(rayon::current_num_threads() as u64);
    footprint.total().saturating_add(images)
}

/// What the system says is available, where it says so.
pub fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}
