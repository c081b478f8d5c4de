//! The driver's calls: opened at run time, each looked up before any is made.
//!
//! No toolkit is needed to build this, and a program that has it starts on a machine without a driver. The signatures
//! follow NVIDIA's *CUDA Driver API* reference manual; names with `_v2` and the like are those that its header gives to
//! the plain ones.

use std::error::Error as _;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::NonNull;

use libloading::Library;

use super::batch::Batch;
use super::remote::{self, Flush};
use crate::error::BackendError;

/// A device's number, `CUdevice`.
pub(super) type Ordinal = c_int;
/// An opaque handle: `CUcontext`, `CUmodule`, `CUfunction`, `CUstream`, `CUevent`, `CUgraph`, `CUgraphExec`.
pub(super) type Handle = *mut c_void;
/// A device address, `CUdeviceptr`.
pub(super) type Address = u64;

/// The library of the driver.
const LIBRARY: &str = "libcuda.so.1";

/// A call that says an error in words.
type Words = unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int;

/// The driver's library, or what stands in for it.
pub(super) enum Symbols<'a> {
    Library(Library),
    Given(&'a dyn Fn(&str) -> Option<NonNull<c_void>>),
}

impl Symbols<'_> {
    /// Opens the driver's library.
    ///
    /// # Errors
    /// [`BackendError::NoDriver`] where it is not installed.
    pub fn open() -> Result<Self, BackendError> {
        // SAFETY: the driver's library runs no code of consequence when it is loaded.
        let library = unsafe { Library::new(LIBRARY) };
        library.map(Self::Library).map_err(|error| {
            let cause = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            BackendError::NoDriver { cause }
        })
    }

    fn find(&self, symbol: &str) -> Option<NonNull<c_void>> {
        match self {
            Self::Library(library) => {
                // SAFETY: the pointer is only kept as an address here.
                let found = unsafe { library.get::<*mut c_void>(symbol.as_bytes()) };
                found.ok().and_then(|found| NonNull::new(*found))
            }
            Self::Given(find) => find(symbol),
        }
    }

    /// A symbol as a function.
    ///
    /// # Safety
    /// 1. `F` is a pointer to functions of the signature that the symbol has.
    pub unsafe fn function<F: Copy>(&self, symbol: &str) -> Result<F, BackendError> {
        const { assert!(size_of::<F>() == size_of::<NonNull<c_void>>()) };
        let found = self.find(symbol).ok_or_else(|| lacks(&[symbol]))?;
        // SAFETY: both are pointers of one size, and the function is an `F` (1).
        Ok(unsafe { std::mem::transmute_copy(&found) })
    }
}

/// A driver that is too old.
fn lacks(symbols: &[&str]) -> BackendError {
    BackendError::NoDriver { cause: format!("{LIBRARY} lacks {}", symbols.join(", ")) }
}

macro_rules! calls {
    ($($name:ident = $symbol:literal ($($argument:ident: $type:ty),* $(,)?);)*) => {
        /// The calls, found in the driver's library.
        pub(super) struct Calls {
            $($name: unsafe extern "C" fn($($type),*) -> c_int,)*
            /// `cuGetErrorName` and `cuGetErrorString`.
            words: [Words; 2],
            /// Where the driver has it.
            batch: Option<Batch>,
            /// As above.
            flush: Option<Flush>,
            // What the pointers point into: it has to stay.
            _library: Option<Library>,
        }

        impl Calls {
            const NAMES: &[&str] = &[$($symbol,)* "cuGetErrorName", "cuGetErrorString"];

            /// Looks up every call.
            ///
            /// # Safety
            /// 1. Each symbol is a function of the signature that the driver's manual gives it, and stays as long as this.
            ///
            /// # Errors
            /// [`BackendError::NoDriver`] where there are any that it lacks.
            pub unsafe fn find(symbols: Symbols<'_>) -> Result<Self, BackendError> {
                let missing = Self::NAMES.iter().filter(|name| symbols.find(name).is_none());
                let missing: Vec<&str> = missing.copied().collect();
                if !missing.is_empty() {
                    return Err(lacks(&missing));
                }
                // SAFETY: (1) is ours.
                Ok(unsafe {
                    Self {
                        $($name: symbols.function::<unsafe extern "C" fn($($type),*) -> c_int>($symbol)?,)*
                        words: [symbols.function("cuGetErrorName")?, symbols.function("cuGetErrorString")?],
                        batch: Batch::find(&symbols),
                        flush: remote::find(&symbols),
                        _library: match symbols {
                            Symbols::Library(library) => Some(library),
                            Symbols::Given(_) => None,
                        },
                    }
                })
            }

            $(
                #[doc = concat!("`", $symbol, "`.")]
                ///
                /// # Safety
                /// 1. The arguments are as the driver's manual asks for.
                #[allow(clippy::too_many_arguments, reason = "the driver's own")]
                pub unsafe fn $name(&self, $($argument: $type),*) -> Result<(), BackendError> {
                    // SAFETY: (1) is ours.
                    let code = unsafe { (self.$name)($($argument),*) };
                    if code == 0 { Ok(()) } else { Err(self.failure($symbol, code)) }
                }
            )*
        }
    };
}

