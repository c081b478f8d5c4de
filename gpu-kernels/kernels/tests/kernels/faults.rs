//! The kinds of fault that users of such kernels report, each with a test that would have caught it. The random laws
//! cover most of them again; here each stands alone, with the numbers it was seen with.

use pagelift_abi::{DigestArgs, PageJob, PagesArgs, Route, RowJob, RowsArgs, SegmentPair, Side, CONTIGUOUS};

use crate::launch::PLAIN;
use crate::layout::{RouteShape, SegmentShape, SideShape, World};
use crate::memory::{address, assert_same};
use crate::pages::{self, Work};
use crate::rows::{self, Counts, Mirror};
use crate::table::Table;

/// Two layers of `[blocks, rows, 1152 B]` on both sides, `pages` and `blocks` of them.
pub fn mla(pages: u32, blocks: u32, rows: u32) -> RouteShape {
    route(&[(4, 72)], [pages, blocks], rows)
}

/// Two layers of segments `(log2 of the grain, grains a row)`, without padding.
pub fn route(segments: &[(u32, u32)], blocks: [u32; 2], rows: u32) -> RouteShape {
    let segment = |&(grain, row): &(u32, u32)| SegmentShape {
        grain,
        row,
        row_padding: [0, 0],
        gap: [0, 0],
        region: [0, 0],
        by_bytes: true,
        rows_log2: 0,
    };
    let side = |blocks| SideShape {
        rows,
        blocks,
        blocks_per_extent: blocks,
        regions: 1,
        packed: false,
        padding: 0,
        reverse: false,
    };
    RouteShape { layers: 2, segments: segments.iter().map(segment).collect(), sides: blocks.map(side) }
}

fn whole(blocks: &[(u32, u32)], rows: u32) -> Work {
    Work {
        route: 0,
        blocks: blocks.to_vec(),
        source_row: 0,
        destination_row: 0,
        rows,
        zero: false,
        list: true,
    }
}

fn mirror(slots: &[i64], page_slots: u32, map: &[i32]) -> Mirror {
    Mirror {
        slots: slots.to_vec(),
        tokens_per_row: 1,
        page_slots,
        map: map.to_vec(),
        null_page: -1,
        ..Mirror::default()
    }
}

