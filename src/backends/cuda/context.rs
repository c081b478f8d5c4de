//! One GPU: its primary context, and what calls are made in.

use std::ffi::{c_char, c_int};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::calls::{Calls, Handle, Ordinal};
use crate::backends::buffer::Finish;
use crate::error::BackendError;

/// The primary context of a device, which PyTorch and the CUDA runtime use too. It is retained while this lives.
pub(super) struct Context {
    calls: Calls,
    device: Ordinal,
    handle: Handle,
    facts: Facts,
    /// A fault has taken the context: nothing works any more, nothing is freed any more.
    lost: AtomicBool,
}

// SAFETY: the driver's calls may be made from any thread, with handles that any thread made.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// What a device is.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub ordinal: u32,
    pub name: String,
    /// Major and minor.
    pub capability: (u32, u32),
    pub multiprocessors: u32,
    pub memory: u64,
    /// As the driver says it: 13000 for 13.0.
    pub driver: u32,
}

/// `CU_DEVICE_ATTRIBUTE_…`.
const MULTIPROCESSORS: c_int = 16;
const MAP_HOST_MEMORY: c_int = 19;
const CAPABILITY_MAJOR: c_int = 75;
const CAPABILITY_MINOR: c_int = 76;

impl Context {
    /// Retains the primary context of device `ordinal`.
    ///
    /// # Errors
    /// Where there is no driver, no such device, or one that cannot run the kernels.
    pub fn open(ordinal: u32) -> Result<Arc<Self>, BackendError> {
        let calls = Calls::open()?;
        // SAFETY: 0 is the only flag there is.
        unsafe { calls.init(0) }?;
        let mut count = 0;
        // SAFETY: the count is stored in our variable.
        unsafe { calls.device_count(&raw mut count) }?;
        let number = c_int::try_from(ordinal).ok().filter(|number| *number < count);
        let number = number.ok_or(BackendError::NoDevice { ordinal, devices: count.unsigned_abs() })?;
        let mut device = 0;
        // SAFETY: as above; the device exists.
        unsafe { calls.device_get(&raw mut device, number) }?;
        let facts = Facts::ask(&calls, device, ordinal)?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: as above.
        unsafe { calls.primary_retain(&raw mut handle, device) }?;
        Ok(Arc::new(Self { calls, device, handle, facts, lost: AtomicBool::new(false) }))
    }

    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Whether a fault has taken the context.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Makes calls in this context, whatever the thread's current one is, which it is again afterwards.
    pub fn within<T>(&self, body: impl FnOnce(&Calls) -> Result<T, BackendError>) -> Result<T, BackendError> {
        if self.is_lost() {
            return Err(BackendError::ContextGone);
        }
        let result = self.entered(body);
        if let Err(BackendError::ContextLost { .. }) = result {
            self.lost.store(true, Ordering::Relaxed);
        }
        result
    }

    /// Makes calls in this context. Where it is the thread's current one already, as it is under PyTorch and the CUDA
    /// runtime, that takes one more call, which asks for it.
    fn entered<T>(&self, body: impl FnOnce(&Calls) -> Result<T, BackendError>) -> Result<T, BackendError> {
        let calls = &self.calls;
        let mut current = std::ptr::null_mut();
        // SAFETY: the handle is stored in our variable.
        unsafe { calls.context_current(&raw mut current) }?;
        if current == self.handle {
            return body(calls);
        }
        // SAFETY: the context is retained.
        unsafe { calls.context_push(self.handle) }?;
        let result = body(calls);
        // SAFETY: we pushed it just now; what is popped is stored in our variable.
        let popped = unsafe { calls.context_pop(&raw mut current) };
        let value = result?;
        popped.map(|()| value)
    }

    /// Waits for everything that was enqueued in this context.
    pub fn synchronize(&self) -> Result<(), BackendError> {
        // SAFETY: it takes nothing.
        self.within(|calls| unsafe { calls.context_synchronize() })
    }
}

impl Finish for Context {
    fn finish(&self) -> Result<(), BackendError> {
        self.synchronize()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it was retained once. What fails here cannot be helped.
        let _ = unsafe { self.calls.primary_release(self.device) };
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context({:?})", self.facts)
    }
}

impl Facts {
    fn ask(calls: &Calls, device: Ordinal, ordinal: u32) -> Result<Self, BackendError> {
        let attribute = |attribute: c_int| {
            let mut value = 0;
            // SAFETY: the value is stored in our variable.
            unsafe { calls.device_attribute(&raw mut value, attribute, device) }?;
            Ok::<_, BackendError>(value.unsigned_abs())
        };
        let mut name: [c_char; 128] = [0; 128];
        let mut memory = 0;
        let mut driver = 0;
        // SAFETY: each call stores into our variable, the name as many bytes as it is told.
        unsafe {
            calls.device_name(name.as_mut_ptr(), 127, device)?;
            calls.device_memory(&raw mut memory, device)?;
            calls.driver_version(&raw mut driver)?;
        }
        let name: Vec<u8> =
            name.iter().take_while(|byte| **byte != 0).map(|byte| byte.cast_unsigned()).collect();
        let name = String::from_utf8_lossy(&name).into_owned();
        let capability = (attribute(CAPABILITY_MAJOR)?, attribute(CAPABILITY_MINOR)?);
        if capability < (8, 0) {
            let needs = "compute capability 8.0 or later";
            return Err(BackendError::Device { name, needs });
        }
        if attribute(MAP_HOST_MEMORY)? == 0 {
            return Err(BackendError::Device { name, needs: "host memory that can be mapped" });
        }
        Ok(Self {
            ordinal,
            name,
            capability,
            multiprocessors: attribute(MULTIPROCESSORS)?,
            memory: memory as u64,
            driver: driver.unsigned_abs(),
        })
    }
}
