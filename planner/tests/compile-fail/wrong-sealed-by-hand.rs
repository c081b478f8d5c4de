//! A sealed page comes from sealing, and from nowhere else.

use pagelift_planner::id::{HostBlockId, PageId};
use pagelift_planner::lifecycle::SealedPage;

fn sealed() -> SealedPage {
    SealedPage { page: PageId::new(0), block: HostBlockId::new(0) }
}

fn main() {}
