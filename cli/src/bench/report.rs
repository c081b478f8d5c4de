//! What was measured, for a person and for programs.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use comfy_table::Table;
use serde::Serialize;

use super::bars::Judged;
use super::figures::{Case, Figure};
use super::measure::Measured;
use super::rig::Machine;
use crate::say::{bytes, count, markdown, say, table};
use crate::{Failure, args};

/// All that was measured.
#[derive(Debug, Serialize)]
pub struct Report {
    /// This program's version.
    pub version: &'static str,
    /// The commit that it was built from, where the build knew it.
    pub commit: Option<&'static str>,
    /// The day, in UTC.
    pub date: String,
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
            date: today(),
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
    pub fn add<B>(&mut self, case: &Case<B>, mut measured: Measurement) -> &Measurement {
        if self.backend == "cuda" && !self.small {
            let judged = case.bars.iter().filter_map(|bar| bar.judge(&measured.ways, &self.figures));
            measured.bars = judged.collect();
        }
        let index = self.figures.len();
        self.figures.push(measured);
        &self.figures[index]
    }

    /// Where, when and of what.
    pub fn words(&self) -> String {
        let Machine { device, driver, .. } = &self.machine;
        let driver = driver.as_ref().map_or_else(String::new, |driver| format!(", {driver}"));
        let commit = self.commit.map_or_else(String::new, |commit| format!(" (commit {commit})"));
        let small = if self.small { ", small works, which mean nothing" } else { "" };
        format!("{}, {device}{driver}, pagelift {}{commit}{small}", self.date, self.version)
    }

    /// Says what is going to be measured.
    pub fn print_start(&self) -> Result<(), Failure> {
        say(&format!("{}\n{}", self.words(), self.method()))
    }

    /// How it is measured.
    fn method(&self) -> String {
        let all = if self.backend == "cuda" { "multiprocessor" } else { "thread" };
        let workers = count(self.machine.workers.into(), all);
        format!("{workers}; medians of {} that take turns", count(self.repeats.into(), "run"))
    }

    /// Says what it came to.
    pub fn print_end(&self) -> Result<(), Failure> {
        if let Some(bars) = self.bars() {
            say(&bars)?;
        }
        say(&format!("{}, on {} ({})", self.verdict(), self.backend, self.backend_reason))
    }

    /// How many bars are met.
    fn verdict(&self) -> String {
        let bars = || self.figures.iter().flat_map(|one| &one.bars);
        let met = bars().filter(|bar| bar.met).count();
        if bars().next().is_none() {
            return "there are no bars for these figures".into();
        }
        format!("{met} of {} met", count(bars().count() as u64, "bar"))
    }

    /// The bars, where there are any.
    fn bars(&self) -> Option<Table> {
        let mut bars = table(["figure", "must be", "was", ""]);
        for one in &self.figures {
            for bar in &one.bars {
                let verdict = if bar.met { "met" } else { "MISSED" };
                bars.add_row([
                    one.figure.letter(),
                    bar.bar.clone(),
                    format!("{:.2}", bar.found),
                    verdict.into(),
                ]);
            }
        }
        (!bars.is_empty()).then_some(bars)
    }

    /// All of it as a document, with these pictures beside it.
    pub fn markdown(&self, pictures: &[&str]) -> String {
        let mut text =
            format!("# Bench\n\n{}. {}. Written by `{}`.\n", self.words(), self.method(), self.command);
        for picture in pictures {
            // Writing to a string does not fail.
            let _ = write!(text, "\n![{0}]({0})\n", picture);
        }
        if let Some(bars) = self.bars() {
            let _ = write!(text, "\n## {}\n\n{}\n", self.verdict(), markdown(bars));
        }
        for one in &self.figures {
            let _ = write!(text, "\n## {}\n\n{}\n", one.heading(), markdown(one.table()));
        }
        text
    }
}

impl Measurement {
    /// Prints the work's table.
    pub fn print(&self) -> Result<(), Failure> {
        say(&format!("\n{}\n{}", self.heading(), self.table()))
    }

    fn heading(&self) -> String {
        let pieces = match self.bytes {
            0 => String::new(),
            moved => format!(" ({} in {})", bytes(moved), count(self.fragments, "piece")),
        };
        format!("{}  {}{pieces}", self.figure.letter(), self.work)
    }

    fn table(&self) -> Table {
        // Beside other work it matters when the bytes are there, and not how fast that work and they are together.
        let beside = self.ways.iter().any(|way| way.restored_microseconds.is_some());
        let speed = if beside { "restored" } else { "GB/s" };
        let mut ways = table(["way", "budget", "median", "10 % to 90 %", speed, "ratio", "host"]);
        for way in &self.ways {
            let setting = match (way.budget, way.jobs) {
                (Some(budget), _) => budget.to_string(),
                (None, Some(jobs)) => count(jobs.into(), "job"),
                (None, None) => String::new(),
            };
            let spread = way.microseconds;
            ways.add_row([
                way.way.to_owned(),
                setting,
                format!("{:.1} µs", spread.median),
                format!("{:.1} to {:.1}", spread.p10, spread.p90),
                match (way.restored_microseconds, way.gigabytes_per_second) {
                    (Some(time), _) => format!("{time:.1} µs"),
                    (None, Some(speed)) => format!("{speed:.1}"),
                    (None, None) => String::new(),
                },
                format!("{:.3}", way.ratio),
                format!("{:.1} µs", way.host_microseconds),
            ]);
        }
        ways
    }
}

/// The day, in UTC.
pub fn today() -> String {
    date(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / 86_400))
}

/// The date of a day, counted from 1970 on.
fn date(days: u64) -> String {
    // Years that begin in March have their leap day at the end; 400 of them have 146,097 days.
    let day = days + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{day:02}", era * 400 + year + next)
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn days_have_dates() {
        let days = [0, 58, 59, 10_956, 10_957, 11_016, 11_017, 20_786];
        let dates = [
            "1970-01-01",
            "1970-02-28",
            "1970-03-01",
            "1999-12-31",
            "2000-01-01",
            "2000-02-29",
            "2000-03-01",
            "2026-11-29",
        ];
        assert_eq!(days.map(date), dates);
    }
}
