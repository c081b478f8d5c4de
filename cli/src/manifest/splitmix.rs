//! Reproducible randomness: splitmix64, the same on every machine and in every version.

/// The increment of splitmix64: 2⁶⁴ divided by the golden ratio, made odd.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser of splitmix64: a bijection of 64-bit words in which every input bit reaches every output bit.
#[must_use]
pub const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// A splitmix64 generator.
#[derive(Debug, Clone)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// A generator whose whole sequence follows from `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next word.
    pub const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        mix(self.state)
    }

    /// The generator of `seed` after its first `index` words.
    #[must_use]
    pub const fn from(seed: u64, index: u64) -> Self {
        Self { state: seed.wrapping_add(index.wrapping_mul(GAMMA)) }
    }

    /// The word number `index` of the sequence of `seed`, without the ones before it.
    #[must_use]
    pub const fn at(seed: u64, index: u64) -> u64 {
        Self::from(seed, index).next_u64()
    }

    /// A number below `bound`, or 0 if `bound` is 0. The bias is below `bound / 2⁶⁴`.
    pub const fn below(&mut self, bound: usize) -> usize {
        ((self.next_u64() as u128 * bound as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::SplitMix64;

    #[test]
    fn published_sequence_of_seed_1234567() {
        let mut random = SplitMix64::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.next_u64()).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn random_access_gives_the_same_sequence() {
        let mut random = SplitMix64::new(7);
        for index in 0..100 {
            assert_eq!(random.next_u64(), SplitMix64::at(7, index));
        }
    }

    #[test]
    fn numbers_stay_below_their_bound() {
        let mut random = SplitMix64::new(3);
        assert_eq!(random.below(0), 0);
        assert!((1..1000).all(|bound| random.below(bound) < bound));
    }
}
