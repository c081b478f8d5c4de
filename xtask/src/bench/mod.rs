//! Benches, and what they said: as a table, as JSON, as a picture.

mod figures;
mod measured;
mod plot;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::process;
use crate::workspace::Workspace;
use figures::Figures;
use measured::Measured;

/// The benches, by the names of their files.
const BENCHES: [&str; 2] = ["planning", "copying"];

#[derive(clap::Args)]
pub struct Args {
    /// Seconds for each measurement.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Where to write `cpu.json`, `cpu.md` and `cpu.svg`; without it, only the table is shown.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Run nothing: read what the last run measured.
    #[arg(long)]
    last: bool,
}

/// What a results file holds.
#[derive(Serialize)]
struct Results<'a> {
    machine: &'a Machine,
    command: &'a str,
    figures: &'a Figures,
    measured: &'a [Measured],
}

/// Where it was measured, and what.
#[derive(Serialize)]
struct Machine {
    date: String,
    processor: String,
    threads: usize,
    rustc: String,
    commit: String,
}

pub fn main(workspace: &Workspace, args: &Args) -> Result<ExitCode> {
    let folder = workspace.target().join("criterion");
    if !args.last {
        run(workspace, &folder, args.seconds)?;
    }
    let measured = measured::read(&folder)?;
    let figures = Figures::from(&measured)?;
    let machine = Machine::ask(workspace)?;
    let table = figures.markdown();
    println!("{}\n\n{table}", machine.line());
    if let Some(out) = &args.out {
        let command = format!("cargo xtask bench --seconds {}", args.seconds);
        let results =
            Results { machine: &machine, command: &command, figures: &figures, measured: &measured };
        write(out, &results, &table)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Measures all of it in one go, so that ratios compare like with like.
fn run(workspace: &Workspace, folder: &Path, seconds: u32) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("could not clear {}", folder.display()))?;
    }
    let mut cargo = workspace.cargo();
    cargo.args(["bench", "--package", "pagelift"]);
    cargo.args(BENCHES.iter().flat_map(|bench| ["--bench", bench]));
    let seconds = seconds.to_string();
    process::run(cargo.args(["--", "--noplot", "--warm-up-time", "1", "--measurement-time", &seconds]))
}

fn write(out: &Path, results: &Results<'_>, table: &str) -> Result<()> {
    fs::create_dir_all(out).with_context(|| format!("could not make {}", out.display()))?;
    let text = format!("{}, by `{}`.\n\n{table}", results.machine.line(), results.command);
    let files = [
        ("cpu.json", serde_json::to_string_pretty(results)? + "\n"),
        ("cpu.md", text),
        ("cpu.svg", plot::svg(results.figures, &results.machine.line())),
    ];
    for (name, text) in files {
        let path = out.join(name);
        fs::write(&path, text).with_context(|| format!("could not write {}", path.display()))?;
        eprintln!("wrote {}", path.display());
    }
    Ok(())
}

impl Machine {
    fn ask(workspace: &Workspace) -> Result<Self> {
        let ask = |program: &str, words: &[&str]| {
            process::ask(Command::new(program).args(words).current_dir(workspace.root()))
                .map(|answer| answer.stdout.trim().to_owned())
        };
        let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = processors.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        Ok(Self {
            date: ask("date", &["--utc", "+%Y-%m-%d"])?,
            processor: model.map_or("unknown processor", |(_, model)| model).to_owned(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            rustc: ask("rustc", &["--version"])?,
            commit: ask("git", &["describe", "--always", "--dirty"]).unwrap_or_else(|_| "unknown".to_owned()),
        })
    }

    fn line(&self) -> String {
        let Self { date, processor, threads, rustc, commit } = self;
        format!("{date}, {processor}, {threads} threads, {rustc}, commit {commit}")
    }
}
