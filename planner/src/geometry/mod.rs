//! Where blocks of each group lie: pools, the two sides of each group, and the routes between them.
//!
//! A [`GeometryBuilder`] checks everything that does not change from step to step: that every block of every layer
//! lies in memory of its pool, that no two blocks share a byte, that both sides of a group agree in rows, segments
//! and row bytes, and which access width both allow. The result is a [`Geometry`]: keys for the groups, and the
//! tables of `pagelift-abi` that are uploaded once.
//!
//! # Example
//! ```
//! use pagelift_planner::geometry::*;
//! use pagelift_planner::layout::PagedLayout;
//!
//! let mut geometry = GeometryBuilder::new();
//! let host = geometry.pool(PoolSpec::new("host", Memory::Host, 8, &[Region::new(0x10000, 8 * 147_456)]))?;
//! let slab = geometry.pool(PoolSpec::new("slab", Memory::Device, 2, &[Region::new(0x900000, 2 * 147_456)]))?;
//! let layout = PagedLayout::mla_bf16(128)?;
//! let main = geometry.group(GroupSpec::<Paged> {
//!     name: "main".into(),
//!     layers: 1,
//!     landing: Landing::Host,
//!     lift: PagedLift::Tail,
//!     host: Some(SideSpec::packed(host, &[0x10000], &[0], 147_456, layout.clone())),
//!     device: Some(SideSpec::packed(slab, &[0x900000], &[0], 147_456, layout)),
//! })?;
//! let geometry = geometry.build()?;
//! assert_eq!(geometry.group(main.id()).map(|group| group.name()), Some("main"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod builder;
mod group;
mod overlap;
mod pool;
mod route;
mod side;

use std::fmt;
use std::sync::Arc;

use pagelift_abi as abi;

pub use builder::GeometryBuilder;
pub(crate) use group::RouteRef;
pub use group::{
    Group, GroupKey, GroupKind, GroupSpec, HasRows, Kind, Landing, Lift, Paged, PagedLift, Ring, State,
    StateLift,
};
pub use pool::{Memory, Pool, PoolSpec, Region};
pub use side::SideSpec;

use crate::id::{GroupId, PoolId};

/// Pools, groups and routes, checked, with the tables that kernels read.
#[derive(Debug)]
pub struct Geometry {
    pub(crate) stamp: u64,
    pub(crate) pools: Vec<Pool>,
    pub(crate) groups: Vec<Group>,
    pub(crate) tables: Tables,
}

/// The tables of one geometry, uploaded once.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub routes: Vec<abi::Route>,
    pub segments: Vec<abi::SegmentPair>,
    pub bases: Vec<u64>,
}

impl Geometry {
    /// The group of that id.
    #[must_use]
    pub fn group(&self, id: GroupId) -> Option<&Group> {
        self.groups.get(usize::try_from(id.get()).ok()?)
    }

    /// All groups, in the order of their ids.
    #[must_use]
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The pool of that id.
    #[must_use]
    pub fn pool(&self, id: PoolId) -> Option<&Pool> {
        self.pools.get(usize::try_from(id.get()).ok()?)
    }

    /// All pools, in the order of their ids.
    #[must_use]
    pub fn pools(&self) -> &[Pool] {
        &self.pools
    }

    /// The routes that kernels read.
    #[must_use]
    pub fn routes(&self) -> &[abi::Route] {
        &self.tables.routes
    }

    /// The segment pairs that kernels read.
    #[must_use]
    pub fn segments(&self) -> &[abi::SegmentPair] {
        &self.tables.segments
    }

    /// The bases that kernels read.
    #[must_use]
    pub fn bases(&self) -> &[u64] {
        &self.tables.bases
    }

    /// Entries of all page maps together: one for each page of each group's device pool.
    #[must_use]
    pub fn map_entries(&self) -> u32 {
        self.groups.iter().fold(0, |sum, group| sum.saturating_add(group.map_entries))
    }

    /// The name of a group, for messages.
    pub(crate) fn group_name(&self, id: GroupId) -> Arc<str> {
        self.group(id).map_or_else(|| Arc::from(id.to_string()), |group| group.name.clone())
    }
}

impl fmt::Display for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for pool in &self.pools {
            writeln!(f, "{pool}")?;
        }
        for group in &self.groups {
            writeln!(f, "{group}")?;
        }
        Ok(())
    }
}
