//! The digest that rows must have, by its documentation alone.

use super::Extract;
use crate::layout::World;

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
pub fn reference(world: &World, extract: &Extract) -> u64 {
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
