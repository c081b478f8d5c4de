//! Recurrent state: one page per request, indivisible.

use serde::Serialize;

use super::segment::{Segment, check_apart, region_bytes};
use super::{Shape, sealed::Lower};
use crate::error::LayoutError;
use crate::quantity::Bytes;

/// One part of a state, such as a convolution's window or a temporal state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StatePart {
    /// The name that pairs it with the other side's part.
    pub name: String,
    /// Its size.
    pub bytes: u32,
}

impl StatePart {
    /// A part named `name` of `bytes` bytes.
    #[must_use]
    pub fn new(name: &str, bytes: u32) -> Self {
        Self { name: name.into(), bytes }
    }
}

/// One page per request, copied whole or not at all: a part of a state means nothing, so rows cannot be asked for.
///
/// ```
/// use pagelift_planner::layout::{StateLayout, StatePart};
/// let gdn = [StatePart::new("conv", 51_200), StatePart::new("temporal", 1_572_864)];
/// let page = StateLayout::new(&gdn, Some(1_638_400))?;
/// assert_eq!((page.state_bytes().get(), page.page_bytes().get()), (1_624_064, 1_638_400));
/// # Ok::<(), pagelift_planner::error::LayoutError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StateLayout {
    parts: Vec<Segment>,
    region_bytes: Vec<u64>,
}

impl StateLayout {
    /// Parts that follow one another; `page_bytes` where the page is padded beyond the last.
    ///
    /// # Errors
    /// Where there is no part, one is empty, two have one name, or the page is too small.
    pub fn new(parts: &[StatePart], page_bytes: Option<u64>) -> Result<Self, LayoutError> {
        let mut offset = 0_u64;
        let mut placed = Vec::with_capacity(parts.len());
        for part in parts {
            placed.push((part.name.as_str(), offset, part.bytes));
            offset = offset
                .checked_add(u64::from(part.bytes))
                .ok_or(LayoutError::Overflow { what: "state size" })?;
        }
        Self::at(&placed, page_bytes)
    }

    /// Parts at places of their own: `(name, offset, bytes)`.
    ///
    /// # Errors
    /// As [`StateLayout::new`], and where parts share bytes.
    pub fn at(parts: &[(&str, u64, u32)], declared: Option<u64>) -> Result<Self, LayoutError> {
        if parts.is_empty() {
            return Err(LayoutError::NoSegments);
        }
        let parts = parts
            .iter()
            .map(|&(name, offset, bytes)| Segment::new(name, offset, bytes, bytes))
            .collect::<Result<Vec<_>, _>>()?;
        check_apart(&parts, 1)?;
        let region_bytes = region_bytes(&parts, 1, declared)?;
        Ok(Self { parts, region_bytes })
    }

    /// Bytes of the parts together.
    #[must_use]
    pub fn state_bytes(&self) -> Bytes {
        Bytes::new(self.parts.iter().fold(0, |sum, part| sum.saturating_add(u64::from(part.row_bytes()))))
    }

    /// Bytes of one layer's page, padding included.
    #[must_use]
    pub fn page_bytes(&self) -> Bytes {
        Bytes::new(self.region_bytes.iter().sum())
    }
}

impl Lower for StateLayout {
    #[expect(private_interfaces, reason = "sealed: nobody outside can call it")]
    fn shape(&self) -> Shape<'_> {
        Shape { rows: 1, slots: 1, slots_per_row: 1, segments: &self.parts, region_bytes: &self.region_bytes }
    }
}
