//! Where C's word is taken.
//!
//! The only unsafe code of this crate. What cannot be checked is asked for in the header: of pointers in its first comment, and of
//! memory, streams and graphs by numbers where they are handed over. What can be checked was checked before.

mod engine;
mod pointer;

pub use engine::{C, adopt, adopt_pool};
pub use pointer::{In, Out, Plain, Ready, Replay, Text, TextOut, Versioned};
