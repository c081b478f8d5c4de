//! What was measured, for a person and for programs.

use serde::Serialize;

use super::bars::Judged;
use super::figures::{Case, Figure};
use super::measure::Measured;
use super::rig::Machine;
use crate::say::{bytes, count, say, table};
use crate::{Failure, args};

/// All that was measured.
#[derive(Debug, Serialize)]
pub struct Report {
    /// This program's version.
    pub version: &'static str,
    /// The commit that it was built from, where the build knew it.
    pub commit: Option<&'static str>,
    /// How it was called.
    pub command: String,
    /// What ran the kernels.
    pub backend: &'static str,
    /// Why that.
    pub backend_reason: String,
    pub machine: Machine,
    /// Runs that each median is of.
    pub repeats: u32,
    /// What all randomness followed from.
    pub seed: u64,
    /// Whether works were small, so that figures mean nothing.
    pub small: bool,
    pub figures: Vec<Measurement>,
}

/// One work, measured.
#[derive(Debug, Serialize)]
pub struct Measurement {
    pub figure: Figure,
    /// The work.
    pub work: &'static str,
    /// Bytes that each way moved.
    pub bytes: u64,
    /// Pieces that lie together on both sides.
    pub fragments: u64,
    /// The first is what the others are compared with.
    pub ways: Vec<Measured>,
    /// What it must show on a GPU, where that was measured.
    pub bars: Vec<Judged>,
}

impl Report {
    /// Without a figure yet.
    pub fn new(backend: &'static str, machine: Machine, args: &args::Bench) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            commit: option_env!("PAGELIFT_COMMIT"),
            command: std::env::args().skip(1).fold("pagelift".into(), |all, word| all + " " + &word),
            backend,
            backend_reason: String::new(),
            machine,
            repeats: args.repeats,
            seed: args.seed,
            small: args.small,
            figures: Vec::new(),
        }
    }

    /// Adds a work, and judges it where its figures mean something.
    pub fn add<B>(&mut self, case: &Case<B>, mut measured: Measurement, small: bool) -> &Measurement {
        if self.backend == "cuda" && !small {
            let judged = case.bars.iter().filter_map(|bar| bar.judge(&measured.ways, &self.figures));
            measured.bars = judged.collect();
        }
        let index = self.figures.len();
        self.figures.push(measured);
        &self.figures[index]
    }

    /// Says what is going to be measured.
    pub fn print_start(&self) -> Result<(), Failure> {
        let Machine { device, driver, workers } = &self.machine;
        let driver = driver.as_ref().map_or_else(String::new, |driver| format!(", {driver}"));
        let all = if self.backend == "cuda" { "multiprocessors" } else { "threads" };
        say(&format!("{device}{driver}, {workers} {all}; medians of {} runs that take turns", self.repeats))
    }

    /// Says what it came to.
    pub fn print_end(&self) -> Result<(), Failure> {
        if self.small {
            return say(&"Works were small: these figures mean nothing.");
        }
        let mut bars = table(["figure", "must be", "was", ""]);
        let judged = self.figures.iter().flat_map(|one| one.bars.iter().map(move |bar| (one, bar)));
        for (one, bar) in judged.clone() {
            let verdict = if bar.met { "met" } else { "MISSED" };
            bars.add_row([one.figure.letter(), bar.bar.clone(), format!("{:.2}", bar.found), verdict.into()]);
        }
        let (met, all) = (judged.clone().filter(|(_, bar)| bar.met).count(), judged.count());
        if all > 0 {
            say(&bars)?;
        }
        say(&format!(
            "{met} of {} met, on {} ({})",
            count(all as u64, "bar"),
            self.backend,
            self.backend_reason
        ))
    }
}

impl Measurement {
    /// Prints the work's table.
    pub fn print(&self) -> Result<(), Failure> {
        let pieces = match self.bytes {
            0 => String::new(),
            moved => format!(" ({} in {})", bytes(moved), count(self.fragments, "piece")),
        };
        say(&format!("\n{}  {}{pieces}", self.figure.letter(), self.work))?;
        let mut ways = table(["way", "budget", "median", "10 % to 90 %", "GB/s", "ratio", "host"]);
        for way in &self.ways {
            let spread = way.microseconds;
            let setting = match (way.budget, way.jobs) {
                (Some(budget), _) => budget.to_string(),
                (None, Some(jobs)) => count(jobs.into(), "job"),
                (None, None) => String::new(),
            };
            ways.add_row([
                way.way.to_owned(),
                setting,
                format!("{:.1} µs", spread.median),
                format!("{:.1} to {:.1}", spread.p10, spread.p90),
                way.gigabytes_per_second.map_or_else(String::new, |speed| format!("{speed:.1}")),
                format!("{:.3}", way.ratio),
                format!("{:.1} µs", way.host_microseconds),
            ]);
        }
        say(&ways)
    }
}
