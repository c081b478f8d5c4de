//! What can be wrong with a manifest, and where.

use std::path::PathBuf;

use thiserror::Error;

use super::format::{Lift, Memory, VERSION};
use super::limits::PARTS;
use crate::text;

/// Why a manifest was refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The file could not be read.
    #[error("cannot read the manifest {}: {source}", text::path(path))]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There is something else of that name.
    #[error("cannot read the manifest {}: it is {kind}, not a regular file", text::path(path))]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// The file is no text.
    #[error("{}: {problem}", text::path(path))]
    Encoding {
        /// The file.
        path: PathBuf,
        /// What was found, and what was expected.
        problem: String,
    },
    /// The file is too large to be a manifest.
    #[error("{}: larger than {limit} bytes, which no manifest is", text::path(path))]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The most bytes that are read.
        limit: u64,
    },
    /// The file is not JSON, or repeats a field.
    #[error("{}: at {place}: {}{source}", text::path(path), if source.is_data() { "" } else { "not JSON: " })]
    Shape {
        /// The file.
        path: PathBuf,
        /// Where in the document.
        place: String,
        /// What was found, and what was expected.
        source: serde_json::Error,
    },
    /// The file says something that cannot be.
    #[error("{}: at {place}: {problem}", text::path(path))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Where in the document.
        place: String,
        /// What.
        problem: Problem,
    },
}

