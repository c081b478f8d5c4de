//! Nor can a ring's.

use pagelift_planner::geometry::{GroupSpec, PagedLift, Ring};

fn lift(ring: &mut GroupSpec<Ring>) {
    ring.lift = PagedLift::All;
}

fn main() {}
