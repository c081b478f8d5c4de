//! The reads of one import on one rank of D: when they are over, what is told to whom, and what is valid.
//!
//! ```text
//!            begin                       every part has ended
//!   (parts) ───────▶ READING ────────────────────────────────────────▶ OVER: one notice to P; then, to the engine,
//!                     │   ▲                                                  received, failed or cancelled
//!      lease lost,    │   │ heartbeats, as long
//!      timeout, cancel▼   │ as a part is open
//!                   ENDING: parts are told to stop, and awaited nevertheless
//! ```
//!
//! A part that was told to stop may still write until it says that it has ended. So nothing is released, and P's lease is
//! kept if it still lasts, until then; whether a client still waits makes no difference.

use std::sync::Arc;
use std::time::Duration;

use pagelift_planner::quantity::Tokens;

use crate::error::ReceiveError;
use crate::lease::{Holding, Moment, Terms};
use crate::notice::{ExportId, Notice, ReadOutcome};
use crate::plan::ReadPlan;

/// What an import on one rank is about.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveOptions {
    /// What P has exported.
    pub export: ExportId,
    /// The rank that reads.
    pub rank: u32,
    /// Whether the engine waits to hear that all bytes are here. With nothing to read, nobody waits.
    pub awaited: bool,
    /// What P said of its leases.
    pub terms: Terms,
    /// When P was asked for the export.
    pub asked: Moment,
    /// How long reads may take from their beginning on.
    pub timeout: Duration,
}

/// The reads of one import.
#[derive(Debug)]
pub struct Receive {
    options: ReceiveOptions,
    lease: Holding,
    begun: Moment,
    parts: Vec<Part>,
    groups: Vec<(Arc<str>, Tokens)>,
    open: usize,
    ending: Option<Ending>,
    told_to_stop: bool,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    group: usize,
    /// Tokens that are valid although it fails.
    before: Tokens,
    state: PartState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartState {
    Open,
    Landed,
    Failed,
}

/// Why an import ends without all of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ending {
    /// A read failed.
    ReadFailed,
    /// Reads took longer than they may.
    TimedOut,
    /// P does not hold the blocks any more, or may not.
    LeaseLost,
    /// The client does not want it any more.
    Cancelled,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadEvent {
    /// All bytes of a part are here.
    Landed {
        /// Which of [`ReadPlan::reads`].
        part: usize,
    },
    /// A part has ended otherwise, and does not write any more.
    Failed {
        /// Which of [`ReadPlan::reads`].
        part: usize,
    },
    /// P has heard the heartbeat that was sent then.
    Acknowledged {
        /// As [`ReadEffect::Heartbeat`] had it.
        sent: Moment,
    },
    /// P says that it holds nothing for this import.
    Refused,
    /// The client does not want it any more.
    Cancel,
    /// Time has passed.
    Tick,
}

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadEffect {
    /// To P: reads are in flight. Answered by [`ReadEvent::Acknowledged`] with the same moment.
    Heartbeat {
        /// Now.
        sent: Moment,
    },
    /// To the transport: end this part, and say when it has.
    Stop {
        /// Which of [`ReadPlan::reads`].
        part: usize,
    },
    /// To P: nothing reads its blocks any more. Exactly once.
    Notify(Notice),
    /// To the engine, where it waits: all bytes are here. At most once.
    Received,
    /// To the engine: nothing of this import is to be published, and of each group so many tokens from the prompt's first
    /// on are valid. Once, instead of the above.
    Failed {
        /// Why.
        why: Ending,
        /// Of each group, what need not be computed or read again.
        valid: Vec<(Arc<str>, Tokens)>,
    },
    /// To the engine: nothing writes this side's blocks any more. Once, and last.
    Released,
}

impl Receive {
    /// The reads of `plan`, each of which is begun soon, or said to have failed. Without any it is over at once: P is notified, and nobody else.
    #[must_use]
    pub fn begin(plan: &ReadPlan, options: ReceiveOptions, now: Moment) -> (Self, Vec<ReadEffect>) {
        let part = |read: &crate::plan::PlannedRead| Part {
            group: read.group(),
            before: read.first_token(),
            state: PartState::Open,
        };
        let parts: Vec<Part> = plan.reads().iter().map(part).collect();
        let mut own = Self {
            options: ReceiveOptions { awaited: options.awaited && !parts.is_empty(), ..options },
            lease: Holding::new(options.terms, options.asked),
            begun: now,
            open: parts.len(),
            parts,
            groups: plan.groups().iter().map(|group| (group.name().clone(), group.imported())).collect(),
            ending: None,
            told_to_stop: false,
        };
        let mut effects = Vec::new();
        if own.is_over() {
            own.conclude(&mut effects);
        }
        (own, effects)
    }

