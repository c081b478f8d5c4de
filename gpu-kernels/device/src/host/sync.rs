//! How warps tell each other that they are done: `std` atomics, for the threads of a launch may be threads of the OS.

use std::ptr::with_exposed_provenance_mut;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::{lanes_per_warp, warps};

/// Adds `n` to the counter at `counter`, relaxed.
///
/// # Safety
///
/// 1. A `u32` lies at `counter`, aligned, and is only touched atomically while the launch runs.
pub unsafe fn add(counter: u64, n: u32) {
    // SAFETY: (1) is what an atomic at an address asks for.
    unsafe { AtomicU32::from_ptr(with_exposed_provenance_mut(counter as usize)) }
        .fetch_add(n, Ordering::Relaxed);
}

/// Adds `n` to the sum at `sum`, modulo 2⁶⁴, relaxed.
///
/// # Safety
///
/// 1. A `u64` lies at `sum`, aligned, and is only touched atomically while the launch runs.
pub unsafe fn add_u64(sum: u64, n: u64) {
    // SAFETY: (1) is what an atomic at an address asks for.
    unsafe { AtomicU64::from_ptr(with_exposed_provenance_mut(sum as usize)) }.fetch_add(n, Ordering::Relaxed);
}

/// The word at `address`, relaxed.
///
/// # Safety
///
/// 1. A `u64` lies at `address`, aligned, and is only touched atomically while the launch runs.
#[must_use]
pub unsafe fn load_u64(address: u64) -> u64 {
    // SAFETY: (1) is what an atomic at an address asks for.
    unsafe { AtomicU64::from_ptr(with_exposed_provenance_mut(address as usize)) }.load(Ordering::Relaxed)
}

/// Stores `value` at `address`, relaxed.
///
/// # Safety
///
/// 1. A `u64` lies at `address`, aligned, and is only touched atomically while the launch runs.
pub unsafe fn store_u64(address: u64, value: u64) {
    // SAFETY: (1) is what an atomic at an address asks for.
    unsafe { AtomicU64::from_ptr(with_exposed_provenance_mut(address as usize)) }
        .store(value, Ordering::Relaxed);
}

/// Counts the calling thread as finished, and says whether it was the last one of the launch. Never waits for another
/// thread. The counter returns to 0 by itself.
///
/// What any thread of the launch had written before it arrived happens before what the last one does next. (On a GPU
/// it counts warps; here lanes are threads of their own.)
///
/// # Safety
///
/// 1. A `u32` lies at `counter`, aligned; it was 0 before the launch, and only this function touches it while the
///    launch runs.
/// 2. All threads of the launch call this, once.
pub unsafe fn arrive_last(counter: u64) -> bool {
    let last = warps() * lanes_per_warp() - 1;
    // SAFETY: (1) is what an atomic at an address asks for.
    let counter = unsafe { AtomicU32::from_ptr(with_exposed_provenance_mut(counter as usize)) };
    let is_last = counter.fetch_add(1, Ordering::AcqRel) == last;
    if is_last {
        // All have arrived: nobody counts any more.
        counter.store(0, Ordering::Relaxed);
    }
    is_last
}

/// Stores `value` so that who reads it with acquire ordering sees all that was written before.
///
/// # Safety
///
/// 1. A `u64` lies at `address`, aligned, and is only touched atomically.
pub unsafe fn store_release_system(address: u64, value: u64) {
    // SAFETY: (1) is what an atomic at an address asks for.
    unsafe { AtomicU64::from_ptr(with_exposed_provenance_mut(address as usize)) }
        .store(value, Ordering::Release);
}
