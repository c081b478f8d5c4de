//! What a plan comes to, for the whole import and for each group.

use std::collections::{BTreeMap, BTreeSet};

use pagelift::geometry::{Geometry, Memory};
use pagelift::id::Ticket;
use pagelift::import::Policy;
use pagelift::layout::Segment;
use pagelift::plan::{JobSummary, Plan as _, Staging, TailRows};
use serde::Serialize;

use super::Planned;
use crate::manifest::{self, Group, Word as _};
use crate::restore::{self, AnyKey, Imported, RestoreError};

/// What an import's lift would do.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The manifest's model.
    pub model: String,
    /// Its tokens and blocks.
    #[serde(flatten)]
    pub imported: Imported,
    /// Which rows of the writable page are lifted.
    pub mode: &'static str,
    /// By group.
    pub groups: Vec<Explained>,
    /// Jobs of the lift.
    pub jobs: usize,
    /// Units that warps share.
    pub units: u32,
    /// Launches that it takes: 0 where nothing is lifted.
    pub launches: u32,
    /// Bytes copied.
    pub bytes: u64,
    /// Bytes of the job table that are staged.
    pub table_bytes: usize,
    /// Bytes of all host pools.
    pub host_pool_bytes: u64,
    /// Bytes of all device pools.
    pub device_pool_bytes: u64,
}

/// What the lift would do with one group.
#[derive(Clone, Debug, Serialize)]
pub struct Explained {
    /// Its name.
    pub name: String,
    /// `paged`, `ring` or `state`.
    pub kind: &'static str,
    /// Its layers.
    pub layers: u32,
    /// Tokens of a row; `None` for rings and states.
    pub tokens_per_row: Option<u32>,
    /// Rows of a host block, and of a device page, where there are any.
    pub rows: BTreeMap<&'static str, u32>,
    /// What a row holds, in the order of a page.
    pub segments: Vec<SegmentExplained>,
    /// Where its blocks arrive: `host` or `gpu`.
    pub landing: &'static str,
    /// What of it is lifted: `tail`, `all`, `state` or `none`.
    pub lift: &'static str,
    /// Host blocks that the import has.
    pub host_blocks: usize,
    /// Device pages that it has.
    pub device_pages: usize,
    /// Pages that rows are copied into, each counted once.
    pub pages_lifted: usize,
    /// Rows that are copied, each counted once whatever its layers.
    pub rows_lifted: u64,
    /// Rows among them that no import has filled.
    pub holes_lifted: u64,
    /// Rows that are zeroed, counted likewise.
    pub rows_zeroed: u64,
    /// Bytes copied.
    pub bytes: u64,
    /// Jobs of the plan.
    pub jobs: usize,
    /// Units of the plan.
    pub units: u64,
    /// Bytes of one access, each width that occurs, the widest first; none where nothing is copied.
    pub widths: Vec<u32>,
}

/// One segment of a row.
#[derive(Clone, Debug, Serialize)]
pub struct SegmentExplained {
    /// Its name.
    pub name: String,
    /// Bytes of a row of it.
    pub row_bytes: u32,
}

impl Explanation {
    /// Explains a plan.
    pub fn of(planned: &Planned<'_>, mode: TailRows) -> Result<Self, RestoreError> {
        let Planned { manifest, keys, plan } = planned;
        let span = restore::span_of(manifest, Policy::LiftTail)?;
        let summary = plan.summary();
        let groups = keys.iter().zip(manifest.groups()).filter_map(|(key, group)| {
            let mut explained = Explained::of(plan.geometry(), *key, group)?;
            let jobs = summary.jobs.iter().enumerate();
            let mut pages = BTreeSet::new();
            for (number, job) in jobs.filter(|(_, job)| job.group == group.name) {
                explained.add(job);
                if !job.zero {
                    pages.extend(plan.blocks_of(number).map(|(_, page)| page));
                    let ends = plan.blocks_of(number).map(|(source, _)| (source, job));
                    explained.holes_lifted += holes(&explained, group, span.imported().get(), ends);
                }
            }
            explained.pages_lifted = pages.len();
            Some(explained)
        });
        let pools = |memory| {
            let pools = manifest.pools().iter().filter(|pool| pool.memory == memory);
            pools.map(|pool| pool.bytes()).sum()
        };
        Ok(Self {
            model: manifest.model().into(),
            imported: Imported::of(manifest, span)?,
            mode: restore::mode_name(mode),
            groups: groups.collect(),
            jobs: plan.jobs(),
            units: plan.units(),
            launches: u32::from(!plan.is_empty()),
            bytes: summary.bytes.unwrap_or(0),
            table_bytes: staged_bytes(plan)?,
            host_pool_bytes: pools(manifest::Memory::Host),
            device_pool_bytes: pools(manifest::Memory::Device),
        })
    }
}

