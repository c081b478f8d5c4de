//! What was measured, as the figures that are asked for.

use std::fmt::Write;

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::measured::Measured;

/// All figures.
#[derive(Serialize)]
pub struct Figures {
    /// Nanoseconds of each way to describe a step of 64 imports.
    pub step: Vec<(String, f64)>,
    /// Jobs of a plan, and nanoseconds for each of them.
    pub jobs: Vec<(u64, f64)>,
    /// What is copied: its name, and the bandwidth of each way to copy it, in GiB/s.
    pub copies: Vec<(String, Vec<(String, f64)>)>,
}

const STEP: &str = "step of 64 imports, 3 groups, 61 layers";
const JOBS: &str = "planning and encoding";
pub const RESERVED: &str = "reserved imports";
pub const LISTS: &str = "block lists";
pub const DESCRIPTORS: &str = "descriptors";
pub const PLAIN: &str = "plain copies";

impl Figures {
    pub fn from(measured: &[Measured]) -> Result<Self> {
        let of = |group: &str| measured.iter().filter(|one| one.group == group).collect::<Vec<_>>();
        let step: Vec<_> = of(STEP).iter().map(|one| (one.name.clone(), one.median)).collect();
        let each = |one: &&Measured| {
            let jobs = one.amount.with_context(|| format!("{JOBS}: {} has no number of jobs", one.name))?;
            Ok((jobs, one.median / jobs as f64))
        };
        let jobs = of(JOBS).iter().map(each).collect::<Result<_>>()?;
        let mut copies: Vec<(String, Vec<(String, f64)>)> = Vec::new();
        for one in measured.iter().filter(|one| one.group != STEP && one.group != JOBS) {
            let bytes = one.amount.with_context(|| format!("{}: {} has no bytes", one.group, one.name))?;
            let way = (one.name.clone(), bytes as f64 / one.median * 1e9 / f64::from(1 << 30));
            match copies.iter_mut().find(|(group, _)| *group == one.group) {
                Some((_, ways)) => ways.push(way),
                None => copies.push((one.group.clone(), vec![way])),
            }
        }
        // What others are compared with.
        if !step.iter().any(|(name, _)| name == RESERVED) {
            bail!("{STEP}: `{RESERVED}` was not measured; run `cargo xtask bench` without --last");
        }
        if let Some((what, _)) = copies.iter().find(|(_, ways)| !ways.iter().any(|(name, _)| name == PLAIN)) {
            bail!("{what}: `{PLAIN}` was not measured; run `cargo xtask bench` without --last");
        }
        // Names sort as they are read: the plain way after those that are compared with it.
        copies.iter_mut().for_each(|(_, ways)| ways.sort_by_key(|(name, _)| name != PLAIN));
        Ok(Self { step, jobs, copies })
    }

    /// Tables, as a page of documentation has them.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        let mut line = |words: std::fmt::Arguments<'_>| {
            // Writing to a string does not fail.
            let _ = text.write_fmt(words);
            text.push('\n');
        };
        let find = |all: &[(String, f64)], wanted: &str| {
            all.iter().find(|(name, _)| name == wanted).map_or(f64::NAN, |(_, value)| *value)
        };
        let reserved = find(&self.step, RESERVED);
        line(format_args!("| {STEP} | median | against `{RESERVED}` |\n|---|---:|---:|"));
        for (name, time) in &self.step {
            line(format_args!("| {name} | {:.2} µs | {:.1} × |", time / 1e3, time / reserved));
        }
        line(format_args!("\n| {JOBS} | a job |\n|---|---:|"));
        for (jobs, time) in &self.jobs {
            line(format_args!("| {jobs} jobs | {time:.1} ns |"));
        }
        for (what, ways) in &self.copies {
            line(format_args!("\n| {what} | bandwidth | against `{PLAIN}` |\n|---|---:|---:|"));
            let plain = find(ways, PLAIN);
            for (name, bandwidth) in ways {
                line(format_args!("| {name} | {bandwidth:.1} GiB/s | {:.2} |", bandwidth / plain));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(group: &str, name: &str, median: f64, amount: Option<u64>) -> Measured {
        let (group, name) = (group.to_owned(), name.to_owned());
        Measured { group, name, median, interval: [median; 2], amount }
    }

    #[test]
    fn figures_are_ratios_of_what_was_measured() {
        let measured = [
            one(STEP, RESERVED, 1000.0, None),
            one(STEP, DESCRIPTORS, 30_000.0, None),
            one(JOBS, "12 jobs", 120.0, Some(12)),
            one("a page", "one launch, 1 thread", 2e9, Some(1 << 30)),
            one("a page", PLAIN, 1e9, Some(1 << 30)),
        ];
        let figures = Figures::from(&measured).unwrap();
        let text = figures.markdown();
        for line in [
            "| descriptors | 30.00 µs | 30.0 × |",
            "| 12 jobs | 10.0 ns |",
            "| plain copies | 1.0 GiB/s | 1.00 |\n| one launch, 1 thread | 0.5 GiB/s | 0.50 |",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn figures_without_what_they_are_compared_with_are_refused() {
        for measured in [
            vec![one(STEP, DESCRIPTORS, 1.0, None)],
            vec![one(STEP, RESERVED, 1.0, None), one("a page", "one launch", 1.0, Some(1))],
        ] {
            let Err(error) = Figures::from(&measured) else { panic!("{measured:?}") };
            assert!(error.to_string().contains("was not measured; run"), "{error}");
        }
    }
}
