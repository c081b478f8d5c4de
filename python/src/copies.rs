//! Page plans by the GPU's copy engines.

use std::sync::Arc;

use pagelift::backends::{self, Backend as _, CopyCalls, CopyMethod, CudaStream};
use pagelift::memory::Registry as RustRegistry;
use pagelift::plan::{Direction, PagePlan as RustPages};
use pagelift_bindings::plan::AnyPlan;
use pagelift_bindings::{Boundary as _, Result};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::backend::Cuda;
use crate::error::OrRaise;
use crate::foreign::{self, Interpreter};
use crate::held::Held;
use crate::locks::turn;
use crate::memory::Registry;
use crate::plan::Plan;
use crate::stream::handle_of;
use crate::words::Word;

/// A stream that copies are enqueued on; its handle is `None` where it is the backend's own.
struct Open {
    gpu: Arc<backends::Cuda>,
    stream: CudaStream,
    handle: Option<u64>,
}

/// Carries out page plans by a GPU's copy engines, on one stream: without a multiprocessor, and outside of captures.
///
/// It has no table and no tickets: a plan is enqueued when it is copied, and a `CudaEvent` says when it is done. Copy engines are as
/// fast as a kernel, or faster, where pieces have a megabyte or more: `chosen` says so of a plan. `stream` is as
/// `Launcher.set_stream` takes it.
#[pyclass(frozen, module = "pagelift")]
pub struct CopyEngine {
    held: Held<Open>,
}

#[pymethods]
impl CopyEngine {
    #[new]
    #[pyo3(signature = (backend, memory, *, stream=None))]
    fn new(backend: &Cuda, memory: &Registry, stream: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let handle = stream.map(handle_of).transpose()?;
        let own = on_gpu(&backend.gpu, handle)?;
        memory.0.keep_stream(handle, stream)?;
        let open = Open { gpu: Arc::clone(&backend.gpu), stream: own, handle };
        Ok(Self { held: Held::new(open, &memory.0) })
    }

    /// Copies what a page plan says, after what is on the stream, and returns before that has finished: the stream passes the event
    /// then. `calls` is `"each"` (a call of the driver for each run) or `"batch"` (one for all, of drivers for CUDA 12.8 and later, on
    /// streams other than the default one).
    ///
    /// Raises `RegistryError` where a pool is not registered, `CaptureError` while the stream is being captured, `BackendError` where
    /// there are no batches, `TypeError` for a plan of rows or digests. Nothing was enqueued then.
    #[pyo3(signature = (plan, calls=Word(CopyCalls::Each)))]
    fn copy(&self, py: Python<'_>, plan: &Plan, calls: Word<CopyCalls>) -> PyResult<CudaEvent> {
        let (plan, calls) = (turn(py, &plan.0)?, calls.0);
        let pages = Pages::of(&plan)?;
        let mut done = None;
        self.held.launch(py, |open, memory| {
            done = Some(pages.copy(open, memory, calls)?);
            Ok(())
        })?;
        done.map(CudaEvent).ok_or_else(|| PyTypeError::new_err("nothing was copied"))
    }

    /// Records a page plan's copies into the graph that the stream is being captured into, a call for each run. Each replay copies the
    /// same blocks again. What `Launcher.record` asks for, this asks for too.
    ///
    /// Raises `CaptureError` where the stream is not being captured, and as `copy`.
    fn record(&self, py: Python<'_>, plan: &Plan) -> PyResult<()> {
        let plan = turn(py, &plan.0)?;
        let pages = Pages::of(&plan)?;
        self.held.record(py, |open, memory| pages.record(open, memory))
    }