/// Bytes that staging a plan copies into its table.
fn staged_bytes(plan: &pagelift::plan::RestorePlan) -> Result<usize, RestoreError> {
    let mut table = vec![0; plan.table_bytes()];
    let staging = Staging { ticket: Ticket::new(0, 1), completion: 0, repeat: false };
    Ok(plan.encode(staging, &mut table)?)
}

impl Explained {
    /// What is known of a group before its jobs; `None` where the geometry has no such group.
    fn of(geometry: &Geometry, key: AnyKey, group: &Group) -> Option<Self> {
        let own = geometry.group(key.id())?;
        let sides = [Memory::Host, Memory::Device];
        Some(Self {
            name: group.name.clone(),
            kind: group.shape.family.name(),
            layers: own.layers(),
            tokens_per_row: key.tokens_per_row(geometry),
            rows: sides.iter().filter_map(|m| Some((m.name(), key.block_rows(geometry, *m)?))).collect(),
            segments: segments(geometry, key),
            landing: group.landing.name(),
            lift: group.lift.name(),
            host_blocks: group.host_blocks().len(),
            device_pages: group.device_pages().len(),
            pages_lifted: 0,
            rows_lifted: 0,
            holes_lifted: 0,
            rows_zeroed: 0,
            bytes: 0,
            jobs: 0,
            units: 0,
            widths: Vec::new(),
        })
    }

    fn add(&mut self, job: &JobSummary) {
        let blocks = u64::from(job.blocks.unwrap_or(0));
        let rows = blocks.saturating_mul(job.rows.into());
        self.jobs += 1;
        self.units += u64::from(job.units.unwrap_or(0));
        if job.zero {
            self.rows_zeroed += rows;
            return;
        }
        self.rows_lifted += rows;
        self.bytes += job.bytes.unwrap_or(0);
        self.widths.clone_from(&job.widths);
    }
}

/// Rows past the last imported one, among those that are copied from these blocks.
fn holes<'j>(
    explained: &Explained,
    group: &Group,
    imported_tokens: u64,
    copies: impl Iterator<Item = (u32, &'j JobSummary)>,
) -> u64 {
    let (Some(tokens), Some(block)) = (explained.tokens_per_row, explained.rows.get("host")) else {
        return 0;
    };
    let complete = imported_tokens.checked_div(tokens.into()).unwrap_or(0);
    let position: BTreeMap<u32, u64> = group.host_blocks().iter().copied().zip(0..).collect();
    let of_copy = |(source, job): (u32, &JobSummary)| {
        let first =
            position.get(&source)?.saturating_mul((*block).into()).saturating_add(job.source_row.into());
        let end = first.saturating_add(job.rows.into());
        Some(end.saturating_sub(complete.max(first)))
    };
    copies.filter_map(of_copy).sum()
}

/// What a row of a group holds, wherever it lies.
fn segments(geometry: &Geometry, key: AnyKey) -> Vec<SegmentExplained> {
    let sides = [Memory::Host, Memory::Device];
    let segments = sides.iter().find_map(|memory| geometry.block_segments(key.id(), *memory));
    let explained =
        |segment: &Segment| SegmentExplained { name: segment.name().into(), row_bytes: segment.row_bytes() };
    segments.unwrap_or_default().iter().map(explained).collect()
}
