//! What was measured, for a person and for programs.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use comfy_table::Table;
use serde::Serialize;

use super::flood::Flood;
use super::ratio::{Ratio, Setup};
use crate::bench::chart::{Axis, Chart, Scale, Series};
use crate::bench::measure::Spread;
use crate::bench::today;
use crate::say::{bytes, count, markdown, number, say, table};
use crate::{Failure, args, exit, text};

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
    /// The processor, and how many of its threads there are.
    pub processor: String,
    pub threads: usize,
    /// Processes that were running or waiting to on average over a minute, when it began: more than there are threads slow this.
    pub busy: Option<f64>,
    /// Where P's blocks lay, and D's.
    pub from: String,
    pub into: String,
    /// Whether blocks that are filled in part were left out.
    pub round_down: bool,
    /// What NIXL's plugin was told besides what is set for imports.
    pub parameters: Vec<String>,
    /// Rounds that each median is of, for each pair of processes.
    pub rounds: u32,
    /// Pairs of processes.
    pub pairs: u32,
    pub seed: u64,
    pub ratios: Vec<Ratio>,
    pub setup: Option<Setup>,
    pub flood: Option<Flood>,
}

impl Report {
    /// Without a figure yet.
    pub fn new(args: &args::Load) -> Self {
        let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = processors.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let busy = fs::read_to_string("/proc/loadavg").ok();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            commit: option_env!("PAGELIFT_COMMIT"),
            date: today(),
            command: std::env::args().skip(1).fold("pagelift".into(), |all, word| all + " " + &word),
            processor: model.map_or("unknown processor", |(_, model)| model).to_owned(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            busy: busy.and_then(|text| text.split(' ').next()?.parse().ok()),
            from: args.from.to_string(),
            into: args.into.to_string(),
            round_down: args.round_down,
            parameters: args.parameters.iter().map(ToString::to_string).collect(),
            rounds: args.rounds,
            pairs: args.pairs,
            seed: args.seed,
            ratios: Vec::new(),
            setup: None,
            flood: None,
        }
    }

    /// What was handed over how.
    fn way(&self) -> String {
        let rounded = self.round_down.then_some("rounded down");
        let more = rounded.into_iter().chain(self.parameters.iter().map(String::as_str));
        more.fold(format!("{} to {}", self.from, self.into), |all, one| all + ", " + one)
    }

    /// Where, when and of what.
    fn words(&self) -> String {
        let Self { date, processor, threads, version, .. } = self;
        let commit = self.commit.map_or_else(String::new, |commit| format!(" (commit {commit})"));
        let busy = self.busy.map_or_else(String::new, |busy| format!(", load {busy:.1} before it began"));
        let threads = count(*threads as u64, "thread");
        format!("{date}, {processor}, {threads}{busy}, pagelift {version}{commit}, {}", self.way())
    }

    /// Prints it.
    pub fn print(&self) -> Result<(), Failure> {
        say(&self.words())?;
        for (heading, table) in self.tables() {
            say(&format!("\n{heading}\n{table}"))?;
        }
        Ok(())
    }

