//! Rows one after the other, each as late as may be.

use super::emulating;
use super::lanes::copy_rows;
use crate::Rows;

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
    /// 5. On a GPU, a block has at most [`BLOCK_THREADS`](crate::BLOCK_THREADS) threads.
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
