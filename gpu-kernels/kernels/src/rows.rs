//! Rows that only the device knows: the mirror of what a step wrote, and gathers by an index list.
//!
//! A unit is one row, `(entry of the slot mapping, layer, segment)`, segment running fastest. How many units a job has is
//! known only here, from the count of valid entries. Each warp takes one stretch of them, so that it judges an entry once
//! for many of its rows: judging costs more than a short row. A stretch is an even share, rounded up; where a job leaves
//! warps without one, the next job begins with those.
//!
//! Everything read from slot mapping, counts, starts and maps may be nonsense. It is compared before it is used, and
//! whatever fails is counted, once per entry, and leaves no trace elsewhere.

use core::ops::Range;

use pagelift_abi::{row_job, Route, RowJob, RowsArgs, SegmentPair, TableHeader, NONE};
use pagelift_device::{read, read_at, warp, warps, RowPipeline};

use crate::launch::{begin, finish, Tally};
use crate::quotient::quotient;
use crate::side::Place;

/// Carries out the row jobs of a table.
///
/// # Safety
///
/// 1. Addresses and tables are as `pagelift_abi` describes them, and do not change while the launch runs; what is in
///    the slot mappings, counts, starts and maps may be anything.
/// 2. No destination row overlaps a source row, nor another destination row. Where two entries name one slot, whose row is
///    then written twice with the same bytes, this runs on a GPU, or no two warps run at once.
/// 3. Launches with the same progress word run one after the other, each with blocks of whole warps, on a
///    GPU of at most [`pagelift_device::BLOCK_THREADS`] threads.
#[inline(always)]
pub(crate) unsafe fn copy_rows(args: &RowsArgs) {
    // SAFETY: (1) is our 1 and 3.
    let Some(header) = (unsafe { begin(args.table, args.progress) }) else { return };
    let mut pipeline = RowPipeline::new();
    let mut tally = Tally::default();

    let mut job = args.table + size_of::<TableHeader>() as u64;
    let mut turn = warp();
    for _ in 0..header.jobs {
        // SAFETY: (1) the table has that many jobs, each names a route, and their arrays are as long as they say.
        let (entries, route) = unsafe {
            let job: RowJob = read(job);
            (valid_entries(&job, &mut tally), read_at::<Route>(args.routes, u64::from(job.route)))
        };
        // A row job has fewer than 2³² units: its capacity is limited to that.
        let rows_of_entry = route.layers * route.segments;
        let units = entries * rows_of_entry;
        let share = units.div_ceil(warps()).max(1);
        let mut unit = turn.saturating_mul(share).min(units);
        let end = unit.saturating_add(share).min(units);
        let taken = units.div_ceil(share);
        turn = if turn < taken { turn + (warps() - taken) } else { turn - taken };

        let mut entry = unit.checked_div(rows_of_entry).unwrap_or(0);
        let mut first = unit - entry * rows_of_entry;
        while unit < end {
            let rows = first..rows_of_entry.min(first + (end - unit));
            unit += rows.end - rows.start;
            // SAFETY: (1, 2) the job is one of the table, `entry` is below `entries`, and no row is past the last one.
            // (3) is our 1 and 2; all lanes of the warp are at this entry.
            unsafe { copy_entry(args, job, entry, rows, &mut pipeline, &mut tally) };
            (entry, first) = (entry + 1, 0);
        }
        job += size_of::<RowJob>() as u64;
    }

    pipeline.finish();
    // SAFETY: (1) is our 1 and 3; (2) all threads that began get here, once, and write nothing after.
    unsafe { finish(args.table, args.progress, &tally) };
}

/// How many entries of the slot mapping count: never more than it has room for.
///
/// # Safety
///
/// 1. The addresses in `job` are 0 where that has a meaning, and else those of arrays as long as it says.
#[inline(always)]
unsafe fn valid_entries(job: &RowJob, tally: &mut Tally) -> u32 {
    let mut entries = job.capacity;
    if job.count != 0 {
        // SAFETY: (1) is ours.
        let count: i32 = unsafe { read(job.count) };
        entries = entries.min(clamped(count, job.capacity, tally));
    }
    if job.query_starts != 0 {
        // SAFETY: (1) is ours; there is one start more than requests.
        let end: i32 = unsafe { read_at(job.query_starts, u64::from(job.requests)) };
        entries = entries.min(clamped(end, job.capacity, tally));
    }
    entries
}

