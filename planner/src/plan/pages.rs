//! A plan of page jobs: whole rows of blocks that the host knows.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use pagelift_abi as abi;
use serde::{Deserialize, Serialize};

use super::claims::{Claim, Claims, Use};
use super::direction::{Direction, block_words};
use super::prepared::KeptApart;
use super::{Plan, PlanSummary, Staging, check_most, filled, room, table_bytes, write_table};
use crate::error::PlanError;
use crate::geometry::{Geometry, Route, RouteKey, Side};
use crate::id::BlockId;
use crate::quantity::Bytes;

/// Room of a page plan and of its table: at most [`PlanCapacity::MOST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanCapacity {
    /// Jobs: about one for each (import, group), and one more where rows after a tail are zeroed.
    pub jobs: u32,
    /// Entries of block lists: one for each block of a group that is lifted whole.
    pub list_entries: u32,
}

impl Default for PlanCapacity {
    /// Enough for 64 imports of three groups and 8192 listed blocks: a table of about 78 KiB.
    fn default() -> Self {
        Self { jobs: 384, list_entries: 8192 }
    }
}

impl PlanCapacity {
    /// The largest capacity that a plan is made with.
    pub const MOST: Self = Self { jobs: 1 << 20, list_entries: 1 << 24 };

    /// Refuses a capacity past the largest.
    pub(super) fn check(self) -> Result<(), PlanError> {
        check_most("jobs", self.jobs.into(), Self::MOST.jobs.into())?;
        check_most("block list entries", self.list_entries.into(), Self::MOST.list_entries.into())
    }
}

/// Whole rows of blocks, in one launch, in direction `D`.
#[derive(Debug)]
pub struct PagePlan<D> {
    pub(super) geometry: Arc<Geometry>,
    capacity: PlanCapacity,
    pub(super) jobs: Vec<abi::PageJob>,
    pub(super) lists: Vec<abi::BlockPair>,
    pub(super) units: u32,
    pub(super) bytes: u64,
    pub(super) claims: Claims,
    pub(super) kept_apart: KeptApart,
    /// Per group, the last import that brought it: a group comes once in an import.
    pub(super) seen: Vec<u64>,
    pub(super) imports: u64,
    direction: PhantomData<D>,
}

/// What a failed call goes back to.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    jobs: usize,
    lists: usize,
    units: u32,
    bytes: u64,
    claims: usize,
}

/// Rows of one or more pairs of blocks.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    pub source_row: u32,
    pub destination_row: u32,
    pub rows: u32,
    pub zero: bool,
}

impl<D: Direction> PagePlan<D> {
    /// An empty plan. All its memory is allocated here.
    ///
    /// # Errors
    /// [`PlanError::Capacity`] where the capacity is past [`PlanCapacity::MOST`] or the geometry's pools have more than
    /// 2²⁶ blocks together, [`PlanError::OutOfMemory`] where there is no memory for so much.
    pub fn new(geometry: Arc<Geometry>, capacity: PlanCapacity) -> Result<Self, PlanError> {
        capacity.check()?;
        let claims = u64::from(capacity.jobs).saturating_add(capacity.list_entries.into()).saturating_mul(2);
        let groups = u64::try_from(geometry.groups.len()).unwrap_or(u64::MAX);
        Ok(Self {
            jobs: room("jobs", capacity.jobs.into())?,
            lists: room("block list entries", capacity.list_entries.into())?,
            claims: Claims::new(&geometry, claims)?,
            seen: filled("groups", 0, groups)?,
            geometry,
            capacity,
            units: 0,
            bytes: 0,
            kept_apart: KeptApart::ByClaims,
            imports: 0,
            direction: PhantomData,
        })
    }

    /// Empties the plan, and keeps its memory.
    pub fn clear(&mut self) {
        self.jobs.clear();
        self.lists.clear();
        self.claims.clear();
        self.kept_apart = KeptApart::ByClaims;
        self.units = 0;
        self.bytes = 0;
    }

    /// Whether nothing is planned.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Units that the launch's warps share: pieces of at most 16 KiB.
    #[must_use]
    pub const fn units(&self) -> u32 {
        self.units
    }

