//! What can be wrong, by domain. Every error says what was expected, what came, and where.

use std::fmt::{self, Display};
use std::sync::Arc;
use std::time::Duration;

use pagelift_planner::id::GroupId;
use pagelift_planner::quantity::Tokens;
use thiserror::Error;

use crate::facts::Element;
use crate::lease::Terms;
use crate::notice::ExportId;
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
    #[error("group `{group}`: {what} do not fit 32 bits")]
    Overflow {
        /// The group.
        group: Arc<str>,
        /// What of it.
        what: &'static str,
    },
    /// A schema that could not be written down.
    #[error("the schema is not to be compared: {reason}")]
    Unwritable {
        /// Why.
        reason: String,
    },
}

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

/// An import that cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlanError {
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
    #[error("group `{group}`: block {block} is past the end of {end} pool of {blocks} blocks")]
    OutOfRange {
        /// The group.
        group: Arc<str>,
        /// Whose pool.
        end: &'static str,
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
    #[error("a descriptor list has more entries than can be numbered")]
    TooManyEntries,
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
    #[error("{terms:?}: a lease must last for two heartbeats and the margin at least")]
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

/// A control channel that cannot be used, or not any more.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ControlError {
    /// A secret that can be guessed.
    #[error("the secret has {bytes} bytes; at least {least}, drawn at random")]
    Secret {
        /// Its size.
        bytes: usize,
        /// The least size.
        least: usize,
    },
    /// Somebody else is at the other end.
    #[error("the other side does not greet as pagelift's control channel does")]
    NoGreeting,
    /// Another release.
    #[error(
        "the control channel is of version {ours} here and {theirs} there; use one release on both sides"
    )]
    Version {
        /// This side's.
        ours: u32,
        /// The other side's.
        theirs: u32,
    },
    /// Two producers, or two consumers, or a side that hears itself.
    #[error("both sides have the same role; one must be the producer and one the consumer")]
    SameRole,
    /// Frames have a limit.
    #[error("a message has {bytes} bytes; at most {most}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// Not by who knows the secret, or not in its turn.
    #[error("a frame does not carry the hash that it must; do both sides have the same secret?")]
    Forged,
    /// By who knows the secret, and yet no message.
    #[error("a frame holds no message: {reason}")]
    Malformed {
        /// Why.
        reason: String,
    },
    /// The first frame of each side, and no other, is a hello.
    #[error(
        "the other side's first frame must be a hello, and no other may be; use one release on both sides"
    )]
    Hello,
    /// The other side does not read.
    #[error("{bytes} bytes wait for the other side to take them; at most {most}")]
    NotTaken {
        /// How many.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// An error came before; what comes after it means nothing.
    #[error("the channel has failed before; open another")]
    Dead,
    /// The other side is gone.
    #[error("the other side has closed the channel")]
    Ended,
    /// The stream failed.
    #[error("the control channel's stream failed: {reason}")]
    Stream {
        /// What kind of failure.
        kind: std::io::ErrorKind,
        /// The system's words.
        reason: String,
    },
}

/// What ends a connection of P's end, or all of it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProducerError {
    /// The conversation has failed.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// D's offer does not fit together.
    #[error(transparent)]
    Offer(OfferError),
    /// D means something else by a block, or is of another rank.
    #[error(transparent)]
    Pair(#[from] PairError),
    /// A message that makes no sense now.
    #[error("a message `{message}` came that makes no sense now")]
    Unexpected {
        /// Its name.
        message: &'static str,
    },
    /// Nobody is there any more.
    #[error("nothing was heard for {silent:?}")]
    Silent {
        /// For how long.
        silent: Duration,
    },
    /// A connection asks for too much at one time.
    #[error("more than {most} requests wait for an answer")]
    TooManyAsked {
        /// The limit.
        most: usize,
    },
    /// Nothing can be held.
    #[error(transparent)]
    Lease(LeaseError),
    /// No more connections can come.
    #[error("no connections can be taken: {0}")]
    Listener(ControlError),
    /// The transport is broken.
    #[error("the transport: {reason}")]
    Transfer {
        /// Its words.
        reason: String,
    },
}

/// What ends D's connection, or keeps an import from being begun.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConsumerError {
    /// The conversation has failed.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// P's offer does not fit together.
    #[error(transparent)]
    Offer(#[from] OfferError),
    /// P means something else by a block, or cannot be read from.
    #[error(transparent)]
    Pair(#[from] PairError),
    /// A message that makes no sense now.
    #[error("a message `{message}` came that makes no sense now")]
    Unexpected {
        /// Its name.
        message: &'static str,
    },
    /// P does not say what it has.
    #[error("the producer has sent no offer for {waited:?}")]
    NoOffer {
        /// For how long.
        waited: Duration,
    },
    /// One import of a request at a time.
    #[error("an import of request {request} is in flight")]
    Twice {
        /// The request.
        request: u64,
    },
    /// This side has said that it is done.
    #[error("this side has closed the connection")]
    Closed,
    /// The transport has failed.
    #[error("the transport: {reason}")]
    Transfer {
        /// Its words.
        reason: String,
    },
}

impl ProducerError {
    pub(crate) fn transfer(error: impl Display) -> Self {
        Self::Transfer { reason: error.to_string() }
    }
}

impl ConsumerError {
    pub(crate) fn transfer(error: impl Display) -> Self {
        Self::Transfer { reason: error.to_string() }
    }
}

impl From<std::io::Error> for ControlError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::UnexpectedEof => Self::Ended,
            kind => Self::Stream { kind, reason: error.to_string() },
        }
    }
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