    /// Whether all parts have ended.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.open == 0
    }

    /// Whether it ends without all of its bytes. Nothing more of it need be begun.
    #[must_use]
    pub const fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// Tells it what happened, and what is to be done now. Ticks come at least as often as heartbeats are due.
    ///
    /// # Errors
    /// [`ReceiveError::NoSuchPart`] for a part that was never begun. An end that comes twice changes nothing.
    pub fn handle(&mut self, now: Moment, event: ReadEvent) -> Result<Vec<ReadEffect>, ReceiveError> {
        let mut effects = Vec::new();
        if let ReadEvent::Landed { part } | ReadEvent::Failed { part } = event
            && part >= self.parts.len()
        {
            return Err(ReceiveError::NoSuchPart { part, parts: self.parts.len() });
        }
        if self.is_over() {
            return Ok(effects);
        }
        match event {
            ReadEvent::Acknowledged { sent } => self.lease.acknowledged(sent),
            ReadEvent::Refused => self.lease.refuse(),
            ReadEvent::Cancel => self.end_by(Ending::Cancelled),
            ReadEvent::Landed { .. } | ReadEvent::Failed { .. } | ReadEvent::Tick => {}
        }
        // What lands after the lease may be another request's, so this comes before the landing.
        if !self.lease.lasts(now) {
            self.end_by(Ending::LeaseLost);
        }
        match event {
            ReadEvent::Landed { part } if self.lease.lasts(now) => self.close(part, PartState::Landed),
            ReadEvent::Landed { part } => self.close(part, PartState::Failed),
            ReadEvent::Failed { part } => {
                self.end_by(Ending::ReadFailed);
                self.close(part, PartState::Failed);
            }
            _ => {}
        }
        if self.is_over() {
            self.conclude(&mut effects);
            return Ok(effects);
        }
        let late = now.since(self.begun) >= self.options.timeout;
        if late {
            self.end_by(Ending::TimedOut);
        }
        // A read that failed or that nobody wants leaves the others to end by themselves: to break them off takes longer.
        if (late || !self.lease.lasts(now)) && !self.told_to_stop {
            self.told_to_stop = true;
            let open = self.parts.iter().enumerate().filter(|(_, own)| own.state == PartState::Open);
            effects.extend(open.map(|(part, _)| ReadEffect::Stop { part }));
        }
        if self.lease.is_due(now) {
            effects.push(ReadEffect::Heartbeat { sent: now });
        }
        Ok(effects)
    }

    fn close(&mut self, part: usize, state: PartState) {
        if let Some(own) = self.parts.get_mut(part).filter(|own| own.state == PartState::Open) {
            own.state = state;
            self.open = self.open.saturating_sub(1);
        }
    }

    /// The first reason stays.
    const fn end_by(&mut self, ending: Ending) {
        if self.ending.is_none() {
            self.ending = Some(ending);
        }
    }

    fn conclude(&mut self, effects: &mut Vec<ReadEffect>) {
        let ReceiveOptions { export, rank, awaited, .. } = self.options;
        let outcome = match self.ending {
            None => ReadOutcome::Read,
            Some(Ending::Cancelled) => ReadOutcome::Cancelled,
            Some(_) => ReadOutcome::Failed,
        };
        effects.push(ReadEffect::Notify(Notice { export, rank, outcome }));
        match self.ending {
            None if awaited => effects.push(ReadEffect::Received),
            None => {}
            Some(why) => effects.push(ReadEffect::Failed { why, valid: self.valid() }),
        }
        effects.push(ReadEffect::Released);
    }

    /// Of each group the tokens before the first part that has not landed.
    fn valid(&self) -> Vec<(Arc<str>, Tokens)> {
        let mut valid = self.groups.clone();
        for part in self.parts.iter().filter(|part| part.state != PartState::Landed) {
            if let Some((_, tokens)) = valid.get_mut(part.group) {
                *tokens = (*tokens).min(part.before);
            }
        }
        valid
    }
}
