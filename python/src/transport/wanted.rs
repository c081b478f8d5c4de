//! Between a lifecycle and a consumer: which blocks it wants, and what it is told.

use std::sync::Arc;

use pagelift::geometry;
use pagelift::lifecycle::{GroupFrames as RustFrames, Ranks, RequestId};
use pagelift::quantity::Tokens;
use pagelift_transport::consumer;
use pagelift_transport::wanted;
use pyo3::prelude::*;

use super::error::{OrRaise as _, TransportError};
use super::tables::Tables;
use crate::data::{parsed, told};
use crate::error::of_kind;
use crate::geometry::Geometry;
use crate::lifecycle::Lifecycle;
use crate::locks::lock;
use crate::runner::GroupFrames;
use crate::words::List;

/// From a lifecycle's numbers to the blocks that an import fills.
///
/// `frames` are of every group that is imported, as `Runner.bind` takes them; `block_tokens` are the lifecycle's.
#[pyclass(frozen, module = "pagelift.transport")]
pub struct WantedBy {
    lifecycle: Py<Lifecycle>,
    geometry: Arc<geometry::Geometry>,
    frames: Vec<RustFrames>,
    block_tokens: Tokens,
}

#[pymethods]
impl WantedBy {
    #[new]
    #[pyo3(signature = (lifecycle, geometry, frames, *, block_tokens))]
    fn new(
        lifecycle: Py<Lifecycle>,
        geometry: &Geometry,
        frames: List<GroupFrames>,
        block_tokens: u64,
    ) -> Self {
        let frames = frames.0.into_iter().map(|own| own.0).collect();
        let (geometry, block_tokens) = (Arc::clone(&geometry.0), Tokens::new(block_tokens));
        Self { lifecycle, geometry, frames, block_tokens }
    }

    /// The blocks and pages to be read into, where the effect `read` names the positions `first` to `end` of a request: tables for
    /// `Consumer.begin`. Rings and states come whole.
    ///
    /// Raises `TransportError` where the frames lack what the request has or are of another geometry, or the request is over.
    fn tables<'py>(&self, request: &Bound<'py, PyAny>, first: u32, end: u32) -> PyResult<Bound<'py, PyAny>> {
        let py = request.py();
        let id: RequestId = parsed("a request", request)?;
        let Self { geometry, frames, block_tokens, .. } = self;
        let tables = {
            let lifecycle = lock(py, &self.lifecycle.get().0)?;
            let over = || of_kind::<TransportError>("NoSuchRequest", "the request is over");
            let view = lifecycle.request(id).ok_or_else(over)?;
            let wanted = wanted::WantedBy { geometry, frames, block_tokens: *block_tokens, view };
            wanted.tables(id, first..end).or_raise()?
        };
        told(py, &tables)
    }

    fn __repr__(&self) -> String {
        format!("WantedBy({} groups)", self.frames.len())
    }
}

/// What a lifecycle is told when an import was begun that it asked for by the effect `read`: one read for each of the ranks from 0 to
/// `ranks`, or none where the tables want nothing. It comes before the import's end.
#[pyfunction]
#[pyo3(signature = (request, blocks, *, ranks=1))]
pub fn posted<'py>(request: &Bound<'py, PyAny>, blocks: Tables, ranks: u8) -> PyResult<Bound<'py, PyAny>> {
    let id: RequestId = parsed("a request", request)?;
    told(request.py(), &consumer::posted(id, Ranks::first(ranks), &blocks.0))
}
