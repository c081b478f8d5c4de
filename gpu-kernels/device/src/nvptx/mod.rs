//! The GPU: one file for each kind of instruction. Inline assembly and intrinsics are here and nowhere else.
//!
//! `asm!` is not convergent, so it is used only for what a thread does to memory on its own; the one warp-level
//! operation goes through its LLVM intrinsic. No block is `pure`: LLVM would be free to merge or move it.

pub(crate) mod lanes;
pub(crate) mod pipeline;
pub(crate) mod sync;
pub mod thread;
pub(crate) mod words;

/// Nothing here unwinds or prints: a panic, which only a broken table can cause, stops the launch with an error.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: `trap` has no conditions.
    unsafe { core::arch::nvptx::trap() }
}
