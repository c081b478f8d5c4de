//! Layouts that cannot be.

use std::sync::Arc;

use thiserror::Error;

/// A layout that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// Rows must have bytes.
    #[error("segment `{segment}` has rows of 0 bytes; expected at least 1")]
    EmptyRow {
        /// The segment.
        segment: Arc<str>,
    },
    /// Rows of one segment would share bytes.
    #[error("segment `{segment}` has rows of {row_bytes} bytes only {row_stride} bytes apart")]
    RowsOverlap {
        /// The segment.
        segment: Arc<str>,
        /// Bytes of a row.
        row_bytes: u32,
        /// Bytes from one row to the next.
        row_stride: u32,
    },
    /// Two segments would share bytes.
    #[error("segments `{first}` and `{second}` share bytes of the page")]
    SegmentsOverlap {
        /// The earlier segment.
        first: Arc<str>,
        /// The later segment.
        second: Arc<str>,
    },
    /// Segments pair by name, so a page has each name once.
    #[error("two segments are named `{segment}`")]
    NameTwice {
        /// The name.
        segment: Arc<str>,
    },
    /// Regions are numbered from 0 without a gap.
    #[error("region {region} of the page has no segment; number regions from 0 without a gap")]
    EmptyRegion {
        /// The region.
        region: usize,
    },
    /// A page needs a segment.
    #[error("a page needs at least one segment")]
    NoSegments,
    /// A ring needs slots.
    #[error("a ring needs at least one slot, and a number of slots that divides the block")]
    NoSlots,
    /// A block holds a whole number of rows, at least one.
    #[error("a block of {block_tokens} tokens does not hold whole rows of {tokens_per_row} tokens")]
    UnevenRows {
        /// Tokens of a block.
        block_tokens: u32,
        /// Tokens of a row.
        tokens_per_row: u32,
    },
    /// Ranks share a dimension evenly.
    #[error("{what} = {count} cannot be shared evenly by {ranks} ranks")]
    UnevenRanks {
        /// The dimension.
        what: &'static str,
        /// Its size.
        count: u32,
        /// Tensor-parallel ranks.
        ranks: u32,
    },
    /// The declared page is smaller than what lies in it.
    #[error("the page needs {needed} bytes and was declared with {page_bytes}")]
    PageTooSmall {
        /// Bytes up to the last row's end.
        needed: u64,
        /// Bytes declared.
        page_bytes: u64,
    },
    /// A size does not fit.
    #[error("{what} is too large")]
    Overflow {
        /// The size.
        what: &'static str,
    },
}
