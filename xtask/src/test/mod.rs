//! `cargo xtask test`: all tests and checks, as far as this machine can run them.

mod report;
mod steps;
mod verdict;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::builder::PossibleValuesParser;

use self::report::{Line, Report};
pub use self::steps::sanitizer_obstacle;
use self::steps::{PTX, STEPS, Step};
pub use self::verdict::Verdict;
use crate::workspace::Workspace;

/// Arguments of `cargo xtask test`.
#[derive(clap::Args)]
pub struct Args {
    /// Fail if anything had to be skipped.
    #[arg(long)]
    strict: bool,
    /// Run only this step; may be given more than once.
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(STEPS.iter().map(|step| step.name)))]
    only: Vec<String>,
    /// List the steps and run none.
    #[arg(long)]
    list: bool,
    /// Print the summary as one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs the chosen steps.
pub fn main(workspace: &Workspace, args: &Args) -> Result<ExitCode> {
    let chosen =
        STEPS.iter().filter(|step| args.only.is_empty() || args.only.iter().any(|name| name == step.name));
    let chosen: Vec<&Step> = chosen.collect();
    if args.list {
        for step in chosen {
            println!("{:<14} {}", step.name, step.about);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let report = run(workspace, &chosen, args.strict);
    if args.json {
        report.print_json()?
    } else {
        report.print()
    }
    Ok(report.exit_code())
}

/// Runs the steps that concern the PTX.
pub fn ptx_only(workspace: &Workspace, strict: bool) -> Result<ExitCode> {
    let chosen: Vec<&Step> = STEPS.iter().filter(|step| PTX.contains(&step.name)).collect();
    let report = run(workspace, &chosen, strict);
    report.print();
    Ok(report.exit_code())
}

/// Runs steps in order; one that fails does not keep the next from running.
fn run(workspace: &Workspace, steps: &[&Step], strict: bool) -> Report {
    let mut lines = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        eprintln!("\n== [{}/{}] {}: {}", index.saturating_add(1), steps.len(), step.name, step.about);
        let start = Instant::now();
        let verdict = (step.run)(workspace).unwrap_or_else(|error| Verdict::failed(&error));
        let line = Line::new(step.name, verdict, start.elapsed());
        eprintln!("== {line}");
        lines.push(line);
    }
    Report::new(lines, strict)
}
