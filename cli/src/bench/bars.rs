//! What a figure must show, and whether it does.

use serde::Serialize;

use super::measure::{KERNEL, Measured};
use super::report::Measurement;

/// What a figure must show.
#[derive(Clone, Copy, Debug)]
pub enum Bar {
    /// This share of the speed of the first way.
    Share(At, f64),
    /// So many times as fast as another way.
    Faster(At, &'static str, f64),
    /// What the first way adds to the work alone, at most this share of what the second one adds.
    Adds(&'static str, &'static str, f64),
    /// So many microseconds until the call has returned, at most, with so many jobs.
    Host(u32, f64),
    /// So many nanoseconds more for each job more than in another work, until the call has returned, at most.
    EachJob(&'static str, f64),
    /// So many microseconds more than the first way, at most.
    Within(At, f64),
    /// So many times the time of another work per byte, at most.
    PerByte(At, &'static str, f64),
}

/// With how many multiprocessors.
#[derive(Clone, Copy, Debug)]
pub enum At {
    /// So many.
    Exactly(u32),
    /// The best of at most so many.
    UpTo(u32),
    /// The best of all.
    Best,
}

/// What a figure showed.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// What it must show, in words.
    pub bar: String,
    /// What it showed.
    pub found: f64,
    /// Whether that is enough.
    pub met: bool,
}

impl At {
    /// The kernel's figure.
    fn of(self, ways: &[Measured]) -> Option<&Measured> {
        let counts = |budget: u32| match self {
            Self::Exactly(workers) => budget == workers,
            Self::UpTo(workers) => budget <= workers,
            Self::Best => true,
        };
        let kernels = ways.iter().filter(|way| way.way == KERNEL && way.budget.is_some_and(counts));
        kernels.min_by(|a, b| a.microseconds.median.total_cmp(&b.microseconds.median))
    }

    fn words(self) -> String {
        match self {
            Self::Exactly(workers) => format!("at {workers}"),
            Self::UpTo(workers) => format!("at most {workers}"),
            Self::Best => "at best".into(),
        }
    }
}

impl Bar {
    /// Whether figures meet it; `None` where they were not measured. `earlier` are those of works before.
    pub fn judge(self, ways: &[Measured], earlier: &[Measurement]) -> Option<Judged> {
        let median = |way: &Measured| way.microseconds.median;
        Some(match self {
            Self::Share(at, least) => {
                let found = at.of(ways)?.ratio;
                Judged {
                    bar: format!("at least {least} of the first {}", at.words()),
                    found,
                    met: found >= least,
                }
            }
            Self::Faster(at, other, least) => {
                let other_way = ways.iter().find(|way| way.way == other)?;
                let found = median(other_way) / median(at.of(ways)?);
                let bar = format!("{least} times as fast as {other} {}", at.words());
                Judged { bar, found, met: found >= least }
            }
            Self::Adds(way, other, most) => {
                let alone = median(ways.first()?);
                let added = |name| Some(median(ways.iter().find(|way| way.way == name)?) - alone);
                let found = added(way)? / added(other)?;
                Judged { bar: format!("adds at most {most} of what {other} adds"), found, met: found <= most }
            }
            Self::Host(jobs, most) => {
                let found = ways.iter().find(|way| way.jobs == Some(jobs))?.host_microseconds;
                Judged { bar: format!("at most {most} µs for {jobs} jobs"), found, met: found <= most }
            }
            Self::EachJob(other, most) => {
                let other_ways = &earlier.iter().find(|one| one.work == other)?.ways;
                let of = |way: &Measured| Some((f64::from(way.jobs?), way.host_microseconds));
                let ((few, least), (many, longest)) =
                    (other_ways.iter().find_map(of)?, ways.iter().find_map(of)?);
                let found = (longest - least) / (many - few) * 1e3;
                Judged { bar: format!("at most {most} ns a job more"), found, met: found <= most }
            }
            Self::Within(at, most) => {
                let found = median(at.of(ways)?) - median(ways.first()?);
                Judged {
                    bar: format!("at most {most} µs more than the first {}", at.words()),
                    found,
                    met: found <= most,
                }
            }
            Self::PerByte(at, other, most) => {
                let other_ways = &earlier.iter().find(|one| one.work == other)?.ways;
                let speed = |ways: &[Measured]| at.of(ways)?.gigabytes_per_second;
                let found = speed(other_ways)? / speed(ways)?;
                Judged {
                    bar: format!("at most {most} times the time of {other} per byte {}", at.words()),
                    found,
                    met: found <= most,
                }
            }
        })
    }
}
