//! Digests against a naive reference, and against everything that they must tell apart.

use std::collections::HashSet;

use pagelift_abi::{flags, job, status, BlockPair, Completion, DigestArgs, PageJob, SegmentPair, CONTIGUOUS};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::faults::{mla, route};
use crate::launch::{any_launch, Launch, ENGINE, PLAIN};
use crate::layout::{any_route, RouteShape, World};
use crate::memory::{address, assert_same};
use crate::table::Table;

/// Rows of blocks of one route, in logical order.
#[derive(Clone, Debug)]
struct Extract {
    route: usize,
    blocks: Vec<u32>,
    source_row: u32,
    /// Logical number of the first row.
    first: u32,
    rows: u32,
    list: bool,
}

/// Number `index` of splitmix64 as it is published, begun at `origin`.
fn splitmix64(origin: u64, index: u64) -> u64 {
    const M: u128 = 1 << 64;
    let state = (u128::from(origin) + u128::from(index) * 0x9e37_79b9_7f4a_7c15 % M) % M;
    let z = (state ^ (state >> 30)) * 0xbf58_476d_1ce4_e5b9 % M;
    let z = (z ^ (z >> 27)) * 0x94d0_49bb_1331_11eb % M;
    (z ^ (z >> 31)) as u64
}

/// Terms of the bytes of a row from `offset` on.
fn terms(layer: u32, segment: u32, row: u64, offset: u64, bytes: &[u8]) -> u64 {
    let origin = splitmix64(0x7061_6765_6c69_6674, u64::from(layer) * (1 << 32) + u64::from(segment));
    let origin = splitmix64(origin, row);
    let words =
        bytes.chunks(4).map(|word| word.iter().rev().fold(0, |word, &byte| word * 256 + u64::from(byte)));
    let terms = (offset / 4..).zip(words).map(|(index, word)| splitmix64(origin, index * (1 << 32) + word));
    terms.fold(0, u64::wrapping_add)
}

/// The digest that an extract must have.
fn reference(world: &World, extract: &Extract) -> u64 {
    let (route, [from, _]) = (&world.routes[extract.route], &world.placed[extract.route]);
    let mut sum = 0u64;
    for layer in 0..route.layers {
        for n in 0..route.segments as usize {
            let pair = &world.pairs[route.first_segment as usize + n];
            for (entry, &block) in (0..).zip(&extract.blocks) {
                for row in 0..extract.rows {
                    let bytes = &world.source.bytes()[from.row(layer, block, n, extract.source_row + row)];
                    let logical = u64::from(extract.first) + entry * u64::from(extract.rows) + u64::from(row);
                    let offset = pair.destination_offset;
                    sum = sum.wrapping_add(terms(layer, pair.destination_base, logical, offset, bytes));
                }
            }
        }
    }
    sum
}

/// Describes the source side of each route for digests: pair `n` is segment `n`, and its accesses are as wide as the
/// source alone allows, halved so many times.
fn describe(world: &mut World, narrower: u32) {
    for route in &world.routes {
        let side = &route.source;
        let bases = &world.bases[side.bases as usize..][..(route.layers * side.layer_bases) as usize];
        let common = bases.iter().fold(side.block_stride, |all, base| all | base);
        let pairs = &mut world.pairs[route.first_segment as usize..][..route.segments as usize];
        for (n, pair) in (0..).zip(pairs) {
            let all = common | pair.source_offset | u64::from(pair.source_stride) | u64::from(pair.row_bytes);
            let widest = all.trailing_zeros().min(4);
            pair.width = 1 << (widest - narrower.min(widest));
            pair.rows_log2 = if pair.rows_log2 == CONTIGUOUS { n as u16 % 3 } else { pair.rows_log2 };
            // What the destination's layout was means nothing any more.
            (pair.destination_base, pair.destination_offset, pair.destination_stride) = (n, 0, u32::MAX);
        }
    }
}

fn table(world: &World, extracts: &[Extract]) -> Table {
    let (mut jobs, mut list, mut total) = (Vec::new(), Vec::new(), 0);
    for extract in extracts {
        let route = &world.routes[extract.route];
        // Nobody reads a destination.
        let (mut source, mut destination) = (extract.blocks.first().copied().unwrap_or(0), u32::MAX);
        if extract.list {
            (source, destination) = (list.len() as u32, extract.blocks.len() as u32);
            list.extend(extract.blocks.iter().map(|&source| BlockPair { source, destination: u32::MAX }));
        }
        jobs.push(PageJob {
            route: extract.route as u32,
            units_before: total,
            source,
            destination,
            source_row: extract.source_row,
            destination_row: extract.first,
            rows: extract.rows,
            flags: u32::from(extract.list) * job::LIST,
        });
        let pairs = &world.pairs[route.first_segment as usize..][..route.segments as usize];
        let of_layer: u64 = pairs.iter().map(|pair: &SegmentPair| pair.chunks(extract.rows)).sum();
        total += (of_layer * u64::from(route.layers) * extract.blocks.len() as u64) as u32;
    }
    Table::new(&jobs, total, &list, &[])
}

