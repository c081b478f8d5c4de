//! A way into a compact buffer takes rows by a list, and other ways take whole blocks.

use pagelift_planner::geometry::{CompactRouteKey, Paged, RouteKey};
use pagelift_planner::id::PageId;
use pagelift_planner::plan::{DeviceToDevice, PagePlan, RowBinding, RowPlan};

fn blocks(plan: &mut PagePlan<DeviceToDevice>, compact: CompactRouteKey<DeviceToDevice, Paged>) {
    let _ = plan.gather(compact, &[PageId::new(0)], &[PageId::new(1)]);
}

fn rows(plan: &mut RowPlan<DeviceToDevice>, route: RouteKey<DeviceToDevice, Paged>) {
    let _ = plan.gather_rows(route, RowBinding::new(8, 1));
}

fn main() {}
