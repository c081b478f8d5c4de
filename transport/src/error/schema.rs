//! What an engine says of its blocks, and means by them.

use std::fmt::{self, Display};
use std::sync::Arc;

use thiserror::Error;

use crate::facts::Element;
use crate::schema::Mismatch;

/// A schema that cannot be, or that is not the other side's.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// Both sides must mean the same by their blocks.
    #[error("the payload schemas differ: {}", list(mismatches))]
    Differs {
        /// Every field in which they differ; never empty.
        mismatches: Vec<Mismatch>,
    },
    /// Fields of another version may mean something else.
    #[error(
        "the payload schemas differ: `version` is {ours} here and {theirs} there; use one release on both sides"
    )]
    Version {
        /// This side's.
        ours: u32,
        /// The other side's.
        theirs: u32,
    },
    /// Not built.
    #[error("`{field}` is {found}; only 1 is built")]
    Parallel {
        /// `pp`, `pcp` or `dcp`.
        field: &'static str,
        /// Its value.
        found: u32,
    },
    /// Ranks are counted from 0.
    #[error("rank {rank} of {tp}; ranks are 0 to one less than their number")]
    Rank {
        /// The rank.
        rank: u32,
        /// Ranks.
        tp: u32,
    },
    /// The geometry has no such group.
    #[error("there is no group `{group}`")]
    NoSuchGroup {
        /// The group.
        group: Arc<str>,
    },
    /// The group has no side in that memory.
    #[error("group `{group}` has no {memory} side to exchange")]
    NoSuchSide {
        /// The group.
        group: Arc<str>,
        /// The memory.
        memory: &'static str,
    },
    /// Groups pair by name.
    #[error("group `{group}` is described twice")]
    GroupTwice {
        /// The group.
        group: Arc<str>,
    },
    /// A description names a segment that is not there.
    #[error("group `{group}` has no segment `{segment}`")]
    NoSuchSegment {
        /// The group.
        group: Arc<str>,
        /// The segment.
        segment: Arc<str>,
    },
    /// What values are is never guessed.
    #[error("nothing is said of the values of segment `{segment}` of group `{group}`")]
    NothingSaid {
        /// The group.
        group: Arc<str>,
        /// The segment.
        segment: Arc<str>,
    },
    /// A row must hold its values and nothing else.
    #[error(
        "segment `{segment}` of group `{group}`: {row_bytes} bytes are not {element} values of shape {shape:?}"
    )]
    Shape {
        /// The group.
        group: Arc<str>,
        /// The segment.
        segment: Arc<str>,
        /// Bytes of a row.
        row_bytes: u32,
        /// The type that was said.
        element: Element,
        /// The shape that was said.
        shape: Vec<u32>,
    },
    /// A block must be some whole pages.
    #[error("group `{group}`: a block of {block_tokens} tokens is not 2ⁿ pages of {page_tokens}")]
    UnevenBlock {
        /// The group.
        group: Arc<str>,
        /// Tokens of a block.
        block_tokens: u64,
        /// Tokens of a page.
        page_tokens: u64,
    },
    /// Rows must add up to the block.
    #[error("group `{group}`: {rows} rows of {tokens_per_row} tokens are no block of {block_tokens} tokens")]
    Rows {
        /// The group.
        group: Arc<str>,
        /// Tokens of a block.
        block_tokens: u32,
        /// Tokens of a row.
        tokens_per_row: u32,
        /// Rows.
        rows: u32,
    },
    /// A number that cannot be 0.
    #[error("group `{group}`: `{field}` is 0")]
    Zero {
        /// The group.
        group: Arc<str>,
        /// The field.
        field: &'static str,
    },
    /// A number that does not fit.
    #[error("group `{group}`: {what} are {found}; at most {} can be written down", u32::MAX)]
    Overflow {
        /// The group.
        group: Arc<str>,
        /// What of it.
        what: &'static str,
        /// How many there are.
        found: u64,
    },
    /// A schema that could not be written down.
    #[error("the schema is not to be compared: {reason}")]
    Unwritable {
        /// Why.
        reason: String,
    },
}

/// The items, each after a comma but the first.
fn list(items: &[impl Display]) -> impl Display {
    fmt::from_fn(move |f| {
        for (index, item) in items.iter().enumerate() {
            write!(f, "{}{item}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    })
}
