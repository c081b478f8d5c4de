//! The planner of pagelift: it turns block lists into a few fused launches.
//!
//! Pure logic: no `unsafe`, no GPU, no input or output. The way of the data is the order of the modules:
//!
//! | module | question it answers |
//! |---|---|
//! | [`layout`] | what lies inside one page or block |
//! | [`geometry`] | where blocks of each group lie, on both sides |
//! | [`import`] | which blocks of a prompt arrive, and which page is written next |
//! | [`plan`] | what one launch copies, checked and encoded into the tables of `pagelift-abi` |
//! | [`lifecycle`] | when a page may be shown to others, and when its memory may be used again |
//!
//! All of them share [`id`]s, [`quantity`]s and [`error`]s.
//!
//! # Example
//! A prompt of 32,019 tokens in blocks of 128 leaves 19 rows in its last block:
//! ```
//! use pagelift_planner::{import::{PromptSpan, Recurrence}, quantity::Tokens};
//! let span = PromptSpan::new(Tokens::new(32_019), Recurrence::None)?;
//! let blocks = span.in_blocks_of(Tokens::new(128))?;
//! assert_eq!((blocks.received(), blocks.tail_page(), blocks.tail_tokens().get()), (251, 250, 19));
//! # Ok::<(), pagelift_planner::error::SpanError>(())
//! ```
#![warn(missing_debug_implementations)]
#![forbid(unsafe_code)]
#![deny(clippy::arithmetic_side_effects)]

pub mod error;
pub mod geometry;
pub mod id;
pub mod import;
pub mod layout;
pub mod lifecycle;
pub mod plan;
pub mod quantity;
mod room;
