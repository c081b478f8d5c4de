//! What names things of a geometry: groups of the three kinds, their sides, and the ways between these.
//!
//! Rust has the kind, and the direction of a route, in the type. Python has one class for each, which keeps the Rust value.

use std::any::Any;

use pagelift::geometry::{
    self, DigestKey as RustDigest, GroupKey as RustGroup, Memory, Paged, Ring, SideKey as RustSide, State,
};
use pagelift::id;
use pyo3::prelude::*;

use crate::layout::AnyLayout;
use crate::memory::Address;
use crate::words::Way;

/// Something of one of the three kinds of group.
#[derive(Clone, Copy)]
pub enum ByKind<P, R, S> {
    /// Pages of rows.
    Paged(P),
    /// Rings.
    Ring(R),
    /// States.
    State(S),
}

/// A group of any kind.
pub type AnyGroup = ByKind<RustGroup<Paged>, RustGroup<Ring>, RustGroup<State>>;
/// A side of any kind.
pub type AnySide = ByKind<RustSide<Paged>, RustSide<Ring>, RustSide<State>>;
/// A side of any kind that digests read.
pub type AnyDigest = ByKind<RustDigest<Paged>, RustDigest<Ring>, RustDigest<State>>;

/// The same for whichever kind it is.
macro_rules! of_kind {
    ($value:expr, $own:ident => $body:expr) => {
        match $value {
            $crate::keys::ByKind::Paged($own) => $body,
            $crate::keys::ByKind::Ring($own) => $body,
            $crate::keys::ByKind::State($own) => $body,
        }
    };
}
pub(crate) use of_kind;

impl<P, R, S> ByKind<P, R, S> {
    /// `paged`, `ring` or `state`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Paged(_) => "paged",
            Self::Ring(_) => "ring",
            Self::State(_) => "state",
        }
    }
}

/// A pool of a `GeometryBuilder`: memory whose blocks share one numbering.
#[pyclass(frozen, from_py_object, module = "pagelift")]
#[derive(Clone)]
pub struct PoolId {
    pub id: id::PoolId,
    pub name: String,
    pub memory: Memory,
}

#[pymethods]
impl PoolId {
    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// `"host"` or `"device"`.
    #[getter]
    fn memory(&self) -> &'static str {
        self.memory.name()
    }

    fn __repr__(&self) -> String {
        format!("PoolId({:?}, {})", self.name, self.memory.name())
    }
}

/// Where a group's blocks lie in one pool, and what one of them looks like there: made by `SideSpec.packed` or
/// `SideSpec.layer_separate`.
///
/// Region `r` of block `b` of layer `l` begins at `bases[l, r, b // blocks_per_extent] + (b % blocks_per_extent) * block_stride`.
#[pyclass(frozen, from_py_object, module = "pagelift")]
#[derive(Clone)]
pub struct SideSpec {
    pub pool: PoolId,
    bases: Vec<u64>,
    block_stride: u64,
    pub layout: AnyLayout,
}

#[pymethods]
impl SideSpec {
    /// Layers at the same offsets in every extent.
    ///
    /// `extents` are the pool's regions, one for each extent (or addresses inside of them), `layer_offsets` the bytes from an
    /// extent's start to block 0 of each layer (of each region of each layer, layers outermost), `block_stride` the bytes from one
    /// block of a layer to the next. For `page` bytes of a layer's block, layers outermost: offsets `l * blocks * page`, stride
    /// `page`; blocks outermost: offsets `l * page`, stride `layers * page`.
    #[staticmethod]
    fn packed(
        pool: PoolId,
        extents: Vec<Address>,
        layer_offsets: Vec<u64>,
        block_stride: u64,
        layout: AnyLayout,
    ) -> Self {
        let extents: Vec<u64> = extents.iter().map(Address::get).collect();
        // A sum that does not fit 64 bits is caught when the geometry is built.
        let bases = geometry::SideSpec::packed(pool.id, &extents, &layer_offsets, block_stride, ()).bases;
        Self { pool, bases, block_stride, layout }
    }

