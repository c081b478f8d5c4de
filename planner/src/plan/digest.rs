//! A plan of digests: one number for each list of blocks, the same for the same content wherever it lies.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pagelift_abi as abi;

use super::pages::{PlanCapacity, capacity_error};
use super::{Plan, PlanSummary, Staging, room, table_bytes, write_table};
use crate::error::PlanError;
use crate::geometry::{DigestKey, Geometry, Kind};
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
    capacity: PlanCapacity,
    jobs: Vec<abi::PageJob>,
    lists: Vec<abi::BlockPair>,
    units: u32,
    bytes: u64,
    filling: u64,
}

/// Which of a plan's digests a call added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestNumber {
    /// The filling of the plan that it belongs to.
    filling: u64,
    /// The first job.
    pub(crate) first: u32,
    /// Jobs whose digests are added up.
    pub(crate) jobs: u32,
}

impl DigestNumber {
    /// What the plan's [`Plan::filling`] was.
    #[doc(hidden)]
    #[must_use]
    pub const fn filling(self) -> u64 {
        self.filling
    }

    /// The digest, out of those of all jobs of the plan; `None` where they are of another plan.
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
        capacity.check()?;
        Ok(Self {
            jobs: room("jobs", capacity.jobs.into())?,
            lists: room("block list entries", capacity.list_entries.into())?,
            geometry,
            capacity,
            units: 0,
            bytes: 0,
            filling: FILLINGS.fetch_add(1, Ordering::Relaxed),
        })
    }

    /// Empties the plan, and keeps its memory. Numbers that it gave before are of another filling.
    pub fn clear(&mut self) {
        self.filling = FILLINGS.fetch_add(1, Ordering::Relaxed);
        self.jobs.clear();
        self.lists.clear();
        (self.units, self.bytes) = (0, 0);
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
        self.add(side, crate::geometry::Memory::Host, blocks, rows)
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
        self.add(side, crate::geometry::Memory::Device, pages, rows)
    }

    fn add<K: Kind, B: BlockId>(
        &mut self,
        key: DigestKey<K>,
        memory: crate::geometry::Memory,
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
        let pool = geometry.pool(side.pool);
        let limit = pool.map_or(0, |pool| pool.blocks());
        let used = usize::try_from(needed).unwrap_or(usize::MAX);
        if let Some(bad) = blocks.iter().take(used).find(|block| block.raw() >= limit) {
            let pool = pool.map_or_else(|| Arc::from("?"), |pool| pool.spec.name.clone());
            return Err(PlanError::OutOfRange { group, pool, block: bad.to_string(), blocks: limit });
        }
        let mark = (self.jobs.len(), self.lists.len(), self.units, self.bytes);
        let full = usize::try_from(full).unwrap_or(usize::MAX);
        let rest = u32::try_from(rest).unwrap_or(0);
        let whole = blocks.get(..full).unwrap_or_default();
        let last = blocks.get(full..full.saturating_add(usize::from(rest > 0))).unwrap_or_default();
        let first_of_last = u32::try_from(rows.saturating_sub(u64::from(rest))).unwrap_or(u32::MAX);
        let added = self
            .push(index, whole, 0, way.source_rows)
            .and_then(|()| self.push(index, last, first_of_last, rest));
        if let Err(error) = added {
            self.jobs.truncate(mark.0);
            self.lists.truncate(mark.1);
            (self.units, self.bytes) = (mark.2, mark.3);
            return Err(error);
        }
        self.bytes = self.bytes.saturating_add(way.row_bytes.saturating_mul(rows));
        let small = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let jobs = small(self.jobs.len().saturating_sub(mark.0));
        Ok(DigestNumber { filling: self.filling, first: small(mark.0), jobs })
    }

    /// Adds one job: `rows` rows of each block, which are rows `first_row ..` of the whole.
    fn push<B: BlockId>(
        &mut self,
        route: u32,
        blocks: &[B],
        first_row: u32,
        rows: u32,
    ) -> Result<(), PlanError> {
        if blocks.is_empty() {
            return Ok(());
        }
        if self.jobs.len() >= usize::try_from(self.capacity.jobs).unwrap_or(usize::MAX) {
            let needed = u64::from(self.capacity.jobs).saturating_add(1);
            return Err(capacity_error("jobs", needed, self.capacity.jobs));
        }
        let count = u64::try_from(blocks.len()).unwrap_or(u64::MAX);
        let units = count.saturating_mul(super::pages::units_of_block(&self.geometry, route, rows));
        let all = u64::from(self.units).saturating_add(units);
        let units_before = self.units;
        self.units = u32::try_from(all).map_err(|_| capacity_error("units", all, u32::MAX))?;
        let (source, destination, flags) = match blocks {
            [block] => (block.raw(), 1, 0),
            _ => {
                let entries = self.lists.len().saturating_add(blocks.len());
                let needed = u64::try_from(entries).unwrap_or(u64::MAX);
                if needed > u64::from(self.capacity.list_entries) {
                    return Err(capacity_error("block list entries", needed, self.capacity.list_entries));
                }
                let first = u32::try_from(self.lists.len()).unwrap_or(u32::MAX);
                let pair = |block: &B| abi::BlockPair { source: block.raw(), destination: 0 };
                self.lists.extend(blocks.iter().map(pair));
                (first, u32::try_from(blocks.len()).unwrap_or(u32::MAX), abi::job::LIST)
            }
        };
        self.jobs.push(abi::PageJob {
            route,
            units_before,
            source,
            destination,
            source_row: 0,
            destination_row: first_row,
            rows,
            flags,
        });
        Ok(())
    }
}

impl Plan for DigestPlan {
    fn geometry(&self) -> &Arc<Geometry> {
        &self.geometry
    }

    fn jobs(&self) -> usize {
        self.jobs.len()
    }

    /// Bytes that are read.
    fn bytes(&self) -> Option<Bytes> {
        Some(Bytes::new(self.bytes))
    }

    fn table_bytes(&self) -> usize {
        table_bytes(size_of::<abi::PageJob>(), self.capacity.jobs, self.capacity.list_entries, 0)
    }

    fn encode(&self, staging: Staging, table: &mut [u8]) -> Result<usize, PlanError> {
        write_table(staging, self.units, &self.jobs, &self.lists, &[], table)
    }

    fn sums(&self) -> u32 {
        self.capacity.jobs
    }

    fn filling(&self) -> u64 {
        self.filling
    }
}

impl fmt::Display for DigestPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        PlanSummary::of_pages("digest", &self.geometry, &self.jobs, self.units, self.bytes).fmt(f)
    }
}
