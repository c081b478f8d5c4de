//! Plain reads and writes of values at an address: how kernels read tables and answer.

use core::ptr::{with_exposed_provenance, with_exposed_provenance_mut};

/// The value at `address`.
///
/// ```
/// let table = [7u32, 8, 9];
/// // SAFETY: (1, 2) the address is that of the array, which nobody writes.
/// assert_eq!(unsafe { pagelift_device::read::<u32>(table.as_ptr().expose_provenance() as u64) }, 7);
/// ```
///
/// # Safety
///
/// 1. `address` is aligned for `T`, and a valid `T` lies there.
/// 2. Nobody writes it meanwhile.
#[inline(always)]
pub unsafe fn read<T: Copy>(address: u64) -> T {
    // SAFETY: (1, 2) are the conditions of a read through a pointer; the caller answers for them.
    unsafe { with_exposed_provenance::<T>(address as usize).read() }
}

/// Element `index` of the array at `base`. The arithmetic is 64-bit whatever the index came from.
///
/// ```
/// let table = [7u32, 8, 9];
/// // SAFETY: (1) there are three elements, which nobody writes.
/// assert_eq!(unsafe { pagelift_device::read_at::<u32>(table.as_ptr().expose_provenance() as u64, 2) }, 9);
/// ```
///
/// # Safety
///
/// 1. [`read`]'s conditions hold for `base + index · size_of::<T>()`.
#[inline(always)]
pub unsafe fn read_at<T: Copy>(base: u64, index: u64) -> T {
    // SAFETY: (1) is what the caller answers for.
    unsafe { read(base.wrapping_add(index.wrapping_mul(size_of::<T>() as u64))) }
}

/// Stores `value` at `address`.
///
/// # Safety
///
/// 1. `address` is aligned for `T` and may be written.
/// 2. Nobody else reads or writes it meanwhile.
#[inline(always)]
pub unsafe fn write<T: Copy>(address: u64, value: T) {
    // SAFETY: (1, 2) are the conditions of a write through a pointer; the caller answers for them.
    unsafe { with_exposed_provenance_mut::<T>(address as usize).write(value) }
}
