//! Moves by the lanes of a warp, which here take their turns.

use std::ptr::{copy_nonoverlapping, with_exposed_provenance, with_exposed_provenance_mut, write_bytes};

use super::emulating;
use crate::walk::{Rows, Walk};
use crate::{lane, lanes_per_warp};

/// Copies rows to rows: piece by piece, each lane its own pieces, as a GPU does; or a row at a time where a warp has one
/// lane.
///
/// A misaligned access is an error on a GPU and fails the emulation. The engine asserts nothing.
///
/// # Safety
///
/// 1. `width` is 16, 8, 4, 2 or 1, and addresses, strides (of several rows) and `row_bytes` are multiples of it;
///    `rows · row_bytes` has 32 bits.
/// 2. The rows of `source` may be read, and nobody writes them before the launch has ended.
/// 3. The rows of `destination` may be written, and nobody else touches them before the launch has ended.
/// 4. All lanes of the warp make this call, with the same arguments.
pub unsafe fn copy_rows(source: Rows, destination: Rows, rows: u32, row_bytes: u32, width: u32) {
    if emulating() {
        assert_rows_aligned(source, rows, row_bytes, width, "a load");
        assert_rows_aligned(destination, rows, row_bytes, width, "a store");
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
        assert_rows_aligned(destination, rows, row_bytes, width, "a store");
    }
    for (to, bytes) in share(destination, rows, row_bytes, width) {
        // SAFETY: the piece lies within a row, which may be written (1).
        unsafe { write_bytes(with_exposed_provenance_mut::<u8>(to as usize), 0, bytes as usize) };
    }
}

/// Copies rows one after the other, as late as may be: all of them when it is finished, where a GPU keeps the last few. (The
/// engine copies each at once.)
#[derive(Default)]
pub struct RowPipeline {
    begun: Vec<Row>,
}

/// A row that is to be copied.
#[derive(Clone, Copy)]
struct Row {
    source: u64,
    destination: u64,
    bytes: u32,
    width: u32,
}

impl RowPipeline {
    /// An empty pipeline for the calling lane.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins to copy `bytes` bytes.
    ///
    /// # Safety
    ///
    /// 1. `width` is 16, 8, 4, 2 or 1, and addresses and `bytes` are multiples of it.
    /// 2. `bytes` bytes at `source` may be read, and nobody writes them before the launch has ended.
    /// 3. `bytes` bytes at `destination` may be written, and nobody else touches them before the launch has ended.
    /// 4. All lanes of the warp make this call, with the same arguments, and [`Self::finish`] in the end.
    pub unsafe fn copy(&mut self, source: u64, destination: u64, bytes: u32, width: u32) {
        let row = Row { source, destination, bytes, width };
        if emulating() {
            self.begun.push(row);
        } else {
            // SAFETY: (1) is our 1 to 4.
            unsafe { row.copy() };
        }
    }

    /// Writes what is still in flight.
    pub fn finish(self) {
        for row in self.begun {
            // SAFETY: (1) the row was begun by `copy`, and the launch has not ended.
            unsafe { row.copy() };
        }
    }
}

impl Row {
    /// Copies it.
    ///
    /// # Safety
    ///
    /// 1. The conditions of [`RowPipeline::copy`] hold for it.
    unsafe fn copy(self) {
        // A single row has no stride.
        let row = |address| Rows { address, stride: 0 };
        // SAFETY: (1, 2, 3, 4) are those of `RowPipeline::copy` (1).
        unsafe { copy_rows(row(self.source), row(self.destination), 1, self.bytes, self.width) };
    }
}

/// Copies a piece.
///
/// # Safety
///
/// 1. The bytes may be read and written, and do not overlap.
unsafe fn move_bytes(from: u64, to: u64, bytes: u32) {
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
fn share(rows: Rows, count: u32, row_bytes: u32, width: u32) -> impl Iterator<Item = (u64, u32)> {
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

/// [`assert_aligned`] for each of so many rows.
fn assert_rows_aligned(rows: Rows, count: u32, row_bytes: u32, width: u32, what: &str) {
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
