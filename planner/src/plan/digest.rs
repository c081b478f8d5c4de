//! A plan of digests: one number for each list of blocks, the same for the same content wherever it lies.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pagelift_abi as abi;

use super::jobs::{PageJobs, Piece, PlanCapacity, capacity_error};
use super::pages::out_of_range;
use super::{Plan, PlanSummary, Staging};
use crate::error::PlanError;
use crate::geometry::{DigestKey, Geometry, Kind, Memory, Route};
use crate::id::{BlockId, HostBlockId, PageId};
use crate::quantity::Bytes;

/// Tells fillings of digest plans apart: each new plan and each clearing begins one.
static FILLINGS: AtomicU64 = AtomicU64::new(1);

/// Digests of rows, in one launch.
///
/// A digest is the sum of a mix of (layer, segment, row, word of the row, content) over every 4-byte word. It does not
/// depend on strides, order of blocks in memory, access width or launch shape, and never on holes or padding.
#[derive(Debug)]
pub struct DigestPlan {
    geometry: Arc<Geometry>,
    jobs: PageJobs,
    filling: u64,
}

/// Which of a plan's digests a call added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DigestNumber {
    /// The filling of the plan that it belongs to.
    filling: u64,
    /// The first job.
    pub(crate) first: u32,
    /// Jobs whose digests are added up.
    pub(crate) jobs: u32,
}

impl DigestNumber {
    /// One that was taken apart by [`DigestNumber::filling`] and [`DigestNumber::jobs`], for callers who keep it as numbers. It is
    /// compared with the plan's when it is used.
    #[doc(hidden)]
    #[must_use]
    pub const fn of_parts(filling: u64, jobs: Range<u32>) -> Self {
        Self { filling, first: jobs.start, jobs: jobs.end.saturating_sub(jobs.start) }
    }

    /// What the plan's [`Plan::filling`] was.
    #[doc(hidden)]
    #[must_use]
    pub const fn filling(self) -> u64 {
        self.filling
    }

    /// The jobs whose sums add up to the digest.
    #[doc(hidden)]
    #[must_use]
    pub const fn jobs(self) -> Range<u32> {
        self.first..self.first.saturating_add(self.jobs)
    }

    /// The digest, out of those of all jobs of the plan; `None` where those are fewer.
    #[doc(hidden)]
    #[must_use]
    pub fn of(self, jobs: &[u64]) -> Option<u64> {
        let first = usize::try_from(self.first).ok()?;
        let end = first.checked_add(usize::try_from(self.jobs).ok()?)?;
        Some(jobs.get(first..end)?.iter().fold(0, |sum, digest| sum.wrapping_add(*digest)))
    }
}

impl DigestPlan {
    /// An empty plan. All its memory is allocated here.
    ///
    /// # Errors
    /// [`PlanError::Capacity`] where the capacity is past [`PlanCapacity::MOST`], [`PlanError::OutOfMemory`] where there
    /// is no memory for so much.
    pub fn new(geometry: Arc<Geometry>, capacity: PlanCapacity) -> Result<Self, PlanError> {
        let jobs = PageJobs::new(capacity)?;
        Ok(Self { geometry, jobs, filling: FILLINGS.fetch_add(1, Ordering::Relaxed) })
    }

    /// Empties the plan, and keeps its memory. Numbers that it gave before are of another filling.
    pub fn clear(&mut self) {
        self.filling = FILLINGS.fetch_add(1, Ordering::Relaxed);
        self.jobs.clear();
    }

    /// Adds the first `rows` rows of a list of host blocks.
    ///
    /// # Errors
    /// Where the side lies on the device, the list has fewer rows, an id is out of range, rows need more than 32 bits, or
    /// the table is full. The plan is then as it was.
    pub fn host<K: Kind>(
        &mut self,
        side: DigestKey<K>,
        blocks: &[HostBlockId],
        rows: u64,
    ) -> Result<DigestNumber, PlanError> {
        self.add(side, Memory::Host, blocks, rows)
    }

