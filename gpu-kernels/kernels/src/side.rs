//! Where a block of a layer begins.

use pagelift_abi::Side;
use pagelift_device::read_at;

/// Address of `block` of `layer` on `side`.
///
/// # Safety
///
/// 1. At `bases` lie the bases of all sides, and `layer` is one of the route's.
/// 2. `block` is below `side.blocks`.
#[inline(always)]
pub(crate) unsafe fn block_address(bases: u64, side: &Side, layer: u32, block: u32) -> u64 {
    // A side has at least one block an extent, so that the division never fails.
    let extent = block.checked_div(side.blocks_per_extent).unwrap_or(0);
    let within = block - extent * side.blocks_per_extent;
    let index = u64::from(side.bases) + u64::from(layer) * u64::from(side.extents) + u64::from(extent);
    // SAFETY: by (1) and (2) the extent has a base for this layer.
    let base: u64 = unsafe { read_at(bases, index) };
    base + u64::from(within) * side.block_stride
}
