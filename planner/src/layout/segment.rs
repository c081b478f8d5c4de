//! One equally spaced run of rows inside a page.

use std::sync::Arc;

use serde::Serialize;

use crate::error::LayoutError;

/// One equally spaced run of rows inside a page: row `r` lies at `offset + r · row_stride` from the page's start.
///
/// ```
/// use pagelift_planner::layout::Segment;
/// let scale = Segment::new("scale", 64 * 128, 4, 4)?;
/// assert_eq!(scale.end(64)?, 64 * 132);
/// # Ok::<(), pagelift_planner::error::LayoutError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Segment {
    name: Arc<str>,
    region: u32,
    offset: u64,
    row_bytes: u32,
    row_stride: u32,
}

impl Segment {
    /// A run named `name` whose rows of `row_bytes` bytes lie `row_stride` bytes apart, from `offset` on.
    ///
    /// # Errors
    /// [`LayoutError::EmptyRow`] for rows of no bytes, [`LayoutError::RowsOverlap`] where `row_stride` is less than
    /// `row_bytes`.
    pub fn new(name: &str, offset: u64, row_bytes: u32, row_stride: u32) -> Result<Self, LayoutError> {
        if row_bytes == 0 {
            return Err(LayoutError::EmptyRow { segment: name.into() });
        }
        if row_stride < row_bytes {
            return Err(LayoutError::RowsOverlap { segment: name.into(), row_bytes, row_stride });
        }
        Ok(Self { name: name.into(), region: 0, offset, row_bytes, row_stride })
    }

    /// The same run in another region of the page: engines keep K and V in two tensors, each with a base of its own.
    #[must_use]
    pub fn in_region(mut self, region: u32) -> Self {
        self.region = region;
        self
    }

    /// The region that `offset` counts from the start of.
    #[must_use]
    pub const fn region(&self) -> u32 {
        self.region
    }

    /// The name that pairs it with the other side's segment.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes from the start of the page, or of its region, to row 0.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes of a row.
    #[must_use]
    pub const fn row_bytes(&self) -> u32 {
        self.row_bytes
    }

    /// Bytes from one row to the next.
    #[must_use]
    pub const fn row_stride(&self) -> u32 {
        self.row_stride
    }

    /// Bytes from the page's start to the end of row `rows - 1`.
    ///
    /// # Errors
    /// [`LayoutError::Overflow`] where that does not fit 64 bits.
    pub fn end(&self, rows: u32) -> Result<u64, LayoutError> {
        let before_last = u64::from(rows.saturating_sub(1)).checked_mul(u64::from(self.row_stride));
        before_last
            .and_then(|bytes| bytes.checked_add(u64::from(self.row_bytes)))
            .and_then(|bytes| bytes.checked_add(self.offset))
            .ok_or(LayoutError::Overflow { what: "segment end" })
    }

    /// Whether a row of one and a row of the other, both of `rows` rows, share a byte.
    ///
    /// Segments with equal strides may be interleaved (K and V of one token side by side); with different strides
    /// their ranges must be apart.
    pub(crate) fn overlaps(&self, other: &Self, rows: u32) -> Result<bool, LayoutError> {
        if self.region != other.region {
            return Ok(false);
        }
        let (low, high) = if self.offset <= other.offset { (self, other) } else { (other, self) };
        if low.end(rows)? <= high.offset {
            return Ok(false);
        }
        let gap = high.offset.saturating_sub(low.offset);
        if low.row_stride != high.row_stride || rows <= 1 {
            return Ok(true);
        }
        let Some(phase) = gap.checked_rem(u64::from(low.row_stride)) else { return Ok(true) };
        let high_end = phase.saturating_add(u64::from(high.row_bytes));
        Ok(phase < u64::from(low.row_bytes) || high_end > u64::from(low.row_stride))
    }
}

/// Refuses segments that share bytes or names, and more of them than a page may have.
pub(crate) fn check_apart(segments: &[Segment], rows: u32) -> Result<(), LayoutError> {
    if segments.len() > super::MAX_SEGMENTS {
        return Err(LayoutError::Overflow { what: "the number of segments" });
    }
    for (index, segment) in segments.iter().enumerate() {
        for earlier in segments.iter().take(index) {
            if earlier.name == segment.name {
                return Err(LayoutError::NameTwice { segment: segment.name.clone() });
            }
            if earlier.overlaps(segment, rows)? {
                return Err(LayoutError::SegmentsOverlap {
                    first: earlier.name.clone(),
                    second: segment.name.clone(),
                });
            }
        }
    }
    Ok(())
}

/// The bytes of each region of a page, and an error where `declared`, which is meant for each of them, is less.
pub(crate) fn region_bytes(
    segments: &[Segment],
    rows: u32,
    declared: Option<u64>,
) -> Result<Vec<u64>, LayoutError> {
    let mut regions: Vec<u64> = Vec::new();
    for segment in segments {
        let region = usize::try_from(segment.region).unwrap_or(usize::MAX);
        if region >= super::MAX_SEGMENTS {
            return Err(LayoutError::Overflow { what: "the number of regions" });
        }
        if regions.len() <= region {
            regions.resize(region.saturating_add(1), 0);
        }
        let end = segment.end(rows)?;
        if let Some(bytes) = regions.get_mut(region) {
            *bytes = end.max(*bytes);
        }
    }
    if let Some(empty) = regions.iter().position(|bytes| *bytes == 0) {
        return Err(LayoutError::EmptyRegion { region: empty });
    }
    for needed in &mut regions {
        match declared {
            Some(page_bytes) if page_bytes < *needed => {
                return Err(LayoutError::PageTooSmall { needed: *needed, page_bytes });
            }
            Some(page_bytes) => *needed = page_bytes,
            None => {}
        }
    }
    Ok(regions)
}
