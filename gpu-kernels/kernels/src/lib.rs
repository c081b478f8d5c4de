//! The kernels of pagelift.
//!
//! | kernel | table | what a unit is |
//! |---|---|---|
//! | [`pagelift_copy_pages()`] | page jobs: which blocks, known to the host | one piece of one run |
//! | [`pagelift_copy_rows()`] | row jobs: which rows a step wrote or wants, read on the device | one row |
//! | [`pagelift_digest()`] | page jobs, of which only the source is read | some rows of one run |
//! | [`pagelift_apply_map()`] | map changes | one entry |
//!
//! Each kernel but the last takes the same three steps: the table's ticket says whether there is anything to do, warps
//! share its units, and the last warp to finish tells the host. (Of a table without jobs, the first warp does.) All of them
//! run on the CPU too, for any launch shape and order of threads: see `pagelift_device::emulation`.
//!
//! # What a launch promises
//!
//! - A table whose ticket is 0, or was carried out already and is not marked
//!   [`REPEAT`](pagelift_abi::flags::REPEAT), writes nothing at all.
//! - A table of another version moves nothing, and completes with
//!   [`WRONG_VERSION`](pagelift_abi::status::WRONG_VERSION).
//! - A count of 0 moves nothing and completes. Jobs, list entries and changes past their counts are never read.
//! - Bad entries are counted and not carried out; nothing is ever written in their stead.
//! - Padding, holes and neighbours of the destination rows are never written.
//!
//! # Rust-CUDA
//!
//! The source is compatible with rust-cuda: edition 2021, `cuda_std`'s own names for what it has, one `#[repr(C)]`
//! argument by value, no generic entries, assembly in the device layer only. The crate type-checks with
//! `cuda_std = "=0.2.2"` in place of the facade of the same name. The PTX in `ptx/` is made by rustc's own backend for
//! `nvptx64-nvidia-cuda`, because rust-cuda's needs one pinned nightly and its LLVM; generating code with rust-cuda is
//! untested.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx))]

mod digest;
mod launch;
mod map;
mod pages;
#[cfg(not(target_arch = "nvptx64"))]
pub mod ptx;
mod quotient;
mod rows;
mod side;
mod unit;

use cuda_std::kernel;
use pagelift_abi::{DigestArgs, MapArgs, PagesArgs, RowsArgs};

/// Copies or zeroes whole rows of blocks.
///
/// # Safety
///
/// 1. All addresses in `args`, and in the tables they name, are valid as `pagelift_abi` describes them; the tables do
///    not change while the launch runs.
/// 2. No destination of a job overlaps another one, or any source.
/// 3. Launches with the same progress word run one after the other, each with blocks of whole warps, on a GPU of at most
///    [`pagelift_device::BLOCK_THREADS`] threads.
#[kernel]
pub unsafe fn pagelift_copy_pages(args: PagesArgs) {
    // SAFETY: (1, 2, 3) are ours.
    unsafe { pages::copy_pages(&args) }
}

/// Copies the rows that a step wrote, to where the page maps say, or gathers the rows of an index list. Slot mappings,
/// indices, counts, query starts and accepted counts are read on the device.
///
/// # Safety
///
/// 1. Conditions 1 and 3 of [`pagelift_copy_pages()`], for row jobs: the arrays they name are as long as they say. What is
///    *in* slot mappings, indices, counts, starts and accepted counts may be anything.
/// 2. No destination row overlaps a source row, nor another destination row: two entries of page maps that are in use name
///    different blocks, or different parts of one.
/// 3. Where a slot may be named twice, its row is written twice, with the same bytes: on the CPU by one worker alone.
#[kernel]
pub unsafe fn pagelift_copy_rows(args: RowsArgs) {
    // SAFETY: (1) is our 1, (2) our 2 and 3, and (3) our 1.
    unsafe { rows::copy_rows(&args) }
}

/// Adds the digest of each job's rows to its sum. Equal content has equal digests wherever and however it lies: the
/// module's source says what goes into one.
///
/// The sums are the host's to set to 0, when it stages the jobs. A table that is marked
/// [`REPEAT`](pagelift_abi::flags::REPEAT) adds its digests again in each replay.
///
/// # Safety
///
/// 1. All addresses in `args`, and in the tables they name, are valid as `pagelift_abi` describes them; the tables do
///    not change while the launch runs.
/// 2. Nobody writes the rows of the jobs while the launch runs, and only this launch touches their sums.
/// 3. Launches with the same progress word run one after the other, each with blocks of whole warps.
#[kernel]
pub unsafe fn pagelift_digest(args: DigestArgs) {
    // SAFETY: (1, 2, 3) are ours.
    unsafe { digest::digest(&args) }
}

/// Applies the map changes of a table: a small eager kernel, launched when a plan is staged, before the launch that
/// reads the maps.
///
/// # Safety
///
/// 1. `args.table` and the changes it names are as `pagelift_abi` describes them; at `args.maps` lie `args.entries`
///    entries, which nobody else touches meanwhile.
#[kernel]
pub unsafe fn pagelift_apply_map(args: MapArgs) {
    // SAFETY: (1) is ours.
    unsafe { map::apply_map(&args) }
}
