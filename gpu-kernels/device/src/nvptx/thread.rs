//! Which thread of which block this is.

use core::arch::nvptx;

/// Threads of a warp.
#[inline(always)]
#[must_use]
pub const fn lanes_per_warp() -> u32 {
    32
}

/// Declares a safe reader of a special register under the name it has in rust-cuda.
macro_rules! special_register {
    ($($(#[$meta:meta])* $name:ident = $intrinsic:ident;)*) => {$(
        $(#[$meta])*
        #[inline(always)]
        #[must_use]
        pub fn $name() -> u32 {
            // SAFETY: reading a special register has no conditions.
            unsafe { nvptx::$intrinsic() as u32 }
        }
    )*};
}

special_register! {
    /// Number of the thread within its block.
    thread_idx_x = _thread_idx_x;
    /// Number of the block within the launch.
    block_idx_x = _block_idx_x;
    /// Threads of a block.
    block_dim_x = _block_dim_x;
    /// Blocks of the launch.
    grid_dim_x = _grid_dim_x;
}
