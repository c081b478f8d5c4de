//! Backends, and what a language is taken at its word for.

use std::sync::Arc;

use pagelift::backends::{Backend, Cpu, Cuda, CudaStream, Launchable};
use pagelift::error::BackendError;
use pagelift::geometry::Memory;
use pagelift::launcher::Launcher;
use pagelift::memory::Registry;
use pagelift::runner::Runner;

use crate::{Error, Mismatch, Result};

/// A language, where it hands over what no compiler sees: streams, and graphs that are replayed later. Its crate has the unsafe code,
/// and its documentation asks for what is promised there.
pub trait Boundary: 'static {
    /// How it names a stream of a GPU's.
    type Stream: Copy;
    /// Its own errors.
    type Failure;

    /// Its own error of one of ours.
    fn failure(error: Error) -> Self::Failure;

    /// The stream of that name.
    ///
    /// # Errors
    /// As [`Cuda::adopt_stream`].
    fn stream(gpu: &Arc<Cuda>, name: Self::Stream) -> std::result::Result<CudaStream, BackendError>;

    /// Records a launch into the graph that the launcher's stream is being captured into.
    ///
    /// # Errors
    /// As [`Launcher::record`].
    fn record<B: Backend, P: Launchable>(
        launcher: &mut Launcher<B, P>,
        memory: &mut Registry,
    ) -> std::result::Result<(), pagelift::Error>;

    /// Records what a runner launches before a forward.
    ///
    /// # Errors
    /// As [`Runner::record_before_forward`].
    fn record_before_forward<B: Backend>(
        runner: &mut Runner<B>,
        memory: &mut Registry,
    ) -> std::result::Result<(), pagelift::Error>;

    /// Records what a runner launches after a forward.
    ///
    /// # Errors
    /// As [`Runner::record_after_forward`].
    fn record_after_forward<B: Backend>(
        runner: &mut Runner<B>,
        memory: &mut Registry,
    ) -> std::result::Result<(), pagelift::Error>;
}

/// An opened backend, which launchers and registries share.
#[derive(Clone, Debug)]
pub enum Engine {
    /// The CPU.
    Cpu(Arc<Cpu>),
    /// A GPU.
    Cuda(Arc<Cuda>),
}

/// How memory that an engine made is taken in: a promise of its own for each, which a language's crate makes.
#[derive(Clone, Copy, Debug)]
pub enum Adoption<'e> {
    /// As ordinary memory of the host, by [`Buffer::adopt`](pagelift::backends::Buffer::adopt).
    Ordinary,
    /// As memory of the host that is pinned and mapped, by [`Cuda::register`].
    Pinned(&'e Arc<Cuda>),
    /// As memory of this GPU, which reaches it, by [`Cuda::adopt`].
    OnGpu(&'e Arc<Cuda>),
}

/// The same for whichever backend it is.
///
/// ```
/// use pagelift::backends::{Backend as _, Cpu};
/// use pagelift_bindings::{Engine, on_engine};
/// let engine = Engine::Cpu(std::sync::Arc::new(Cpu::new()?));
/// assert_eq!(on_engine!(&engine, backend => backend.name()), "cpu");
/// # Ok::<(), pagelift::Error>(())
/// ```
#[macro_export]
macro_rules! on_engine {
    ($engine:expr, $backend:ident => $body:expr) => {
        match $engine {
            $crate::Engine::Cpu($backend) => $body,
            $crate::Engine::Cuda($backend) => $body,
        }
    };
}

impl Engine {
    /// `cpu` or `cuda`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        on_engine!(self, backend => backend.name())
    }

    /// How the memory is taken in of which a language says that it lies there: what can be checked of that is checked here, for all
    /// languages.
    ///
    /// ```
    /// use pagelift::backends::Cpu;
    /// use pagelift::geometry::Memory;
    /// use pagelift_bindings::{Adoption, Engine};
    /// let engine = Engine::Cpu(std::sync::Arc::new(Cpu::new()?));
    /// assert!(matches!(engine.adoption(Memory::Device, 0x1000, 64)?, Adoption::Ordinary));
    /// # Ok::<(), pagelift::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Cuda::check_reach`], for memory of a GPU.
    pub fn adoption(
        &self,
        place: Memory,
        address: u64,
        bytes: usize,
    ) -> std::result::Result<Adoption<'_>, pagelift::Error> {
        match (self, place) {
            (Self::Cpu(_), _) => Ok(Adoption::Ordinary),
            (Self::Cuda(gpu), Memory::Host) => Ok(Adoption::Pinned(gpu)),
            (Self::Cuda(gpu), Memory::Device) => {
                gpu.check_reach(address, bytes)?;
                Ok(Adoption::OnGpu(gpu))
            }
        }
    }
}

/// A backend that is shared, and whose streams a language may name.
pub(crate) trait Shared<L: Boundary>:
    Backend<Stream: Send + Sync> + Clone + Send + Sync + 'static
{
    /// The stream of a name, or the backend's own.
    fn stream_or_own(&self, name: Option<L::Stream>) -> Result<Self::Stream>;
}

impl<L: Boundary> Shared<L> for Arc<Cpu> {
    fn stream_or_own(&self, name: Option<L::Stream>) -> Result<()> {
        if name.is_some() { Err(Mismatch::NoStreams.into()) } else { Ok(()) }
    }
}

impl<L: Boundary> Shared<L> for Arc<Cuda> {
    fn stream_or_own(&self, name: Option<L::Stream>) -> Result<CudaStream> {
        match name {
            Some(name) => Ok(L::stream(self, name)?),
            None => Ok(self.stream()),
        }
    }
}
