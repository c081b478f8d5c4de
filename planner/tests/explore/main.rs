//! Every state that small engines can reach: a scheduler, two ranks, a few requests, and everything that can go wrong.
//!
//! What is explored is the real scheduler's [`Lifecycle`] and the real ranks' [`Worker`]s, with a model of what lies
//! between and around them: messages that come in any order, twice, or late; launches that are done, superseded or fail;
//! reads; a rank that dies; clients and an engine that want something else. `laws` says what holds in every state.
//!
//! [`Lifecycle`]: pagelift_planner::lifecycle::Lifecycle
//! [`Worker`]: pagelift_planner::lifecycle::Worker
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what it expects by panicking"
)]

mod actions;
mod fingerprint;
mod ghost;
mod laws;
mod rank;
mod scheduler;
mod search;
mod world;
mod worlds;
