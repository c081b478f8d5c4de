//! An import: what is wanted and planned, what is received, the notice of it, and the lease of what is read.

use std::sync::Arc;

use pagelift_planner::id::GroupId;
use pagelift_planner::quantity::Tokens;
use thiserror::Error;

use crate::lease::Terms;
use crate::notice::ExportId;

/// An import that cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReadPlanError {
    /// The engines do not exchange that group.
    #[error("the engines exchange no group `{group}`")]
    NoSuchGroup {
        /// The group.
        group: Arc<str>,
    },
    /// The producer has no block there.
    #[error("group `{group}`: the producer has exported no block at position {position}")]
    NotExported {
        /// The group.
        group: Arc<str>,
        /// The position.
        position: u32,
    },
    /// A block of which nothing is imported is not read.
    #[error(
        "group `{group}`: the block at position {position} begins after the {imported} that are imported"
    )]
    PastImport {
        /// The group.
        group: Arc<str>,
        /// The position.
        position: u32,
        /// Tokens that are imported.
        imported: Tokens,
    },
    /// A block past the end of a pool.
    #[error("group `{group}`: block {block} is past the end of {side} pool of {blocks} blocks")]
    OutOfRange {
        /// The group.
        group: Arc<str>,
        /// Whose pool.
        side: &'static str,
        /// The block.
        block: u32,
        /// Blocks of the pool.
        blocks: u32,
    },
    /// Two reads into one block.
    #[error("group `{group}`: block {block} of this side is to be filled twice")]
    BlockTwice {
        /// The group.
        group: Arc<str>,
        /// The block.
        block: u32,
    },
    /// Entries are numbered in 31 bits.
    #[error("group `{group}`: {side} descriptor list has {entries} entries; at most {most} can be numbered")]
    TooManyEntries {
        /// The group.
        group: Arc<str>,
        /// Whose list.
        side: &'static str,
        /// Its entries.
        entries: u64,
        /// The limit.
        most: u64,
    },
}

/// Something that is no notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{bytes} bytes came that are no notice of a finished read")]
pub struct NoticeError {
    /// How many.
    pub bytes: usize,
}

/// A lease that is not held, or cannot be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// Nothing is held: it has ended, or was another process's.
    #[error("{export} is not held for rank {rank}")]
    NotHeld {
        /// The export.
        export: ExportId,
        /// The rank.
        rank: u32,
    },
    /// As many as there may be.
    #[error("{most} exports are held, and no more may be; try again when one has ended")]
    Full {
        /// The limit.
        most: usize,
    },
    /// Ranks are counted.
    #[error("an export for {found} ranks; expected 1 to {most}")]
    Ranks {
        /// As many as were asked for.
        found: u32,
        /// The limit.
        most: u32,
    },
    /// One heartbeat may be lost.
    #[error(
        "a lease of {:?} with heartbeats every {:?} and a margin of {:?}: it must last for two heartbeats and the margin at least",
        terms.lease, terms.heartbeat, terms.margin
    )]
    Terms {
        /// What was asked for.
        terms: Terms,
    },
}

/// An event of a read that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// The import has fewer.
    #[error("part {part} of an import of {parts} parts")]
    NoSuchPart {
        /// The part.
        part: usize,
        /// Parts.
        parts: usize,
    },
}

/// An import of a lifecycle whose blocks are not known.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WantedError {
    /// Frames of another geometry.
    #[error("the geometry has no group with the id {}; are the frames another's?", group.get())]
    ForeignGroup {
        /// The id.
        group: GroupId,
    },
    /// Frames that are too short.
    #[error("group `{group}`: its frames have nothing in {memory} memory for position {position}")]
    Missing {
        /// The group.
        group: Arc<str>,
        /// The memory where it lands.
        memory: &'static str,
        /// The position, in blocks of the group there.
        position: u64,
    },
}