/// A count read on the device, forced into `0..=capacity`. One out of that range is one bad entry of the launch: warp 0
/// counts it for all.
#[inline(always)]
fn clamped(count: i32, capacity: u32, tally: &mut Tally) -> u32 {
    let within = i64::from(count).clamp(0, i64::from(capacity));
    tally.bad += u32::from(within != i64::from(count) && warp() == 0);
    within as u32
}

/// Judges an entry of the job at `job`, and copies those of its rows, if they are to be copied. Row `n` of an entry is
/// that of layer `n / segments` and segment `n % segments`.
///
/// # Safety
///
/// 1. A row job lies at `job`, and `entry` is below the capacity of its slot mapping, and of its last query's end where
///    there are queries.
/// 2. `rows` are below the layers times the segments of its route, of which it has some.
/// 3. The conditions of [`copy_rows`], and all lanes of the warp make this call.
#[inline(always)]
unsafe fn copy_entry(
    args: &RowsArgs,
    job: u64,
    entry: u32,
    rows: Range<u32>,
    pipeline: &mut RowPipeline,
    tally: &mut Tally,
) {
    // Job and route are read again for each entry: they are in the cache, and held in registers they would halve the
    // number of warps that fit.
    //
    // SAFETY: (1) is ours, and by (3) the route exists. (1) of `judge` is our 1, (2) our 3.
    let (route, verdict) = unsafe {
        let job: RowJob = read(job);
        let route: Route = read_at(args.routes, u64::from(job.route));
        (route, judge(args.maps, &job, &route, entry))
    };
    if rows.start == 0 {
        match verdict {
            Verdict::Copy(_) => tally.rows += 1,
            Verdict::Skip => tally.skipped += 1,
            Verdict::Bad => tally.bad += 1,
            Verdict::Incomplete => {}
        }
    }
    let Verdict::Copy(found) = verdict else { return };

    let Some(layer) = quotient(rows.start, route.segments) else { return };
    let (mut source, mut destination) =
        (Place::of(&route.source, found.page, layer), Place::of(&route.destination, found.block, layer));
    let mut segment = rows.start - layer * route.segments;
    for _ in rows {
        // SAFETY: (1 of `read_at` and `address`) by (2) the route has this segment and this layer, and the verdict's page and
        // block are among those of its sides. (1 of `copy`) The width is the pair's for every row on both sides. (2, 3) Both
        // rows lie within their blocks, which may be read and written (3); another unit has this destination only if it has
        // this source too, and runs at the same time only on a GPU. (4) All lanes are here (3), and `copy_rows` finishes the
        // pipeline. (5) Blocks are no larger (3).
        unsafe {
            let pair: SegmentPair =
                read_at(args.segments, u64::from(route.first_segment) + u64::from(segment));
            pipeline.copy(
                source.address(args.bases, pair.source_base)
                    + pair.source_offset
                    + u64::from(found.page_row) * u64::from(pair.source_stride),
                destination.address(args.bases, pair.destination_base)
                    + pair.destination_offset
                    + u64::from(found.block_row) * u64::from(pair.destination_stride),
                pair.row_bytes,
                u32::from(pair.width),
            );
        }
        segment += 1;
        if segment == route.segments {
            segment = 0;
            source.next_layer();
            destination.next_layer();
        }
    }
}

/// What is to become of an entry.
enum Verdict {
    Copy(Found),
    /// Rightly skipped: padding, no page, not mapped, or not accepted.
    Skip,
    /// Makes no sense.
    Bad,
    /// A token whose row is not complete yet. It is mirrored with the token that completes it, and counted then.
    Incomplete,
}

/// Where an entry's rows lie: row `page_row` of a page, and row `block_row` of a block.
struct Found {
    page: u32,
    page_row: u32,
    block: u32,
    block_row: u32,
}

