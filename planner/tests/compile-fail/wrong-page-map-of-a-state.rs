//! Nor has it a page map.

use pagelift_planner::geometry::{GroupKey, State};
use pagelift_planner::id::{HostBlockId, PageId};
use pagelift_planner::plan::PageMap;

fn map(map: &mut PageMap, state: GroupKey<State>) {
    let _ = map.map(state, PageId::new(0), HostBlockId::new(0));
}

fn main() {}
