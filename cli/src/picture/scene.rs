//! What there is to be drawn, read off the plan: which rows of which block are copied, zeroed, or left alone.

use std::collections::BTreeMap;
use std::ops::Range;

use pagelift::geometry::Memory;
use pagelift::plan::{JobSummary, Plan as _};

use crate::manifest::{Group, Landing};
use crate::plan::Planned;
use crate::restore::AnyKey;

/// Slots of a ring that are shown one by one.
const MOST_SLOTS: u32 = 64;

/// What a part of a block or page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fill {
    /// Rows that were imported into the host pool.
    Imported,
    /// Row slots that no imported row uses.
    Hole,
    /// Imported rows that were copied to the device.
    Lifted,
    /// Holes that were copied with them.
    LiftedHole,
    /// Rows that were zeroed.
    Zeroed,
    /// What the transfer brought to the device at once.
    Landed,
    /// What the launch leaves as it was.
    Untouched,
}

/// A block or page of token rows.
#[derive(Clone, Debug)]
pub struct Block {
    /// Its id in the pool.
    pub id: u32,
    /// Its token slots.
    pub tokens: Range<u64>,
    /// What lies in it.
    pub parts: Vec<(Range<u64>, Fill)>,
    /// Whether rows are copied into it.
    pub lifted: bool,
}

impl Block {
    /// Joins neighbours of one kind: a page of several blocks is copied block by block.
    fn join(&mut self) {
        self.parts.sort_unstable_by_key(|(tokens, _)| tokens.start);
        self.parts.dedup_by(|next, last| {
            let joins = last.1 == next.1 && last.0.end == next.0.start;
            if joins {
                last.0.end = next.0.end;
            }
            joins
        });
    }
}

/// A page that is one for the whole request.
#[derive(Clone, Debug)]
pub struct Page {
    /// Its id in the pool.
    pub id: u32,
    /// Its parts and their bytes, or the slots of a ring.
    pub parts: Vec<(String, u64)>,
    /// What lies in it.
    pub fill: Fill,
}

/// What a group has on the two sides.
#[derive(Clone, Debug)]
pub enum Strip {
    /// Blocks of rows of `row_tokens` tokens, and the tokens of each copy of a part of a block.
    Rows { host: Vec<Block>, device: Vec<Block>, copies: Vec<Range<u64>>, row_tokens: u64 },
    /// One page.
    Whole { host: Option<Page>, device: Option<Page>, copied: bool },
}

/// Everything to be drawn of a group.
#[derive(Clone, Debug)]
pub struct Lane {
    /// The number of its explanation.
    pub group: usize,
    pub strip: Strip,
}

/// The lanes of all groups.
pub fn lanes(planned: &Planned<'_>) -> Vec<Lane> {
    let jobs = planned.plan.summary().jobs;
    let groups = planned.keys.iter().zip(planned.manifest.groups()).enumerate();
    let lane = |(index, (key, group)): (usize, (&AnyKey, &Group))| {
        let copies = copies(planned, &jobs, &group.name);
        let strip = match key.tokens_per_row(planned.plan.geometry()) {
            Some(tokens) => Rows { planned, key: *key, group, tokens: tokens.into() }.strip(&copies),
            None => whole(planned, *key, group, &copies),
        };
        Lane { group: index, strip }
    };
    groups.map(lane).collect()
}

/// One pair of blocks of a job.
#[derive(Clone, Copy, Debug)]
struct Copy<'j> {
    job: &'j JobSummary,
    destination: u32,
}

/// All pairs of blocks of a group's jobs.
fn copies<'j>(planned: &Planned<'_>, jobs: &'j [JobSummary], group: &str) -> Vec<Copy<'j>> {
    let own = jobs.iter().enumerate().filter(|(_, job)| job.group == group);
    let pairs = own.flat_map(|(number, job)| {
        let blocks = planned.plan.blocks_of(number);
        blocks.map(move |(_, destination)| Copy { job, destination })
    });
    pairs.collect()
}

/// A group of token rows.
struct Rows<'a> {
    planned: &'a Planned<'a>,
    key: AnyKey,
    group: &'a Group,
    /// Tokens of a row.
    tokens: u64,
}

