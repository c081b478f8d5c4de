//! A state has no rows that could be gathered.

use pagelift_planner::geometry::{GeometryBuilder, SideKey, State};
use pagelift_planner::plan::DeviceToDevice;

fn compact(builder: &mut GeometryBuilder, from: SideKey<State>, to: SideKey<State>) {
    let _ = builder.compact_route::<DeviceToDevice, _>(from, to);
}

fn main() {}
