//! What names things of a geometry: groups of the three kinds, their sides, and the ways between these.
//!
//! Rust has the kind, and the direction of a route, in the type. Python has one class for each, which keeps the Rust value.

use pagelift::geometry::{self, Memory};
use pagelift::id;
use pagelift_bindings::geometry::AnySideSpec;
use pagelift_bindings::keys::{AnyCompactRoute, AnyDigest, AnyGroup, AnyRoute, AnySide};
use pyo3::prelude::*;

use crate::layout::AnyLayout;
use crate::memory::Address;
use crate::words::List;

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
    pool: String,
    /// As Rust has it.
    pub own: AnySideSpec,
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
        extents: List<Address>,
        layer_offsets: List<u64>,
        block_stride: u64,
        layout: AnyLayout,
    ) -> Self {
        let extents: Vec<u64> = extents.0.iter().map(Address::get).collect();
        // A sum that does not fit 64 bits is caught when the geometry is built.
        let spec =
            geometry::SideSpec::packed(pool.id, &extents, &layer_offsets.0, block_stride, layout.into());
        Self { pool: pool.name, own: AnySideSpec { spec, memory: pool.memory } }
    }

    /// Each layer, or each region of each layer, a tensor of its own: `layers` are their regions (or the addresses of their block
    /// 0), layers outermost. An engine that keeps K and V of each layer apart lists `[k0, v0, k1, v1, ...]`.
    #[staticmethod]
    fn layer_separate(pool: PoolId, layers: List<Address>, block_stride: u64, layout: AnyLayout) -> Self {
        let layers: Vec<u64> = layers.0.iter().map(Address::get).collect();
        let spec = geometry::SideSpec::layer_separate(pool.id, &layers, block_stride, layout.into());
        Self { pool: pool.name, own: AnySideSpec { spec, memory: pool.memory } }
    }

    /// The address of block 0 of each layer, region and extent, layers outermost.
    #[getter]
    fn bases(&self) -> Vec<u64> {
        self.own.spec.bases.clone()
    }

    /// Bytes from one block of a layer to the next.
    #[getter]
    fn block_stride(&self) -> u64 {
        self.own.spec.block_stride
    }

    fn __repr__(&self) -> String {
        let geometry::SideSpec { bases, block_stride, .. } = &self.own.spec;
        format!("SideSpec({:?}, {} bases, block_stride={block_stride})", self.pool, bases.len())
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
pub struct SideKey(pub AnySide);

#[pymethods]
impl SideKey {
    /// `"host"` or `"device"`.
    #[getter]
    fn memory(&self) -> &'static str {
        self.0.memory.name()
    }

    fn __repr__(&self) -> String {
        format!("SideKey({}, {})", self.0.key.name(), self.0.memory.name())
    }
}

/// A way between two sides of one group, for gathers. `direction` is `"host to device"`, `"device to host"` or
/// `"device to device"`.
#[pyclass(frozen, module = "pagelift")]
pub struct RouteKey(pub AnyRoute);

#[pymethods]
impl RouteKey {
    /// `"host to device"`, `"device to host"` or `"device to device"`.
    #[getter]
    fn direction(&self) -> &'static str {
        self.0.way().name()
    }

    fn __repr__(&self) -> String {
        format!("RouteKey({})", self.0.way())
    }
}

/// A way into a compact buffer, for gathers of rows by index lists.
#[pyclass(frozen, module = "pagelift")]
pub struct CompactRouteKey(pub AnyCompactRoute);

#[pymethods]
impl CompactRouteKey {
    /// `"host to device"`, `"device to host"` or `"device to device"`.
    #[getter]
    fn direction(&self) -> &'static str {
        self.0.way().name()
    }

    fn __repr__(&self) -> String {
        format!("CompactRouteKey({})", self.0.way())
    }
}

/// A side that digests may read.
#[pyclass(frozen, module = "pagelift")]
pub struct DigestKey(pub AnyDigest);
