//! Options that no lifecycle has.

use thiserror::Error;

use crate::lifecycle::{Rank, Ranks};

/// Options that cannot be a lifecycle's, or not one's with this rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// A number that cannot be.
    #[error("{what} is {found}; expected {least} to {most}")]
    Number {
        /// Which option.
        what: &'static str,
        /// What it was.
        found: u64,
        /// The least it may be.
        least: u64,
        /// The most it may be.
        most: u64,
    },
    /// Nobody writes host blocks, or ranks do that the engine does not have.
    #[error("the writers are {writers}; expected one or more of the ranks 0 to {}", .ranks.saturating_sub(1))]
    Writers {
        /// The writers.
        writers: Ranks,
        /// How many ranks there are.
        ranks: u8,
    },
    /// A rank that the engine does not have.
    #[error("{rank} is none of the lifecycle's; expected one of the ranks 0 to {}", .ranks.saturating_sub(1))]
    Rank {
        /// The rank.
        rank: Rank,
        /// How many there are.
        ranks: u8,
    },
}
