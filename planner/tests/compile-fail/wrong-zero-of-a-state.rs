//! A state has no rows that could be zeroed.

use pagelift_planner::geometry::{RouteKey, State};
use pagelift_planner::id::PageId;
use pagelift_planner::plan::{HostToDevice, RestorePlan};
use pagelift_planner::quantity::Rows;

fn zero(plan: &mut RestorePlan, route: RouteKey<HostToDevice, State>) {
    let _ = plan.zero(route, PageId::new(0), Rows::new(0), Rows::new(1));
}

fn main() {}
