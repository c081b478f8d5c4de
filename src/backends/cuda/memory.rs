//! Memory of a GPU, and host memory that it reaches.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use super::context::Context;
use crate::backends::buffer::{Buffer, DeviceOwner};
use crate::error::{BackendError, Error, MemoryError};

/// `CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP`: for every context, mapped, and cached by the CPU, which reads
/// it too.
const PORTABLE_MAPPED: u32 = 1 | 2;
/// `CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP`.
const REGISTER_PORTABLE_MAPPED: u32 = 1 | 2;
/// `CUDA_ERROR_OUT_OF_MEMORY`.
const OUT_OF_MEMORY: i32 = 2;

/// Memory of the GPU's own, which no Rust reference reaches.
#[derive(Debug)]
struct OnDevice {
    context: Arc<Context>,
    address: u64,
    /// Whether somebody else frees it.
    adopted: bool,
}

/// Pinned and mapped memory of the host.
#[derive(Debug)]
struct OnHost {
    context: Arc<Context>,
    start: NonNull<u8>,
    /// Somebody else's memory is unregistered, ours is freed.
    adopted: bool,
}

// SAFETY: it is plain memory, freed from any thread.
unsafe impl Send for OnHost {}
// SAFETY: as above.
unsafe impl Sync for OnHost {}

/// Zeroed device memory.
pub(super) fn on_device(context: &Arc<Context>, bytes: u64) -> Result<Buffer, Error> {
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
pub(super) fn adopted(context: &Arc<Context>, address: u64, bytes: usize) -> Buffer {
    let owner = OnDevice { context: Arc::clone(context), address, adopted: true };
    Buffer::on_device(address, bytes, Box::new(owner))
}

/// Zeroed pinned host memory, as the device sees it.
pub(super) fn on_host(context: &Arc<Context>, bytes: u64) -> Result<Buffer, Error> {
    let size = usize::try_from(bytes).map_err(|_| MemoryError::OutOfMemory { bytes, place: "host" })?;
    let mut start = std::ptr::null_mut();
    // SAFETY: the address is stored in our variable.
    let made = context
        .unrestricted(|calls| unsafe { calls.host_allocate(&raw mut start, size.max(1), PORTABLE_MAPPED) });
    // What was allocated is freed, also where something went wrong after that.
    let owner = NonNull::new(start.cast::<u8>()).map(|start| OnHost {
        context: Arc::clone(context),
        start,
        adopted: false,
    });
    made.map_err(|error| too_large(error, bytes, "host"))?;
    let owner = owner.ok_or(MemoryError::OutOfMemory { bytes, place: "host" })?;
    let start = owner.start;
    // SAFETY: it was just allocated, and nobody else has it.
    unsafe { start.as_ptr().write_bytes(0, size) };
    let address = alias(context, start)?;
    // SAFETY: (1) it was just allocated and filled; the owner frees it, when the driver has waited for work that uses it.
    Ok(unsafe { Buffer::mapped(start, address, size, Box::new(owner)) })
}

/// Somebody else's host memory, pinned and mapped where it lies.
///
/// # Safety
/// 1. As [`Buffer::adopt`].
pub(super) unsafe fn registered(
    context: &Arc<Context>,
    start: NonNull<u8>,
    bytes: usize,
) -> Result<Buffer, Error> {
    let place: *mut c_void = start.as_ptr().cast();
    // SAFETY: the memory is valid (1).
    context.unrestricted(|calls| unsafe { calls.host_register(place, bytes, REGISTER_PORTABLE_MAPPED) })?;
    let owner = OnHost { context: Arc::clone(context), start, adopted: true };
    let address = alias(context, start)?;
    // SAFETY: (1) is ours; the owner unregisters it before.
    Ok(unsafe { Buffer::mapped(start, address, bytes, Box::new(owner)) })
}

/// Where the device sees mapped host memory: it is asked for, never assumed.
fn alias(context: &Context, start: NonNull<u8>) -> Result<u64, BackendError> {
    let mut address = 0;
    // SAFETY: the address is stored in our variable; the memory is mapped.
    context.within(|calls| unsafe { calls.host_address(&raw mut address, start.as_ptr().cast(), 0) })?;
    Ok(address)
}

fn too_large(error: BackendError, bytes: u64, place: &'static str) -> Error {
    match error {
        BackendError::Driver { code: OUT_OF_MEMORY, .. } => MemoryError::OutOfMemory { bytes, place }.into(),
        other => other.into(),
    }
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

impl Drop for OnHost {
    fn drop(&mut self) {
        let start = self.start.as_ptr().cast();
        let adopted = self.adopted;
        // SAFETY: as above; it was allocated or registered here.
        let _ = self.context.unrestricted(|calls| unsafe {
            if adopted { calls.host_unregister(start) } else { calls.host_free(start) }
        });
    }
}
