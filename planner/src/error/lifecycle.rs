//! Events that a lifecycle does not take.

use thiserror::Error;

use super::{PlanError, SpanError};
use crate::lifecycle::{Answer, Rank, RequestId};

/// An event that a lifecycle does not take. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LifecycleError {
    /// Options that cannot be.
    #[error("{what} is {found}; expected {expected}")]
    Options {
        /// Which option.
        what: &'static str,
        /// What it was.
        found: u64,
        /// What it may be.
        expected: &'static str,
    },
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
    #[error("{rank} is none of the {ranks} ranks")]
    UnknownRank {
        /// The rank.
        rank: Rank,
        /// How many there are.
        ranks: u8,
    },
    /// A round, step, read or page that there was not yet.
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
    /// Something that a request cannot do at this time.
    #[error("{request} is {stage}: it cannot {what}")]
    WrongStage {
        /// The request.
        request: RequestId,
        /// Where it is.
        stage: &'static str,
        /// What it was asked for.
        what: &'static str,
    },
    /// Too little of something is free.
    #[error("{needed} {what} are needed, and {free} are free; wait, or preempt a request")]
    NoRoom {
        /// What.
        what: &'static str,
        /// How many are needed.
        needed: u64,
        /// How many are free.
        free: u64,
    },
    /// A rank is lost.
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
