//! What runs kernels.
//!
//! | backend | runs on | for |
//! |---|---|---|
//! | [`Cpu`] | worker threads, one lane a warp | machines without a GPU; the default there |
//! | [`Cuda`] | an NVIDIA GPU, on streams and in graphs | engines |
//! | [`Emulated`] | one thread, any launch shape, any order of threads | tests |
//!
//! Backends know kernels and addresses; what they may be asked to do was decided by a plan and checked by a
//! [`crate::launcher::Launcher`].

mod bound;
mod bound_pools;
mod buffer;
mod calibration;
mod cpu;
mod cuda;
mod emulated;
mod nvtx;
mod pool;

use std::fmt;
use std::num::NonZeroU32;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use pagelift_abi::{DigestArgs, MapArgs, PagesArgs, RowsArgs};
use pagelift_planner::geometry::Memory;

pub use bound::Launchable;
pub(crate) use bound::{Bound, allocate};
pub use buffer::{Buffer, Finish, Reach};
pub use calibration::{Calibration, LaunchWork, Pace, Paces, Pieces};
pub use cpu::Cpu;
pub use cuda::{
    CaptureMode, CopyCalls, CopyEngine, CopyGraph, CopyMethod, Cuda, CudaDriver, CudaEvent, CudaGraph,
    CudaReplay, CudaStream, PcieLink, StandIn,
};
pub use emulated::Emulated;
pub(crate) use nvtx::{Range, range};
pub use pagelift_device::emulation::Shape;
pub use pool::{HostPool, HostPoolSpec, PoolProgress, Registrar, SharedMemory};

use crate::error::{BackendError, Error};

/// Runs the kernels of pagelift, in the order of a stream.
///
/// One of somebody else's wraps one of these, and has its methods called beside its own: only they make memory that kernels reach.
/// The methods with a body are those of a backend that has run a launch when the call returns, in memory that the host
/// reaches.
///
/// # Safety
/// Launchers and registries rely on what a backend says, for kernels go where that sends them.
///
/// 1. `allocate` gives memory that nobody else has, initialised, at whose address its kernels read and write it.
/// 2. Its kernels read and write, at their addresses, all memory that what `reach` says reaches; `registrar` makes such memory.
/// 3. What is enqueued on a stream takes effect as its method says, whole, once, and in the order of the calls: after what was
///    on the stream, and after what `chain` put before it. Where that may come after the call has returned, `wait` waits for
///    it, and so does what `in_flight` gives.
/// 4. `wait` succeeds only when all that was enqueued on the stream has ended, also where an earlier call had failed.
/// 5. Where `is_capturing` says that a stream is not being captured, what is enqueued next is in no graph, but for captures
///    that others begin.
/// 6. Where a call that enqueues fails, none of its effects comes after `wait` has succeeded.
/// 7. `launch` runs the kernel with its arguments and no other, in a shape that the kernel allows, and sees to it that rows which
///    a slot mapping names twice are written by one worker, or that two may write the same bytes at once.
pub unsafe trait Backend: fmt::Debug {
    /// Where work is enqueued.
    type Stream: Clone + fmt::Debug;

    /// Its name, as `--backend` takes it.
    fn name(&self) -> &'static str;

    /// The stream that is used where none is named.
    fn stream(&self) -> Self::Stream;

    /// Allocates zeroed, page-aligned memory of at least `bytes` bytes that kernels can reach: pinned and mapped memory of
    /// the host, or memory of the device. Large host pools are a [`HostPool`].
    ///
    /// # Errors
    /// Where there is no room for it.
    fn allocate(&self, place: Memory, bytes: u64) -> Result<Buffer, Error>;

    /// Which memory its kernels reach.
    fn reach(&self) -> Reach {
        Reach::Process
    }

    /// How host memory becomes memory that its kernels reach; see [`HostPool`].
    fn registrar(&self) -> Arc<dyn Registrar> {
        Arc::new(pool::Process)
    }

