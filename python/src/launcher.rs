//! Stages plans, launches them, and records launches into graphs.

use std::num::NonZeroU32;

use pagelift::launcher::{LauncherOptions, TicketState};
use pagelift_bindings::launcher::{Launches, bind};
use pyo3::prelude::*;

use crate::backend::Backend;
use crate::error::OrRaise;
use crate::foreign::Interpreter;
use crate::held::Held;
use crate::locks::{read, turn};
use crate::memory::Registry;
use crate::plan::{DigestNumber, Plan};
use crate::stream::handle_of;
use crate::ticket::{self, Counters, Report, Ticket};

/// A launcher, and the stream that it was given; `None` for the backend's own.
struct Open {
    launcher: Box<dyn Launches<Interpreter>>,
    stream: Option<u64>,
}

/// Stages plans of one type, and launches them on one stream.
///
/// A staged plan takes effect in exactly one launch, or replay of a graph that the launcher was recorded into. `stage` and `launch`
/// are hot calls: they take no lists. On a GPU they return before the work has run, in the order of the stream.
#[pyclass(frozen, module = "pagelift")]
pub struct Launcher {
    held: Held<Open>,
    id: u64,
    backend: &'static str,
}

#[pymethods]
impl Launcher {
    /// Binds a launcher for plans with the type, the geometry and the capacity of `plan`, whose pools are registered in `memory`.
    ///
    /// `slots` (1 to 64) is how many plans may be in flight. `workers` is the most multiprocessors of a GPU, or warps on a CPU, that
    /// a launch may use; `None` leaves it to the backend. With `repeat`, a staged plan runs in every launch until the next one is
    /// staged; its ticket is done when it has run once, and says nothing of later runs. `stream` is as `set_stream` takes it. The launcher takes the page map of a row plan into its keeping: that plan alone
    /// can be staged, and by this launcher alone.
    ///
    /// Raises `RegistryError` where a pool is not registered or there is no memory for the tables, `LaunchError` for wrong options.
    #[staticmethod]
    #[pyo3(signature = (backend, memory, plan, *, slots=4, workers=None, repeat=false, stream=None))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn bind(
        py: Python<'_>,
        backend: &Backend,
        memory: &Registry,
        plan: &Plan,
        slots: u32,
        workers: Option<NonZeroU32>,
        repeat: bool,
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let handle = stream.map(handle_of).transpose()?;
        let options = LauncherOptions { slots, workers, repeat };
        let bound = {
            let mut own = turn(py, &plan.0)?;
            let registry = read(py, &memory.0.memory)?;
            let (plan, registry, engine) = (&mut *own, &*registry, &backend.0);
            // It copies tables to a GPU, and waits for that.
            py.detach(|| bind(engine, registry, plan, options, handle))
        };
        let open = Open { launcher: bound.or_raise()?, stream: handle };
        let id = open.launcher.id();
        memory.0.keep_stream(handle, stream)?;
        Ok(Self { held: Held::new(open, &memory.0), id, backend: backend.0.name() })
    }

    /// Stages a plan: the next launch or replay carries it out. A plan staged before and not launched yet is superseded. Page-map
    /// changes take effect at once. Returns its `Ticket`.
    ///
    /// Raises `RingFullError` where all slots are in flight, `CaptureError` while the stream is being captured, `LaunchError` for a
    /// plan of another geometry or larger capacity, or another launcher's mirror plan, `RegistryError` where an array is not
    /// registered, `TypeError` for a plan of another type. What was staged before still runs then. Where the driver fails instead, this
    /// plan may run in its place, under no ticket, until another was staged: an empty one will do.
    fn stage(&self, py: Python<'_>, plan: &Plan) -> PyResult<Ticket> {
        let mut plan = turn(py, &plan.0)?;
        self.held.stage(py, |open, memory| Ok(Ticket(open.launcher.stage(memory, &mut plan).or_raise()?)))
    }

    /// Runs the kernel once on the staged plan. Without one that has not run yet it does nothing. On a GPU it returns before that
    /// has finished, on the CPU afterwards; the interpreter is released meanwhile.
    ///
    /// Raises `CaptureError` while the stream is being captured, `RegistryError` where a pool or an array was released: nothing ran
    /// then. Where the driver fails, the plan may run all the same: wait, and ask its ticket.
    fn launch(&self, py: Python<'_>) -> PyResult<()> {
        self.held.launch(py, |open, memory| open.launcher.launch(memory))
    }

    /// Records the kernel into the graph that its stream is being captured into, such as inside
    /// `torch.cuda.graph(graph, stream=stream)`. Each replay then carries out the plan that is staged at that time, once; a replay
    /// without one does nothing.
    ///
    /// Set the launcher's stream to the one that is captured before the capture begins, and to the one that replays are on after it
    /// has ended, where that is another. Replay on the launcher's stream, or in its order: each replay after the `stage` before it.
    /// Until it has finished, leave alone what it touches: the registry does not know of replays. A launcher may be recorded into any
    /// number of graphs. It, its registry and the tensors there live until `close`, or for ever; close it when no graph with it will
    /// be replayed any more.
    ///
    /// Raises `CaptureError` where the stream is not being captured, and as `launch` does.
    fn record(&self, py: Python<'_>) -> PyResult<()> {
        self.held.record(py, |open, memory| open.launcher.record(memory))
    }

    /// Uses another stream from now on: an integer (`cudaStream_t`; 0 is the default stream), `torch.cuda.current_stream()`, an object
    /// with `__cuda_stream__`, or `None` for a stream of the backend's own. It is one of the launcher's GPU. What is enqueued there
    /// comes after all that is on the one before; where both are the same stream nothing is done, so that an engine may say its stream
    /// in every step.
    ///
    /// The stream lives as long as launchers and the registry use it: the registry waits for it before memory goes. An object is kept
    /// with the registry, the last one of each type for a stream; what a number stands for, or an object that does not own its stream,
    /// is kept by the caller. Do not begin a capture of it in one thread while another one stages or launches on it.
    ///
    /// Raises `TypeError` for anything else, `CaptureError` while one of the two is being captured, `LaunchError` for a stream of the
    /// CPU backend, which has none. The launcher stays on its stream then.
    #[pyo3(signature = (stream))]
    fn set_stream(&self, py: Python<'_>, stream: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let handle = stream.map(handle_of).transpose()?;
        self.held.change(py, |open| open.switch(handle))?;
        self.held.memory().keep_stream(handle, stream)?;
        Ok(())
    }

    /// Waits until everything on its stream has finished; the interpreter is released meanwhile. Raises `CaptureError` while the stream
    /// is being captured, `ContextLostError` where some of it failed.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        self.held.wait(py, |open| open.launcher.wait())?.or_raise()
    }

    /// What became of a ticket: a look at memory, and no call of a driver.
    ///
    /// `"pending"`: it may still run. `"done"`: its last copy is complete and visible to the host. `"superseded"`: overwritten before a
    /// launch saw it; plan its work again. `"refused"`: its table was of another version. `"lost"`: a fault took the context.
    /// `"unknown"`: settled too long ago to be remembered, or another launcher's.
    fn state(&self, py: Python<'_>, ticket: &Ticket) -> PyResult<&'static str> {
        Ok(ticket::word(self.look(py, ticket)?))
    }

    /// Whether a ticket's state is `"done"`.
    fn is_done(&self, py: Python<'_>, ticket: &Ticket) -> PyResult<bool> {
        Ok(matches!(self.look(py, ticket)?, TicketState::Done(_)))
    }

    /// What the launch reported of a ticket's plan, or `None` where it is not done.
    fn report(&self, py: Python<'_>, ticket: &Ticket) -> PyResult<Option<Report>> {
        Ok(match self.look(py, ticket)? {
            TicketState::Done(report) => Some(report.into()),
            _ => None,
        })
    }

    /// The digest that a call added to the plan which was staged as `ticket`: an integer of 64 bits. Results are kept until the next
    /// plan is staged. Raises `LaunchError` before the ticket is done, and where there are no such results (any more).
    fn digest(&self, py: Python<'_>, ticket: &Ticket, number: &DigestNumber) -> PyResult<u64> {
        self.held.wait(py, |open| open.launcher.digest(ticket.0, number.0))?.or_raise()
    }

    /// What this launcher has done.
    fn counters(&self, py: Python<'_>) -> PyResult<Counters> {
        self.held.look(py, |open| open.launcher.counters().into())
    }

    /// What its tickets are told by: no other launcher of this process has the same.
    #[getter]
    fn id(&self) -> u64 {
        self.id
    }

    /// `"cpu"` or `"cuda"`.
    #[getter]
    fn backend(&self) -> &'static str {
        self.backend
    }

    /// Waits for its stream and frees its tables. Later calls raise `LaunchError`. One that was recorded is closed when no graph with
    /// it will be replayed any more: such a replay would touch memory that is gone.
    ///
    /// Raises `CaptureError` where it cannot wait, because its stream is being captured, or is the default stream and another one is.
    /// It is open then.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.held.close(py, |open| open.launcher.wait())
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _class: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let Self { id, backend, .. } = self;
        Ok(match self.held.glance(py, |open| open.stream)? {
            Some(Some(stream)) => format!("Launcher({id}, {backend}, stream {stream:#x})"),
            Some(None) => format!("Launcher({id}, {backend})"),
            None => format!("Launcher({id}, {backend}, closed)"),
        })
    }
}

impl Launcher {
    fn look(&self, py: Python<'_>, ticket: &Ticket) -> PyResult<TicketState> {
        self.held.look(py, |open| open.launcher.state(ticket.0))
    }
}

impl Open {
    /// Uses a stream from now on.
    fn switch(&mut self, stream: Option<u64>) -> PyResult<()> {
        self.launcher.set_stream(stream).or_raise()?;
        self.stream = stream;
        Ok(())
    }
}
