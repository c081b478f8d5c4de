//! Pools, sides and groups that do not fit together.

use std::sync::Arc;

use thiserror::Error;

use crate::id::PoolId;
use crate::layout::{ConvOrder, Segment};

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
