//! How warps tell each other, and the host, that they are done.

use core::arch::asm;

use crate::{lane, warps};

unsafe extern "C" {
    /// Convergent, unlike `asm!`: LLVM does not duplicate it into branches.
    #[link_name = "llvm.nvvm.bar.warp.sync"]
    safe fn warp_sync(lanes: u32);
}

/// Adds `n` to the counter at `counter`: relaxed, at gpu scope.
///
/// # Safety
///
/// 1. A `u32` lies at `counter`, aligned, in device memory, and is only touched atomically while the launch runs.
#[inline(always)]
pub unsafe fn add(counter: u64, n: u32) {
    // SAFETY: (1) is what the instruction asks for.
    unsafe {
        asm!("red.relaxed.gpu.global.add.u32 [{}], {};", in(reg64) counter, in(reg32) n, options(nostack));
    }
}

/// Adds `n` to the sum at `sum`, modulo 2⁶⁴: relaxed, at gpu scope.
///
/// # Safety
///
/// 1. A `u64` lies at `sum`, aligned, in device memory or in mapped host memory, and is only touched atomically, and by
///    this GPU alone, while the launch runs.
#[inline(always)]
pub unsafe fn add_u64(sum: u64, n: u64) {
    // SAFETY: (1) is what the instruction asks for.
    unsafe {
        asm!("red.relaxed.gpu.global.add.u64 [{}], {};", in(reg64) sum, in(reg64) n, options(nostack));
    }
}

/// The word at `address`: relaxed, at gpu scope.
///
/// # Safety
///
/// 1. A `u64` lies at `address`, aligned, in device memory, and is only touched atomically while the launch runs.
#[inline(always)]
#[must_use]
pub unsafe fn load_u64(address: u64) -> u64 {
    let value;
    // SAFETY: (1) is what the instruction asks for.
    unsafe {
        asm!("ld.relaxed.gpu.global.u64 {}, [{}];", out(reg64) value, in(reg64) address, options(nostack));
    }
    value
}

/// Stores `value` at `address`: relaxed, at gpu scope.
///
/// # Safety
///
/// 1. The condition of [`load_u64`].
#[inline(always)]
pub unsafe fn store_u64(address: u64, value: u64) {
    // SAFETY: (1) is what the instruction asks for.
    unsafe {
        asm!("st.relaxed.gpu.global.u64 [{}], {};", in(reg64) address, in(reg64) value, options(nostack));
    }
}

/// Counts the calling warp as finished, and says whether it was the last one of the launch. Never waits for another
/// warp. The counter returns to 0 by itself.
///
/// In the last warp exactly one lane is answered `true`, and what any lane of the launch had written before it arrived
/// happens before what that lane does next.
///
/// # Safety
///
/// 1. A `u32` lies at `counter`, aligned, in device memory; it was 0 before the launch, and only this function touches
///    it while the launch runs.
/// 2. All threads of the launch call this, once.
#[inline(always)]
pub unsafe fn arrive_last(counter: u64) -> bool {
    // All lanes' writes are ordered before what lane 0 does from here on.
    warp_sync(!0);
    if lane() != 0 {
        return false;
    }
    let last = warps() - 1;
    let before: u32;
    // The arrivals are one chain, in which each synchronises with the next. What a warp wrote before its own, also to host
    // memory, comes before what the last one does next, and so before what the host sees of its release at system scope:
    // causality does not end where a scope does (PTX, memory consistency model). A fence of each warp at system scope, which
    // waits for the link, was a fifth of the stalls of a copy on the GPU.
    //
    // `inc` wraps to 0 after `last`. Rust's own atomics lose scope and ordering on this target.
    //
    // SAFETY: (1) is what the instruction asks for.
    unsafe {
        asm!(
            "atom.acq_rel.gpu.global.inc.u32 {}, [{}], {};",
            out(reg32) before,
            in(reg64) counter,
            in(reg32) last,
            options(nostack),
        );
    }
    before == last
}

/// Stores `value` so that who reads it, on the host too, sees all that was written before.
///
/// # Safety
///
/// 1. A `u64` lies at `address`, aligned, and is only touched atomically.
#[inline(always)]
pub unsafe fn store_release_system(address: u64, value: u64) {
    // SAFETY: (1) is what the instruction asks for.
    unsafe {
        asm!("st.release.sys.global.u64 [{}], {};", in(reg64) address, in(reg64) value, options(nostack));
    }
}
