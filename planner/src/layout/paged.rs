//! Token-paged layouts: rows, one per token or per group of tokens.

use std::collections::BTreeMap;

use serde::Serialize;

use super::segment::{Segment, check_apart, region_bytes};
use super::{Shape, sealed::Lower};
use crate::error::LayoutError;
use crate::quantity::{Bytes, Rows, Tokens};

/// A page of `block_tokens / tokens_per_row` rows in one or more segments.
///
/// ```
/// use pagelift_planner::layout::PagedLayout;
/// // DeepSeek V3.2's indexer: 64 rows of 128 bytes, then 64 scales of 4 bytes.
/// let page = PagedLayout::builder(64).segment("key", 128).segment("scale", 4).build()?;
/// assert_eq!((page.rows_per_block().get(), page.page_bytes().get()), (64, 8448));
/// # Ok::<(), pagelift_planner::error::LayoutError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PagedLayout {
    block_tokens: u32,
    tokens_per_row: u32,
    rows: u32,
    segments: Vec<Segment>,
    region_bytes: Vec<u64>,
}

impl PagedLayout {
    /// Starts a layout of `block_tokens` token slots a page, one token a row.
    #[must_use]
    pub const fn builder(block_tokens: u32) -> PagedLayoutBuilder {
        PagedLayoutBuilder {
            block_tokens,
            tokens_per_row: 1,
            row_padding: 0,
            region: 0,
            page_bytes: None,
            segments: Vec::new(),
        }
    }

    /// Token slots of a page.
    #[must_use]
    pub fn block_tokens(&self) -> Tokens {
        Tokens::new(u64::from(self.block_tokens))
    }

    /// Tokens that share one row.
    #[must_use]
    pub fn tokens_per_row(&self) -> Tokens {
        Tokens::new(u64::from(self.tokens_per_row))
    }

    /// Rows of a page.
    #[must_use]
    pub const fn rows_per_block(&self) -> Rows {
        Rows::new(self.rows)
    }

    /// The runs of rows, in the order they were given.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Bytes of one layer's page, all regions and the padding inside them included.
    #[must_use]
    pub fn page_bytes(&self) -> Bytes {
        Bytes::new(self.region_bytes.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes)))
    }

    /// Bytes of each region of one layer's page: one, or two where K and V are apart.
    #[must_use]
    pub fn region_bytes(&self) -> &[u64] {
        &self.region_bytes
    }

    /// The same page, padded to `page_bytes` bytes (each of its regions, where it has several).
    ///
    /// ```
    /// use pagelift_planner::layout::PagedLayout;
    /// let slot = PagedLayout::mla_bf16(128)?.padded_to(163_840)?;
    /// assert_eq!(slot.page_bytes().get(), 163_840);
    /// # Ok::<(), pagelift_planner::error::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::PageTooSmall`] where a region has more bytes than that.
    pub fn padded_to(mut self, page_bytes: u64) -> Result<Self, LayoutError> {
        for region in &mut self.region_bytes {
            if *region > page_bytes {
                return Err(LayoutError::PageTooSmall { needed: *region, page_bytes });
            }
            *region = page_bytes;
        }
        Ok(self)
    }

    /// Rows that are complete when a page holds its first `tokens` tokens.
    ///
    /// ```
    /// use pagelift_planner::{layout::PagedLayout, quantity::Tokens};
    /// let compressed = PagedLayout::qsa_compressed_bf16(1600)?;
    /// assert_eq!(compressed.complete_rows(Tokens::new(3)).get(), 0);
    /// assert_eq!(compressed.complete_rows(Tokens::new(19)).get(), 4);
    /// # Ok::<(), pagelift_planner::error::LayoutError>(())
    /// ```
    #[must_use]
    pub fn complete_rows(&self, tokens: Tokens) -> Rows {
        let rows = tokens.get().checked_div(u64::from(self.tokens_per_row)).unwrap_or(0);
        Rows::new(u32::try_from(rows).unwrap_or(self.rows).min(self.rows))
    }
}

