//! Events that a lifecycle does not take.

use std::fmt;

use thiserror::Error;

use super::{OptionsError, PlanError, SpanError};
use crate::lifecycle::{Answer, Rank, RequestId, Stage};

/// What an engine may run out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Resource {
    /// Places for requests. A preempted request keeps its own.
    Requests,
    /// Host blocks. A preempted request keeps its own.
    HostBlocks,
    /// Pages. A preempted request has none.
    Pages,
}

impl Resource {
    const fn remedy(self) -> &'static str {
        match self {
            Self::Requests | Self::HostBlocks => "wait until requests have ended",
            Self::Pages => "wait until some are released, or preempt a request",
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Requests => "requests",
            Self::HostBlocks => "host blocks",
            Self::Pages => "pages",
        })
    }
}

/// An event that a lifecycle does not take. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LifecycleError {
    /// Options that cannot be.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// There is no memory for all that.
    #[error(transparent)]
    Memory(#[from] PlanError),
    /// A request that has ended, or that was never admitted here.
    #[error("{request} is not known: it has ended, or was admitted elsewhere")]
    UnknownRequest {
        /// The request.
        request: RequestId,
    },
    /// A rank that the engine does not have.
    #[error("{rank} is not known: the engine has ranks 0 to {}", .ranks.saturating_sub(1))]
    UnknownRank {
        /// The rank.
        rank: Rank,
        /// How many there are.
        ranks: u8,
    },
    /// A read that was not posted.
    #[error("{request} has no read {part} of {rank}: what ends is one of the reads that were posted")]
    UnknownRead {
        /// The request.
        request: RequestId,
        /// Who is said to read.
        rank: Rank,
        /// Which of the rank's reads.
        part: u8,
    },
    /// A round, step, checkpoint or page that there was not yet.
    #[error("{request} has no {what} {number} yet: it is at {latest}")]
    NotYet {
        /// The request.
        request: RequestId,
        /// What.
        what: &'static str,
        /// Its number.
        number: u32,
        /// The latest.
        latest: u32,
    },
    /// Steps that are accepted in another order than they were begun in, twice, or before they were begun.
    #[error("{request} cannot accept step {step}: {next} is the next to accept, and {begun} were begun")]
    OutOfOrder {
        /// The request.
        request: RequestId,
        /// The step.
        step: u32,
        /// The step that is accepted next.
        next: u32,
        /// Steps begun.
        begun: u32,
    },
    /// A rank answers the same question in two ways.
    #[error(
        "{rank} says `{answer:?}` of round {round} of {request}, and was not asked or has said something else"
    )]
    Contradiction {
        /// The request.
        request: RequestId,
        /// The round.
        round: u32,
        /// The rank.
        rank: Rank,
        /// What it says now.
        answer: Answer,
    },
    /// Something that a request cannot do where it is.
    #[error("{request} is {stage}: it cannot {what}")]
    WrongStage {
        /// The request.
        request: RequestId,
        /// Where it is.
        stage: Stage,
        /// What it was asked for.
        what: &'static str,
    },
    /// Too little of something is free.
    #[error("too few {of} are free: {needed} needed, {free} free; {}", .of.remedy())]
    NoRoom {
        /// Of what.
        of: Resource,
        /// How many are needed.
        needed: u64,
        /// How many are free.
        free: u64,
    },
    /// More of something than the engine has, or has for one request, whatever is free.
    #[error("a request needs {needed} {of}, and can have {most} at most: it will never fit")]
    TooLarge {
        /// Of what.
        of: Resource,
        /// How many are needed at one time.
        needed: u64,
        /// How many there are.
        most: u64,
    },
    /// The host is as far ahead of the ranks as it may be.
    #[error(
        "{request} is {ahead} steps ahead of what is accepted and of its slowest rank; expected fewer than {most}: wait for \
         the ranks"
    )]
    TooFarAhead {
        /// The request.
        request: RequestId,
        /// Steps that were begun, and are not accepted or not finished by all ranks.
        ahead: u32,
        /// How many there may be: [`LifecycleOptions::MOST_AHEAD`](crate::lifecycle::LifecycleOptions::MOST_AHEAD).
        most: u32,
    },
    /// A model's state is written at each page's end before anything is computed after it, and whether the open steps
    /// get there is not known.
    #[error(
        "{request} has {open} open steps, which may end a page, and its state is written there first: accept them first"
    )]
    StatePending {
        /// The request.
        request: RequestId,
        /// Steps that were begun and not accepted.
        open: u32,
    },
    /// How far a request is, is not known.
    #[error("{request} has {open} open steps, and is preempted where it stands: accept them first")]
    StepsOpen {
        /// The request.
        request: RequestId,
        /// Steps that were begun and not accepted.
        open: u32,
    },
    /// Ranks are lost.
    #[error("{lost} of the ranks are lost: nothing can be lifted until they have joined again")]
    RanksLost {
        /// How many.
        lost: u32,
    },
    /// A number that does not fit.
    #[error("{what} is {found}; expected {least} to {most}")]
    Range {
        /// Which number.
        what: &'static str,
        /// What it was.
        found: u64,
        /// The least it may be.
        least: u64,
        /// The most it may be.
        most: u64,
    },
    /// Tokens that a prompt or a block cannot have.
    #[error(transparent)]
    Span(#[from] SpanError),
}

impl LifecycleError {
    /// Whether the same event may be taken later, once others have come: a scheduler keeps what it wanted, and asks again.
    /// All other errors are mistakes, or wishes that cannot be met.
    ///
    /// ```
    /// use pagelift_planner::error::{LifecycleError, Resource};
    /// let error = LifecycleError::NoRoom { of: Resource::Pages, needed: 1, free: 0 };
    /// assert!(error.is_transient(), "some other request will end, or can be preempted");
    /// let error = LifecycleError::TooLarge { of: Resource::HostBlocks, needed: 65, most: 64 };
    /// assert!(!error.is_transient());
    /// ```
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::NoRoom { .. }
                | Self::TooFarAhead { .. }
                | Self::StatePending { .. }
                | Self::StepsOpen { .. }
                | Self::RanksLost { .. }
        )
    }
}
