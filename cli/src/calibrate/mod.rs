//! `pagelift calibrate`: how few multiprocessors are as good as more, measured in seconds and kept for each GPU and link.
//!
//! | file | question |
//! |---|---|
//! | `works` | what is copied, in each direction and in which pieces? |
//! | `choose` | which budget do the times of one work say? |
//! | `record` | what is kept, and what of? |
//! | `cache` | where is it kept? |

mod cache;
mod choose;
mod record;
mod works;

use std::collections::BTreeSet;
use std::num::{NonZeroU32, NonZeroU64};
use std::time::{SystemTime, UNIX_EPOCH};

use pagelift::backends::{AnyBackend, Cuda, Opened, Pace};
use pagelift::geometry::Memory;
use serde::Serialize;

use crate::bench::BenchError;
use crate::bench::draft::Asked;
use crate::bench::measure::{measure, rounds};
use crate::bench::rig::Rig;
use crate::progress::Progress;
use crate::restore::RestoreError;
use crate::say::{self, bytes, table};
use crate::{Failure, args, exit};
use choose::choose;
pub use record::{Gpu, Record};
use works::WORKS;

/// Multiprocessors that are tried, and all of them.
const BUDGETS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Runs that each median is of.
const REPEATS: u32 = 11;

/// What the command says.
#[derive(Debug, Serialize)]
struct Report {
    /// The file that keeps it; `None` where there is no folder for one.
    file: Option<String>,
    /// Whether it was measured before, and only read.
    cached: bool,
    #[serde(flatten)]
    record: Record,
}

/// `pagelift calibrate`.
pub fn command(args: &args::Calibrate) -> Result<(), Failure> {
    let gpu = Cuda::open(args.gpu).map_err(RestoreError::from)?;
    let (of, file) = (Gpu::of(&gpu), cache::file(&gpu.uuid()));
    let known = file.as_deref().filter(|_| !args.force).and_then(|file| cache::read(file, &of));
    let cached = known.is_some();
    let record = match known {
        Some(record) => record,
        None => {
            let record = measured(&gpu, of, Progress::new(args.json))?;
            if let Some(file) = &file {
                cache::write(file, &record)?;
            }
            record
        }
    };
    let report = Report { file: file.map(|file| file.display().to_string()), cached, record };
    if args.json { say::json(&report) } else { print(&report) }
}

/// Uses what was measured of a GPU before, where a GPU runs the kernels.
pub fn apply(opened: Opened) -> Opened {
    let Opened { backend, reason } = opened;
    match backend {
        AnyBackend::Cuda(gpu) => match known(&gpu) {
            Some(record) => {
                Opened { backend: AnyBackend::Cuda(gpu.with_calibration(record.calibration())), reason }
            }
            None => Opened { backend: AnyBackend::Cuda(gpu), reason },
        },
        cpu @ AnyBackend::Cpu(_) => Opened { backend: cpu, reason },
    }
}

/// What was measured of a GPU before.
pub fn known(gpu: &Cuda) -> Option<Record> {
    cache::read(&cache::file(&gpu.uuid())?, &Gpu::of(gpu))
}

/// Measures all works on a GPU.
fn measured(gpu: &Cuda, of: Gpu, progress: Progress) -> Result<Record, BenchError> {
    let paces = paces(gpu, false, REPEATS, progress)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Ok(Record::new(of, now, &paces))
}

/// Does small works on a GPU, each proved: what comes of it means nothing.
pub fn rehearse(gpu: &Cuda) -> Result<Record, BenchError> {
    Ok(Record::new(Gpu::of(gpu), 0, &paces(gpu, true, 1, Progress::new(true))?))
}

/// Measures all works, and chooses a budget for each, in their order.
fn paces<B: Rig>(
    rig: &B,
    small: bool,
    repeats: u32,
    progress: Progress,
) -> Result<[Pace; WORKS], BenchError> {
    let all = rig.machine().workers;
    let budgets: BTreeSet<u32> = BUDGETS.into_iter().filter(|budget| *budget < all).chain([all]).collect();
    let budgets = budgets.into_iter().filter_map(NonZeroU32::new).collect();
    let asked = Asked { budgets, seed: 1, small };
    let bar = progress.steps("calibrate", rounds(repeats) * (1 + asked.budgets.len() as u64) * WORKS as u64);
    let slowest = Pace { workers: NonZeroU32::MIN, bytes_per_second: NonZeroU64::MIN };
    let mut paces = [slowest; WORKS];
    for (pace, build) in paces.iter_mut().zip(works::all()) {
        let mut work = build(rig, &asked)?;
        let ways = measure(rig, &mut work, repeats, &bar)?;
        *pace = choose(work.bytes, &ways).ok_or(BenchError::NotTimed)?;
    }
    Ok(paces)
}

/// Prints what was measured for a person.
fn print(report: &Report) -> Result<(), Failure> {
    let Record { gpu, .. } = &report.record;
    let link = gpu.link.as_deref().unwrap_or("a link that the system does not tell");
    say::say(&format!("{} at {link}, {} multiprocessors", gpu.device, gpu.multiprocessors))?;
    let mut table = table(["direction", "pieces", "multiprocessors", "GB/s", "in 100 µs"]);
    let calibration = report.record.calibration();
    let directions = [
        ("host to GPU", (Memory::Host, Memory::Device)),
        ("GPU to host", (Memory::Device, Memory::Host)),
        ("GPU to GPU", (Memory::Device, Memory::Device)),
    ];
    for (direction, way) in directions {
        for (words, pieces) in record::PIECES {
            let Some(pace) = calibration.pace(way, pieces) else { continue };
            table.add_row([
                direction.to_owned(),
                words.to_owned(),
                pace.workers.to_string(),
                format!("{:.1}", pace.bytes_per_second.get() as f64 / 1e9),
                bytes(pace.bytes_within(std::time::Duration::from_micros(100)).get()),
            ]);
        }
    }
    say::say(&table)?;
    match (&report.file, report.cached) {
        (Some(file), true) => {
            say::say(&format!("measured before, and kept in {file}; `--force` measures again"))
        }
        (Some(file), false) => say::say(&format!("kept in {file}")),
        (None, _) => say::say(&"not kept: neither XDG_CACHE_HOME nor HOME names a folder"),
    }
}

impl From<cache::CacheError> for Failure {
    fn from(error: cache::CacheError) -> Self {
        Self { message: error.to_string(), code: exit::UNABLE }
    }
}

#[cfg(test)]
mod tests {
    use pagelift::backends::Cpu;

    use super::*;

    /// Every work is done, and proves its bytes.
    #[test]
    fn works_of_all_directions_are_measured() {
        let cpu = Cpu::with_threads(2).unwrap();
        let workers = cpu.machine().workers;
        for pace in paces(&cpu, true, 1, Progress::new(true)).unwrap() {
            assert!(pace.workers.get() <= workers && pace.bytes_per_second.get() > 1000, "{pace:?}");
        }
    }
}
