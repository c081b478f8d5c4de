//! Where blocks lie: pools, groups with their sides, and the ways between these.

use std::sync::{Arc, Mutex};

use pagelift::Error;
use pagelift::geometry::{
    self, GroupSpec, Kind, Landing, Memory, Paged, PoolSpec, Ring, SideKey as RustSide, State,
};
use pagelift::plan::{DeviceToDevice, DeviceToHost, HostToDevice};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::error::{GeometryError, OrRaise};
use crate::keys::{
    ByKind, CompactRouteKey, DigestKey, GroupKey, Key, PoolId, RouteKey, SideKey, SideSpec, of_kind,
};
use crate::layout::AnyLayout;
use crate::locks::lock;
use crate::memory::Region;
use crate::words::{Way, Word};

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
        regions: Vec<Region>,
        blocks_per_extent: Option<u32>,
    ) -> PyResult<PoolId> {
        let (memory, regions) = (memory.0, regions.iter().map(Region::region).collect::<Vec<_>>());
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
        lift: &Bound<'_, PyAny>,
        host: Option<SideSpec>,
        device: Option<SideSpec>,
    ) -> PyResult<GroupKey> {
        let kind = host.as_ref().or(device.as_ref()).map(|side| &side.layout);
        let landing = landing.0;
        macro_rules! group {
            ($kind:ident) => {{
                let side = |spec: Option<SideSpec>| match spec {
                    Some(spec) => match spec.layout.clone() {
                        AnyLayout::$kind(layout) => Ok(Some(spec.of(layout.0))),
                        _ => Err(PyTypeError::new_err("the two sides have layouts of different kinds")),
                    },
                    None => Ok(None),
                };
                let (host, device) = (side(host)?, side(device)?);
                let Word(lift) = lift.extract()?;
                let spec =
                    GroupSpec::<$kind> { name: name.as_str().into(), layers, landing, lift, host, device };
                ByKind::$kind(self.with(py, |builder| builder.group(spec).or_raise())?)
            }};
        }
        let key = match kind {
            Some(AnyLayout::Ring(_)) => group!(Ring),
            Some(AnyLayout::State(_)) => group!(State),
            // One without any side is refused by the builder.
            Some(AnyLayout::Paged(_)) | None => group!(Paged),
        };
        Ok(GroupKey { key, name })
    }

    /// Adds another side of a group: a second arrangement of the same rows, for gathers.
    fn side(&self, py: Python<'_>, group: GroupKey, spec: SideSpec) -> PyResult<SideKey> {
        let memory = spec.pool.memory;
        let layout = spec.layout.clone();
        let key = match (group.key, layout) {
            (ByKind::Paged(group), AnyLayout::Paged(layout)) => {
                ByKind::Paged(self.with(py, |builder| builder.side(group, &spec.of(layout.0)).or_raise())?)
            }
            (ByKind::Ring(group), AnyLayout::Ring(layout)) => {
                ByKind::Ring(self.with(py, |builder| builder.side(group, &spec.of(layout.0)).or_raise())?)
            }
            (ByKind::State(group), AnyLayout::State(layout)) => {
                ByKind::State(self.with(py, |builder| builder.side(group, &spec.of(layout.0)).or_raise())?)
            }
            (group, _) => {
                return Err(PyTypeError::new_err(format!(
                    "the group is {}; its layouts are too",
                    group.name()
                )));
            }
        };
        Ok(SideKey { key, memory })
    }

    /// The main side of a group in `memory`, or `None` where it has none there.
    fn main_side(&self, py: Python<'_>, group: GroupKey, memory: Word<Memory>) -> PyResult<Option<SideKey>> {
        let memory = memory.0;
        let key = self.with(py, |builder| {
            Ok(match group.key {
                ByKind::Paged(group) => builder.main_side(group, memory).map(ByKind::Paged),
                ByKind::Ring(group) => builder.main_side(group, memory).map(ByKind::Ring),
                ByKind::State(group) => builder.main_side(group, memory).map(ByKind::State),
            })
        })?;
        Ok(key.map(|key| SideKey { key, memory }))
    }

    /// Adds a way from one side of a group to another, or to itself for copies inside one pool. Its direction follows from the
    /// sides' memories.
    fn route(&self, py: Python<'_>, source: SideKey, destination: SideKey) -> PyResult<RouteKey> {
        let way = way_between(py, &source, &destination)?;
        let key = self.with(py, |builder| match (source.key, destination.key) {
            (ByKind::Paged(from), ByKind::Paged(to)) => route(builder, way, from, to).or_raise(),
            (ByKind::Ring(from), ByKind::Ring(to)) => route(builder, way, from, to).or_raise(),
            (ByKind::State(from), ByKind::State(to)) => route(builder, way, from, to).or_raise(),
            _ => Err(PyTypeError::new_err("the sides are of different kinds")),
        })?;
        Ok(RouteKey { key, way })
    }

    /// Adds a way into a compact buffer: a side whose pool has one block, of as many rows as are gathered at most.
    fn compact_route(
        &self,
        py: Python<'_>,
        source: SideKey,
        destination: SideKey,
    ) -> PyResult<CompactRouteKey> {
        let way = way_between(py, &source, &destination)?;
        let key = self.with(py, |builder| match (source.key, destination.key) {
            (ByKind::Paged(from), ByKind::Paged(to)) => compact(builder, way, from, to).or_raise(),
            (ByKind::Ring(from), ByKind::Ring(to)) => compact(builder, way, from, to).or_raise(),
            _ => Err(PyTypeError::new_err("rows are gathered between two paged sides, or between two rings")),
        })?;
        Ok(CompactRouteKey { key, way })
    }

    /// Lets digests read a side.
    fn digest(&self, py: Python<'_>, side: SideKey) -> PyResult<DigestKey> {
        self.with(py, |builder| {
            Ok(DigestKey(match side.key {
                ByKind::Paged(side) => ByKind::Paged(builder.digest(side).or_raise()?),
                ByKind::Ring(side) => ByKind::Ring(builder.digest(side).or_raise()?),
                ByKind::State(side) => ByKind::State(builder.digest(side).or_raise()?),
            }))
        })
    }

    /// Checks that no two blocks share a byte, and finishes the geometry. The builder is used up, also where that fails.
    fn build(&self, py: Python<'_>) -> PyResult<Geometry> {
        let builder = lock(py, &self.0).take().ok_or_else(|| used_up(py))?;
        Ok(Geometry(Arc::new(py.detach(|| builder.build()).or_raise()?)))
    }
}