impl Rows<'_> {
    fn strip(&self, copies: &[Copy<'_>]) -> Strip {
        let [host, device] = [Memory::Host, Memory::Device].map(|memory| {
            let slots = self.planned.plan.geometry().block_slots(self.key.id(), memory);
            slots.map_or(1, |slots| slots.get().max(1))
        });
        let on_host = self.group.landing == Landing::Host;
        let blocks = self.blocks(self.group.host_blocks(), 0, host);
        let host_fills = if on_host { [Fill::Imported, Fill::Hole] } else { [Fill::Untouched; 2] };
        let host_blocks: Vec<Block> =
            blocks.map(|block| Block { parts: self.filled(&block.tokens, host_fills), ..block }).collect();

        let first = self.group.first_page(self.planned.manifest.span()).saturating_mul(device);
        let page_fills = if on_host { [Fill::Untouched; 2] } else { [Fill::Landed, Fill::Untouched] };
        let mut pages: Vec<Block> = self.blocks(self.group.device_pages(), first, device).collect();
        let place: BTreeMap<u32, usize> = pages.iter().enumerate().map(|(at, page)| (page.id, at)).collect();
        let mut copied = Vec::new();
        for copy in copies {
            let Some(page) = place.get(&copy.destination).and_then(|at| pages.get_mut(*at)) else { continue };
            let from = page.tokens.start + u64::from(copy.job.first_row) * self.tokens;
            let rows = from..from + u64::from(copy.job.rows) * self.tokens;
            if copy.job.zero {
                page.parts.push((rows, Fill::Zeroed));
                continue;
            }
            page.parts.extend(self.filled(&rows, [Fill::Lifted, Fill::LiftedHole]));
            page.lifted = true;
            copied.push(rows);
        }
        for page in &mut pages {
            page.join();
            if page.parts.is_empty() {
                page.parts = self.filled(&page.tokens, page_fills);
            }
            let end = page.parts.iter().map(|(tokens, _)| tokens.end).max().unwrap_or(page.tokens.start);
            if end < page.tokens.end {
                page.parts.push((end..page.tokens.end, Fill::Untouched));
            }
        }
        Strip::Rows { host: host_blocks, device: pages, copies: copied, row_tokens: self.tokens }
    }

    /// Blocks of `slots` tokens each, from token `first` on.
    fn blocks<'b>(&self, ids: &'b [u32], first: u64, slots: u64) -> impl Iterator<Item = Block> + 'b {
        (0_u64..).zip(ids).map(move |(index, id)| {
            let start = first + index * slots;
            Block { id: *id, tokens: start..start + slots, parts: Vec::new(), lifted: false }
        })
    }

    /// A range of tokens as one part up to the last imported row, and another after it.
    fn filled(&self, tokens: &Range<u64>, [imported, rest]: [Fill; 2]) -> Vec<(Range<u64>, Fill)> {
        let complete = self.planned.manifest.span().imported_tokens / self.tokens * self.tokens;
        let middle = complete.clamp(tokens.start, tokens.end);
        let parts = [(tokens.start..middle, imported), (middle..tokens.end, rest)];
        parts.into_iter().filter(|(tokens, _)| !tokens.is_empty()).collect()
    }
}

/// The strip of a state or a ring.
fn whole(planned: &Planned<'_>, key: AnyKey, group: &Group, copies: &[Copy<'_>]) -> Strip {
    let geometry = planned.plan.geometry();
    let copied = copies.iter().any(|copy| !copy.job.zero);
    let page = |memory, ids: &[u32], fill| {
        let segments = geometry.block_segments(key.id(), memory)?;
        let rows = key.block_rows(geometry, memory)?;
        let parts = match key {
            AnyKey::Ring(_) if rows <= MOST_SLOTS => (0..rows).map(|slot| (slot.to_string(), 1)).collect(),
            AnyKey::Ring(_) => vec![(format!("{rows} slots"), 1)],
            _ => segments.iter().map(|s| (s.name().to_owned(), u64::from(s.row_bytes()))).collect(),
        };
        Some(Page { id: *ids.first()?, parts, fill })
    };
    let on_host = group.landing == Landing::Host;
    let host_fill = if on_host { Fill::Imported } else { Fill::Untouched };
    let device_fill = match (copied, on_host) {
        (true, _) => Fill::Lifted,
        (false, true) => Fill::Untouched,
        (false, false) => Fill::Landed,
    };
    Strip::Whole {
        host: page(Memory::Host, group.host_blocks(), host_fill),
        device: page(Memory::Device, group.device_pages(), device_fill),
        copied,
    }
}
