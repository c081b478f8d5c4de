//! Bytes and tokens do not add up.

use pagelift_planner::quantity::{Bytes, Tokens};

fn sum(tokens: Tokens, bytes: Bytes) -> Option<Tokens> {
    tokens.checked_add(bytes)
}

fn main() {}
