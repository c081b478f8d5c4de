//! Decoding: steps write rows, mirrors make them safe, full pages are sealed, and what is sealed and whole is published.

use super::admit::index;
use super::event::{ContentHash, Effect};
use super::limits::Restores;
use super::options::LifecycleOptions;
use super::rank::Rank;
use super::request::{Ending, Progress, Request, RequestId, Stage};
use super::shared::Shared;
use crate::error::{LifecycleError, Resource};
use crate::import::{Arrival, Recurrence};
use crate::quantity::Rows;
use crate::room::reserve_more;

impl Request {
    /// A step begins: every token that it may compute has a page and a block.
    pub fn begin(&mut self, id: RequestId, tokens: u32, shared: &mut Shared) -> Result<(), LifecycleError> {
        if self.stage != Stage::Lifted {
            return self.wrong(id, "begin a step");
        }
        if tokens == 0 {
            let what = "the number of tokens of a step";
            return Err(LifecycleError::Range { what, found: 0, least: 1, most: u32::MAX.into() });
        }
        let settled = self.least(shared.ranks(), |rank| rank.steps).min(self.steps.accepted);
        let (ahead, most) = (self.steps.begun.saturating_sub(settled), LifecycleOptions::MOST_AHEAD);
        if ahead >= most {
            return Err(LifecycleError::TooFarAhead { request: id, ahead, most });
        }
        let (reach, block) = (self.steps.reach, shared.block_tokens());
        let end = reach.saturating_add(tokens.into());
        let last = end.saturating_sub(1);
        if shared.options.recurrence == Recurrence::State {
            // The state at a page's end is checkpointed before anything is computed after it.
            let crosses = reach.checked_div(block) != last.checked_div(block);
            let open = self.steps.begun.saturating_sub(self.steps.accepted);
            let unsure = tokens > 1 || reach > self.steps.at.saturating_add(open.into());
            if open > 0 && (crosses || unsure || reach.checked_rem(block) == Some(0)) {
                return Err(LifecycleError::StatePending { request: id, open });
            }
            if crosses {
                let what =
                    "the number of tokens of a step, which ends with its page where a model has states,";
                let most = block.saturating_sub(reach.checked_rem(block).unwrap_or(0));
                return Err(LifecycleError::Range { what, found: tokens.into(), least: 1, most });
            }
        }
        let last = last.checked_div(block).and_then(|last| u32::try_from(last).ok());
        let Some(last) = last.filter(|last| *last < u32::MAX) else {
            let what = "the end of what the request may compute, in tokens,";
            let most = u64::from(u32::MAX).saturating_mul(block);
            return Err(LifecycleError::Range { what, found: end, least: 1, most });
        };
        // A page that was let go of is not written again.
        let tail = self.tail_position(shared);
        let first = self.pages.last().map_or(tail, |held| held.position.saturating_add(1));
        self.take(id, first, last, shared)?;
        self.steps.begin(tokens);
        Ok(())
    }

    /// The position of the next token.
    pub fn tail_position(&self, shared: &Shared) -> u32 {
        let tail = self.steps.at.checked_div(shared.block_tokens()).unwrap_or(0);
        u32::try_from(tail).unwrap_or(u32::MAX)
    }

    /// Takes pages for positions `first..=last`, and the blocks that are lacking up to there: all or none.
    pub fn take(
        &mut self,
        id: RequestId,
        first: u32,
        last: u32,
        shared: &mut Shared,
    ) -> Result<(), LifecycleError> {
        let end = last.saturating_add(1);
        let blocks = index(end).saturating_sub(self.blocks.len());
        let pages = index(end.saturating_sub(first));
        shared.check_room(Resource::HostBlocks, end, (blocks, shared.blocks.available()))?;
        shared.check_room(Resource::Pages, end.saturating_sub(first), (pages, shared.pages.free()))?;
        reserve_more("blocks of a request", &mut self.blocks, blocks)?;
        reserve_more("pages of a request", &mut self.pages, pages)?;
        for _ in 0..blocks {
            let Some(block) = shared.take_block() else { break };
            self.blocks.push(block);
        }
        (first..end).for_each(|position| self.take_page(id, position, shared));
        Ok(())
    }

