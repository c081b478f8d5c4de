//! Which bytes a row has.
//!
//! Everything follows from a seed by counting, so that any byte can be computed without those before it.

use rayon::prelude::*;

use crate::manifest::{SplitMix64, mix};

/// An endless sequence of random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    key: u64,
}

/// Bytes that a thread writes before it asks for more: enough that asking costs nothing, few enough to stay in its cache.
const SHARE: usize = 256 << 10;

impl Stream {
    /// Writes the bytes of the stream from `start` on; many of them by all threads.
    pub fn fill(self, start: u64, bytes: &mut [u8]) {
        if bytes.len() <= SHARE {
            return self.fill_share(start, bytes);
        }
        bytes.par_chunks_mut(SHARE).enumerate().for_each(|(number, share)| {
            self.fill_share(start + (number * SHARE) as u64, share);
        });
    }

    fn fill_share(self, start: u64, bytes: &mut [u8]) {
        let skip = (start % 8) as usize;
        let mut words = SplitMix64::from(self.key, start / 8);
        let (head, body) = bytes.split_at_mut(bytes.len().min((8 - skip) % 8));
        if !head.is_empty() {
            let word = words.next_u64().to_le_bytes();
            head.iter_mut().zip(word.into_iter().skip(skip)).for_each(|(byte, value)| *byte = value);
        }
        let mut chunks = body.chunks_exact_mut(8);
        for chunk in &mut chunks {
            chunk.copy_from_slice(&words.next_u64().to_le_bytes());
        }
        let last = words.next_u64().to_le_bytes();
        chunks.into_remainder().iter_mut().zip(last).for_each(|(byte, value)| *byte = value);
    }
}

/// The contents that follow from one seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contents {
    seed: u64,
}

impl Contents {
    /// The contents of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed: mix(seed) }
    }

    /// A row of the producer: `row` counts from the beginning of the request, through holes too.
    #[must_use]
    pub fn produced(self, group: usize, layer: u32, segment: usize, row: u64) -> Stream {
        self.stream([1, group as u64, layer.into(), segment as u64, row, 0])
    }

    /// A row that the engine computed for a token, in a step.
    #[must_use]
    pub fn generated(self, group: usize, layer: u32, segment: usize, position: u64, step: u64) -> Stream {
        self.stream([2, group as u64, layer.into(), segment as u64, position, step])
    }

    /// An extent before anything is written to it.
    #[must_use]
    pub fn untouched(self, pool: usize, extent: u32) -> Stream {
        self.stream([3, pool as u64, extent.into(), 0, 0, 0])
    }

    fn stream(self, words: [u64; 6]) -> Stream {
        // Mixing between words keeps (1, 2) apart from (2, 1).
        let key = words.into_iter().fold(self.seed, |key, word| mix(key.wrapping_mul(5).wrapping_add(word)));
        Stream { key }
    }
}

#[cfg(test)]
mod tests {
    use super::Contents;

    #[test]
    fn any_part_of_a_stream_equals_that_part_of_the_whole() {
        let stream = Contents::new(1).produced(0, 0, 0, 0);
        let mut whole = [0; 64];
        stream.fill(0, &mut whole);
        for start in 0..64 {
            for end in start..64 {
                let mut part = vec![0; end - start];
                stream.fill(start as u64, &mut part);
                assert_eq!(part, whole[start..end]);
            }
        }
    }

    #[test]
    fn many_threads_write_the_same_stream() {
        let stream = Contents::new(1).untouched(0, 0);
        let mut whole = vec![0; 3 * super::SHARE + 5];
        stream.fill(3, &mut whole);
        for start in (0..whole.len()).step_by(4099) {
            let mut part = vec![0; 4099.min(whole.len() - start)];
            stream.fill(3 + start as u64, &mut part);
            assert_eq!(part, whole[start..][..part.len()]);
        }
    }

    #[test]
    fn no_two_rows_are_alike() {
        let contents = Contents::new(1);
        let mut seen = std::collections::HashSet::new();
        for (group, layer, segment) in (0..27).map(|i| (i % 3, (i / 3 % 3) as u32, i / 9)) {
            for number in 0..20 {
                assert!(seen.insert(contents.produced(group, layer, segment, number).key));
                assert!(seen.insert(contents.generated(group, layer, segment, number, 0).key));
                assert!(seen.insert(contents.generated(group, layer, segment, number, 1).key));
            }
        }
        assert!((0..9).all(|i| seen.insert(contents.untouched(i / 3, (i % 3) as u32).key)));
        assert!(seen.insert(Contents::new(2).produced(0, 0, 0, 0).key));
    }

    #[test]
    fn no_byte_value_is_common() {
        let mut bytes = vec![0; 1 << 16];
        Contents::new(9).untouched(0, 0).fill(0, &mut bytes);
        let mut counts = [0_u32; 256];
        bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        assert!(counts.iter().all(|count| (160..360).contains(count)));
    }
}
