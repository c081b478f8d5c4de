//! A page map from host blocks to pages.

use pagelift_planner::geometry::{GroupKey, Paged};
use pagelift_planner::id::{HostBlockId, PageId};
use pagelift_planner::plan::MirrorPlan;

fn map(plan: &mut MirrorPlan, main: GroupKey<Paged>) {
    let _ = plan.page_map_mut().map(main, HostBlockId::new(0), PageId::new(0));
}

fn main() {}
