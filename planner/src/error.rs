//! What can be wrong, by domain. Every error says what was expected, what came, and where.

use std::sync::Arc;

use thiserror::Error;

use crate::id::{GroupId, ImportId, PoolId};
use crate::layout::{ConvOrder, Segment};
use crate::lifecycle::{Answer, Rank, RequestId};

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

/// Prompt arithmetic that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SpanError {
    /// A prompt has a token.
    #[error("a prompt has at least 1 token")]
    EmptyPrompt,
    /// More tokens imported than the prompt has.
    #[error("{imported} tokens were imported of a prompt of {prompt}")]
    ImportedPastPrompt {
        /// Tokens imported.
        imported: u64,
        /// Tokens of the prompt.
        prompt: u64,
    },
    /// The decoder computes the token after the imported ones, or the last imported one again, and at least the
    /// prompt's last.
    #[error(
        "decoding cannot resume at token {resume_at}: expected the token after the {imported} imported ones, or the \
         last of these, before the prompt's end at {prompt}"
    )]
    ResumeOutOfPlace {
        /// The first token that is computed.
        resume_at: u64,
        /// Tokens imported.
        imported: u64,
        /// Tokens of the prompt.
        prompt: u64,
    },
    /// A block has a slot.
    #[error("a block has at least 1 token slot")]
    EmptyBlock,
    /// Block ids are 32 bits.
    #[error("{tokens} tokens need more blocks of {block_tokens} than 32-bit ids can name")]
    TooManyBlocks {
        /// Tokens.
        tokens: u64,
        /// Tokens of a block.
        block_tokens: u64,
    },
}

/// Pools, sides or groups that do not fit together.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GeometryError {
    /// A number has to be at least 1.
    #[error("{place}: {what} is 0; expected at least 1")]
    Zero {
        /// Where.
        place: Arc<str>,
        /// What.
        what: &'static str,
    },
    /// A pool or group of that name exists.
    #[error("the name `{name}` is used twice")]
    NameTwice {
        /// The name.
        name: Arc<str>,
    },
    /// A pool of another geometry.
    #[error("{place}: {pool} does not exist in this geometry")]
    UnknownPool {
        /// The group.
        place: Arc<str>,
        /// The pool.
        pool: PoolId,
    },
    /// A host side in device memory, or the reverse.
    #[error("{place}: expected a pool in {expected} memory, pool `{pool}` is in {found} memory")]
    WrongMemory {
        /// The group.
        place: Arc<str>,
        /// The pool.
        pool: Arc<str>,
        /// The side's memory.
        expected: &'static str,
        /// The pool's memory.
        found: &'static str,
    },
    /// A side has one base for each layer, region and extent.
    #[error("{place}: expected {expected} bases (one for each layer, region and extent), found {found}")]
    Bases {
        /// The group and side.
        place: Arc<str>,
        /// Layers × regions × extents.
        expected: u64,
        /// Bases given.
        found: u64,
    },
    /// Blocks of one layer would share bytes.
    #[error("{place}: pages of {page_bytes} bytes lie only {block_stride} bytes apart")]
    BlocksOverlap {
        /// The group and side.
        place: Arc<str>,
        /// Bytes of a page.
        page_bytes: u64,
        /// Bytes from one block to the next.
        block_stride: u64,
    },
    /// Blocks of a layer lie in memory that the pool does not have, or cross the seam of two regions.
    #[error(
        "{place}: layer {layer}, extent {extent} needs bytes {start:#x}..{end:#x}, which no single region of \
         the pool holds"
    )]
    OutsideRegions {
        /// The group and side.
        place: Arc<str>,
        /// The layer.
        layer: u32,
        /// The extent.
        extent: u32,
        /// First byte.
        start: u64,
        /// One past the last byte.
        end: u64,
    },
    /// Two runs of blocks share bytes that belong to different blocks, layers or pools.
    #[error("{first} and {second} share bytes")]
    SharedBytes {
        /// One of them.
        first: Arc<str>,
        /// The other.
        second: Arc<str>,
    },
    /// Source and destination of a route must agree.
    #[error("group `{group}`: {what} is {from} at the source and {to} at the destination")]
    SidesDiffer {
        /// The group.
        group: Arc<str>,
        /// What differs.
        what: &'static str,
        /// At the source.
        from: String,
        /// At the destination.
        to: String,
    },
    /// Kernels move bytes: they do not turn a convolution's window around.
    #[error(
        "group `{group}`: the convolution state is {} at the source and {} at the destination; keep it in one order on both \
         sides", order_words(*from), order_words(*to)
    )]
    ConvOrder {
        /// The group.
        group: Arc<str>,
        /// At the source.
        from: Option<ConvOrder>,
        /// At the destination.
        to: Option<ConvOrder>,
    },
    /// A key of another geometry.
    #[error("the key of a group or side belongs to another geometry; use one that this builder gave")]
    ForeignKey,
    /// A route goes between the kinds of memory that its direction says, and between sides of one group.
    #[error(
        "group `{group}`: no route {direction} can go from {from} memory of `{group}` to {to} memory of `{other}`"
    )]
    NoSuchRoute {
        /// The source's group.
        group: Arc<str>,
        /// The destination's group.
        other: Arc<str>,
        /// The direction.
        direction: &'static str,
        /// The source's memory.
        from: &'static str,
        /// The destination's memory.
        to: &'static str,
    },
    /// A group lands on a side that it does not have, or lifts from it.
    #[error("group `{group}` {needs}, and has no {side} side")]
    MissingSide {
        /// The group.
        group: Arc<str>,
        /// Why the side is needed.
        needs: &'static str,
        /// `host` or `device`.
        side: &'static str,
    },
    /// A group that lands on the device has nothing to lift.
    #[error("group `{group}` lands on the device, so it cannot be lifted from the host")]
    LiftWithoutHost {
        /// The group.
        group: Arc<str>,
    },
    /// A number does not fit the tables.
    #[error("{place}: {what} is too large")]
    Overflow {
        /// Where.
        place: Arc<str>,
        /// What.
        what: &'static str,
    },
}

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
    /// An import that was released, or that other reservations know.
    #[error("{import} is not reserved here: it was released, or other reservations gave its id")]
    UnknownImport {
        /// The import.
        import: ImportId,
    },
    /// More than the table has room for.
    #[error("the plan needs {needed} {what}, and the table has room for {capacity}")]
    Capacity {
        /// What ran out.
        what: &'static str,
        /// Entries needed.
        needed: u64,
        /// Entries there are.
        capacity: u64,
    },
    /// Memory that a plan keeps for its capacity or its geometry, and that is not there.
    #[error(
        "no memory for {entries} {what}; make the plan with a smaller capacity, or pools with fewer blocks"
    )]
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

