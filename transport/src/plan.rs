//! What an import reads: entries of the peer's lists, split into reads, and what of D's blocks is zeroed.
//!
//! Blocks pair by their absolute position in the prompt, never from the end of a list. What D has already is trimmed
//! first, block by block; only then does a block become pages, and pages steps. Steps that hold no imported token are not
//! read, and where they lie is zeroed: whatever was there before is another request's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pagelift_planner::geometry::GroupKind;
use pagelift_planner::quantity::Tokens;
use serde::{Deserialize, Serialize};

use crate::descriptors::{Descriptor, ListPair, ListSide};
use crate::error::ReadPlanError;
use crate::pairing::{PairedGroup, Peer};
use crate::region::GroupRegions;

/// The blocks of a group, by their position: that of the tokens in them for paged groups, the engine's own for others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockTable {
    first: u32,
    blocks: Vec<Option<u32>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    digests: Vec<u64>,
}

impl BlockTable {
    /// Blocks from position 0 on.
    #[must_use]
    pub fn from_first(blocks: &[u32]) -> Self {
        Self { first: 0, blocks: blocks.iter().copied().map(Some).collect(), digests: Vec::new() }
    }

    /// Blocks from position `first` on; `None` where there is no block, as before the live ones of a state.
    #[must_use]
    pub const fn at(first: u32, blocks: Vec<Option<u32>>) -> Self {
        Self { first, blocks, digests: Vec::new() }
    }

    /// The same, with a number for the rows of each block, in the same order: whoever holds equal rows works out the same.
    /// What it is computed of the engines agree on; the transport carries it.
    #[must_use]
    pub fn with_digests(mut self, digests: Vec<u64>) -> Self {
        self.digests = digests;
        self
    }

    /// The number for the rows of the block at a position, where it came with one.
    #[must_use]
    pub fn digest(&self, position: u32) -> Option<u64> {
        let index = usize::try_from(position.checked_sub(self.first)?).ok()?;
        self.digests.get(index).copied()
    }

    /// The block at a position.
    #[must_use]
    pub fn get(&self, position: u32) -> Option<u32> {
        let index = usize::try_from(position.checked_sub(self.first)?).ok()?;
        self.blocks.get(index).copied().flatten()
    }

    /// What it has at the positions of another, whatever else there is.
    fn at_positions_of(&self, other: &Self) -> Self {
        let first = self.first.max(other.first);
        let count = |positions: u32| usize::try_from(positions).unwrap_or(usize::MAX);
        let (skipped, taken) = (count(first.abs_diff(self.first)), count(first.abs_diff(other.first)));
        let most = other.blocks.len().saturating_sub(taken);
        Self {
            first,
            blocks: self.blocks.iter().skip(skipped).take(most).copied().collect(),
            digests: self.digests.iter().skip(skipped).take(most).copied().collect(),
        }
    }

    /// Positions that have a block, and these.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        let places = (self.first..=u32::MAX).zip(&self.blocks);
        places.filter_map(|(position, block)| Some((position, (*block)?)))
    }
}

/// The blocks of each group, by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BlockTables(BTreeMap<Arc<str>, BlockTable>);

impl BlockTables {
    /// Of no group.
    #[must_use]
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// These, and those of one group more.
    #[must_use]
    pub fn with(mut self, group: &str, table: BlockTable) -> Self {
        self.0.insert(group.into(), table);
        self
    }

    /// Those of one group.
    #[must_use]
    pub fn get(&self, group: &str) -> Option<&BlockTable> {
        self.0.get(group)
    }