impl Lower for PagedLayout {
    #[expect(private_interfaces, reason = "sealed: nobody outside can call it")]
    fn shape(&self) -> Shape<'_> {
        Shape {
            rows: self.rows,
            slots: self.block_tokens,
            slots_per_row: self.tokens_per_row,
            segments: &self.segments,
            region_bytes: &self.region_bytes,
            conv_order: None,
        }
    }
}

/// Builds a [`PagedLayout`].
#[derive(Clone, Debug)]
pub struct PagedLayoutBuilder {
    block_tokens: u32,
    tokens_per_row: u32,
    row_padding: u32,
    region: u32,
    page_bytes: Option<u64>,
    segments: Vec<Placed>,
}

/// A segment before the number of rows is known.
#[derive(Clone, Debug)]
enum Placed {
    Next { name: String, region: u32, row_bytes: u32 },
    At(Segment),
}

impl PagedLayoutBuilder {
    /// Tokens that share one row; 1 unless said.
    #[must_use]
    pub const fn tokens_per_row(mut self, tokens: u32) -> Self {
        self.tokens_per_row = tokens;
        self
    }

    /// Unused bytes after each row of the segments that are placed one after the other.
    #[must_use]
    pub const fn row_padding(mut self, bytes: u32) -> Self {
        self.row_padding = bytes;
        self
    }

    /// The size of a page, or of each of its regions, where it is padded beyond its last row.
    #[must_use]
    pub const fn page_bytes(mut self, bytes: u64) -> Self {
        self.page_bytes = Some(bytes);
        self
    }

    /// A segment that begins where the previous one of its region ends.
    #[must_use]
    pub fn segment(mut self, name: &str, row_bytes: u32) -> Self {
        self.segments.push(Placed::Next { name: name.into(), region: self.region, row_bytes });
        self
    }

    /// Lets the segments that follow lie in the next region, from its start on.
    #[must_use]
    pub const fn next_region(mut self) -> Self {
        self.region = self.region.saturating_add(1);
        self
    }

    /// A segment at a place of its own.
    #[must_use]
    pub fn segment_at(mut self, segment: Segment) -> Self {
        self.segments.push(Placed::At(segment));
        self
    }

    /// Checks and finishes the layout.
    ///
    /// # Errors
    /// Where `tokens_per_row` does not divide the block, a size is zero or overflows, or segments share bytes or
    /// names.
    pub fn build(self) -> Result<PagedLayout, LayoutError> {
        let Self { block_tokens, tokens_per_row, row_padding, .. } = self;
        let rows = match block_tokens.checked_div(tokens_per_row) {
            Some(rows) if rows > 0 && block_tokens.checked_rem(tokens_per_row) == Some(0) => rows,
            _ => return Err(LayoutError::UnevenRows { block_tokens, tokens_per_row }),
        };
        if self.segments.is_empty() {
            return Err(LayoutError::NoSegments);
        }
        let mut segments = Vec::with_capacity(self.segments.len());
        // Where the last segment of each region ends.
        let mut ends = BTreeMap::<u32, u64>::new();
        for placed in self.segments {
            let segment = match placed {
                Placed::At(segment) => segment,
                Placed::Next { name, region, row_bytes } => {
                    let start = ends.get(&region).copied().unwrap_or(0);
                    let stride = row_bytes
                        .checked_add(row_padding)
                        .ok_or(LayoutError::Overflow { what: "row stride" })?;
                    Segment::new(&name, start, row_bytes, stride)?.in_region(region)
                }
            };
            // The next segment begins after the padding of the last row too.
            let end = u64::from(rows)
                .checked_mul(u64::from(segment.row_stride()))
                .and_then(|bytes| bytes.checked_add(segment.offset()))
                .ok_or(LayoutError::Overflow { what: "segment end" })?;
            ends.insert(segment.region(), end);
            segments.push(segment);
        }
        check_apart(&segments, rows)?;
        let region_bytes = region_bytes(&segments, rows, self.page_bytes)?;
        Ok(PagedLayout { block_tokens, tokens_per_row, rows, segments, region_bytes })
    }
}
