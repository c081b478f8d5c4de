//! The kernels on the CPU: laws over random layouts, launch shapes and thread orders, against naive references.
//!
//! Data are random on both sides, and whole buffers are compared, neighbours and padding too. With 32 lanes a warp
//! a misaligned access fails, and rows in flight are written as late as may be.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what it expects by panicking")]

mod contract;
mod digest;
mod faults;
mod launch;
mod layout;
mod map;
mod memory;
mod pages;
mod rows;
mod table;
