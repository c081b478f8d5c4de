//! A graph that does nothing: what any replay costs at least.

use std::sync::Arc;

use super::calls::Handle;
use super::context::Context;
use super::{CaptureMode, Cuda, CudaGraph, CudaStream};
use crate::error::{BackendError, Error};

/// A kernel that returns at once.
const PTX: &std::ffi::CStr = c"
.version 7.0
.target sm_80
.address_size 64
.visible .entry pagelift_empty() { ret; }
";

impl Cuda {
    /// A graph of one kernel that does nothing. What a replay of it takes, a replay of any kernel takes too: launches are
    /// measured against it.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn empty_graph(&self, stream: &CudaStream) -> Result<CudaGraph, Error> {
        let function = load(&self.context)?;
        let launch = || {
            let (arguments, extra) = (std::ptr::null_mut(), std::ptr::null_mut());
            // SAFETY: the kernel has no parameters, and touches nothing.
            self.context.within(|calls| unsafe {
                calls.launch(function, 1, 1, 1, 32, 1, 1, 0, stream.raw(), arguments, extra)
            })?;
            Ok(())
        };
        Ok(self.capture(stream, CaptureMode::ThreadLocal, launch)?.0)
    }
}

/// The kernel's function. Its module stays as long as the context, as graphs may.
fn load(context: &Arc<Context>) -> Result<Handle, BackendError> {
    let (mut module, mut function) = (std::ptr::null_mut(), std::ptr::null_mut());
    context.unrestricted(|calls| {
        let (keys, values) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: image and name are texts that end in a zero, there are no options, and the handles are stored in our
        // variables.
        unsafe {
            calls.module_load(&raw mut module, PTX.as_ptr().cast(), 0, keys, values)?;
            calls.module_function(&raw mut function, module, c"pagelift_empty".as_ptr())
        }
    })?;
    Ok(function)
}