    /// Tokens of a step were accepted.
    pub fn accept(
        &mut self,
        id: RequestId,
        (step, tokens): (u32, u32),
        shared: &mut Shared,
    ) -> Result<(), LifecycleError> {
        let next = self.steps.accepted.saturating_add(1);
        if step != next || step > self.steps.begun {
            let begun = self.steps.begun;
            return Err(LifecycleError::OutOfOrder { request: id, step, next, begun });
        }
        let computed = self.steps.next_computed();
        if !(1..=computed).contains(&tokens) {
            let what = "the number of accepted tokens";
            return Err(LifecycleError::Range {
                what,
                found: tokens.into(),
                least: 1,
                most: computed.into(),
            });
        }
        if !matches!(self.stage, Stage::Lifted | Stage::Stopping) {
            return self.wrong(id, "accept tokens");
        }
        self.steps.accept(tokens);
        let (at, block) = (self.steps.at, shared.block_tokens());
        let ends_page = at.checked_rem(block) == Some(0);
        if shared.options.recurrence == Recurrence::State && ends_page && self.stage == Stage::Lifted {
            let end = at.checked_div(block).and_then(|end| u32::try_from(end).ok()).unwrap_or(u32::MAX);
            let position = end.saturating_sub(1);
            (self.checkpoints, self.state) = (end, Some((at, position)));
            shared.say(Effect::Checkpoint { request: id, position });
        }
        self.advance(id, shared);
        Ok(())
    }

    /// The content of the next full block has a name.
    pub fn name(
        &mut self,
        id: RequestId,
        hash: ContentHash,
        shared: &mut Shared,
    ) -> Result<(), LifecycleError> {
        let full =
            self.steps.at.max(self.span.prompt().get()).checked_div(shared.block_tokens()).unwrap_or(0);
        let latest = u32::try_from(full).unwrap_or(u32::MAX);
        if self.hashes.len() >= index(latest) {
            let number = u32::try_from(self.hashes.len()).unwrap_or(u32::MAX).saturating_add(1);
            return Err(LifecycleError::NotYet { request: id, what: "full block", number, latest });
        }
        reserve_more("hashes of a request", &mut self.hashes, 1)?;
        self.hashes.push(hash);
        self.advance(id, shared);
        Ok(())
    }

