//! The same content has the same digest, however it lies in memory.

use proptest::prelude::*;
use proptest::sample::Index;

use super::reference::reference;
use super::{describe, described, digests, fill, whole, Extract};
use crate::faults::route;
use crate::launch::any_launch;
use crate::layout::{any_route, RouteShape, World};

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
