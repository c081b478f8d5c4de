//! What a figure must show, and whether it does.

use serde::Serialize;

use super::measure::Measured;
use super::report::Measurement;

/// What a figure must show.
#[derive(Clone, Copy, Debug)]
pub enum Bar {
    /// This share of the speed of the first way.
    Share(At, f64),
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

/// The way that bars are about.
pub const KERNEL: &str = "kernel";

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
