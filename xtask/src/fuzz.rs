//! `cargo xtask fuzz`: all targets, one after the other, and what they found.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use clap::builder::PossibleValuesParser;
use comfy_table::Table;
use indicatif::{ProgressBar, ProgressStyle};

use crate::process;
use crate::test::sanitizer_obstacle;
use crate::workspace::Workspace;

/// The targets, and the longest input that each is given: more choices than a case takes are no use.
const TARGETS: [(&str, u32); 4] = [("plans", 600), ("tables", 600), ("manifests", 5000), ("control", 1500)];

/// Arguments of `cargo xtask fuzz`.
#[derive(clap::Args)]
pub struct Args {
    /// Minutes for each target.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    minutes: u64,
    /// Fuzz only this target; may be given more than once.
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(TARGETS.map(|(name, _)| name)))]
    target: Vec<String>,
    /// Processes side by side.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    jobs: u32,
}

/// Fuzzes the chosen targets, one after the other.
pub fn main(workspace: &Workspace, args: &Args) -> Result<ExitCode> {
    if !process::succeeds(workspace.cargo().args(["fuzz", "--version"])) {
        bail!("cargo has no `fuzz`; install it: cargo install cargo-fuzz --locked");
    }
    let mut table = Table::new();
    table.set_header(["target", "executions", "a second", "edges", "corpus", "findings"]);
    let mut findings = Vec::new();
    let sanitizer = if let Some(reason) = sanitizer_obstacle()? {
        eprintln!("without AddressSanitizer: {reason}");
        "none"
    } else {
        "address"
    };
    for (target, longest) in TARGETS {
        if !args.target.is_empty() && !args.target.iter().any(|name| name == target) {
            continue;
        }
        let fuzzer = Fuzzer { workspace, target, longest, sanitizer };
        let before = fuzzer.findings()?;
        let stats = fuzzer.run(args)?;
        let new: Vec<PathBuf> = fuzzer.findings()?.difference(&before).cloned().collect();
        let Stats { runs, edges, corpus, rate, .. } = stats;
        let row = [runs, rate, edges, corpus, new.len() as u64].map(|number| number.to_string());
        table.add_row(std::iter::once(target.to_owned()).chain(row));
        findings.extend(new.into_iter().map(|path| (target, path)));
    }
    println!("{table}");
    for (target, path) in &findings {
        println!("play it again: RUSTC_BOOTSTRAP=1 cargo fuzz run {target} {}", path.display());
    }
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// One target, to be fuzzed.
struct Fuzzer<'a> {
    workspace: &'a Workspace,
    target: &'static str,
    longest: u32,
    sanitizer: &'static str,
}

impl Fuzzer<'_> {
    /// Builds and runs it; what it found is under `fuzz/artifacts`.
    fn run(&self, args: &Args) -> Result<Stats> {
        process::run(&mut self.command("build"))?;
        let seconds = args.minutes.saturating_mul(60);
        let corpus = self.folder("corpus");
        fs::create_dir_all(&corpus).with_context(|| format!("could not make {}", corpus.display()))?;
        let mut command = self.command("run");
        command.args([&corpus, &self.folder("seeds")]).arg("--").args([
            format!("-max_total_time={seconds}"),
            format!("-max_len={}", self.longest),
            format!("-fork={}", args.jobs),
            "-ignore_crashes=1".to_owned(),
            "-ignore_timeouts=1".to_owned(),
            "-ignore_ooms=1".to_owned(),
            "-timeout=20".to_owned(),
            "-rss_limit_mb=3000".to_owned(),
            // Threads of a pool are never joined, and looking for leaks after every input would cost half the time.
            "-detect_leaks=0".to_owned(),
        ]);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("could not start `cargo fuzz run`")?;
        let stderr = child.stderr.take().context("a fuzzer without standard error")?;
        let (stats, last) = watch(self.target, seconds, stderr);
        let status = child.wait().context("could not wait for the fuzzer")?;
        if stats.runs == 0 {
            bail!("the fuzzer of `{}` ended ({status}) before it ran anything:\n{last}", self.target);
        }
        Ok(stats)
    }

    fn command(&self, verb: &str) -> Command {
        let mut cargo = self.workspace.cargo();
        cargo
            .args(["fuzz", verb, "--sanitizer", self.sanitizer, self.target])
            .env("CARGO_TARGET_DIR", self.workspace.target().join("fuzz"))
            // Coverage and sanitizers are unstable flags, and the compiler is a released one.
            .env("RUSTC_BOOTSTRAP", "1")
            // Memory that cannot be had is an error to be returned, here as elsewhere.
            .env("ASAN_OPTIONS", "allocator_may_return_null=1");
        cargo
    }

    fn folder(&self, kind: &str) -> PathBuf {
        self.workspace.root().join("fuzz").join(kind).join(self.target)
    }

    /// The inputs that did not go well, of earlier runs too.
    fn findings(&self) -> Result<BTreeSet<PathBuf>> {
        list(&self.folder("artifacts"))
    }
}