fn args(world: &mut World, table: &mut Table, digests: &mut [u64]) -> DigestArgs {
    let [routes, segments, bases] = world.geometry();
    let (table, progress) = (table.address(), table.progress_address());
    DigestArgs { table, routes, segments, bases, progress, digests: address(digests) }
}

/// What stands behind the sums, and must stay there.
const GUARD: u64 = 0xFEED_FACE_CAFE_BEEF;

/// The digests of some extracts. Neither the rows nor anything behind the sums changes.
fn digests(world: &mut World, extracts: &[Extract], launch: Launch) -> Vec<u64> {
    let memory = [world.source.clone(), world.destination.clone()];
    let mut table = table(world, extracts);
    let mut sums = vec![0; extracts.len()];
    sums.push(GUARD);
    launch.digest(args(world, &mut table, &mut sums));
    let done = Completion { ticket: 1, status: status::DONE, ..Completion::default() };
    assert_eq!(table.answer(), done);
    assert_eq!(sums.pop(), Some(GUARD));
    assert_same(world.source.bytes(), memory[0].bytes());
    assert_same(world.destination.bytes(), memory[1].bytes());
    sums
}

/// The digest of the first rows of some blocks of route 0, logical rows from 0.
fn digest(world: &mut World, blocks: &[u32], rows: u32) -> u64 {
    digests(world, &[whole(blocks, rows)], ENGINE)[0]
}

fn whole(blocks: &[u32], rows: u32) -> Extract {
    Extract { route: 0, blocks: blocks.to_vec(), source_row: 0, first: 0, rows, list: true }
}

fn described(shapes: &[RouteShape], seed: u64) -> World {
    let mut world = World::new(shapes, seed);
    describe(&mut world, 0);
    world
}

/// Writes `content(layer, segment, row)` as logical row `row` of blocks of `rows` rows.
fn fill(world: &mut World, blocks: &[u32], rows: u32, content: impl Fn(u32, u32, u32, usize) -> Vec<u8>) {
    let [from, _] = &world.placed[0];
    for layer in 0..world.routes[0].layers {
        for segment in 0..world.routes[0].segments {
            for (entry, &block) in (0..).zip(blocks) {
                for row in 0..rows {
                    let range = from.row(layer, block, segment as usize, row);
                    let bytes = content(layer, segment, entry * rows + row, range.len());
                    world.source.bytes_mut()[range].copy_from_slice(&bytes);
                }
            }
        }
    }
}

/// An extract before it is known what it fits on.
type Draft = (Index, Vec<Index>, [Index; 2], u32, bool);

fn fit(world: &World, drafts: &[Draft]) -> Vec<Extract> {
    let of = |(route, blocks, [source_row, rows], first, list): &Draft| {
        let route = route.index(world.routes.len());
        let (side, [from, _]) = (&world.routes[route].source, &world.placed[route]);
        let source_row = source_row.index(from.rows as usize) as u32;
        let mut blocks: Vec<u32> =
            blocks.iter().map(|block| block.index(side.blocks as usize) as u32).collect();
        let rows = rows.index((from.rows - source_row) as usize + 1) as u32;
        if rows == 0 {
            blocks.truncate(1);
        }
        let list = *list || blocks.len() != 1;
        Extract { route, blocks, source_row, first: *first, rows, list }
    };
    drafts.iter().map(of).collect()
}

fn any_drafts() -> impl Strategy<Value = Vec<Draft>> {
    let blocks = prop::collection::vec(any::<Index>(), 0..4);
    // Logical rows past 32 bits too.
    let first = prop_oneof![3 => 0u32..1000, 1 => u32::MAX - 3..=u32::MAX];
    prop::collection::vec((any::<Index>(), blocks, any::<[Index; 2]>(), first, any::<bool>()), 0..6)
}

fn any_shapes() -> impl Strategy<Value = Vec<RouteShape>> {
    prop::collection::vec(any_route(), 1..3).prop_map(|mut shapes| {
        for segment in shapes.iter_mut().flat_map(|shape| &mut shape.segments) {
            segment.row = segment.row.min(300);
        }
        shapes
    })
}

