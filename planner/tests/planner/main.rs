//! The planner, question by question, against models that are written the long way.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what it expects by panicking"
)]

mod aliasing;
mod lift;
mod mirror;
mod page_map;
mod refusals;
mod seal;
mod specs;
mod support;
mod words;
mod worked_numbers;
