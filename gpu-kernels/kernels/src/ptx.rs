//! The kernels compiled for GPUs, as text that the driver takes.
//!
//! It is committed, so that building pagelift needs neither a GPU nor a compiler for one. A module holds each kernel
//! under the name of its handle, for blocks of at most
//! [`BLOCK_THREADS`](pagelift_device::BLOCK_THREADS) threads.

/// For compute capability 8.0 and later.
pub const SM_80: &str = include_str!("../ptx/sm_80.ptx");

/// For compute capability 9.0 and later.
pub const SM_90: &str = include_str!("../ptx/sm_90.ptx");
