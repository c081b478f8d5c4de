//! A part of a state means nothing: its tail cannot be lifted.

use pagelift_planner::geometry::{GroupSpec, PagedLift, State};

fn lift(state: &mut GroupSpec<State>) {
    state.lift = PagedLift::Tail;
}

fn main() {}
