//! Schemas, reads and leases, against references that share nothing with them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what it expects by panicking"
)]

mod control;
mod engines;
mod faults;
mod handoff;
mod leases;
mod payload;
mod planned;
mod random;
mod reads;
mod receive;
mod reference;
mod regions;
mod wanted;
mod world;
