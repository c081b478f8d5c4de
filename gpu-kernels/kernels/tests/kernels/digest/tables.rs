//! What else a table says: tickets that repeat, another version, entries that are wrong.

use pagelift_abi::{flags, job, status, BlockPair, Completion, PageJob, SegmentPair, CONTIGUOUS};

use super::reference::reference;
use super::{args, described, digests, small, table, whole};
use crate::faults::{mla, route};
use crate::launch::PLAIN;
use crate::layout::World;
use crate::table::Table;

#[test]
fn a_ticket_adds_once_and_a_repeated_one_again() {
    for (repeat, times) in [(false, 1), (true, 3)] {
        let (mut world, once) = small();
        let extract = whole(&[2, 1], 3);
        let mut table = table(&world, &[extract]);
        table.set(|header| header.flags = u32::from(repeat) * flags::REPEAT);
        // What stands there is added to: to set it to 0 is the host's affair.
        let mut sums = [5];
        for _ in 0..3 {
            PLAIN.digest(args(&mut world, &mut table, &mut sums));
        }
        assert_eq!(sums, [once.wrapping_mul(times).wrapping_add(5)]);
        assert_eq!(table.answer().ticket, 1);
    }
}

#[test]
fn another_version_adds_nothing_and_says_so() {
    let (mut world, _) = small();
    let mut table = table(&world, &[whole(&[2, 1], 3)]);
    table.set(|header| header.version += 1);
    let mut sums = [0];
    PLAIN.digest(args(&mut world, &mut table, &mut sums));
    assert_eq!(sums, [0]);
    let answer = Completion { ticket: 1, status: status::WRONG_VERSION, ..Completion::default() };
    assert_eq!(table.answer(), answer);
}

/// A block past the end is counted once and left out, and so is a pair that has no place in a digest.
#[test]
fn bad_entries_are_counted_and_left_out() {
    let run = |world: &mut World, blocks: &[u32]| {
        let mut table = table(world, &[whole(blocks, 3)]);
        let mut sums = [0];
        PLAIN.digest(args(world, &mut table, &mut sums));
        (sums[0], table.answer().bad)
    };
    let (mut world, good) = small();
    assert_eq!(run(&mut world, &[2, 1]), (good, 0));
    assert_eq!(run(&mut world, &[2, 1, 4, u32::MAX]), (good, 2));
    // A pair that begins within a word, or that is split by bytes: the other one's digest is all there is.
    let alone = |world: &World| {
        let mut alone =
            World { pairs: world.pairs.clone(), ..World::new(&[route(&[(2, 9), (0, 7)], [4, 1], 5)], 31) };
        alone.routes[0].segments = 1;
        reference(&alone, &whole(&[2, 1], 3))
    };
    let pair = world.pairs[1];
    for broken in
        [SegmentPair { destination_offset: 6, ..pair }, SegmentPair { rows_log2: CONTIGUOUS, ..pair }]
    {
        world.pairs[1] = broken;
        let want = alone(&world);
        assert_eq!(run(&mut world, &[2, 1]), (want, 2));
    }
}

/// No flag of a job but `LIST` means anything to a digest: it never takes rows for zeros.
#[test]
fn a_digest_reads_what_a_zeroing_job_would_not() {
    let (mut world, want) = small();
    let jobs =
        PageJob { source: 0, destination: 2, rows: 3, flags: job::LIST | job::ZERO, ..PageJob::default() };
    let list = [2, 1].map(|source| BlockPair { source, destination: u32::MAX });
    let mut units = 0;
    table(&world, &[whole(&[2, 1], 3)]).set(|header| units = header.units);
    let mut table = Table::new(&[jobs], units, &list, &[]);
    let mut sums = [0];
    PLAIN.digest(args(&mut world, &mut table, &mut sums));
    assert_eq!(sums, [want]);
}

#[test]
#[should_panic(expected = "a load of width 16 is misaligned")]
fn a_width_that_the_source_does_not_have_fails() {
    let mut world = described(&[mla(2, 1, 4)], 35);
    world.pairs[0].source_offset += 8;
    digests(&mut world, &[whole(&[0], 2)], PLAIN);
}