/// Kind 1. Blocks lie 5 GiB apart and rows 4.5 GiB from the first; of the memory between them nothing is ever touched.
#[test]
fn offsets_beyond_31_and_32_bits() {
    const GIB: usize = 1 << 30;
    const ROW: u32 = 9;
    let far = 5 * GIB + ROW as usize * (GIB / 2);
    let mut source = vec![0u8; far + 4096];
    let mut destination = vec![0u8; far + 4096];
    let bytes: Vec<u8> = (0..64).map(|n| n * 3 + 1).collect();
    // What an offset of 31 or 32 bits would have reached instead, of the block, the row or both, holds other bytes.
    source[far..far + 64].copy_from_slice(&bytes);
    for wrapped in [far & 0x7FFF_FFFF, far & 0xFFFF_FFFF] {
        source[wrapped] = 0xEE;
    }

    let side =
        |bases| Side { bases, layer_bases: 1, blocks_per_extent: 2, blocks: 2, block_stride: 5 * GIB as u64 };
    let mut routes = [Route {
        source: side(0),
        destination: side(1),
        layers: 1,
        segments: 1,
        first_segment: 0,
        reserved: 0,
    }];
    let mut pairs = [SegmentPair {
        source_base: 0,
        destination_base: 0,
        source_offset: 0,
        destination_offset: 0,
        source_stride: GIB as u32 / 2,
        destination_stride: GIB as u32 / 2,
        row_bytes: 64,
        width: 16,
        rows_log2: 0,
    }];
    let mut bases = [address(&mut source), address(&mut destination)];
    let [routes, segments, bases] = [address(&mut routes), address(&mut pairs), address(&mut bases)];
    let clear = |destination: &mut Vec<u8>| {
        assert_eq!(destination[far..far + 64], bytes);
        for wrapped in [far & 0x7FFF_FFFF, far & 0xFFFF_FFFF] {
            assert_eq!(destination[wrapped], 0);
        }
        destination[far..far + 64].fill(0);
    };

    let job = PageJob {
        source: 1,
        destination: 1,
        source_row: ROW,
        destination_row: ROW,
        rows: 1,
        ..PageJob::default()
    };
    let mut table = Table::new(&[job], 1, &[], &[]);
    let (table, progress) = (table.address(), table.progress_address());
    PLAIN.pages(PagesArgs { table, routes, segments, bases, progress });
    clear(&mut destination);

    // The digest of the far row is that of the same bytes nearby.
    let mut sums = [0u64; 2];
    let job = |units_before, source, source_row| PageJob {
        units_before,
        source,
        source_row,
        rows: 1,
        ..PageJob::default()
    };
    let mut table = Table::new(&[job(0, 1, ROW), job(1, 0, 0)], 2, &[], &[]);
    source[..64].copy_from_slice(&bytes);
    let (table, progress) = (table.address(), table.progress_address());
    PLAIN.digest(DigestArgs { table, routes, segments, bases, progress, digests: address(&mut sums) });
    assert_eq!(sums[0], sums[1]);
    assert_ne!(sums[0], 0);

    let (mut slots, mut maps) = ([12 + i64::from(ROW)], [-1, 1]);
    let job = RowJob {
        slots: address(&mut slots),
        capacity: 1,
        slot_bytes: 8,
        page_slots: 12,
        tokens_per_row: 1,
        null_page: -1,
        map_rows: 12,
        block_rows: 12,
        ..RowJob::default()
    };
    let mut table = Table::new(&[job], 0, &[], &[]);
    let (table, progress) = (table.address(), table.progress_address());
    PLAIN.rows(RowsArgs { table, routes, segments, bases, progress, maps: address(&mut maps) });
    clear(&mut destination);
}

/// Kind 1. The bytes of a block need more than 32 bits.
#[test]
fn chunks_of_a_block_of_several_gib() {
    let pair = SegmentPair { row_bytes: 8192, rows_log2: CONTIGUOUS, ..SegmentPair::default() };
    assert_eq!(pair.chunks(1 << 20), 1 << 19);
    let state = SegmentPair { row_bytes: u32::MAX, ..pair };
    assert_eq!(state.chunks(1), 1 << 18);
    assert_eq!(SegmentPair { rows_log2: 3, ..pair }.chunks(u32::MAX), 1 << 29);
    assert_eq!(pair.chunks(0), 0);
}

/// Kind 2.
#[test]
fn layers_of_a_packed_slab_are_kept_apart() {
    let mut shape = route(&[(4, 41)], [3, 4], 6);
    shape.layers = 3;
    (shape.sides[0].packed, shape.sides[1].packed) = (false, true);
    pages::check(&mut World::new(&[shape.clone()], 2), &[whole(&[(2, 0), (1, 3)], 6)], PLAIN);
}

/// Kind 3.
#[test]
fn padding_behind_pages_is_skipped_and_never_written() {
    let mut shape = route(&[(4, 36), (3, 1)], [5, 5], 16);
    (shape.sides[0].padding, shape.sides[1].padding) = (0, 304);
    let mirror = mirror(&[16 * 3 + 15, 16 * 4], 16, &[-1, -1, -1, 4, 1]);
    let works = [whole(&[(1, 4), (3, 2), (0, 0)], 16)];
    pages::check(&mut World::new(&[shape.clone()], 3), &works, PLAIN);
    rows::check(&mut World::new(&[shape], 3), &[mirror], PLAIN);
}

