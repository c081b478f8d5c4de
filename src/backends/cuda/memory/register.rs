//! Host memory that the driver pins and maps where it lies.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use crate::backends::Reach;
use crate::backends::cuda::context::Context;
use crate::backends::pool::{Registrar, node};
use crate::error::{BackendError, Error, MemoryError};

/// `CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP`.
const PORTABLE_MAPPED: u32 = 1 | 2;

/// `CU_POINTER_ATTRIBUTE_…`.
const MEMORY_TYPE: c_int = 2;
const IS_MANAGED: c_int = 8;
const ORDINAL: c_int = 9;
const RANGE_START: c_int = 11;
const RANGE_BYTES: c_int = 12;
/// `CU_MEMORYTYPE_HOST`.
const HOST: u32 = 1;
/// `CU_MEMORYTYPE_DEVICE`.
const DEVICE: u32 = 2;

/// What is asked about address by address, where the driver tells no range.
const PAGE: usize = 4096;

// SAFETY: (1) registrations are mapped and portable, and the driver is asked for their address; (2) the driver registers what it is
// told, and what fails afterwards is undone; (3) the driver is asked.
unsafe impl Registrar for Context {
    /// Of every GPU: registrations are portable.
    fn reach(&self) -> Reach {
        Reach::Mapped
    }

    fn node(&self) -> Option<u32> {
        node::of_device(&self.facts().bus)
    }

    unsafe fn register(&self, start: NonNull<u8>, bytes: usize) -> Result<(), BackendError> {
        let mut done = false;
        let registered = self.unrestricted(|calls| {
            // SAFETY: the memory is valid (1).
            unsafe { calls.host_register(start.as_ptr().cast(), bytes, PORTABLE_MAPPED) }?;
            done = true;
            Ok(())
        });
        if done && registered.is_err() {
            // Something went wrong after that: the caller is told that it is not registered, and so it is not.
            // SAFETY: (1) it was registered just now; (2) nobody knows.
            let _ = unsafe { self.unregister(start) };
        }
        registered
    }

    unsafe fn unregister(&self, start: NonNull<u8>) -> Result<(), BackendError> {
        // SAFETY: it was registered (1), and nothing uses it any more (2).
        self.unrestricted(|calls| unsafe { calls.host_unregister(start.as_ptr().cast()) })
    }

    fn alias(&self, start: NonNull<u8>) -> Result<u64, BackendError> {
        alias(self, start)
    }

    fn registered(&self, at: usize, end: usize) -> Result<Option<usize>, BackendError> {
        let mut reached = at;
        while reached < end {
            match self.known(reached)? {
                // A range that the driver tells is one registration, and it ends there.
                Some(Some(known_end)) if reached == at => return Ok(Some(known_end.min(end))),
                Some(_) => reached = (reached / PAGE + 1).saturating_mul(PAGE),
                None => break,
            }
        }
        Ok((reached > at).then(|| reached.min(end)))
    }
}

impl Context {
    /// Whether host memory at an address is pinned, and where its range ends as far as the driver tells that. The call says
    /// of unknown addresses that they are unknown, and leaves no error behind.
    fn known(&self, at: usize) -> Result<Option<Option<usize>>, BackendError> {
        let (mut kind, mut managed, mut start, mut bytes) = (0_u32, 0_u32, 0_usize, 0_usize);
        let mut keys = [MEMORY_TYPE, IS_MANAGED, RANGE_START, RANGE_BYTES];
        let mut values: [*mut c_void; 4] = [
            (&raw mut kind).cast(),
            (&raw mut managed).cast(),
            (&raw mut start).cast(),
            (&raw mut bytes).cast(),
        ];
        // SAFETY: there are four attributes, and each value has its attribute's size; only the address itself is looked at.
        self.within(|calls| unsafe {
            calls.pointer_attributes(4, keys.as_mut_ptr(), values.as_mut_ptr(), at as u64)
        })?;
        let end = start.checked_add(bytes).filter(|end| (start..*end).contains(&at));
        Ok((kind == HOST && managed == 0).then_some(end))
    }
}

/// Refuses a range whose first or last byte the GPU does not reach.
pub fn check_reach(context: &Context, start: u64, bytes: u64) -> Result<(), Error> {
    let (gpu, end) = (context.facts().ordinal, start.saturating_add(bytes));
    for at in [start, end.saturating_sub(1).max(start)] {
        let (mut kind, mut managed, mut ordinal) = (0_u32, 0_u32, 0_i32);
        let mut keys = [MEMORY_TYPE, IS_MANAGED, ORDINAL];
        let mut values: [*mut c_void; 3] =
            [(&raw mut kind).cast(), (&raw mut managed).cast(), (&raw mut ordinal).cast()];
        // SAFETY: there are three attributes, and each value has its attribute's size; only the address itself is looked at.
        context.within(|calls| unsafe {
            calls.pointer_attributes(3, keys.as_mut_ptr(), values.as_mut_ptr(), at)
        })?;
        let found = match kind {
            // What is mapped for one GPU is mapped for all, and managed memory goes where it is used.
            HOST => continue,
            _ if managed != 0 => continue,
            DEVICE => u32::try_from(ordinal).ok(),
            _ => None,
        };
        if found != Some(gpu) {
            return Err(MemoryError::NotOnGpu { start, end, gpu, at, found }.into());
        }
    }
    Ok(())
}

/// Where the device sees mapped host memory: it is asked for, never assumed.
pub fn alias(context: &Context, start: NonNull<u8>) -> Result<u64, BackendError> {
    let mut address = 0;
    // SAFETY: the address is stored in our variable; the memory is mapped.
    context.within(|calls| unsafe { calls.host_address(&raw mut address, start.as_ptr().cast(), 0) })?;
    Ok(address)
}
