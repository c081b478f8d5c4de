//! A state cannot be mirrored row by row.

use pagelift_planner::geometry::{GroupKey, State};
use pagelift_planner::plan::{MirrorPlan, RowBinding};

fn mirror(plan: &mut MirrorPlan, state: GroupKey<State>) {
    let _ = plan.bind(state, RowBinding::new(8, 1));
}

fn main() {}