/// Kind 3. Two page sizes in one model: an id that is good for one pool is past the end of the other.
#[test]
fn an_id_past_the_end_of_the_smaller_pool_is_bad() {
    let shapes = [mla(8, 8, 4), mla(3, 8, 8)];
    let mirrors = [mirror(&[4 * 7], 4, &[0, 1, 2, 3, 4, 5, 6, 7]), mirror(&[8 * 7], 8, &[0, 1, 2])];
    let mut world = World::new(&shapes, 4);
    assert_eq!(rows::reference(&world, &mirrors).1, Counts { rows: 1, skipped: 0, bad: 1 });
    rows::check(&mut world, &mirrors, PLAIN);
}

/// Kind 4. A width taken from the source alone: the destination's offset is a multiple of 8.
#[test]
#[should_panic(expected = "a store of width 16 is misaligned")]
fn alignment_of_the_destination_counts() {
    let mut world = World::new(&[mla(2, 2, 4)], 5);
    let works = [whole(&[(0, 0)], 4)];
    world.pairs[0].destination_offset += 8;
    let mut table = pages::table(&world, &works);
    PLAIN.pages(pages::args(&mut world, &mut table));
}

/// Kinds 4 and 5. Rows as they are seen, and all short ones: none loses its tail.
#[test]
fn odd_rows_are_copied_to_their_last_byte() {
    let long = [132, 280, 528, 576, 584, 656, 1152];
    for row_bytes in (1..=70).chain(long) {
        for padding in [0, 1] {
            let mut shape = route(&[(0, row_bytes)], [2, 2], 5);
            shape.segments[0].row_padding = [0, padding];
            pages::check(&mut World::new(&[shape.clone()], 6), &[whole(&[(1, 0)], 5)], PLAIN);
            rows::check(&mut World::new(&[shape], 6), &[mirror(&[3, 9], 5, &[1, 0])], PLAIN);
        }
    }
}

/// Kind 7. 160 tokens are 2 blocks of 128 but 3 pages of 64, and the other way round: a page of 128 is two blocks of 64.
#[test]
fn pages_and_blocks_of_different_sizes_pair_by_their_rows() {
    let rows: Vec<i64> = (0..160).collect();
    // Pages of 64 rows in halves of blocks: of block 2 its first half, then its second one, then half of block 0.
    let halves = Mirror { block_rows: Some(128), ..mirror(&rows, 64, &[4, 5, 1]) };
    // Pages of 128 rows, each in two blocks of 64: the third half has one, the last is not mapped.
    let pairs = Mirror { map_rows: Some(64), block_rows: Some(64), ..mirror(&rows, 128, &[4, 0, 3, -1]) };
    for (mirror, [pages, page_rows, blocks, block_rows]) in
        [(halves, [3, 64, 3, 128]), (pairs, [2, 128, 5, 64])]
    {
        let mut shape = mla(pages, blocks, page_rows);
        shape.sides[1].rows = block_rows;
        let mut world = World::new(&[shape], 21);
        let counts = rows::reference(&world, std::slice::from_ref(&mirror)).1;
        assert_eq!(counts, Counts { rows: 160, skipped: 0, bad: 0 });
        rows::check(&mut world, &[mirror], PLAIN);
    }
}

/// Kind 10. Where a block has several map entries, those past its side are bad, and so are negative ones.
#[test]
fn map_entries_past_the_last_block_are_bad() {
    let map = [7, 8, i32::MAX, i32::MIN, -8, -4, -1, 0];
    let slots: Vec<i64> = (0..8).map(|page| page * 4).collect();
    let several = Mirror { block_rows: Some(16), ..mirror(&slots, 4, &map) };
    let mut shape = mla(8, 2, 4);
    shape.sides[1].rows = 16;
    let mut world = World::new(&[shape.clone()], 22);
    let counts = rows::reference(&world, std::slice::from_ref(&several)).1;
    assert_eq!(counts, Counts { rows: 2, skipped: 1, bad: 5 });
    rows::check(&mut world, &[several], PLAIN);

    // Where blocks are so many, a negative entry divided by the entries of a block would name one.
    let negative =
        Mirror { block_rows: Some(16), ..mirror(&slots[..5], 4, &[-2, -4, -5, i32::MIN, i32::MIN + 7]) };
    let mut world = World::new(&[shape], 22);
    let side = &mut world.routes[0].destination;
    (side.blocks, side.blocks_per_extent) = (u32::MAX, u32::MAX);
    let counts = rows::reference(&world, std::slice::from_ref(&negative)).1;
    assert_eq!(counts, Counts { rows: 0, skipped: 0, bad: 5 });
    rows::check(&mut world, &[negative], PLAIN);
}

