//! What rows hold: bytes that follow from who computed them, which token's they are, and where in a page they belong.

use serde::{Deserialize, Serialize};

/// Who computed a row, or a state: another engine, or one step of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Origin(u64);

impl Origin {
    /// Another engine, for all prompts that begin alike.
    #[must_use]
    pub const fn producer(family: u64) -> Self {
        Self(1 << 63 | family)
    }

    /// A step of the request that was the so-manieth to be admitted.
    #[must_use]
    pub const fn step(admission: u64, step: u32) -> Self {
        Self(admission << 24 | step as u64)
    }

    /// Fills a row, or the part of it that lies at a `place` of its page.
    pub fn fill(self, token: u64, place: u64, bytes: &mut [u8]) {
        let mut state = self.0 ^ token.rotate_left(24) ^ place.rotate_left(48);
        for chunk in bytes.chunks_mut(8) {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            chunk.copy_from_slice(&(mixed ^ mixed >> 31).to_le_bytes()[..chunk.len()]);
        }
    }

    /// Whether a row is that which [`Origin::fill`] writes.
    #[must_use]
    pub fn is_in(self, token: u64, place: u64, bytes: &[u8]) -> bool {
        let mut expected = [0; 64];
        self.fill(token, place, &mut expected[..bytes.len()]);
        expected[..bytes.len()] == *bytes
    }
}
