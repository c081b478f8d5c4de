//! Where blocks lie: pools, groups with their sides, and the ways between these.

use std::sync::{Arc, Mutex};

use pagelift::geometry::{self, Landing, Lift, Memory, PoolSpec};
use pagelift::quantity::Tokens;
use pagelift_bindings::geometry::{self as erased, AnyGroupSpec};
use pyo3::prelude::*;

use crate::error::{GeometryError, OrRaise, of_kind};
use crate::keys::{CompactRouteKey, DigestKey, GroupKey, PoolId, RouteKey, SideKey, SideSpec};
use crate::locks::lock;
use crate::memory::Region;
use crate::words::{List, Word};

/// Collects pools, groups, sides and routes; `build` makes a `Geometry` of them.
///
/// Each call checks what it is given and raises `GeometryError`, after which the builder is as it was.
#[pyclass(frozen, module = "pagelift")]
pub struct GeometryBuilder(Mutex<Option<geometry::GeometryBuilder>>);

#[pymethods]
impl GeometryBuilder {
    #[new]
    fn new() -> Self {
        Self(Mutex::new(Some(geometry::GeometryBuilder::new())))
    }

    /// Adds a pool of `blocks` blocks (ids `0 .. blocks`, at most 2**31) in `memory` (`"host"` or `"device"`), whose blocks lie in
    /// `regions`. `blocks_per_extent` are the blocks of one region, where a pool has several extents (`HostPool`).
    ///
    /// Groups that alias one slab name one pool; groups with memory of their own have a pool each.
    #[pyo3(signature = (name, memory, blocks, regions, *, blocks_per_extent=None))]
    fn pool(
        &self,
        py: Python<'_>,
        name: String,
        memory: Word<Memory>,
        blocks: u32,
        regions: List<Region>,
        blocks_per_extent: Option<u32>,
    ) -> PyResult<PoolId> {
        let (memory, regions) = (memory.0, regions.0.iter().map(Region::region).collect::<Vec<_>>());
        let spec =
            PoolSpec::new(&name, memory, blocks, &regions).extents_of(blocks_per_extent.unwrap_or(blocks));
        let id = self.with(py, |builder| builder.pool(spec).or_raise())?;
        Ok(PoolId { id, name, memory })
    }

    /// Adds a group of `layers` layers with its main sides, whose layouts say of which kind it is.
    ///
    /// `landing` is where its imported blocks arrive, `"host"` or `"device"`. `lift` is what of a host-landed group is lifted: of
    /// paged groups `"tail"` (the writable page), `"all"` or `"none"`, of rings and states `"state"` or `"none"`. Each engine's
    /// groups have names by which they pair with the other's.
    #[pyo3(signature = (name, *, layers, landing, lift, host=None, device=None))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn group(
        &self,
        py: Python<'_>,
        name: String,
        layers: u32,
        landing: Word<Landing>,
        lift: Word<Lift>,
        host: Option<SideSpec>,
        device: Option<SideSpec>,
    ) -> PyResult<GroupKey> {
        let (landing, lift) = (landing.0, lift.0);
        let [host, device] = [host, device].map(|side| side.map(|side| side.own));
        let spec = AnyGroupSpec { name: name.as_str().into(), layers, landing, lift, host, device };
        let key = self.with(py, |builder| erased::group(builder, spec).or_raise())?;
        Ok(GroupKey { key, name })
    }

    /// Adds another side of a group: a second arrangement of the same rows, for gathers.
    fn side(&self, py: Python<'_>, group: GroupKey, spec: SideSpec) -> PyResult<SideKey> {
        self.with(py, |builder| erased::side(builder, group.key, spec.own).or_raise()).map(SideKey)
    }

    /// The main side of a group in `memory`, or `None` where it has none there.
    fn main_side(&self, py: Python<'_>, group: GroupKey, memory: Word<Memory>) -> PyResult<Option<SideKey>> {
        let side = self.with(py, |builder| Ok(erased::main_side(builder, group.key, memory.0)))?;
        Ok(side.map(SideKey))
    }

    /// Adds a way from one side of a group to another, or to itself for copies inside one pool. Its direction follows from the
    /// sides' memories.
    fn route(&self, py: Python<'_>, source: SideKey, destination: SideKey) -> PyResult<RouteKey> {
        self.with(py, |builder| erased::route(builder, source.0, destination.0).or_raise()).map(RouteKey)
    }

    /// Adds a way into a compact buffer: a side whose pool has one block, of as many rows as are gathered at most.
    fn compact_route(
        &self,
        py: Python<'_>,
        source: SideKey,
        destination: SideKey,
    ) -> PyResult<CompactRouteKey> {
        let key = self.with(py, |builder| erased::compact_route(builder, source.0, destination.0).or_raise());
        key.map(CompactRouteKey)
    }

    /// Lets digests read a side.
    fn digest(&self, py: Python<'_>, side: SideKey) -> PyResult<DigestKey> {
        self.with(py, |builder| erased::digest(builder, side.0).or_raise()).map(DigestKey)
    }

    /// Checks that no two blocks share a byte, and finishes the geometry. The builder is used up, also where that fails.
    fn build(&self, py: Python<'_>) -> PyResult<Geometry> {
        let builder = lock(py, &self.0)?.take().ok_or_else(used_up)?;
        Ok(Geometry(Arc::new(py.detach(|| builder.build()).or_raise()?)))
    }
}

impl GeometryBuilder {
    fn with<T>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut geometry::GeometryBuilder) -> PyResult<T>,
    ) -> PyResult<T> {
        call(lock(py, &self.0)?.as_mut().ok_or_else(used_up)?)
    }
}

fn used_up() -> PyErr {
    of_kind::<GeometryError>("Built", "the geometry was built; begin another with a new builder")
}

/// Pools, groups, sides and routes, checked, with the tables that kernels read. Plans are made for one.
#[pyclass(frozen, module = "pagelift")]
pub struct Geometry(pub Arc<geometry::Geometry>);

#[pymethods]
impl Geometry {
    /// The names of its groups.
    #[getter]
    fn groups(&self) -> Vec<String> {
        self.0.groups().iter().map(|group| group.name().to_owned()).collect()
    }

    /// The names of its pools.
    #[getter]
    fn pools(&self) -> Vec<String> {
        self.0.pools().iter().map(|pool| pool.name().to_owned()).collect()
    }

    /// Token slots of a block of a group's main side in `memory` (a ring's slots; 1 for states), or `None`.
    fn block_slots(&self, group: &GroupKey, memory: Word<Memory>) -> Option<u64> {
        erased::block_slots(&self.0, group.key, memory.0).map(Tokens::get)
    }

    /// The way by which a group's imported blocks are lifted, or `None` where it lacks a main side.
    fn lift_route(&self, group: &GroupKey) -> Option<RouteKey> {
        erased::lift_route(&self.0, group.key).map(RouteKey)
    }

    /// The way by which a group's pages are written back, or `None` where it lacks a main side.
    fn spill_route(&self, group: &GroupKey) -> Option<RouteKey> {
        erased::spill_route(&self.0, group.key).map(RouteKey)
    }

    fn __repr__(&self) -> String {
        format!("Geometry:\n{}", self.0)
    }
}
