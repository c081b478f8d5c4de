//! One rank's part of an engine: it does what the scheduler orders, and says what became of it.

use std::num::NonZeroU32;
use std::sync::Arc;

use pagelift::lifecycle::{
    GroupFrames as RustFrames, Lane, LifecycleOptions, Order, Rank, StepOptions, StepPlans,
};
use pagelift::plan::{PlanCapacity, RowCapacity, TailRows};
use pagelift::quantity::Bytes;
use pagelift::runner::{self, RunnerOptions};
use pagelift_bindings::runner::{Steps, bind, frames};
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use crate::backend::Backend;
use crate::data::{parsed, told};
use crate::error::{OrRaise, raised};
use crate::foreign::Interpreter;
use crate::geometry::Geometry;
use crate::held::Held;
use crate::keys::GroupKey;
use crate::locks::read;
use crate::memory::Registry;
use crate::rows::RowBinding;
use crate::stream::handle_of;
use crate::ticket::Counters;
use crate::words::{List, Numbers, Word};

/// Which blocks and pages of a group a lifecycle's numbers stand for: entry `n` of a list is the group's for number `n`.
///
/// A group that lifts its tail has `blocks` by the lifecycle's blocks and `pages` by its pages. One that has all of its pages on the
/// device has `each` pages for each slot of a request, by position. A ring has both by the slots of requests, a state its pages by the
/// slots of requests. Lists are sequences of integers or one-dimensional integer arrays on the host.
#[pyclass(frozen, from_py_object, module = "pagelift")]
#[derive(Clone)]
pub struct GroupFrames(pub RustFrames);

#[pymethods]
impl GroupFrames {
    #[new]
    #[pyo3(signature = (group, blocks, pages, *, each=None))]
    fn new(group: &GroupKey, blocks: Numbers, pages: Numbers, each: Option<u32>) -> PyResult<Self> {
        Ok(Self(frames(group.key, blocks.0, pages.0, each).or_raise()?))
    }

    fn __repr__(&self) -> String {
        words(&self.0)
    }
}

fn words(frames: &RustFrames) -> String {
    let (kind, blocks, pages) = match frames {
        RustFrames::Paged { blocks, pages, .. } => ("paged", blocks, pages),
        RustFrames::Whole { blocks, pages, .. } => ("whole", blocks, pages),
        RustFrames::Ring { blocks, pages, .. } => ("ring", blocks, pages),
        RustFrames::State { blocks, pages, .. } => ("state", blocks, pages),
        RustFrames::ReadOnly(frames) => return format!("{}, read only", words(frames)),
    };
    format!("GroupFrames({kind}, {} blocks, {} pages)", blocks.len(), pages.len())
}

/// What a step's plans have in them.
#[pyclass(frozen, get_all, module = "pagelift")]
pub struct Staged {
    /// Requests that are lifted.
    lifts: usize,
    /// States and pages that are written back.
    write_backs: usize,
    /// Requests whose step is mirrored.
    mirrors: usize,
    /// Why some of it could not be planned or staged, an exception, or `None`. The rank answers that it has failed, and the step goes
    /// on without.
    failed: Option<Py<PyAny>>,
}

#[pymethods]
impl Staged {
    /// An exception that was raised keeps the frames that it went through, and these what they have staged.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.failed)
    }

    fn __repr__(&self) -> String {
        let Self { lifts, write_backs, mirrors, failed } = self;
        let failed = if failed.is_some() { ", failed in part" } else { "" };
        format!("Staged(lifts={lifts}, write_backs={write_backs}, mirrors={mirrors}{failed})")
    }
}

/// One rank's steps: what they lift, mirror and write back, by one launch each.
///
/// In each step the rank hears its orders, stages its plans, and launches them around its forward, or replays the graph that they were
/// recorded into. It polls when it likes, and its events go to the scheduler's `Lifecycle`. None of it waits for a launch.
#[pyclass(frozen, module = "pagelift")]
pub struct Runner(Held<Box<dyn Steps<Interpreter>>>);

