//! Digests of rows: one number by which both ends of a copy, or of a transfer, can tell that they hold the same.
//!
//! A job's digest is the sum, modulo 2⁶⁴, of one term for each 4-byte word of its rows, where
//! `nth(origin, n) = mix(origin + n · γ)` is number `n` of the sequence that splitmix64 generates from `origin`:
//!
//! ```text
//! run  = nth(SEED, layer · 2³² + segment)
//! row  = nth(run, logical row)
//! term = nth(row, index · 2³² + word)
//! ```
//!
//! `layer`, `segment`, `logical row` and `index` say where the word belongs, in terms that both ends agree on: nothing
//! of the memory's layout, the access width or the launch is in them. Bytes are counted from the lowest, and a row's
//! last word is filled up with zeros.
//!
//! # What it detects
//!
//! A sum, because its terms may be added in any order, by any number of warps. It does not forget which word stood
//! where, as a sum of words would: `mix` is a bijection and γ is odd, so that `nth` is a bijection of `n`, and
//!
//! - a single word that changes always changes the digest: of one row, two words or two places never have equal terms;
//! - where several change, as they do when words, rows, segments, layers or blocks are swapped, the differences of their
//!   terms would have to cancel. There is no linear relation by which they do, for each term goes through `mix` after
//!   all of its place has gone into `row` by `mix`; by chance it happens once in 2⁶⁴ times.
//!
//! It is no cryptographic hash: who wants to make two contents with one digest can.

use pagelift_abi::{DigestArgs, PageJob, Route, TableHeader, CONTIGUOUS};
use pagelift_device::{add_u64, each_word, read_at};

use crate::launch::{begin, finish, Tally};
use crate::side::Place;
use crate::unit::{chunks_of_layer, job_of, Share, Unit};

/// Where the sequences of all digests begin.
const SEED: u64 = u64::from_be_bytes(*b"pagelift");

/// The step of splitmix64: odd, and without a pattern in its bits.
const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// Number `n` of the sequence that begins at `origin`.
#[inline(always)]
fn nth(origin: u64, n: u64) -> u64 {
    mix(origin.wrapping_add(n.wrapping_mul(GAMMA)))
}

/// The finaliser of splitmix64: a bijection in which each bit of the input flips each one of the output half the time.
#[inline(always)]
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

/// Two numbers as one.
#[inline(always)]
fn joined(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// Adds the digest of each page job of a table to its sum.
///
/// # Safety
///
/// 1. Addresses and tables are as `pagelift_abi` describes them, and do not change while the launch runs.
/// 2. Nobody writes the rows of the jobs while the launch runs, and only this launch touches their sums.
/// 3. Launches with the same progress word run one after the other, each with blocks of whole warps.
#[inline(always)]
pub(crate) unsafe fn digest(args: &DigestArgs) {
    // SAFETY: (1) is our 1 and 3.
    let Some(header) = (unsafe { begin(args.table, args.progress) }) else { return };
    let mut tally = Tally::default();

    let jobs = args.table + size_of::<TableHeader>() as u64;
    // The calling lane's part of the digest of job `at`: added when the job changes, and not with each unit.
    let (mut at, mut sum) = (0, 0);
    let mut share = Share::new();
    while let Some(unit) = share.next(header.units) {
        // SAFETY: (1) the table has `header.jobs` jobs, one at least, and `at` is one whose units begin at or before
        // `unit`. (2, 3) are our 1 and 2. The job before has a sum (1).
        unsafe {
            let found = job_of(jobs, at, header.jobs, unit);
            if found != at {
                add_part(args.digests, at, sum);
                (at, sum) = (found, 0);
            }
            let job: PageJob = read_at(jobs, u64::from(at));
            digest_unit(args, &header, &job, unit - job.units_before, &mut sum, &mut tally);
        }
    }
    // SAFETY: (1) the job has a sum, or there was none and nothing is added.
    unsafe { add_part(args.digests, at, sum) };
    // SAFETY: (1) is our 1 and 3; (2) all threads that began get here, once, and write nothing after. The sums are
    // complete with the ticket, as any write of a lane is.
    unsafe { finish(args.table, args.progress, &tally) };
}

/// Adds a part to the digest of a job.
///
/// # Safety
///
/// 1. At `digests` lies a sum for `job`, or `part` is 0; it is only touched by this launch.
#[inline(always)]
unsafe fn add_part(digests: u64, job: u32, part: u64) {
    if part != 0 {
        // SAFETY: (1) is ours.
        unsafe { add_u64(digests + u64::from(job) * 8, part) };
    }
}

/// Adds the calling lane's terms of unit `unit` of `job` to `sum`.
///
/// # Safety
///
/// 1. `job` is a job of the table whose header this is, and `unit` is one of its units.
/// 2. The conditions of [`digest`].
/// 3. All lanes of the warp make this call.
#[inline(always)]
unsafe fn digest_unit(
    args: &DigestArgs,
    header: &TableHeader,
    job: &PageJob,
    unit: u32,
    sum: &mut u64,
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
    if blocks.source >= route.source.blocks {
        // The planner lets no such block through. Counted by the first of the block's units.
        tally.bad += u32::from(unit.is_first());
        return;
    }
    // SAFETY: (1) is our 2, and the unit is one of this job's.
    let (pair, chunk) = unsafe { unit.pair(args.segments, &route, job.rows) };
    if pair.rows_log2 == CONTIGUOUS || pair.destination_offset % 4 != 0 {
        // Such a run would have another digest in another layout. Counted once for each block.
        tally.bad += u32::from(unit.layer == 0 && chunk == 0);
        return;
    }

    let first = chunk << pair.rows_log2;
    let rows = (job.rows - first).min(1 << pair.rows_log2);
    // SAFETY: (1) is our 2, and the block and the layer are among the route's.
    let mut source =
        unsafe { Place::of(&route.source, blocks.source, unit.layer).address(args.bases, pair.source_base) }
            + pair.source_offset
            + (u64::from(job.source_row) + u64::from(first)) * u64::from(pair.source_stride);
    let row = u64::from(job.destination_row) + u64::from(unit.entry) * u64::from(job.rows) + u64::from(first);
    let run = nth(SEED, joined(unit.layer, pair.destination_base));
    let before = (pair.destination_offset / 4) as u32;
    for n in 0..rows {
        let origin = nth(run, row + u64::from(n));
        // SAFETY: (1) `width` is the pair's for every row of the source, and (2) the row is one of the job's, which may
        // be read and nobody writes (2).
        unsafe {
            each_word(source, pair.row_bytes, u32::from(pair.width), |index, word| {
                *sum = sum.wrapping_add(nth(origin, joined(before.wrapping_add(index), word)));
            });
        }
        source += u64::from(pair.source_stride);
    }
}
