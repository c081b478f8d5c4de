//! The kernels on a GPU: PTX compiled by the driver, functions by name.

use std::ffi::{CString, c_int, c_void};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pagelift_device::Kernel;
use pagelift_kernels::ptx;

use super::calls::Handle;
use super::context::Context;
use crate::error::BackendError;

/// `CU_JIT_…`.
const ERROR_LOG_BUFFER: c_int = 5;
const ERROR_LOG_BYTES: c_int = 6;
const GENERATE_LINE_INFO: c_int = 13;

/// Bytes of the compiler's log that are kept for a message.
const LOG: usize = 4096;

/// A loaded module. It lives as long as the context: a recorded graph may still launch its functions.
#[derive(Debug)]
pub(super) struct Module {
    handle: Handle,
    /// How long the driver took.
    pub loading: Duration,
    ptx: &'static Ptx,
}

/// PTX, and the oldest devices that it is for.
#[derive(Debug)]
struct Ptx {
    target: &'static str,
    text: &'static str,
}

static SM_80: Ptx = Ptx { target: "sm_80", text: ptx::SM_80 };
static SM_90: Ptx = Ptx { target: "sm_90", text: ptx::SM_90 };

impl Module {
    /// Loads the newest PTX that the device runs.
    pub fn load(context: &Arc<Context>) -> Result<Self, BackendError> {
        let ptx = if context.facts().capability >= (9, 0) { &SM_90 } else { &SM_80 };
        let begun = Instant::now();
        let handle = load(context, ptx.target, ptx.text)?;
        Ok(Self { handle, loading: begun.elapsed(), ptx })
    }

    /// Which PTX it is.
    pub const fn target(&self) -> &'static str {
        self.ptx.target
    }

    /// Tells the PTX from any other.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.ptx.text.hash(&mut hasher);
        hasher.finish()
    }

    /// The function of a kernel.
    pub fn function<K: Kernel>(&self, context: &Context) -> Result<Handle, BackendError> {
        function(context, self.handle, self.target(), K::NAME)
    }
}

/// Has the driver compile and load PTX; `target` is what messages call it. The module stays as long as the context.
pub(super) fn load(context: &Context, target: &'static str, text: &str) -> Result<Handle, BackendError> {
    let image = terminated(target, text)?;
    let mut log = [0_u8; LOG];
    let mut keys = [ERROR_LOG_BUFFER, ERROR_LOG_BYTES, GENERATE_LINE_INFO];
    // Numbers are passed as pointers.
    let number = |number: usize| std::ptr::without_provenance_mut::<c_void>(number);
    let mut values = [log.as_mut_ptr().cast(), number(LOG), number(1)];
    let mut handle = std::ptr::null_mut();
    let loaded = context.unrestricted(|calls| {
        // SAFETY: the image is a text that ends in a zero; there are three options, and the log's buffer has the size that
        // is said.
        unsafe {
            let image = image.as_ptr().cast();
            calls.module_load(&raw mut handle, image, 3, keys.as_mut_ptr(), values.as_mut_ptr())
        }
    });
    match loaded {
        Ok(()) => Ok(handle),
        Err(error @ BackendError::ContextLost { .. }) => Err(error),
        Err(error) => {
            let log: Vec<u8> = log.into_iter().take_while(|byte| *byte != 0).collect();
            let log = String::from_utf8_lossy(&log).into_owned();
            Err(BackendError::Module { target, log: format!("{error} {log}") })
        }
    }
}

/// A function of a loaded module.
pub(super) fn function(
    context: &Context,
    module: Handle,
    target: &'static str,
    name: &str,
) -> Result<Handle, BackendError> {
    let name = terminated(target, name)?;
    let mut function = std::ptr::null_mut();
    context.unrestricted(|calls| {
        // SAFETY: the module is loaded; the name is a text that ends in a zero.
        unsafe { calls.module_function(&raw mut function, module, name.as_ptr()) }
    })?;
    Ok(function)
}

/// A text that ends in a zero.
fn terminated(target: &'static str, text: &str) -> Result<CString, BackendError> {
    CString::new(text).map_err(|_| BackendError::Module { target, log: "a zero byte".into() })
}