proptest! {
    /// Whatever the layout, the width, the launch and the order of threads; and what lies in between has no part in it.
    #[test]
    fn digests_are_those_of_the_logical_content(
        shapes in any_shapes(),
        drafts in any_drafts(),
        narrower in 0u32..5,
        launch in any_launch(),
        seed in any::<u64>(),
    ) {
        let mut world = World::new(&shapes, seed);
        describe(&mut world, narrower);
        let extracts = fit(&world, &drafts);
        let want: Vec<u64> = extracts.iter().map(|extract| reference(&world, extract)).collect();
        prop_assert_eq!(digests(&mut world, &extracts, launch), want.clone());

        // Other holes, padding and neighbours.
        let mut poisoned = crate::memory::Memory::random(world.source.bytes().len(), !seed);
        for extract in &extracts {
            let (route, [from, _]) = (&world.routes[extract.route], &world.placed[extract.route]);
            for layer in 0..route.layers {
                for segment in 0..route.segments as usize {
                    for (&block, row) in extract.blocks.iter().flat_map(|block| (0..extract.rows).map(move |row| (block, row))) {
                        let row = from.row(layer, block, segment, extract.source_row + row);
                        poisoned.bytes_mut()[row.clone()].copy_from_slice(&world.source.bytes()[row]);
                    }
                }
            }
        }
        world.source.bytes_mut().copy_from_slice(poisoned.bytes());
        prop_assert_eq!(digests(&mut world, &extracts, launch), want);
    }

    /// The same content in two worlds that share nothing but it.
    #[test]
    fn equal_content_has_equal_digests_in_any_two_layouts(
        mut shape in any_route(),
        other in any_route(),
        rows in 1u32..6,
        (narrower, seed) in (0u32..5, any::<u64>()),
        launches in [any_launch(), any_launch()],
    ) {
        for segment in &mut shape.segments {
            segment.row = segment.row.min(100);
        }
        let mut second = shape.clone();
        second.sides = other.sides;
        for (segment, other) in second.segments.iter_mut().zip(other.segments) {
            (segment.row_padding, segment.gap, segment.region) = (other.row_padding, other.gap, other.region);
            segment.rows_log2 = other.rows_log2;
        }
        let content = |layer, segment, row, length| {
            crate::memory::Memory::random(length, seed ^ u64::from(layer * 971 + segment * 31 + row) << 8).bytes()[..length].to_vec()
        };
        // Blocks in descending order in one, in the other all rows in one block.
        let [mut a, mut b] = [(shape, rows), (second, 2 * rows)].map(|(mut shape, rows)| {
            (shape.sides[0].rows, shape.sides[0].blocks) = (rows, shape.sides[0].blocks.max(2));
            World::new(&[shape], seed)
        });
        describe(&mut a, 0);
        describe(&mut b, narrower);
        let blocks = [a.routes[0].source.blocks - 1, 0];
        fill(&mut a, &blocks, rows, content);
        fill(&mut b, &[1], 2 * rows, content);
        let in_a = digests(&mut a, &[whole(&blocks, rows)], launches[0]);
        let single = Extract { list: false, ..whole(&[1], 2 * rows) };
        prop_assert_eq!(in_a, digests(&mut b, &[single], launches[1]));
    }

    /// Rows in one piece on one side, and head by head on the other.
    #[test]
    fn a_row_in_pieces_has_the_digest_of_the_whole(
        heads in 1u32..5,
        (grain, length) in (2u32..5, 1u32..9),
        // The last piece need not be whole words.
        tail in 0u32..4,
        launch in any_launch(),
        seed in any::<u64>(),
    ) {
        let bytes = length << grain;
        let mut one = described(&[route(&[(0, heads * bytes + tail)], [2, 1], 5)], seed);
        let mut pieces: Vec<_> = (0..heads).map(|_| (grain, length)).collect();
        if tail != 0 {
            pieces.push((0, tail));
        }
        let mut many = described(&[route(&pieces, [2, 1], 5)], !seed);
        for (n, pair) in (0..).zip(&mut many.pairs) {
            (pair.destination_base, pair.destination_offset) = (0, n * u64::from(bytes));
        }
        let row_of = |layer: u32, row: u32| {
            crate::memory::Memory::random((heads * bytes + tail) as usize, seed ^ u64::from(layer * 99 + row) << 7)
        };
        fill(&mut one, &[1], 5, |layer, _, row, length| row_of(layer, row).bytes()[..length].to_vec());
        fill(&mut many, &[0], 5, |layer, piece, row, length| {
            row_of(layer, row).bytes()[(piece * bytes) as usize..][..length].to_vec()
        });
        let whole_row = digests(&mut one, &[whole(&[1], 5)], launch);
        prop_assert_eq!(whole_row, digests(&mut many, &[whole(&[0], 5)], launch));
    }
}

