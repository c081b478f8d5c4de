//! The page jobs of a plan, with their block lists: what there is room for, and what they come to.

use pagelift_abi as abi;
use serde::{Deserialize, Serialize};

use super::Staging;
use super::table::{table_bytes, write_table};
use crate::error::PlanError;
use crate::geometry::{Geometry, Route};
use crate::room::{check_most, with_room};

/// Room of a page plan or a digest plan, and of its table: at most [`PlanCapacity::MOST`].
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
}

/// Jobs of one plan. Their number, that of list entries, and units stay within 32 bits.
#[derive(Debug)]
pub(super) struct PageJobs {
    capacity: PlanCapacity,
    pub jobs: Vec<abi::PageJob>,
    pub lists: Vec<abi::BlockPair>,
    pub units: u32,
    pub bytes: u64,
}

/// How far jobs had come.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    jobs: usize,
    lists: usize,
    units: u32,
    bytes: u64,
}

/// Rows of one or more pairs of blocks.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    pub source_row: u32,
    pub destination_row: u32,
    pub rows: u32,
    pub zero: bool,
}

impl PageJobs {
    /// None, with room for so many.
    ///
    /// # Errors
    /// Where the capacity is past the largest, or there is no memory for it.
    pub fn new(capacity: PlanCapacity) -> Result<Self, PlanError> {
        let most = PlanCapacity::MOST;
        check_most("jobs", capacity.jobs.into(), most.jobs.into())?;
        check_most("block list entries", capacity.list_entries.into(), most.list_entries.into())?;
        Ok(Self {
            jobs: with_room("jobs", capacity.jobs.into())?,
            lists: with_room("block list entries", capacity.list_entries.into())?,
            capacity,
            units: 0,
            bytes: 0,
        })
    }

    /// How many jobs there is room for.
    pub const fn capacity(&self) -> u32 {
        self.capacity.jobs
    }

    pub fn clear(&mut self) {
        self.jobs.clear();
        self.lists.clear();
        (self.units, self.bytes) = (0, 0);
    }

    pub const fn mark(&self) -> Mark {
        Mark { jobs: self.jobs.len(), lists: self.lists.len(), units: self.units, bytes: self.bytes }
    }

    /// Takes back what was added since the mark.
    pub fn rewind(&mut self, mark: Mark) {
        self.jobs.truncate(mark.jobs);
        self.lists.truncate(mark.lists);
        (self.units, self.bytes) = (mark.units, mark.bytes);
    }

    /// Adds one job, `piece` of each pair of blocks; none where there is nothing to do. After an error the caller goes
    /// back to a mark.
    pub fn add(
        &mut self,
        geometry: &Geometry,
        (index, way): (u32, Route),
        mut pairs: impl ExactSizeIterator<Item = abi::BlockPair>,
        piece: Piece,
    ) -> Result<(), PlanError> {
        let count = pairs.len();
        if count == 0 || piece.rows == 0 {
            return Ok(());
        }
        self.reserve_jobs(1)?;
        let blocks = u64::try_from(count).unwrap_or(u64::MAX);
        let units_before = self.units;
        self.units = self.units_with(blocks.saturating_mul(units_of_block(geometry, index, piece.rows)))?;
        let (source, destination, list) = if count == 1 {
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

    /// Refuses more jobs than fit.
    pub fn reserve_jobs(&self, jobs: usize) -> Result<(), PlanError> {
        fits("jobs", self.jobs.len(), jobs, self.capacity.jobs)
    }

    /// Refuses more entries of block lists than fit, and says where they begin.
    pub fn reserve_list(&self, entries: usize) -> Result<u32, PlanError> {
        fits("block list entries", self.lists.len(), entries, self.capacity.list_entries)?;
        Ok(u32::try_from(self.lists.len()).unwrap_or(u32::MAX))
    }

    /// The units of all jobs and `more`, which kernels count in 32 bits.
    pub fn units_with(&self, more: u64) -> Result<u32, PlanError> {
        let all = u64::from(self.units).saturating_add(more);
        u32::try_from(all).map_err(|_| capacity_error("units", all, u32::MAX))
    }

    /// Bytes of a table with room for all that fits.
    pub const fn table_bytes(&self) -> usize {
        table_bytes(size_of::<abi::PageJob>(), self.capacity.jobs, self.capacity.list_entries, 0)
    }

    /// Writes the table.
    pub fn encode(&self, staging: Staging, table: &mut [u8]) -> Result<usize, PlanError> {
        write_table(staging, self.units, &self.jobs, &self.lists, &[], table)
    }
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
