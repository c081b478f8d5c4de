//! What a lifecycle has seen and done.

use serde::{Deserialize, Serialize};

/// Sums since a lifecycle was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LifecycleCounters {
    /// Events, refused ones included.
    pub events: u64,
    /// Events that were refused, and changed nothing.
    pub refused: u64,
    /// Events that said again what was known.
    pub duplicate: u64,
    /// Events that came after what they speak of was settled.
    pub late: u64,
    /// Requests admitted.
    pub admitted: u64,
    /// Blocks that requests found.
    pub found: u64,
    /// Imports that all ranks have lifted.
    pub lifted: u64,
    /// Imports that ended before that: nothing of them was published.
    pub withheld: u64,
    /// Lifts that were tried again.
    pub retried: u64,
    /// Requests that ended with all of their tokens.
    pub finished: u64,
    /// Requests that their clients ended.
    pub aborted: u64,
    /// Requests that a fault ended.
    pub failed: u64,
    /// Requests that lost their pages, and could go on.
    pub preempted: u64,
    /// Requests that went on.
    pub resumed: u64,
    /// Pages sealed, those that arrived whole included.
    pub sealed: u64,
    /// Blocks published.
    pub published: u64,
    /// Sealed blocks that were not, because others had published the same.
    pub known: u64,
    /// Blocks hidden, to be used again.
    pub evicted: u64,
}
