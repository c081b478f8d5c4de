//! Buffers of random bytes.

use zerocopy::IntoBytes;

/// Bytes that begin at a multiple of 16.
#[derive(Clone)]
pub struct Memory(Vec<u128>);

impl Memory {
    /// At least `bytes` random bytes.
    pub fn random(bytes: usize, seed: u64) -> Self {
        let mut state = seed | 1;
        let mut next = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            u128::from(state) << 64 | u128::from(state.wrapping_mul(0x9E37_79B9_7F4A_7C15))
        };
        Self((0..bytes.div_ceil(16)).map(|_| next()).collect())
    }

    pub fn address(&mut self) -> u64 {
        self.0.as_mut_ptr().expose_provenance() as u64
    }

    pub fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.as_mut_bytes()
    }
}

/// Address of a slice that a kernel reads or writes.
pub fn address<T>(slice: &mut [T]) -> u64 {
    slice.as_mut_ptr().expose_provenance() as u64
}

/// Fails at the first byte that differs, instead of printing both buffers.
#[track_caller]
pub fn assert_same(got: &[u8], want: &[u8]) {
    if let Some(at) = got.iter().zip(want).position(|(got, want)| got != want) {
        panic!("byte {at} of {} is {:#04x}, expected {:#04x}", want.len(), got[at], want[at]);
    }
    assert_eq!(got.len(), want.len());
}
