//! The rows that a step wrote: the mirror of a group, driven by what lies on the device.
//!
//! A unit is one row, `(entry of the slot mapping, layer, segment)`, segment running fastest. How many units a job has is
//! known only here, from the count of valid entries; each warp reads the counts of all jobs as it comes to them, and
//! carries its place over from one job to the next.
//!
//! Everything read from slot mapping, counts, starts and maps may be nonsense. It is compared before it is used, and
//! whatever fails is counted, once per entry, and leaves no trace elsewhere.

use pagelift_abi::{Route, RowJob, RowsArgs, SegmentPair, Side, TableHeader, NONE};
use pagelift_device::{read, read_at, warp, warps, Mover};

use crate::launch::{begin, finish, Tally};
use crate::side::block_address;

/// Carries out the row jobs of a table.
///
/// # Safety
///
/// 1. Addresses and tables are as `pagelift_abi` describes them, and do not change while the launch runs; what is in
///    the slot mappings, counts, starts and maps may be anything.
/// 2. Rows of different entries do not overlap at their destinations, nor any source.
/// 3. Launches with the same progress word run one after the other, each with blocks of whole warps.
/// 4. The launch has the shared memory that `M` asks for.
#[inline(always)]
pub(crate) unsafe fn copy_rows<M: Mover>(args: &RowsArgs) {
    // SAFETY: (1) is our 1 and 3.
    let Some(header) = (unsafe { begin(args.table, args.progress) }) else { return };
    // SAFETY: (1) all warps of the launch decide alike, and get here once; (2) is our 4.
    let mut mover = unsafe { M::new() };
    let mut tally = Tally::default();

    let jobs = args.table + size_of::<TableHeader>() as u64;
    let mut unit = u64::from(warp());
    for at in 0..header.jobs {
        let job = jobs + u64::from(at) * size_of::<RowJob>() as u64;
        // SAFETY: the table has that many jobs (1), each names a route, and (1) of `valid_entries` is that.
        let (entries, Route { layers, segments, .. }) = unsafe {
            let job: RowJob = read(job);
            (valid_entries(&job, &mut tally), read_at(args.routes, u64::from(job.route)))
        };
        if layers == 0 || segments == 0 {
            continue;
        }
        let units = u64::from(entries) * u64::from(layers) * u64::from(segments);
        while unit < units {
            // A row job has fewer than 2³² units: its capacity is limited to that.
            let (run, segment) = (unit as u32 / segments, unit as u32 % segments);
            let row = Row { entry: run / layers, layer: run % layers, segment };
            // SAFETY: (1, 2) the job is one of the table, and the parts of `row` are remainders, or below `entries`.
            // (3) is our 1 and 2; all lanes of the warp are at this unit.
            unsafe { copy_row(args, job, row, &mut mover, &mut tally) };
            unit += u64::from(warps());
        }
        unit -= units;
    }

    // SAFETY: (1) all lanes of the warp left the loop, and end here.
    unsafe { mover.finish() };
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

/// A unit: what one layer and segment keep for one entry of the slot mapping.
struct Row {
    entry: u32,
    layer: u32,
    segment: u32,
}

/// Copies the row of one unit of the job at `job`, if it is to be copied.
///
/// Job and route are read again for each unit. They are in the cache, and held in registers they would halve the
/// number of warps that fit.
///
/// # Safety
///
/// 1. A row job lies at `job`, and `row.entry` is below the capacity of its slot mapping, and of its last query's end
///    where there are queries.
/// 2. `row.layer` and `row.segment` are such of the job's route.
/// 3. The conditions of [`copy_rows`], and all lanes of the warp make this call.
#[inline(always)]
unsafe fn copy_row<M: Mover>(args: &RowsArgs, job: u64, row: Row, mover: &mut M, tally: &mut Tally) {
    // SAFETY: (1) is ours, and by (3) the route exists. (1) of `judge` is our 1, (2) our 3.
    let (route, verdict) = unsafe {
        let job: RowJob = read(job);
        let route: Route = read_at(args.routes, u64::from(job.route));
        (route, judge(args.maps, &job, &route, row.entry))
    };
    if row.layer == 0 && row.segment == 0 {
        match verdict {
            Verdict::Copy(_) => tally.rows += 1,
            Verdict::Skip => tally.skipped += 1,
            Verdict::Bad => tally.bad += 1,
            Verdict::Incomplete => {}
        }
    }
    let Verdict::Copy(place) = verdict else { return };

    // SAFETY: (1) by (2) the route has this segment, and this layer; (2) a judged page and block are below their sides'
    // numbers. (3) The width is the pair's for every row on both sides, both rows lie within their blocks, no other
    // unit has this destination, and all lanes are here.
    unsafe {
        let pair: SegmentPair =
            read_at(args.segments, u64::from(route.first_segment) + u64::from(row.segment));
        let at = |side: &Side, block, offset: u64, stride: u32| {
            block_address(args.bases, side, row.layer, block)
                + offset
                + u64::from(place.row) * u64::from(stride)
        };
        mover.copy(
            at(&route.source, place.page, pair.source_offset, pair.source_stride),
            at(&route.destination, place.block, pair.destination_offset, pair.destination_stride),
            pair.row_bytes,
            u32::from(pair.width),
        );
    }
}

/// What is to become of an entry.
enum Verdict {
    Copy(Place),
    /// Rightly skipped: padding, no page, not mapped, or not accepted.
    Skip,
    /// Makes no sense.
    Bad,
    /// A token whose row is not complete yet. It is mirrored with the token that completes it, and counted then.
    Incomplete,
}

/// Where an entry's rows lie: the same row of a page and of its block.
struct Place {
    page: u32,
    block: u32,
    row: u32,
}

/// Judges an entry. The first of the conditions that it fails decides: padding, acceptance, null page, page, map,
/// completeness.
///
/// # Safety
///
/// 1. `entry` is below the capacity of `job`'s slot mapping.
/// 2. At `maps` lie the page maps, with an entry for each page of the group.
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
    let Some(page) = slot.checked_div(job.page_slots) else { return Verdict::Bad };
    let slot = slot - page * job.page_slots;
    let Some(row) = slot.checked_div(job.tokens_per_row) else { return Verdict::Bad };
    if i64::from(page) == i64::from(job.null_page) {
        return Verdict::Skip;
    }
    if page >= route.source.blocks {
        return Verdict::Bad;
    }
    // SAFETY: `page` is one of the group's (2).
    let block: i32 = unsafe { read_at(maps, u64::from(job.map) + u64::from(page)) };
    if block == NONE {
        return Verdict::Skip;
    }
    // A negative block becomes larger than any number of blocks.
    let block = block as u32;
    if block >= route.destination.blocks {
        return Verdict::Bad;
    }
    if slot - row * job.tokens_per_row + 1 != job.tokens_per_row {
        return Verdict::Incomplete;
    }
    Verdict::Copy(Place { page, block, row })
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
