//! What tells states apart: a digest of all that decides what may happen next.

use std::hash::Hasher;

/// A hash of 128 bits: two of a million states do not share one.
#[derive(Default)]
pub struct Fingerprint(u128);

impl Hasher for Fingerprint {
    fn finish(&self) -> u64 {
        self.0 as u64
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        let mixed = (self.0 ^ u128::from(word)).wrapping_mul(0xDA94_2042_E4DD_58B5_9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ mixed >> 67 ^ mixed >> 31;
    }

    fn write_u8(&mut self, word: u8) {
        self.write_u64(word.into());
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}

impl Fingerprint {
    pub const fn get(self) -> u128 {
        self.0
    }
}
