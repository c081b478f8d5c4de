//! Pinned and mapped host memory of the driver's: tables, slots, and pools of a moderate size. One thread pins it, on
//! whatever node that runs; large pools are a [`HostPool`](crate::backends::HostPool).

use std::ptr::NonNull;
use std::sync::Arc;

use super::register::alias;
use super::too_large;
use crate::backends::buffer::Buffer;
use crate::backends::cuda::context::Context;
use crate::error::{Error, MemoryError};

/// `CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP`: for every context, mapped, and cached by the CPU, which reads
/// it too.
const PORTABLE_MAPPED: u32 = 1 | 2;

/// Pinned and mapped memory of the driver's.
#[derive(Debug)]
struct OnHost {
    context: Arc<Context>,
    start: NonNull<u8>,
}

// SAFETY: it is plain memory, freed from any thread.
unsafe impl Send for OnHost {}
// SAFETY: as above.
unsafe impl Sync for OnHost {}

/// Zeroed pinned host memory, as the device sees it.
pub fn on_host(context: &Arc<Context>, bytes: u64) -> Result<Buffer, Error> {
    let size = usize::try_from(bytes).map_err(|_| MemoryError::OutOfMemory { bytes, place: "host" })?;
    let mut start = std::ptr::null_mut();
    // SAFETY: the address is stored in our variable.
    let made = context
        .unrestricted(|calls| unsafe { calls.host_allocate(&raw mut start, size.max(1), PORTABLE_MAPPED) });
    // What was allocated is freed, also where something went wrong after that.
    let owner = NonNull::new(start.cast::<u8>()).map(|start| OnHost { context: Arc::clone(context), start });
    made.map_err(|error| too_large(error, bytes, "host"))?;
    let owner = owner.ok_or(MemoryError::OutOfMemory { bytes, place: "host" })?;
    let start = owner.start;
    // SAFETY: it was just allocated, and nobody else has it.
    unsafe { start.as_ptr().write_bytes(0, size) };
    let address = alias(context, start)?;
    // SAFETY: (1) it was just allocated and filled; the owner frees it, when the driver has waited for work that uses it.
    Ok(unsafe { Buffer::mapped(start, address, size, Box::new(owner)) })
}

impl Drop for OnHost {
    fn drop(&mut self) {
        // In a lost context nothing is freed.
        // SAFETY: it was allocated here, and goes once; registries and launchers wait for launches before they drop what
        // these use.
        let _ = self.context.unrestricted(|calls| unsafe { calls.host_free(self.start.as_ptr().cast()) });
    }
}
