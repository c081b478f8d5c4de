//! Which worker of the launch a thread belongs to.
//!
//! A block has a whole number of warps: the number of its threads is a multiple of [`lanes_per_warp`].

pub use crate::platform::thread::lanes_per_warp;
use crate::thread::{block_dim_x, block_idx_x, grid_dim_x, thread_idx_x};

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
