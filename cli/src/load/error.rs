//! Why a load ends early.

use pagelift_transport::consumer::Failure as Failed;
use pagelift_transport::error::{
    ConsumerError, ControlError, LeaseError, OfferError, PairError, ProducerError, ReadPlanError,
};
use pagelift_transport::nixl::NixlError;
use thiserror::Error;

use super::family;
use crate::restore::RestoreError;
use crate::{Failure, exit};

/// Why a load ended early.
#[derive(Debug, Error)]
pub enum LoadError {
    #[error(transparent)]
    Pagelift(#[from] pagelift::Error),
    #[error(transparent)]
    Nixl(#[from] NixlError),
    #[error(transparent)]
    Offer(#[from] OfferError),
    #[error(transparent)]
    Pair(#[from] PairError),
    #[error(transparent)]
    Plan(#[from] ReadPlanError),
    #[error(transparent)]
    Control(#[from] ControlError),
    #[error(transparent)]
    Producer(#[from] ProducerError),
    #[error(transparent)]
    Consumer(#[from] ConsumerError),
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// What the system says.
    #[error("{what}: {error}")]
    System { what: &'static str, error: std::io::Error },
    /// No caches have this name.
    #[error("there are no caches `{0}`; expected {known}", known = family::names())]
    Family(String),
    /// The other process, with the code that it has ended with, if it has.
    #[error("the producer {why}")]
    Child { why: String, code: Option<u8> },
    /// A range that no pool has.
    #[error("no pool has the {bytes} bytes at {address:#x}")]
    Nowhere { address: u64, bytes: u64 },
    /// An import that nobody has cancelled.
    #[error("import {request} has failed: {why}")]
    Failed { request: u64, why: Failed },
    /// A read of the transport's.
    #[error("the large read has failed: {0}")]
    Read(String),
    /// Bytes that are not the producer's.
    #[error(
        "import {request}: layer {layer} of block {block} is not what the producer has in its block {theirs}"
    )]
    WrongByte { request: u64, layer: u32, block: u32, theirs: u32 },
    /// What is left at the end.
    #[error("at the end {0}")]
    Left(String),
    /// Too slow to say anything.
    #[error("{0}")]
    Late(&'static str),
}

impl LoadError {
    pub fn system(what: &'static str) -> impl Fn(std::io::Error) -> Self {
        move |error| Self::System { what, error }
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        let code = match error {
            LoadError::Pagelift(error) => return RestoreError::from(error).into(),
            LoadError::Child { code: Some(code), .. } => code,
            LoadError::Nixl(
                NixlError::NoLibrary { .. } | NixlError::TooOld { .. } | NixlError::NoPlugin { .. },
            ) => exit::UNABLE,
            LoadError::Family(_) => exit::USAGE,
            _ => exit::FAILED,
        };
        Self { message: error.to_string(), code }
    }
}
