//! A backend some of whose calls fail when they are told to.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use pagelift::Error;
use pagelift::backends::{Backend, Buffer, Finish, Kernel, LaunchWork, Reach, Registrar};
use pagelift::error::BackendError;
use pagelift::geometry::Memory;

use crate::message::Fault;

/// A backend whose calls fail now and then.
#[derive(Clone, Debug)]
pub struct Faulty<B> {
    inner: B,
    fault: Arc<AtomicU8>,
}

impl<B: Backend> Faulty<B> {
    /// A backend whose calls do not fail yet.
    pub fn new(inner: B) -> Self {
        Self { inner, fault: Arc::default() }
    }

    /// What fails from now on.
    pub fn set(&self, fault: Fault) {
        self.fault.store(fault as u8, Ordering::Relaxed);
    }

    fn fails(&self, fault: Fault) -> Result<(), BackendError> {
        if self.fault.load(Ordering::Relaxed) == fault as u8 {
            let cause = format!("simulated: {fault:?}");
            return Err(BackendError::Threads { threads: 1, cause });
        }
        Ok(())
    }
}

#[allow(unsafe_code, reason = "a backend passes conditions on")]
// SAFETY: (1 to 7) those of `B`, which does all or is not asked.
unsafe impl<B: Backend> Backend for Faulty<B> {
    type Stream = B::Stream;

    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn stream(&self) -> B::Stream {
        self.inner.stream()
    }

    fn allocate(&self, place: Memory, bytes: u64) -> Result<Buffer, Error> {
        self.inner.allocate(place, bytes)
    }

    fn reach(&self) -> Reach {
        self.inner.reach()
    }

    fn registrar(&self) -> Arc<dyn Registrar> {
        self.inner.registrar()
    }

    fn in_flight<'s>(&self, stream: &'s B::Stream) -> Option<&'s Arc<dyn Finish>> {
        self.inner.in_flight(stream)
    }

    fn is_lost(&self) -> bool {
        self.inner.is_lost()
    }

    fn wait(&self, stream: &B::Stream) -> Result<(), BackendError> {
        self.inner.wait(stream)
    }

    fn suited(&self, work: LaunchWork) -> Option<NonZeroU32> {
        self.inner.suited(work)
    }

    fn is_capturing(&self, stream: &B::Stream) -> Result<bool, BackendError> {
        self.inner.is_capturing(stream)
    }

    fn chain(&self, stream: &B::Stream, next: &B::Stream) -> Result<(), BackendError> {
        self.inner.chain(stream, next)
    }

    unsafe fn upload(
        &self,
        stream: &B::Stream,
        from: &Buffer,
        to: &mut Buffer,
        bytes: usize,
    ) -> Result<(), BackendError> {
        self.fails(Fault::Uploads)?;
        // SAFETY: (1) is ours.
        unsafe { self.inner.upload(stream, from, to, bytes) }
    }

    unsafe fn clear(&self, stream: &B::Stream, buffer: &mut Buffer) -> Result<(), BackendError> {
        // SAFETY: (1) is ours.
        unsafe { self.inner.clear(stream, buffer) }
    }

    unsafe fn launch(
        &self,
        stream: &B::Stream,
        workers: Option<NonZeroU32>,
        kernel: Kernel,
    ) -> Result<(), BackendError> {
        match kernel {
            Kernel::CopyPages(_) => self.fails(Fault::Pages)?,
            Kernel::CopyRows(_) => self.fails(Fault::Rows)?,
            Kernel::ApplyMap(_) => self.fails(Fault::Maps)?,
            Kernel::Digest(_) => {}
        }
        // SAFETY: (1) is ours.
        unsafe { self.inner.launch(stream, workers, kernel) }
    }
}
