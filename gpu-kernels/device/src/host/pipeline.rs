//! Rows one after the other, each as early and as late as may be.

use super::emulating;
use super::lanes::{assert_aligned, copy_rows, move_bytes, share};
use crate::Rows;

/// Copies rows one after the other. In the emulation all are stored when it is finished, where a GPU keeps the last few; every
/// other one is read as early as may be, when it is begun, and the rest as late, so that neither may be relied upon. (The
/// engine copies each at once.)
#[derive(Default)]
pub struct RowPipeline {
    begun: Vec<Row>,
}

/// A row that is to be copied.
struct Row {
    source: u64,
    destination: u64,
    bytes: u32,
    width: u32,
    /// The calling lane's bytes of it, where they were read already.
    fetched: Option<Vec<u8>>,
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
    /// 3. `bytes` bytes at `destination` may be written, and nobody else touches them before the launch has ended; but where
    ///    launches run on a GPU, others may write the same bytes there.
    /// 4. All lanes of the warp make this call, with the same arguments, and [`Self::finish`] in the end.
    /// 5. On a GPU, a block has at most [`BLOCK_THREADS`](crate::BLOCK_THREADS) threads.
    pub unsafe fn copy(&mut self, source: u64, destination: u64, bytes: u32, width: u32) {
        let mut row = Row { source, destination, bytes, width, fetched: None };
        if !emulating() {
            // SAFETY: (1) is our 1 to 4.
            return unsafe { row.copy() };
        }
        assert_aligned(source, bytes, width, "a load");
        assert_aligned(destination, bytes, width, "a store");
        if !self.begun.len().is_multiple_of(2) {
            // SAFETY: (1) is our 1 to 4.
            unsafe { row.fetch() };
        }
        self.begun.push(row);
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
    /// Reads the calling lane's share.
    ///
    /// # Safety
    ///
    /// 1. The conditions of [`RowPipeline::copy`] hold for it.
    unsafe fn fetch(&mut self) {
        let mut fetched = Vec::new();
        for (from, bytes) in share(row(self.source), 1, self.bytes, self.width) {
            let at = fetched.len();
            fetched.resize(at + bytes as usize, 0);
            let to = fetched[at..].as_mut_ptr().expose_provenance() as u64;
            // SAFETY: (1) the piece lies within the row, which may be read (2 of `copy`), and the other is our own.
            unsafe { move_bytes(from, to, bytes) };
        }
        self.fetched = Some(fetched);
    }

    /// Copies the calling lane's share, or what was read of it.
    ///
    /// # Safety
    ///
    /// 1. The conditions of [`RowPipeline::copy`] hold for it.
    unsafe fn copy(self) {
        let Some(fetched) = self.fetched else {
            // SAFETY: (1, 2, 3, 4) are those of `RowPipeline::copy` (1); a single row has no stride.
            return unsafe {
                copy_rows(row(self.source), row(self.destination), 1, self.bytes, self.width);
            };
        };
        let mut from = fetched.as_ptr().expose_provenance() as u64;
        for (to, bytes) in share(row(self.destination), 1, self.bytes, self.width) {
            // SAFETY: (1) the piece lies within the row, which may be written (3 of `copy`); as many bytes were read for it.
            unsafe { move_bytes(from, to, bytes) };
            from += u64::from(bytes);
        }
    }
}

/// A single row, which has no stride.
fn row(address: u64) -> Rows {
    Rows { address, stride: 0 }
}
