//! Reads over NIXL, NVIDIA's library for transfers between engines.
//!
//! The library is opened at run time: without it, or with one that is too old, [`Library::open`] is an error that says
//! what to do, and nothing else here can be reached. One [`Agent`] a process registers memory, each range once, prepares
//! the lists of each peer once, and then reads by numbers.
//!
//! Memory that is registered with CUDA too is registered there first, and released there last: NIXL's plugins ask CUDA
//! whose memory it is.

mod agent;
mod calls;
mod error;
mod library;
mod memory;
mod peer;
mod transfer;

pub use agent::{Agent, AgentOptions, UCX_PARAMETERS};
pub use error::NixlError;
pub use library::{Library, VARIABLE};
pub use peer::{Prepared, Reading};