    /// What they have at the positions of others, whatever else there is.
    ///
    /// ```
    /// use pagelift_transport::plan::{BlockTable, BlockTables};
    /// let tables = |table| BlockTables::new().with("main", table);
    /// let wanted = tables(BlockTable::at(1, vec![Some(0), Some(1)]));
    /// let theirs = tables(BlockTable::from_first(&[7, 8, 9, 10])).with("indexer", BlockTable::from_first(&[3]));
    /// assert_eq!(theirs.at_positions_of(&wanted), tables(BlockTable::at(1, vec![Some(8), Some(9)])));
    /// ```
    #[must_use]
    pub fn at_positions_of(&self, others: &Self) -> Self {
        let own = |(group, other): (&Arc<str>, &BlockTable)| {
            Some((group.clone(), self.0.get(group)?.at_positions_of(other)))
        };
        Self(others.0.iter().filter_map(own).collect())
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &BlockTable)> {
        self.0.iter()
    }
}

/// How large a read may be. Smaller ones tell more exactly what is valid when one fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// Bytes of a read, unless a single block has more.
    pub most_bytes: u64,
    /// Entries of a read, unless a single block has more.
    pub most_entries: usize,
}

impl Default for ReadLimits {
    /// 64 MiB, by 32,768 entries. To begin a read takes a transport some time for each entry; one that copies by a processor does so
    /// meanwhile, byte by byte; and nothing else is said to P before it returns.
    fn default() -> Self {
        Self { most_bytes: 64 << 20, most_entries: 1 << 15 }
    }
}

/// What an import reads and zeroes. Without reads it is *notify only*: the producer is told at once that its blocks are
/// not needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadPlan {
    imported: Tokens,
    reads: Vec<PlannedRead>,
    zeroes: Vec<Zero>,
    groups: Vec<PlannedGroup>,
}

/// One read: entries of one pair of lists. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRead {
    list: usize,
    group: usize,
    first_token: Tokens,
    bytes: u64,
    remote: Vec<i32>,
    local: Vec<i32>,
}

/// A group of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedGroup {
    name: Arc<str>,
    imported: Tokens,
}

/// Rows of one of D's pages that nothing is read into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zero {
    /// The group.
    pub group: Arc<str>,
    /// The page, by its number in D's pool.
    pub page: u32,
    /// The first row.
    pub first_row: u32,
    /// Rows.
    pub rows: u32,
}

impl ReadPlan {
    /// The reads, in no order that matters.
    #[must_use]
    pub fn reads(&self) -> &[PlannedRead] {
        &self.reads
    }

    /// What is zeroed before the import is used.
    #[must_use]
    pub fn zeroes(&self) -> &[Zero] {
        &self.zeroes
    }

    /// The groups that D asked for.
    #[must_use]
    pub fn groups(&self) -> &[PlannedGroup] {
        &self.groups
    }

    /// Tokens that are imported.
    #[must_use]
    pub const fn imported(&self) -> Tokens {
        self.imported
    }

    /// Bytes of all reads.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.reads.iter().fold(0, |sum, read| sum.saturating_add(read.bytes))
    }
}

impl PlannedGroup {
    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Tokens that are valid when all of its reads have landed.
    #[must_use]
    pub const fn imported(&self) -> Tokens {
        self.imported
    }
}

impl PlannedRead {
    /// Which of [`Peer::lists`] it reads by.
    #[must_use]
    pub const fn list(&self) -> usize {
        self.list
    }

    /// Which of [`ReadPlan::groups`] it belongs to.
    #[must_use]
    pub const fn group(&self) -> usize {
        self.group
    }

    /// Tokens of the prompt before those that it reads: valid in its group although it fails. 0 where a part means nothing.
    #[must_use]
    pub const fn first_token(&self) -> Tokens {
        self.first_token
    }

    /// Its size.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Entries of the peer's list.
    #[must_use]
    pub fn remote(&self) -> &[i32] {
        &self.remote
    }

    /// Entries of one's own list, as many.
    #[must_use]
    pub fn local(&self) -> &[i32] {
        &self.local
    }
}

/// A step that is read: where it lies on both sides.
#[derive(Clone, Copy)]
struct Step {
    position: u32,
    remote: (u32, u32),
    local: (u32, u32),
}

