//! What a side is, for those who address its memory themselves: transports, which read blocks from elsewhere.

use super::{Geometry, Memory, Pool, Side};
use crate::id::GroupId;
use crate::layout::{ConvOrder, Segment};
use crate::quantity::{Rows, Tokens};

/// A group's main side in one memory: where its blocks lie, and what one of them holds.
///
/// Region `r` of block `b` of layer `l` begins at `base + (b % blocks_per_extent) · block_stride`, where `base` is the one
/// of `[layer][region][extent]` among [`SideView::bases`]; see [`super::SideSpec`].
#[derive(Clone, Copy, Debug)]
pub struct SideView<'a> {
    side: &'a Side,
    pool: &'a Pool,
}

impl Geometry {
    /// A group's main side in one memory, if it has one.
    ///
    /// ```
    /// use pagelift_planner::geometry::*;
    /// use pagelift_planner::layout::PagedLayout;
    /// let mut geometry = GeometryBuilder::new();
    /// let host = geometry.pool(PoolSpec::new("host", Memory::Host, 8, &[Region::new(0x10000, 8 * 147_456)]))?;
    /// let layout = PagedLayout::mla_bf16(128)?;
    /// let main = geometry.group(GroupSpec::<Paged> {
    ///     name: "main".into(),
    ///     layers: 1,
    ///     landing: Landing::Host,
    ///     lift: PagedLift::None,
    ///     host: Some(SideSpec::packed(host, &[0x10000], &[0], 147_456, layout)),
    ///     device: None,
    /// })?;
    /// let geometry = geometry.build()?;
    /// let side = geometry.side_view(main.id(), Memory::Host).ok_or("no host side")?;
    /// assert_eq!((side.bases(), side.block_stride(), side.rows().get()), (&[0x10000][..], 147_456, 128));
    /// assert!(geometry.side_view(main.id(), Memory::Device).is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn side_view(&self, group: GroupId, memory: Memory) -> Option<SideView<'_>> {
        let side = self.main_side(group, memory)?;
        Some(SideView { side, pool: self.pool(side.pool)? })
    }
}

impl<'a> SideView<'a> {
    /// The pool that its blocks are numbered in.
    #[must_use]
    pub const fn pool(self) -> &'a Pool {
        self.pool
    }

    /// Rows of a block; 1 for states.
    #[must_use]
    pub const fn rows(self) -> Rows {
        Rows::new(self.side.rows)
    }

    /// Token slots of a block (a ring's slots; 1 for states).
    #[must_use]
    pub fn slots(self) -> Tokens {
        Tokens::new(u64::from(self.side.slots))
    }

    /// Tokens that share one row; 1 but for compressed keys.
    #[must_use]
    pub fn tokens_per_row(self) -> Tokens {
        Tokens::new(u64::from(self.side.slots_per_row))
    }

    /// What a block holds: runs of rows, or the parts of a state.
    #[must_use]
    pub fn segments(self) -> &'a [Segment] {
        &self.side.segments
    }

    /// In which order the window of a state's convolution lies, where that was said.
    #[must_use]
    pub const fn conv_order(self) -> Option<ConvOrder> {
        self.side.conv_order
    }

    /// Bytes of each region of a block, padding included.
    #[must_use]
    pub fn region_bytes(self) -> &'a [u64] {
        &self.side.region_bytes
    }

    /// Where the first block of each layer, region and extent begins, by addresses of the device.
    #[must_use]
    pub fn bases(self) -> &'a [u64] {
        &self.side.bases
    }

    /// Bytes from one block of a layer to the next.
    #[must_use]
    pub const fn block_stride(self) -> u64 {
        self.side.block_stride
    }
}