    /// A rank has got somewhere: what `of` says of it is `number` now, at most `latest`.
    pub fn reached(
        &mut self,
        id: RequestId,
        rank: Rank,
        (what, number, latest): (&'static str, u32, u32),
        of: impl Fn(&mut Progress) -> &mut u32,
        shared: &mut Shared,
    ) -> Result<(), LifecycleError> {
        if number > latest {
            return Err(LifecycleError::NotYet { request: id, what, number, latest });
        }
        let Some(reached) = self.progress.get_mut(rank.index()).map(of) else { return Ok(()) };
        if number <= *reached {
            shared.duplicate();
            return Ok(());
        }
        *reached = number;
        self.advance(id, shared);
        Ok(())
    }

    /// All ranks have stopped, and have finished what they had begun.
    pub fn caught_up(&mut self, id: RequestId, shared: &mut Shared) {
        let (steps, checkpoints) = (self.steps.begun, self.checkpoints);
        self.progress.fill(Progress { steps, checkpoints, spills: u32::MAX });
        self.settle(id, shared);
    }

    /// One past the last position that was imported.
    pub fn received(&self, options: LifecycleOptions) -> u32 {
        let blocks = self.span.imported().get().div_ceil(u64::from(options.block_tokens).max(1));
        u32::try_from(blocks).unwrap_or(u32::MAX)
    }

    /// Tokens from the first on whose rows are final and safe in host blocks.
    pub fn durable(&self, options: LifecycleOptions) -> u64 {
        let spilled = self.least(options.writers, |rank| rank.spills);
        if self.arrival == Arrival::Device && spilled < self.received(options) {
            return u64::from(spilled).saturating_mul(options.block_tokens.into()).min(self.steps.durable);
        }
        self.steps.durable
    }

    /// Does what follows from tokens that were accepted, and rows that are safe. While ranks stop, nothing does: how far
    /// each has got, their answers say, and those of all together.
    pub fn advance(&mut self, id: RequestId, shared: &mut Shared) {
        if self.stage == Stage::Lifted {
            self.settle(id, shared);
        }
    }

    fn settle(&mut self, id: RequestId, shared: &mut Shared) {
        // Of a request that is given up nothing more is sealed or published.
        if self.whole.is_none() || matches!(self.ending, Some(Ending::Abort | Ending::Fail)) {
            return;
        }
        let options = shared.options;
        let safe = self.least(options.writers, |rank| rank.steps);
        self.steps.safe(safe, options.draft_lag);
        self.seal(id, shared);
        self.publish(shared);
        self.let_go(id, shared);
    }

    /// Fills pages with accepted rows, and seals those whose rows are all safe, in order.
    fn seal(&mut self, id: RequestId, shared: &mut Shared) {
        let block = shared.block_tokens();
        let end_of = |position: u32| u64::from(position).saturating_add(1).saturating_mul(block);
        for held in self.pages.iter_mut().filter(|held| end_of(held.position) <= self.steps.at) {
            held.fill();
        }
        let durable = self.durable(shared.options);
        let states = shared.options.recurrence == Recurrence::State;
        while end_of(self.sealed) <= durable {
            let position = self.sealed;
            let checkpointed = || self.least(shared.ranks(), |rank| rank.checkpoints) > position;
            // Only the last state of an import arrives: the blocks before it have none.
            if states && position >= self.tail && !checkpointed() {
                return;
            }
            let Some(block) = self.blocks.get(index(position)).copied() else { return };
            let held = self.pages.iter_mut().find(|held| held.position == position);
            if !held.is_none_or(|held| held.seal(Rows::new(shared.options.block_tokens))) {
                return;
            }
            self.sealed = position.saturating_add(1);
            shared.counters.sealed = shared.counters.sealed.saturating_add(1);
            shared.say(Effect::Sealed { request: id, position, block });
        }
    }

    /// Offers what is sealed, and has a name, to others. It takes what only the answers of all ranks make.
    fn publish(&mut self, shared: &mut Shared) {
        let Some(whole) = self.whole else { return };
        // Whoever found it would lack what some group has elsewhere.
        if shared.options.limits.restores != Restores::Prefixes {
            return;
        }
        while self.offered < self.sealed {
            let at = index(self.offered);
            let Some((hash, block)) = self.hashes.get(at).copied().zip(self.blocks.get(at).copied()) else {
                return;
            };
            // Where a model has states, only blocks that were computed here come with theirs.
            let resumable = shared.options.recurrence == Recurrence::None || self.offered >= self.tail;
            let counters = &mut shared.counters;
            if shared.blocks.publish(whole, block, hash, resumable) {
                counters.published = counters.published.saturating_add(1);
                shared.say(Effect::Publish { hash, block });
            } else {
                counters.known = counters.known.saturating_add(1);
            }
            self.offered = self.offered.saturating_add(1);
        }
    }

    /// Lets go of sealed pages too far behind the one that is written, once all ranks are past the steps that read them.
    fn let_go(&mut self, id: RequestId, shared: &mut Shared) {
        let tail = self.tail_position(shared);
        let (keep, begun) = (shared.options.keep, self.steps.begun);
        let behind = |position: u32| position.saturating_add(keep) < tail;
        for held in self.pages.iter_mut().filter(|held| behind(held.position)) {
            held.leave(begun);
        }
        let idle = self.least(shared.ranks(), |rank| rank.steps);
        self.pages.retain(|held| {
            let free = held.is_free(idle);
            if free {
                shared.release_page(id, held.page);
            }
            !free
        });
    }
}