/// Two layers of two segments: rows of 36 and of 7 bytes, of which three rows of five count, in two blocks of four.
fn small() -> (World, u64) {
    let mut world = described(&[route(&[(2, 9), (0, 7)], [4, 1], 5)], 31);
    let digest = digest(&mut world, &[2, 1], 3);
    (world, digest)
}

/// Every bit of some rows of each layer, segment and block, alone.
#[test]
fn each_flipped_bit_changes_the_digest() {
    let (mut world, before) = small();
    let mut seen = HashSet::from([before]);
    for layer in 0..2 {
        for (segment, block, row) in [(0, 2, 0), (0, 2, 2), (0, 1, 1), (1, 2, 1), (1, 1, 0), (1, 1, 2)] {
            let range = world.placed[0][0].row(layer, block, segment, row);
            for bit in 0..range.len() * 8 {
                world.source.bytes_mut()[range.start + bit / 8] ^= 1 << (bit % 8);
                assert!(
                    seen.insert(digest(&mut world, &[2, 1], 3)),
                    "bit {bit} of row {row} of block {block}"
                );
                world.source.bytes_mut()[range.start + bit / 8] ^= 1 << (bit % 8);
            }
        }
    }
    assert_eq!(digest(&mut world, &[2, 1], 3), before);
}

/// Bits that flip in two words at once do not cancel, though a sum, or an exclusive or, of words would not see them.
#[test]
fn changes_that_balance_each_other_change_the_digest() {
    let (mut world, before) = small();
    let mut seen = HashSet::from([before]);
    let [a, b] =
        [(0, 2, 0), (1, 1, 2)].map(|(layer, block, row)| world.placed[0][0].row(layer, block, 0, row));
    for (first, second) in [(a.start, a.start + 4), (a.start, b.start), (a.start + 8, b.start + 8)] {
        for bit in 0..32 {
            for (one, two) in [(1u32 << bit, 0u32.wrapping_sub(1 << bit)), (1 << bit, 1 << bit)] {
                let kept = world.source.clone();
                for (at, step) in [(first, one), (second, two)] {
                    let word = &mut world.source.bytes_mut()[at..at + 4];
                    let value = u32::from_le_bytes(word.try_into().unwrap()).wrapping_add(step);
                    word.copy_from_slice(&value.to_le_bytes());
                }
                seen.insert(digest(&mut world, &[2, 1], 3));
                world.source.bytes_mut().copy_from_slice(kept.bytes());
            }
        }
    }
    // To add and to subtract the highest bit is the same.
    assert_eq!(seen.len(), 1 + 3 * (32 + 31));
}

/// Exchanges two equally long ranges of the source, and gives the digest.
fn exchanged(world: &mut World, pairs: &[(std::ops::Range<usize>, std::ops::Range<usize>)]) -> u64 {
    let swap = |world: &mut World| {
        for (a, b) in pairs {
            let bytes = world.source.bytes_mut();
            let (first, second) = (bytes[a.clone()].to_vec(), bytes[b.clone()].to_vec());
            bytes[a.clone()].copy_from_slice(&second);
            bytes[b.clone()].copy_from_slice(&first);
        }
    };
    swap(world);
    let digest = digest(world, &[2, 1], 3);
    swap(world);
    digest
}

