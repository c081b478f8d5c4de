//! A GPU and its driver, as the engine beside pagelift has them: a real one, or one in software.

use std::ffi::{c_int, c_void};
use std::mem::transmute_copy;
use std::ptr::{NonNull, null_mut, without_provenance_mut};
use std::sync::{Arc, OnceLock};

use libloading::Library;
use pagelift::backends::{Cuda, CudaDriver, CudaStream};
use pagelift_fake_driver::{Live, Machine};

use crate::backends::{shared_gpu, software};

/// A GPU, and the driver's calls as an engine makes them.
pub struct Device {
    pub gpu: Arc<Cuda>,
    pub engine: Engine,
    /// Where there is no GPU.
    pub machine: Option<Machine>,
}

impl Device {
    /// Holds a law against a driver in software, and expects that nothing is left of it.
    pub fn in_software(law: impl FnOnce(&Self)) {
        let machine = Machine::new(1);
        let driver = software(&machine).unwrap();
        let gpu = Arc::new(Cuda::open_with(&driver, 0).unwrap());
        let calls = machine.clone();
        let engine = Engine::of(0, move |name| calls.symbol(name).unwrap());
        let device = Self { gpu, engine, machine: Some(machine.clone()) };
        law(&device);
        let Self { gpu, engine, .. } = device;
        drop(gpu);
        // The engine's context would take with it what was forgotten there.
        assert_eq!(machine.live(), Live { contexts: 1, ..Live::default() });
        drop(engine);
    }

    /// Holds a law against the first GPU.
    pub fn real(law: impl FnOnce(&Self)) {
        let engine = Engine::of(0, |name| in_library(name).unwrap());
        law(&Self { gpu: Arc::clone(shared_gpu()), engine, machine: None });
    }

    /// A call of the driver's by its name, if it has it.
    pub fn symbol(&self, name: &str) -> Option<NonNull<c_void>> {
        self.machine.as_ref().map_or_else(|| in_library(name), |machine| machine.symbol(name))
    }

    /// Lets another thread see the device.
    pub fn enter(&self) {
        if let Some(machine) = &self.machine {
            machine.enter();
        }
    }
}

/// Holds a law against two GPUs in software, and expects that nothing is left of them.
pub fn on_two_in_software(law: impl FnOnce(&CudaDriver, &[Engine; 2])) {
    let machine = Machine::new(2);
    let engines = [0, 1].map(|ordinal| Engine::of(ordinal, |name| machine.symbol(name).unwrap()));
    law(&software(&machine).unwrap(), &engines);
    // The engines' contexts would take with them what was forgotten there.
    assert_eq!(machine.live(), Live { contexts: 2, ..Live::default() });
}

/// Holds a law against real GPUs, where there are several.
pub fn on_several(law: impl FnOnce(&CudaDriver, &[Engine; 2])) {
    let driver = CudaDriver::open().unwrap();
    match driver.devices().unwrap() {
        0 | 1 => println!("skipped: there is one GPU"),
        _ => {
            let engines = [0, 1].map(|ordinal| Engine::of(ordinal, |name| in_library(name).unwrap()));
            law(&driver, &engines);
            engines[0].leave();
        }
    }
}

/// A call of the real driver's.
fn in_library(name: &str) -> Option<NonNull<c_void>> {
    static DRIVER: OnceLock<Library> = OnceLock::new();
    // SAFETY: the driver's library runs no code of consequence when it is loaded.
    let library = DRIVER.get_or_init(|| unsafe { Library::new("libcuda.so.1") }.unwrap());
    // SAFETY: the pointer is only kept as an address here.
    let found = unsafe { library.get::<*mut c_void>(name.as_bytes()) };
    found.ok().and_then(|found| NonNull::new(*found))
}