    /// What is planned, to be read or serialised.
    #[must_use]
    pub fn summary(&self) -> PlanSummary {
        PlanSummary::of_pages(D::NAME, &self.geometry, &self.jobs, self.units, self.bytes)
    }

    /// The pairs of blocks of job `job`, source first; none where there is no such job. Where rows are zeroed,
    /// sources mean nothing.
    pub fn blocks_of(&self, job: usize) -> impl Iterator<Item = (u32, u32)> {
        let pairs = self.jobs.get(job).map(|job| pairs_of(job, &self.lists));
        pairs.into_iter().flatten().map(|pair| (pair.source, pair.destination))
    }

    /// What its jobs use.
    pub(crate) const fn claims(&self) -> &Claims {
        &self.claims
    }

    /// Where a call that fails goes back to, which adds something that reservations do not know.
    pub(super) fn begin(&mut self) -> Mark {
        self.claim_all();
        Mark {
            jobs: self.jobs.len(),
            lists: self.lists.len(),
            units: self.units,
            bytes: self.bytes,
            claims: self.claims.len(),
        }
    }

    pub(super) fn rewind(&mut self, mark: Mark) {
        self.jobs.truncate(mark.jobs);
        self.lists.truncate(mark.lists);
        self.units = mark.units;
        self.bytes = mark.bytes;
        self.claims.rewind(mark.claims);
    }

    /// The route of a key that was made for this plan's geometry.
    pub(super) fn way<K>(&self, key: RouteKey<D, K>) -> Result<(u32, Route), PlanError> {
        let way = self.geometry.way(key.index).filter(|_| key.geometry == self.geometry.stamp);
        Ok((key.index, way.ok_or(PlanError::ForeignKey)?))
    }

    /// Adds one job, `piece` of each pair of blocks; none where there is nothing to copy. The caller claims rows.
    pub(super) fn add(
        &mut self,
        (index, way): (u32, Route),
        pairs: impl ExactSizeIterator<Item = abi::BlockPair>,
        piece: Piece,
    ) -> Result<(), PlanError> {
        let count = pairs.len();
        if count == 0 || piece.rows == 0 {
            return Ok(());
        }
        self.reserve_jobs(1)?;
        let blocks = u64::try_from(count).unwrap_or(u64::MAX);
        let units = blocks.saturating_mul(units_of_block(&self.geometry, index, piece.rows));
        let units_before = self.units;
        let all = u64::from(units_before).saturating_add(units);
        self.units = u32::try_from(all).map_err(|_| capacity_error("units", all, u32::MAX))?;
        let (source, destination, list) = if count == 1 {
            let mut pairs = pairs;
            let pair = pairs.next().unwrap_or_default();
            (pair.source, pair.destination, 0)
        } else {
            let first = self.reserve_list(count)?;
            let entries = u32::try_from(count).unwrap_or(u32::MAX);
            self.lists.extend(pairs);
            (first, entries, abi::job::LIST)
        };
        if !piece.zero {
            let row = way.row_bytes.saturating_mul(u64::from(piece.rows));
            self.bytes = self.bytes.saturating_add(row.saturating_mul(blocks));
        }
        self.jobs.push(abi::PageJob {
            route: index,
            units_before,
            source,
            destination,
            source_row: piece.source_row,
            destination_row: piece.destination_row,
            rows: piece.rows,
            flags: list | if piece.zero { abi::job::ZERO } else { 0 },
        });
        Ok(())
    }

    /// Notes that blocks belong to an import of a group, though the plan leaves them alone.
    pub(super) fn hold<B: BlockId>(&mut self, side: u32, blocks: &[B]) -> Result<(), PlanError> {
        blocks.iter().try_for_each(|block| self.claim(side, block.raw(), 0..1, Use::Hold))
    }

    /// Refuses more jobs than fit.
    pub(super) fn reserve_jobs(&self, jobs: usize) -> Result<(), PlanError> {
        fits("jobs", self.jobs.len(), jobs, self.capacity.jobs)
    }

    /// Refuses more entries of block lists than fit, and says where they begin.
    pub(super) fn reserve_list(&self, entries: usize) -> Result<u32, PlanError> {
        fits("block list entries", self.lists.len(), entries, self.capacity.list_entries)?;
        Ok(u32::try_from(self.lists.len()).unwrap_or(u32::MAX))
    }