/// Kind 24. Numbers of a job that do not fit together: each entry that would be looked up is bad, and nothing is written.
#[test]
fn numbers_that_do_not_divide_each_other_are_bad() {
    let good = mirror(&[7, -1, 15, 3], 8, &[1, -1, 0]);
    let skipped = Mirror { null_page: 0, ..good.clone() };
    let set = |tokens_per_row, page_slots, map_rows, block_rows| Mirror {
        tokens_per_row,
        page_slots,
        map_rows: Some(map_rows),
        block_rows: Some(block_rows),
        ..good.clone()
    };
    for (mirror, counts) in [
        (good.clone(), Counts { rows: 2, skipped: 2, bad: 0 }),
        (skipped, Counts { rows: 0, skipped: 4, bad: 0 }),
        (set(0, 8, 8, 8), Counts { rows: 0, skipped: 1, bad: 3 }),
        (set(3, 8, 1, 1), Counts { rows: 0, skipped: 1, bad: 3 }),
        (set(16, 8, 1, 1), Counts { rows: 0, skipped: 1, bad: 3 }),
        (set(1, 0, 8, 8), Counts { rows: 0, skipped: 1, bad: 3 }),
        (set(1, 8, 0, 8), Counts { rows: 0, skipped: 1, bad: 3 }),
        (set(1, 8, 8, 0), Counts { rows: 0, skipped: 1, bad: 3 }),
        (set(1, 8, 3, 9), Counts { rows: 0, skipped: 1, bad: 3 }),
        (set(1, 8, 16, 16), Counts { rows: 0, skipped: 1, bad: 3 }),
        (set(1, 8, 8, 12), Counts { rows: 0, skipped: 1, bad: 3 }),
        (set(1, 8, 8, 4), Counts { rows: 0, skipped: 1, bad: 3 }),
        (set(1, 8, u32::MAX, u32::MAX), Counts { rows: 0, skipped: 1, bad: 3 }),
    ] {
        let mut world = World::new(&[mla(2, 2, 8)], 23);
        assert_eq!(rows::reference(&world, std::slice::from_ref(&mirror)).1, counts, "{mirror:?}");
        rows::check(&mut world, &[mirror], PLAIN);
    }
}

/// Kinds 8 and 10. A gather by an index list: −1 and the null page leave their row alone, an index past the pool is
/// bad, and so is an entry past the buffer, whatever it names.
#[test]
fn a_gather_writes_row_after_row() {
    let indices = [5, -1, 23, 0, 5, 24, 9, 11, 2, -1];
    for wide in [false, true] {
        let all = Mirror { wide, ..rows::gather(&indices, 4, 10) };
        let short = Mirror { block_rows: Some(4), ..all.clone() };
        let null = Mirror { null_page: 1, ..all.clone() };
        let counted = Mirror { count: Some(3), ..all.clone() };
        for (gather, counts) in [
            (all, Counts { rows: 7, skipped: 2, bad: 1 }),
            // Three rows fit; of the others one is past the pool, and a negative index is none wherever it stands.
            (short, Counts { rows: 3, skipped: 2, bad: 5 }),
            (null, Counts { rows: 5, skipped: 4, bad: 1 }),
            (counted, Counts { rows: 2, skipped: 1, bad: 0 }),
        ] {
            let mut shape = route(&[(4, 72), (2, 33)], [6, 2], 4);
            shape.sides[1].rows = 10;
            let mut world = World::new(&[shape], 24);
            assert_eq!(rows::reference(&world, std::slice::from_ref(&gather)).1, counts);
            rows::check(&mut world, &[gather], PLAIN);
        }
    }
}

