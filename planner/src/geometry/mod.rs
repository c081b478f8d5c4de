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
mod key;
mod overlap;
mod pool;
mod route;
mod side;
mod view;

use std::fmt;
use std::sync::Arc;

use pagelift_abi as abi;

pub use builder::GeometryBuilder;
pub use group::{
    Group, GroupKey, GroupKind, GroupSpec, HasRows, Kind, Landing, Lift, Paged, PagedLift, Ring, State,
    StateLift,
};
pub use pool::{Memory, Pool, PoolSpec, Region};
pub(crate) use route::Route;
pub use route::{CompactRouteKey, RouteKey};
pub(crate) use side::Side;
pub use side::{SideKey, SideSpec};
pub use view::SideView;

use crate::id::{GroupId, PoolId};
use crate::layout::Segment;
use crate::plan::{DeviceToHost, HostToDevice};
use crate::quantity::{Rows, Tokens};

/// Pools, groups, sides and routes, checked, with the tables that kernels read.
#[derive(Debug)]
pub struct Geometry {
    pub(crate) stamp: u64,
    pub(crate) pools: Vec<Pool>,
    pub(crate) groups: Vec<Group>,
    pub(crate) sides: Vec<Side>,
    pub(crate) tables: Tables,
}

/// A side that digests may read.
#[derive(Debug)]
pub struct DigestKey<K>(pub(crate) RouteKey<DeviceToHost, K>);

key::key!(DigestKey<K>: 0);

/// The tables of one geometry, uploaded once, and what plans know of its routes.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub routes: Vec<abi::Route>,
    pub ways: Vec<Route>,
    pub segments: Vec<abi::SegmentPair>,
    pub bases: Vec<u64>,
}

impl Tables {
    /// Lengths, to go back to.
    pub fn lengths(&self) -> [usize; 3] {
        [self.routes.len(), self.segments.len(), self.bases.len()]
    }

    /// Takes back what was added since.
    pub fn truncate(&mut self, [routes, segments, bases]: [usize; 3]) {
        self.routes.truncate(routes);
        self.ways.truncate(routes);
        self.segments.truncate(segments);
        self.bases.truncate(bases);
    }
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
        self.pools.get(usize::try_from(id.get()).ok()?).filter(|_| id.geometry() == self.stamp)
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

    /// Whether a key is of one of its groups: the builder of another geometry gives others.
    #[must_use]
    pub fn has<K: Kind>(&self, group: GroupKey<K>) -> bool {
        group.geometry == self.stamp && self.group(group.id).is_some()
    }

    /// The way by which a group's imported blocks are lifted, if it has both main sides.
    #[must_use]
    pub fn lift_route<K: Kind>(&self, group: GroupKey<K>) -> Option<RouteKey<HostToDevice, K>> {
        let own = self.group(group.id).filter(|_| self.has(group))?;
        Some(RouteKey::new(own.to_device?, self.stamp))
    }

    /// The way by which a group's pages are written back, if it has both main sides.
    #[must_use]
    pub fn spill_route<K: Kind>(&self, group: GroupKey<K>) -> Option<RouteKey<DeviceToHost, K>> {
        let own = self.group(group.id).filter(|_| self.has(group))?;
        Some(RouteKey::new(own.to_host?, self.stamp))
    }

    /// Token slots of a block of a group's main side in one memory (a ring's slots; 1 for states).
    #[must_use]
    pub fn block_slots(&self, group: GroupId, memory: Memory) -> Option<Tokens> {
        Some(Tokens::new(u64::from(self.main_side(group, memory)?.slots)))
    }

    /// Rows of a block of a paged or ring group's main side in one memory.
    #[must_use]
    pub fn block_rows<K: HasRows>(&self, group: GroupKey<K>, memory: Memory) -> Option<Rows> {
        Some(Rows::new(self.main_side(group.id, memory).filter(|_| self.has(group))?.rows))
    }

    /// What a block of a group's main side in one memory holds.
    #[must_use]
    pub fn block_segments(&self, group: GroupId, memory: Memory) -> Option<&[Segment]> {
        Some(&self.main_side(group, memory)?.segments)
    }

    /// The pool of a group's main side in one memory.
    #[must_use]
    pub fn pool_of(&self, group: GroupId, memory: Memory) -> Option<PoolId> {
        Some(self.main_side(group, memory)?.pool)
    }

    /// A group's main side in one memory.
    pub(crate) fn main_side(&self, group: GroupId, memory: Memory) -> Option<&Side> {
        let group = self.group(group)?;
        let index = match memory {
            Memory::Host => group.host,
            Memory::Device => group.device,
        };
        self.side_at(index?)
    }

    pub(crate) fn side_at(&self, index: u32) -> Option<&Side> {
        self.sides.get(usize::try_from(index).ok()?)
    }

    /// What plans know of a route.
    pub(crate) fn way(&self, index: u32) -> Option<Route> {
        self.tables.ways.get(usize::try_from(index).ok()?).copied()
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
        for (id, group) in (0..).map(GroupId::new).zip(&self.groups) {
            write!(f, "{group}")?;
            for (memory, word) in [(Memory::Host, "blocks"), (Memory::Device, "pages")] {
                let Some(side) = self.main_side(id, memory) else { continue };
                write!(f, ", {word} of {} rows", side.rows)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
