//! Random cases for tests, fuzzing and soaks of pagelift, and naive models that say what must come of them.
//!
//! Choices come from a [`Draw`](draw::Draw): from a seed, for property tests and soaks, or from the bytes of a fuzzer. Models
//! are written the long way, row by row, and share nothing with the planner; tables are read by their documentation alone.
//!
//! | module | what is in it |
//! |---|---|
//! | [`draw`] | choices |
//! | [`shape`], [`world`] | geometries of all kinds of group, and the address formula; `build` makes one of the other |
//! | [`ids`] | which blocks a call names |
//! | [`effect`] | what a call does, and whether it may |
//! | [`lift`], [`mod@pages`] | imports, gathers, zeros, spills, checkpoints: calls to page plans |
//! | [`reserved`] | reserved imports beside a plan made from their lists |
//! | [`rows`], [`map`] | page maps and bindings: calls to row plans |
//! | [`digests`] | calls to digest plans |
//! | [`decode`] | tables, byte by byte |
//! | [`plans`] | a whole case of planning |
//! | `memory`, `arrays`, `tables` | cases in real memory, run by backends; with the feature `memory` |
//! | `manifests` | texts that may be manifests; with the feature of that name |
//! | `control` | conversations of two engines, with bytes and messages that are wrong; with the feature of that name |
//! | `json` | documents with something changed, for both |
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a case says what it expects by panicking"
)]

#[cfg(feature = "memory")]
pub mod arrays;
mod build;
#[cfg(feature = "control")]
pub mod control;
pub mod decode;
pub mod digests;
pub mod draw;
pub mod effect;
pub mod ids;
#[cfg(any(feature = "control", feature = "manifests"))]
mod json;
pub mod lift;
#[cfg(feature = "manifests")]
pub mod manifests;
pub mod map;
#[cfg(feature = "memory")]
pub mod memory;
pub mod pages;
pub mod plans;
pub mod reserved;
pub mod rows;
pub mod shape;
#[cfg(feature = "memory")]
pub mod tables;
pub mod world;

use pagelift_planner::id::Ticket;
use pagelift_planner::plan::{Plan, Staging};

pub use world::{hosts, pages};

/// What tables of the cases are staged with.
pub const STAGING: Staging =
    Staging { ticket: Ticket::new(1, 0x0102_0304_0506), completion: 0xC0DE_0000, repeat: false };

/// The table that staging the plan would upload.
pub fn encoded<P: Plan>(plan: &P) -> Vec<u8> {
    let mut table = vec![0xEE; plan.table_bytes()];
    let used = plan.encode(STAGING, &mut table).expect("a table of `table_bytes` has room");
    assert_eq!(table[used..], vec![0xEE; table.len() - used], "bytes past the used ones were written");
    table.truncate(used);
    table
}

/// Bytes that the plan copies.
pub fn bytes<P: Plan>(plan: &P) -> u64 {
    plan.bytes().expect("the host knows the bytes of a page plan").get()
}
