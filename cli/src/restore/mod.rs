//! The main job: an import becomes a restored, growing, sealed set of pages, and every byte is proved.
//!
//! It is an engine in small. All that happens to its request is an event of the library's lifecycle, and what the lifecycle
//! wants done is done by the library's runner, or played:
//!
//! | file | what it is |
//! |---|---|
//! | `world` | pools, filled with random bytes; the geometry over them |
//! | `layouts` | the library's layouts for the manifest's |
//! | `frames` | which blocks and pages the lifecycle's numbers stand for |
//! | `engine` | the scheduler: events in, effects out |
//! | `rank` | the one rank, and what it launches |
//! | `transfer` | what brings the producer's blocks: the seam to `pagelift decode` |
//! | `land`, `forward`, `step` | what is played: the transfer, and the forward of a step with its arrays |
//! | `follow` | what launches must have copied |
//! | `script` | what happens to the request |
//! | `fault`, `wire` | faults that are played: when, and what they do to messages |
//! | `log` | the log of events |
//! | `span`, `report` | what is said of the prompt, and of all of it |
//!
//! The engine's forward, the producer and the transfer are played by [`crate::reference`], whose model follows along;
//! at the end it is asked about every byte of every pool.

mod engine;
mod error;
mod fault;
mod follow;
mod forward;
mod frames;
mod land;
mod layouts;
mod log;
mod rank;
mod report;
mod script;
mod span;
mod step;
mod transfer;
mod wire;
mod world;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Instant;

use pagelift::backends::{AnyBackend, Backend};
use pagelift::import::Policy;
use pagelift::launcher::TicketState;
use pagelift::lifecycle::Stage;
use pagelift::plan::TailRows;

use crate::manifest::Manifest;
use crate::progress::Progress;
use crate::reference::{Model, Producer};
use crate::setup::Setup;
use crate::{Failure, args, say};
use engine::Engine;
pub use error::RestoreError;
pub use fault::Fault;
pub use frames::Frames;
#[cfg(feature = "nixl")]
pub use frames::block_tokens;
pub use report::{Report, mode_name};
pub use span::{Imported, span_of};
use transfer::Played;
pub use transfer::Transfer;
#[cfg(feature = "nixl")]
pub use transfer::{Import, Landed};
pub use world::{AnyKey, World, describe};

/// What a run is asked for, besides the manifest.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// Which rows of the writable page are lifted.
    pub mode: TailRows,
    /// What becomes of the partly filled last block.
    pub policy: Policy,
    /// Tokens to compute after the restore.
    pub generate: u32,
    /// What the random bytes follow from.
    pub seed: u64,
    /// The fault to play.
    pub inject: Option<Fault>,
    /// Where the lifecycle's events are written.
    pub log: Option<&'a Path>,
}

/// `pagelift restore`.
pub fn command(args: &args::Restore) -> Result<(), Failure> {
    let options = Options {
        mode: args.mode.into(),
        generate: args.generate,
        seed: args.seed,
        inject: args.inject,
        log: args.log.as_deref(),
        ..Options::default()
    };
    let Setup { manifest, backend, backend_reason } = Setup::new(&args.manifest, args.backend)?;
    let progress = Progress::new(args.json);
    let mut report = match backend {
        AnyBackend::Cpu(cpu) => run(&manifest, cpu, options, progress),
        AnyBackend::Cuda(gpu) => run(&manifest, gpu, options, progress),
    }?;
    report.backend_reason = backend_reason;
    if args.json { say::json(&report) } else { report.print() }
}

/// Runs the main job on a backend.
pub fn run<B: Backend>(
    manifest: &Manifest,
    backend: B,
    options: Options<'_>,
    progress: Progress,
) -> Result<Report, RestoreError> {
    let started = Instant::now();
    let frames = Frames::new(manifest, options.generate, options.inject == Some(Fault::Preempt))?;
    let mut world = World::new(manifest, &backend, progress)?;
    let mut model = Model::new(manifest, options.seed);
    world.fill(&model, progress)?;
    let mut transfer = Played(Producer::new(manifest, options.seed));
    let report = play(&mut world, &mut model, &backend, &mut transfer, frames, options, progress)?;
    Ok(Report { seconds: started.elapsed().as_secs_f64(), backend: backend.name(), ..report })
}

/// The main job in pools that are filled: an import comes by a transfer, is lifted, decoded from, and ended. What ran it, and how
/// long, the report does not say.
pub fn play<'m, B: Backend>(
    world: &mut World<'m>,
    model: &mut Model<'m>,
    backend: &B,
    transfer: &mut dyn Transfer<'m>,
    frames: Frames<'m>,
    options: Options<'_>,
    progress: Progress,
) -> Result<Report, RestoreError> {
    let mut engine = Engine::new(world, model, backend, transfer, frames, options, progress)?;
    let played = script::play(&mut engine, options, progress)?;
    Report::new(&engine, &played, options)
}

/// Lands an import in pools that are filled, and lifts it; nothing of it is generated.
pub fn import<'m, B: Backend>(
    world: &mut World<'m>,
    model: &mut Model<'m>,
    backend: &B,
    options: Options<'_>,
    progress: Progress,
) -> Result<(), RestoreError> {
    let frames = Frames::new(world.manifest, 0, false)?;
    let mut transfer = Played(Producer::new(world.manifest, options.seed));
    let mut engine = Engine::new(world, model, backend, &mut transfer, frames, options, progress)?;
    engine.admit()?;
    engine.land()?;
    engine.until(Stage::Lifted, "lifted")
}

/// Refuses a launch that is not done, or that met a bad entry.
pub fn done(what: &'static str, state: TicketState) -> Result<(), RestoreError> {
    match state {
        TicketState::Done(report) if report.bad == 0 => Ok(()),
        _ => Err(RestoreError::NotDone { what, state: format!("{state:?}") }),
    }
}
