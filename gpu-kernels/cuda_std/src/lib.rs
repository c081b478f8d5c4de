//! The part of rust-cuda's `cuda_std` that pagelift's kernels use.
//!
//! Each name here exists in `cuda_std` 0.2.2 with the same form and meaning, so that the kernels crate type-checks with
//! either in its place. What pagelift needs beyond that is in `pagelift-device`.
#![cfg_attr(target_arch = "nvptx64", no_std)]

pub use pagelift_macros::kernel;

/// Which thread of which block this is.
pub mod thread {
    pub use pagelift_device::thread::{block_dim_x, block_idx_x, grid_dim_x, thread_idx_x};
}
