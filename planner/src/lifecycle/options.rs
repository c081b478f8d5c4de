//! What a lifecycle looks after.

use serde::{Deserialize, Serialize};

use super::limits::FrameLimits;
use super::rank::{Rank, Ranks};
use crate::error::OptionsError;
use crate::import::Recurrence;

/// What a lifecycle looks after: everything is allocated once, for so much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LifecycleOptions {
    /// Ranks, 1 to [`Ranks::MOST`].
    pub ranks: u8,
    /// Those that write host blocks: one where rows are the same on all ranks, all where each has its heads.
    pub writers: Ranks,
    /// Tokens of a block, and of a page, at least 1.
    pub block_tokens: u32,
    /// Whether the model has states: then a page seals only with its checkpoint, and a request resumes only after a block
    /// that has one.
    pub recurrence: Recurrence,
    /// Requests at one time, at most [`LifecycleOptions::MOST_REQUESTS`]: preempted ones count.
    pub requests: u32,
    /// Host blocks, at most [`LifecycleOptions::MOST_BLOCKS`].
    pub blocks: u32,
    /// Pages, at most [`LifecycleOptions::MOST_PAGES`].
    pub pages: u32,
    /// Sealed pages that each request keeps behind the one it writes.
    pub keep: u32,
    /// Steps after which a draft layer's rows are final; 0 without such layers, at most [`LifecycleOptions::MOST_LAG`].
    pub draft_lag: u32,
    /// How often a lift that failed is tried again.
    pub retries: u32,
    /// What the groups allow, of whichever rank allows least: [`GroupFrames::limits`](super::GroupFrames::limits) works it out. Ranks
    /// do not check it.
    #[serde(default)]
    pub limits: FrameLimits,
}

impl LifecycleOptions {
    /// The most requests at one time.
    pub const MOST_REQUESTS: u32 = 1 << 20;
    /// The most host blocks, as of a plan's pools.
    pub const MOST_BLOCKS: u32 = 1 << 26;
    /// The most pages, as of a plan's pools.
    pub const MOST_PAGES: u32 = 1 << 26;
    /// The most steps of a request that may be unsettled: the host may be so far ahead.
    pub const MOST_AHEAD: u32 = 4;
    /// The most steps after which rows are final.
    pub const MOST_LAG: u32 = 2;

    /// Refuses what cannot be, before any memory is taken.
    pub(super) fn check(self) -> Result<(), OptionsError> {
        let numbers = [
            ("the number of ranks", self.ranks.into(), 1, Ranks::MOST.into()),
            ("the number of tokens of a block", self.block_tokens, 1, u32::MAX),
            ("the number of requests", self.requests, 0, Self::MOST_REQUESTS),
            ("the number of host blocks", self.blocks, 0, Self::MOST_BLOCKS),
            ("the number of pages", self.pages, 0, Self::MOST_PAGES),
            ("the number of steps after which drafts are final", self.draft_lag, 0, Self::MOST_LAG),
        ];
        for (what, found, least, most) in numbers {
            if !(least..=most).contains(&found) {
                let [found, least, most] = [found, least, most].map(u64::from);
                return Err(OptionsError::Number { what, found, least, most });
            }
        }
        let (writers, ranks) = (self.writers, self.ranks);
        if writers.is_empty() || !writers.without(Ranks::first(ranks)).is_empty() {
            return Err(OptionsError::Writers { writers, ranks });
        }
        Ok(())
    }

    /// The same, and a rank that is none of them.
    pub(super) fn check_with(self, rank: Rank) -> Result<(), OptionsError> {
        self.check()?;
        let ranks = self.ranks;
        if rank.get() >= ranks {
            return Err(OptionsError::Rank { rank, ranks });
        }
        Ok(())
    }
}
