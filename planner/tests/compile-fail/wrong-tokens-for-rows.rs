//! Tokens where rows belong.

use pagelift_planner::import::BlockSpan;
use pagelift_planner::lifecycle::OpenPage;

fn durable(page: &mut OpenPage, blocks: BlockSpan) {
    page.durable_up_to(blocks.tail_tokens());
}

fn main() {}
