//! The NVIDIA driver, opened.

use std::ffi::{c_int, c_void};
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use super::calls::{Calls, Symbols};
use crate::error::BackendError;

/// `CUDA_ERROR_NO_DEVICE`: a driver without a GPU.
const NO_DEVICE: c_int = 100;
/// `CUDA_ERROR_NOT_INITIALIZED`: what calls say after that.
const NOT_INITIALIZED: c_int = 3;

/// The NVIDIA driver of this machine. Clones are the same one.
///
/// ```
/// use pagelift::backends::{Cuda, CudaDriver};
/// if let Ok(driver) = CudaDriver::open() {
///     for ordinal in 0..driver.devices()? {
///         println!("{:?}", Cuda::open_with(&driver, ordinal));
///     }
/// }
/// # Ok::<(), pagelift::Error>(())
/// ```
#[derive(Clone)]
pub struct CudaDriver(Arc<Calls>);

impl CudaDriver {
    /// Opens the driver's library, and looks up every call that is made later.
    ///
    /// # Errors
    /// [`BackendError::NoDriver`] where it is not installed or lacks a call, and what it says when it is initialised.
    pub fn open() -> Result<Self, BackendError> {
        // SAFETY: (1) this is the driver's library, and stays open.
        unsafe { Self::new(Symbols::open()?) }
    }

    /// Takes the driver's calls from somebody else: from a library at another place, from what records or simulates them.
    /// `symbol` is asked for each by its name in the library, such as `cuLaunchKernel`.
    ///
    /// # Safety
    /// 1. What it returns is a function of the signature that the driver's manual gives the symbol, keeps that manual's
    ///    promises, and stays as long as this and what is made with it.
    ///
    /// # Errors
    /// As [`CudaDriver::open`].
    pub unsafe fn from_symbols(
        symbol: impl Fn(&str) -> Option<NonNull<c_void>>,
    ) -> Result<Self, BackendError> {
        // SAFETY: (1) is ours.
        unsafe { Self::new(Symbols::Given(&symbol)) }
    }

    /// # Safety
    /// 1. As [`Calls::find`].
    unsafe fn new(symbols: Symbols<'_>) -> Result<Self, BackendError> {
        // SAFETY: (1) is ours.
        let calls = unsafe { Calls::find(symbols) }?;
        // SAFETY: 0 is the only flag there is.
        match unsafe { calls.init(0) } {
            // There may be none: that is said when one is asked for.
            Ok(()) | Err(BackendError::Driver { code: NO_DEVICE, .. }) => Ok(Self(Arc::new(calls))),
            Err(error) => Err(error),
        }
    }

    /// How many GPUs there are.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn devices(&self) -> Result<u32, BackendError> {
        let mut count = 0;
        // SAFETY: the count is stored in our variable.
        match unsafe { self.0.device_count(&raw mut count) } {
            Ok(()) => Ok(count.unsigned_abs()),
            Err(BackendError::Driver { code: NO_DEVICE | NOT_INITIALIZED, .. }) => Ok(0),
            Err(error) => Err(error),
        }
    }

    pub(super) fn calls(&self) -> &Calls {
        &self.0
    }
}

impl fmt::Debug for CudaDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CudaDriver({:?} GPUs)", self.devices().ok())
    }
}