/// A contradiction inside a manifest.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The format is newer or older than this program.
    #[error("version {found} is not supported, only version {VERSION} is")]
    Version {
        /// The version of the file.
        found: u64,
    },
    /// A count is out of its bounds.
    #[error("expected a whole number from {low} to {high}, found {found}")]
    OutOfRange {
        /// The number.
        found: u64,
        /// The least that is allowed.
        low: u64,
        /// The most that is allowed.
        high: u64,
    },
    /// A value is not of the kind that belongs there.
    #[error("expected {expected}, found {found}")]
    Unexpected {
        /// What belongs there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A field is missing.
    #[error("the field `{field}` is missing: expected {expected}")]
    Missing {
        /// The field.
        field: &'static str,
        /// What it should hold.
        expected: String,
    },
    /// A field has a name that means nothing.
    #[error("unknown field `{field}`; the fields here are {known}")]
    UnknownField {
        /// The field.
        field: String,
        /// The fields there are.
        known: String,
    },
    /// All groups together take more work than makes sense.
    #[error("{what} come to {found}, which is more than {limit}")]
    TooMany {
        /// What was counted.
        what: &'static str,
        /// How much of it there is.
        found: u64,
        /// The most there may be.
        limit: u64,
    },
    /// A part of a state has no bytes or too many.
    #[error("the part `{part}` would have {bytes} bytes, expected 1 to {high}")]
    PartBytes {
        /// The part.
        part: String,
        /// Its bytes, where they can be said.
        bytes: String,
        /// The most it may have.
        high: u64,
    },
    /// Two things have one name.
    #[error("the name `{name}` is already used at {first}")]
    DuplicateName {
        /// The name.
        name: String,
        /// Where it was used first.
        first: String,
    },
    /// A group names a pool that does not exist.
    #[error("there is no pool `{name}`; the pools are {}", text::names(known))]
    UnknownPool {
        /// The name.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// A side names a pool of the other memory.
    #[error("expected a pool in `{expected}` memory, but `{pool}` lies in `{found}` memory")]
    WrongMemory {
        /// The pool.
        pool: String,
        /// The memory of the side.
        expected: Memory,
        /// The memory of the pool.
        found: Memory,
    },
    /// A number does not divide another.
    #[error("{what} = {value} is not a multiple of {by} = {divisor}")]
    NotDivisible {
        /// What should be divided.
        what: &'static str,
        /// Its value.
        value: u64,
        /// What should divide it.
        by: &'static str,
        /// Its value.
        divisor: u64,
    },
    /// Padding after blocks in a pool whose blocks do not follow each other.
    #[error("blocks have an end that can be padded only in a pool of order `blocks-outermost`")]
    PaddingOfSplitBlocks,
    /// No ring fits the block.
    #[error("no multiple of 4 from {least} on divides a block of {block_tokens} tokens, so no ring fits")]
    NoRing {
        /// The fewest slots the ring needs.
        least: u32,
        /// Tokens of a block.
        block_tokens: u32,
    },
    /// Rows and padding do not fit into a page.
    #[error(
        "the layout needs {needed} bytes a page, but pages of pool `{pool}` have {page_bytes}: raise its `page_bytes`"
    )]
    PageTooSmall {
        /// Bytes of the layout, row padding included.
        needed: u64,
        /// The pool.
        pool: String,
        /// Bytes of its pages.
        page_bytes: u64,
    },
    /// A group reaches past the last layer of its pool.
    #[error(
        "{layers} layers{} from layer {first_layer} on do not fit into the {found} layers of pool `{pool}`: give it more \
         `layers`", if *apart { " (K's and V's, for `kv_regions` is `two`)" } else { "" }
    )]
    LayersOutOfRange {
        /// The pool.
        pool: String,
        /// The pool's layer where the group begins.
        first_layer: u32,
        /// Layers that the group takes there.
        layers: u32,
        /// Whether those are twice the group's, because K and V are apart.
        apart: bool,
        /// Layers of the pool.
        found: u32,
    },
    /// A state's page was given padding between rows.
    #[error("a state has no rows that could be padded: its page is copied whole")]
    PaddingOfState,
    /// Rows of a dense cache were given padding.
    #[error("the heads of a `dense` layout lie without a gap: pad its pages by the pool's `page_bytes`")]
    PaddingOfHeads,
    /// A side says how heads lie that its layout does not have.
    #[error("only the heads of a `dense` layout have a `{field}`")]
    NoHeads {
        /// The field.
        field: &'static str,
    },
    /// A side other than token rows on the GPU has pages of a size of its own.
    #[error(
        "only token rows on the GPU have a `page_tokens`: host blocks have `block_tokens`, and rings and states one page"
    )]
    PageTokensOfOthers,
    /// Pages and blocks cannot be cut into equal parts.
    #[error(
        "pages of {page_tokens} tokens do not pair with blocks of {block_tokens}: expected whole rows, and a power of two \
         times more or fewer, {PARTS} times at most"
    )]
    UnpairedTokens {
        /// Tokens of a page.
        page_tokens: u32,
        /// Tokens of a block.
        block_tokens: u32,
    },
    /// A token-paged group is lifted as a state, or the other way round.
    #[error("a group of {family} can be lifted as {allowed}, not as `{found}`")]
    WrongLift {
        /// What the group holds.
        family: &'static str,
        /// What may be lifted of it.
        allowed: &'static str,
        /// What was asked for.
        found: Lift,
    },
    /// Something that lands on the GPU is also to be lifted.
    #[error("a group that lands on the GPU is there already: expected lift `none`, found `{found}`")]
    LiftOfLanded {
        /// What was asked for.
        found: Lift,
    },
    /// A side is needed but not described.
    #[error("{why} needs the side `{side}`")]
    MissingSide {
        /// The side.
        side: Memory,
        /// What needs it.
        why: &'static str,
    },
    /// Rows of a page are mirrored whose other rows never reach the host.
    #[error(
        "mirroring rows needs landing `host` and a lift: a block whose imported rows are elsewhere is never complete"
    )]
    MirrorOfPart,
    /// A state is checkpointed although it is not on the GPU.
    #[error("a mirror copies from the GPU, but nothing of this group is ever there")]
    MirrorOfNothing,
    /// A list of blocks has the wrong length.
    #[error("ids in the list: expected {expected} ({why}), found {found}")]
    ListLength {
        /// Ids that are needed.
        expected: u64,
        /// Why that many.
        why: &'static str,
        /// Ids in the list.
        found: u64,
    },
    /// An id is past the end of its pool.
    #[error("block {id} is not one of the {blocks} blocks of pool `{pool}`")]
    BlockOutOfRange {
        /// The id.
        id: u32,
        /// The pool.
        pool: String,
        /// Its blocks.
        blocks: u32,
    },
    /// The null block of a pool is used.
    #[error("block {id} is the null block of pool `{pool}`")]
    NullBlock {
        /// The id.
        id: u32,
        /// The pool.
        pool: String,
    },
    /// A block is listed twice.
    #[error("block {id} of pool `{pool}` is already used at {first}; a block belongs to one group, once")]
    BlockTwice {
        /// The id.
        id: u32,
        /// The pool.
        pool: String,
        /// Where it was used first.
        first: String,
    },
    /// A pool is too small.
    #[error("{needed} blocks are needed of pool `{pool}`, but only {free} are free: give it more `blocks`")]
    NotEnoughBlocks {
        /// The pool.
        pool: String,
        /// Ids that are needed.
        needed: u64,
        /// Ids that no other group has.
        free: u64,
    },
}

/// A problem together with its place, which is empty at the top level, before the name of the file is known.
#[derive(Debug)]
pub struct Located {
    pub place: String,
    pub problem: Problem,
}

/// Adds a place to a problem.
pub trait At<T> {
    /// Says where the problem is.
    fn at(self, place: impl Into<String>) -> Result<T, Located>;
}

impl<T> At<T> for Result<T, Problem> {
    fn at(self, place: impl Into<String>) -> Result<T, Located> {
        self.map_err(|problem| Located { place: place.into(), problem })
    }
}

/// Checks that a number is within its bounds.
pub fn within(found: u64, low: u64, high: u64) -> Result<(), Problem> {
    if (low..=high).contains(&found) { Ok(()) } else { Err(Problem::OutOfRange { found, low, high }) }
}

/// Checks that `divisor` divides `value`, and returns how often.
pub fn divide(what: &'static str, value: u64, by: &'static str, divisor: u64) -> Result<u64, Problem> {
    match value.checked_rem(divisor) {
        Some(0) => Ok(value / divisor),
        _ => Err(Problem::NotDivisible { what, value, by, divisor }),
    }
}
