//! Other content has another digest: each bit, each place and each number of rows.

use std::collections::HashSet;

use super::{described, digest, digests, fill, small, whole, Extract};
use crate::faults::{mla, route};
use crate::launch::{ENGINE, PLAIN};
use crate::layout::World;

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
