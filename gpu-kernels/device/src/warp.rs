//! Which worker of the launch a thread belongs to.
//!
//! A block has a whole number of warps: the number of its threads is a multiple of [`lanes_per_warp`].

pub use crate::platform::thread::lanes_per_warp;
use crate::thread::{block_dim_x, block_idx_x, grid_dim_x, thread_idx_x};

/// The most threads of a block, and as many as launches have: the kernels' PTX says so too, and a GPU refuses more.
///
/// A multiprocessor of 65,536 registers has 80 for each of so many threads. With the 64 that are left to each of 1,024,
/// a lane cannot keep eight 16-byte loads in flight, without which a single multiprocessor does not use the link well.
pub const BLOCK_THREADS: u32 = 768;

/// Number of the calling thread within its warp.
#[inline(always)]
#[must_use]
pub fn lane() -> u32 {
    thread_idx_x() % lanes_per_warp()
}

/// Number of the calling thread's warp within the launch.
///
/// Neighbouring numbers lie in different blocks, so that the first few units of a small plan are spread over all
/// multiprocessors of the launch instead of filling one.
#[inline(always)]
#[must_use]
pub fn warp() -> u32 {
    block_idx_x() + grid_dim_x() * (thread_idx_x() / lanes_per_warp())
}

/// Warps of the launch: at least one.
#[inline(always)]
#[must_use]
pub fn warps() -> u32 {
    // Said for the compiler: who divides by it needs no trap.
    (grid_dim_x() * (block_dim_x() / lanes_per_warp())).max(1)
}
