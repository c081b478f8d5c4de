//! A plan of page jobs: whole rows of blocks that the host knows.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use pagelift_abi as abi;

use super::claims::{Claim, Claims, Use};
use super::direction::{Direction, block_words};
use super::jobs::{self, PageJobs, Piece, PlanCapacity, pairs_of};
use super::prepared::KeptApart;
use super::{Plan, PlanSummary, Staging};
use crate::error::PlanError;
use crate::geometry::{Geometry, Route, RouteKey, Side};
use crate::id::BlockId;
use crate::quantity::Bytes;
use crate::room::filled;

/// Whole rows of blocks, in one launch, in direction `D`.
#[derive(Debug)]
pub struct PagePlan<D> {
    pub(super) geometry: Arc<Geometry>,
    pub(super) jobs: PageJobs,
    pub(super) claims: Claims,
    pub(super) kept_apart: KeptApart,
    /// Per group, the last import that brought it: a group comes once in an import.
    pub(super) seen: Vec<u64>,
    pub(super) imports: u64,
    direction: PhantomData<D>,
}

/// What a failed call goes back to.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    jobs: jobs::Mark,
    claims: usize,
}

impl<D: Direction> PagePlan<D> {
    /// An empty plan. All its memory is allocated here.
    ///
    /// # Errors
    /// [`PlanError::Capacity`] where the capacity is past [`PlanCapacity::MOST`] or the geometry's pools have more than
    /// 2²⁶ blocks together, [`PlanError::OutOfMemory`] where there is no memory for so much.
    pub fn new(geometry: Arc<Geometry>, capacity: PlanCapacity) -> Result<Self, PlanError> {
        let jobs = PageJobs::new(capacity)?;
        let claims = u64::from(capacity.jobs).saturating_add(capacity.list_entries.into()).saturating_mul(2);
        let groups = u64::try_from(geometry.groups.len()).unwrap_or(u64::MAX);
        Ok(Self {
            jobs,
            claims: Claims::new(&geometry, claims)?,
            seen: filled("groups", 0, groups)?,
            geometry,
            kept_apart: KeptApart::ByClaims,
            imports: 0,
            direction: PhantomData,
        })
    }

    /// Empties the plan, and keeps its memory.
    pub fn clear(&mut self) {
        self.jobs.clear();
        self.claims.clear();
        self.kept_apart = KeptApart::ByClaims;
    }

    /// Whether nothing is planned.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.jobs.jobs.is_empty()
    }

    /// Units that the launch's warps share: pieces of at most 16 KiB.
    #[must_use]
    pub const fn units(&self) -> u32 {
        self.jobs.units
    }

    /// What is planned, to be read or serialised.
    #[must_use]
    pub fn summary(&self) -> PlanSummary {
        PlanSummary::of_pages(D::NAME, &self.geometry, &self.jobs)
    }

    /// The pairs of blocks of job `job`, source first; none where there is no such job. Where rows are zeroed,
    /// sources mean nothing.
    pub fn blocks_of(&self, job: usize) -> impl Iterator<Item = (u32, u32)> {
        let PageJobs { jobs, lists, .. } = &self.jobs;
        let pairs = jobs.get(job).map(|job| pairs_of(job, lists));
        pairs.into_iter().flatten().map(|pair| (pair.source, pair.destination))
    }

    /// What its jobs use.
    pub(crate) const fn claims(&self) -> &Claims {
        &self.claims
    }

    /// Where a call that fails goes back to, which adds something that reservations do not know.
    pub(crate) fn begin(&mut self) -> Mark {
        self.claim_all();
        Mark { jobs: self.jobs.mark(), claims: self.claims.len() }
    }

    pub(crate) fn rewind(&mut self, mark: Mark) {
        self.jobs.rewind(mark.jobs);
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
        way: (u32, Route),
        pairs: impl ExactSizeIterator<Item = abi::BlockPair>,
        piece: Piece,
    ) -> Result<(), PlanError> {
        self.jobs.add(&self.geometry, way, pairs, piece)
    }

    /// Notes that blocks belong to an import of a group, though the plan leaves them alone.
    pub(super) fn hold<B: BlockId>(&mut self, side: u32, blocks: &[B]) -> Result<(), PlanError> {
        blocks.iter().try_for_each(|block| self.claim(side, block.raw(), 0..1, Use::Hold))
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
pub(super) fn out_of_range(geometry: &Geometry, side: &Side, block: u32) -> PlanError {
    let (pool, blocks) = match geometry.pool(side.pool) {
        Some(pool) => (pool.spec.name.clone(), pool.blocks()),
        None => (Arc::from(side.pool.to_string()), 0),
    };
    let group = geometry.group_name(side.group);
    PlanError::OutOfRange { group, pool, block: block_words(side.memory, block), blocks }
}

impl<D: Direction> Plan for PagePlan<D> {
    fn geometry(&self) -> &Arc<Geometry> {
        &self.geometry
    }

    fn jobs(&self) -> usize {
        self.jobs.jobs.len()
    }

    /// Zeros that the launch writes are not counted.
    fn bytes(&self) -> Option<Bytes> {
        Some(Bytes::new(self.jobs.bytes))
    }

    fn table_bytes(&self) -> usize {
        self.jobs.table_bytes()
    }

    fn encode(&self, staging: Staging, table: &mut [u8]) -> Result<usize, PlanError> {
        self.jobs.encode(staging, table)
    }
}

impl<D: Direction> fmt::Display for PagePlan<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.summary().fmt(f)
    }
}
