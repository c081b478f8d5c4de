//! Where rows come from and where they go are different types.

use pagelift_planner::geometry::{Paged, RouteKey};
use pagelift_planner::id::{HostBlockId, PageId};
use pagelift_planner::plan::{HostToDevice, RestorePlan};

fn gather(plan: &mut RestorePlan, down: RouteKey<HostToDevice, Paged>, blocks: &[HostBlockId], pages: &[PageId]) {
    let _ = plan.gather(down, pages, blocks);
}

fn main() {}
