//! The kernels on worker threads, one lane a warp.

use std::fmt;
use std::num::NonZeroU32;
use std::{process, thread};

use pagelift_device::emulation;
use pagelift_kernels::{pagelift_apply_map, pagelift_copy_pages, pagelift_copy_rows, pagelift_digest};
use pagelift_planner::geometry::Memory;
use pagelift_planner::quantity::Bytes;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::{Backend, Buffer, Kernel, LaunchWork};
use crate::error::{BackendError, Error};

/// Warps for each thread: units are of uneven size, and a thread that is done early takes another warp.
const WARPS_PER_THREAD: usize = 4;

/// Launches that copy less are done by the calling thread alone, before others would have woken up.
const ALONE: Bytes = Bytes::new(2 << 20);

/// The most threads: each takes a stack, and a system that cannot start one may end the process.
const MOST_THREADS: usize = 1024;

/// Runs kernels on the CPU. 'Device' memory is ordinary memory; a launch is complete when the call returns.
///
/// Threads do not survive `fork`: in a process that was forked off since it was opened, whoever calls copies alone.
///
/// ```
/// use pagelift::backends::{Backend, Cpu};
/// assert_eq!(Cpu::with_threads(1)?.name(), "cpu");
/// # Ok::<(), pagelift::Error>(())
/// ```
pub struct Cpu {
    threads: ThreadPool,
    /// The process that has these threads.
    process: u32,
}

impl Cpu {
    /// Uses a thread for each processor.
    ///
    /// # Errors
    /// [`BackendError::Threads`] where they cannot be started.
    pub fn new() -> Result<Self, Error> {
        Self::with_threads(0)
    }

    /// Uses `threads` threads, at most 1024; 0 means one for each processor, and no more than that.
    ///
    /// # Errors
    /// [`BackendError::Threads`] where there are more than 1024, or they cannot be started.
    pub fn with_threads(threads: usize) -> Result<Self, Error> {
        let threads = match threads {
            0 => thread::available_parallelism().map_or(1, |processors| processors.get().min(MOST_THREADS)),
            1..=MOST_THREADS => threads,
            _ => {
                let cause = format!("expected at most {MOST_THREADS}");
                return Err(BackendError::Threads { threads, cause }.into());
            }
        };
        let builder = ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("pagelift-{i}"));
        let pool = builder.build();
        let threads = pool.map_err(|cause| BackendError::Threads { threads, cause: cause.to_string() })?;
        Ok(Self { threads, process: process::id() })
    }

    /// Runs a kernel with the workers that are there, or fewer.
    ///
    /// # Safety
    /// 1. The conditions of the kernel hold for `args` until this returns.
    unsafe fn run<K: pagelift_device::Kernel>(&self, workers: Option<NonZeroU32>, args: K::Args) {
        let threads = self.threads.current_num_threads();
        let all = u32::try_from(threads.saturating_mul(WARPS_PER_THREAD)).unwrap_or(u32::MAX);
        let warps = workers.map_or(all, |workers| workers.get().min(all));
        if threads == 1 || warps == 1 || process::id() != self.process {
            // SAFETY: (1) is ours; a launch of one warp has run when its warp has.
            unsafe { emulation::run_warp::<K>(0, 1, args) };
            return;
        }
        self.threads.install(|| {
            (0..warps).into_par_iter().for_each(|warp| {
                // SAFETY: (1) is ours: all warps are done before we return; (2) each index is run once.
                unsafe { emulation::run_warp::<K>(warp, warps, args) }
            });
        });
    }
}

// SAFETY: (1, 2) memory is the process'; (3 to 6) what is enqueued has run when the call returns; (7) any number of warps is a
// shape that kernels allow, and one worker copies rows.
unsafe impl Backend for Cpu {
    type Stream = ();

    fn stream(&self) {}

    fn name(&self) -> &'static str {
        "cpu"
    }

    fn allocate(&self, place: Memory, bytes: u64) -> Result<Buffer, Error> {
        Buffer::zeroed(place, bytes)
    }

    fn suited(&self, work: LaunchWork) -> Option<NonZeroU32> {
        (work.bytes? < ALONE).then_some(NonZeroU32::MIN)
    }

    /// Which rows are copied only the step's arrays say, and they may name a row twice: one worker copies them, so that no
    /// two write one row at once. Changes of maps are few, and one worker applies them too.
    unsafe fn launch(
        &self,
        (): &(),
        workers: Option<NonZeroU32>,
        kernel: Kernel,
    ) -> Result<(), BackendError> {
        let alone = Some(NonZeroU32::MIN);
        // SAFETY: (1) is ours.
        unsafe {
            match kernel {
                Kernel::CopyPages(args) => self.run::<pagelift_copy_pages>(workers, args),
                Kernel::CopyRows(args) => self.run::<pagelift_copy_rows>(alone, args),
                Kernel::Digest(args) => self.run::<pagelift_digest>(workers, args),
                Kernel::ApplyMap(args) => self.run::<pagelift_apply_map>(alone, args),
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cpu({} threads)", self.threads.current_num_threads())
    }
}
