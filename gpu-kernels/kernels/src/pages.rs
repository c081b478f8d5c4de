//! Whole rows of blocks: lift, gather, spill, checkpoint, zero-fill.

use pagelift_abi::{
    job as job_flags, PageJob, PagesArgs, Route, SegmentPair, TableHeader, CONTIGUOUS, UNIT_BYTES,
};
use pagelift_device::{copy_rows, read_at, zero_rows, Rows};

use crate::launch::{begin, finish, Tally};
use crate::side::Place;
use crate::unit::{chunks_of_layer, job_of, Share, Unit};

/// Carries out the page jobs of a table.
///
/// # Safety
///
/// 1. Addresses and tables are as `pagelift_abi` describes them, and do not change while the launch runs.
/// 2. No destination of a job overlaps another one, or any source.
/// 3. Launches with the same progress word run one after the other, each with blocks of whole warps.
#[inline(always)]
pub(crate) unsafe fn copy_pages(args: &PagesArgs) {
    // SAFETY: (1) is our 1 and 3.
    let Some(header) = (unsafe { begin(args.table, args.progress) }) else { return };
    let mut tally = Tally::default();

    let jobs = args.table + size_of::<TableHeader>() as u64;
    let mut at = 0;
    let mut share = Share::new();
    while let Some(unit) = share.next(header.units) {
        // SAFETY: (1) the table has `header.jobs` jobs, one at least, and `at` is one whose units begin at or before
        // `unit`. (2, 3) are our 1 and 2; all lanes of the warp are at this unit.
        unsafe {
            at = job_of(jobs, at, header.jobs, unit);
            let job: PageJob = read_at(jobs, u64::from(at));
            copy_unit(args, &header, &job, unit - job.units_before, &mut tally);
        }
    }

    // SAFETY: (1) is our 1 and 3; (2) all threads that began get here, once, and write nothing after.
    unsafe { finish(args.table, args.progress, &tally) };
}

/// Moves unit `unit` of `job`.
///
/// # Safety
///
/// 1. `job` is a job of the table whose header this is, and `unit` is one of its units.
/// 2. The conditions of [`copy_pages`].
/// 3. All lanes of the warp make this call.
#[inline(always)]
unsafe fn copy_unit(args: &PagesArgs, header: &TableHeader, job: &PageJob, unit: u32, tally: &mut Tally) {
    // SAFETY: by (1) and (2) the route exists.
    let route: Route = unsafe { read_at(args.routes, u64::from(job.route)) };
    // SAFETY: (1) is our 2.
    let chunks = unsafe { chunks_of_layer(args.segments, &route, job.rows) };
    if chunks == 0 || route.layers == 0 {
        return;
    }
    let unit = Unit::of(route.layers, chunks, unit);
    // SAFETY: (1) is ours.
    let blocks = unsafe { unit.blocks(args.table, header, job) };
    let zero = job.flags & job_flags::ZERO != 0;
    if blocks.destination >= route.destination.blocks || (!zero && blocks.source >= route.source.blocks) {
        // The planner lets no such block through. Counted by the first of the block's units.
        tally.bad += u32::from(unit.is_first());
        return;
    }

    // SAFETY: (1) is our 2, and the unit is one of this job's.
    let (pair, chunk) = unsafe { unit.pair(args.segments, &route, job.rows) };
    let layer = unit.layer;
    let piece = Piece::of(&pair, job.rows, chunk);
    // SAFETY: (1) is our 2; the block was asked for above, and `layer` is a remainder by the number of layers.
    let destination = unsafe {
        Place::of(&route.destination, blocks.destination, layer).address(args.bases, pair.destination_base)
    } + pair.destination_offset
        + u64::from(job.destination_row) * u64::from(pair.destination_stride)
        + piece.destination;
    let destination = Rows { address: destination, stride: pair.destination_stride };
    let width = u32::from(pair.width);
    if zero {
        // SAFETY: (1) as those of the copy below.
        return unsafe { zero_rows(destination, piece.rows, piece.row_bytes, width) };
    }
    // SAFETY: (1) as above.
    let source =
        unsafe { Place::of(&route.source, blocks.source, layer).address(args.bases, pair.source_base) }
            + pair.source_offset
            + u64::from(job.source_row) * u64::from(pair.source_stride)
            + piece.source;
    let source = Rows { address: source, stride: pair.source_stride };
    // SAFETY: (1) `width` is the pair's for every row on both sides, pieces of a contiguous pair begin at multiples of
    // `UNIT_BYTES`, and a unit has at most that many bytes. (2, 3) The piece's rows lie within rows of the job, which may be
    // read and written (2), by this warp alone, for each piece belongs to one unit. (4) All lanes are here (3).
    unsafe { copy_rows(source, destination, piece.rows, piece.row_bytes, width) }
}

/// What a unit moves: `rows` rows of `row_bytes` bytes.
struct Piece {
    /// Bytes from the job's first row to the first of these, on either side.
    source: u64,
    destination: u64,
    rows: u32,
    row_bytes: u32,
}

impl Piece {
    /// Chunk `chunk` of `rows` rows. Of rows without gaps it is one long row.
    #[inline(always)]
    fn of(pair: &SegmentPair, rows: u32, chunk: u32) -> Self {
        if pair.rows_log2 == CONTIGUOUS {
            let start = u64::from(chunk) * u64::from(UNIT_BYTES);
            let left = u64::from(rows) * u64::from(pair.row_bytes) - start;
            let row_bytes = left.min(u64::from(UNIT_BYTES)) as u32;
            Self { source: start, destination: start, rows: 1, row_bytes }
        } else {
            let row = chunk << pair.rows_log2;
            Self {
                source: u64::from(row) * u64::from(pair.source_stride),
                destination: u64::from(row) * u64::from(pair.destination_stride),
                rows: (rows - row).min(1 << pair.rows_log2),
                row_bytes: pair.row_bytes,
            }
        }
    }
}
