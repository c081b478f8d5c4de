//! The kernels on an NVIDIA GPU.

mod batch;
mod calls;
mod context;
mod copies;
mod driver;
mod event;
mod graph;
mod link;
mod memory;
mod module;
mod remote;
mod replay;
mod stand_in;
mod stream;

use std::ffi::c_void;
use std::fmt;
use std::num::NonZeroU32;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use pagelift_device::BLOCK_THREADS;
use pagelift_kernels::{pagelift_apply_map, pagelift_copy_pages, pagelift_copy_rows, pagelift_digest};
use pagelift_planner::geometry::Memory;

use super::buffer::{Buffer, Finish, Reach};
use super::pool::Registrar;
use super::{Backend, Calibration, Kernel, LaunchWork, refuse_capture};
use crate::error::{BackendError, Error, MemoryError};
use calls::Handle;
use context::Context;
use module::Module;

pub use copies::{CopyCalls, CopyEngine, CopyGraph, CopyMethod};
pub use driver::CudaDriver;
pub use event::CudaEvent;
pub use graph::{CaptureMode, CudaGraph};
pub use link::PcieLink;
pub use replay::CudaReplay;
pub use stand_in::StandIn;
pub use stream::CudaStream;

/// Multiprocessors of a launch that does not say how many: four fill the link.
const BLOCKS: u32 = 4;

/// Runs kernels on one GPU, in its primary context, which the CUDA runtime and PyTorch use too.
///
/// The driver is opened at run time: a program starts without one, and learns then that there is none.
///
/// ```
/// use pagelift::backends::Cuda;
/// match Cuda::open(0) {
///     Ok(gpu) => println!("{gpu:?}"),
///     Err(error) => println!("{error}"),
/// }
/// ```
pub struct Cuda {
    context: Arc<Context>,
    module: Module,
    functions: Functions,
    stream: CudaStream,
    calibration: Option<Calibration>,
}

/// The functions of the kernels.
struct Functions {
    copy_pages: Handle,
    copy_rows: Handle,
    digest: Handle,
    apply_map: Handle,
}

// SAFETY: functions are handles that the driver takes from any thread.
unsafe impl Send for Cuda {}
// SAFETY: as above.
unsafe impl Sync for Cuda {}

impl Cuda {
    /// Opens the driver and GPU `ordinal`, and loads the kernels.
    ///
    /// # Errors
    /// Where there is no usable driver, no such GPU, or one that cannot run the kernels.
    pub fn open(ordinal: u32) -> Result<Self, Error> {
        Self::open_with(&CudaDriver::open()?, ordinal)
    }

    /// The same, where the driver is open already.
    ///
    /// # Errors
    /// Where there is no such GPU, or one that cannot run the kernels.
    pub fn open_with(driver: &CudaDriver, ordinal: u32) -> Result<Self, Error> {
        let context = Context::open(driver, ordinal)?;
        let module = Module::load(&context)?;
        let functions = Functions {
            copy_pages: module.function::<pagelift_copy_pages>(&context)?,
            copy_rows: module.function::<pagelift_copy_rows>(&context)?,
            digest: module.function::<pagelift_digest>(&context)?,
            apply_map: module.function::<pagelift_apply_map>(&context)?,
        };
        let stream = CudaStream::new(&context)?;
        Ok(Self { context, module, functions, stream, calibration: None })
    }

