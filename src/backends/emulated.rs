//! The kernels on one thread, in any launch shape and any order of threads: for tests.

use std::num::NonZeroU32;

use pagelift_device::emulation::{self, Shape};
use pagelift_kernels::{pagelift_apply_map, pagelift_copy_pages, pagelift_copy_rows, pagelift_digest};
use pagelift_planner::geometry::Memory;

use super::{Backend, Buffer, Kernel};
use crate::error::{BackendError, Error};

/// Runs kernels as a GPU would: 32 lanes a warp, alignment asserted, rows in flight written as late as may be.
///
/// It panics where a kernel breaks a rule that a GPU would punish with a fault, so it is for tests.
///
/// ```
/// use pagelift::backends::{Backend, Emulated, Shape};
/// let backend = Emulated { shape: Shape { blocks: 2, warps: 4, lanes: 32 }, seed: 7 };
/// assert_eq!(backend.name(), "emulated");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Emulated {
    /// Blocks of a launch, warps of a block, lanes of a warp.
    pub shape: Shape,
    /// Decides the order of threads.
    pub seed: u64,
}

impl Emulated {
    /// The most threads of a launch.
    const MOST: u32 = 1 << 20;

    /// Refuses a shape without threads, or with more than can be numbered.
    fn check(&self) -> Result<(), BackendError> {
        let Shape { blocks, warps, lanes } = self.shape;
        let threads = blocks.checked_mul(warps).and_then(|warps| warps.checked_mul(lanes));
        match threads {
            Some(1..=Self::MOST) => Ok(()),
            _ => Err(BackendError::Shape { blocks, warps, lanes, most: Self::MOST }),
        }
    }

    /// The shape with at most so many blocks.
    fn shape_for(&self, workers: Option<NonZeroU32>) -> Shape {
        let most = workers.map_or(u32::MAX, NonZeroU32::get);
        Shape { blocks: self.shape.blocks.min(most), ..self.shape }
    }
}

// SAFETY: (1, 2) memory is the process'; (3 to 6) what is enqueued has run when the call returns; (7) the shape is checked, and
// all runs on one thread.
unsafe impl Backend for Emulated {
    type Stream = ();

    fn stream(&self) {}

    fn name(&self) -> &'static str {
        "emulated"
    }

    fn allocate(&self, place: Memory, bytes: u64) -> Result<Buffer, Error> {
        Buffer::zeroed(place, bytes)
    }

    unsafe fn launch(
        &self,
        (): &(),
        workers: Option<NonZeroU32>,
        kernel: Kernel,
    ) -> Result<(), BackendError> {
        self.check()?;
        let (shape, seed) = (self.shape_for(workers), self.seed);
        // SAFETY: (1) is ours.
        unsafe {
            match kernel {
                Kernel::CopyPages(args) => emulation::run::<pagelift_copy_pages>(shape, seed, args),
                Kernel::CopyRows(args) => emulation::run::<pagelift_copy_rows>(shape, seed, args),
                Kernel::Digest(args) => emulation::run::<pagelift_digest>(shape, seed, args),
                Kernel::ApplyMap(args) => emulation::run::<pagelift_apply_map>(shape, seed, args),
            }
        }
        Ok(())
    }
}
