//! Streams: ours, and those of engines.

use std::fmt;
use std::sync::Arc;

use super::Cuda;
use super::calls::{Calls, Handle};
use super::context::Context;
use crate::backends::buffer::Finish;
use crate::error::BackendError;

/// A stream of the driver's: `CUstream`, or `cudaStream_t`, which is the same. Clones are the same stream.
#[derive(Clone)]
pub struct CudaStream {
    stream: Arc<Stream>,
    /// The stream too, as registries know it.
    launches: Arc<dyn Finish>,
}

/// `CU_STREAM_PER_THREAD`.
const PER_THREAD: u64 = 2;
/// `CUDA_ERROR_STREAM_CAPTURE_IMPLICIT`.
const CAPTURE_IMPLICIT: i32 = 906;

/// A stream's handle.
struct Stream {
    context: Arc<Context>,
    handle: Handle,
    /// Whether somebody else destroys it.
    adopted: bool,
}

// SAFETY: the driver takes a stream's handle from any thread.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Cuda {
    /// A new stream, which waits for no other and which no other waits for, not even the default one: that is somebody
    /// else's.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn new_stream(&self) -> Result<CudaStream, BackendError> {
        CudaStream::new(self.context())
    }

    /// Somebody else's stream, such as PyTorch's `torch.cuda.current_stream().cuda_stream`. 0 is the default stream.
    ///
    /// # Safety
    /// 1. It belongs to the primary context of this GPU, and lives as long as the result, its clones, and the registries
    ///    that are passed to launches on it.
    /// 2. Nobody begins a capture of it, or brings it into one, by other means than [`Cuda::capture`] and
    ///    [`CudaStream::wait_for`], while another thread makes a call of this crate that enqueues on it. What the call enqueues
    ///    would go into the graph, and every replay would read again what is only good once. (These two wait for such calls. A
    ///    stream that *is* being captured is refused by them.)
    ///
    /// # Errors
    /// [`BackendError::PerThreadStream`] for stream 2, which is another one in each thread.
    pub unsafe fn adopt_stream(&self, handle: u64) -> Result<CudaStream, BackendError> {
        if handle == PER_THREAD {
            return Err(BackendError::PerThreadStream);
        }
        let handle = std::ptr::without_provenance_mut(handle as usize);
        Ok(CudaStream::of(Stream { context: Arc::clone(self.context()), handle, adopted: true }))
    }
}

impl CudaStream {
    pub(super) fn new(context: &Arc<Context>) -> Result<Self, BackendError> {
        let handle = context.new_stream()?;
        Ok(Self::of(Stream { context: Arc::clone(context), handle, adopted: false }))
    }

    fn of(stream: Stream) -> Self {
        let stream = Arc::new(stream);
        Self { launches: Arc::clone(&stream) as _, stream }
    }

    /// The handle.
    #[must_use]
    pub fn handle(&self) -> u64 {
        self.stream.handle.addr() as u64
    }

    /// Waits until everything on it has finished.
    ///
    /// # Errors
    /// [`BackendError::ContextLost`] where some of it failed, [`BackendError::WaitsForCapture`] while it is being captured.
    pub fn wait(&self) -> Result<(), BackendError> {
        self.stream.wait()
    }

    /// Whether it is being captured into a graph, also where that capture has failed and was not ended yet.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn is_capturing(&self) -> Result<bool, BackendError> {
        self.stream.is_capturing()
    }

    /// Refuses a stream of another GPU than that of `context`.
    pub(super) fn check_gpu(&self, context: &Context) -> Result<(), BackendError> {
        let [expected, found] = [context, self.context()].map(|context| context.facts().ordinal);
        if expected == found { Ok(()) } else { Err(BackendError::OtherGpu { expected, found }) }
    }

    /// Whether it is the default stream.
    pub(super) fn is_default(&self) -> bool {
        self.handle() < PER_THREAD
    }

    /// Whether both are one stream.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.stream.stream() == other.stream.stream()
    }

    /// Makes calls in the stream's context: the default streams of all contexts have one handle.
    pub(super) fn within<T>(
        &self,
        body: impl FnOnce(&Calls, Handle) -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        self.context().within(|calls| body(calls, self.raw()))
    }

    pub(super) fn raw(&self) -> Handle {
        self.stream.handle
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        &self.stream.context
    }

    pub(super) const fn launches(&self) -> &Arc<dyn Finish> {
        &self.launches
    }
}

impl Stream {
    fn is_capturing(&self) -> Result<bool, BackendError> {
        let mut state = 0;
        // SAFETY: the state is stored in our variable; the stream lives.
        let asked =
            self.context.within(|calls| unsafe { calls.stream_capture_state(self.handle, &raw mut state) });
        match asked {
            Ok(()) => Ok(state != 0),
            Err(BackendError::Driver { code: CAPTURE_IMPLICIT, .. }) => Err(BackendError::CapturingAnother),
            Err(error) => Err(error),
        }
    }

    fn wait(&self) -> Result<(), BackendError> {
        // The driver would refuse too, and spoil the capture.
        if self.is_capturing()? {
            return Err(BackendError::WaitsForCapture);
        }
        // SAFETY: the stream lives.
        self.context.unrestricted(|calls| unsafe { calls.stream_synchronize(self.handle) })
    }
}

// SAFETY: (1) a synchronised stream has done all, and a lost context runs nothing more; (2) the driver says so; (3) streams of one
// GPU's primary context with one handle are one, and 0 and 1 the default one.
unsafe impl Finish for Stream {
    fn stream(&self) -> (u32, u64) {
        // 1 is the default stream too.
        let handle = if self.handle.addr() == 1 { 0 } else { self.handle.addr() as u64 };
        (self.context.facts().ordinal, handle)
    }

    fn finish(&self) -> Result<(), BackendError> {
        self.wait()
    }

    fn is_finished(&self) -> bool {
        // To ask after a stream that is being captured would spoil the capture.
        // SAFETY: the stream lives.
        let query = || self.context.unrestricted(|calls| unsafe { calls.stream_query(self.handle) });
        self.is_capturing().is_ok_and(|capturing| !capturing) && query().is_ok()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.adopted {
            // SAFETY: it was made here, and goes once; the driver lets what is on it finish.
            let _ = self.context.within(|calls| unsafe { calls.stream_destroy(self.handle) });
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({:#x})", self.handle.addr())
    }
}

impl fmt::Debug for CudaStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CudaStream({:#x})", self.handle())
    }
}