    /// With what was measured on this GPU: launches that copy, and whose multiprocessors nobody says, then use as many as
    /// suit them, and not four.
    ///
    /// ```no_run
    /// # fn engine(calibration: pagelift::backends::Calibration) -> Result<(), pagelift::Error> {
    /// let gpu = pagelift::backends::Cuda::open(0)?.with_calibration(calibration);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_calibration(self, calibration: Calibration) -> Self {
        Self { calibration: Some(calibration), ..self }
    }

    /// What was measured on this GPU, where anybody has said it.
    #[must_use]
    pub const fn calibration(&self) -> Option<Calibration> {
        self.calibration
    }

    /// Its number, in the driver's order: the one that errors name.
    #[must_use]
    pub fn ordinal(&self) -> u32 {
        self.context.facts().ordinal
    }

    /// The GPU's name.
    #[must_use]
    pub fn device_name(&self) -> &str {
        &self.context.facts().name
    }

    /// Where the GPU is on the PCI bus: `0000:1B:00.0`.
    #[must_use]
    pub fn bus(&self) -> &str {
        &self.context.facts().bus
    }

    /// What tells the GPU from every other one, as `nvidia-smi -L` writes it: `GPU-` and 32 hexadecimal digits in groups.
    #[must_use]
    pub fn uuid(&self) -> String {
        let digits: String = self.context.facts().uuid.iter().map(|byte| format!("{byte:02x}")).collect();
        let group = |range| digits.get(range).unwrap_or_default();
        format!("GPU-{}-{}-{}-{}-{}", group(0..8), group(8..12), group(12..16), group(16..20), group(20..32))
    }

    /// The PCIe link that the GPU is at, where the system tells.
    #[must_use]
    pub fn link(&self) -> Option<PcieLink> {
        PcieLink::of_device(self.bus())
    }

    /// The NUMA node that the GPU is at, where there are several and the system tells. Memory of a
    /// [`HostPool`](super::HostPool) comes to lie there.
    #[must_use]
    pub fn numa_node(&self) -> Option<u32> {
        self.registrar().node()
    }

    /// Bytes of memory that the GPU has.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.context.facts().memory
    }

    /// Its multiprocessors.
    #[must_use]
    pub fn multiprocessors(&self) -> u32 {
        self.context.facts().multiprocessors
    }

    /// The driver's version of CUDA, major and minor.
    #[must_use]
    pub fn cuda_version(&self) -> (u32, u32) {
        let driver = self.context.facts().driver;
        (driver / 1000, driver % 1000 / 10)
    }

    /// How long the driver took to compile and load the kernels.
    #[must_use]
    pub fn load_time(&self) -> Duration {
        self.module.loading.time
    }

    /// What the driver's compiler said of the kernels that it took: their registers and spills, as a rule. Empty where it said
    /// nothing, as when it had compiled them before and kept the result.
    ///
    /// ```no_run
    /// println!("{}", pagelift::backends::Cuda::open(0)?.load_log());
    /// # Ok::<(), pagelift::Error>(())
    /// ```
    #[must_use]
    pub fn load_log(&self) -> &str {
        &self.module.loading.log
    }

    /// Tells its kernels from those of another build: what was measured with others may not hold.
    #[must_use]
    pub fn kernel_fingerprint(&self) -> u64 {
        self.module.fingerprint()
    }

    /// Waits for everything that was enqueued on the GPU in this process' primary context. Not while a stream of it is being
    /// captured: CUDA forbids that, and the capture fails.
    ///
    /// # Errors
    /// [`BackendError::ContextLost`] where some of it failed.
    pub fn synchronize(&self) -> Result<(), Error> {
        Ok(self.context.synchronize()?)
    }

    /// Pins and maps host memory that somebody else made, until the buffer is dropped. Where it is registered already, it is
    /// left alone. Hundreds of gigabytes are registered in chunks, as a [`HostPool`](super::HostPool).
    ///
    /// # Safety
    /// 1. As [`Buffer::adopt`].
    /// 2. Where it is registered already, it stays so while the buffer lives.
    ///
    /// # Errors
    /// Where `start` is null, a part of it is registered, or the driver refuses the memory.
    pub unsafe fn register(&self, start: *mut u8, bytes: usize) -> Result<Buffer, Error> {
        let start = NonNull::new(start).ok_or(MemoryError::Null)?;
        // SAFETY: (1, 2) are ours.
        unsafe { Buffer::registered(&self.registrar(), start, bytes) }
    }

    /// Takes in memory of this GPU that somebody else made and will free, such as a PyTorch tensor's.
    ///
    /// # Safety
    /// 1. At `address`, in the primary context of this GPU, lie `bytes` bytes while the buffer lives.
    /// 2. Meanwhile nobody else touches them, except as an ordering that both sides keep allows.
    #[must_use]
    pub unsafe fn adopt(&self, address: u64, bytes: usize) -> Buffer {
        memory::adopted(&self.context, address, bytes)
    }

    /// Refuses an address range that this GPU does not reach, as far as the driver tells: whether there is memory of the GPU's, or memory
    /// that is mapped for it, at the first byte and the last. For addresses that come from where no compiler looks, before
    /// [`Cuda::adopt`] takes them.
    ///
    /// # Errors
    /// [`MemoryError::NotOnGpu`], and those of the driver.
    pub fn check_reach(&self, address: u64, bytes: usize) -> Result<(), Error> {
        memory::check_reach(&self.context, address, bytes as u64)
    }

    /// Enqueues a launch.
    ///
    /// # Safety
    /// 1. The conditions of the kernel hold for `args` until the launch has finished.
    /// 2. `function` is that of a kernel whose argument is an `A`.
    unsafe fn enqueue<A: Copy>(
        &self,
        stream: &CudaStream,
        function: Handle,
        blocks: u32,
        mut args: A,
    ) -> Result<(), BackendError> {
        let mut arguments = [(&raw mut args).cast::<c_void>()];
        self.context.within(|calls| {
            // SAFETY: the function's only parameter is `args` (2), which the driver copies before it returns; it needs
            // no shared memory.
            unsafe {
                calls.launch(
                    function,
                    blocks,
                    1,
                    1,
                    BLOCK_THREADS,
                    1,
                    1,
                    0,
                    stream.raw(),
                    arguments.as_mut_ptr(),
                    std::ptr::null_mut(),
                )
            }
        })
    }

    const fn context(&self) -> &Arc<Context> {
        &self.context
    }

    fn blocks(&self, workers: Option<NonZeroU32>) -> u32 {
        workers.map_or(BLOCKS, NonZeroU32::get).min(self.context.facts().multiprocessors)
    }
}