impl GeometryBuilder {
    fn with<T>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut geometry::GeometryBuilder) -> PyResult<T>,
    ) -> PyResult<T> {
        call(lock(py, &self.0).as_mut().ok_or_else(|| used_up(py))?)
    }
}

fn used_up(py: Python<'_>) -> PyErr {
    of_another_kind(py, "Built", "the geometry was built; begin another with a new builder")
}

/// A `GeometryError` that Rust's types rule out.
fn of_another_kind(py: Python<'_>, kind: &str, text: &str) -> PyErr {
    let error = GeometryError::new_err(text.to_owned());
    let _ = error.value(py).setattr("kind", kind);
    error
}

fn way_between(py: Python<'_>, from: &SideKey, to: &SideKey) -> PyResult<Way> {
    match (from.memory, to.memory) {
        (Memory::Host, Memory::Device) => Ok(Way::Down),
        (Memory::Device, Memory::Host) => Ok(Way::Up),
        (Memory::Device, Memory::Device) => Ok(Way::Across),
        (Memory::Host, Memory::Host) => {
            Err(of_another_kind(py, "NoSuchRoute", "no route goes from host memory to host memory"))
        }
    }
}

fn route<K: Kind>(
    builder: &mut geometry::GeometryBuilder,
    way: Way,
    from: RustSide<K>,
    to: RustSide<K>,
) -> Result<Key, Error> {
    Ok(match way {
        Way::Down => Box::new(builder.route::<HostToDevice, K>(from, to)?),
        Way::Up => Box::new(builder.route::<DeviceToHost, K>(from, to)?),
        Way::Across => Box::new(builder.route::<DeviceToDevice, K>(from, to)?),
    })
}

fn compact<K: geometry::HasRows>(
    builder: &mut geometry::GeometryBuilder,
    way: Way,
    from: RustSide<K>,
    to: RustSide<K>,
) -> Result<Key, Error> {
    Ok(match way {
        Way::Down => Box::new(builder.compact_route::<HostToDevice, K>(from, to)?),
        Way::Up => Box::new(builder.compact_route::<DeviceToHost, K>(from, to)?),
        Way::Across => Box::new(builder.compact_route::<DeviceToDevice, K>(from, to)?),
    })
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
        let id = of_kind!(group.key, group => group.id());
        self.0.block_slots(id, memory.0).map(pagelift::quantity::Tokens::get)
    }

    /// The way by which a group's imported blocks are lifted, or `None` where it lacks a main side.
    fn lift_route(&self, group: &GroupKey) -> Option<RouteKey> {
        let key: Option<Key> =
            of_kind!(group.key, group => self.0.lift_route(group).map(|key| Box::new(key) as Key));
        key.map(|key| RouteKey { key, way: Way::Down })
    }

    /// The way by which a group's pages are written back, or `None` where it lacks a main side.
    fn spill_route(&self, group: &GroupKey) -> Option<RouteKey> {
        let key: Option<Key> =
            of_kind!(group.key, group => self.0.spill_route(group).map(|key| Box::new(key) as Key));
        key.map(|key| RouteKey { key, way: Way::Up })
    }

    fn __repr__(&self) -> String {
        format!("Geometry:\n{}", self.0)
    }
}