/// Tests of laws over a [`Device`]: over a driver in software, and on a GPU. Those that make a driver refuse a call are told
/// by their module: sanitizers would take that for a fault.
macro_rules! on_devices {
    ($($law:ident),+ $(,)? $(; refused: $($refused:ident),+ $(,)?)?) => {
        mod in_software {
            crate::device::on_devices!(@tests #[cfg(all())] in_software: $($law,)+ $($($refused,)+)?);
        }

        mod on_a_gpu {
            crate::device::on_devices!(@tests #[ignore = "needs an NVIDIA GPU"] real: $($law,)+);
        }

        $(mod on_a_gpu_that_refuses {
            crate::device::on_devices!(@tests #[ignore = "needs an NVIDIA GPU"] real: $($refused,)+);
        })?
    };
    (@tests #[$when:meta] $device:ident: $($law:ident,)+) => {
        $(#[test]
        #[$when]
        fn $law() {
            crate::device::Device::$device(super::$law);
        })+
    };
}
pub(crate) use on_devices;

macro_rules! engine {
    ($($name:ident = $symbol:literal ($($argument:ident: $type:ty),*);)*) => {
        /// The driver's calls that an engine makes, in the primary context, which is current on its thread.
        pub struct Engine {
            $($name: unsafe extern "C" fn($($type),*) -> c_int,)*
            ordinal: c_int,
            context: usize,
        }

        impl Engine {
            /// Of a GPU, by its number.
            pub fn of(ordinal: c_int, find: impl Fn(&str) -> NonNull<c_void>) -> Self {
                let mut engine = Self {
                    $($name: {
                        let found = find($symbol);
                        // SAFETY: the symbol is a function of this signature.
                        unsafe { transmute_copy(&found) }
                    },)*
                    ordinal,
                    context: 0,
                };
                let mut context = null_mut();
                // SAFETY: 0 is the only flag there is.
                assert_eq!(unsafe { (engine.init)(0) }, 0);
                // SAFETY: the context is stored in our variable.
                assert_eq!(unsafe { (engine.retain)(&raw mut context, ordinal) }, 0);
                engine.context = context.addr();
                engine
            }
        }
    };
}

type Handle = *mut c_void;

engine! {
    init = "cuInit" (flags: u32);
    retain = "cuDevicePrimaryCtxRetain" (context: *mut Handle, device: c_int);
    release = "cuDevicePrimaryCtxRelease_v2" (device: c_int);
    set_current = "cuCtxSetCurrent" (context: Handle);
    get_current = "cuCtxGetCurrent" (context: *mut Handle);
    enable_peer = "cuCtxEnablePeerAccess" (context: Handle, flags: u32);
    stream_create = "cuStreamCreate" (stream: *mut Handle, flags: u32);
    stream_destroy = "cuStreamDestroy_v2" (stream: Handle);
    stream_state = "cuStreamIsCapturing" (stream: Handle, state: *mut c_int);
    stream_wait = "cuStreamWaitEvent" (stream: Handle, event: Handle, flags: u32);
    event_create = "cuEventCreate" (event: *mut Handle, flags: u32);
    event_destroy = "cuEventDestroy_v2" (event: Handle);
    event_record = "cuEventRecord" (event: Handle, stream: Handle);
    fill_async = "cuMemsetD8Async" (to: u64, value: u8, bytes: usize, stream: Handle);
    copy_async = "cuMemcpyAsync" (to: u64, from: u64, bytes: usize, stream: Handle);
    capture_begin = "cuStreamBeginCapture_v2" (stream: Handle, mode: c_int);
    capture_end = "cuStreamEndCapture" (stream: Handle, graph: *mut Handle);
    graph_instantiate = "cuGraphInstantiateWithFlags" (executable: *mut Handle, graph: Handle, flags: u64);
    graph_launch = "cuGraphLaunch" (executable: Handle, stream: Handle);
    graph_destroy = "cuGraphDestroy" (graph: Handle);
    executable_destroy = "cuGraphExecDestroy" (executable: Handle);
    allocate = "cuMemAlloc_v2" (address: *mut u64, bytes: usize);
    free = "cuMemFree_v2" (address: u64);
    register = "cuMemHostRegister_v2" (start: Handle, bytes: usize, flags: u32);
}

fn handle(number: u64) -> Handle {
    without_provenance_mut(number as usize)
}

/// A stream of the engine's.
pub struct EngineStream<'e> {
    engine: &'e Engine,
    pub number: u64,
}

/// An event of the engine's.
pub struct EngineEvent<'e> {
    engine: &'e Engine,
    number: u64,
}

/// A graph of the engine's.
pub struct EngineGraph<'e> {
    engine: &'e Engine,
    graph: u64,
    executable: u64,
}

