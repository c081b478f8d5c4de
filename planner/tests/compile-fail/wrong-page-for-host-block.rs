//! Pages where host blocks belong, and the reverse.

use pagelift_planner::geometry::{GroupKey, Paged};
use pagelift_planner::id::{HostBlockId, PageId};
use pagelift_planner::import::ImportGroup;

fn lists<'a>(main: GroupKey<Paged>, blocks: &'a [HostBlockId], pages: &'a [PageId]) -> ImportGroup<'a> {
    ImportGroup::new(main, pages, blocks)
}

fn main() {}
