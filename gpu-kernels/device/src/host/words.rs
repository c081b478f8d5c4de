//! Reads of whole runs, word by word.

use std::ptr::{copy_nonoverlapping, with_exposed_provenance};

use super::emulating;
use super::lanes::assert_aligned;
use crate::{lane, lanes_per_warp};

/// Hands the calling lane its share of a run's 4-byte words: the number of each, and its bytes, the first one lowest.
/// The lanes of a warp together see each word once. A last word of fewer bytes is filled up with zeros, and nothing
/// behind the run is read.
///
/// # Safety
///
/// 1. `width` is 16, 8, 4, 2 or 1, and `source` and `bytes` are multiples of it.
/// 2. `bytes` bytes at `source` may be read, and nobody writes them before the launch has ended.
pub unsafe fn each_word(source: u64, bytes: u32, width: u32, mut each: impl FnMut(u32, u32)) {
    if emulating() {
        assert_aligned(source, bytes, width, "a load");
    }
    let piece = if emulating() { width.max(4) } else { bytes };
    let (first, step) = (lane() * piece, (lanes_per_warp() * piece).max(1));
    for start in (first..bytes).step_by(step as usize) {
        // A lane's last piece may end with the run.
        for at in (start..bytes.min(start.saturating_add(piece))).step_by(4) {
            let mut word = [0; 4];
            // SAFETY: the bytes lie within the run, which may be read (2).
            unsafe {
                copy_nonoverlapping(
                    with_exposed_provenance::<u8>(source as usize + at as usize),
                    word.as_mut_ptr(),
                    4.min(bytes - at) as usize,
                );
            }
            each(at / 4, u32::from_le_bytes(word));
        }
    }
}
