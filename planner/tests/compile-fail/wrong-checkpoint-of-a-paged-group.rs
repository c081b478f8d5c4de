//! Only states are written back whole.

use pagelift_planner::geometry::{GroupKey, Paged};
use pagelift_planner::id::{HostBlockId, PageId};
use pagelift_planner::plan::WriteBackPlan;

fn checkpoint(plan: &mut WriteBackPlan, main: GroupKey<Paged>) {
    let _ = plan.checkpoint(main, PageId::new(0), HostBlockId::new(0));
}

fn main() {}