calls! {
    init = "cuInit"(flags: c_uint);
    driver_version = "cuDriverGetVersion"(version: *mut c_int);
    device_count = "cuDeviceGetCount"(count: *mut c_int);
    device_get = "cuDeviceGet"(device: *mut Ordinal, ordinal: c_int);
    device_name = "cuDeviceGetName"(name: *mut c_char, bytes: c_int, device: Ordinal);
    device_attribute = "cuDeviceGetAttribute"(value: *mut c_int, attribute: c_int, device: Ordinal);
    device_memory = "cuDeviceTotalMem_v2"(bytes: *mut usize, device: Ordinal);
    device_bus = "cuDeviceGetPCIBusId"(text: *mut c_char, bytes: c_int, device: Ordinal);
    device_uuid = "cuDeviceGetUuid_v2"(uuid: *mut [u8; 16], device: Ordinal);
    primary_retain = "cuDevicePrimaryCtxRetain"(context: *mut Handle, device: Ordinal);
    primary_release = "cuDevicePrimaryCtxRelease_v2"(device: Ordinal);
    context_current = "cuCtxGetCurrent"(context: *mut Handle);
    context_push = "cuCtxPushCurrent_v2"(context: Handle);
    context_pop = "cuCtxPopCurrent_v2"(context: *mut Handle);
    context_synchronize = "cuCtxSynchronize"();
    module_load = "cuModuleLoadDataEx"(
        module: *mut Handle, image: *const c_void, options: c_uint, keys: *mut c_int, values: *mut *mut c_void,
    );
    module_function = "cuModuleGetFunction"(function: *mut Handle, module: Handle, name: *const c_char);
    launch = "cuLaunchKernel"(
        function: Handle, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared_bytes: c_uint, stream: Handle, arguments: *mut *mut c_void, extra: *mut *mut c_void,
    );
    memory_allocate = "cuMemAlloc_v2"(address: *mut Address, bytes: usize);
    memory_free = "cuMemFree_v2"(address: Address);
    host_allocate = "cuMemHostAlloc"(start: *mut *mut c_void, bytes: usize, flags: c_uint);
    host_free = "cuMemFreeHost"(start: *mut c_void);
    host_register = "cuMemHostRegister_v2"(start: *mut c_void, bytes: usize, flags: c_uint);
    host_unregister = "cuMemHostUnregister"(start: *mut c_void);
    host_address = "cuMemHostGetDevicePointer_v2"(address: *mut Address, start: *mut c_void, flags: c_uint);
    pointer_attributes = "cuPointerGetAttributes"(
        count: c_uint, attributes: *mut c_int, values: *mut *mut c_void, at: Address,
    );
    copy_to_device = "cuMemcpyHtoDAsync_v2"(to: Address, from: *const c_void, bytes: usize, stream: Handle);
    copy_to_host = "cuMemcpyDtoHAsync_v2"(to: *mut c_void, from: Address, bytes: usize, stream: Handle);
    copy = "cuMemcpyAsync"(to: Address, from: Address, bytes: usize, stream: Handle);
    copy_rows = "cuMemcpy2DAsync_v2"(copy: *const RowsCopy, stream: Handle);
    fill_rows = "cuMemsetD2D8Async"(
        to: Address, pitch: usize, value: u8, bytes: usize, rows: usize, stream: Handle,
    );
    fill = "cuMemsetD8Async"(to: Address, value: u8, bytes: usize, stream: Handle);
    stream_create = "cuStreamCreate"(stream: *mut Handle, flags: c_uint);
    stream_destroy = "cuStreamDestroy_v2"(stream: Handle);
    stream_synchronize = "cuStreamSynchronize"(stream: Handle);
    stream_query = "cuStreamQuery"(stream: Handle);
    exchange_capture_mode = "cuThreadExchangeStreamCaptureMode"(mode: *mut c_int);
    stream_capture_state = "cuStreamIsCapturing"(stream: Handle, state: *mut c_int);
    stream_wait = "cuStreamWaitEvent"(stream: Handle, event: Handle, flags: c_uint);
    event_create = "cuEventCreate"(event: *mut Handle, flags: c_uint);
    event_destroy = "cuEventDestroy_v2"(event: Handle);
    event_record = "cuEventRecord"(event: Handle, stream: Handle);
    event_query = "cuEventQuery"(event: Handle);
    event_synchronize = "cuEventSynchronize"(event: Handle);
    event_elapsed = "cuEventElapsedTime"(milliseconds: *mut f32, from: Handle, to: Handle);
    begin_capture = "cuStreamBeginCapture_v2"(stream: Handle, mode: c_int);
    end_capture = "cuStreamEndCapture"(stream: Handle, graph: *mut Handle);
    instantiate = "cuGraphInstantiateWithFlags"(executable: *mut Handle, graph: Handle, flags: u64);
    graph_launch = "cuGraphLaunch"(executable: Handle, stream: Handle);
    executable_destroy = "cuGraphExecDestroy"(executable: Handle);
    graph_destroy = "cuGraphDestroy"(graph: Handle);
}

