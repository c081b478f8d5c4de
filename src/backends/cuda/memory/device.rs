//! Memory of the GPU's own, which no Rust reference reaches.

use std::sync::Arc;

use super::too_large;
use crate::backends::buffer::{Buffer, DeviceOwner};
use crate::backends::cuda::context::Context;
use crate::error::{BackendError, Error, MemoryError};

/// Memory of the GPU's own.
#[derive(Debug)]
struct OnDevice {
    context: Arc<Context>,
    address: u64,
    /// Whether somebody else frees it.
    adopted: bool,
}

/// Zeroed device memory.
pub fn on_device(context: &Arc<Context>, bytes: u64) -> Result<Buffer, Error> {
    let size = usize::try_from(bytes).map_err(|_| MemoryError::OutOfMemory { bytes, place: "device" })?;
    let mut address = 0;
    // SAFETY: the address is stored in our variable.
    let made = context.unrestricted(|calls| unsafe { calls.memory_allocate(&raw mut address, size.max(1)) });
    // What was allocated is freed, also where something went wrong after that.
    let owner = OnDevice { context: Arc::clone(context), address, adopted: address == 0 };
    made.map_err(|error| too_large(error, bytes, "device"))?;
    // SAFETY: the fill stays inside what was allocated.
    context.copying(|calls, stream| unsafe { calls.fill(address, 0, size, stream) })?;
    Ok(Buffer::on_device(address, size, Box::new(owner)))
}

/// Somebody else's device memory.
pub fn adopted(context: &Arc<Context>, address: u64, bytes: usize) -> Buffer {
    let owner = OnDevice { context: Arc::clone(context), address, adopted: true };
    Buffer::on_device(address, bytes, Box::new(owner))
}

impl DeviceOwner for OnDevice {
    fn gpu(&self) -> u32 {
        self.context.facts().ordinal
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), BackendError> {
        let from = self.address.wrapping_add(at);
        let to = into.as_mut_ptr().cast();
        // SAFETY: the caller has seen that the bytes are ours; the slice is valid, and this waits.
        self.context.copying(|calls, stream| unsafe { calls.copy_to_host(to, from, into.len(), stream) })
    }

    fn write(&self, at: u64, from: &[u8]) -> Result<(), BackendError> {
        let to = self.address.wrapping_add(at);
        let bytes = from.as_ptr().cast();
        // SAFETY: as above.
        self.context.copying(|calls, stream| unsafe { calls.copy_to_device(to, bytes, from.len(), stream) })
    }

    fn settle_remote_writes(&self) -> Result<(), BackendError> {
        self.context.settle_remote_writes()
    }
}

impl Drop for OnDevice {
    fn drop(&mut self) {
        if self.adopted {
            return;
        }
        // In a lost context nothing is freed.
        // SAFETY: it was allocated here, and goes once; registries and launchers wait for launches before they drop what
        // these use.
        let _ = self.context.unrestricted(|calls| unsafe { calls.memory_free(self.address) });
    }
}
