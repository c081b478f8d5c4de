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
const INFO_LOG_BUFFER: c_int = 3;
const INFO_LOG_BYTES: c_int = 4;
const ERROR_LOG_BUFFER: c_int = 5;
const ERROR_LOG_BYTES: c_int = 6;
const LOG_VERBOSE: c_int = 12;
const GENERATE_LINE_INFO: c_int = 13;

/// Bytes of each of the compiler's logs that are kept.
const LOG: usize = 4096;

/// A loaded module. It lives as long as the context: a recorded graph may still launch its functions.
#[derive(Debug)]
pub(super) struct Module {
    handle: Handle,
    pub loading: Box<Loading>,
    ptx: &'static Ptx,
}

/// How the driver loaded a module.
#[derive(Debug)]
pub(super) struct Loading {
    /// How long it took.
    pub time: Duration,
    /// What its compiler had to say.
    pub log: String,
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
        let (handle, log) = load(context, ptx.target, ptx.text)?;
        Ok(Self { handle, loading: Box::new(Loading { time: begun.elapsed(), log }), ptx })
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

/// Has the driver compile and load PTX; `target` is what messages call it. The module stays as long as the context; beside it
/// comes what the compiler had to say.
pub(super) fn load(
    context: &Context,
    target: &'static str,
    text: &str,
) -> Result<(Handle, String), BackendError> {
    let image = terminated(target, text)?;
    let (mut info, mut errors) = ([0_u8; LOG], [0_u8; LOG]);
    // Numbers are passed as pointers.
    let number = |number: usize| std::ptr::without_provenance_mut::<c_void>(number);
    let options: [(c_int, *mut c_void); 6] = [
        (INFO_LOG_BUFFER, info.as_mut_ptr().cast()),
        (INFO_LOG_BYTES, number(LOG)),
        (ERROR_LOG_BUFFER, errors.as_mut_ptr().cast()),
        (ERROR_LOG_BYTES, number(LOG)),
        (LOG_VERBOSE, number(1)),
        (GENERATE_LINE_INFO, number(1)),
    ];
    let (mut keys, mut values) = (options.map(|(key, _)| key), options.map(|(_, value)| value));
    let mut handle = std::ptr::null_mut();
    let loaded = context.unrestricted(|calls| {
        // SAFETY: the image is a text that ends in a zero; there are six options, and the logs' buffers have the size that is
        // said.
        unsafe {
            let image = image.as_ptr().cast();
            calls.module_load(&raw mut handle, image, 6, keys.as_mut_ptr(), values.as_mut_ptr())
        }
    });
    match loaded {
        Ok(()) => Ok((handle, written(&info))),
        Err(error @ BackendError::ContextLost { .. }) => Err(error),
        Err(error) => Err(BackendError::Module { target, log: format!("{error} {}", written(&errors)) }),
    }
}

/// What was written into a log, up to its first zero.
fn written(log: &[u8]) -> String {
    let text = log.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).trim().to_owned()
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
