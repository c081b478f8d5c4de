//! An offer that does not hold, and two that do not fit each other.

use std::sync::Arc;

use thiserror::Error;

use super::SchemaError;
use crate::region::MemoryRange;

/// A region map that does not fit its schema, or names what is not there.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RegionError {
    /// What the map was to be made of is wrong.
    #[error(transparent)]
    Schema(Box<SchemaError>),
    /// All exported groups must lie in one kind of memory.
    #[error(
        "group `{first}` lies in {first_memory} memory and group `{second}` in {second_memory} memory: \
         a producer must export all of its groups from one"
    )]
    MixedMemory {
        /// A group.
        first: Arc<str>,
        /// Its memory.
        first_memory: &'static str,
        /// Another.
        second: Arc<str>,
        /// Its memory.
        second_memory: &'static str,
    },
    /// A group of the map alone, or of the schema alone.
    #[error("group `{group}`: the {lacks} lacks it; schema and region map must have the same groups")]
    Unpaired {
        /// The group.
        group: Arc<str>,
        /// Where it is not: `schema` or `region map`.
        lacks: &'static str,
    },
    /// Ranges must be apart and in order.
    #[error(
        "range {index} of the region map's memory, {range}, {fault}; \
         ranges must be sorted by memory, GPU and address, and must not share a byte"
    )]
    Range {
        /// Which range of the list.
        index: usize,
        /// The range.
        range: MemoryRange,
        /// What is wrong with it.
        fault: RangeFault,
    },
    /// Too much of something.
    #[error("the region map has {found} {what}; at most {most}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        found: usize,
        /// How many may be.
        most: usize,
    },
    /// A number that cannot be 0.
    #[error("group `{group}`: `{what}` is 0")]
    Zero {
        /// The group.
        group: Arc<str>,
        /// The field.
        what: &'static str,
    },
    /// Pages must add up to a block.
    #[error("group `{group}`: {pages} pages of {rows} rows are no block of {expected} rows")]
    Rows {
        /// The group.
        group: Arc<str>,
        /// Rows of a page.
        rows: u32,
        /// Pages of a block.
        pages: u32,
        /// Rows of a block.
        expected: u32,
    },
    /// Pages with bytes of nobody's between their rows do not make a block.
    #[error(
        "group `{group}`: a block is {pages} pages of {page_bytes} bytes, and the rows of a page have {row_bytes}: \
         only pages without padding may be several"
    )]
    NotDense {
        /// The group.
        group: Arc<str>,
        /// Pages of a block.
        pages: u32,
        /// Bytes of a page.
        page_bytes: u64,
        /// Bytes of its rows.
        row_bytes: u64,
    },
    /// Pages are numbered in 31 bits.
    #[error("group `{group}`: its pool has {found} pages; at most {most} can be numbered")]
    TooManyPages {
        /// The group.
        group: Arc<str>,
        /// Pages of the pool.
        found: u32,
        /// How many may be.
        most: u32,
    },
    /// Segments pair by name.
    #[error(
        "group `{group}`: the {lacks} lacks segment `{segment}`; schema and region map must have the same segments"
    )]
    Segments {
        /// The group.
        group: Arc<str>,
        /// The segment.
        segment: Arc<str>,
        /// Where it is not: `schema` or `region map`.
        lacks: &'static str,
    },
    /// A segment of a region that a page does not have.
    #[error(
        "group `{group}`: segment `{segment}` lies in region {region}, counted from 0, of a page that has {regions}"
    )]
    NoSuchRegion {
        /// The group.
        group: Arc<str>,
        /// The segment.
        segment: Arc<str>,
        /// The region that was named.
        region: u32,
        /// Regions of a page.
        regions: usize,
    },
    /// Rows that share bytes.
    #[error(
        "group `{group}`: rows of segment `{segment}` are {row_stride} bytes apart, and have {row_bytes}: they share bytes"
    )]
    RowsShare {
        /// The group.
        group: Arc<str>,
        /// The segment.
        segment: Arc<str>,
        /// Bytes from one row to the next.
        row_stride: u64,
        /// Bytes of a row.
        row_bytes: u64,
    },
    /// Rows past the end of their region.
    #[error(
        "group `{group}`: {rows} rows of segment `{segment}`, {row_bytes} bytes each and {row_stride} apart \
         from byte {offset} on, end past the {region_bytes} bytes of region {region} of a page"
    )]
    RowsOutside {
        /// The group.
        group: Arc<str>,
        /// The segment.
        segment: Arc<str>,
        /// Rows of a page.
        rows: u32,
        /// Bytes of a row.
        row_bytes: u64,
        /// Bytes from one row to the next.
        row_stride: u64,
        /// Bytes from the region's start to row 0.
        offset: u64,
        /// The region of the page.
        region: u32,
        /// Its size.
        region_bytes: u64,
    },
    /// A base for each layer, region and extent.
    #[error("group `{group}`: {found} bases; expected {expected}, and at most {most}")]
    Bases {
        /// The group.
        group: Arc<str>,
        /// As many as follow from the group.
        expected: u64,
        /// As many as came.
        found: usize,
        /// As many as may be.
        most: usize,
    },
    /// Pages that are not in the memory that the map lists.
    #[error(
        "group `{group}`: the pages of layer {layer}, region {region}, extent {extent} are {pages}, \
         outside of the region map's memory{}",
        nearest(*range)
    )]
    PagesOutside {
        /// The group.
        group: Arc<str>,
        /// The layer.
        layer: u32,
        /// The region of a page.
        region: usize,
        /// The extent of the pool.
        extent: u32,
        /// From the first byte of the first page to the last of the last; as many as there can be, where they do not fit.
        pages: MemoryRange,
        /// The last range of the map's that begins no later.
        range: Option<MemoryRange>,
    },
    /// A base of this side's that its transport cannot reach.
    #[error("group `{group}`: its base at {base:#x} has no address for the transport: {why}")]
    Unreachable {
        /// The group.
        group: Arc<str>,
        /// The base, by the address that the geometry has.
        base: u64,
        /// Why.
        why: &'static str,
    },
}

