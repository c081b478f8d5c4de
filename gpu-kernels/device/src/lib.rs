//! What a kernel runs on: the GPU, or its twin on the CPU.
//!
//! A kernel body is written once, against this crate. Everything it does to memory goes through here, under the same
//! names on both sides:
//!
//! | | `nvptx/` | `host/` |
//! |---|---|---|
//! | [`thread`] | special registers | an index per OS thread |
//! | [`copy_rows`], [`zero_rows`] | vector loads and stores, several in flight | pieces lane by lane, alignment asserted; or one `memcpy` a row |
//! | [`RowPipeline`] | `cp.async` into shared memory, and stores two rows later | reads as early or as late as may be, and stores in the end |
//! | [`each_word`] | vector loads, several in flight | the words lane by lane, alignment asserted |
//! | [`add`], [`add_u64`], [`arrive_last`], [`load_u64`], [`store_u64`], [`store_release_system`] | scoped PTX atomics | `std` atomics |
//!
//! # The warp is the worker, and nothing blocks
//!
//! All lanes of a warp call these with the same arguments, and each does its share. Warps meet only in
//! [`arrive_last`], which counts and goes on. There is no block barrier, no shuffle and no wait for another thread.
//! Therefore *every* order in which the threads of a launch take their steps is a legal one, and the host may run them
//! one after the other, each from its start to its end, in whichever order: see `emulation`.
//!
//! # Addresses
//!
//! Memory is named by `u64` addresses, as the tables hold them. On the host they are exposed addresses of ordinary
//! memory. Every function that follows one is unsafe, and says under `# Safety` what must hold there.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(asm_experimental_arch, link_llvm_intrinsics, stdarch_nvptx))]
// A warp-level barrier must be convergent, which only its intrinsic is.
#![cfg_attr(target_arch = "nvptx64", allow(internal_features))]

#[cfg(not(target_arch = "nvptx64"))]
mod host;
mod kernel;
mod memory;
#[cfg(target_arch = "nvptx64")]
mod nvptx;
mod walk;
mod warp;

#[cfg(not(target_arch = "nvptx64"))]
use host as platform;
#[cfg(target_arch = "nvptx64")]
use nvptx as platform;

#[cfg(not(target_arch = "nvptx64"))]
pub use host::emulation;
pub use kernel::Kernel;
pub use memory::{read, read_at, write};
pub use platform::{
    lanes::{copy_rows, zero_rows},
    pipeline::RowPipeline,
    sync::{add, add_u64, arrive_last, load_u64, store_release_system, store_u64},
    thread,
    words::each_word,
};
pub use walk::Rows;
pub use warp::{BLOCK_THREADS, lane, lanes_per_warp, warp, warps};
