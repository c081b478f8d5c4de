//! A ring of raw keys: one page per request, whose slots are overwritten in turn.

use serde::Serialize;

use super::segment::{Segment, region_bytes};
use super::{Shape, sealed::Lower};
use crate::error::LayoutError;
use crate::quantity::{Bytes, Rows};

/// One page per request with `slots` slots; the row of position `p` lies in slot `p % slots`.
///
/// It is lifted whole, like a state; its slots are mirrored one by one, like rows.
///
/// ```
/// use pagelift_planner::layout::RingLayout;
/// let ring = RingLayout::builder(8, 256).slot_padding(24).build()?;
/// assert_eq!((ring.slots().get(), ring.page_bytes().get()), (8, 7 * 280 + 256));
/// # Ok::<(), pagelift_planner::error::LayoutError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RingLayout {
    slots: u32,
    segment: Segment,
    region_bytes: Vec<u64>,
}

impl RingLayout {
    /// Starts a ring of `slots` slots of `slot_bytes` bytes.
    #[must_use]
    pub const fn builder(slots: u32, slot_bytes: u32) -> RingLayoutBuilder {
        RingLayoutBuilder { slots, slot_bytes, slot_padding: 0, page_bytes: None }
    }

    /// Slots of the ring.
    #[must_use]
    pub const fn slots(&self) -> Rows {
        Rows::new(self.slots)
    }

    /// Bytes of one layer's page, padding inside it included.
    #[must_use]
    pub fn page_bytes(&self) -> Bytes {
        Bytes::new(self.region_bytes.iter().sum())
    }
}

/// Builds a [`RingLayout`].
#[derive(Clone, Copy, Debug)]
pub struct RingLayoutBuilder {
    slots: u32,
    slot_bytes: u32,
    slot_padding: u32,
    page_bytes: Option<u64>,
}

impl RingLayoutBuilder {
    /// Unused bytes after each slot.
    #[must_use]
    pub const fn slot_padding(mut self, bytes: u32) -> Self {
        self.slot_padding = bytes;
        self
    }

    /// The size of a page, where it is padded beyond its last slot.
    #[must_use]
    pub const fn page_bytes(mut self, bytes: u64) -> Self {
        self.page_bytes = Some(bytes);
        self
    }

    /// Checks and finishes the layout.
    ///
    /// # Errors
    /// Where a size is zero or overflows, or the page is too small.
    pub fn build(self) -> Result<RingLayout, LayoutError> {
        if self.slots == 0 {
            return Err(LayoutError::NoSlots);
        }
        let stride = self
            .slot_bytes
            .checked_add(self.slot_padding)
            .ok_or(LayoutError::Overflow { what: "slot stride" })?;
        let segment = Segment::new("slot", 0, self.slot_bytes, stride)?;
        let region_bytes = region_bytes(std::slice::from_ref(&segment), self.slots, self.page_bytes)?;
        Ok(RingLayout { slots: self.slots, segment, region_bytes })
    }
}

impl Lower for RingLayout {
    #[expect(private_interfaces, reason = "sealed: nobody outside can call it")]
    fn shape(&self) -> Shape<'_> {
        Shape {
            rows: self.slots,
            slots: self.slots,
            slots_per_row: 1,
            segments: std::slice::from_ref(&self.segment),
            region_bytes: &self.region_bytes,
            conv_order: None,
        }
    }
}
