//! What a consumer tells its engine, and the lifecycle's words for it.

use std::sync::Arc;

use pagelift_planner::lifecycle::{Event, Rank, Ranks, Read, RequestId};
use pagelift_planner::quantity::Tokens;
use thiserror::Error;

use crate::error::{ConsumerError, ReadPlanError};
use crate::notice::ExportId;
use crate::plan::BlockTables;
use crate::receive::Ending;

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConsumerEvent<K> {
    /// P's offer is here, and of the same schema.
    Paired,
    /// P has granted an import, and all of its reads have been begun.
    Begun {
        /// The import.
        id: K,
        /// What P holds for it.
        export: ExportId,
        /// Reads.
        reads: usize,
        /// Their bytes.
        bytes: u64,
        /// Bytes that no block of P has, and that are zeros now.
        zeroed: u64,
        /// P's blocks at the positions that were wanted, with their digests where P has sent them.
        exported: BlockTables,
    },
    /// An import is over, and nothing writes its blocks. Once for each.
    Ended {
        /// The import.
        id: K,
        /// How it ended.
        end: End,
    },
    /// Reads of an import were told to stop long ago, and have not ended: no transport can be made to say when. Once. The engine
    /// waits on, or ends the transport: memory that nobody can reach any more is written by nobody.
    Stuck {
        /// The import.
        id: K,
    },
    /// The connection is over. Nothing more can be begun.
    Lost {
        /// Why.
        why: ConsumerError,
    },
}

/// How an import ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// All bytes are here. `awaited` says whether somebody waited for them.
    Landed {
        /// Whether the engine waits to hear it.
        awaited: bool,
        /// Whether there were blocks to fill.
        filled: bool,
    },
    /// Some bytes are not; nothing of it is to be published.
    Failed {
        /// Why.
        why: Failure,
        /// Of each group that was wanted, so many tokens from the prompt's first on need not be computed or read again.
        valid: Vec<(Arc<str>, Tokens)>,
    },
}

/// Why an import failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Failure {
    /// A read did.
    #[error("{}{}", words(*why), reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default())]
    Reads {
        /// Why.
        why: Ending,
        /// What the transport or the engine's memory said, where it said something.
        reason: Option<String>,
    },
    /// P does not export it.
    #[error("the producer refuses: {reason}")]
    Refused {
        /// P's words.
        reason: String,
    },
    /// P has not answered in time.
    #[error("the producer has not answered in time")]
    NoAnswer,
    /// The client does not want it any more, and nothing had been read.
    #[error("the client does not want it any more")]
    Cancelled,
    /// What P exports is not what this side wants.
    #[error(transparent)]
    Plan(#[from] ReadPlanError),
    /// P would free what it exports before a heartbeat can come.
    #[error("the producer's leases are too short for its heartbeats")]
    Terms,
    /// Rows that P does not have could not be zeroed.
    #[error("rows that the producer does not have could not be zeroed: {reason}")]
    Zero {
        /// What the engine's memory said.
        reason: String,
    },
    /// The connection is over, and nothing had been read.
    #[error("the connection to the producer is over: {0}")]
    Lost(Box<ConsumerError>),
}

const fn words(why: Ending) -> &'static str {
    match why {
        Ending::ReadFailed => "a read failed",
        Ending::TimedOut => "reads took longer than they may",
        Ending::LeaseLost => "the producer does not hold the blocks any more",
        Ending::Cancelled => "the client does not want it any more",
    }
}

/// What a lifecycle is told when an import was begun that it asked for by `Effect::Read`: one read for each of these ranks, or
/// none where they want nothing.
///
/// ```
/// use pagelift_transport::consumer::posted;
/// use pagelift_transport::plan::BlockTables;
/// # use pagelift_planner::lifecycle::*;
/// # let request: RequestId = serde_json::from_str(r#"{"slot":0,"generation":1}"#)?;
/// let event = posted(request, Ranks::first(2), &BlockTables::new());
/// assert_eq!(event, Event::Posted { request, ranks: Ranks::first(2), each: 0 });
/// # Ok::<(), serde_json::Error>(())
/// ```
#[must_use]
pub fn posted(request: RequestId, ranks: Ranks, wanted: &BlockTables) -> Event<'static> {
    Event::Posted { request, ranks, each: fills(wanted).into() }
}

/// Whether there is any block to fill.
pub(super) fn fills(wanted: &BlockTables) -> bool {
    wanted.iter().any(|(_, table)| table.iter().next().is_some())
}

impl ConsumerEvent<RequestId> {
    /// What a lifecycle is told of it, by that rank: the end of what [`posted`] has announced. Nothing of an import that wanted
    /// nothing.
    #[must_use]
    pub fn of_lifecycle(&self, rank: Rank) -> Option<Event<'static>> {
        let Self::Ended { id: request, end } = self else { return None };
        let read = match end {
            End::Landed { filled: false, .. } => return None,
            End::Landed { filled: true, .. } => Read::Landed,
            // Nothing was announced.
            End::Failed { valid, .. } if valid.is_empty() => return None,
            End::Failed { valid, .. } => Read::Failed { valid: least(valid) },
        };
        Some(Event::Read { request: *request, rank, part: 0, read })
    }
}

/// The tokens that are valid in all groups.
fn least(valid: &[(Arc<str>, Tokens)]) -> Tokens {
    valid.iter().map(|(_, tokens)| *tokens).min().unwrap_or(Tokens::ZERO)
}
