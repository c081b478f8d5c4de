//! What ends a conversation over the control channel, at the channel itself or at either end.

use std::fmt::Display;
use std::time::Duration;

use thiserror::Error;

use super::{LeaseError, OfferError, PairError};

/// A control channel that cannot be used, or not any more.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ControlError {
    /// A secret that can be guessed.
    #[error("the secret has {bytes} bytes; at least {least}, drawn at random")]
    Secret {
        /// Its size.
        bytes: usize,
        /// The least size.
        least: usize,
    },
    /// Somebody else is at the other end.
    #[error("the other side does not greet as pagelift's control channel does")]
    NoGreeting,
    /// Another release.
    #[error(
        "the control channel is of version {ours} here and {theirs} there; use one release on both sides"
    )]
    Version {
        /// This side's.
        ours: u32,
        /// The other side's.
        theirs: u32,
    },
    /// Two producers, or two consumers, or a side that hears itself.
    #[error("both sides have the same role; one must be the producer and one the consumer")]
    SameRole,
    /// Frames have a limit.
    #[error("a message has {bytes} bytes; at most {most}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// Not by who knows the secret, or not in its turn.
    #[error("a frame does not carry the hash that it must; do both sides have the same secret?")]
    Forged,
    /// By who knows the secret, and yet no message.
    #[error("a frame holds no message: {reason}")]
    Malformed {
        /// Why.
        reason: String,
    },
    /// The first frame of each side, and no other, is a hello.
    #[error(
        "the other side's first frame must be a hello, and no other may be; use one release on both sides"
    )]
    Hello,
    /// The other side does not read.
    #[error("{bytes} bytes wait for the other side to take them; at most {most}")]
    NotTaken {
        /// How many.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// An error came before; what comes after it means nothing.
    #[error("the channel has failed before; open another")]
    Dead,
    /// The other side is gone.
    #[error("the other side has closed the channel")]
    Ended,
    /// The stream failed.
    #[error("the control channel's stream failed: {reason}")]
    Stream {
        /// What kind of failure.
        kind: std::io::ErrorKind,
        /// The system's words.
        reason: String,
    },
}

impl From<std::io::Error> for ControlError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::UnexpectedEof => Self::Ended,
            kind => Self::Stream { kind, reason: error.to_string() },
        }
    }
}

/// What ends a connection of P's end, or all of it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProducerError {
    /// The conversation has failed.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// D's offer does not fit together.
    #[error(transparent)]
    Offer(OfferError),
    /// D means something else by a block, or is of another rank.
    #[error(transparent)]
    Pair(#[from] PairError),
    /// A message that makes no sense now.
    #[error("a message `{message}` came that makes no sense now")]
    Unexpected {
        /// Its name.
        message: &'static str,
    },
    /// Nobody is there any more.
    #[error("nothing was heard for {silent:.1?}")]
    Silent {
        /// For how long.
        silent: Duration,
    },
    /// A connection asks for too much at one time.
    #[error("more than {most} requests wait for an answer")]
    TooManyAsked {
        /// The limit.
        most: usize,
    },
    /// Nothing can be held.
    #[error(transparent)]
    Lease(LeaseError),
    /// The transport is broken.
    #[error("the transport: {reason}")]
    Transfer {
        /// Its words.
        reason: String,
    },
}

/// What ends D's connection, or keeps an import from being begun.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConsumerError {
    /// The conversation has failed.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// P's offer does not fit together.
    #[error(transparent)]
    Offer(#[from] OfferError),
    /// P means something else by a block, or cannot be read from.
    #[error(transparent)]
    Pair(#[from] PairError),
    /// A message that makes no sense now.
    #[error("a message `{message}` came that makes no sense now")]
    Unexpected {
        /// Its name.
        message: &'static str,
    },
    /// P does not say what it has.
    #[error(
        "no producer has sent its offer for {waited:.1?}; is one there, of the same release, and does it go on?"
    )]
    NoOffer {
        /// For how long.
        waited: Duration,
    },
    /// One import of a request at a time.
    #[error("an import of request {request} is in flight")]
    Twice {
        /// The request.
        request: u64,
    },
    /// This side has said that it is done.
    #[error("this side has closed the connection")]
    Closed,
    /// The transport has failed.
    #[error("the transport: {reason}")]
    Transfer {
        /// Its words.
        reason: String,
    },
}

impl ProducerError {
    pub(crate) fn transfer(error: impl Display) -> Self {
        Self::Transfer { reason: error.to_string() }
    }
}

impl ConsumerError {
    pub(crate) fn transfer(error: impl Display) -> Self {
        Self::Transfer { reason: error.to_string() }
    }
}
