//! What tests of others play, in small, in silence, and without ending the process: the main job for a manifest that nobody
//! vouches for, and what `bench`, `calibrate`, `doctor` and `prefill` do on any GPU.

use std::path::Path;
use std::time::Duration;

use clap::Parser as _;
use pagelift::backends::{Cpu, Cuda};
use pagelift::plan::TailRows;

use crate::manifest::Draft;
use crate::progress::Progress;
use crate::restore::{self, Options, RestoreError};
use crate::{Failure, args, bench, calibrate, doctor, exit};

/// What became of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rehearsal {
    /// It was refused, in these words.
    Refused(String),
    /// It is a manifest, and a run of it takes so many bytes, which are more than were allowed.
    TooLarge(u64),
    /// It was played, and so many bytes of its pools were as they must be.
    Verified(u64),
}

/// Plays an import, and generates some tokens where its pools have blocks for them. `seed` decides what bytes there
/// are, how much of the last page is lifted, and how many tokens follow.
///
/// ```
/// use pagelift_cli::rehearse::{Rehearsal, rehearse};
/// assert!(matches!(rehearse(b"[]", 1 << 20, 0), Ok(Rehearsal::Refused(_))));
/// ```
///
/// # Errors
/// Where a manifest was accepted and the job then failed, in words: a byte is wrong, or a step of the library was refused.
pub fn rehearse(text: &[u8], most_bytes: u64, seed: u64) -> Result<Rehearsal, String> {
    let refused = |error: RestoreError| match Failure::from(error) {
        Failure { message, code: exit::FAILED } => Err(message),
        Failure { message, .. } => Ok(Rehearsal::Refused(message)),
    };
    let draft = match Draft::parse(text, Path::new("manifest.json")) {
        Ok(draft) => draft,
        Err(error) => return refused(error.into()),
    };
    let needed = draft.footprint().total();
    if needed > most_bytes {
        return Ok(Rehearsal::TooLarge(needed));
    }
    let manifest = match draft.assign() {
        Ok(manifest) => manifest,
        Err(error) => return refused(error.into()),
    };
    let backend = Cpu::with_threads(1).map_err(|error| error.to_string())?;
    let modes = [TailRows::Whole, TailRows::Exact, TailRows::ExactZeroed];
    let mode = modes.into_iter().cycle().nth((seed % 3) as usize).unwrap_or_default();
    let run = |generate| {
        let options = Options { mode, generate, seed, ..Options::default() };
        restore::run(&manifest, &backend, options, Progress::new(true))
    };
    let most_tokens = (seed % 40) as u32;
    let done = match run(most_tokens) {
        Err(RestoreError::PoolTooSmall { most, .. }) => {
            run(u32::try_from(most).unwrap_or(0).min(most_tokens))
        }
        done => done,
    };
    done.map_or_else(refused, |report| Ok(Rehearsal::Verified(report.bytes_verified)))
}

/// Does small works of every figure of `pagelift bench` on a GPU, each proved, and returns the report as JSON.
///
/// # Errors
/// Where a way writes a wrong byte, or a step of the library fails, in words.
pub fn measure(gpu: &Cuda) -> Result<String, String> {
    let words = ["pagelift", "bench", "--small", "--json", "--repeats", "1", "--budgets", "1"];
    let args = args::Args::try_parse_from(words).map_err(|error| error.to_string())?;
    let args::Command::Bench(args) = args.command else { return Err("no bench".into()) };
    let (report, done) = bench::run(gpu, &args);
    done.map_err(|failure| failure.message)?;
    serde_json::to_string(&report).map_err(|error| error.to_string())
}

/// Does small works of `pagelift calibrate` on a GPU, each proved, and returns what would be kept as JSON.
///
/// # Errors
/// As [`measure`].
pub fn calibrate(gpu: &Cuda) -> Result<String, String> {
    let record = calibrate::rehearse(gpu).map_err(|error| error.to_string())?;
    serde_json::to_string(&record).map_err(|error| error.to_string())
}

/// What `pagelift prefill` has filled.
#[cfg(feature = "nixl")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefilled {
    /// Cache groups.
    pub groups: usize,
    /// Extents of all pools.
    pub extents: usize,
    /// Bytes that an import would read.
    pub bytes: u64,
}

/// Fills pools of a GPU as `pagelift prefill` does, arranged by a seed, and compares every byte of them.
///
/// # Errors
/// As [`measure`].
#[cfg(feature = "nixl")]
pub fn prefill(gpu: &Cuda, manifest: &Path, seed: u64) -> Result<Prefilled, String> {
    crate::handoff::rehearse(gpu, manifest, seed).map_err(|error| error.to_string())
}

/// Looks at a GPU as `pagelift doctor` does, with a first launch, and returns what it found as JSON.
///
/// # Errors
/// Where that cannot be written.
pub fn look(gpu: &Cuda) -> Result<String, String> {
    serde_json::to_string(&doctor::Gpu::look(gpu, Duration::ZERO)).map_err(|error| error.to_string())
}
