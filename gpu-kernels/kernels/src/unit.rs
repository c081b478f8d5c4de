//! The units of page jobs: which piece of which run a number stands for.
//!
//! The units of all jobs form one sequence, of which each warp takes its [`Share`]. From the number of a unit follows all
//! else:
//!
//! ```text
//! unit ─ bisect units_before ─► job, unit of the job
//!        unit of the job = ((entry of the block list · layers + layer) · segments, unevenly) + chunk
//! ```
//!
//! Segments of a layer differ in their number of chunks, so they are the one part that is found by counting along; a
//! layer has a few.

use pagelift_abi::{job as job_flags, BlockPair, PageJob, Route, SegmentPair, TableHeader};
use pagelift_device::{read_at, warp, warps};

/// The job that `unit` belongs to: the last whose units begin at or before it. Jobs without units share their
/// `units_before` with the one that follows, and are passed over.
///
/// Units of a warp only grow, so the search begins at the job of its last one.
///
/// # Safety
///
/// 1. At `jobs` lie `count` jobs, `from` is below `count`, and its units begin at or before `unit`.
#[inline(always)]
pub(crate) unsafe fn job_of(jobs: u64, from: u32, count: u32, unit: u32) -> u32 {
    let (mut low, mut high) = (from, count);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        // SAFETY: `middle` is below `count` (1).
        let job: PageJob = unsafe { read_at(jobs, u64::from(middle)) };
        if job.units_before <= unit {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// The units of the calling warp: one of each `warps()`, in their order.
///
/// Rounds are dealt forwards and backwards in turn. Large and small units alternate, and the number of warps is often a
/// multiple of that pattern: dealt forwards alone, some warps would get large ones only, and end last.
pub(crate) struct Share {
    /// The warp's next unit.
    unit: u32,
    /// Whether that is in a round which is dealt backwards.
    backwards: bool,
}

impl Share {
    /// From the warp's first unit on.
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self { unit: warp(), backwards: false }
    }

    /// The warp's next unit, if it is one of `units`.
    #[inline(always)]
    pub(crate) fn next(&mut self, units: u32) -> Option<u32> {
        let unit = self.unit;
        // To the end of the round, and as far from there.
        let left = if self.backwards { warp() } else { warps() - 1 - warp() };
        // There are fewer than 2³² units: past the last one this stays there.
        self.unit = unit.saturating_add(2 * left + 1);
        self.backwards = !self.backwards;
        (unit < units).then_some(unit)
    }
}

/// What a unit of a job stands for, but for its segment.
pub(crate) struct Unit {
    /// Entry of the block list.
    pub(crate) entry: u32,
    pub(crate) layer: u32,
    /// Chunk of the layer, counted through its segments.
    pub(crate) chunk: u32,
}

impl Unit {
    /// Unit `unit` of a job on a route of `layers` layers with `chunks` chunks each. A job with a unit has both; its caller
    /// asks all the same, which costs less than the trap that a division would bring along.
    #[inline(always)]
    pub(crate) fn of(layers: u32, chunks: u32, unit: u32) -> Self {
        let (run, chunk) = (unit / chunks, unit % chunks);
        Self { entry: run / layers, layer: run % layers, chunk }
    }

    /// The first of its block's units: the one that counts what the block has to be counted for.
    #[inline(always)]
    pub(crate) fn is_first(&self) -> bool {
        self.layer == 0 && self.chunk == 0
    }

    /// The unit's segment pair, and its chunk of that.
    ///
    /// # Safety
    ///
    /// 1. At `segments` lie the segment pairs of all routes; the unit is one of a job on this route, of `rows` rows.
    #[inline(always)]
    pub(crate) unsafe fn pair(&self, segments: u64, route: &Route, rows: u32) -> (SegmentPair, u32) {
        let (mut n, mut chunk) = (0, self.chunk);
        // SAFETY: (1) the chunk is below the sum of all pairs' chunks, so that this ends at one of them.
        let mut pair = unsafe { pair_at(segments, route, n) };
        while chunk >= pair.chunks(rows) as u32 {
            chunk -= pair.chunks(rows) as u32;
            n += 1;
            // SAFETY: as above.
            pair = unsafe { pair_at(segments, route, n) };
        }
        (pair, chunk)
    }

    /// The blocks of its entry.
    ///
    /// # Safety
    ///
    /// 1. `header` is that of the table at `table`, `job` one of its jobs, and the unit one of the job's.
    #[inline(always)]
    pub(crate) unsafe fn blocks(&self, table: u64, header: &TableHeader, job: &PageJob) -> BlockPair {
        if job.flags & job_flags::LIST == 0 {
            BlockPair { source: job.source, destination: job.destination }
        } else {
            let list = table + u64::from(header.indices_at);
            // SAFETY: by (1) the job's entries lie there, and a unit belongs to one of them.
            unsafe { read_at(list, u64::from(job.source) + u64::from(self.entry)) }
        }
    }
}

/// Chunks of a layer in a job of `rows` rows.
///
/// # Safety
///
/// 1. At `segments` lie the segment pairs of all routes.
#[inline(always)]
pub(crate) unsafe fn chunks_of_layer(segments: u64, route: &Route, rows: u32) -> u32 {
    // A table numbers its units in 32 bits, so its chunks fit too.
    let mut chunks = 0;
    for n in 0..route.segments {
        // SAFETY: (1) is ours, and `n` is one of the route's.
        chunks += unsafe { pair_at(segments, route, n) }.chunks(rows) as u32;
    }
    chunks
}

/// Pair `n` of a route.
///
/// # Safety
///
/// 1. At `segments` lie the segment pairs of all routes, and `n` is below those of this one.
#[inline(always)]
unsafe fn pair_at(segments: u64, route: &Route, n: u32) -> SegmentPair {
    // SAFETY: by (1) the pair exists.
    unsafe { read_at(segments, u64::from(route.first_segment) + u64::from(n)) }
}
