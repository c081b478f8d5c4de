//! What can go wrong with a gather.

use thiserror::Error;

use crate::restore::RestoreError;
use crate::{Failure, exit, text};

/// Why a run ended early.
#[derive(Debug, Error)]
pub enum GatherError {
    /// The pools could not be made, a step of the library failed, or a byte of a pool is wrong.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// The manifest has no such group.
    #[error("there is no group `{}`: expected {}", text::shortened(name), text::choice(known.iter().map(String::as_str)))]
    UnknownGroup { name: String, known: Vec<String> },
    /// The group cannot be gathered in that way.
    #[error("group `{group}`: {what}")]
    Impossible { group: String, what: String },
    /// No group can be gathered in that way.
    #[error(
        "no group of this manifest has blocks in both memories, or rows where they are to come from: try the other --from"
    )]
    Nothing,
    /// A pool is too small to gather anything.
    #[error(
        "group `{group}`: its share of a pool is less than one block on either side: give the pool more blocks, or gather \
         fewer groups by --group"
    )]
    TooSmall { group: String },
    /// The library and the manifest name a segment differently: nothing says what its rows must be.
    #[error("group `{group}`: the manifest's layout has no segment `{segment}`, which the library's has")]
    Segment { group: String, segment: String },
    /// A row is not what was gathered, or something else was written.
    #[error(
        "group `{group}`: byte {byte} of the compact buffer is {found:#04x}, and must be {expected:#04x} ({width} indices)"
    )]
    Differs { group: String, width: &'static str, byte: usize, found: u8, expected: u8 },
    /// The launch counted otherwise.
    #[error("the launch reports {found}, and must report {expected}")]
    Counted { found: String, expected: String },
}

impl From<pagelift::Error> for GatherError {
    fn from(error: pagelift::Error) -> Self {
        Self::Restore(error.into())
    }
}

impl From<pagelift::error::PlanError> for GatherError {
    fn from(error: pagelift::error::PlanError) -> Self {
        Self::Restore(error.into())
    }
}

impl From<crate::reference::ReferenceError> for GatherError {
    fn from(error: crate::reference::ReferenceError) -> Self {
        Self::Restore(error.into())
    }
}

impl From<GatherError> for Failure {
    fn from(error: GatherError) -> Self {
        let code = match error {
            GatherError::Restore(error) => return error.into(),
            GatherError::UnknownGroup { .. }
            | GatherError::Impossible { .. }
            | GatherError::Nothing
            | GatherError::TooSmall { .. } => exit::USAGE,
            GatherError::Segment { .. } | GatherError::Differs { .. } | GatherError::Counted { .. } => {
                exit::FAILED
            }
        };
        Self { message: error.to_string(), code }
    }
}