    /// Claims rows of one block of a side, and says what is wrong in the plan's words.
    pub(super) fn claim(
        &mut self,
        side: u32,
        block: u32,
        rows: Range<u32>,
        usage: Use,
    ) -> Result<(), PlanError> {
        let own = self.geometry.side_at(side).ok_or(PlanError::ForeignKey)?;
        let Some(place) = self.claims.place(own.pool, block) else {
            return Err(out_of_range(&self.geometry, own, block));
        };
        let claim = Claim { place, side, group: own.group, first: rows.start, end: rows.end };
        let claimed = self.claims.claim(claim, usage);
        claimed.map_err(|conflict| self.claims.explain(&self.geometry, claim, conflict))
    }
}

/// An id that the side's pool does not have.
#[cold]
fn out_of_range(geometry: &Geometry, side: &Side, block: u32) -> PlanError {
    let (pool, blocks) = match geometry.pool(side.pool) {
        Some(pool) => (pool.spec.name.clone(), pool.blocks()),
        None => (Arc::from(side.pool.to_string()), 0),
    };
    let group = geometry.group_name(side.group);
    PlanError::OutOfRange { group, pool, block: block_words(side.memory, block), blocks }
}

/// The pairs of blocks of a job: its own, or those of its list.
pub(super) fn pairs_of<'a>(
    job: &abi::PageJob,
    lists: &'a [abi::BlockPair],
) -> impl Iterator<Item = abi::BlockPair> + use<'a> {
    let own = abi::BlockPair { source: job.source, destination: job.destination };
    let listed = is_list(job).then(|| {
        let index = |index: u32| usize::try_from(index).unwrap_or(usize::MAX);
        let rest = lists.get(index(job.source)..).unwrap_or_default();
        rest.get(..index(job.destination)).unwrap_or_default()
    });
    let single = listed.is_none().then_some(own);
    single.into_iter().chain(listed.unwrap_or_default().iter().copied())
}

/// Whether a job names an entry and a number of entries of the block lists, and not a source and a destination.
#[inline]
pub(super) const fn is_list(job: &abi::PageJob) -> bool {
    job.flags & abi::job::LIST != 0
}

/// Units of one block: pieces of all layers and segments.
pub(super) fn units_of_block(geometry: &Geometry, route: u32, rows: u32) -> u64 {
    let index = |index: u32| usize::try_from(index).unwrap_or(usize::MAX);
    let Some(route) = geometry.tables.routes.get(index(route)) else { return 0 };
    let segments =
        geometry.tables.segments.iter().skip(index(route.first_segment)).take(index(route.segments));
    let layer = segments.fold(0_u64, |sum, pair| sum.saturating_add(pair.chunks(rows)));
    layer.saturating_mul(u64::from(route.layers))
}

/// Refuses `more` entries after `present` where `capacity` has no room for them.
#[inline]
fn fits(what: &'static str, present: usize, more: usize, capacity: u32) -> Result<(), PlanError> {
    let needed = present.saturating_add(more);
    if usize::try_from(capacity).is_ok_and(|capacity| needed <= capacity) {
        return Ok(());
    }
    Err(capacity_error(what, u64::try_from(needed).unwrap_or(u64::MAX), capacity))
}

#[cold]
pub(super) fn capacity_error(what: &'static str, needed: u64, capacity: u32) -> PlanError {
    PlanError::Capacity { what, needed, capacity: u64::from(capacity) }
}

impl<D: Direction> Plan for PagePlan<D> {
    fn geometry(&self) -> &Arc<Geometry> {
        &self.geometry
    }

    fn jobs(&self) -> usize {
        self.jobs.len()
    }

    /// Zeros that the launch writes are not counted.
    fn bytes(&self) -> Option<Bytes> {
        Some(Bytes::new(self.bytes))
    }

    fn table_bytes(&self) -> usize {
        table_bytes(size_of::<abi::PageJob>(), self.capacity.jobs, self.capacity.list_entries, 0)
    }

    fn encode(&self, staging: Staging, table: &mut [u8]) -> Result<usize, PlanError> {
        write_table(staging, self.units, &self.jobs, &self.lists, &[], table)
    }
}

impl<D: Direction> fmt::Display for PagePlan<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.summary().fmt(f)
    }
}