/// What is wrong with a range of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RangeFault {
    /// It has no byte.
    #[error("is empty")]
    Empty,
    /// Its last address does not fit.
    #[error("ends past 64 bits")]
    PastEnd,
    /// It is not in its place.
    #[error("comes after {before}, which is later")]
    Unsorted {
        /// The range before it in the list.
        before: MemoryRange,
    },
    /// Some bytes are listed twice.
    #[error("shares bytes with the one before it, {before}")]
    Shared {
        /// The range before it in the list.
        before: MemoryRange,
    },
}

/// The range that might have held something.
fn nearest(range: Option<MemoryRange>) -> String {
    range.map_or_else(String::new, |range| format!("; the nearest range before them is {range}"))
}

/// An offer that cannot be read or does not fit together.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OfferError {
    /// Its schema.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// Its region map.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// Not an offer.
    #[error("the offer cannot be read: {reason}")]
    Malformed {
        /// Why.
        reason: String,
    },
    /// Offers have a limit, so that a peer cannot fill this side's memory.
    #[error("the offer has {bytes} bytes; at most {most}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        most: usize,
    },
}

/// Two engines that cannot exchange blocks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PairError {
    /// They mean different things by their blocks.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// One of them names memory that it does not have, or exports from memories of different kinds.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// Each rank reads from its like.
    #[error("the ranks differ: `rank` is {ours} here and {theirs} there")]
    Ranks {
        /// This side's.
        ours: u32,
        /// The other side's.
        theirs: u32,
    },
    /// The larger page must be some whole smaller ones.
    #[error("group `{group}`: pages of {ours} rows here and {theirs} there have no step in common")]
    Steps {
        /// The group.
        group: Arc<str>,
        /// Rows of a page here.
        ours: u32,
        /// Rows of a page there.
        theirs: u32,
    },
    /// Rows that lie apart are read one by one.
    #[error("group `{group}`: its layouts differ so much that a block is more than {most} pieces")]
    Scattered {
        /// The group.
        group: Arc<str>,
        /// The limit.
        most: usize,
    },
    /// Descriptor lists have a limit.
    #[error("group `{group}`: a descriptor list has {found} entries; at most {most}")]
    TooMany {
        /// The group.
        group: Arc<str>,
        /// Entries.
        found: u64,
        /// The limit.
        most: u64,
    },
}