impl Peer {
    /// What an import of `imported` tokens reads from the blocks that P has exported into those that D wants filled: D
    /// leaves out, or gives `None` for, what it has already.
    ///
    /// # Errors
    /// Where D wants a group that is not paired, a block that P has not exported, one past the imported tokens or past the
    /// end of either pool, or one of its blocks twice.
    pub fn plan(
        &self,
        imported: Tokens,
        exported: &BlockTables,
        wanted: &BlockTables,
        limits: ReadLimits,
    ) -> Result<ReadPlan, ReadPlanError> {
        let mut plan = ReadPlan { imported, reads: Vec::new(), zeroes: Vec::new(), groups: Vec::new() };
        let mut taken = BTreeSet::new();
        for (name, wanted) in wanted.iter() {
            let group =
                self.groups.get(name).ok_or_else(|| ReadPlanError::NoSuchGroup { group: name.clone() })?;
            let nothing = BlockTable::default();
            let exported = exported.get(name).unwrap_or(&nothing);
            let mut steps = Vec::new();
            for (position, block) in wanted.iter() {
                if !taken.insert((group.local.pool.clone(), group.local.memory, block)) {
                    return Err(ReadPlanError::BlockTwice { group: name.clone(), block });
                }
                let covered = group.covered(name, position, imported)?;
                let there = exported.get(position);
                let there =
                    there.ok_or_else(|| ReadPlanError::NotExported { group: name.clone(), position })?;
                for step in 0..group.steps() {
                    let local = group.page(name, ListSide::Local, block, step)?;
                    let remote = group.page(name, ListSide::Remote, there, step)?;
                    if step < covered {
                        steps.push(Step { position, remote, local });
                    } else {
                        plan.zero(name, group, local);
                    }
                }
            }
            let own = plan.groups.len();
            plan.groups.push(PlannedGroup { name: name.clone(), imported });
            for index in group.lists.clone() {
                let Some(list) = self.lists.get(index) else { continue };
                plan.read(group, (index, list), own, &steps, limits)?;
            }
        }
        Ok(plan)
    }

    /// Where what a plan zeroes lies in D's memory: every byte of these rows, and no other.
    pub fn zero_ranges(&self, zero: &Zero) -> Vec<Descriptor> {
        let Some(group) = self.groups.get(&zero.group) else { return Vec::new() };
        let mut ranges = Vec::new();
        let lists = self.lists.get(group.lists.clone()).unwrap_or_default();
        for list in lists {
            let first = zero.first_row.checked_div(list.step_rows()).unwrap_or(0);
            let steps = zero.rows.checked_div(list.step_rows()).unwrap_or(0);
            for step in first..first.saturating_add(steps) {
                ranges.extend(list.step(ListSide::Local, zero.page, step));
            }
        }
        ranges
    }
}

impl ReadPlan {
    /// Notes that a step is not read, as one with the step before it.
    fn zero(&mut self, name: &Arc<str>, group: &PairedGroup, (page, step): (u32, u32)) {
        let (first_row, rows) = (step.saturating_mul(group.step_rows), group.step_rows);
        match self.zeroes.last_mut() {
            Some(last)
                if last.group == *name
                    && last.page == page
                    && last.first_row.saturating_add(last.rows) == first_row =>
            {
                last.rows = last.rows.saturating_add(rows);
            }
            _ => self.zeroes.push(Zero { group: name.clone(), page, first_row, rows }),
        }
    }

