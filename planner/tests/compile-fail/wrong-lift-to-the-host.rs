//! A plan towards the host lifts nothing.

use pagelift_planner::import::Import;
use pagelift_planner::plan::{WriteBackPlan, TailRows};

fn lift(plan: &mut WriteBackPlan, import: &Import<'_>) {
    let _ = plan.lift(import, TailRows::Whole);
}

fn main() {}
