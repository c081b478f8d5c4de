//! What can go wrong between this process, the library, and a peer.

use std::fmt;

use thiserror::Error;

use crate::region::MemoryRange;

/// An error of NIXL, or of its absence.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NixlError {
    /// The library is not there.
    #[error(
        "NIXL's library cannot be opened: {reason}. `pip install nixl-cu12` brings it; set PAGELIFT_NIXL to its \
         libnixl_capi.so (in a checkout, `cargo xtask nixl` does both)"
    )]
    NoLibrary {
        /// What the system says.
        reason: String,
    },
    /// The library is older than the bindings, or newer and another one.
    #[error("NIXL's library lacks {} of the calls that are needed, such as `{}`; use release 1.5.1 or later", lacking.len(), first(lacking))]
    TooOld {
        /// The calls; never empty.
        lacking: Vec<&'static str>,
    },
    /// The library has no plugin of that name.
    #[error("NIXL has no plugin `{name}`; it has {}", there.join(", "))]
    NoPlugin {
        /// The name.
        name: String,
        /// Those that it has.
        there: Vec<String>,
    },
    /// A call failed. NIXL says little of why; its log says more (`NIXL_LOG_LEVEL=DEBUG`).
    #[error("NIXL could not {what}: {reason}")]
    Call {
        /// What was to be done.
        what: &'static str,
        /// NIXL's reason.
        reason: String,
    },
    /// Registered memory shares bytes with memory that is registered already.
    #[error("memory of {range} shares bytes with memory that is registered; register each range once")]
    RegisteredTwice {
        /// The range.
        range: MemoryRange,
    },
    /// A range that this process cannot have.
    #[error("memory of {range} is empty, or does not fit this process's addresses")]
    Range {
        /// The range.
        range: MemoryRange,
    },
    /// The peer is not known, or not any more.
    #[error("there is no peer `{name}`")]
    NoPeer {
        /// Its name.
        name: String,
    },
    /// A read that is not of this peer.
    #[error("the read is of list {list}, and the peer has {lists}")]
    NoList {
        /// Which.
        list: usize,
        /// Lists.
        lists: usize,
    },
}

impl NixlError {
    pub(super) fn call(what: &'static str) -> impl Fn(nixl_sys::NixlError) -> Self {
        move |error| Self::Call { what, reason: error.to_string() }
    }
}

fn first<'a>(names: &[&'a str]) -> impl fmt::Display + 'a {
    names.first().copied().unwrap_or_default()
}
