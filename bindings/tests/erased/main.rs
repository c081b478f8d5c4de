//! What is chosen at run time does what its type would, and what no type would allow is refused.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what it expects by panicking")]

mod geometries;
mod launchers;
mod plans;
mod runners;
mod world;
