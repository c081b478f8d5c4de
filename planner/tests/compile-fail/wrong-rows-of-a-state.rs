//! A state has no rows.

use pagelift_planner::layout::StateLayout;

fn rows(layout: &StateLayout) {
    let _ = layout.rows_per_block();
}

fn main() {}