/// `CU_STREAM_CAPTURE_MODE_GLOBAL`, `…_THREAD_LOCAL`, `…_RELAXED`.
pub const MODES: [c_int; 3] = [0, 1, 2];

impl Engine {
    /// Makes the primary context the calling thread's current one, as the CUDA runtime does.
    pub fn enter(&self) {
        // SAFETY: the context is retained.
        assert_eq!(unsafe { (self.set_current)(handle(self.context as u64)) }, 0);
    }

    /// Leaves the calling thread without a context.
    pub fn leave(&self) {
        // SAFETY: null is none.
        assert_eq!(unsafe { (self.set_current)(null_mut()) }, 0);
    }

    /// The calling thread's context.
    pub fn current(&self) -> usize {
        let mut context = null_mut();
        // SAFETY: it is stored in our variable.
        assert_eq!(unsafe { (self.get_current)(&raw mut context) }, 0);
        context.addr()
    }

    pub const fn context(&self) -> usize {
        self.context
    }

    /// Lets this GPU reach the memory of another one's, if it can.
    pub fn reaches(&self, other: &Self) -> bool {
        self.enter();
        // SAFETY: both contexts are retained, and 0 is the only flag there is.
        let code = unsafe { (self.enable_peer)(handle(other.context as u64), 0) };
        // Those of one machine differ in how they are linked: 217 says that they are not, and 704 that they do already.
        assert!(matches!(code, 0 | 217 | 704), "{code}");
        code != 217
    }

    /// A stream, which the default stream and it wait for each other where it is `blocking`.
    pub fn stream(&self, blocking: bool) -> EngineStream<'_> {
        let mut stream = null_mut();
        // SAFETY: it is stored in our variable.
        assert_eq!(unsafe { (self.stream_create)(&raw mut stream, u32::from(!blocking)) }, 0);
        EngineStream { engine: self, number: stream.addr() as u64 }
    }

    pub fn event(&self) -> EngineEvent<'_> {
        let mut event = null_mut();
        // SAFETY: it is stored in our variable.
        assert_eq!(unsafe { (self.event_create)(&raw mut event, 0) }, 0);
        EngineEvent { engine: self, number: event.addr() as u64 }
    }

    /// Fills device memory.
    ///
    /// # Safety
    /// 1. The memory is there, and nobody else touches it, until the stream has got there; the stream lives.
    pub unsafe fn fill(&self, stream: u64, address: u64, value: u8, bytes: usize) {
        // SAFETY: (1) is ours.
        assert_eq!(unsafe { (self.fill_async)(address, value, bytes, handle(stream)) }, 0);
    }

    /// Allocates memory, and frees it if there is any.
    pub fn allocates(&self, bytes: usize) -> c_int {
        let mut address = 0;
        // SAFETY: the address is stored in our variable.
        let code = unsafe { (self.allocate)(&raw mut address, bytes) };
        if code == 0 {
            // SAFETY: it was allocated just now.
            assert_eq!(unsafe { (self.free)(address) }, 0);
        }
        code
    }

    /// Registers no memory at all.
    pub fn fails_to_register(&self) -> c_int {
        // SAFETY: it is refused.
        unsafe { (self.register)(null_mut(), 4096, 0) }
    }
}

