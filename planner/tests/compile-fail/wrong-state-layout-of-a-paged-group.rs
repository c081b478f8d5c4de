//! A paged group has a layout of rows.

use pagelift_planner::geometry::{GroupSpec, Paged, SideSpec};
use pagelift_planner::layout::StateLayout;

fn side(main: &mut GroupSpec<Paged>, side: Option<SideSpec<StateLayout>>) {
    main.host = side;
}

fn main() {}
