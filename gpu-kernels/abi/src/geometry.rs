//! Where blocks lie: the part that is uploaded once, when pools and layouts are bound.

use crate::table_struct;

/// The most bytes that one unit of a page job moves.
pub const UNIT_BYTES: u32 = 16 * 1024;

/// [`SegmentPair::rows_log2`] of a pair whose rows follow each other without a gap on both sides: it is split by
/// bytes.
pub const CONTIGUOUS: u16 = u16::MAX;

table_struct! {
    /// One end of a route: where region `r` of block `b` of layer `l` begins.
    ///
    /// ```text
    /// bases[self.bases + l · layer_bases + region_base(r) + b / blocks_per_extent] + (b % blocks_per_extent) · block_stride
    /// ```
    ///
    /// One base per layer, region *and* extent: engines allocate layers together or one by one and keep K and V in two
    /// regions, and registrations come in chunks whose device aliases need not be adjacent. `region_base(r)`, the
    /// region's number times the extents, stands in each [`SegmentPair`].
    pub struct Side {
        /// Index of this side's first base.
        pub bases: u32,
        /// Bases a layer: its regions times its extents; at least 1.
        pub layer_bases: u32,
        /// Blocks an extent; at least 1.
        pub blocks_per_extent: u32,
        /// Number of blocks: ids at or past it are bad.
        pub blocks: u32,
        /// Bytes from one block of a layer to the next.
        pub block_stride: u64,
    }
}

table_struct! {
    /// A pair of sides that blocks can be copied between.
    pub struct Route {
        /// Where rows come from.
        pub source: Side,
        /// Where rows go.
        pub destination: Side,
        /// Layers; the same logical order on both sides.
        pub layers: u32,
        /// Segment pairs a layer.
        pub segments: u32,
        /// Index of the first segment pair.
        pub first_segment: u32,
        /// Zero.
        pub reserved: u32,
    }
}

table_struct! {
    /// One equally spaced run of rows, as it lies in a source block and in a destination block.
    pub struct SegmentPair {
        /// Bytes from the start of the source block's region to row 0.
        pub source_offset: u64,
        /// Bytes from the start of the destination block's region to row 0.
        pub destination_offset: u64,
        /// First of the source region's bases, counted from the layer's first.
        pub source_base: u32,
        /// First of the destination region's bases, counted from the layer's first.
        pub destination_base: u32,
        /// Bytes from one source row to the next: at least `row_bytes`, where a block has several.
        pub source_stride: u32,
        /// Bytes from one destination row to the next: at least `row_bytes`, where a block has several.
        pub destination_stride: u32,
        /// Bytes of a row that are copied.
        pub row_bytes: u32,
        /// Widest access that is aligned for every row on both sides: 16, 8, 4, 2 or 1 bytes.
        pub width: u16,
        /// [`CONTIGUOUS`], or a unit takes `1 << rows_log2` whole rows.
        pub rows_log2: u16,
    }
}

impl SegmentPair {
    /// Units of a page job that `rows` rows of one block take in this pair; planner and kernels agree through it.
    ///
    /// ```
    /// # use pagelift_abi::{CONTIGUOUS, SegmentPair};
    /// let mla = SegmentPair { row_bytes: 1152, rows_log2: CONTIGUOUS, ..Default::default() };
    /// assert_eq!(mla.chunks(128), 9); // 147,456 bytes
    /// let strided = SegmentPair { row_bytes: 1152, rows_log2: 3, ..Default::default() };
    /// assert_eq!(strided.chunks(19), 3); // 8 + 8 + 3 rows
    /// ```
    #[inline(always)]
    #[must_use]
    pub const fn chunks(&self, rows: u32) -> u64 {
        if self.rows_log2 == CONTIGUOUS {
            // A state page is one 'row' of several megabytes: the product needs 64 bits.
            (rows as u64 * self.row_bytes as u64).div_ceil(UNIT_BYTES as u64)
        } else {
            // A row has at most `UNIT_BYTES` bytes, so that more than 2³¹ of them never make a unit.
            let log2 = self.rows_log2 & 31;
            (rows as u64 + (1 << log2) - 1) >> log2
        }
    }
}
