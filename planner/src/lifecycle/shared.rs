//! What all requests share: blocks, pages, and the list of effects.

use super::blocks::Blocks;
use super::counters::LifecycleCounters;
use super::event::Effect;
use super::options::LifecycleOptions;
use super::pages::Pages;
use super::rank::{Rank, Ranks};
use super::request::RequestId;
use crate::error::{LifecycleError, Resource};
use crate::id::{HostBlockId, PageId};

/// What all requests share.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub options: LifecycleOptions,
    /// Ranks that are lost.
    pub lost: Ranks,
    pub blocks: Blocks,
    pub pages: Pages,
    /// Those of the event at hand.
    pub effects: Vec<Effect>,
    pub counters: LifecycleCounters,
}

impl Shared {
    pub fn say(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    pub const fn ranks(&self) -> Ranks {
        Ranks::first(self.options.ranks)
    }

    pub fn block_tokens(&self) -> u64 {
        self.options.block_tokens.into()
    }

    /// Takes a block; what it was is hidden first.
    pub fn take_block(&mut self) -> Option<HostBlockId> {
        let (block, hidden) = self.blocks.take()?;
        if let Some(hash) = hidden {
            self.counters.evicted = self.counters.evicted.saturating_add(1);
            self.say(Effect::Hide { hash, block });
        }
        Some(block)
    }

    /// Refuses a rank that the engine does not have.
    pub const fn check_rank(&self, rank: Rank) -> Result<(), LifecycleError> {
        let ranks = self.options.ranks;
        if rank.get() < ranks { Ok(()) } else { Err(LifecycleError::UnknownRank { rank, ranks }) }
    }

    /// Refuses what there is no room for: a request will have `all` at one time, for which it needs so many more, and so
    /// many are free.
    pub fn check_room(
        &self,
        of: Resource,
        all: u32,
        (needed, free): (usize, usize),
    ) -> Result<(), LifecycleError> {
        let most = match of {
            Resource::Requests => self.options.requests,
            Resource::HostBlocks => self.options.blocks.min(self.options.limits.positions),
            Resource::Pages => self.options.pages,
        };
        if all > most {
            return Err(LifecycleError::TooLarge { of, needed: all.into(), most: most.into() });
        }
        if needed > free {
            let [needed, free] = [needed, free].map(|count| u64::try_from(count).unwrap_or(u64::MAX));
            return Err(LifecycleError::NoRoom { of, needed, free });
        }
        Ok(())
    }

    /// Counts a message that has come before.
    pub const fn duplicate(&mut self) {
        self.counters.duplicate = self.counters.duplicate.saturating_add(1);
    }

    /// Counts a message that came after what it speaks of was settled.
    pub const fn late(&mut self) {
        self.counters.late = self.counters.late.saturating_add(1);
    }

    pub fn release_page(&mut self, request: RequestId, page: PageId) {
        // Its map entry goes before the page does.
        self.say(Effect::ReleasePage { request, page });
        self.pages.release(page);
    }
}