    /// Writes it: for people, for programs, and as a picture, where there is something to draw.
    pub fn write(&self, stem: &Path) -> Result<(), Failure> {
        let json = serde_json::to_string_pretty(self).unwrap_or_default() + "\n";
        let mut document = format!("# Hand-offs\n\n{}. Written by `{}`.\n", self.words(), self.command);
        let picture = self.chart().map(|chart| chart.draw());
        let name = stem.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if picture.is_some() {
            // Writing to a string does not fail.
            let _ = write!(document, "\n![{0}]({0})\n", format_args!("{name}.svg"));
        }
        for (heading, table) in self.tables() {
            let _ = write!(document, "\n## {heading}\n\n{}\n", markdown(table));
        }
        let files = [("md", Some(document)), ("json", Some(json)), ("svg", picture)];
        for (ending, content) in files {
            let (path, Some(content)) = (stem.with_extension(ending), content) else { continue };
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            folder.map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, content)).map_err(
                |error| {
                    let message = format!("{} cannot be written: {error}", text::path(&path));
                    Failure { message, code: exit::USAGE }
                },
            )?;
        }
        Ok(())
    }

    fn tables(&self) -> Vec<(String, Table)> {
        let mut tables = Vec::new();
        if !self.ratios.is_empty() {
            let rounds = count(self.rounds.into(), "round");
            let pairs = count(self.pairs.into(), "pair");
            let heading = format!(
                "Whole imports beside one large read of as many bytes, in turns: {rounds} of {pairs} of processes"
            );
            tables.push((heading, self.ratio_table()));
        }
        if let Some(setup) = &self.setup {
            let heading = format!(
                "What an import of {} tokens in {} costs besides reading: {} after the first",
                number(setup.tokens),
                count(setup.pieces, "piece"),
                count(setup.imports, "import")
            );
            tables.push((heading, setup.table()));
        }
        if let Some(flood) = &self.flood {
            let heading =
                format!("{} imports in flight for {:.0} s: {}", flood.in_flight, flood.seconds, flood.family);
            tables.push((heading, flood.table()));
        }
        tables
    }

    fn ratio_table(&self) -> Table {
        let readies = self.ratios.iter().any(|one| one.ready_microseconds.is_some());
        let headings = [
            "caches",
            "layers",
            "bytes",
            "pieces",
            "of",
            "one read",
            "import",
            "ratio",
            "10 % to 90 %",
            "in NIXL's calls",
            "bar",
        ];
        let mut rows = table(headings.into_iter().chain(readies.then_some("until a step may start")));
        for one in &self.ratios {
            let bar = one.bar.map_or_else(String::new, |bar| {
                format!("≥ {bar}: {}", if one.ratio.median >= bar { "met" } else { "MISSED" })
            });
            let ready =
                one.ready_microseconds.map_or_else(String::new, |ready| format!("{:.0} µs", ready.median));
            let cells = [
                one.words.to_owned(),
                one.layers.to_string(),
                bytes(one.bytes),
                number(one.pieces),
                bytes(one.bytes / one.pieces.max(1)),
                format!("{:.2} GB/s", one.whole_speed),
                format!("{:.2} GB/s", one.import_speed),
                format!("{:.2}", one.ratio.median),
                format!("{:.2} to {:.2}", one.ratio.p10, one.ratio.p90),
                format!("{:.1} %", one.calls.median * 100.0),
                bar,
            ];
            rows.add_row(cells.into_iter().chain(readies.then_some(ready)));
        }
        rows
    }

    /// What landed in each second.
    fn chart(&self) -> Option<Chart> {
        let flood = self.flood.as_ref()?;
        let mut points = Vec::new();
        let mut before = 0.0;
        for sample in &flood.samples {
            points.push((sample.at, sample.bytes as f64 / (sample.at - before) / 1e9));
            before = sample.at;
        }
        let end = points.last()?.0;
        let mut series =
            vec![Series { name: format!("{} imports in flight", flood.in_flight), points: points.clone() }];
        if let Some(one) = self.ratios.iter().find(|one| one.family == flood.family) {
            let level =
                |name: &str, speed| Series { name: name.into(), points: vec![(0.0, speed), (end, speed)] };
            series.push(level("one large read, alone", one.whole_speed));
            series.push(level("one import, alone", one.import_speed));
        }
        let most = series.iter().flat_map(|one| &one.points).map(|(_, speed)| *speed).fold(1.0, f64::max);
        let step = 10_f64.powf(most.log10().floor());
        let ticks = (0..=10).map(|index| f64::from(index) * step).take_while(|tick| *tick < most + step);
        let seconds = (end / 6.0).round().max(1.0);
        let marks = (0..=6).map(|index| f64::from(index) * seconds).take_while(|mark| *mark <= end);
        Some(Chart {
            title: format!("{}: {}", flood.family, self.way()),
            x: Axis {
                title: "seconds",
                scale: Scale::Linear,
                ticks: marks.map(|mark| (mark, mark.to_string())).collect(),
            },
            y: Axis {
                title: "GB/s of imports that landed",
                scale: Scale::Linear,
                ticks: ticks.map(|tick| (tick, tick.to_string())).collect(),
            },
            series,
            note: self.words(),
        })
    }
}

impl Setup {
    fn table(&self) -> Table {
        let mut rows = table(["µs", "median", "90 %"]);
        let mut add = |words: &str, spread: &Spread| {
            rows.add_row([words.to_owned(), format!("{:.1}", spread.median), format!("{:.1}", spread.p90)]);
        };
        add("grant heard until all reads are begun, without NIXL's calls", &self.own);
        add("… of it, the plan", &self.plan);
        add("NIXL's calls, which make a request and post it", &self.calls);
        add("wanted until all reads are begun, with P's answer", &self.begun);
        rows
    }
}

impl Flood {
    fn table(&self) -> Table {
        let mut rows = table(["what", "was"]);
        let mut add = |what: &str, was: String| {
            rows.add_row([what.to_owned(), was]);
        };
        let landed = format!(
            "{}, {:.1} a second, {:.2} GB/s",
            count(self.landed, "import"),
            self.imports_per_second,
            self.gigabytes_per_second
        );
        add("landed", landed);
        add("given up", format!("{} ({} % were meant to be)", number(self.aborted), self.aborts_percent));
        add("compared", format!("{}, every byte", count(self.blocks_compared, "block")));
        for (who, growth) in [("D", self.decode), ("P", self.prefill)] {
            let held = format!(
                "{} early, {} late; {} early, {} late",
                bytes(growth.early.resident_bytes),
                bytes(growth.late.resident_bytes),
                count(growth.early.files, "file"),
                growth.late.files
            );
            add(&format!("{who} held (the most of the first third, and of the last)"), held);
        }
        let exported = self.exported;
        add(
            "P's exports",
            format!(
                "{} granted, {} read, {} given up, {} held at the end",
                number(exported.granted),
                number(exported.read),
                number(exported.given_up),
                exported.held
            ),
        );
        rows
    }
}