    /// Adds the first `rows` rows of a list of pages.
    ///
    /// # Errors
    /// Where the side lies on the host, the list has fewer rows, an id is out of range, rows need more than 32 bits, or
    /// the table is full. The plan is then as it was.
    pub fn device<K: Kind>(
        &mut self,
        side: DigestKey<K>,
        pages: &[PageId],
        rows: u64,
    ) -> Result<DigestNumber, PlanError> {
        self.add(side, Memory::Device, pages, rows)
    }

    fn add<K: Kind, B: BlockId>(
        &mut self,
        key: DigestKey<K>,
        memory: Memory,
        blocks: &[B],
        rows: u64,
    ) -> Result<DigestNumber, PlanError> {
        let geometry = Arc::clone(&self.geometry);
        let index = key.0.index;
        let way = geometry.way(index).filter(|_| key.0.geometry == geometry.stamp);
        let way = way.ok_or(PlanError::ForeignKey)?;
        let side = geometry.side_at(way.source).ok_or(PlanError::ForeignKey)?;
        let group = geometry.group_name(way.group);
        if side.memory != memory {
            return Err(PlanError::NoRoute { group, side: memory.name(), direction: "into a digest" });
        }
        let block_rows = u64::from(way.source_rows);
        let full = rows.checked_div(block_rows).unwrap_or(0);
        let rest = rows.checked_rem(block_rows).unwrap_or(0);
        let needed = rows.div_ceil(block_rows.max(1));
        let found = u64::try_from(blocks.len()).unwrap_or(u64::MAX);
        if needed > found {
            return Err(PlanError::ListLength { group, list: "blocks to digest", expected: needed, found });
        }
        // Kernels count rows through all blocks of a list.
        if u32::try_from(rows).is_err() {
            return Err(capacity_error("rows of one digest", rows, u32::MAX));
        }
        let used = usize::try_from(needed).unwrap_or(usize::MAX);
        let limit = geometry.pool(side.pool).map_or(0, |pool| pool.blocks());
        if let Some(bad) = blocks.iter().take(used).find(|block| block.raw() >= limit) {
            return Err(out_of_range(&geometry, side, bad.raw()));
        }
        let mark = self.jobs.mark();
        let first = self.jobs.jobs.len();
        let full = usize::try_from(full).unwrap_or(usize::MAX);
        let rest = u32::try_from(rest).unwrap_or(0);
        let whole = blocks.get(..full).unwrap_or_default();
        let last = blocks.get(full..full.saturating_add(usize::from(rest > 0))).unwrap_or_default();
        let first_of_last = u32::try_from(rows.saturating_sub(u64::from(rest))).unwrap_or(u32::MAX);
        self.push((index, way), whole, 0, way.source_rows)
            .and_then(|()| self.push((index, way), last, first_of_last, rest))
            .inspect_err(|_| self.jobs.rewind(mark))?;
        let small = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let jobs = small(self.jobs.jobs.len().saturating_sub(first));
        Ok(DigestNumber { filling: self.filling, first: small(first), jobs })
    }

    /// Adds one job: `rows` rows of each block, which are rows `first_row ..` of the whole.
    fn push<B: BlockId>(
        &mut self,
        way: (u32, Route),
        blocks: &[B],
        first_row: u32,
        rows: u32,
    ) -> Result<(), PlanError> {
        let pairs = blocks.iter().map(|block| abi::BlockPair { source: block.raw(), destination: 0 });
        let piece = Piece { source_row: 0, destination_row: first_row, rows, zero: false };
        self.jobs.add(&self.geometry, way, pairs, piece)
    }
}

impl Plan for DigestPlan {
    fn geometry(&self) -> &Arc<Geometry> {
        &self.geometry
    }

    fn jobs(&self) -> usize {
        self.jobs.jobs.len()
    }

    /// Bytes that are read.
    fn bytes(&self) -> Option<Bytes> {
        Some(Bytes::new(self.jobs.bytes))
    }

    fn table_bytes(&self) -> usize {
        self.jobs.table_bytes()
    }

    fn encode(&self, staging: Staging, table: &mut [u8]) -> Result<usize, PlanError> {
        self.jobs.encode(staging, table)
    }

    fn sums(&self) -> u32 {
        self.jobs.capacity()
    }

    fn filling(&self) -> u64 {
        self.filling
    }
}

impl fmt::Display for DigestPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        PlanSummary::of_pages("digest", &self.geometry, &self.jobs).fmt(f)
    }
}
