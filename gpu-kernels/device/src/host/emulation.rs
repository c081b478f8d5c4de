//! Runs kernels on the CPU: any grid and block shape, threads in any order.
//!
//! The threads of a launch run one after the other, each from its start to its end. Any order is a legal one, because
//! no thread ever waits for another: warps meet only where they count themselves as finished, and go on. A kernel whose
//! result depends on the order is wrong on a GPU too; the seeds are there to find it.
//!
//! ```
//! use pagelift_device::{Kernel, add, emulation, thread};
//!
//! /// Counts the threads of its launch. (`#[kernel]` writes this handle.)
//! enum Count {}
//! impl Kernel for Count {
//!     type Args = u64;
//!     const NAME: &'static str = "count";
//!     unsafe fn run(counter: u64) {
//!         // SAFETY: (1) the counter is touched only here.
//!         unsafe { add(counter, 1) }
//!     }
//! }
//!
//! let mut threads = 0u32;
//! let address = (&raw mut threads).expose_provenance() as u64;
//! let shape = emulation::Shape { blocks: 3, warps: 2, lanes: 32 };
//! // SAFETY: (1) a counter lies at the address.
//! unsafe { emulation::run::<Count>(shape, 7, address) };
//! assert_eq!(threads, 3 * 2 * 32);
//! ```

use super::thread::{Index, at};
use crate::Kernel;

/// Shape of an emulated launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Blocks of the launch.
    pub blocks: u32,
    /// Warps of a block.
    pub warps: u32,
    /// Lanes of a warp: 32 emulates a GPU, with its alignment rules; 1 is how the engine for the CPU runs.
    pub lanes: u32,
}

impl Shape {
    /// The thread at `number`, counting block by block.
    fn index(self, number: u32) -> Index {
        let block_dim = self.warps * self.lanes;
        Index {
            thread: number % block_dim,
            block: number / block_dim,
            block_dim,
            grid_dim: self.blocks,
            lanes: self.lanes,
        }
    }
}

/// Runs all threads of a launch of `K` on the calling OS thread, in an order that `seed` decides.
///
/// # Safety
///
/// 1. The conditions of the kernel hold for `args`.
pub unsafe fn run<K: Kernel>(shape: Shape, seed: u64, args: K::Args) {
    for number in shuffled(shape.blocks * shape.warps * shape.lanes, seed) {
        // SAFETY: (1) is ours.
        at(shape.index(number), || unsafe { K::run(args) });
    }
}

/// Runs warp `index` of a launch of `K` with `warps` warps of one lane each, as an engine does from its worker threads.
/// The launch is complete when each index below `warps` has run once.
///
/// # Safety
///
/// 1. The conditions of the kernel hold for `args`, which all warps of the launch are given.
/// 2. `index` is below `warps`, and no other call runs the same index of this launch.
pub unsafe fn run_warp<K: Kernel>(index: u32, warps: u32, args: K::Args) {
    let shape = Shape { blocks: warps, warps: 1, lanes: 1 };
    // SAFETY: (1) is ours.
    at(shape.index(index), || unsafe { K::run(args) });
}

/// The numbers below `count`, shuffled by Fisher and Yates with xorshift.
fn shuffled(count: u32, seed: u64) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..count).collect();
    // xorshift never leaves 0, and its first numbers resemble a small seed.
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for last in (1..numbers.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        numbers.swap(last, (state % (last as u64 + 1)) as usize);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_names_each_thread_once() {
        for seed in 0..20 {
            let mut numbers = shuffled(100, seed);
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(0..100));
        }
        assert_ne!(shuffled(100, 1), shuffled(100, 2));
    }
}