    /// Adds the reads of a group by one of its lists, each of whole positions.
    fn read(
        &mut self,
        group: &PairedGroup,
        (index, list): (usize, &ListPair),
        own: usize,
        steps: &[Step],
        limits: ReadLimits,
    ) -> Result<(), ReadPlanError> {
        let entries_of_step = list.entries_of_step();
        let of_step = list.bytes().saturating_mul(entries_of_step);
        let mut open: Option<PlannedRead> = None;
        for steps in steps.chunk_by(|one, other| one.position == other.position) {
            let Some(first) = steps.first() else { continue };
            let count = u64::try_from(steps.len()).unwrap_or(u64::MAX);
            let (bytes, entries) = (of_step.saturating_mul(count), entries_of_step.saturating_mul(count));
            let entries = usize::try_from(entries).unwrap_or(usize::MAX);
            let fits = |read: &PlannedRead| {
                read.bytes.saturating_add(bytes) <= limits.most_bytes
                    && read.remote.len().saturating_add(entries) <= limits.most_entries
            };
            if let Some(full) = open.take_if(|read| !fits(read)) {
                self.reads.push(full);
            }
            let read = open.get_or_insert_with(|| PlannedRead {
                list: index,
                group: own,
                first_token: group.first_token(first.position),
                bytes: 0,
                remote: Vec::new(),
                local: Vec::new(),
            });
            read.bytes = read.bytes.saturating_add(bytes);
            for step in steps {
                let numbers = |side: ListSide, (page, step)| {
                    list.numbers(side, page, step).ok_or_else(|| ReadPlanError::TooManyEntries {
                        group: list.group().clone(),
                        side: side.whose(),
                        entries: list.entries(side),
                        most: i32::MAX.unsigned_abs().into(),
                    })
                };
                read.remote.extend(numbers(ListSide::Remote, step.remote)?);
                read.local.extend(numbers(ListSide::Local, step.local)?);
            }
        }
        self.reads.extend(open);
        Ok(())
    }
}

impl PairedGroup {
    /// Steps of a block.
    fn steps(&self) -> u32 {
        self.block_rows.checked_div(self.step_rows).unwrap_or(1)
    }

    /// How many of a block's steps hold an imported token.
    fn covered(&self, name: &Arc<str>, position: u32, imported: Tokens) -> Result<u32, ReadPlanError> {
        if self.kind != GroupKind::Paged {
            return Ok(self.steps());
        }
        let before = u64::from(position).saturating_mul(self.block_tokens);
        let tokens = imported.get().saturating_sub(before);
        if tokens == 0 {
            return Err(ReadPlanError::PastImport { group: name.clone(), position, imported });
        }
        let of_step = u64::from(self.step_rows).saturating_mul(self.tokens_per_row);
        let steps = u32::try_from(tokens.div_ceil(of_step.max(1))).unwrap_or(u32::MAX);
        Ok(steps.min(self.steps()))
    }

    /// The page of a block's step, and the step of that page.
    fn page(
        &self,
        name: &Arc<str>,
        side: ListSide,
        block: u32,
        step: u32,
    ) -> Result<(u32, u32), ReadPlanError> {
        let regions = self.regions(side);
        let of_page = regions.rows.checked_div(self.step_rows).unwrap_or(1);
        let inside = step.checked_div(of_page).unwrap_or(0);
        let page = block.checked_mul(regions.pages_per_block).and_then(|first| first.checked_add(inside));
        let page = page.filter(|page| *page < regions.pages);
        let page = page.ok_or_else(|| ReadPlanError::OutOfRange {
            group: name.clone(),
            side: side.whose(),
            block,
            blocks: regions.pages.checked_div(regions.pages_per_block).unwrap_or(0),
        })?;
        Ok((page, step.checked_rem(of_page).unwrap_or(0)))
    }

    /// Tokens before a position, where they are valid without it.
    fn first_token(&self, position: u32) -> Tokens {
        match self.kind {
            GroupKind::Paged => Tokens::new(u64::from(position).saturating_mul(self.block_tokens)),
            GroupKind::Ring | GroupKind::State => Tokens::ZERO,
        }
    }

    const fn regions(&self, side: ListSide) -> &GroupRegions {
        match side {
            ListSide::Remote => &self.remote,
            ListSide::Local => &self.local,
        }
    }
}
