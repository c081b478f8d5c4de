//! What a restore did, for a person and for a program.

use comfy_table::ContentArrangement;
use pagelift::import::PromptSpan;
use pagelift::plan::TailRows;
use serde::Serialize;

use super::{Generated, Imported, Lifted, Options, RestoreError};
use crate::Failure;
use crate::manifest::Manifest;
use crate::say::{bytes, count, say, seconds, table};

/// What a restore did. All counts are of this run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The manifest's model.
    pub model: String,
    /// Its tokens and blocks.
    #[serde(flatten)]
    pub imported: Imported,
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
    pub backend_reason: String,
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
        let Generated { mirror, checkpoint, .. } = generated;
        let launches = [lifted.counters.launches, mirror.launches, checkpoint.launches];
        Ok(Self {
            model: manifest.model().into(),
            imported: Imported::of(manifest, span)?,
            groups: manifest.groups().len(),
            layers: manifest.groups().iter().map(|group| u64::from(group.layers)).sum(),
            mode: mode_name(options.mode),
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
            backend_reason: String::new(),
            seed: options.seed,
            seconds: 0.0,
        })
    }
}

/// A lift mode's name, as `--mode` takes it.
pub const fn mode_name(mode: TailRows) -> &'static str {
    match mode {
        TailRows::Whole => "whole",
        TailRows::Exact => "exact",
        TailRows::ExactZeroed => "exact-zeroed",
    }
}

/// Columns of a terminal that a table fits into.
const WIDTH: u16 = 80;

impl Report {
    /// Prints it for a person.
    pub fn print(&self) -> Result<(), Failure> {
        let mut table = table(["restored", self.model.as_str()]);
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
        self.rows().into_iter().for_each(|(what, value)| {
            table.add_row([what.to_owned(), value]);
        });
        say(&table)
    }

    /// What was asked for, what was done, and how it went; nothing that did not happen.
    fn rows(&self) -> Vec<(&'static str, String)> {
        let r = self;
        let [prompt, host_blocks, writable_page] = r.imported.rows();
        let caches = format!("{}, {} in all", count(r.groups as u64, "group"), count(r.layers, "layer"));
        let mut rows = vec![
            prompt,
            ("caches", caches),
            host_blocks,
            writable_page,
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
                mirror += &format!("; {} of padding or drafts skipped", count(r.rows_skipped, "entry"));
            }
            if r.bad_entries > 0 {
                mirror += &format!("; {} bad", count(r.bad_entries, "entry"));
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
