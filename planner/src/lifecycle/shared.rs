//! What all requests share: blocks, pages, and the list of effects.

use super::blocks::Blocks;
use super::counters::LifecycleCounters;
use super::event::Effect;
use super::options::LifecycleOptions;
use super::pages::Pages;
use super::rank::Ranks;
use super::request::RequestId;
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

    pub fn release_page(&mut self, request: RequestId, page: PageId) {
        // Its map entry goes before the page does.
        self.say(Effect::ReleasePage { request, page });
        self.pages.release(page);
    }
}
