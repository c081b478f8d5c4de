//! Which import holds which blocks and pages, from its reservation to its release.

use std::sync::Mutex;

use pagelift::plan::{PlanCapacity, TailRows};
use pagelift::quantity::Bytes;
use pagelift::{id, lifecycle};
use pyo3::prelude::*;

use crate::error::OrRaise;
use crate::geometry::Geometry;
use crate::import::Import;
use crate::locks::lock;
use crate::words::Word;

/// A reserved import, until it is released. Its number is used again; the id is not.
#[pyclass(frozen, eq, hash, module = "pagelift")]
#[derive(PartialEq, Eq, Hash)]
pub struct ImportId(pub id::ImportId);

#[pymethods]
impl ImportId {
    /// Its place among the imports that are reserved at one time.
    #[getter]
    fn number(&self) -> u32 {
        self.0.get()
    }

    fn __repr__(&self) -> String {
        format!("ImportId({})", self.0)
    }
}

/// Imports between reservation and release.
///
/// An import is reserved when its host blocks and pages are known, before anything is received. All that can be wrong with its
/// lists is found then, once, and no two imports lift into one page; steps add it by `RestorePlan.lift_reserved`, which takes no
/// lists. `imports` is how many there may be at one time (at most 2**20), `jobs` and `list_entries` the room of each.
#[pyclass(frozen, module = "pagelift")]
pub struct Reservations(pub Mutex<lifecycle::Reservations>);

#[pymethods]
impl Reservations {
    #[new]
    #[pyo3(signature = (geometry, imports, *, jobs=384, list_entries=8192))]
    fn new(geometry: &Geometry, imports: u32, jobs: u32, list_entries: u32) -> PyResult<Self> {
        let capacity = PlanCapacity { jobs, list_entries };
        let reservations = lifecycle::Reservations::new(geometry.0.clone(), imports, capacity).or_raise()?;
        Ok(Self(Mutex::new(reservations)))
    }

    /// Takes an import's blocks and pages for it, and works out what lifting it in `mode` takes.
    ///
    /// Raises `PlanError` as `RestorePlan.lift` does, and where another import lifts into one of its pages or holds one that it
    /// would lift into; `CapacityError` where all imports are taken. Nothing is held then that was not before.
    #[pyo3(signature = (import_, mode=Word(TailRows::Whole)))]
    fn reserve(&self, py: Python<'_>, import_: &Import, mode: Word<TailRows>) -> PyResult<ImportId> {
        let mut reservations = lock(py, &self.0)?;
        Ok(ImportId(import_.0.with(|import| reservations.reserve(import, mode.0)).or_raise()?))
    }

    /// Gives an import's blocks and pages back: no launch or transfer touches them any more. Raises `PlanError` where it was
    /// released already, or reserved elsewhere.
    fn release(&self, py: Python<'_>, import_id: &ImportId) -> PyResult<()> {
        lock(py, &self.0)?.release(import_id.0).or_raise()
    }

    /// Bytes that lifting an import copies, or `None` where it is not reserved here.
    fn bytes(&self, py: Python<'_>, import_id: &ImportId) -> PyResult<Option<u64>> {
        Ok(lock(py, &self.0)?.bytes(import_id.0).map(Bytes::get))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(lock(py, &self.0)?.len())
    }

    fn __contains__(&self, py: Python<'_>, import_id: &ImportId) -> PyResult<bool> {
        Ok(lock(py, &self.0)?.contains(import_id.0))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("Reservations({} imports)", self.__len__(py)?))
    }
}
