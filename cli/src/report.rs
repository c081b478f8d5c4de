//! What a run did, for a person and for a program.

use std::fmt;
use std::io::{self, Write};

use comfy_table::{ContentArrangement, Table, presets};
use pagelift::import::PromptSpan;
use pagelift::plan::TailRows;
use pagelift::quantity::Tokens;
use serde::Serialize;

use crate::Failure;
use crate::manifest::Manifest;
use crate::restore::{Generated, Lifted, Options, RestoreError};

/// What a restore did. All counts are of this run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The manifest's model.
    pub model: String,
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Tokens imported.
    pub imported_tokens: u64,
    /// The first token that was computed here.
    pub resume_at: u64,
    /// Token slots of a block.
    pub block_tokens: u64,
    /// Host blocks received of a token-paged group.
    pub host_blocks: u32,
    /// Their token slots.
    pub capacity: u64,
    /// Slots of them without an imported token.
    pub holes: u64,
    /// The writable page's position in the request.
    pub tail_page: u32,
    /// Imported rows of one token each in it.
    pub tail_rows: u64,
    /// Cache groups.
    pub groups: usize,
    /// Layers of all groups together.
    pub layers: u64,
    /// Which rows of the writable page were lifted.
    pub mode: &'static str,
    /// Jobs of the lift.
    pub jobs: usize,
    /// Units of the lift that warps shared.
    pub units: u32,
    /// Launches of the lift.
    pub lift_launches: u64,
    /// Launches of the mirror.
    pub mirror_launches: u64,
    /// Launches of checkpoints.
    pub checkpoint_launches: u64,
    /// All of them.
    pub launches: u64,
    /// Bytes lifted.
    pub bytes_lifted: u64,
    /// How long the lift's launch took.
    pub lift_seconds: f64,
    /// Bytes of states checkpointed.
    pub bytes_checkpointed: u64,
    /// Tokens generated.
    pub generated_tokens: u32,
    /// Steps that they took.
    pub steps: u64,
    /// Rows mirrored, each counted once whatever its layers.
    pub rows_mirrored: u64,
    /// Slot-mapping entries skipped: padding and rejected drafts.
    pub rows_skipped: u64,
    /// Bad entries met on the device.
    pub bad_entries: u64,
    /// Pages sealed.
    pub pages_sealed: u64,
    /// Bytes of all pools, every one of which was compared with the reference.
    pub bytes_verified: u64,
    /// How often: after the lift and, where tokens were generated, after the last of them.
    pub verifications: u32,
    /// Whether every byte was right. A run with a wrong one ends with an error instead.
    pub verified: bool,
    /// What ran the kernels.
    pub backend: &'static str,
    /// Why that.
    pub backend_reason: &'static str,
    /// What the random bytes follow from.
    pub seed: u64,
    /// How long all of it took, filling and comparing included.
    pub seconds: f64,
}

impl Report {
    /// The report of a run whose bytes were all right.
    pub fn new(
        manifest: &Manifest,
        span: PromptSpan,
        options: Options,
        backend: &'static str,
        lifted: &Lifted,
        generated: &Generated,
    ) -> Result<Self, RestoreError> {
        let block_tokens = Tokens::new(manifest.span().block_tokens.into());
        let blocks = span.in_blocks_of(block_tokens).map_err(pagelift::Error::from)?;
        let Generated { mirror, checkpoint, .. } = generated;
        let launches = [lifted.counters.launches, mirror.launches, checkpoint.launches];
        Ok(Self {
            model: manifest.model().into(),
            prompt_tokens: span.prompt().get(),
            imported_tokens: span.imported().get(),
            resume_at: span.resume_at().get(),
            block_tokens: block_tokens.get(),
            host_blocks: blocks.received(),
            capacity: blocks.capacity().get(),
            holes: blocks.holes().get(),
            tail_page: blocks.tail_page(),
            tail_rows: blocks.tail_tokens().get(),
            groups: manifest.groups().len(),
            layers: manifest.groups().iter().map(|group| u64::from(group.layers)).sum(),
            mode: mode(options.mode),
            jobs: lifted.jobs,
            units: lifted.units,
            lift_launches: lifted.counters.launches,
            mirror_launches: mirror.launches,
            checkpoint_launches: checkpoint.launches,
            launches: launches.iter().sum(),
            bytes_lifted: lifted.counters.bytes.unwrap_or(0),
            lift_seconds: lifted.seconds,
            bytes_checkpointed: checkpoint.bytes.unwrap_or(0),
            generated_tokens: generated.tokens,
            steps: generated.steps,
            rows_mirrored: mirror.rows.unwrap_or(0),
            rows_skipped: mirror.skipped.unwrap_or(0),
            bad_entries: mirror.bad,
            pages_sealed: generated.pages_sealed,
            bytes_verified: 0,
            verifications: 0,
            verified: true,
            backend,
            backend_reason: "",
            seed: options.seed,
            seconds: 0.0,
        })
    }
}

