//! Where a block begins.

use pagelift_abi::Side;
use pagelift_device::read_at;

/// A block on its side, for all layers: what its number alone decides is worked out once.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// Index of the base of layer 0 in the block's extent.
    base: u32,
    /// Bases a layer.
    layer_bases: u32,
    /// Bytes from the base to the block.
    offset: u64,
}

impl Place {
    /// Where `block` lies. Its number is below `side.blocks`.
    #[inline(always)]
    pub(crate) fn of(side: &Side, block: u32) -> Self {
        // A side has at least one block an extent, so that the division never fails.
        let extent = block.checked_div(side.blocks_per_extent).unwrap_or(0);
        let within = block - extent * side.blocks_per_extent;
        Self {
            base: side.bases + extent,
            layer_bases: side.layer_bases,
            offset: u64::from(within) * side.block_stride,
        }
    }

    /// Address of the block's region in `layer`, whose bases begin at `region` of the layer's.
    ///
    /// # Safety
    ///
    /// 1. At `bases` lie the bases of all sides; `layer` is one of the route's, and `region` that of one of its segments.
    #[inline(always)]
    pub(crate) unsafe fn address(self, bases: u64, layer: u32, region: u32) -> u64 {
        let index = u64::from(self.base) + u64::from(layer) * u64::from(self.layer_bases) + u64::from(region);
        // SAFETY: by (1) the region's extent has a base for this layer.
        let base: u64 = unsafe { read_at(bases, index) };
        base + self.offset
    }
}
