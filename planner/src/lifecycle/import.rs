//! An import: reads, then one question to all ranks.
//!
//! Endpoints are held from the admission on, until no read is in flight and every rank that was asked has answered.

use super::event::{Effect, Event, Outcome, Read};
use super::limits::Restores;
use super::rank::{Rank, Ranks};
use super::reads::Reads;
use super::request::{Ending, Request, RequestId, Stage};
use super::round::{Answer, Heard, Verdict};
use super::shared::Shared;
use crate::error::LifecycleError;
use crate::import::Arrival;

impl Request {
    /// Reads have begun.
    pub fn posted(
        &mut self,
        id: RequestId,
        (ranks, each): (Ranks, u8),
        shared: &mut Shared,
    ) -> Result<(), LifecycleError> {
        if self.stage != Stage::Reserved {
            return self.wrong(id, "begin to read");
        }
        if let Some(stranger) = ranks.without(shared.ranks()).iter().next() {
            return shared.check_rank(stranger);
        }
        let count = ranks.len().saturating_mul(each.into());
        if count > Event::MOST_READS {
            let (what, most) = ("the number of reads", Event::MOST_READS.into());
            return Err(LifecycleError::Range { what, found: count.into(), least: 0, most });
        }
        self.reads = Reads::begun(ranks, each);
        self.stage = Stage::Receiving;
        for rank in shared.lost.iter() {
            if self.reads.close_all(rank) {
                self.end_by(Ending::Fail);
            }
        }
        // What nobody reads was nobody's to wait for.
        let awaited = count > 0;
        if self.ending.is_none() {
            self.valid = self.span.imported().get();
        }
        self.landed(id, awaited, shared);
        Ok(())
    }

    /// A read has ended.
    pub fn read(
        &mut self,
        id: RequestId,
        (rank, part): (Rank, u8),
        read: Read,
        shared: &mut Shared,
    ) -> Result<(), LifecycleError> {
        if self.stage == Stage::Reserved || !self.reads.has(rank, part) {
            return Err(LifecycleError::UnknownRead { request: id, rank, part });
        }
        if !self.reads.close(rank, part) {
            shared.duplicate();
            return Ok(());
        }
        if let Read::Failed { valid } = read {
            let local = u64::from(self.found).saturating_mul(shared.block_tokens());
            self.valid = self.valid.min(valid.get().max(local));
            self.end_by(Ending::Fail);
        }
        self.landed(id, true, shared);
        Ok(())
    }

    /// Goes on where no read is in flight any more.
    pub fn landed(&mut self, id: RequestId, awaited: bool, shared: &mut Shared) {
        if !self.reads.are_over() {
            return;
        }
        self.notify(id, shared);
        if let Some(ending) = self.ending {
            return self.end(id, Self::outcome(ending), shared);
        }
        if awaited {
            shared.say(Effect::Received { request: id });
        }
        self.lift(id, shared);
    }

    /// Asks all ranks to lift what lies in the request's pages.
    pub fn lift(&mut self, id: RequestId, shared: &mut Shared) {
        if !shared.lost.is_empty() {
            return self.end(id, Outcome::Failed, shared);
        }
        self.round = self.round.next(shared.ranks());
        self.stage = Stage::Lifting;
        shared.say(Effect::Lift { request: id, round: self.round.number });
    }

    /// Asks the ranks that are left to stop.
    pub fn stop(&mut self, id: RequestId, ending: Ending, shared: &mut Shared) {
        self.end_by(ending);
        self.round = self.round.next(shared.ranks().without(shared.lost));
        self.stage = Stage::Stopping;
        shared.say(Effect::Stop { request: id, round: self.round.number });
        self.conclude(id, shared);
    }

