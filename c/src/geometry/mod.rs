//! Where blocks lie: pools, groups with their sides, and the ways between these.

mod builder;
mod built;
mod sides;

pub use builder::{GeometryBuilder, PoolSpec};
pub use built::{Built, Geometry};
pub use sides::{GroupSpec, Landing, Lift, SideSpec};
