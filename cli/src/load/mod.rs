//! `pagelift load`: what hand-offs between two processes cost, and whether they last.
//!
//! | file | question |
//! |---|---|
//! | `family` | which caches are handed over? |
//! | `pool`, `side` | what memory has each process, and what is in it? |
//! | `producer` | what does the other process do? |
//! | `pair`, `timed` | how does this one ask it, and how long did NIXL take of that? |
//! | `ratio` | how fast is an import, beside one large read? |
//! | `flood` | what becomes of many at a time, for a while? |
//! | `watch` | what does a process hold meanwhile? |
//! | `report` | how is it said, and drawn? |

mod error;
mod family;
mod flood;
mod pair;
mod pool;
mod producer;
mod ratio;
mod report;
mod side;
mod timed;
mod watch;

use pagelift::backends::{Backend, Cpu, Cuda};
use pagelift_transport::nixl::Library;
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::args::{self, Place};
use crate::progress::Progress;
use crate::{Failure, exit, say};
use error::LoadError;
use family::{FAMILIES, Family, MAIN};
use report::Report;
use side::Spec;

/// `pagelift load`.
pub fn command(args: &args::Load) -> Result<(), Failure> {
    say::keep_results_apart()?;
    // Without it, the other process need not be started.
    Library::open().map_err(LoadError::from)?;
    if let Some(spec) = &args.serve {
        // It ends with D, and where this cannot be had, with its standard input and all leases.
        let _: rustix::io::Result<()> = set_parent_process_death_signal(Some(Signal::TERM));
        let spec: Spec = serde_json::from_str(spec)
            .map_err(|error| Failure { message: error.to_string(), code: exit::USAGE })?;
        return Ok(match spec.place.gpu() {
            None => producer::serve(&Cpu::new().map_err(LoadError::from)?, &spec),
            Some(gpu) => producer::serve(&Cuda::open(gpu).map_err(LoadError::from)?, &spec),
        }?);
    }
    let mut report = Report::new(args);
    // Where nothing can be written, nothing needs to be measured.
    if let Some(stem) = &args.out {
        report.write(stem)?;
    }
    let done = match args.into.gpu() {
        None => run(&Cpu::new().map_err(LoadError::from)?, args, &mut report),
        Some(gpu) => run(&Cuda::open(gpu).map_err(LoadError::from)?, args, &mut report),
    };
    // What was measured before something failed was measured well.
    if let Some(stem) = &args.out {
        report.write(stem)?;
    }
    done?;
    if args.json { say::json(&report) } else { report.print() }
}

fn run<B: Backend>(backend: &B, args: &args::Load, report: &mut Report) -> Result<(), LoadError> {
    let progress = Progress::new(args.json);
    let chosen =
        |family: &&'static Family| args.only.is_empty() || args.only.iter().any(|name| name == family.name);
    if let Some(name) = args.only.iter().find(|name| Family::find(name).is_none()) {
        return Err(LoadError::Family(name.clone()));
    }
    for family in FAMILIES.iter().filter(chosen) {
        let _waiting = progress.waiting(family.words);
        let (ratio, setup) = ratio::measure(backend, args, family)?;
        report.ratios.push(ratio);
        report.setup = setup.or(report.setup.take());
    }
    if args.seconds > 0 {
        let _waiting = progress.waiting("many imports at a time");
        let family = Family::find(args.only.first().map_or(MAIN, String::as_str));
        let family = family.ok_or_else(|| LoadError::Family(MAIN.into()))?;
        report.flood = Some(flood::run(backend, args, family)?);
    }
    Ok(())
}

impl Place {
    /// The GPU whose memory or kernels it takes.
    pub const fn gpu(self) -> Option<u32> {
        match self {
            Self::Host | Self::Lift(None) => None,
            Self::Device(gpu) | Self::Lift(Some(gpu)) => Some(gpu),
        }
    }
}