    /// What waits for the launches on a stream, where these may still run when the call has returned.
    fn in_flight<'s>(&self, _stream: &'s Self::Stream) -> Option<&'s Arc<dyn Finish>> {
        None
    }

    /// Whether a fault has taken everything that it works with, as far as calls have told.
    fn is_lost(&self) -> bool {
        false
    }

    /// Waits for everything that was enqueued on a stream.
    ///
    /// # Errors
    /// Where some of it failed.
    fn wait(&self, _stream: &Self::Stream) -> Result<(), BackendError> {
        Ok(())
    }

    /// How many workers suit a launch, where nobody says; `None` leaves it to the launch.
    fn suited(&self, _work: LaunchWork) -> Option<NonZeroU32> {
        None
    }

    /// Whether a stream is being captured into a graph.
    ///
    /// # Errors
    /// Those of the driver.
    fn is_capturing(&self, _stream: &Self::Stream) -> Result<bool, BackendError> {
        Ok(false)
    }

    /// Lets what is enqueued on `next` from now on come after all that is on `stream` by now.
    ///
    /// # Errors
    /// [`BackendError::Capturing`] while one of them is being captured, where they are not one stream: a graph would wait for
    /// what is not in it. Then, and where the driver fails, nothing on `next` relies on `stream`.
    fn chain(&self, _stream: &Self::Stream, _next: &Self::Stream) -> Result<(), BackendError> {
        Ok(())
    }

    /// Makes what others have written into this backend's memory, and said to be whole, visible to launches that follow: what a
    /// network adapter has written into a GPU's memory follows no stream.
    ///
    /// # Errors
    /// [`BackendError::RemoteWrites`] where neither the GPU nor the driver can promise it, and those of the driver.
    fn settle_remote_writes(&self) -> Result<(), BackendError> {
        Ok(())
    }

    /// Copies the first `bytes` bytes of `from`, which the host reaches, to `to`, as far as both have them.
    ///
    /// # Safety
    /// 1. Until the stream has got there, both live, nobody writes `from`, and only the stream touches `to`.
    ///
    /// # Errors
    /// Where it cannot be enqueued.
    unsafe fn upload(
        &self,
        _stream: &Self::Stream,
        from: &Buffer,
        to: &mut Buffer,
        bytes: usize,
    ) -> Result<(), BackendError> {
        let from = from.bytes().and_then(|from| from.get(..bytes));
        if let Some((from, to)) = from.zip(to.bytes_mut().and_then(|to| to.get_mut(..bytes))) {
            to.copy_from_slice(from);
        }
        Ok(())
    }

    /// Fills `buffer` with zeros.
    ///
    /// # Safety
    /// 1. Until the stream has got there, it lives, and only the stream touches it.
    ///
    /// # Errors
    /// Where it cannot be enqueued.
    unsafe fn clear(&self, _stream: &Self::Stream, buffer: &mut Buffer) -> Result<(), BackendError> {
        if let Some(bytes) = buffer.bytes_mut() {
            bytes.fill(0);
        }
        Ok(())
    }

    /// Launches a kernel, with at most `workers` workers where that is said. A slot mapping may name a row twice: where
    /// workers that copy rows would then race, a backend has to use one.
    ///
    /// # Safety
    /// 1. The conditions of the kernel hold for its arguments until the launch has finished.
    ///
    /// # Errors
    /// Where it cannot be launched. It may have been all the same (6).
    unsafe fn launch(
        &self,
        stream: &Self::Stream,
        workers: Option<NonZeroU32>,
        kernel: Kernel,
    ) -> Result<(), BackendError>;
}

/// Shared by those who enqueue what no graph may hold; had by one who begins a capture, or brings a stream into one.
static CAPTURES: RwLock<()> = RwLock::new(());

/// While it lives, no capture of this crate's begins or gets another stream.
#[must_use]
pub(crate) struct NoCapture {
    _shared: RwLockReadGuard<'static, ()>,
}

/// Refuses `what`, which cannot be recorded, on a stream that is being captured. It is not, for as long as the result lives; but
/// for captures that others begin.
pub(crate) fn refuse_capture<B: Backend>(
    backend: &B,
    stream: &B::Stream,
    what: &'static str,
) -> Result<NoCapture, BackendError> {
    NoCapture::where_none(|| backend.is_capturing(stream), what)
}

impl NoCapture {
    /// The same, of what `is_capturing` asks about.
    pub fn where_none(
        is_capturing: impl FnOnce() -> Result<bool, BackendError>,
        what: &'static str,
    ) -> Result<Self, BackendError> {
        let shared = CAPTURES.read().unwrap_or_else(PoisonError::into_inner);
        if is_capturing()? { Err(BackendError::Capturing { what }) } else { Ok(Self { _shared: shared }) }
    }
}

/// Waits until nobody enqueues what no graph may hold. A capture may begin, or get another stream, while the result lives.
pub(crate) fn begin_capture() -> RwLockWriteGuard<'static, ()> {
    CAPTURES.write().unwrap_or_else(PoisonError::into_inner)
}

/// A kernel, and what it is launched with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// [`pagelift_kernels::pagelift_copy_pages()`].
    CopyPages(PagesArgs),
    /// [`pagelift_kernels::pagelift_copy_rows()`].
    CopyRows(RowsArgs),
    /// [`pagelift_kernels::pagelift_digest()`].
    Digest(DigestArgs),
    /// [`pagelift_kernels::pagelift_apply_map()`].
    ApplyMap(MapArgs),
}

