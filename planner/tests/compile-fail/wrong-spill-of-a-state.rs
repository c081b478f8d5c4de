//! A state is written back by a checkpoint: its pages are no token's.

use pagelift_planner::geometry::{GroupKey, State};
use pagelift_planner::id::{HostBlockId, PageId};
use pagelift_planner::plan::WriteBackPlan;

fn spill(plan: &mut WriteBackPlan, state: GroupKey<State>, pages: &[PageId], blocks: &[HostBlockId]) {
    let _ = plan.spill(state, pages, blocks);
}

fn main() {}