/// A lift mode's name, as `--mode` takes it.
pub const fn mode(mode: TailRows) -> &'static str {
    match mode {
        TailRows::Whole => "whole",
        TailRows::Exact => "exact",
        TailRows::ExactZeroed => "exact-zeroed",
    }
}

/// Prints any result as one JSON object.
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value);
    let text = text.map_err(|error| Failure { message: error.to_string(), code: crate::exit::FAILED })?;
    say(&text)
}

/// Columns of a terminal that a table fits into.
const WIDTH: u16 = 80;

/// Prints a restore for a person.
pub fn print_table(report: &Report) -> Result<(), Failure> {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
    table.set_header(["restored", report.model.as_str()]);
    report.rows().into_iter().for_each(|(what, value)| {
        table.add_row([what.to_owned(), value]);
    });
    say(&table)
}

impl Report {
    /// What was asked for, what was done, and how it went; nothing that did not happen.
    fn rows(&self) -> Vec<(&'static str, String)> {
        let r = self;
        let mut rows = vec![
            (
                "prompt",
                format!(
                    "{}, {} imported, resumed at {}",
                    count(r.prompt_tokens, "token"),
                    r.imported_tokens,
                    r.resume_at
                ),
            ),
            ("caches", format!("{}, {} in all", count(r.groups as u64, "group"), count(r.layers, "layer"))),
            (
                "host blocks",
                format!(
                    "{} of {}: {}, {}",
                    r.host_blocks,
                    count(r.block_tokens, "token"),
                    count(r.capacity, "slot"),
                    count(r.holes, "hole")
                ),
            ),
            ("writable page", format!("page {} with {}", r.tail_page, count(r.tail_rows, "imported token"))),
            (
                "lift",
                format!(
                    "{} in {}: {}, {}, {} ({})",
                    bytes(r.bytes_lifted),
                    seconds(r.lift_seconds),
                    count(r.jobs as u64, "job"),
                    count(r.units.into(), "unit"),
                    count(r.lift_launches, "launch"),
                    r.mode
                ),
            ),
        ];
        if r.generated_tokens > 0 {
            let steps = count(r.steps, "step");
            rows.push(("generated", format!("{} in {steps}", count(r.generated_tokens.into(), "token"))));
        }
        if r.rows_mirrored > 0 {
            let mut mirror =
                format!("{} in {}", count(r.rows_mirrored, "row"), count(r.mirror_launches, "launch"));
            if r.rows_skipped > 0 {
                mirror += &format!("; {} of padding or drafts skipped", entries(r.rows_skipped));
            }
            if r.bad_entries > 0 {
                mirror += &format!("; {} bad", entries(r.bad_entries));
            }
            rows.push(("mirror", mirror));
        }
        if r.checkpoint_launches > 0 {
            let launches = count(r.checkpoint_launches, "launch");
            rows.push(("checkpoints", format!("{} in {launches}", bytes(r.bytes_checkpointed))));
        }
        if r.pages_sealed > 0 {
            rows.push(("sealed", count(r.pages_sealed, "page")));
        }
        let again = if r.verifications > 1 { ", after the lift and at the end" } else { "" };
        rows.push(("verified", format!("every byte of {} of pools{again}", bytes(r.bytes_verified))));
        rows.push(("backend", format!("{} ({})", r.backend, r.backend_reason)));
        rows.push(("time", format!("{}, filling and comparing included", seconds(r.seconds))));
        rows
    }
}

/// Prints a result. A reader that has seen enough is no failure.
pub fn say(text: &impl fmt::Display) -> Result<(), Failure> {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let message = format!("the result cannot be printed: {error}");
            Err(Failure { message, code: crate::exit::FAILED })
        }
        _ => Ok(()),
    }
}

/// So many of something.
pub fn count(count: u64, word: &str) -> String {
    let plural = if word.ends_with("ch") { "es" } else { "s" };
    format!("{count} {word}{}", if count == 1 { "" } else { plural })
}

fn entries(count: u64) -> String {
    if count == 1 { "1 entry".into() } else { format!("{count} entries") }
}

/// A time, as a person reads it.
fn seconds(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.1} ms", seconds * 1000.0) } else { format!("{seconds:.1} s") }
}

/// Bytes, as a person reads them.
pub fn bytes(count: u64) -> String {
    indicatif::HumanBytes(count).to_string()
}

#[cfg(test)]
mod tests {
    use super::{count, entries, seconds};

    #[test]
    fn counts_and_times_are_words() {
        assert_eq!(
            [count(1, "launch"), count(2, "launch"), count(0, "hole")],
            ["1 launch", "2 launches", "0 holes"]
        );
        assert_eq!([entries(1), entries(3)], ["1 entry", "3 entries"]);
        assert_eq!([seconds(0.000_46), seconds(0.99), seconds(1.25)], ["0.5 ms", "990.0 ms", "1.2 s"]);
    }
}
