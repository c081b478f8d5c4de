//! One request: what is known of it, and how it ends.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::event::{ContentHash, Effect, Outcome};
use super::page::HeldPage;
use super::rank::{Rank, Ranks};
use super::reads::Reads;
use super::round::{Round, Whole};
use super::shared::Shared;
use super::slab::Key;
use super::steps::Steps;
use crate::error::{LifecycleError, PlanError};
use crate::id::HostBlockId;
use crate::import::{Arrival, PromptSpan};
use crate::quantity::Tokens;
use crate::room::filled;

/// A request, from its admission to its end. Its slot is used again; the id is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestId {
    slot: u32,
    generation: u64,
}

impl RequestId {
    /// Its place among the requests of one time.
    #[must_use]
    pub const fn slot(self) -> u32 {
        self.slot
    }

    pub(super) const fn of(key: Key) -> Self {
        Self { slot: key.slot, generation: key.generation }
    }

    pub(super) const fn key(self) -> Key {
        Key { slot: self.slot, generation: self.generation }
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {}.{}", self.slot, self.generation)
    }
}

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Its endpoints are held; the transport was asked to read, and has not said what it began.
    Reserved,
    /// Reads are in flight.
    Receiving,
    /// All has landed; not all ranks have answered whether they have lifted it.
    Lifting,
    /// All ranks have lifted it: it computes tokens.
    Lifted,
    /// Not all ranks have answered that nothing of it runs any more.
    Stopping,
    /// It has no pages, and can be resumed.
    Preempted,
    /// It is over, and holds nothing.
    Ended,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reserved => "reserved",
            Self::Receiving => "being received",
            Self::Lifting => "being lifted",
            Self::Lifted => "lifted",
            Self::Stopping => "being stopped",
            Self::Preempted => "preempted",
            Self::Ended => "over",
        })
    }
}

/// Why a request will not go on, once nothing of it runs any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Ending {
    Finish,
    Preempt,
    Abort,
    Fail,
}

/// How far a rank is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Progress {
    /// Steps that are finished and mirrored.
    pub steps: u32,
    /// Positions before this one have their checkpoints, where they need one.
    pub checkpoints: u32,
    /// Positions before this one are spilled, where they have to be.
    pub spills: u32,
}

/// What is known of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Request {
    pub stage: Stage,
    pub ending: Option<Ending>,
    /// Whether a producer has to be notified still.
    pub producer: bool,
    /// Its prompt; what of it is imported or found are the imported tokens.
    pub span: PromptSpan,
    pub arrival: Arrival,
    /// Positions before this one are blocks of others.
    pub found: u32,
    /// The position of `resume_at`.
    pub tail: u32,
    pub reads: Reads,
    /// Tokens of the prompt that are valid in the host pool, as long as it is not lifted.
    pub valid: u64,
    pub round: Round,
    pub retries: u32,
    pub whole: Option<Whole>,
    /// By position.
    pub blocks: Vec<HostBlockId>,
    /// By position.
    pub hashes: Vec<ContentHash>,
    /// In the order of their positions.
    pub pages: Vec<HeldPage>,
    pub steps: Steps,
    /// Positions before this one are sealed.
    pub sealed: u32,
    /// Positions before this one were offered to others.
    pub offered: u32,
    /// By rank.
    pub progress: Vec<Progress>,
    /// Checkpoints were asked for up to this position.
    pub checkpoints: u32,
    /// Where the newest of its states lies in the host pool that arrived or was asked for: after how many tokens, and at which
    /// position.
    pub state: Option<(u64, u32)>,
}

impl Request {
    /// Nothing, with room for its ranks.
    pub fn new(ranks: u8) -> Result<Self, PlanError> {
        Ok(Self {
            stage: Stage::Ended,
            ending: None,
            producer: false,
            span: PromptSpan::NOTHING,
            arrival: Arrival::Host,
            found: 0,
            tail: 0,
            reads: Reads::default(),
            valid: 0,
            round: Round::default(),
            retries: 0,
            whole: None,
            blocks: Vec::new(),
            hashes: Vec::new(),
            pages: Vec::new(),
            steps: Steps::default(),
            sealed: 0,
            offered: 0,
            progress: filled("ranks of a request", Progress::default(), ranks.into())?,
            checkpoints: 0,
            state: None,
        })
    }

    pub const fn wrong<T>(&self, request: RequestId, what: &'static str) -> Result<T, LifecycleError> {
        Err(LifecycleError::WrongStage { request, stage: self.stage, what })
    }

    /// The least that these ranks have reached.
    pub fn least(&self, ranks: Ranks, of: impl Fn(&Progress) -> u32) -> u32 {
        let all = (0..).map(Rank::new).zip(&self.progress);
        all.filter(|(rank, _)| ranks.contains(*rank)).map(|(_, progress)| of(progress)).min().unwrap_or(0)
    }

    /// Why it will not go on; the first reason stands, but preemption gives way to any other.
    pub fn end_by(&mut self, ending: Ending) {
        if self.ending.is_none() || self.ending == Some(Ending::Preempt) {
            self.ending = Some(ending);
        }
    }

    /// Tells the producer that its blocks are not needed any more, once.
    pub fn notify(&mut self, id: RequestId, shared: &mut Shared) {
        if std::mem::take(&mut self.producer) {
            shared.say(Effect::Notify { request: id });
        }
    }

    /// It is over: nothing of it runs any more, and everything it holds is free.
    pub fn end(&mut self, id: RequestId, outcome: Outcome, shared: &mut Shared) {
        self.notify(id, shared);
        if self.whole.is_none() {
            shared.counters.withheld = shared.counters.withheld.saturating_add(1);
        }
        let count = match outcome {
            Outcome::Finished => &mut shared.counters.finished,
            Outcome::Aborted => &mut shared.counters.aborted,
            Outcome::Failed => &mut shared.counters.failed,
        };
        *count = count.saturating_add(1);
        let valid = if self.whole.is_some() { self.durable(shared.options) } else { self.valid };
        self.release_pages(id, shared);
        self.release_blocks(id, 0, shared);
        self.hashes.clear();
        self.stage = Stage::Ended;
        shared.say(Effect::Ended { request: id, outcome, valid: Tokens::new(valid) });
    }

    pub fn release_pages(&mut self, id: RequestId, shared: &mut Shared) {
        for held in self.pages.drain(..) {
            shared.release_page(id, held.page);
        }
    }

    /// Releases the blocks from a position on. The last goes first: of what is cached, a prompt's beginning is of use to
    /// the most, and should be evicted last.
    pub fn release_blocks(&mut self, id: RequestId, from: usize, shared: &mut Shared) {
        while self.blocks.len() > from {
            let Some(block) = self.blocks.pop() else { return };
            shared.blocks.release(block);
            shared.say(Effect::ReleaseBlock { request: id, block });
        }
    }

    /// How its end is called.
    pub const fn outcome(ending: Ending) -> Outcome {
        match ending {
            Ending::Finish => Outcome::Finished,
            Ending::Abort => Outcome::Aborted,
            Ending::Fail | Ending::Preempt => Outcome::Failed,
        }
    }
}
