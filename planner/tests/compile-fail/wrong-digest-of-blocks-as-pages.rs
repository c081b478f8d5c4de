//! A digest of host blocks takes host blocks, and one of pages takes pages.

use pagelift_planner::geometry::{DigestKey, Paged};
use pagelift_planner::id::{HostBlockId, PageId};
use pagelift_planner::plan::DigestPlan;

fn digest(plan: &mut DigestPlan, side: DigestKey<Paged>, blocks: &[HostBlockId], pages: &[PageId]) {
    let _ = plan.host(side, pages, 1);
    let _ = plan.device(side, blocks, 1);
}

fn main() {}