#[pymethods]
impl Runner {
    /// Binds a launcher for each of a rank's plans.
    ///
    /// `frames` say for each group which blocks and pages the lifecycle's numbers stand for. `options` are `Lifecycle.options` of the
    /// lifecycle whose orders it takes, and `rank` is one of its ranks: whether it writes host blocks, the lifecycle's `writers` say.
    /// `mode` is which rows of a partly filled page are lifted. `jobs`, `list_entries`, `bindings` and `changes` are the room of the
    /// plans, and there is always room for a change of each entry of the page maps where the rank writes. `slots` (1 to 64) is how many steps the host may be ahead, and the three
    /// `workers` are the most multiprocessors of each kind of launch. `stream` is as `set_stream` takes it.
    ///
    /// Raises `PlanError` where a group that is lifted has no frames or others than it needs, and for options that cannot be a
    /// lifecycle's, or not one's with this rank; `ValueError` for what is no options; and as `Launcher.bind` does.
    #[staticmethod]
    #[pyo3(signature = (
        backend, memory, geometry, frames, options, *, rank=0, mode=Word(TailRows::Whole), jobs=384, list_entries=8192, bindings=16,
        changes=1024, slots=4, lift_workers=None, write_back_workers=None, mirror_workers=None, stream=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn bind(
        py: Python<'_>,
        backend: &Backend,
        memory: &Registry,
        geometry: &Geometry,
        frames: List<GroupFrames>,
        options: &Bound<'_, PyAny>,
        rank: u8,
        mode: Word<TailRows>,
        jobs: u32,
        list_entries: u32,
        bindings: u32,
        changes: u32,
        slots: u32,
        lift_workers: Option<NonZeroU32>,
        write_back_workers: Option<NonZeroU32>,
        mirror_workers: Option<NonZeroU32>,
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let handle = stream.map(handle_of).transpose()?;
        let lifecycle: LifecycleOptions = parsed("a lifecycle's options", options)?;
        let frames = frames.0.into_iter().map(|frames| frames.0).collect();
        let step = StepOptions {
            pages: PlanCapacity { jobs, list_entries },
            rows: RowCapacity { jobs: bindings, changes },
            mode: mode.0,
        };
        let (rank, geometry) = (Rank::new(rank), Arc::clone(&geometry.0));
        let plans = StepPlans::new(rank, geometry, frames, lifecycle, step).or_raise()?;
        let launching = RunnerOptions { slots, lift_workers, write_back_workers, mirror_workers };
        let bound = {
            let registry = read(py, &memory.0.memory)?;
            let (registry, engine) = (&*registry, &backend.0);
            // It copies tables to a GPU, and waits for that.
            py.detach(|| bind(engine, registry, plans, launching))
        };
        let mut steps = bound.or_raise()?;
        steps.set_stream(handle).or_raise()?;
        memory.0.keep_stream(handle, stream)?;
        Ok(Self(Held::new(steps, &memory.0)))
    }

    /// Mirrors the rows of a paged or ring group that steps write, as `binding` will say on the device: `MirrorPlan.bind` of the
    /// runner's own plan. Where the rank writes host blocks, each such group that is written back has to be bound before a step begins.
    /// Raises as that does.
    fn bind_rows(&self, py: Python<'_>, group: &GroupKey, binding: &RowBinding) -> PyResult<()> {
        self.0.change(py, |steps| steps.bind_rows(group.key, binding.0).or_raise())
    }

    /// Forgets all bindings of rows.
    fn clear_bindings(&self, py: Python<'_>) -> PyResult<()> {
        self.0.change(py, |steps| {
            steps.clear_bindings();
            Ok(())
        })
    }

    /// Takes an order, a dictionary of `Lifecycle.orders`. Orders come in the scheduler's order, each exactly once; those that came before a
    /// step begins are carried out before its forward.
    ///
    /// Raises `ValueError` for what is no order, `PlanError` where a page cannot be mapped or unmapped, or the order is of another
    /// lifecycle's request: the rank is lost then.
    fn hear(&self, order: &Bound<'_, PyAny>) -> PyResult<()> {
        let heard: Order = parsed("an order", order)?;
        self.0.change(order.py(), |steps| steps.hear(heard).or_raise())
    }

    /// Plans the step and stages it: what is written back, lifts of at most `lift_bytes` bytes (one at least, where any waits; `None`
    /// is all), and mirrors. A step in which nothing is computed is staged too, until `is_idle`.
    ///
    /// Raises `RingFullError` and `CaptureError` where some of it can only be staged later: no forward of this step may run before a call
    /// succeeds. Raises `PlanError` where a step has begun, and rows that it writes are to be mirrored and not bound: nothing has changed
    /// then. Raises `LaunchError` where the rank is lost.
    #[pyo3(signature = (lift_bytes=None))]
    fn stage(&self, py: Python<'_>, lift_bytes: Option<u64>) -> PyResult<Staged> {
        let bytes = Bytes::new(lift_bytes.unwrap_or(u64::MAX));
        let staged = self.0.stage(py, |steps, memory| steps.stage(memory, bytes).or_raise())?;
        let runner::Staged { lifts, write_backs, mirrors, failed } = staged;
        let failed = failed.map(|error| raised(error).into_value(py).into_any());
        Ok(Staged { lifts, write_backs, mirrors, failed })
    }

