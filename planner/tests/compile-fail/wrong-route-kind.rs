//! A route joins two sides of one kind, and is a route of that kind.

use pagelift_planner::geometry::{GeometryBuilder, Paged, RouteKey, SideKey, State};
use pagelift_planner::plan::HostToDevice;

fn route(builder: &mut GeometryBuilder, paged: SideKey<Paged>, state: SideKey<State>) {
    let _ = builder.route::<HostToDevice, _>(paged, state);
}

fn kind(builder: &mut GeometryBuilder, from: SideKey<State>, to: SideKey<State>) {
    let _: Option<RouteKey<HostToDevice, Paged>> = builder.route(from, to).ok();
}

fn main() {}
