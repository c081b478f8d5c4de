//! The examples hold: they check what they do themselves.
#![allow(clippy::unwrap_used, reason = "a test says what it expects by panicking")]

#[path = "../examples/rust_engine.rs"]
mod rust_engine;

#[test]
fn the_small_engine_keeps_every_row() {
    rust_engine::main().unwrap();
}