/// Kind 8. Block 0 is the null block of some engines and an ordinary one of others; −1 is always none.
#[test]
fn block_0_is_what_the_job_says() {
    let real = mirror(&[1, 5, -1], 4, &[1, 0]);
    let null = Mirror { null_page: 0, ..real.clone() };
    for (mirror, counts) in
        [(real, Counts { rows: 2, skipped: 1, bad: 0 }), (null, Counts { rows: 1, skipped: 2, bad: 0 })]
    {
        let mut world = World::new(&[mla(2, 2, 4)], 7);
        assert_eq!(rows::reference(&world, std::slice::from_ref(&mirror)).1, counts);
        rows::check(&mut world, &[mirror], PLAIN);
    }
    pages::check(&mut World::new(&[mla(2, 2, 4)], 7), &[whole(&[(0, 1), (1, 0)], 4)], PLAIN);
}

/// Kind 8. −1 in a slot mapping of either width and in a map, and what lies below it.
#[test]
fn none_is_never_an_index() {
    for wide in [false, true] {
        let mirror = Mirror { wide, ..mirror(&[-1, 0, 4, 8, -1, i64::from(i32::MIN)], 4, &[-1, -2, 3]) };
        let mut world = World::new(&[mla(3, 3, 4)], 8);
        let counts = rows::reference(&world, std::slice::from_ref(&mirror)).1;
        assert_eq!(counts, Counts { rows: 0, skipped: 4, bad: 2 });
        rows::check(&mut world, &[mirror], PLAIN);
    }
}

/// Kind 9.
#[test]
fn empty_lists_and_jobs_move_nothing() {
    let works = [whole(&[], 4), whole(&[(0, 0)], 0), whole(&[(1, 1)], 4), whole(&[], 0), whole(&[(2, 2)], 0)];
    pages::check(&mut World::new(&[mla(3, 3, 4)], 9), &works, PLAIN);
    pages::check(&mut World::new(&[mla(3, 3, 4)], 9), &works[..2], PLAIN);
    pages::check(&mut World::new(&[mla(3, 3, 4)], 9), &[], PLAIN);
    let empty = mirror(&[], 4, &[0, 1, 2]);
    let none_valid = Mirror { count: Some(0), ..mirror(&[4, 5], 4, &[0, 1, 2]) };
    let no_request =
        Mirror { starts: Some(vec![2]), accepted: Some(vec![]), ..mirror(&[4, 5], 4, &[0, 1, 2]) };
    let world = || World::new(&vec![mla(3, 3, 4); 3], 9);
    rows::check(&mut world(), &[empty, none_valid], PLAIN);
    rows::check(&mut world(), &[], PLAIN);
    let accepts_one = Mirror { starts: Some(vec![0, 2]), accepted: Some(vec![1]), ..no_request.clone() };
    rows::check(&mut world(), &[accepts_one, no_request], PLAIN);
}