    /// Launches what comes before a forward: what is written back, and lifts. Nothing, where nothing was staged since.
    ///
    /// Raises what the launches do. What was to be launched has failed then, and the rank answers so; the step may go on. Raises
    /// `LaunchError` where the rank is lost.
    fn before_forward(&self, py: Python<'_>) -> PyResult<()> {
        self.0.launch(py, |steps, memory| steps.before_forward(memory))
    }

    /// Launches what comes after a forward: its mirror. Raises what the launch does; what the step wrote is then written back by a later
    /// one. Raises `LaunchError` where the rank is lost.
    fn after_forward(&self, py: Python<'_>) -> PyResult<()> {
        self.0.launch(py, |steps, memory| steps.after_forward(memory))
    }

    /// Records what comes before a forward into the graph that the stream is being captured into. A step then is `stage` and `replay`.
    /// What `Launcher.record` asks for, this asks for too. Raises as that does, and `LaunchError` where the rank is lost.
    fn record_before_forward(&self, py: Python<'_>) -> PyResult<()> {
        self.0.record(py, |steps, memory| steps.record_before_forward(memory))
    }

    /// Records what comes after a forward; as `record_before_forward`.
    fn record_after_forward(&self, py: Python<'_>) -> PyResult<()> {
        self.0.record(py, |steps, memory| steps.record_after_forward(memory))
    }

    /// Runs the graph into which both were recorded, by calling `replay`, such as `graph.replay`: a function that does nothing else.
    ///
    /// Raises what `replay` does, `RegistryError` where a pool or an array is not registered any more, and `LaunchError` where `replay`
    /// itself launches or uses the registry. What is staged stays so: the engine replays again, or gives the rank up. Raises `LaunchError`
    /// too where the rank is lost, and as `stage` where a launch or a staging has failed before: what is left of it is overwritten first.
    fn replay(&self, py: Python<'_>, replay: &Bound<'_, PyAny>) -> PyResult<()> {
        self.0.replay(py, |steps, memory| steps.replay(memory, &mut || replay.call0().map(drop)))
    }

    /// Says what became of everything that has finished by now: a list of events, for `Lifecycle.apply`. It does not wait.
    fn poll<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mut said = Vec::new();
        self.0.change(py, |steps| {
            steps.poll(&mut said);
            Ok(())
        })?;
        told(py, &said)
    }

    /// Waits until every launch has finished, without the interpreter.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        self.0.wait(py, |steps| steps.wait())?.or_raise()
    }

    /// Whether it has nothing to do, and nothing in flight.
    #[getter]
    fn is_idle(&self, py: Python<'_>) -> PyResult<bool> {
        self.0.look(py, |steps| steps.is_idle())
    }

    /// Whether it does nothing more, because its GPU has failed, or it could not do as it was told.
    #[getter]
    fn is_lost(&self, py: Python<'_>) -> PyResult<bool> {
        self.0.look(py, |steps| steps.is_lost())
    }

    /// Uses another stream from now on, the one that its forwards run on; as `Launcher.set_stream`.
    #[pyo3(signature = (stream))]
    fn set_stream(&self, py: Python<'_>, stream: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let handle = stream.map(handle_of).transpose()?;
        self.0.change(py, |steps| steps.set_stream(handle).or_raise())?;
        self.0.memory().keep_stream(handle, stream)?;
        Ok(())
    }

    /// What was staged and launched for a kind of work: `"lift"`, `"write-back"` or `"mirror"`.
    fn counters(&self, py: Python<'_>, lane: Word<Lane>) -> PyResult<Counters> {
        self.0.look(py, |steps| steps.counters(lane.0).into())
    }

    /// Waits for its stream and frees its tables; as `Launcher.close`.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.0.close(py, |steps| steps.wait())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<&'static str> {
        let words = self.0.glance(py, |steps| match (steps.is_lost(), steps.is_idle()) {
            (true, _) => "Runner(lost)",
            (false, true) => "Runner(idle)",
            (false, false) => "Runner(busy)",
        });
        Ok(words?.unwrap_or("Runner(closed)"))
    }
}