#[test]
fn what_is_swapped_or_moved_changes_the_digest() {
    // Two segments of the same length.
    let mut world = described(&[route(&[(2, 9), (2, 9)], [4, 1], 5)], 32);
    let before = digest(&mut world, &[2, 1], 3);
    let row = |world: &World, layer, block, segment, row| world.placed[0][0].row(layer, block, segment, row);
    let all = || [2, 1].into_iter().flat_map(|block| (0..3).map(move |row| (block, row)));
    let mut seen = HashSet::from([before]);
    let mut differs = |digest, what: &str| assert!(seen.insert(digest), "{what}");

    let rows = [(row(&world, 0, 2, 0, 0), row(&world, 0, 2, 0, 1))];
    differs(exchanged(&mut world, &rows), "two rows of a block");
    let rows = [(row(&world, 1, 2, 1, 2), row(&world, 1, 1, 1, 2))];
    differs(exchanged(&mut world, &rows), "two rows of two blocks");
    let layers: Vec<_> = all()
        .flat_map(|(block, n)| {
            [0, 1].map(|segment| (row(&world, 0, block, segment, n), row(&world, 1, block, segment, n)))
        })
        .collect();
    differs(exchanged(&mut world, &layers), "two layers");
    let segments: Vec<_> = all()
        .flat_map(|(block, n)| {
            [0, 1].map(|layer| (row(&world, layer, block, 0, n), row(&world, layer, block, 1, n)))
        })
        .collect();
    differs(exchanged(&mut world, &segments), "two segments");
    let crossed: Vec<_> =
        all().map(|(block, n)| (row(&world, 0, block, 1, n), row(&world, 1, block, 0, n))).collect();
    differs(exchanged(&mut world, &crossed), "a segment of one layer with one of another");
    let at = row(&world, 0, 1, 0, 1).start;
    for word in 1..9 {
        let words = [(at..at + 4, at + 4 * word..at + 4 * word + 4)];
        differs(exchanged(&mut world, &words), "two words of a row");
    }
    differs(exchanged(&mut world, &[(at..at + 2, at + 2..at + 4)]), "two halves of a word");
    let other = row(&world, 1, 2, 1, 0).start;
    differs(exchanged(&mut world, &[(at..at + 4, other..other + 4)]), "two words of two rows");

    differs(digest(&mut world, &[1, 2], 3), "another order of blocks");
    differs(digest(&mut world, &[2, 3], 3), "another block");
    differs(digest(&mut world, &[2], 3), "a block less");
    differs(digest(&mut world, &[2, 1, 1], 3), "a block twice");
    differs(digest(&mut world, &[2, 1], 2), "a row less");
    let moved = Extract { first: 1, ..whole(&[2, 1], 3) };
    differs(digests(&mut world, &[moved], ENGINE)[0], "the same rows one further on");
    let late = Extract { source_row: 1, ..whole(&[2, 1], 3) };
    differs(digests(&mut world, &[late], ENGINE)[0], "the rows that follow");
    for (base, offset, what) in
        [(2, 0, "another segment"), (0, 4, "another place in the row"), (0, 64, "a further one")]
    {
        let pair = world.pairs[0];
        (world.pairs[0].destination_base, world.pairs[0].destination_offset) = (base, offset);
        differs(digest(&mut world, &[2, 1], 3), what);
        world.pairs[0] = pair;
    }
    assert_eq!(digest(&mut world, &[2, 1], 3), before);
}

/// Zeros are content: where and how many there are makes a difference.
#[test]
fn zeros_are_told_apart() {
    let mut world = described(&[mla(4, 1, 8)], 33);
    let zeros = |_, _, _, length| vec![0; length];
    fill(&mut world, &[0, 1, 2, 3], 8, zeros);
    let mut seen = HashSet::from([0]);
    for blocks in 1..=4 {
        for rows in 1..=8 {
            let blocks: Vec<u32> = (0..blocks).collect();
            seen.insert(digest(&mut world, &blocks, rows));
        }
    }
    // Equal where the rows are equally many, for all are alike; else different, and never 0.
    let counts: HashSet<u32> = (1..=4).flat_map(|blocks| (1..=8).map(move |rows| blocks * rows)).collect();
    assert_eq!(seen.len(), counts.len() + 1);
}

/// These numbers are part of what two versions of pagelift agree on: they were computed once, by another program.
#[test]
fn known_answers() {
    let content = |layer: u32, segment: u32, row: u32, length: usize| -> Vec<u8> {
        (0..length as u32).map(|at| (layer * 101 + segment * 59 + row * 31 + at * 7 + 3) as u8).collect()
    };
    for (segments, rows, first, want) in [
        (&[(2, 1)][..], 1, 0, KNOWN[0]),
        (&[(4, 72)][..], 5, 0, KNOWN[1]),
        (&[(2, 33), (0, 7)][..], 3, 1000, KNOWN[2]),
    ] {
        for launch in [ENGINE, PLAIN] {
            let mut world = described(&[route(segments, [2, 1], rows)], 34);
            fill(&mut world, &[1, 0], rows, content);
            let extract = Extract { first, ..whole(&[1, 0], rows) };
            assert_eq!(digests(&mut world, &[extract], launch), [want]);
        }
    }
}

const KNOWN: [u64; 3] = [0x9A7D_03FD_CD10_982D, 0x4C1D_0722_632A_58C6, 0x2058_B513_86E4_0154];

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
