//! Why a run ends early.

use pagelift::error::{BackendError, LifecycleError, MemoryError};
use thiserror::Error;

use crate::manifest::ManifestError;
use crate::reference::ReferenceError;
use crate::{Failure, exit, say};

/// Why a run ended early.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The manifest is wrong.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A step of the library failed.
    #[error(transparent)]
    Pagelift(#[from] pagelift::Error),
    /// A byte is wrong, or the run broke the reference's rules.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// The machine has too little memory.
    #[error(
        "this takes {} of memory, and {} are available; use a smaller manifest, or a smaller work",
        say::bytes(*needed), say::bytes(*available)
    )]
    TooLittleMemory {
        /// Bytes of pools, and of what is known of them.
        needed: u64,
        /// Bytes that the system has left.
        available: u64,
    },
    /// A pool has too few free blocks for the tokens that were asked for.
    #[error(
        "{tokens} more tokens need {needed} free blocks of pool `{pool}`, which has {free}; at most {most} tokens fit: \
         give it more blocks, or generate fewer tokens"
    )]
    PoolTooSmall {
        /// The pool.
        pool: String,
        /// Tokens to generate.
        tokens: u64,
        /// Blocks that they need at most.
        needed: u64,
        /// Blocks that no group has.
        free: u64,
        /// Tokens that all pools have room for.
        most: u64,
    },
    /// A launch was not done when it had returned, or met a bad entry.
    #[error("a launch of the {what} is {state} instead of done")]
    NotDone {
        /// Which plan.
        what: &'static str,
        /// The ticket's state.
        state: String,
    },
    /// A mirror met entries that make no sense.
    #[error("mirrors met {bad} bad entries of slot mappings")]
    BadEntries {
        /// How many.
        bad: u64,
    },
    /// A page was sealed that misses a row or a state: the bookkeeping is wrong.
    #[error("group `{group}`: {block} was sealed with {missing} missing")]
    SealedTooEarly {
        /// The group.
        group: String,
        /// The host block.
        block: String,
        /// What it misses.
        missing: &'static str,
    },
    /// The lifecycle refused an event that makes sense.
    #[error("the lifecycle refused the event {event}: {cause}")]
    Refused {
        /// The event, as JSON.
        event: String,
        /// Why.
        cause: LifecycleError,
    },
    /// A step did not have in it what was ordered.
    #[error("a step has {found} of {ordered} copies in it that were ordered; {why}")]
    Postponed {
        /// Lifts, states and pages that were ordered.
        ordered: usize,
        /// Those in the step.
        found: usize,
        /// Why, where that is known.
        why: String,
    },
    /// Nothing is on its way, and the request is not where it should be.
    #[error("nothing is on its way any more, and the request is not {expected}")]
    Stuck {
        /// What it should be.
        expected: &'static str,
    },
    /// A request has ended, and something of it is still held; or one came to another end.
    #[error("after the request had ended, {what}")]
    WrongEnd {
        /// What is wrong.
        what: String,
    },
    /// The blocks did not arrive. Nothing of them was shown to others, and nothing is held.
    #[error("the import has failed, and nothing of it is held or published: {why}")]
    NotImported {
        /// Why.
        why: String,
    },
    /// What was read is not what the producer has exported, or could not be.
    #[cfg(feature = "nixl")]
    #[error(transparent)]
    Transfer(Box<dyn std::error::Error + Send + Sync>),
    /// The log cannot be written.
    #[error("{file}: the log cannot be written: {cause}")]
    Log {
        /// The file.
        file: String,
        /// What the system said.
        cause: std::io::Error,
    },
}

impl From<pagelift::error::PlanError> for RestoreError {
    fn from(error: pagelift::error::PlanError) -> Self {
        Self::Pagelift(error.into())
    }
}

impl From<pagelift::error::GeometryError> for RestoreError {
    fn from(error: pagelift::error::GeometryError) -> Self {
        Self::Pagelift(error.into())
    }
}

impl From<RestoreError> for Failure {
    fn from(error: RestoreError) -> Self {
        use pagelift::Error;
        let code = match &error {
            RestoreError::Manifest(_) | RestoreError::PoolTooSmall { .. } | RestoreError::Log { .. } => {
                exit::USAGE
            }
            RestoreError::TooLittleMemory { .. }
            | RestoreError::Pagelift(
                Error::Memory(MemoryError::OutOfMemory { .. })
                | Error::Backend(
                    BackendError::NoDriver { .. }
                    | BackendError::NoDevice { .. }
                    | BackendError::Device { .. }
                    | BackendError::Module { .. }
                    | BackendError::Threads { .. },
                ),
            ) => exit::UNABLE,
            RestoreError::Pagelift(Error::Layout(_) | Error::Span(_) | Error::Geometry(_)) => exit::USAGE,
            _ => exit::FAILED,
        };
        Self { message: error.to_string(), code }
    }
}
