//! Work that is recorded once and replayed.

use std::sync::Arc;

use super::calls::Handle;
use super::context::Context;
use super::{Cuda, CudaStream};
use crate::backends::{begin_capture, range};
use crate::error::{BackendError, Error};

/// Which other calls a capture forbids while it lasts; the driver's manual has the lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CaptureMode {
    /// Potentially unsafe calls of any thread.
    Global,
    /// Those of the thread that captures.
    #[default]
    ThreadLocal,
    /// None.
    Relaxed,
}

/// A recorded graph, ready to be replayed.
#[derive(Debug)]
pub struct CudaGraph {
    context: Arc<Context>,
    graph: Handle,
    executable: Handle,
}

// SAFETY: the driver takes the handles from any thread; replaying takes `&mut self`, as one executable graph must not be
// launched by two threads at once.
unsafe impl Send for CudaGraph {}

impl Cuda {
    /// Records what `body` enqueues on `stream` into a graph, and runs nothing of it. Before it begins it waits for calls of other
    /// threads that enqueue what no graph may hold.
    ///
    /// # Errors
    /// Those of `body`, and of the driver where something was enqueued that cannot be recorded; [`BackendError::OtherGpu`].
    pub fn capture<T>(
        &self,
        stream: &CudaStream,
        mode: CaptureMode,
        body: impl FnOnce() -> Result<T, Error>,
    ) -> Result<(CudaGraph, T), Error> {
        stream.check_gpu(self.context())?;
        let mut capture = Capture::begin(stream, mode)?;
        let result = body();
        let graph = capture.end();
        let result = result?;
        let mut graph = graph?;
        graph.instantiate()?;
        Ok((graph, result))
    }
}

/// A capture that has begun, and ends whatever becomes of it.
struct Capture<'s> {
    stream: &'s CudaStream,
    ended: bool,
}

impl<'s> Capture<'s> {
    fn begin(stream: &'s CudaStream, mode: CaptureMode) -> Result<Self, BackendError> {
        let mode = match mode {
            CaptureMode::Global => 0,
            CaptureMode::ThreadLocal => 1,
            CaptureMode::Relaxed => 2,
        };
        let _others = begin_capture();
        // Of somebody else's capture nothing is ended here.
        let was_free = match stream.is_capturing() {
            Err(BackendError::CapturingAnother) => false,
            captured => !captured?,
        };
        // SAFETY: the stream lives, and the mode is one of the three.
        let begun = stream.within(|calls, handle| unsafe { calls.begin_capture(handle, mode) });
        // A call that fails may have begun one all the same: it ends with this.
        let ours = begun.is_ok() || was_free && matches!(stream.is_capturing(), Ok(true));
        let capture = ours.then(|| Self { stream, ended: false });
        begun?;
        capture.ok_or(BackendError::NotCapturing)
    }

    fn end(&mut self) -> Result<CudaGraph, BackendError> {
        let graph = end(self.stream);
        self.ended = graph.is_ok();
        graph
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        // Its body panicked, or the end failed, perhaps before it ended anything: whoever uses the stream next finds one
        // that takes work.
        if !self.ended {
            let _ = end(self.stream);
        }
    }
}

/// Ends the capture of a stream.
fn end(stream: &CudaStream) -> Result<CudaGraph, BackendError> {
    let context = stream.context();
    let mut graph = std::ptr::null_mut();
    // SAFETY: the graph is stored in our variable.
    let ended = stream.within(|calls, stream| unsafe { calls.end_capture(stream, &raw mut graph) });
    let graph = CudaGraph { context: Arc::clone(context), graph, executable: std::ptr::null_mut() };
    ended.map(|()| graph)
}

impl CudaGraph {
    fn instantiate(&mut self) -> Result<(), BackendError> {
        // SAFETY: the executable is stored in our field; 0 asks for nothing special.
        self.context
            .unrestricted(|calls| unsafe { calls.instantiate(&raw mut self.executable, self.graph, 0) })
    }

    /// Runs the recorded work once more, after what is on a stream of its GPU. It returns before that has finished.
    ///
    /// # Errors
    /// [`BackendError::OtherGpu`], and those of the driver.
    pub fn replay(&mut self, stream: &CudaStream) -> Result<(), BackendError> {
        let _range = range(format_args!("replay"), 0);
        stream.check_gpu(&self.context)?;
        // SAFETY: the graph is instantiated. What its kernels may touch, those who recorded them have promised.
        stream.within(|calls, stream| unsafe { calls.graph_launch(self.executable, stream) })
    }
}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        if !self.executable.is_null() {
            // SAFETY: it was made here, and goes once; the driver lets replays finish.
            let _ = self.context.within(|calls| unsafe { calls.executable_destroy(self.executable) });
        }
        if !self.graph.is_null() {
            // SAFETY: as above.
            let _ = self.context.within(|calls| unsafe { calls.graph_destroy(self.graph) });
        }
    }
}
