//! Whole rows of blocks: lift, gather, spill, checkpoint, zero-fill.

use pagelift_abi::{
    job as job_flags, PageJob, PagesArgs, Route, SegmentPair, TableHeader, CONTIGUOUS, UNIT_BYTES,
};
use pagelift_device::{read_at, warp, warps, Mover};

use crate::launch::{begin, finish, Tally};
use crate::side::Place;
use crate::unit::{chunks_of_layer, job_of, Unit};

/// Carries out the page jobs of a table.
///
/// # Safety
///
/// 1. Addresses and tables are as `pagelift_abi` describes them, and do not change while the launch runs.
/// 2. No destination of a job overlaps another one, or any source.
/// 3. Launches with the same progress word run one after the other, each with blocks of whole warps.
/// 4. The launch has the shared memory that `M` asks for.
#[inline(always)]
pub(crate) unsafe fn copy_pages<M: Mover>(args: &PagesArgs) {
    // SAFETY: (1) is our 1 and 3.
    let Some(header) = (unsafe { begin(args.table, args.progress) }) else { return };
    // SAFETY: (1) all warps of the launch decide alike, and get here once; (2) is our 4.
    let mut mover = unsafe { M::new() };
    let mut tally = Tally::default();

    let jobs = args.table + size_of::<TableHeader>() as u64;
    let units = if header.jobs == 0 { 0 } else { header.units };
    let mut at = 0;
    let mut unit = warp();
    while unit < units {
        // SAFETY: (1) the table has `header.jobs` jobs, one at least, and `at` is one whose units begin at or before
        // `unit`. (2, 3) are our 1 and 2; all lanes of the warp are at this unit.
        unsafe {
            at = job_of(jobs, at, header.jobs, unit);
            let job: PageJob = read_at(jobs, u64::from(at));
            copy_unit(args, &header, &job, unit - job.units_before, &mut mover, &mut tally);
        }
        let Some(next) = unit.checked_add(warps()) else { break };
        unit = next;
    }

    // SAFETY: (1) all lanes of the warp left the loop, and end here.
    unsafe { mover.finish() };
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
unsafe fn copy_unit<M: Mover>(
    args: &PagesArgs,
    header: &TableHeader,
    job: &PageJob,
    unit: u32,
    mover: &mut M,
    tally: &mut Tally,
) {
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
    // SAFETY: (1) is our 2, and `layer` is a remainder by the number of layers.
    let mut destination = unsafe {
        Place::of(&route.destination, blocks.destination).address(args.bases, layer, pair.destination_base)
    } + pair.destination_offset
        + u64::from(job.destination_row) * u64::from(pair.destination_stride)
        + piece.destination;
    let mut source = 0;
    if !zero {
        // SAFETY: as above.
        source =
            unsafe { Place::of(&route.source, blocks.source).address(args.bases, layer, pair.source_base) }
                + pair.source_offset
                + u64::from(job.source_row) * u64::from(pair.source_stride)
                + piece.source;
    }
    let width = u32::from(pair.width);
    for _ in 0..piece.runs {
        // SAFETY: (1) `width` is the pair's for every row on both sides, and pieces of a contiguous pair begin at
        // multiples of `UNIT_BYTES`. The runs lie within rows of the job, which may be read and written (2), by this
        // warp alone, for each chunk of a run belongs to one unit. All lanes are here (3).
        unsafe {
            if zero {
                mover.zero(destination, piece.bytes, width);
            } else {
                mover.copy(source, destination, piece.bytes, width);
            }
        }
        source += u64::from(pair.source_stride);
        destination += u64::from(pair.destination_stride);
    }
}

/// What a unit moves: `runs` runs of `bytes` bytes, the first of them so many bytes after the job's first row.
struct Piece {
    source: u64,
    destination: u64,
    runs: u32,
    bytes: u32,
}

impl Piece {
    /// Chunk `chunk` of `rows` rows.
    #[inline(always)]
    fn of(pair: &SegmentPair, rows: u32, chunk: u32) -> Self {
        if pair.rows_log2 == CONTIGUOUS {
            let start = u64::from(chunk) * u64::from(UNIT_BYTES);
            let left = u64::from(rows) * u64::from(pair.row_bytes) - start;
            Self { source: start, destination: start, runs: 1, bytes: left.min(u64::from(UNIT_BYTES)) as u32 }
        } else {
            let row = chunk << pair.rows_log2;
            Self {
                source: u64::from(row) * u64::from(pair.source_stride),
                destination: u64::from(row) * u64::from(pair.destination_stride),
                runs: (rows - row).min(1 << pair.rows_log2),
                bytes: pair.row_bytes,
            }
        }
    }
}
