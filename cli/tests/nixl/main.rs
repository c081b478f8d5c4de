//! What the program does where NIXL is built in.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what it expects by panicking")]

mod doctor;
mod gpu;
mod handoff;
mod load;
mod mistakes;
#[path = "../support/mod.rs"]
mod support;
