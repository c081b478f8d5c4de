//! An offer that does not hold, and two that do not fit each other.

use std::sync::Arc;

use thiserror::Error;

use super::SchemaError;

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
    #[error("group `{group}` is in the schema or in the region map, and not in both")]
    Unpaired {
        /// The group.
        group: Arc<str>,
    },
    /// Ranges must be apart and in order.
    #[error("the ranges of memory are not sorted, or empty, or share bytes, or end past 64 bits")]
    Ranges,
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
    #[error("group `{group}`: a block is {pages} pages, which only pages without padding may be")]
    NotDense {
        /// The group.
        group: Arc<str>,
        /// Pages of a block.
        pages: u32,
    },
    /// Segments pair by name.
    #[error("group `{group}`: the region map has other segments than the schema")]
    Segments {
        /// The group.
        group: Arc<str>,
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
    /// Something that is not inside of what it should be.
    #[error("group `{group}`: {what} is not where the map's memory is, or does not fit")]
    Outside {
        /// The group.
        group: Arc<str>,
        /// What.
        what: &'static str,
    },
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
