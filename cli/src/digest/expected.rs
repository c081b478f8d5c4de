//! What a digest must be, by the formula of the kernel's documentation: row by row, word by word.

use std::ops::Range;

use rayon::prelude::*;

use crate::manifest::{Group, Part, SplitMix64};
use crate::reference::Contents;

/// Where the sequences of all digests begin.
const SEED: u64 = u64::from_be_bytes(*b"pagelift");

/// The digest of rows of the producer, the first of which is row 0 of the list.
pub fn digest(contents: Contents, group: &Group, rows: Range<u64>) -> u64 {
    let first = rows.start;
    let numbers = numbers(group);
    let of_row = |bytes: &mut Vec<u8>, row: u64| {
        let mut sum = 0_u64;
        for layer in 0..group.layers {
            for (segment, (shape, number)) in group.shape.segments.iter().zip(&numbers).enumerate() {
                bytes.resize(shape.row_bytes as usize, 0);
                contents.produced(group.index, layer, segment, row).fill(0, bytes);
                let run = nth(SEED, u64::from(layer) << 32 | number);
                sum = sum.wrapping_add(row_digest(nth(run, row - first), bytes));
            }
        }
        sum
    };
    rows.into_par_iter().map_init(Vec::new, of_row).reduce(|| 0, u64::wrapping_add)
}

/// By which number each of a group's segments goes into a digest: K's heads, K's scales, V's heads, V's scales; others
/// as they follow one another.
fn numbers(group: &Group) -> Vec<u64> {
    let key = |index: usize| match group.shape.segments.get(index).map(|segment| segment.part) {
        Some(Part::Head { tensor, head, .. }) => (u64::from(tensor), 0, u64::from(head)),
        Some(Part::Scales { tensor, .. }) => (u64::from(tensor), 1, 0),
        Some(Part::Plane { .. }) | None => (0, 0, index as u64),
    };
    let mut order: Vec<usize> = (0..group.shape.segments.len()).collect();
    order.sort_by_key(|index| key(*index));
    let place = |index| order.iter().position(|other| *other == index).unwrap_or(index) as u64;
    (0..order.len()).map(place).collect()
}

/// The terms of one row of a segment.
fn row_digest(origin: u64, bytes: &[u8]) -> u64 {
    let words = (0_u64..).zip(bytes.chunks(4)).map(|(index, chunk)| {
        // The last word is filled up with zeros.
        let word = chunk.iter().rev().fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
        nth(origin, index << 32 | word)
    });
    words.fold(0, u64::wrapping_add)
}

/// Number `n` of the sequence of splitmix64 that begins at `origin`.
fn nth(origin: u64, n: u64) -> u64 {
    // `at` counts the numbers that a generator gives, from 0.
    SplitMix64::at(origin, n.wrapping_sub(1))
}

#[cfg(test)]
mod tests {
    use super::{nth, row_digest};

    #[test]
    fn words_are_counted_from_the_lowest_byte_and_filled_up() {
        let words = [0x0403_0201_u64, 0x0000_0605];
        let expected = nth(7, words[0]).wrapping_add(nth(7, 1 << 32 | words[1]));
        assert_eq!(row_digest(7, &[1, 2, 3, 4, 5, 6]), expected);
    }
}