/// An order, or that there is none, for messages.
fn order_words(order: Option<ConvOrder>) -> String {
    order.map_or_else(|| "in an order that was not said".into(), |order| order.to_string())
}

/// Two segments that were to pair, for messages.
pub(crate) fn segment_words(segments: &[Segment]) -> String {
    let words: Vec<String> =
        segments.iter().map(|segment| format!("{}×{}B", segment.name(), segment.row_bytes())).collect();
    words.join(", ")
}

/// An event that a lifecycle does not take. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LifecycleError {
    /// Options that cannot be.
    #[error("{what} is {found}; expected {expected}")]
    Options {
        /// Which option.
        what: &'static str,
        /// What it was.
        found: u64,
        /// What it may be.
        expected: &'static str,
    },
    /// There is no memory for all that.
    #[error(transparent)]
    Memory(#[from] PlanError),
    /// A request that has ended, or that was never admitted here.
    #[error("{request} is not known: it has ended, or was admitted elsewhere")]
    UnknownRequest {
        /// The request.
        request: RequestId,
    },
    /// A rank that the engine does not have.
    #[error("{rank} is none of the {ranks} ranks")]
    UnknownRank {
        /// The rank.
        rank: Rank,
        /// How many there are.
        ranks: u8,
    },
    /// A round, step, read or page that there was not yet.
    #[error("{request} has no {what} {number} yet: it is at {latest}")]
    NotYet {
        /// The request.
        request: RequestId,
        /// What.
        what: &'static str,
        /// Its number.
        number: u32,
        /// The latest.
        latest: u32,
    },
    /// A rank answers the same question in two ways.
    #[error(
        "{rank} says `{answer:?}` of round {round} of {request}, and was not asked or has said something else"
    )]
    Contradiction {
        /// The request.
        request: RequestId,
        /// The round.
        round: u32,
        /// The rank.
        rank: Rank,
        /// What it says now.
        answer: Answer,
    },
    /// Something that a request cannot do at this time.
    #[error("{request} is {stage}: it cannot {what}")]
    WrongStage {
        /// The request.
        request: RequestId,
        /// Where it is.
        stage: &'static str,
        /// What it was asked for.
        what: &'static str,
    },
    /// Too little of something is free.
    #[error("{needed} {what} are needed, and {free} are free; wait, or preempt a request")]
    NoRoom {
        /// What.
        what: &'static str,
        /// How many are needed.
        needed: u64,
        /// How many are free.
        free: u64,
    },
    /// A rank is lost.
    #[error("{lost} of the ranks are lost: nothing can be lifted until they have joined again")]
    RanksLost {
        /// How many.
        lost: u32,
    },
    /// A number that does not fit.
    #[error("{what} is {found}; expected {least} to {most}")]
    Range {
        /// Which number.
        what: &'static str,
        /// What it was.
        found: u64,
        /// The least it may be.
        least: u64,
        /// The most it may be.
        most: u64,
    },
    /// Tokens that a prompt or a block cannot have.
    #[error(transparent)]
    Span(#[from] SpanError),
}