/// A backend may be shared by several launchers.
macro_rules! shared {
    ($($pointer:ty),*) => { $(
// SAFETY: (1 to 7) are those of `B`, which answers each call.
unsafe impl<B: Backend + ?Sized> Backend for $pointer {
    type Stream = B::Stream;

    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn stream(&self) -> Self::Stream {
        (**self).stream()
    }

    fn allocate(&self, place: Memory, bytes: u64) -> Result<Buffer, Error> {
        (**self).allocate(place, bytes)
    }

    fn reach(&self) -> Reach {
        (**self).reach()
    }

    fn registrar(&self) -> Arc<dyn Registrar> {
        (**self).registrar()
    }

    fn in_flight<'s>(&self, stream: &'s Self::Stream) -> Option<&'s Arc<dyn Finish>> {
        (**self).in_flight(stream)
    }

    fn is_lost(&self) -> bool {
        (**self).is_lost()
    }

    fn wait(&self, stream: &Self::Stream) -> Result<(), BackendError> {
        (**self).wait(stream)
    }

    fn suited(&self, work: LaunchWork) -> Option<NonZeroU32> {
        (**self).suited(work)
    }

    fn is_capturing(&self, stream: &Self::Stream) -> Result<bool, BackendError> {
        (**self).is_capturing(stream)
    }

    fn chain(&self, stream: &Self::Stream, next: &Self::Stream) -> Result<(), BackendError> {
        (**self).chain(stream, next)
    }

    fn settle_remote_writes(&self) -> Result<(), BackendError> {
        (**self).settle_remote_writes()
    }

    unsafe fn upload(
        &self,
        stream: &Self::Stream,
        from: &Buffer,
        to: &mut Buffer,
        bytes: usize,
    ) -> Result<(), BackendError> {
        // SAFETY: (1) is ours.
        unsafe { (**self).upload(stream, from, to, bytes) }
    }

    unsafe fn clear(&self, stream: &Self::Stream, buffer: &mut Buffer) -> Result<(), BackendError> {
        // SAFETY: (1) is ours.
        unsafe { (**self).clear(stream, buffer) }
    }

    unsafe fn launch(
        &self,
        stream: &Self::Stream,
        workers: Option<NonZeroU32>,
        kernel: Kernel,
    ) -> Result<(), BackendError> {
        // SAFETY: (1) is ours.
        unsafe { (**self).launch(stream, workers, kernel) }
    }
}
    )* };
}

shared!(&B, Arc<B>);

/// Which backend is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The best one that this build and this machine have.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// An NVIDIA GPU.
    Cuda,
}

/// A backend that was opened.
#[derive(Debug)]
pub enum AnyBackend {
    /// The CPU.
    Cpu(Cpu),
    /// An NVIDIA GPU.
    Cuda(Cuda),
}

/// A backend, and why it was taken.
#[derive(Debug)]
pub struct Opened {
    /// The backend.
    pub backend: AnyBackend,
    /// In words.
    pub reason: String,
}

/// Opens the wanted backend: on a GPU the first one.
///
/// ```
/// use pagelift::backends::{AnyBackend, Choice, open};
/// assert!(matches!(open(Choice::Cpu)?.backend, AnyBackend::Cpu(_)));
/// // Without a driver or a GPU, this is the CPU too.
/// println!("{}", open(Choice::Auto)?.reason);
/// # Ok::<(), pagelift::Error>(())
/// ```
///
/// # Errors
/// Where there is no usable driver or GPU and one is asked for; what [`Cpu::new`] and [`Cuda::open`] say.
pub fn open(choice: Choice) -> Result<Opened, Error> {
    let cpu = |reason: String| Ok(Opened { backend: AnyBackend::Cpu(Cpu::new()?), reason });
    match (choice, (choice != Choice::Cpu).then(|| Cuda::open(0))) {
        (_, Some(Ok(gpu))) => {
            let reason = format!("GPU 0 is an {}", gpu.device_name());
            Ok(Opened { backend: AnyBackend::Cuda(gpu), reason })
        }
        (Choice::Cuda, Some(Err(error))) => Err(error),
        (_, Some(Err(Error::Backend(BackendError::NoDriver { cause })))) => {
            cpu(format!("no NVIDIA driver: {cause}"))
        }
        (_, Some(Err(error))) => cpu(error.to_string()),
        (_, None) => cpu("asked for".into()),
    }
}
