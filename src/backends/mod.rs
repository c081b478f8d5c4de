//! What runs kernels.
//!
//! | backend | runs on | for |
//! |---|---|---|
//! | [`Cpu`] | worker threads, one lane a warp | machines without a GPU; the default there |
//! | [`Emulated`] | one thread, any launch shape, any order of threads | tests |
//!
//! Backends know kernels and addresses; what they may be asked to do was decided by a plan and checked by a
//! [`crate::launcher::Launcher`].

mod bound;
mod buffer;
mod cpu;
mod emulated;

use std::fmt;
use std::num::NonZeroU32;

use pagelift_abi::{DigestArgs, MapArgs, PagesArgs, RowsArgs};
use pagelift_planner::geometry::Memory;

pub use bound::Launchable;
pub(crate) use bound::{Bound, allocate};
pub use buffer::Buffer;
pub use cpu::Cpu;
pub use emulated::Emulated;
pub use pagelift_device::emulation::Shape;

use crate::error::{BackendError, Error};

/// Runs the kernels of pagelift. A launch is complete when the call returns: memory that it was lent may then be read,
/// written and released again.
pub trait Backend: fmt::Debug {
    /// Its name, as `--backend` takes it.
    fn name(&self) -> &'static str;

    /// Allocates zeroed, page-aligned memory of at least `bytes` bytes that kernels can reach.
    ///
    /// # Errors
    /// Where there is no room for it.
    fn allocate(&self, place: Memory, bytes: u64) -> Result<Buffer, Error>;

    /// Runs `pagelift_copy_pages`, with at most `workers` workers where that is said.
    ///
    /// # Safety
    /// 1. The conditions of [`pagelift_kernels::pagelift_copy_pages()`] hold for `args`.
    ///
    /// # Errors
    /// Where it cannot be launched; then nothing was.
    unsafe fn copy_pages(&self, workers: Option<NonZeroU32>, args: PagesArgs) -> Result<(), BackendError>;

    /// Runs `pagelift_copy_rows`, with at most `workers` workers where that is said. A slot mapping may name a row twice:
    /// a backend whose workers would then race has to use one.
    ///
    /// # Safety
    /// 1. The conditions of [`pagelift_kernels::pagelift_copy_rows()`] hold for `args`.
    ///
    /// # Errors
    /// Where it cannot be launched; then nothing was.
    unsafe fn copy_rows(&self, workers: Option<NonZeroU32>, args: RowsArgs) -> Result<(), BackendError>;

    /// Runs `pagelift_digest`, with at most `workers` workers where that is said.
    ///
    /// # Safety
    /// 1. The conditions of [`pagelift_kernels::pagelift_digest()`] hold for `args`.
    ///
    /// # Errors
    /// Where it cannot be launched; then nothing was.
    unsafe fn digest(&self, workers: Option<NonZeroU32>, args: DigestArgs) -> Result<(), BackendError>;

    /// Runs `pagelift_apply_map`.
    ///
    /// # Safety
    /// 1. The conditions of [`pagelift_kernels::pagelift_apply_map()`] hold for `args`.
    ///
    /// # Errors
    /// Where it cannot be launched; then nothing was.
    unsafe fn apply_map(&self, args: MapArgs) -> Result<(), BackendError>;
}

/// A backend may be shared by several launchers.
impl<B: Backend + ?Sized> Backend for &B {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn allocate(&self, place: Memory, bytes: u64) -> Result<Buffer, Error> {
        (**self).allocate(place, bytes)
    }

    unsafe fn copy_pages(&self, workers: Option<NonZeroU32>, args: PagesArgs) -> Result<(), BackendError> {
        // SAFETY: (1) is ours.
        unsafe { (**self).copy_pages(workers, args) }
    }

    unsafe fn copy_rows(&self, workers: Option<NonZeroU32>, args: RowsArgs) -> Result<(), BackendError> {
        // SAFETY: (1) is ours.
        unsafe { (**self).copy_rows(workers, args) }
    }

    unsafe fn digest(&self, workers: Option<NonZeroU32>, args: DigestArgs) -> Result<(), BackendError> {
        // SAFETY: (1) is ours.
        unsafe { (**self).digest(workers, args) }
    }

    unsafe fn apply_map(&self, args: MapArgs) -> Result<(), BackendError> {
        // SAFETY: (1) is ours.
        unsafe { (**self).apply_map(args) }
    }
}

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

/// A backend, and why it was taken.
#[derive(Debug)]
pub struct Opened {
    /// The backend.
    pub backend: Cpu,
    /// In words.
    pub reason: &'static str,
}

/// Opens the wanted backend.
///
/// ```
/// use pagelift::backends::{Backend, Choice, open};
/// assert_eq!(open(Choice::Cpu)?.backend.name(), "cpu");
/// assert!(open(Choice::Cuda).is_err());
/// # Ok::<(), pagelift::Error>(())
/// ```
///
/// # Errors
/// [`BackendError::NotBuilt`] for a backend that this build does not have.
pub fn open(choice: Choice) -> Result<Opened, Error> {
    let reason = match choice {
        Choice::Auto => "no CUDA backend in this build",
        Choice::Cpu => "asked for",
        Choice::Cuda => return Err(BackendError::NotBuilt { name: "cuda", instead: "cpu" }.into()),
    };
    Ok(Opened { backend: Cpu::new()?, reason })
}
