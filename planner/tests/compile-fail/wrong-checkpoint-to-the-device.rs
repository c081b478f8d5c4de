//! A plan towards the device writes nothing back.

use pagelift_planner::geometry::{GroupKey, State};
use pagelift_planner::id::{HostBlockId, PageId};
use pagelift_planner::plan::RestorePlan;

fn checkpoint(plan: &mut RestorePlan, state: GroupKey<State>) {
    let _ = plan.checkpoint(state, PageId::new(0), HostBlockId::new(0));
}

fn main() {}
