//! One GPU: its primary context, and what calls are made in.

use std::ffi::{c_char, c_int};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::batch::Batch;
use super::calls::{Calls, Handle, Ordinal};
use super::driver::CudaDriver;
use super::remote;
use crate::error::BackendError;

/// The primary context of a device, which PyTorch and the CUDA runtime use too. It is retained while this lives.
pub(super) struct Context {
    driver: CudaDriver,
    device: Ordinal,
    handle: Handle,
    facts: Facts,
    /// A stream for bytes that are copied while the host waits. The default stream waits for others, and spoils their
    /// captures.
    copies: Handle,
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
    /// Where it is on the PCI bus: `0000:1B:00.0`.
    pub bus: String,
    /// Tells it from every other GPU.
    pub uuid: [u8; 16],
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
    /// Where there is no such device, or one that cannot run the kernels.
    pub fn open(driver: &CudaDriver, ordinal: u32) -> Result<Arc<Self>, BackendError> {
        let (calls, devices) = (driver.calls(), driver.devices()?);
        let number = c_int::try_from(ordinal).ok().filter(|_| ordinal < devices);
        let number = number.ok_or(BackendError::NoDevice { ordinal, devices })?;
        let mut device = 0;
        // SAFETY: the device is stored in our variable; it exists.
        unsafe { calls.device_get(&raw mut device, number) }?;
        let facts = Facts::ask(calls, device, ordinal)?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: as above.
        unsafe { calls.primary_retain(&raw mut handle, device) }?;
        let (driver, copies) = (driver.clone(), std::ptr::null_mut());
        let mut context = Self { driver, device, handle, facts, copies, lost: AtomicBool::new(false) };
        context.copies = context.new_stream()?;
        Ok(Arc::new(context))
    }

    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The driver's call for many copies, where it has one.
    pub fn batch(&self) -> Option<Batch> {
        self.driver.calls().batch()
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

    /// Makes calls that allocate, free, load, or wait for work of our own: nothing that a replay would have to do again. A
    /// capture that forbids such calls, of this thread or another, does not forbid these, and is not spoiled by them.
    pub fn unrestricted<T>(
        &self,
        body: impl FnOnce(&Calls) -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        /// `CU_STREAM_CAPTURE_MODE_RELAXED`.
        const RELAXED: c_int = 2;
        self.within(|calls| {
            let mut mode = RELAXED;
            // SAFETY: the thread's mode is exchanged with that of our variable, which is a mode.
            unsafe { calls.exchange_capture_mode(&raw mut mode) }?;
            let result = body(calls);
            // SAFETY: as above; what is in there now is the mode from before.
            let restored = unsafe { calls.exchange_capture_mode(&raw mut mode) };
            let value = result?;
            restored.map(|()| value)
        })
    }

    /// Makes calls that copy bytes on a stream of the context's own, and waits for them.
    pub fn copying<T>(
        &self,
        body: impl FnOnce(&Calls, Handle) -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        self.unrestricted(|calls| {
            let enqueued = body(calls, self.copies);
            // Also where one of them failed: the others may still run.
            // SAFETY: the stream lives as long as this.
            let waited = unsafe { calls.stream_synchronize(self.copies) };
            let value = enqueued?;
            waited.map(|()| value)
        })
    }

    /// Makes what others have written into the device's memory visible to launches that follow.
    pub fn settle_remote_writes(&self) -> Result<(), BackendError> {
        self.within(|calls| remote::settle(calls, self.device))
    }

    /// A stream that waits for no other, not even for the default one.
    pub fn new_stream(&self) -> Result<Handle, BackendError> {
        const NON_BLOCKING: u32 = 1;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the handle is stored in our variable.
        let made = self.within(|calls| unsafe { calls.stream_create(&raw mut handle, NON_BLOCKING) });
        if made.is_err() && !handle.is_null() {
            // SAFETY: it was made just now, and nobody has it.
            let _ = self.within(|calls| unsafe { calls.stream_destroy(handle) });
        }
        made.map(|()| handle)
    }

    /// Makes calls in this context. Where it is the thread's current one already, as it is under PyTorch and the CUDA
    /// runtime, that takes one more call, which asks for it.
    fn entered<T>(&self, body: impl FnOnce(&Calls) -> Result<T, BackendError>) -> Result<T, BackendError> {
        let calls = self.driver.calls();
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

    /// Waits for everything that was enqueued in this context. While anything in it is being captured, that is an error,
    /// and spoils the capture.
    pub fn synchronize(&self) -> Result<(), BackendError> {
        // SAFETY: it takes nothing.
        self.within(|calls| unsafe { calls.context_synchronize() })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // What fails here cannot be helped.
        if !self.copies.is_null() {
            // SAFETY: it was made here, and goes once.
            let _ = self.within(|calls| unsafe { calls.stream_destroy(self.copies) });
        }
        // SAFETY: it was retained once.
        let _ = unsafe { self.driver.calls().primary_release(self.device) };
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
        let mut bus: [c_char; 32] = [0; 32];
        let mut uuid = [0; 16];
        let mut memory = 0;
        let mut driver = 0;
        // SAFETY: each call stores into our variable, the texts as many bytes as they are told.
        unsafe {
            calls.device_name(name.as_mut_ptr(), 127, device)?;
            calls.device_bus(bus.as_mut_ptr(), 31, device)?;
            calls.device_uuid(&raw mut uuid, device)?;
            calls.device_memory(&raw mut memory, device)?;
            calls.driver_version(&raw mut driver)?;
        }
        let (name, bus) = (words(&name), words(&bus));
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
            bus,
            uuid,
        })
    }
}

/// A text that ends in a zero.
fn words(text: &[c_char]) -> String {
    let bytes: Vec<u8> =
        text.iter().take_while(|byte| **byte != 0).map(|byte| byte.cast_unsigned()).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
