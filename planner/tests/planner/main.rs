//! The planner, question by question, against models that are written the long way.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what it expects by panicking"
)]

mod aliasing;
mod digest;
mod fixed;
mod frames;
mod gather;
mod guards;
mod lifecycle_errors;
mod lift;
mod mirror;
mod page_map;
mod progress;
mod refusals;
mod regions;
mod requests;
mod reservations;
mod row_lists;
mod seal;
mod specs;
mod step_groups;
mod steps;
mod unequal;
mod words;
mod worked_numbers;
