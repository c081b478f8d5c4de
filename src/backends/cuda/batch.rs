//! Many copies in one call of the driver.

use std::ffi::{c_int, c_uint};

use super::calls::{Address, Calls, Handle, Symbols};
use crate::error::BackendError;

/// `cuMemcpyBatchAsync`, which drivers of two times have.
#[derive(Clone, Copy)]
pub(super) enum Batch {
    /// For CUDA 12.8: says which of the copies is wrong.
    First(BatchFirst),
    /// For CUDA 13.
    Second(BatchSecond),
}

type BatchFirst = unsafe extern "C" fn(
    *const Address,
    *const Address,
    *const usize,
    usize,
    *const BatchAttributes,
    *const usize,
    usize,
    *mut usize,
    Handle,
) -> c_int;
type BatchSecond = unsafe extern "C" fn(
    *const Address,
    *const Address,
    *const usize,
    usize,
    *const BatchAttributes,
    *const usize,
    usize,
    Handle,
) -> c_int;

/// `CUmemcpyAttributes`.
#[repr(C)]
pub(super) struct BatchAttributes {
    source_order: c_int,
    /// Two `CUmemLocation`s, which mean nothing for memory that the driver knows.
    hints: [c_int; 4],
    flags: c_uint,
}

impl Batch {
    /// Looks it up, the later one first.
    ///
    /// # Safety
    /// 1. As [`Calls::find`].
    pub unsafe fn find(symbols: &Symbols<'_>) -> Option<Self> {
        // SAFETY: (1) these are the signatures of the two symbols.
        let second = unsafe { symbols.function("cuMemcpyBatchAsync_v2") }.map(Self::Second);
        // SAFETY: as above.
        second.or_else(|_| unsafe { symbols.function("cuMemcpyBatchAsync") }.map(Self::First)).ok()
    }
}

impl Calls {
    /// `cuMemcpyBatchAsync`: copies `bytes[i]` bytes from `from[i]` to `to[i]`, in any order, in the stream's order with
    /// what is before and after. There is one copy at least.
    ///
    /// # Safety
    /// 1. Ends of copies are memory that the device reaches, until the stream has got there; no destination meets another
    ///    one or a source.
    pub unsafe fn copy_batch(
        &self,
        batch: Batch,
        to: &[Address],
        from: &[Address],
        bytes: &[usize],
        stream: Handle,
    ) -> Result<(), BackendError> {
        /// `CU_MEMCPY_SRC_ACCESS_ORDER_STREAM`: sources are read in the stream's order, as by any copy.
        const IN_STREAM_ORDER: c_int = 1;
        let attributes = BatchAttributes { source_order: IN_STREAM_ORDER, hints: [0; 4], flags: 0 };
        let count = to.len().min(from.len()).min(bytes.len());
        let (to, from, bytes, attributes) =
            (to.as_ptr(), from.as_ptr(), bytes.as_ptr(), &raw const attributes);
        let (first, mut failed) = (0_usize, usize::MAX);
        // SAFETY: the lists have `count` entries; there is one set of attributes, from copy 0 on. (1) is ours.
        let code = unsafe {
            match batch {
                Batch::First(call) => {
                    call(to, from, bytes, count, attributes, &raw const first, 1, &raw mut failed, stream)
                }
                Batch::Second(call) => call(to, from, bytes, count, attributes, &raw const first, 1, stream),
            }
        };
        if code == 0 { Ok(()) } else { Err(self.failure("cuMemcpyBatchAsync", code)) }
    }
}
