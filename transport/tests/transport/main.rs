//! Schemas, reads and leases, against references that share nothing with them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what it expects by panicking"
)]

mod payload;
mod planned;
mod reads;
mod regions;
mod world;
