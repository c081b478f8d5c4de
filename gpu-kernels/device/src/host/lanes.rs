//! Moves by the lanes of a warp, which here take their turns.

use std::ptr::{copy_nonoverlapping, with_exposed_provenance, with_exposed_provenance_mut, write_bytes};

use super::emulating;
use crate::walk::{Rows, Walk};
use crate::{lane, lanes_per_warp};

/// Copies rows to rows: piece by piece, each lane its own pieces, as a GPU does; or a row at a time where a warp has one
/// lane.
///
/// A misaligned access is an error on a GPU and fails the emulation, and so do rows that overlap. The engine asserts nothing.
///
/// # Safety
///
/// 1. `width` is 16, 8, 4, 2 or 1, and addresses, strides (of several rows) and `row_bytes` are multiples of it;
///    strides (of several rows) are `row_bytes` at least, and `rows · row_bytes` has 32 bits.
/// 2. The rows of `source` may be read, and nobody writes them before the launch has ended.
/// 3. The rows of `destination` may be written, and nobody else touches them before the launch has ended.
/// 4. All lanes of the warp make this call, with the same arguments.
pub unsafe fn copy_rows(source: Rows, destination: Rows, rows: u32, row_bytes: u32, width: u32) {
    if emulating() {
        assert_rows(source, rows, row_bytes, width, "a load");
        assert_rows(destination, rows, row_bytes, width, "a store");
    }
    let (from, to) = (share(source, rows, row_bytes, width), share(destination, rows, row_bytes, width));
    for ((from, bytes), (to, _)) in from.zip(to) {
        // SAFETY: (1) the piece lies within a row, which may be read (2) and written (3); as the latter is nobody
        // else's, the two do not overlap.
        unsafe { move_bytes(from, to, bytes) };
    }
}

/// Writes zeros to rows.
///
/// # Safety
///
/// 1. The conditions of [`copy_rows`], but those of a source.
pub unsafe fn zero_rows(destination: Rows, rows: u32, row_bytes: u32, width: u32) {
    if emulating() {
        assert_rows(destination, rows, row_bytes, width, "a store");
    }
    for (to, bytes) in share(destination, rows, row_bytes, width) {
        // SAFETY: the piece lies within a row, which may be written (1).
        unsafe { write_bytes(with_exposed_provenance_mut::<u8>(to as usize), 0, bytes as usize) };
    }
}

/// Copies a piece.
///
/// # Safety
///
/// 1. The bytes may be read and written, and do not overlap.
pub(super) unsafe fn move_bytes(from: u64, to: u64, bytes: u32) {
    // SAFETY: (1) is ours.
    unsafe {
        copy_nonoverlapping(
            with_exposed_provenance::<u8>(from as usize),
            with_exposed_provenance_mut::<u8>(to as usize),
            bytes as usize,
        );
    }
}

/// The calling lane's pieces of rows, `(address, bytes)`: every 32nd access in the emulation, whole rows else.
pub(super) fn share(rows: Rows, count: u32, row_bytes: u32, width: u32) -> impl Iterator<Item = (u64, u32)> {
    let piece = if emulating() { width } else { row_bytes };
    let (first, round) = (lane() * piece, lanes_per_warp() * piece);
    let mut walk = Walk::new(rows, row_bytes, first, round);
    // A round of 0 is that of empty rows.
    (first..count * row_bytes).step_by(round.max(1) as usize).map(move |_| {
        let address = walk.address();
        walk.advance();
        (address, piece)
    })
}

/// [`assert_aligned`] for each of so many rows, none of which begins before the one before it has ended.
fn assert_rows(rows: Rows, count: u32, row_bytes: u32, width: u32, what: &str) {
    assert!(
        count < 2 || rows.stride >= row_bytes,
        "{what} of rows of {row_bytes} bytes, {} apart",
        rows.stride
    );
    // Where the first two are aligned, so is the stride.
    for row in 0..count.min(2) {
        assert_aligned(rows.address + u64::from(row) * u64::from(rows.stride), row_bytes, width, what);
    }
}

/// Fails where the hardware would report a misaligned address, or would go past the end of a row.
pub(super) fn assert_aligned(address: u64, bytes: u32, width: u32, what: &str) {
    assert!(matches!(width, 16 | 8 | 4 | 2 | 1), "no access is {width} bytes wide");
    assert!(
        address.is_multiple_of(width.into()) && bytes.is_multiple_of(width),
        "{what} of width {width} is misaligned: {bytes} bytes at {address:#x}"
    );
}
