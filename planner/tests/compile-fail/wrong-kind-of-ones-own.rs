//! Kinds are closed: the three that there are say what may be copied.

use pagelift_planner::geometry::{GroupKind, HasRows, Kind, State, StateLift};
use pagelift_planner::layout::StateLayout;

enum Mine {}

impl Kind for Mine {
    type Layout = StateLayout;
    type Lift = StateLift;
    const KIND: GroupKind = GroupKind::Paged;
}

impl HasRows for State {}

fn main() {}
