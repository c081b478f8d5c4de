//! The program `pagelift`.
fn main() {}
