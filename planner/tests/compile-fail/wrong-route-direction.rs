//! A route goes one way, and so does a plan.

use pagelift_planner::geometry::{Paged, RouteKey};
use pagelift_planner::id::{HostBlockId, PageId};
use pagelift_planner::plan::{DeviceToHost, RestorePlan};

fn gather(plan: &mut RestorePlan, up: RouteKey<DeviceToHost, Paged>, blocks: &[HostBlockId], pages: &[PageId]) {
    let _ = plan.gather(up, blocks, pages);
}

fn main() {}
