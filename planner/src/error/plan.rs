//! Plans that may not be.

use std::sync::Arc;

use thiserror::Error;

use super::{OptionsError, SpanError};
use crate::id::{GroupId, ImportId};
use crate::lifecycle::RequestId;

/// A plan that may not be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A key of another geometry.
    #[error(
        "{group} belongs to another geometry than this plan's; use the key that the builder of this geometry gave"
    )]
    ForeignGroup {
        /// The group.
        group: GroupId,
    },
    /// A route or side key of another geometry.
    #[error(
        "the key of a route or side belongs to another geometry than this plan's; use one that the builder of this \
         geometry gave"
    )]
    ForeignKey,
    /// Rows that a block does not have.
    #[error(
        "group `{group}`: {rows} rows from row {first} on are not rows of a block of {block_rows}, or not a part of it"
    )]
    RowsOutOfRange {
        /// The group.
        group: Arc<str>,
        /// First row.
        first: u32,
        /// Rows.
        rows: u32,
        /// Rows of the block.
        block_rows: u32,
    },
    /// Pages and blocks that cannot be mapped whole.
    #[error(
        "group `{group}`: pages have {page_rows} rows and blocks {block_rows}; map their parts with `map_rows`"
    )]
    UnequalRows {
        /// The group.
        group: Arc<str>,
        /// Rows of a page.
        page_rows: u32,
        /// Rows of a block.
        block_rows: u32,
    },
    /// A group comes once in an import.
    #[error("group `{group}` comes twice in one import")]
    GroupTwice {
        /// The group.
        group: Arc<str>,
    },
    /// Rows of a group are mirrored, or gathered along a route, by one binding.
    #[error("group `{group}` is bound already; bindings stay until they are cleared, by `clear_bindings`")]
    BoundTwice {
        /// The group.
        group: Arc<str>,
    },
    /// A group that is lifted has to come in every import.
    #[error("the import has no blocks for group `{group}`, which is lifted")]
    GroupMissing {
        /// The group.
        group: Arc<str>,
    },
    /// The group has no route in this direction.
    #[error("group `{group}` has no {side} side to copy {direction}")]
    NoRoute {
        /// The group.
        group: Arc<str>,
        /// The missing side.
        side: &'static str,
        /// The plan's direction.
        direction: &'static str,
    },
    /// A list that is too long or too short.
    #[error("group `{group}`: expected {expected} {list}, found {found}")]
    ListLength {
        /// The group.
        group: Arc<str>,
        /// Which list.
        list: &'static str,
        /// Entries that the tokens need.
        expected: u64,
        /// Entries that came.
        found: u64,
    },
    /// An id past its pool's end.
    #[error("group `{group}`: {block} is out of range: expected one of 0..{blocks} of pool `{pool}`")]
    OutOfRange {
        /// The group.
        group: Arc<str>,
        /// The pool.
        pool: Arc<str>,
        /// The id, with its kind.
        block: String,
        /// Blocks of the pool.
        blocks: u32,
    },
    /// The same rows would be written twice in one launch.
    #[error(
        "group `{group}`: rows {first}..{end} of {block} would be written twice in one launch; clear what an earlier \
         step planned, or write them in another launch"
    )]
    WrittenTwice {
        /// The group.
        group: Arc<str>,
        /// The destination.
        block: String,
        /// First row of the second write.
        first: u32,
        /// One past its last row.
        end: u32,
    },
    /// A row would be both source and destination in one launch.
    #[error("group `{group}`: {block} is both source and destination in one launch")]
    Overlap {
        /// The group.
        group: Arc<str>,
        /// The block.
        block: String,
    },
    /// One physical block belongs to one group at a time.
    #[error("{block} of pool `{pool}` is used by group `{first}` and by group `{second}`")]
    BlockOfTwoGroups {
        /// The block.
        block: String,
        /// The pool.
        pool: Arc<str>,
        /// The group that came first.
        first: Arc<str>,
        /// The group that came second.
        second: Arc<str>,
    },
    /// A page that is lifted into belongs to one import, until that is released.
    #[error(
        "group `{group}`: {block} is reserved for another import; release that one first, or take another page"
    )]
    Reserved {
        /// The group.
        group: Arc<str>,
        /// The page.
        block: String,
    },
    /// Reservations of another geometry.
    #[error("the reservations were made for another geometry than this plan's; make both for one")]
    ForeignReservations,
    /// A rank's frames are those of another kind of group, or are missing.
    #[error("group `{group}`: expected {expected}, found {found}")]
    Frames {
        /// The group.
        group: Arc<str>,
        /// What it needs.
        expected: &'static str,
        /// What there is.
        found: &'static str,
    },
    /// A rank's plans are made of its lifecycle's options.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// A request of another lifecycle.
    #[error(
        "{request} has no place here: expected one of slots 0..{requests}; make the rank's plans of the options of the \
         lifecycle whose orders it takes"
    )]
    ForeignRequest {
        /// The request.
        request: RequestId,
        /// Requests that there is room for.
        requests: u32,
    },
    /// Rows that steps write would stay on the device, and their pages be given away.
    #[error(
        "group `{group}` is mirrored, and the rows that steps write to it are not bound; bind them before a step begins"
    )]
    Unbound {
        /// The group.
        group: Arc<str>,
    },
    /// An import that was released, or that other reservations know.
    #[error("{import} is not reserved here: it was released, or other reservations gave its id")]
    UnknownImport {
        /// The import.
        import: ImportId,
    },
    /// More than there is room for.
    #[error("{needed} {what} are needed, and there is room for {capacity}")]
    Capacity {
        /// What ran out.
        what: &'static str,
        /// Entries needed.
        needed: u64,
        /// Entries there are.
        capacity: u64,
    },
    /// Memory that a plan keeps for its capacity or its geometry, and that is not there.
    #[error("there is no memory for {entries} {what}: ask for fewer")]
    OutOfMemory {
        /// What it is for.
        what: &'static str,
        /// How many.
        entries: u64,
    },
    /// Tokens that a prompt or a block cannot have.
    #[error(transparent)]
    Span(#[from] SpanError),
    /// A page-map entry that is taken: it must be unmapped first.
    #[error("group `{group}`: {page} is mapped to {mapped} already; unmap it before it is given to {wanted}")]
    PageMapped {
        /// The group.
        group: Arc<str>,
        /// The page.
        page: String,
        /// Where it is mapped.
        mapped: String,
        /// Where it was to be mapped.
        wanted: String,
    },
    /// The page map is injective.
    #[error("group `{group}`: {block} is the mirror of {page} already; it cannot mirror {wanted} too")]
    BlockMapped {
        /// The group.
        group: Arc<str>,
        /// The host block.
        block: String,
        /// The page that it mirrors.
        page: String,
        /// The second page.
        wanted: String,
    },
    /// A binding that a kernel could not read.
    #[error("row binding of group `{group}`: {what}")]
    Binding {
        /// The group.
        group: Arc<str>,
        /// What is wrong, and what was expected.
        what: String,
    },
    /// The encoded table does not fit the buffer.
    #[error("the encoded plan has {needed} bytes, the buffer {room}")]
    Buffer {
        /// Bytes needed.
        needed: usize,
        /// Bytes there are.
        room: usize,
    },
}