/// Kind 16. Rows past the accepted prefix of each request are not mirrored, and nonsense there is counted.
#[test]
fn only_the_accepted_prefix_of_each_request_is_mirrored() {
    let mirror = Mirror {
        starts: Some(vec![0, 3, 3, 6, 8]),
        accepted: Some(vec![2, 0, 3, 5]),
        ..mirror(&[0, 1, 2, 4, 5, 6, 8, 9], 4, &[2, 0, 1])
    };
    // Tokens before the first request belong to none, and where starts do not ascend they may belong to none either.
    let orphans = Mirror { starts: Some(vec![2, 5, 5, 5, 8]), ..mirror.clone() };
    let tangled = Mirror { starts: Some(vec![7, -9, 9, 8, 2]), ..mirror.clone() };
    for (mirror, counts) in [
        (mirror, Counts { rows: 5, skipped: 1, bad: 2 }),
        (orphans, Counts { rows: 2, skipped: 1, bad: 5 }),
        (tangled, Counts { rows: 0, skipped: 2, bad: 0 }),
    ] {
        let mut world = World::new(&[mla(3, 3, 4)], 10);
        assert_eq!(rows::reference(&world, std::slice::from_ref(&mirror)).1, counts, "{mirror:?}");
        rows::check(&mut world, &[mirror], PLAIN);
    }
}

/// Kind 20. A captured batch is padded: what lies past the count that the device reads, real slots too, is left alone.
#[test]
fn padded_rows_of_a_captured_batch_are_left_alone() {
    let padded = mirror(&[0, 5, 10, 11, 1, 2, -1, -1], 4, &[0, 1, 2]);
    for (count, starts, counts) in [
        (Some(3), None, Counts { rows: 3, skipped: 0, bad: 0 }),
        (None, Some(vec![0, 1, 4]), Counts { rows: 4, skipped: 0, bad: 0 }),
        (Some(6), Some(vec![0, 1, 2]), Counts { rows: 2, skipped: 0, bad: 0 }),
        (Some(-1), None, Counts { rows: 0, skipped: 0, bad: 1 }),
        (Some(9), None, Counts { rows: 6, skipped: 2, bad: 1 }),
        (Some(2), Some(vec![0, i32::MIN]), Counts { rows: 0, skipped: 0, bad: 1 }),
        (Some(2), Some(vec![0, i32::MAX]), Counts { rows: 2, skipped: 0, bad: 1 }),
    ] {
        let mirror = Mirror { count, starts, ..padded.clone() };
        let mut world = World::new(&[mla(3, 3, 4)], 11);
        assert_eq!(rows::reference(&world, std::slice::from_ref(&mirror)).1, counts);
        rows::check(&mut world, &[mirror], PLAIN);
    }
}

/// Kind 21. Aliases of neighbouring registrations need not be neighbours: here they lie in reverse order.
#[test]
fn extents_need_not_be_adjacent() {
    let mut shape = mla(7, 5, 4);
    for side in &mut shape.sides {
        (side.blocks_per_extent, side.reverse, side.padding) = (2, true, 48);
    }
    let blocks: Vec<_> = (0..5).map(|n| (n + 1, 4 - n)).collect();
    let mut world = World::new(&[shape.clone()], 12);
    pages::check(&mut world, &[whole(&blocks, 4)], PLAIN);
    let zero = Work { zero: true, ..whole(&[(9, 1), (9, 2)], 4) };
    pages::check(&mut world, &[zero], PLAIN);
    let map = [4, 3, 2, 1, 0, -1, -1];
    let slots: Vec<i64> = (0..28).collect();
    assert_eq!(rows::reference(&World::new(&[shape.clone()], 12), &[mirror(&slots, 4, &map)]).1.rows, 20);
    rows::check(&mut World::new(&[shape], 12), &[mirror(&slots, 4, &map)], PLAIN);
}

/// Kind 25. What the other tests rely on: both sides are random, and differ.
#[test]
fn source_and_destination_differ_before_a_copy() {
    let world = World::new(&[mla(2, 2, 4)], 13);
    let (source, destination) = (world.source.bytes(), world.destination.bytes());
    let equal = source.iter().zip(destination).filter(|(source, destination)| source == destination).count();
    assert!(equal < source.len() / 64, "{equal} of {} bytes are equal", source.len());
    let copied = pages::reference(&world, &[whole(&[(0, 0)], 4)]);
    assert_ne!(copied, destination);
    assert_same(&copied[..16], &destination[..16]);
}
