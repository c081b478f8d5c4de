//! A plan towards the host lifts nothing.

use pagelift_planner::import::Import;
use pagelift_planner::plan::{CheckpointPlan, TailRows};

fn lift(plan: &mut CheckpointPlan, import: &Import<'_>) {
    let _ = plan.lift(import, TailRows::Whole);
}

fn main() {}
