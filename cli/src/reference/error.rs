//! What can go wrong: a run that breaks the model's rules, or memory that disagrees with it.

use std::fmt;

use thiserror::Error;

use crate::manifest::Memory;

/// An error of the reference.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReferenceError {
    /// The group has no place in that memory.
    #[error("group `{group}` has no side in {memory} memory")]
    NoSide {
        /// The group.
        group: String,
        /// The memory.
        memory: Memory,
    },
    /// A block id is past the end of its pool.
    #[error("block {block} is not one of the {blocks} blocks of pool `{pool}`")]
    NoBlock {
        /// The pool.
        pool: String,
        /// The id.
        block: u32,
        /// Blocks of the pool.
        blocks: u32,
    },
    /// A row is past the end of its page.
    #[error("row {row} is not one of the {rows} rows in a page of group `{group}`")]
    NoRow {
        /// The group.
        group: String,
        /// The row.
        row: u32,
        /// Rows of a page.
        rows: u32,
    },
    /// The producer has no such block.
    #[error(
        "the producer hands over {received} blocks of group `{group}`, so there is none at position {position}"
    )]
    NotProduced {
        /// The group.
        group: String,
        /// The position asked for.
        position: u64,
        /// Blocks there are.
        received: u64,
    },
    /// A row is lifted again from a host block in which nobody wrote it.
    #[error("row {row} of group `{group}` is lifted again from host block {block}, in which nobody wrote it")]
    NeverWritten {
        /// The group.
        group: String,
        /// The block.
        block: u32,
        /// The row, counted in the block.
        row: u32,
    },
    /// Two groups use one block.
    #[error("block {block} of pool `{pool}` belongs to group `{owner}`, but group `{group}` uses it")]
    OtherOwner {
        /// The pool.
        pool: String,
        /// The block.
        block: u32,
        /// The group that used it first.
        owner: String,
        /// The group that uses it now.
        group: String,
    },
    /// The memory handed in is not as large as the manifest says.
    #[error("extent {extent} of pool `{pool}` should have {expected} bytes, but {found} were given")]
    ExtentSize {
        /// The pool.
        pool: String,
        /// The extent.
        extent: u32,
        /// Bytes by the manifest.
        expected: u64,
        /// Bytes handed in.
        found: u64,
    },
    /// The memory is wrong.
    #[error(transparent)]
    Mismatch(#[from] Box<Mismatch>),
}

/// The first byte that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "pool `{pool}`, extent {extent}, offset {offset}: expected byte {expected:#04x}, found {found:#04x} in {region}"
)]
pub struct Mismatch {
    /// The pool.
    pub pool: String,
    /// The extent.
    pub extent: u32,
    /// Bytes from its beginning.
    pub offset: u64,
    /// What lies there.
    pub region: Region,
    /// The byte that must be there.
    pub expected: u8,
    /// The byte that is there.
    pub found: u8,
}

/// What a byte belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Region {
    /// A row, or a part of a state.
    Row {
        /// The group.
        group: String,
        /// The layer of the group.
        layer: u32,
        /// The block or page.
        block: u32,
        /// The segment.
        segment: String,
        /// The row.
        row: u32,
        /// The byte within the row.
        byte: u32,
        /// What the row must hold.
        holds: String,
    },
    /// The padding of a page that a group uses: after a row, or after the last segment.
    Padding {
        /// The group.
        group: String,
        /// The layer of the pool.
        layer: u32,
        /// The block or page.
        block: u32,
    },
    /// A page that no group uses.
    Unused {
        /// The layer of the pool.
        layer: u32,
        /// The block or page.
        block: u32,
    },
    /// The padding after a block.
    BlockPadding {
        /// The block or page before it.
        block: u32,
    },
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Row { group, layer, block, segment, row, byte, holds } => write!(
                f,
                "group `{group}`, layer {layer}, block {block}, segment `{segment}`, row {row}, byte {byte}, \
                 which must hold {holds}"
            ),
            Self::Padding { group, layer, block } => {
                write!(f, "the padding of block {block} of group `{group}`, layer {layer} of the pool")
            }
            Self::Unused { layer, block } => write!(f, "unused block {block}, layer {layer} of the pool"),
            Self::BlockPadding { block } => write!(f, "the padding after block {block}"),
        }
    }
}
