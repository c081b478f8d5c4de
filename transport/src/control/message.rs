//! What is said over a control channel.

use std::time::Duration;

use pagelift_planner::quantity::Tokens;
use serde::{Deserialize, Serialize};

use crate::lease::Terms;
use crate::notice::{ExportId, Notice};
use crate::offer::Offer;
use crate::plan::BlockTables;

/// A message. Who sends it is said of each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Message {
    /// Both, before anything else: the keyed hash of this frame shows that a side knows the secret. ([`Link`](super::Link) says
    /// and hears it by itself.)
    Hello,
    /// Both, then: what its blocks are, and what the transport needs to reach them.
    Offer {
        /// What its blocks mean, and where they lie.
        offer: Box<Offer>,
        /// The transport's own description of this process: P's, for nobody reads from D.
        metadata: Vec<u8>,
    },
    /// D: export the caches of this request, when they are computed.
    Ask {
        /// The request, as D's engine numbers it.
        request: u64,
        /// Tokens that D imports.
        imported: Tokens,
        /// When, by D's clock: it comes back as it is, so that no late answer is taken for that to a later question.
        sent: Duration,
    },
    /// P: they are exported, and held from now on.
    Granted {
        /// The request.
        request: u64,
        /// As it came.
        sent: Duration,
        /// The export.
        export: ExportId,
        /// For how long it is held.
        terms: Terms,
        /// Its blocks.
        blocks: BlockTables,
    },
    /// P: there is nothing to export, or no room to hold it.
    Refused {
        /// The request.
        request: u64,
        /// As it came.
        sent: Duration,
        /// Why, for a person.
        reason: String,
    },
    /// D: reads of this export are in flight.
    Heartbeat {
        /// The export.
        export: ExportId,
        /// The rank that reads.
        rank: u32,
        /// When, by D's clock: it comes back as it is.
        sent: Duration,
    },
    /// P: it is held for as long again.
    Held {
        /// The export.
        export: ExportId,
        /// The rank.
        rank: u32,
        /// As it came.
        sent: Duration,
    },
    /// P: it is not held.
    NotHeld {
        /// The export.
        export: ExportId,
        /// The rank.
        rank: u32,
    },
    /// D: a rank reads an export no more. (Over the transport, where that carries notices.)
    Notice(Notice),
    /// D, now and then until it is answered: it waits still for what it has asked for. P's answer comes with the latest of
    /// these moments, so that D counts the lease from then, however long P computes.
    Waiting {
        /// The request.
        request: u64,
        /// When, by D's clock.
        sent: Duration,
    },
    /// D, where it has nothing else to say for a while: it is there.
    Here,
    /// D, last: nothing more will be said. P ends a conversation by closing the connection.
    Bye,
}

impl Message {
    /// What it is called on the channel.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Hello => "hello",
            Self::Offer { .. } => "offer",
            Self::Ask { .. } => "ask",
            Self::Granted { .. } => "granted",
            Self::Refused { .. } => "refused",
            Self::Heartbeat { .. } => "heartbeat",
            Self::Held { .. } => "held",
            Self::NotHeld { .. } => "not-held",
            Self::Notice(_) => "notice",
            Self::Waiting { .. } => "waiting",
            Self::Here => "here",
            Self::Bye => "bye",
        }
    }
}