    /// A rank answers.
    pub fn answer(
        &mut self,
        id: RequestId,
        (round, rank): (u32, Rank),
        answer: Answer,
        shared: &mut Shared,
    ) -> Result<(), LifecycleError> {
        if round == 0 || round > self.round.number {
            let latest = self.round.number;
            return Err(LifecycleError::NotYet { request: id, what: "round", number: round, latest });
        }
        if round < self.round.number {
            shared.late();
            return Ok(());
        }
        match self.round.hear(rank, answer) {
            Heard::Contradicts => {
                return Err(LifecycleError::Contradiction { request: id, round, rank, answer });
            }
            Heard::Again => shared.duplicate(),
            Heard::Late => shared.late(),
            Heard::First => self.conclude(id, shared),
        }
        Ok(())
    }

    /// Goes on where every rank has answered.
    fn conclude(&mut self, id: RequestId, shared: &mut Shared) {
        let verdict = self.round.verdict();
        match (self.stage, self.ending, verdict) {
            (_, _, Verdict::Open) => {}
            (Stage::Lifting, Some(ending), _) => self.end(id, Self::outcome(ending), shared),
            (Stage::Lifting, None, Verdict::Whole(whole)) => {
                self.lifted(id, shared, self.whole.is_none());
                self.whole = Some(whole);
                self.advance(id, shared);
            }
            (Stage::Lifting, None, Verdict::Broken) => match self.retries.checked_sub(1) {
                Some(left) if shared.lost.is_empty() => {
                    self.retries = left;
                    shared.counters.retried = shared.counters.retried.saturating_add(1);
                    self.lift(id, shared);
                }
                _ => self.end(id, Outcome::Failed, shared),
            },
            (Stage::Stopping, Some(ending), Verdict::Whole(_)) => {
                self.caught_up(id, shared);
                match ending {
                    Ending::Preempt => self.preempted(id, shared),
                    _ => self.end(id, Self::outcome(ending), shared),
                }
            }
            (Stage::Stopping, Some(ending), Verdict::Broken) => self.end(id, Self::outcome(ending), shared),
            _ => {}
        }
    }

    fn lifted(&mut self, id: RequestId, shared: &mut Shared, first: bool) {
        self.stage = Stage::Lifted;
        self.retries = shared.options.retries;
        let counters = &mut shared.counters;
        let count = if first { &mut counters.lifted } else { &mut counters.resumed };
        *count = count.saturating_add(1);
        shared.say(Effect::Lifted { request: id });
        if first && self.arrival == Arrival::Device {
            let end = self.received(shared.options);
            for position in self.found..end {
                shared.say(Effect::Spill { request: id, position });
            }
        }
    }

    /// A rank is gone, and nothing of it runs any more. What it was asked for it will not answer, and what it had in its
    /// pages is lost.
    pub fn lose(&mut self, id: RequestId, rank: Rank, shared: &mut Shared) {
        match self.stage {
            // The transport answers first.
            Stage::Reserved => self.end_by(Ending::Fail),
            Stage::Receiving => {
                self.reads.close_all(rank);
                let local = u64::from(self.found).saturating_mul(shared.block_tokens());
                self.valid = self.valid.min(local);
                self.end_by(Ending::Fail);
                self.landed(id, true, shared);
            }
            Stage::Lifting => {
                self.round.lose(rank);
                self.cancel(id, Ending::Fail, shared);
                self.conclude(id, shared);
            }
            Stage::Lifted => self.stop(id, Ending::Fail, shared),
            Stage::Stopping => {
                self.round.lose(rank);
                self.conclude(id, shared);
            }
            // What it had on the device alone went with the rank.
            Stage::Preempted if shared.options.limits.restores == Restores::Nothing => {
                self.end(id, Outcome::Failed, shared);
            }
            Stage::Preempted | Stage::Ended => {}
        }
    }

    /// Says that a lift is not wanted any more. It is awaited nevertheless: some rank may have begun it.
    pub fn cancel(&mut self, id: RequestId, ending: Ending, shared: &mut Shared) {
        if self.ending.is_none() {
            shared.say(Effect::Cancel { request: id, round: self.round.number });
        }
        self.end_by(ending);
    }
}
