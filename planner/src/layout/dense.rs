//! Dense K and V, as MHA and GQA models keep them.
//!
//! The orders are named as engines name them: NHD has heads inside rows, HND outside. Neither is ever guessed from sizes.

use super::families::{F32, product};
use super::{PagedLayout, Segment};
use crate::error::LayoutError;

/// How the values of a dense K/V cache lie in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadOrder {
    /// Heads inside rows: `[rows, heads, dim]`.
    Nhd,
    /// Heads outside rows: `[heads, rows, dim]`.
    Hnd,
}

/// Where K and V of a dense cache lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvRegions {
    /// K, then V, in one page.
    Packed,
    /// K and V in two regions, each with bases of its own.
    Separate,
}

/// The scales of an fp8 dense cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvScales {
    /// None in the cache: values that need none, or one scale a tensor that is kept elsewhere.
    Outside,
    /// An f32 for each token and head, of K and of V, at the end of the page.
    PerTokenHead,
}

/// The shape of one dense (GQA or MHA) layer on one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DenseShape {
    /// KV heads of this rank.
    pub heads: u32,
    /// Values of a head.
    pub dim: u32,
    /// Bytes of a value: 2 for bf16, 1 for fp8.
    pub value_bytes: u32,
    /// How the heads lie.
    pub order: HeadOrder,
    /// Where K and V lie.
    pub regions: KvRegions,
    /// Which scales lie in the page.
    pub scales: KvScales,
}

impl PagedLayout {
    /// Dense K and V. Each head is a segment of its own, so that any two orders can be paired; where heads lie side by side
    /// on both sides, a route joins them again.
    ///
    /// ```
    /// use pagelift_planner::layout::*;
    /// let shape = DenseShape {
    ///     heads: 8, dim: 128, value_bytes: 1,
    ///     order: HeadOrder::Nhd, regions: KvRegions::Packed, scales: KvScales::PerTokenHead,
    /// };
    /// let page = PagedLayout::dense(16, shape)?;
    /// assert_eq!(page.page_bytes().get(), 2 * 16 * 8 * 128 + 2 * 16 * 8 * 4);
    /// # Ok::<(), pagelift_planner::error::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Where a size is zero or overflows, or there are more heads than a page may have segments.
    pub fn dense(block_tokens: u32, shape: DenseShape) -> Result<Self, LayoutError> {
        let DenseShape { heads, dim, value_bytes, .. } = shape;
        let head = product("head", &[dim, value_bytes])?;
        if heads == 0 {
            return Err(LayoutError::NoSegments);
        }
        // Two tensors, and a segment of scales for each, must not outnumber what a page may have.
        let most = u32::try_from(super::MAX_SEGMENTS / 2).unwrap_or(u32::MAX);
        if heads >= most {
            return Err(LayoutError::Overflow { what: "the number of segments" });
        }
        let values = u64::from(product("row", &[heads, head])?).checked_mul(u64::from(block_tokens));
        let values = values.ok_or(LayoutError::Overflow { what: "values" })?;
        let scales = u64::from(product("scales", &[heads, F32])?).checked_mul(u64::from(block_tokens));
        let scales = scales.ok_or(LayoutError::Overflow { what: "scales" })?;
        let mut layout = Self::builder(block_tokens);
        for (number, tensor) in [(0_u32, "k"), (1, "v")] {
            // Scales come after the values of both tensors, or of their own one where they lie apart.
            let (region, first, first_scale) = match shape.regions {
                KvRegions::Packed => {
                    let after = values.checked_mul(2).ok_or(LayoutError::Overflow { what: "values" })?;
                    (
                        0,
                        values.saturating_mul(number.into()),
                        after.saturating_add(scales.saturating_mul(number.into())),
                    )
                }
                KvRegions::Separate => (number, 0, values),
            };
            for index in 0..heads {
                layout = layout
                    .segment_at(shape.head(block_tokens, index, head, first, tensor)?.in_region(region));
            }
            if shape.scales == KvScales::PerTokenHead {
                let row = product("scales", &[heads, F32])?;
                let segment = Segment::new(&format!("{tensor}.scale"), first_scale, row, row)?;
                layout = layout.segment_at(segment.in_region(region));
            }
        }
        layout.build()
    }
}

impl DenseShape {
    /// The segment of one head, `first` bytes after the start of its region.
    fn head(
        self,
        rows: u32,
        index: u32,
        head: u32,
        first: u64,
        tensor: &str,
    ) -> Result<Segment, LayoutError> {
        let overflow = || LayoutError::Overflow { what: "a head's place" };
        let name = format!("{tensor}.{index}");
        let (stride, between) = match self.order {
            HeadOrder::Nhd => (product("row", &[self.heads, head])?, u64::from(head)),
            HeadOrder::Hnd => (head, u64::from(head).checked_mul(u64::from(rows)).ok_or_else(overflow)?),
        };
        let offset = between.checked_mul(u64::from(index)).and_then(|bytes| bytes.checked_add(first));
        Segment::new(&name, offset.ok_or_else(overflow)?, head, stride)
    }
}
