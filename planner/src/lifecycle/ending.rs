//! How a request stops: finished, given up, or preempted to go on later. In any case its ranks are asked first.

use super::admit::index;
use super::event::{Effect, Outcome};
use super::rank::Rank;
use super::request::{Ending, Request, RequestId, Stage};
use super::shared::Shared;
use crate::error::LifecycleError;
use crate::import::Recurrence;

impl Request {
    /// It has all of its tokens.
    pub fn finish(&mut self, id: RequestId, shared: &mut Shared) -> Result<(), LifecycleError> {
        match (self.stage, self.ending) {
            (Stage::Lifted, _) => self.stop(id, Ending::Finish, shared),
            (Stage::Stopping, Some(Ending::Preempt)) => self.end_by(Ending::Finish),
            (Stage::Preempted, _) => self.end(id, Outcome::Finished, shared),
            _ => return self.wrong(id, "finish"),
        }
        Ok(())
    }

    /// Its client does not want it any more.
    pub fn abort(&mut self, id: RequestId, shared: &mut Shared) {
        match self.stage {
            // What is being read or lifted is still written to.
            Stage::Reserved | Stage::Receiving | Stage::Stopping => self.end_by(Ending::Abort),
            Stage::Lifting => self.cancel(id, Ending::Abort, shared),
            Stage::Lifted => self.stop(id, Ending::Abort, shared),
            Stage::Preempted => self.end(id, Outcome::Aborted, shared),
            Stage::Ended => {}
        }
    }

    /// A rank cannot write back what it was to write: what comes after that is never safe, so nothing of it will be sealed.
    pub fn broken(&mut self, id: RequestId, rank: Rank, shared: &mut Shared) {
        match self.stage {
            Stage::Lifted if !shared.lost.contains(rank) => self.stop(id, Ending::Fail, shared),
            // Where it stops already, the rank's answer says the same.
            _ => shared.late(),
        }
    }

    /// The engine wants its pages.
    pub fn preempt(&mut self, id: RequestId, shared: &mut Shared) -> Result<(), LifecycleError> {
        if self.stage != Stage::Lifted {
            return self.wrong(id, "be preempted");
        }
        let open = self.steps.begun.saturating_sub(self.steps.accepted);
        if open > 0 {
            return Err(LifecycleError::StepsOpen { request: id, open });
        }
        let at = self.steps.at;
        // What ranks have not written themselves may lie on the device alone: some group's states may land there.
        let saved = self.steps.begun > 0 && self.state.is_some_and(|(tokens, _)| tokens == at);
        let has_state = self.steps.begun > 0 || self.span.imported().get() > 0;
        if shared.options.recurrence == Recurrence::State && !saved && has_state {
            // At a page's end only of an import; else that was asked for when its last token was accepted.
            let position = self.tail_position(shared);
            self.state = Some((at, position));
            shared.say(Effect::Save { request: id, position });
        }
        self.stop(id, Ending::Preempt, shared);
        Ok(())
    }

    /// All ranks have stopped, and what the request had computed is safe: its pages go, its blocks stay.
    pub fn preempted(&mut self, id: RequestId, shared: &mut Shared) {
        self.ending = None;
        self.stage = Stage::Preempted;
        self.release_pages(id, shared);
        // Blocks that only rejected drafts had reached.
        let used = self.steps.at.div_ceil(shared.block_tokens().max(1));
        let saved = self.state.map_or(0, |(_, position)| index(position).saturating_add(1));
        let used = usize::try_from(used).unwrap_or(usize::MAX).max(index(self.found)).max(saved);
        self.release_blocks(id, used, shared);
        self.steps.reach = self.steps.at;
        shared.counters.preempted = shared.counters.preempted.saturating_add(1);
        shared.say(Effect::Preempted { request: id });
    }

    /// It goes on: with a page for each position that is not sealed, and those behind that fit.
    pub fn resume(&mut self, id: RequestId, behind: u32, shared: &mut Shared) -> Result<(), LifecycleError> {
        if self.stage != Stage::Preempted {
            return self.wrong(id, "be resumed");
        }
        if !shared.lost.is_empty() {
            return Err(LifecycleError::RanksLost { lost: shared.lost.len() });
        }
        let tail = self.tail_position(shared);
        let unsealed = self.sealed.min(tail);
        let needed = tail.saturating_sub(unsealed).saturating_add(1);
        let spare = u32::try_from(shared.pages.free()).unwrap_or(u32::MAX).saturating_sub(needed);
        let first = unsealed.saturating_sub(behind.min(spare));
        self.take(id, first, tail, shared)?;
        self.lift(id, shared);
        Ok(())
    }
}
