//! The GPU: one file for each kind of instruction. Inline assembly and intrinsics are here and nowhere else.
//!
//! `asm!` is not convergent, so it is used only for what a thread does to memory on its own; the one warp-level
//! operation goes through its LLVM intrinsic. No block is `pure`: LLVM would be free to merge or move it.

pub(crate) mod lanes;
pub(crate) mod pipeline;
pub(crate) mod sync;
pub mod thread;
pub(crate) mod words;

/// What a panic would come to: a trap, which ends the launch with an error and takes the context. No kernel has one, which
/// the PTX is checked for.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: `trap` has no conditions.
    unsafe { core::arch::nvptx::trap() }
}