    /// What carries out a page plan best on this stream: `"kernel"` (a `Launcher`), `"each"` or `"batch"` (`copy` with that word). A
    /// kernel while the stream is being captured, for copies on the device, and for pieces that are small on average.
    ///
    /// Raises `TypeError` for a plan of rows or digests, and what the driver says.
    fn chosen(&self, py: Python<'_>, plan: &Plan) -> PyResult<&'static str> {
        let plan = turn(py, &plan.0)?;
        let pages = Pages::of(&plan)?;
        let chosen = self.held.look(py, |open| pages.chosen(open))?.or_raise()?;
        Ok(match chosen {
            CopyMethod::Copies(CopyCalls::Each) => "each",
            CopyMethod::Copies(CopyCalls::Batch) => "batch",
            CopyMethod::Kernel | CopyMethod::Auto => "kernel",
        })
    }

    /// Uses another stream from now on; as `Launcher.set_stream`.
    #[pyo3(signature = (stream))]
    fn set_stream(&self, py: Python<'_>, stream: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let handle = stream.map(handle_of).transpose()?;
        self.held.change(py, |open| {
            let own = on_gpu(&open.gpu, handle)?;
            open.gpu.copy_engine_on(&open.stream).set_stream(&own).or_raise()?;
            (open.stream, open.handle) = (own, handle);
            Ok(())
        })?;
        self.held.memory().keep_stream(handle, stream)?;
        Ok(())
    }

    /// Lets its stream go, at once: what it has enqueued there goes on. Later calls raise `LaunchError`. One that was recorded is closed
    /// when no graph with it will be replayed any more.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.held.close(py, |_| Ok(()))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(match self.held.glance(py, |open| open.handle)? {
            Some(Some(stream)) => format!("CopyEngine(stream {stream:#x})"),
            Some(None) => "CopyEngine()".to_owned(),
            None => "CopyEngine(closed)".to_owned(),
        })
    }
}

/// What a GPU's stream passes when all that was enqueued before it is done.
#[pyclass(frozen, module = "pagelift")]
pub struct CudaEvent(backends::CudaEvent);

#[pymethods]
impl CudaEvent {
    /// Whether the stream has passed it. It does not wait. Raises `ContextLostError` where something before it failed.
    fn is_passed(&self) -> PyResult<bool> {
        self.0.is_passed().or_raise()
    }

    /// Waits until the stream has passed it; the interpreter is released meanwhile. Raises as `is_passed`.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.wait()).or_raise()
    }

    fn __repr__(&self) -> String {
        match self.0.is_passed() {
            Ok(true) => "CudaEvent(passed)".to_owned(),
            Ok(false) => "CudaEvent(not passed)".to_owned(),
            Err(error) => format!("CudaEvent({error})"),
        }
    }
}

/// A page plan of any direction.
enum Pages<'p> {
    Restore(&'p RustPages<pagelift::plan::HostToDevice>),
    WriteBack(&'p RustPages<pagelift::plan::DeviceToHost>),
    Across(&'p RustPages<pagelift::plan::DeviceToDevice>),
}

/// The same in whichever direction.
macro_rules! on_pages {
    ($pages:expr, $own:ident => $body:expr) => {
        match $pages {
            Pages::Restore($own) => $body,
            Pages::WriteBack($own) => $body,
            Pages::Across($own) => $body,
        }
    };
}

impl<'p> Pages<'p> {
    fn of(plan: &'p AnyPlan) -> PyResult<Self> {
        Ok(match plan {
            AnyPlan::Restore(plan) => Self::Restore(plan),
            AnyPlan::WriteBack(plan) => Self::WriteBack(plan),
            AnyPlan::Across(plan) => Self::Across(plan),
            _ => return Err(PyTypeError::new_err("a copy engine takes page plans; launch this one")),
        })
    }

    fn copy(&self, open: &Open, memory: &mut RustRegistry, calls: CopyCalls) -> Result<backends::CudaEvent> {
        let mut engine = open.gpu.copy_engine_on(&open.stream);
        Ok(on_pages!(self, plan => engine.copy(memory, *plan, calls))?)
    }

    fn record(&self, open: &Open, memory: &mut RustRegistry) -> Result {
        fn each<D: Direction>(open: &Open, memory: &mut RustRegistry, plan: &RustPages<D>) -> Result {
            Ok(foreign::record_copies(&mut open.gpu.copy_engine_on(&open.stream), memory, plan)?)
        }
        on_pages!(self, plan => each(open, memory, plan))
    }

    fn chosen(&self, open: &Open) -> Result<CopyMethod> {
        Ok(on_pages!(self, plan => CopyMethod::Auto.resolve(&open.gpu, &open.stream, plan))?)
    }
}

/// The stream of a handle, or the backend's own.
fn on_gpu(gpu: &Arc<backends::Cuda>, handle: Option<u64>) -> PyResult<CudaStream> {
    handle.map_or_else(|| Ok(gpu.stream()), |handle| Interpreter::stream(gpu, handle)).or_raise()
}
