//! What an engine sends to its peer before anything is read.

use std::sync::Arc;

use pagelift::error::MemoryError;
use pagelift_transport::offer;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::error::{OrRaise as _, TransportError};
use super::facts::{Exchange, GroupFacts};
use super::mapped::Mapped;
use crate::data::told;
use crate::error::{OrRaise as _, of_kind};
use crate::geometry::Geometry;
use crate::memory::Registry;
use crate::words::List;

/// What an engine sends to its peer before anything is read: its rank, what its blocks mean (the schema, equal on both sides), and
/// where they lie (never compared). `Offer.of` makes one of this process's memory, which the offer keeps.
#[pyclass(frozen, module = "pagelift.transport")]
pub struct Offer {
    /// The library's.
    pub offer: offer::Offer,
    /// This process's memory; none where a peer has sent it.
    mapped: Option<Arc<Mapped>>,
}

#[pymethods]
impl Offer {
    /// This engine's offer of the groups that `facts` describe, whose pools are registered in `memory`: by this process's addresses,
    /// and in the memory that a transport sees, which for the `Cpu` backend's device memory is the host's.
    ///
    /// Raises `SchemaError` where a group, side or segment is not there, too little is said, or it does not fit the geometry, and
    /// `RegistryError` where a pool is not registered there. It waits for launches, and raises `CaptureError` where one is being captured.
    #[staticmethod]
    fn of(
        py: Python<'_>,
        geometry: &Geometry,
        exchange: &Exchange,
        facts: List<GroupFacts>,
        memory: &Registry,
    ) -> PyResult<Self> {
        let mapped = Mapped::of(py, &memory.0)?;
        let facts: Vec<_> = facts.0.iter().map(|own| mapped.reached(&geometry.0, own)).collect();
        let made =
            py.detach(|| offer::Offer::of(&geometry.0, &exchange.0, &facts, |region| mapped.address(region)));
        let offer = made.or_raise()?;
        if let Some(range) = offer.regions.memory.iter().find(|range| mapped.region(range).is_none()) {
            let (what, place) = ("an offer".to_owned(), range.memory.name());
            let (start, end) = (range.address, range.address.saturating_add(range.bytes));
            return Err(MemoryError::Unregistered { what, place, start, end }).or_raise();
        }
        Ok(Self { offer, mapped: Some(Arc::new(mapped)) })
    }

    /// An offer that a peer has sent by some other way than a `Producer` or a `Consumer`, to be looked at. Raises `SchemaError` and
    /// `TransportError` where it is too large, of another version, no offer, or does not fit together.
    #[staticmethod]
    fn parse(text: &[u8]) -> PyResult<Self> {
        Ok(Self { offer: offer::Offer::parse(text).or_raise()?, mapped: None })
    }

    /// The offer as it is sent. Raises `TransportError` where it is too large.
    fn to_json<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.offer.to_json().or_raise()?))
    }

    /// Raises `SchemaError` where the blocks of another offer mean something else: `mismatches` has every field.
    fn compare(&self, theirs: &Self) -> PyResult<()> {
        self.offer.schema.compare(&theirs.offer.schema).or_raise()
    }

    /// What its blocks mean: dictionaries with the names that Rust's `PayloadSchema` has.
    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        told(py, &self.offer.schema)
    }

    /// Its tensor-parallel rank.
    #[getter]
    fn rank(&self) -> u32 {
        self.offer.rank
    }

    fn __repr__(&self) -> String {
        let groups: Vec<&str> = self.offer.schema.groups.keys().map(|name| &**name).collect();
        let bytes: u64 = self.offer.regions.memory.iter().map(|range| range.bytes).sum();
        format!("Offer(rank {}, {bytes} B, groups {})", self.offer.rank, groups.join(", "))
    }
}

impl Offer {
    /// This process's memory.
    ///
    /// # Errors
    /// Where a peer has sent it.
    pub fn mapped(&self) -> PyResult<&Arc<Mapped>> {
        self.mapped.as_ref().ok_or_else(|| {
            of_kind::<TransportError>("Foreign", "the offer is a peer's; `Offer.of` makes this side's")
        })
    }
}
