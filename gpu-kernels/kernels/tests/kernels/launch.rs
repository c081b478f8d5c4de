//! Launch shapes and thread orders.

use pagelift_abi::{DigestArgs, PagesArgs, RowsArgs};
use pagelift_device::emulation::{run, run_warp, Shape};
use pagelift_kernels::{pagelift_copy_pages, pagelift_copy_rows, pagelift_digest};
use proptest::prelude::*;

/// How a launch runs.
#[derive(Clone, Copy, Debug)]
pub enum Launch {
    /// Threads in an order that a seed decides, on one OS thread.
    Emulated { shape: Shape, seed: u64 },
    /// One lane a warp, warps on as many OS threads: as the engine for the CPU runs.
    Threaded { warps: u32 },
}

/// One GPU-like launch.
pub const PLAIN: Launch = Launch::Emulated { shape: Shape { blocks: 2, warps: 2, lanes: 32 }, seed: 3 };

/// As the engine for the CPU runs, on one thread: the fastest one.
pub const ENGINE: Launch = Launch::Threaded { warps: 1 };

pub fn any_launch() -> impl Strategy<Value = Launch> {
    let shape = (1u32..5, 1u32..4, prop_oneof![Just(1u32), Just(32)]);
    let emulated = (shape, any::<u64>()).prop_map(|((blocks, warps, lanes), seed)| Launch::Emulated {
        shape: Shape { blocks, warps, lanes },
        seed,
    });
    prop_oneof![7 => emulated, 1 => (1u32..5).prop_map(|warps| Launch::Threaded { warps })]
}

impl Launch {
    pub fn pages(self, args: PagesArgs) {
        self.of::<pagelift_copy_pages>(args);
    }

    pub fn rows(self, args: RowsArgs) {
        self.of::<pagelift_copy_rows>(args);
    }

    pub fn digest(self, args: DigestArgs) {
        self.of::<pagelift_digest>(args);
    }

    fn of<K: pagelift_device::Kernel>(self, args: K::Args) {
        match self {
            // SAFETY: (1) tests pass tables whose addresses are those of their buffers.
            Self::Emulated { shape, seed } => unsafe { run::<K>(shape, seed, args) },
            Self::Threaded { warps } => std::thread::scope(|scope| {
                for index in 0..warps {
                    // SAFETY: (1) as above; (2) each index runs once.
                    scope.spawn(move || unsafe { run_warp::<K>(index, warps, args) });
                }
            }),
        }
    }
}
