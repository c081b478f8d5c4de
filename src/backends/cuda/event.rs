//! Points in a stream: for times between them, and for streams that wait for each other.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::calls::Handle;
use super::context::Context;
use super::{Cuda, CudaStream};
use crate::backends::begin_capture;
use crate::error::BackendError;

/// `CUDA_ERROR_NOT_READY`.
const NOT_READY: i32 = 600;
/// `CU_EVENT_DEFAULT`.
const TIMED: u32 = 0;
/// `CU_EVENT_DISABLE_TIMING`.
const UNTIMED: u32 = 2;

/// A point in a stream.
///
/// ```no_run
/// # fn times(gpu: &pagelift::backends::Cuda) -> Result<(), pagelift::error::BackendError> {
/// # use pagelift::backends::Backend;
/// let (begun, done) = (gpu.event()?, gpu.event()?);
/// let stream = gpu.stream();
/// begun.record(&stream)?;
/// // … work on the stream …
/// done.record(&stream)?;
/// println!("{:?}", done.elapsed_since(&begun)?);
/// # Ok(())
/// # }
/// ```
///
/// A branch of a capture is forked and joined by events too: the branch [waits](CudaStream::wait_for) for an event of the
/// stream that is being captured, and that stream waits for one of the branch before the capture ends.
pub struct CudaEvent {
    context: Arc<Context>,
    handle: Handle,
    timed: bool,
}

// SAFETY: the driver takes an event's handle from any thread.
unsafe impl Send for CudaEvent {}
// SAFETY: as above.
unsafe impl Sync for CudaEvent {}

impl Cuda {
    /// A new event, recorded nowhere yet.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn event(&self) -> Result<CudaEvent, BackendError> {
        self.new_event(TIMED)
    }

    /// The same without a time, for which a GPU does not stop to look at its clock.
    pub(super) fn untimed_event(&self) -> Result<CudaEvent, BackendError> {
        self.new_event(UNTIMED)
    }

    fn new_event(&self, flags: u32) -> Result<CudaEvent, BackendError> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the handle is stored in our variable; the flags are some that the driver has.
        self.context.within(|calls| unsafe { calls.event_create(&raw mut handle, flags) })?;
        Ok(CudaEvent { context: Arc::clone(&self.context), handle, timed: flags == TIMED })
    }
}

impl CudaEvent {
    /// Moves the event to the present end of a stream of its GPU.
    ///
    /// # Errors
    /// [`BackendError::OtherGpu`], and those of the driver.
    pub fn record(&self, stream: &CudaStream) -> Result<(), BackendError> {
        stream.check_gpu(&self.context)?;
        // SAFETY: event and stream live.
        stream.within(|calls, stream| unsafe { calls.event_record(self.handle, stream) })
    }

    /// Whether the stream has passed the event; also where it was recorded nowhere.
    ///
    /// # Errors
    /// [`BackendError::ContextLost`] where what is before it failed.
    pub fn is_passed(&self) -> Result<bool, BackendError> {
        // SAFETY: the event lives.
        match self.context.unrestricted(|calls| unsafe { calls.event_query(self.handle) }) {
            Ok(()) => Ok(true),
            Err(BackendError::Driver { code: NOT_READY, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits until the stream has passed the event.
    ///
    /// # Errors
    /// As [`CudaEvent::is_passed`].
    pub fn wait(&self) -> Result<(), BackendError> {
        // SAFETY: the event lives.
        self.context.unrestricted(|calls| unsafe { calls.event_synchronize(self.handle) })
    }

    /// Waits for this event, and returns the device's time between an earlier one and it, to about half a microsecond.
    ///
    /// # Errors
    /// [`BackendError::NoTime`] where one of them was made without; the driver's where one was recorded nowhere, or while a stream
    /// was being captured; and as [`CudaEvent::is_passed`].
    pub fn elapsed_since(&self, earlier: &Self) -> Result<Duration, BackendError> {
        if !(self.timed && earlier.timed) {
            return Err(BackendError::NoTime);
        }
        self.wait()?;
        let mut milliseconds = 0.0_f32;
        // SAFETY: the time is stored in our variable; both events live.
        self.context.within(|calls| unsafe {
            calls.event_elapsed(&raw mut milliseconds, earlier.handle, self.handle)
        })?;
        Ok(Duration::try_from_secs_f64(f64::from(milliseconds) / 1e3).unwrap_or_default())
    }
}

impl CudaStream {
    /// Lets what is enqueued from now on wait for an event, of whichever stream and GPU. The event of a capture brings this stream
    /// into that, so that this waits, as [`Cuda::capture`] does, for calls of other threads that enqueue what no graph may hold.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn wait_for(&self, event: &CudaEvent) -> Result<(), BackendError> {
        let _others = begin_capture();
        self.comes_after(event)
    }

    /// The same, of an event that is no capture's.
    pub(super) fn comes_after(&self, event: &CudaEvent) -> Result<(), BackendError> {
        // SAFETY: event and stream live; 0 is the usual wait.
        self.within(|calls, stream| unsafe { calls.stream_wait(stream, event.handle, 0) })
    }
}

impl Drop for CudaEvent {
    fn drop(&mut self) {
        // SAFETY: it was made here, and goes once; the driver keeps it as long as a stream needs it.
        let _ = self.context.within(|calls| unsafe { calls.event_destroy(self.handle) });
    }
}

impl fmt::Debug for CudaEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CudaEvent({:#x})", self.handle.addr())
    }
}
