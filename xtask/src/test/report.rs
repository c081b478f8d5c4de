//! The summary of a run.

use std::fmt;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use comfy_table::{ContentArrangement, Table};
use serde::Serialize;

use super::verdict::Verdict;

/// Columns of the table where there is no terminal to ask.
const WITHOUT_TERMINAL: u16 = 120;

/// One step's result.
#[derive(Debug, Serialize)]
pub struct Line {
    name: &'static str,
    #[serde(flatten)]
    verdict: Verdict,
    seconds: f64,
}

impl Line {
    /// The result of a step that took so long.
    pub fn new(name: &'static str, verdict: Verdict, took: Duration) -> Self {
        Self { name, verdict, seconds: (took.as_secs_f64() * 10.0).round() / 10.0 }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} in {:.1} s", self.name, self.verdict.word(), self.seconds)?;
        match self.verdict.detail() {
            detail if detail.is_empty() => Ok(()),
            detail => write!(f, ": {detail}"),
        }
    }
}

/// All results.
#[derive(Debug, Serialize)]
pub struct Report {
    steps: Vec<Line>,
    passed: usize,
    failed: usize,
    skipped: usize,
    strict: bool,
}

impl Report {
    /// Counts results. With `strict`, a skipped step is an error.
    pub fn new(steps: Vec<Line>, strict: bool) -> Self {
        let count = |word| steps.iter().filter(|line| line.verdict.word() == word).count();
        let (passed, failed, skipped) = (count("passed"), count("failed"), count("skipped"));
        Self { steps, passed, failed, skipped, strict }
    }

    /// Prints a table for a person, and last the counts alone on a line.
    pub fn print(&self) {
        let mut table = Table::new();
        table.set_content_arrangement(ContentArrangement::Dynamic);
        if table.width().is_none() {
            table.set_width(WITHOUT_TERMINAL);
        }
        table.set_header(["step", "outcome", "seconds", "remarks"]);
        for line in &self.steps {
            let seconds = format!("{:.1}", line.seconds);
            let detail = line.verdict.detail();
            // The rest was shown when the step ended.
            let remarks = detail.lines().next().unwrap_or_default();
            table.add_row([line.name, line.verdict.word(), &seconds, remarks]);
        }
        println!("\n{table}");
        if self.strict && self.skipped > 0 {
            println!("--strict: a skipped step is an error; the table says what to install");
        }
        println!("{}", self.counts());
    }

    /// Prints one JSON object for a program, and the counts where a person may be looking.
    pub fn print_json(&self) -> Result<()> {
        eprintln!("{}", self.counts());
        println!("{}", serde_json::to_string(self)?);
        Ok(())
    }

    /// Success, unless something failed, or was skipped though nothing may be.
    pub fn exit_code(&self) -> ExitCode {
        if self.succeeded() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    fn succeeded(&self) -> bool {
        self.failed == 0 && !(self.strict && self.skipped > 0)
    }

    fn counts(&self) -> String {
        format!("{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(verdicts: &[Verdict], strict: bool) -> Report {
        let line = |verdict: &Verdict| Line::new("step", verdict.clone(), Duration::from_millis(1250));
        Report::new(verdicts.iter().map(line).collect(), strict)
    }

    #[test]
    fn skips_are_errors_only_when_strict() {
        let verdicts = [Verdict::plain(), Verdict::skipped("no tool", "install it")];
        assert!(report(&verdicts, false).succeeded());
        assert!(!report(&verdicts, true).succeeded());
        assert!(report(&verdicts[..1], true).succeeded());
        assert_eq!(report(&verdicts, false).counts(), "1 passed, 0 failed, 1 skipped");
    }

    #[test]
    fn a_failure_is_always_one() {
        let error = anyhow::anyhow!("cause").context("what failed");
        let failed = report(&[Verdict::failed(&error)], false);
        assert!(!failed.succeeded());
        assert_eq!(failed.steps[0].to_string(), "step failed in 1.3 s: what failed: cause");
    }

    #[test]
    fn programs_get_flat_objects() {
        let report = report(&[Verdict::skipped("no tool", "install it")], true);
        let value = serde_json::to_value(&report).unwrap();
        assert_eq!(value["steps"][0]["outcome"], "skipped");
        assert_eq!(value["steps"][0]["remedy"], "install it");
        assert_eq!(value["skipped"], 1);
    }
}
