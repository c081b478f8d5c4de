//! Work that is recorded once and replayed.

use std::sync::Arc;

use super::calls::Handle;
use super::context::Context;
use super::{Cuda, CudaStream};
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
    /// Records what `body` enqueues on `stream` into a graph, and runs nothing of it.
    ///
    /// # Errors
    /// Those of `body`, and of the driver where something was enqueued that cannot be recorded.
    pub fn capture<T>(
        &self,
        stream: &CudaStream,
        mode: CaptureMode,
        body: impl FnOnce() -> Result<T, Error>,
    ) -> Result<(CudaGraph, T), Error> {
        let mode = match mode {
            CaptureMode::Global => 0,
            CaptureMode::ThreadLocal => 1,
            CaptureMode::Relaxed => 2,
        };
        // SAFETY: the stream lives, and the mode is one of the three.
        self.context.within(|calls| unsafe { calls.begin_capture(stream.raw(), mode) })?;
        let result = body();
        let mut graph = std::ptr::null_mut();
        // The capture ends, whatever became of its body.
        // SAFETY: the graph is stored in our variable.
        let ended = self.context.within(|calls| unsafe { calls.end_capture(stream.raw(), &raw mut graph) });
        let mut recorded =
            CudaGraph { context: Arc::clone(&self.context), graph, executable: std::ptr::null_mut() };
        let result = result?;
        ended?;
        // SAFETY: as above; 0 asks for nothing special.
        self.context.within(|calls| unsafe { calls.instantiate(&raw mut recorded.executable, graph, 0) })?;
        Ok((recorded, result))
    }
}

impl CudaGraph {
    /// Runs the recorded work once more, after what is on the stream. It returns before that has finished.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn replay(&mut self, stream: &CudaStream) -> Result<(), BackendError> {
        // SAFETY: the graph is instantiated. What its kernels may touch, those who recorded them have promised.
        self.context.within(|calls| unsafe { calls.graph_launch(self.executable, stream.raw()) })
    }
}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        // SAFETY: both were made here, if they were made, and go once; the driver lets replays finish.
        let _ = self.context.within(|calls| unsafe {
            if !self.executable.is_null() {
                calls.executable_destroy(self.executable)?;
            }
            if self.graph.is_null() { Ok(()) } else { calls.graph_destroy(self.graph) }
        });
    }
}
