//! Recurrent state: one page per request, indivisible.

use std::fmt;

use serde::{Deserialize, Serialize};

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

/// In which order the window of a convolution lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConvOrder {
    /// `(state_len, dim)`: all channels of a token together. The usual one.
    Sd,
    /// `(dim, state_len)`: all tokens of a channel together, so that a transfer can split it by rank.
    Ds,
}

impl fmt::Display for ConvOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sd => "SD (state_len, dim)",
            Self::Ds => "DS (dim, state_len)",
        })
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
    conv_order: Option<ConvOrder>,
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
        Ok(Self { parts, region_bytes, conv_order: None })
    }

    /// Says in which order its convolution's window lies. Kernels move bytes and turn nothing around: a route between
    /// sides of two orders is refused.
    ///
    /// ```
    /// use pagelift_planner::layout::{ConvOrder, PleShape, StateLayout};
    /// let shape = PleShape { kernel: 4, ngram: 2, spec: 0, hidden: 64, hc: 1 };
    /// let usual = StateLayout::ple(shape, None)?;
    /// assert_eq!(usual.conv_order(), Some(ConvOrder::Sd));
    /// assert_eq!(usual.with_conv_order(ConvOrder::Ds).conv_order(), Some(ConvOrder::Ds));
    /// # Ok::<(), pagelift_planner::error::LayoutError>(())
    /// ```
    #[must_use]
    pub const fn with_conv_order(mut self, order: ConvOrder) -> Self {
        self.conv_order = Some(order);
        self
    }

    /// In which order its convolution's window lies; `None` where it was not said, or there is none.
    #[must_use]
    pub const fn conv_order(&self) -> Option<ConvOrder> {
        self.conv_order
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
        Shape {
            rows: 1,
            slots: 1,
            slots_per_row: 1,
            segments: &self.parts,
            region_bytes: &self.region_bytes,
            conv_order: self.conv_order,
        }
    }
}
