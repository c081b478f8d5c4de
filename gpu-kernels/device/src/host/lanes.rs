//! Moves by the lanes of a warp, which here take their turns.

use std::ptr::{copy_nonoverlapping, with_exposed_provenance, with_exposed_provenance_mut, write_bytes};

use super::emulating;
use crate::{Mover, lane, lanes_per_warp};

/// Moves a run piece by piece, each lane its own pieces, as a GPU does; or in one go where a warp has one lane.
///
/// A misaligned access is an error on a GPU and fails the emulation. The engine asserts nothing.
pub struct Lanes;

impl Mover for Lanes {
    unsafe fn new() -> Self {
        Self
    }

    unsafe fn copy(&mut self, source: u64, destination: u64, bytes: u32, width: u32) {
        if emulating() {
            assert_aligned(source, bytes, width, "a load");
            assert_aligned(destination, bytes, width, "a store");
        }
        for (at, piece) in share(bytes, width) {
            // SAFETY: the piece lies within the run, which may be read (2) and written (3); as the latter is nobody
            // else's, the two do not overlap.
            unsafe {
                copy_nonoverlapping(
                    with_exposed_provenance::<u8>(source as usize + at),
                    with_exposed_provenance_mut::<u8>(destination as usize + at),
                    piece,
                );
            }
        }
    }

    unsafe fn zero(&mut self, destination: u64, bytes: u32, width: u32) {
        if emulating() {
            assert_aligned(destination, bytes, width, "a store");
        }
        for (at, piece) in share(bytes, width) {
            // SAFETY: the piece lies within the run, which may be written (2).
            unsafe { write_bytes(with_exposed_provenance_mut::<u8>(destination as usize + at), 0, piece) };
        }
    }

    unsafe fn finish(&mut self) {}
}

/// The calling lane's pieces of a run, `(offset, bytes)`: every 32nd access in the emulation, the whole run else.
pub(super) fn share(bytes: u32, width: u32) -> impl Iterator<Item = (usize, usize)> {
    let piece = if emulating() { width } else { bytes } as usize;
    let (first, step) = (lane() as usize * piece, lanes_per_warp() as usize * piece);
    // A step of 0 is that of an empty run.
    (first..bytes as usize).step_by(step.max(1)).map(move |at| (at, piece))
}

/// Fails where the hardware would report a misaligned address, or would go past the end of the run.
pub(super) fn assert_aligned(address: u64, bytes: u32, width: u32, what: &str) {
    assert!(matches!(width, 16 | 8 | 4 | 2 | 1), "no access is {width} bytes wide");
    assert!(
        address.is_multiple_of(width.into()) && bytes.is_multiple_of(width),
        "{what} of width {width} is misaligned: {bytes} bytes at {address:#x}"
    );
}