/// Judges an entry. The first of the conditions that it fails decides: padding, acceptance, null page, page, the job's
/// numbers, map, destination, completeness.
///
/// # Safety
///
/// 1. `entry` is below the capacity of `job`'s slot mapping.
/// 2. At `maps` lie the page maps, with an entry for every `map_rows` rows of each page of the group.
#[inline(always)]
unsafe fn judge(maps: u64, job: &RowJob, route: &Route, entry: u32) -> Verdict {
    // SAFETY: (1) is ours; the mapping has entries of that width.
    let slot: i64 = unsafe {
        if job.slot_bytes == 8 {
            read_at(job.slots, u64::from(entry))
        } else {
            i64::from(read_at::<i32>(job.slots, u64::from(entry)))
        }
    };
    if slot < 0 {
        return Verdict::Skip;
    }
    if job.accepted != 0 {
        // SAFETY: (1) the job's arrays are as long as it says.
        match unsafe { accepted(job, entry) } {
            Some(true) => {}
            Some(false) => return Verdict::Skip,
            None => return Verdict::Bad,
        }
    }
    // Slots are numbered in 32 bits: 64-bit divisions are subroutines on a GPU. Larger pools are refused when they are
    // bound.
    let Ok(slot) = u32::try_from(slot) else { return Verdict::Bad };
    let Some(page) = quotient(slot, job.page_slots) else { return Verdict::Bad };
    let slot = slot - page * job.page_slots;
    if i64::from(page) == i64::from(job.null_page) {
        return Verdict::Skip;
    }
    if page >= route.source.blocks {
        return Verdict::Bad;
    }
    let Some(page_rows) = times(job.tokens_per_row, job.page_slots) else { return Verdict::Bad };
    let page_row = quotient(slot, job.tokens_per_row).unwrap_or(0);

    let (block, block_row) = if job.flags & row_job::COMPACT == 0 {
        let (Some(of_page), Some(of_block)) =
            (times(job.map_rows, page_rows), times(job.map_rows, job.block_rows))
        else {
            return Verdict::Bad;
        };
        let within = quotient(page_row, job.map_rows).unwrap_or(0);
        // SAFETY: `page` is one of the group's, and `within` one of its `of_page` entries (2).
        let mapped: i32 = unsafe { read_at(maps, u64::from(job.map) + u64::from(page * of_page + within)) };
        if mapped == NONE {
            return Verdict::Skip;
        }
        // Where a block has several entries, a negative one could name a block if it were not asked for here.
        let Ok(mapped) = u32::try_from(mapped) else { return Verdict::Bad };
        let block = quotient(mapped, of_block).unwrap_or(0);
        (block, (mapped - block * of_block) * job.map_rows + (page_row - within * job.map_rows))
    } else if entry < job.block_rows {
        (0, entry)
    } else {
        return Verdict::Bad;
    };
    if block >= route.destination.blocks {
        return Verdict::Bad;
    }
    if slot - page_row * job.tokens_per_row + 1 != job.tokens_per_row {
        return Verdict::Incomplete;
    }
    Verdict::Copy(Found { page, page_row, block, block_row })
}

/// How many times `part` makes up `whole`; `None` where it does not, or is 0.
#[inline(always)]
fn times(part: u32, whole: u32) -> Option<u32> {
    let times = quotient(whole, part)?;
    (times != 0 && times * part == whole).then_some(times)
}

/// Whether the token of `entry` is among the accepted ones of its request; `None` where starts or counts make no sense.
///
/// # Safety
///
/// 1. `job.query_starts` and `job.accepted` are addresses of arrays as long as the job says.
#[inline(always)]
unsafe fn accepted(job: &RowJob, entry: u32) -> Option<bool> {
    if job.query_starts == 0 || job.requests == 0 {
        return None;
    }
    // SAFETY: (1) is ours, for requests up to and including the last start.
    let start_of = |request: u32| i64::from(unsafe { read_at::<i32>(job.query_starts, u64::from(request)) });
    let token = i64::from(entry);
    let (mut low, mut high) = (0, job.requests);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if start_of(middle) <= token {
            low = middle;
        } else {
            high = middle;
        }
    }
    // Where the starts do not ascend, the search ended just anywhere.
    let (start, end) = (start_of(low), start_of(low + 1));
    if token < start || token >= end {
        return None;
    }
    // SAFETY: (1) is ours; `low` is one of the requests.
    let accepted = i64::from(unsafe { read_at::<i32>(job.accepted, u64::from(low)) });
    // A request cannot have accepted more tokens than it had.
    (0..=end - start).contains(&accepted).then(|| token - start < accepted)
}