impl<'e> EngineStream<'e> {
    /// The same as pagelift sees it.
    pub fn adopted(&self, device: &Device) -> CudaStream {
        // SAFETY: (1) it is of the primary context, and tests drop it last; (2) captures begin when no other thread uses it.
        unsafe { device.gpu.adopt_stream(self.number) }.unwrap()
    }

    pub fn begin(&self, mode: c_int) -> c_int {
        // SAFETY: the stream lives.
        unsafe { (self.engine.capture_begin)(handle(self.number), mode) }
    }

    /// Ends a capture, and makes its graph ready.
    pub fn end(&self) -> Result<EngineGraph<'e>, c_int> {
        let (mut graph, mut executable) = (null_mut(), null_mut());
        // SAFETY: the stream lives; the graph is stored in our variable.
        let code = unsafe { (self.engine.capture_end)(handle(self.number), &raw mut graph) };
        if code != 0 {
            return Err(code);
        }
        // SAFETY: the graph was just made; what is made of it is stored in our variable.
        assert_eq!(unsafe { (self.engine.graph_instantiate)(&raw mut executable, graph, 0) }, 0);
        let [graph, executable] = [graph, executable].map(|handle| handle.addr() as u64);
        Ok(EngineGraph { engine: self.engine, graph, executable })
    }

    /// 0 where nothing is captured, 1 where something is, 2 where that has failed.
    pub fn state(&self) -> c_int {
        let mut state = -1;
        // SAFETY: the stream lives; the state is stored in our variable.
        assert_eq!(unsafe { (self.engine.stream_state)(handle(self.number), &raw mut state) }, 0);
        state
    }

    pub fn wait(&self, event: &EngineEvent<'_>) -> c_int {
        // SAFETY: both live.
        unsafe { (self.engine.stream_wait)(handle(self.number), handle(event.number), 0) }
    }

    /// Fills device memory: what stands for the forward of a step, which writes rows.
    ///
    /// # Safety
    /// 1. As [`Engine::fill`].
    pub unsafe fn fill(&self, address: u64, value: u8, bytes: usize) {
        // SAFETY: (1) is ours; the stream lives.
        unsafe { self.engine.fill(self.number, address, value, bytes) };
    }
}

impl EngineStream<'_> {
    /// Copies device memory: what stands for the forward of a step, which reads rows.
    ///
    /// # Safety
    /// 1. As [`Engine::fill`], for both.
    pub unsafe fn copy(&self, to: u64, from: u64, bytes: usize) {
        // SAFETY: (1) is ours.
        assert_eq!(unsafe { (self.engine.copy_async)(to, from, bytes, handle(self.number)) }, 0);
    }
}

impl EngineEvent<'_> {
    pub fn record(&self, stream: &EngineStream<'_>) -> c_int {
        // SAFETY: both live.
        unsafe { (self.engine.event_record)(handle(self.number), handle(stream.number)) }
    }
}

impl EngineGraph<'_> {
    /// Replays it.
    pub fn replay(&self, stream: &EngineStream<'_>) {
        // SAFETY: both live; what its launches touch, those who recorded them have promised.
        assert_eq!(unsafe { (self.engine.graph_launch)(handle(self.executable), handle(stream.number)) }, 0);
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // SAFETY: it was retained once.
        let _ = unsafe { (self.release)(self.ordinal) };
    }
}

impl Drop for EngineStream<'_> {
    fn drop(&mut self) {
        // SAFETY: it was made here, and goes once.
        let _ = unsafe { (self.engine.stream_destroy)(handle(self.number)) };
    }
}

impl Drop for EngineEvent<'_> {
    fn drop(&mut self) {
        // SAFETY: it was made here, and goes once.
        let _ = unsafe { (self.engine.event_destroy)(handle(self.number)) };
    }
}

impl Drop for EngineGraph<'_> {
    fn drop(&mut self) {
        // SAFETY: both were made here, and go once.
        let _ = unsafe { (self.engine.executable_destroy)(handle(self.executable)) };
        // SAFETY: as above.
        let _ = unsafe { (self.engine.graph_destroy)(handle(self.graph)) };
    }
}
