//! What a lifecycle looks after.

use serde::{Deserialize, Serialize};

use super::rank::Ranks;
use crate::import::Recurrence;

/// What a lifecycle looks after: everything is allocated once, for so much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LifecycleOptions {
    /// Workers, 1 to [`Ranks::MOST`].
    pub ranks: u8,
    /// Those that write host blocks: one where rows are the same on all ranks, all where each has its heads.
    pub writers: Ranks,
    /// Tokens of a block, and of a page.
    pub block_tokens: u32,
    /// Whether the model has states: then a page seals only with its checkpoint, and a request resumes only after a block
    /// that has one.
    pub recurrence: Recurrence,
    /// Requests at one time.
    pub requests: u32,
    /// Host blocks.
    pub blocks: u32,
    /// Pages.
    pub pages: u32,
    /// Sealed pages that each request keeps behind the one it writes.
    pub keep: u32,
    /// Steps after which a draft layer's rows are final; 0 without such layers, at most [`LifecycleOptions::MOST_LAG`].
    pub draft_lag: u32,
    /// How often a lift that failed is tried again.
    pub retries: u32,
}

impl LifecycleOptions {
    /// The most steps of a request that may be unsettled: the host may be so far ahead.
    pub const MOST_AHEAD: u32 = 4;
    /// The most steps after which rows are final.
    pub const MOST_LAG: u32 = 2;
}