/// `CUDA_MEMCPY2D`: rows at equal distances.
#[repr(C)]
pub(super) struct RowsCopy {
    from: RowsEnd,
    to: RowsEnd,
    bytes: usize,
    rows: usize,
}

/// One end of a [`RowsCopy`].
#[repr(C)]
struct RowsEnd {
    first_byte: usize,
    first_row: usize,
    kind: c_int,
    host: *const c_void,
    address: Address,
    array: Handle,
    pitch: usize,
}

impl RowsCopy {
    /// `rows` rows of `bytes` bytes, from and to an address with the bytes from one row to the next.
    pub const fn new(from: (Address, usize), to: (Address, usize), bytes: usize, rows: usize) -> Self {
        Self { from: RowsEnd::new(from), to: RowsEnd::new(to), bytes, rows }
    }
}

impl RowsEnd {
    const fn new((address, pitch): (Address, usize)) -> Self {
        /// `CU_MEMORYTYPE_UNIFIED`: the address says which memory it is of.
        const UNIFIED: c_int = 4;
        let (host, array) = (std::ptr::null(), std::ptr::null_mut());
        Self { first_byte: 0, first_row: 0, kind: UNIFIED, host, address, array, pitch }
    }
}

/// Codes after which a context can do nothing any more: its memory and its functions are gone with it.
const FATAL: [c_int; 13] = [4, 214, 220, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719];

impl Calls {
    /// The batch call, where the driver has it.
    pub const fn batch(&self) -> Option<Batch> {
        self.batch
    }

    /// The call that waits for what others have written, where the driver has it.
    pub const fn flush(&self) -> Option<Flush> {
        self.flush
    }

    /// The error of a call.
    pub fn failure(&self, call: &'static str, code: c_int) -> BackendError {
        let [name, text] = self.words.map(|ask| {
            let mut text: *const c_char = std::ptr::null();
            // SAFETY: the call stores a pointer to a text that is never freed, or null.
            let known = unsafe { ask(code, &raw mut text) } == 0 && !text.is_null();
            if !known {
                return String::new();
            }
            // SAFETY: as said, a text that ends in a zero.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        });
        if FATAL.contains(&code) {
            return BackendError::ContextLost { call, code, name, text };
        }
        BackendError::Driver { call, code, name, text }
    }
}
