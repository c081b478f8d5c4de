//! What a restore did, for a person and for a program.

use comfy_table::ContentArrangement;
use pagelift::backends::Backend;
use pagelift::plan::TailRows;
use serde::Serialize;

use super::engine::Engine;
use super::fault::Injected;
use super::script::Played;
use super::{Imported, Options, RestoreError, span_of};
use crate::Failure;
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
    /// Pages of the lifecycle sealed, blocks that arrived whole included.
    pub pages_sealed: u64,
    /// Blocks of the lifecycle that others may find.
    pub published: u64,
    /// Imports of which nothing was published, because they ended before they were lifted.
    pub withheld: u64,
    /// Requests that were aborted.
    pub aborted: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests that lost their pages, and went on.
    pub preempted: u64,
    /// Blocks that a request found published.
    pub found: u64,
    /// Events of the lifecycle.
    pub events: u64,
    /// Those that said again what was known.
    pub duplicate: u64,
    /// Those of a question that was settled.
    pub late: u64,
    /// Those that were refused, and changed nothing.
    pub refused: u64,
    /// The fault that was played, and what came of it.
    pub injected: Option<Injected>,
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
    /// The report of a run whose bytes were all right; what ran it, and how long, is not known here.
    pub fn new<B: Backend>(
        engine: &Engine<'_, '_, B>,
        played: &Played,
        options: Options<'_>,
    ) -> Result<Self, RestoreError> {
        let (manifest, launched, lifted) = (engine.world.manifest, engine.launched(), engine.lifted);
        let counters = engine.lifecycle.counters();
        let launches = [launched.lift_launches, launched.mirror_launches, launched.checkpoint_launches];
        Ok(Self {
            model: manifest.model().into(),
            imported: Imported::of(manifest, span_of(manifest, options.policy)?)?,
            groups: manifest.groups().len(),
            layers: manifest.groups().iter().map(|group| u64::from(group.layers)).sum(),
            mode: mode_name(options.mode),
            jobs: lifted.jobs,
            units: lifted.units,
            lift_launches: launched.lift_launches,
            mirror_launches: launched.mirror_launches,
            checkpoint_launches: launched.checkpoint_launches,
            launches: launches.iter().sum(),
            bytes_lifted: launched.bytes_lifted,
            lift_seconds: lifted.seconds,
            bytes_checkpointed: launched.bytes_checkpointed,
            generated_tokens: options.generate,
            steps: played.steps,
            rows_mirrored: launched.rows_mirrored,
            rows_skipped: launched.rows_skipped,
            bad_entries: launched.bad_entries,
            pages_sealed: counters.sealed,
            published: counters.published,
            withheld: counters.withheld,
            aborted: counters.aborted,
            failed: counters.failed,
            preempted: counters.preempted,
            found: counters.found,
            events: counters.events,
            duplicate: counters.duplicate,
            late: counters.late,
            refused: counters.refused,
            injected: played.injected.clone(),
            bytes_verified: played.bytes_verified,
            verifications: played.verifications,
            verified: true,
            backend: "",
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
        rows.push(("lifecycle", r.lifecycle()));
        if let Some(injected) = &r.injected {
            rows.push(("injected", injected.words()));
        }
        let again = match r.verifications {
            0 | 1 => String::new(),
            2 => ", after the lift and at the end".into(),
            n => format!(", {n} times"),
        };
        rows.push(("verified", format!("every byte of {} of pools{again}", bytes(r.bytes_verified))));
        rows.push(("backend", format!("{} ({})", r.backend, r.backend_reason)));
        rows.push(("time", format!("{}, filling and comparing included", seconds(r.seconds))));
        rows
    }

    /// What the lifecycle counted.
    fn lifecycle(&self) -> String {
        let mut words = count(self.events, "event");
        for (number, what) in [
            (self.pages_sealed, "sealed"),
            (self.published, "published"),
            (self.found, "found"),
            (self.withheld, "withheld"),
            (self.aborted, "aborted"),
            (self.failed, "failed"),
            (self.preempted, "preempted"),
            (self.duplicate, "twice"),
            (self.late, "late"),
            (self.refused, "refused"),
        ] {
            if number > 0 {
                words += &format!(", {} {what}", crate::say::number(number));
            }
        }
        words
    }
}
