//! `pagelift bench`: how fast the kernels are, beside what one would do without them.
//!
//! | file | question |
//! |---|---|
//! | `figures` | what is measured, and what must it show? |
//! | `pages`, `rows`, `steps`, `beside` | what memory, geometry and plan has each work? |
//! | `draft`, `bed` | how is a work made, and what must it have written? |
//! | `rig` | how is a launch repeated and timed on a backend? |
//! | `measure` | what do runs that take turns come to? |
//! | `bars` | is that enough? |
//! | `report`, `plots`, `chart` | how is it said, and drawn? |

mod bars;
pub mod bed;
mod beside;
pub mod chart;
pub mod draft;
mod figures;
pub mod measure;
mod pages;
mod plots;
mod report;
pub mod rig;
pub mod rows;
mod steps;

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::path::Path;
use std::{fs, io};

use pagelift::backends::{AnyBackend, open};
use thiserror::Error;

use crate::args::{self, Budget};
use crate::progress::Progress;
use crate::restore::RestoreError;
use crate::{Failure, exit, say, text};
use draft::Asked;
pub use figures::Figure;
use figures::{Case, cases};
use report::Measurement;
pub use report::Report;
#[cfg(feature = "nixl")]
pub use report::today;
use rig::Rig;

/// Why a run ended early.
#[derive(Debug, Error)]
pub enum BenchError {
    /// A step of the library failed.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// A copy did not do what it must.
    #[error("{way}: byte {offset} of a pool is not what it must be; the time that this takes means nothing")]
    WrongByte { way: String, offset: usize },
    /// No time was taken, or none that can be.
    #[error("no budget of multiprocessors gave a time; nothing is kept of this")]
    NotTimed,
    /// The backend has no work for a figure.
    #[error("figure {figure} needs a GPU: leave it out, or measure with `--backend cuda`")]
    NeedsGpu { figure: String },
    /// The machine is smaller than every budget.
    #[error("this machine has {workers} for a launch, and each of `--budgets` is more: use fewer, or `all`")]
    Budgets { workers: u32 },
}

impl BenchError {
    /// The same error, saying more closely where it happened.
    fn of(self, place: &str) -> Self {
        match self {
            Self::WrongByte { way, offset } if way.is_empty() => {
                Self::WrongByte { way: place.into(), offset }
            }
            Self::WrongByte { way, offset } => Self::WrongByte { way: format!("{place}, {way}"), offset },
            other => other,
        }
    }
}

impl<E: Into<pagelift::Error>> From<E> for BenchError {
    fn from(error: E) -> Self {
        Self::Restore(RestoreError::Pagelift(error.into()))
    }
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        match error {
            BenchError::Restore(error) => error.into(),
            error @ (BenchError::NeedsGpu { .. } | BenchError::Budgets { .. }) => {
                Self { message: error.to_string(), code: exit::USAGE }
            }
            error => Self { message: error.to_string(), code: exit::FAILED },
        }
    }
}

/// `pagelift bench`.
pub fn command(args: &args::Bench) -> Result<(), Failure> {
    let opened = open(args.backend.into()).map_err(RestoreError::from)?;
    let (mut report, done) = match &opened.backend {
        AnyBackend::Cpu(_) if args.backend == args::Backend::Auto => return Err(no_gpu(&opened.reason)),
        AnyBackend::Cpu(cpu) => run(cpu, args),
        AnyBackend::Cuda(gpu) => run(gpu, args),
    };
    report.backend_reason = opened.reason;
    // What was measured before something failed was measured well.
    if let Some(folder) = args.out.as_ref().filter(|_| done.is_ok() || !report.figures.is_empty()) {
        write(&report, folder)?;
    }
    done?;
    if args.json { say::json(&report) } else { report.print_end() }
}

/// There is nothing that bars are for.
fn no_gpu(reason: &str) -> Failure {
    let message = format!(
        "there is no GPU to measure ({reason}); `--backend cpu` measures the CPU, and `--backend cpu --small` tries the command out"
    );
    Failure { message, code: exit::UNABLE }
}

/// Writes a report into a folder: for people, for programs, and as pictures.
fn write(report: &Report, folder: &Path) -> Result<(), Failure> {
    let wrong = |path: &Path, error: io::Error| {
        let message = format!("{} cannot be written: {error}", text::path(path));
        Failure { message, code: exit::USAGE }
    };
    fs::create_dir_all(folder).map_err(|error| wrong(folder, error))?;
    let json = serde_json::to_string_pretty(report).unwrap_or_default() + "\n";
    let plots = plots::plots(report);
    let pictures: Vec<&str> = plots.iter().map(|(name, _)| *name).collect();
    let files = [("bench.md", report.markdown(&pictures)), ("bench.json", json)];
    for (name, content) in files.into_iter().chain(plots) {
        let path = folder.join(name);
        fs::write(&path, content).map_err(|error| wrong(&path, error))?;
    }
    Ok(())
}

/// Measures what is asked for on a backend: a report of what was measured, and why that is not all, where it is not.
pub fn run<B: Rig>(rig: &B, args: &args::Bench) -> (Report, Result<(), Failure>) {
    let machine = rig.machine();
    let budgets: BTreeSet<NonZeroU32> =
        args.budgets.iter().filter_map(|budget| within(*budget, machine.workers)).collect();
    let asked = Asked { budgets: budgets.into_iter().collect(), seed: args.seed, small: args.small };
    let mut report = Report::new(rig.name(), machine, args);
    let done = fill(&mut report, rig, &asked, args);
    (report, done)
}

fn fill<B: Rig>(report: &mut Report, rig: &B, asked: &Asked, args: &args::Bench) -> Result<(), Failure> {
    let cases = cases::<B>();
    if let Some(figure) = args.only.iter().find(|one| cases.iter().all(|case| case.figure != **one)) {
        return Err(BenchError::NeedsGpu { figure: figure.letter() }.into());
    }
    if asked.budgets.is_empty() {
        return Err(BenchError::Budgets { workers: rig.machine().workers }.into());
    }
    let progress = Progress::new(args.json);
    if !args.json {
        report.print_start()?;
    }
    let chosen = |case: &Case<B>| args.only.is_empty() || args.only.contains(&case.figure);
    for case in cases.into_iter().filter(chosen) {
        let measured = one(rig, &case, asked, args.repeats, progress);
        let measured = measured.map_err(|error| error.of(case.name))?;
        let measurement = report.add(&case, measured);
        if !args.json {
            measurement.print()?;
        }
    }
    Ok(())
}

/// A budget in workers of this machine, where it has as many.
fn within(budget: Budget, workers: u32) -> Option<NonZeroU32> {
    match budget {
        Budget::All => NonZeroU32::new(workers),
        Budget::Workers(number) => Some(number).filter(|number| number.get() <= workers),
    }
}

/// Measures one work.
fn one<B: Rig>(
    rig: &B,
    case: &Case<B>,
    asked: &Asked,
    repeats: u32,
    progress: Progress,
) -> Result<Measurement, BenchError> {
    let preparing = progress.waiting(case.name);
    let mut work = (case.build)(rig, asked)?;
    drop(preparing);
    let bar = progress.steps("measure", measure::rounds(repeats) * work.ways.len() as u64);
    let ways = measure::measure(rig, &mut work, repeats, &bar)?;
    Ok(Measurement {
        figure: case.figure,
        work: case.name,
        bytes: work.bytes,
        fragments: work.fragments,
        ways,
        bars: Vec::new(),
    })
}
