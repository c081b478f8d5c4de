//! Why a hand-off ends early.

use std::net::SocketAddr;
use std::time::Duration;

use pagelift_transport::error::{
    ConsumerError, ControlError, LeaseError, OfferError, ProducerError, WantedError,
};
use pagelift_transport::nixl::NixlError;
use thiserror::Error;

use crate::reference::ReferenceError;
use crate::restore::RestoreError;
use crate::{Failure, exit};

/// Why a hand-off ended early.
#[derive(Debug, Error)]
pub enum HandoffError {
    /// What `restore` says of it.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// NIXL is not there, or refuses.
    #[error(transparent)]
    Nixl(#[from] NixlError),
    /// The offer cannot be made.
    #[error(transparent)]
    Offer(#[from] OfferError),
    /// The connection.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// P's address is another's, or none of this machine's.
    #[error("cannot listen at {address}: {why}; --listen says where")]
    Listen { address: SocketAddr, why: ControlError },
    /// P's end.
    #[error(transparent)]
    Producer(#[from] ProducerError),
    /// D's end.
    #[error(transparent)]
    Consumer(#[from] ConsumerError),
    /// Terms that cannot be.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// Options that cannot be.
    #[error("{0}")]
    Usage(String),
    /// P's arrangement is none: this program is wrong.
    #[error("the producer's arrangement of this manifest is refused: {0}")]
    Arrangement(String),
    /// The lifecycle's numbers stand for nothing.
    #[error(transparent)]
    Wanted(#[from] WantedError),
    /// Each rank reads each request once.
    #[error("request {request} was read {reads} times by {ranks} ranks, and not once by each")]
    Miscounted { request: String, reads: u32, ranks: u32 },
    /// Nobody was there in time.
    #[error("{0}")]
    Late(String),
    /// Exports that were not read to their end.
    #[error("{failed} of {all} exports were not read: {why}")]
    NotRead { failed: u64, all: u64, why: String },
    /// Both sides have worked out a number for the rows of a block.
    #[error(
        "group `{group}`: the digest of the block at position {position} is {found:#018x} here, and the producer's is \
         {expected:#018x}"
    )]
    DigestDiffers { group: String, position: u32, found: u64, expected: u64 },
    /// What came is what P has, by all digests, and not what this side would have computed.
    #[error("{why}; the producer says the same of its bytes: is its --seed {seed} too?")]
    OtherSeed { why: ReferenceError, seed: u64 },
    /// P has sent no number for a block.
    #[error("group `{group}`: the producer has sent no digest of the block at position {position}")]
    NoDigest { group: String, position: u32 },
    /// One of several processes, with the code that it has ended with.
    #[error("rank {rank}: {why}")]
    Rank { rank: u32, why: String, code: u8 },
    /// Reads were told to stop long ago, and NIXL has no call that ends one and says when it has.
    #[error(
        "reads have not ended {} s after they were to stop: the producer hangs or cannot be reached any more; its blocks and \
         these are given up",
        waited.as_secs()
    )]
    Stuck { waited: Duration },
}

impl From<pagelift::Error> for HandoffError {
    fn from(error: pagelift::Error) -> Self {
        Self::Restore(error.into())
    }
}

impl From<HandoffError> for RestoreError {
    fn from(error: HandoffError) -> Self {
        match error {
            HandoffError::Restore(error) => error,
            other => Self::Transfer(Box::new(other)),
        }
    }
}

impl From<HandoffError> for Failure {
    fn from(error: HandoffError) -> Self {
        let code = match error {
            HandoffError::Restore(error) => return error.into(),
            HandoffError::Nixl(
                NixlError::NoLibrary { .. } | NixlError::TooOld { .. } | NixlError::NoPlugin { .. },
            ) => exit::UNABLE,
            HandoffError::Usage(_) | HandoffError::Lease(_) => exit::USAGE,
            HandoffError::Rank { code, .. } => code,
            _ => exit::FAILED,
        };
        Self { message: error.to_string(), code }
    }
}
