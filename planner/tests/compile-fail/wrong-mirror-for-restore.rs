//! A launcher of one direction takes no plan of another.

use pagelift_planner::plan::{WriteBackPlan, MirrorPlan, RestorePlan};

fn launch_restore(_: &RestorePlan) {}

fn launch(mirror: &MirrorPlan, checkpoint: &WriteBackPlan) {
    launch_restore(mirror);
    launch_restore(checkpoint);
}

fn main() {}