/// The files of a folder that may not be there.
fn list(folder: &Path) -> Result<BTreeSet<PathBuf>> {
    if !folder.is_dir() {
        return Ok(BTreeSet::new());
    }
    let entries = folder.read_dir().with_context(|| format!("could not list {}", folder.display()))?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

/// What a fuzzer says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stats {
    runs: u64,
    edges: u64,
    corpus: u64,
    rate: u64,
    findings: u64,
}

impl Stats {
    /// Reads a line such as
    /// `#42: cov: 10 ft: 20 corp: 3 exec/s: 7 oom/timeout/crash: 0/1/2 time: 6s job: 1 dft_time: 0`.
    fn parse(line: &str) -> Option<Self> {
        let (runs, rest) = line.strip_prefix('#')?.split_once(": ")?;
        let mut stats = Self { runs: runs.parse().ok()?, ..Self::default() };
        let words: Vec<&str> = rest.split_whitespace().collect();
        for pair in words.chunks(2) {
            let [name, value] = pair else { continue };
            match *name {
                "cov:" => stats.edges = value.parse().ok()?,
                "corp:" => stats.corpus = value.parse().ok()?,
                "exec/s:" => stats.rate = value.parse().ok()?,
                "oom/timeout/crash:" => {
                    stats.findings = value.split('/').filter_map(|count| count.parse::<u64>().ok()).sum();
                }
                _ => {}
            }
        }
        Some(stats)
    }
}

/// Shows how far a fuzzer is; what it said of itself last, and its last lines.
fn watch(target: &str, seconds: u64, stderr: impl Read) -> (Stats, String) {
    let bar = ProgressBar::new(seconds);
    if let Ok(style) = ProgressStyle::with_template("{prefix:>10} {wide_bar} {eta} left, {msg}") {
        bar.set_style(style);
    }
    bar.set_prefix(target.to_owned());
    let started = std::time::Instant::now();
    let (mut stats, mut last) = (Stats::default(), Vec::new());
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        if let Some(new) = Stats::parse(&line) {
            stats = new;
            bar.set_position(started.elapsed().as_secs().min(seconds));
            let Stats { runs, edges, findings, .. } = stats;
            bar.set_message(format!("{runs} executions, {edges} edges, {findings} findings"));
        }
        last.push(line);
        last.drain(..last.len().saturating_sub(LAST_LINES));
    }
    bar.finish_and_clear();
    (stats, last.join("\n"))
}

/// Lines that are shown of a fuzzer that does not run.
const LAST_LINES: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_fuzzer_says_is_read() {
        let line =
            "#1234: cov: 9619 ft: 40121 corp: 1258 exec/s: 369 oom/timeout/crash: 0/1/2 time: 5s job: 1";
        let stats = Stats { runs: 1234, edges: 9619, corpus: 1258, rate: 369, findings: 3 };
        assert_eq!(Stats::parse(line), Some(stats));
        for other in ["INFO: Seed: 1", "#12\tNEW    cov: 7", "", "# ", "#x: cov: 1"] {
            assert_eq!(Stats::parse(other), None, "{other}");
        }
        let (last, text) = watch("t", 1, format!("a\n{line}\nb").as_bytes());
        assert_eq!((last, text), (stats, format!("a\n{line}\nb")));
    }
}
