//! What a digest reads is no way for a copy, and no copy's way is read by a digest.

use pagelift_planner::geometry::{DigestKey, Paged, RouteKey};
use pagelift_planner::id::{HostBlockId, PageId};
use pagelift_planner::plan::{DeviceToHost, DigestPlan, WriteBackPlan};

fn copy(plan: &mut WriteBackPlan, digest: DigestKey<Paged>) {
    let _ = plan.gather(digest, &[PageId::new(0)], &[HostBlockId::new(0)]);
}

fn digest(plan: &mut DigestPlan, route: RouteKey<DeviceToHost, Paged>) {
    let _ = plan.device(route, &[PageId::new(0)], 1);
}

fn main() {}
