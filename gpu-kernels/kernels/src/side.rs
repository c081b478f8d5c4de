//! Where a block begins.

use pagelift_abi::Side;
use pagelift_device::read_at;

use crate::quotient::quotient;

/// A block on its side, in one layer after the other: what its number alone decides is worked out once.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// Index of the base of the block's extent in the layer's first region.
    base: u32,
    /// Bases a layer.
    layer_bases: u32,
    /// Bytes from that base, or another region's, to the block.
    offset: u64,
}

impl Place {
    /// Where `block` lies in `layer`.
    ///
    /// Numbers past `side.blocks`, or past the layers of its route, give a place whose [`address`](Self::address) may not be
    /// asked for.
    #[inline(always)]
    pub(crate) fn of(side: &Side, block: u32, layer: u32) -> Self {
        // A side has at least one block an extent, so that the division never fails.
        let extent = quotient(block, side.blocks_per_extent).unwrap_or(0);
        let within = block - extent * side.blocks_per_extent;
        Self {
            // The planner sees to it that all bases of a geometry have an index of 32 bits.
            base: side.bases + layer * side.layer_bases + extent,
            layer_bases: side.layer_bases,
            offset: u64::from(within) * side.block_stride,
        }
    }

    /// Goes on to the same block in the next layer, whether or not there is one.
    #[inline(always)]
    pub(crate) fn next_layer(&mut self) {
        self.base = self.base.wrapping_add(self.layer_bases);
    }

    /// Address of the block's region whose bases begin at `region` of the layer's.
    ///
    /// # Safety
    ///
    /// 1. At `bases` lie the bases of all sides; the block is one of the side's and the layer one of the route's, and `region`
    ///    is that of one of its segments.
    #[inline(always)]
    pub(crate) unsafe fn address(self, bases: u64, region: u32) -> u64 {
        // SAFETY: by (1) the region's extent has a base for this layer.
        let base: u64 = unsafe { read_at(bases, u64::from(self.base + region)) };
        base + self.offset
    }
}
