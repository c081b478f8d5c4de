//! What others write into a GPU's memory, such as a network adapter: when launches see it.
//!
//! A transport says that a read has landed when its last byte has reached the GPU's bus. Whether a kernel that is launched after
//! that sees it is the device's to say (`CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING`); where it does not promise it, the
//! driver has a call that waits until it is so.

use std::ffi::c_int;

use super::calls::{Calls, Symbols};
use crate::error::BackendError;

/// `cuFlushGPUDirectRDMAWrites`, which drivers have since 11.3.
pub(super) type Flush = unsafe extern "C" fn(c_int, c_int) -> c_int;

/// Its name.
pub(super) const FLUSH: &str = "cuFlushGPUDirectRDMAWrites";

/// `CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_…`.
const SUPPORTED: c_int = 116;
const FLUSH_OPTIONS: c_int = 117;
const ORDERING: c_int = 118;

/// `CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST`.
const BY_HOST: c_int = 1;
/// `CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER`: the GPU itself sees them in order. More is better.
const OWNER: c_int = 100;
/// `CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX`.
const CURRENT_CONTEXT: c_int = 0;
/// `CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER`.
const TO_OWNER: c_int = 100;

/// What a device needs before its launches see what others have written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// Nothing: nobody else writes, or it is in order.
    Nothing,
    /// The driver's call.
    Flush,
    /// What this library does not do: a stream's wait on a value.
    More,
}

/// What the attributes come to.
const fn need(supported: c_int, options: c_int, ordering: c_int) -> Need {
    if supported == 0 || ordering >= OWNER {
        Need::Nothing
    } else if options & BY_HOST != 0 {
        Need::Flush
    } else {
        Need::More
    }
}

/// The call, where the driver has it.
pub(super) fn find(symbols: &Symbols<'_>) -> Option<Flush> {
    // SAFETY: the manual gives it two enumerations, which are `int`s.
    unsafe { symbols.function::<Flush>(FLUSH) }.ok()
}

/// Makes what others have written into memory of the current context's device visible to launches that follow.
///
/// # Errors
/// Where neither the device nor the driver can promise that.
pub(super) fn settle(calls: &Calls, device: c_int) -> Result<(), BackendError> {
    let attribute = |attribute| {
        let mut value = 0;
        // SAFETY: the value is stored in our variable; the device exists.
        unsafe { calls.device_attribute(&raw mut value, attribute, device) }.map(|()| value)
    };
    match (need(attribute(SUPPORTED)?, attribute(FLUSH_OPTIONS)?, attribute(ORDERING)?), calls.flush()) {
        (Need::Nothing, _) => Ok(()),
        (Need::Flush, Some(flush)) => {
            // SAFETY: both are values that the manual lists, and the context is current.
            match unsafe { flush(CURRENT_CONTEXT, TO_OWNER) } {
                0 => Ok(()),
                code => Err(calls.failure(FLUSH, code)),
            }
        }
        _ => Err(BackendError::RemoteWrites),
    }
}

#[cfg(test)]
mod tests {
    use super::{Need, need};

    #[test]
    fn a_flush_is_needed_where_a_gpu_does_not_order_writes_of_others() {
        assert_eq!(need(0, 0, 0), Need::Nothing);
        assert_eq!([need(1, 1, 100), need(1, 0, 200)], [Need::Nothing; 2]);
        assert_eq!([need(1, 1, 0), need(1, 3, 0)], [Need::Flush; 2]);
        // It could only be waited for in a stream.
        assert_eq!(need(1, 2, 0), Need::More);
    }
}