// SAFETY: (1) the driver's allocations are mapped, zeroed here, and ours alone; (2) the context reaches its own memory, and host
// memory that is mapped for all; (3) the driver keeps the order of a stream, and of events that it waits for; (4) a stream that
// was synchronised has done all; (5) the driver is asked, and our captures wait (`refuse_capture`), those too
// that bring in a stream by an event; (6) what a failed call has
// enqueued is on the stream; (7) blocks have whole warps and no more threads than the PTX allows, and a GPU's stores of the
// same bytes do not hurt each other.
unsafe impl Backend for Cuda {
    type Stream = CudaStream;

    fn name(&self) -> &'static str {
        "cuda"
    }

    fn stream(&self) -> CudaStream {
        self.stream.clone()
    }

    fn allocate(&self, place: Memory, bytes: u64) -> Result<Buffer, Error> {
        match place {
            Memory::Host => memory::on_host(&self.context, bytes),
            Memory::Device => memory::on_device(&self.context, bytes),
        }
    }

    fn reach(&self) -> Reach {
        Reach::Gpu(self.context.facts().ordinal)
    }

    fn suited(&self, work: LaunchWork) -> Option<NonZeroU32> {
        Some(self.calibration?.pace(work.way?, work.pieces)?.workers)
    }

    fn registrar(&self) -> Arc<dyn Registrar> {
        Arc::clone(&self.context) as _
    }

    fn in_flight<'s>(&self, stream: &'s CudaStream) -> Option<&'s Arc<dyn Finish>> {
        Some(stream.launches())
    }

    fn is_lost(&self) -> bool {
        self.context.is_lost()
    }

    fn wait(&self, stream: &CudaStream) -> Result<(), BackendError> {
        stream.wait()
    }

    fn is_capturing(&self, stream: &CudaStream) -> Result<bool, BackendError> {
        stream.check_gpu(&self.context)?;
        stream.is_capturing()
    }

    fn chain(&self, stream: &CudaStream, next: &CudaStream) -> Result<(), BackendError> {
        const WHAT: &str = "a change of streams";
        if stream.is(next) {
            return Ok(());
        }
        let _uncaptured = refuse_capture(self, stream, WHAT)?;
        if self.is_capturing(next)? {
            return Err(BackendError::Capturing { what: WHAT });
        }
        let end = self.untimed_event()?;
        end.record(stream)?;
        next.comes_after(&end)
    }

    fn settle_remote_writes(&self) -> Result<(), BackendError> {
        self.context.settle_remote_writes()
    }

    unsafe fn upload(
        &self,
        stream: &CudaStream,
        from: &Buffer,
        to: &mut Buffer,
        bytes: usize,
    ) -> Result<(), BackendError> {
        let from = from.bytes().and_then(|from| from.get(..bytes)).unwrap_or_default();
        let bytes = from.len().min(to.len());
        // SAFETY: both have so many bytes, and live until the stream has got there (1).
        self.context.within(|calls| unsafe {
            calls.copy_to_device(to.address(), from.as_ptr().cast(), bytes, stream.raw())
        })
    }

    unsafe fn clear(&self, stream: &CudaStream, buffer: &mut Buffer) -> Result<(), BackendError> {
        if buffer.len() == 0 {
            return Ok(());
        }
        // SAFETY: it has so many bytes, and lives until the stream has got there (1).
        self.context.within(|calls| unsafe { calls.fill(buffer.address(), 0, buffer.len(), stream.raw()) })
    }

    unsafe fn launch(
        &self,
        stream: &CudaStream,
        workers: Option<NonZeroU32>,
        kernel: Kernel,
    ) -> Result<(), BackendError> {
        let (functions, blocks) = (&self.functions, self.blocks(workers));
        // SAFETY: (1) is ours; (2) each function is the kernel's.
        unsafe {
            match kernel {
                Kernel::CopyPages(args) => self.enqueue(stream, functions.copy_pages, blocks, args),
                Kernel::CopyRows(args) => self.enqueue(stream, functions.copy_rows, blocks, args),
                Kernel::Digest(args) => self.enqueue(stream, functions.digest, blocks, args),
                Kernel::ApplyMap(args) => self.enqueue(stream, functions.apply_map, 1, args),
            }
        }
    }
}

impl fmt::Debug for Cuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = self.context.facts();
        let (major, minor) = facts.capability;
        write!(
            f,
            "Cuda(GPU {}: {}, compute capability {major}.{minor}, {} multiprocessors, driver {}, kernels for {})",
            facts.ordinal,
            facts.name,
            facts.multiprocessors,
            facts.driver,
            self.module.target()
        )
    }
}
