//! Rows where tokens belong: of a compressed group, a row is several tokens.

use pagelift_planner::import::PromptSpan;
use pagelift_planner::layout::PagedLayout;

fn blocks(span: PromptSpan, layout: &PagedLayout) {
    let _ = span.in_blocks_of(layout.rows_per_block());
}

fn main() {}