    /// Each layer, or each region of each layer, a tensor of its own: `layers` are their regions (or the addresses of their block
    /// 0), layers outermost. An engine that keeps K and V of each layer apart lists `[k0, v0, k1, v1, ...]`.
    #[staticmethod]
    fn layer_separate(pool: PoolId, layers: Vec<Address>, block_stride: u64, layout: AnyLayout) -> Self {
        Self { pool, bases: layers.iter().map(Address::get).collect(), block_stride, layout }
    }

    /// The address of block 0 of each layer, region and extent, layers outermost.
    #[getter]
    fn bases(&self) -> Vec<u64> {
        self.bases.clone()
    }

    /// Bytes from one block of a layer to the next.
    #[getter]
    fn block_stride(&self) -> u64 {
        self.block_stride
    }

    fn __repr__(&self) -> String {
        let Self { pool, bases, block_stride, .. } = self;
        format!("SideSpec({:?}, {} bases, block_stride={block_stride})", pool.name, bases.len())
    }
}

impl SideSpec {
    /// With the layout that its group's kind has.
    pub fn of<L>(self, layout: L) -> geometry::SideSpec<L> {
        let Self { pool, bases, block_stride, .. } = self;
        geometry::SideSpec { pool: pool.id, bases, block_stride, layout }
    }
}

/// A group of one geometry. `kind` is `"paged"`, `"ring"` or `"state"`.
#[pyclass(frozen, from_py_object, module = "pagelift")]
#[derive(Clone)]
pub struct GroupKey {
    pub key: AnyGroup,
    pub name: String,
}

#[pymethods]
impl GroupKey {
    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// `"paged"`, `"ring"` or `"state"`.
    #[getter]
    fn kind(&self) -> &'static str {
        self.key.name()
    }

    fn __repr__(&self) -> String {
        format!("GroupKey({:?}, {})", self.name, self.key.name())
    }
}

/// A side of one group, for routes and digests.
#[pyclass(frozen, from_py_object, module = "pagelift")]
#[derive(Clone)]
pub struct SideKey {
    pub key: AnySide,
    pub memory: Memory,
}

#[pymethods]
impl SideKey {
    /// `"host"` or `"device"`.
    #[getter]
    fn memory(&self) -> &'static str {
        self.memory.name()
    }

    fn __repr__(&self) -> String {
        format!("SideKey({}, {})", self.key.name(), self.memory.name())
    }
}

/// A key of some direction and kind.
pub type Key = Box<dyn Any + Send + Sync>;

/// A way between two sides of one group, for gathers. `direction` is `"host to device"`, `"device to host"` or
/// `"device to device"`.
#[pyclass(frozen, module = "pagelift")]
pub struct RouteKey {
    /// A Rust `RouteKey` of some direction and kind.
    pub key: Key,
    pub way: Way,
}

#[pymethods]
impl RouteKey {
    /// `"host to device"`, `"device to host"` or `"device to device"`.
    #[getter]
    fn direction(&self) -> &'static str {
        self.way.name()
    }

    fn __repr__(&self) -> String {
        format!("RouteKey({})", self.way.name())
    }
}

/// A way into a compact buffer, for gathers of rows by index lists.
#[pyclass(frozen, module = "pagelift")]
pub struct CompactRouteKey {
    /// A Rust `CompactRouteKey` of some direction and kind.
    pub key: Key,
    pub way: Way,
}

#[pymethods]
impl CompactRouteKey {
    /// `"host to device"`, `"device to host"` or `"device to device"`.
    #[getter]
    fn direction(&self) -> &'static str {
        self.way.name()
    }

    fn __repr__(&self) -> String {
        format!("CompactRouteKey({})", self.way.name())
    }
}

/// A side that digests may read.
#[pyclass(frozen, module = "pagelift")]
pub struct DigestKey(pub AnyDigest);
