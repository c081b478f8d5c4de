//! A runner of any backend.

use pagelift::launcher::Counters;
use pagelift::lifecycle::{Event, GroupFrames, Lane, Order, StepPlans};
use pagelift::memory::Registry;
use pagelift::plan::RowBinding;
use pagelift::quantity::Bytes;
use pagelift::runner::{Runner, RunnerOptions, Staged};

use crate::boundary::{Boundary, Engine, Shared};
use crate::keys::{AnyGroup, ByKind};
use crate::plan::{self, ids};
use crate::{Error, Mismatch, Result, on_engine};

/// What all runners can do, in a language `L`. The calls are those of [`Runner`].
pub trait Steps<L: Boundary>: Send + Sync {
    /// Mirrors the rows of a group that steps write, as [`AnyPlan::bind`](crate::plan::AnyPlan::bind) of the runner's own plan.
    ///
    /// # Errors
    /// As that.
    fn bind_rows(&mut self, group: AnyGroup, binding: RowBinding) -> Result;

    /// Forgets all bindings of rows.
    fn clear_bindings(&mut self);

    /// Takes an order.
    ///
    /// # Errors
    /// As [`Runner::hear`].
    fn hear(&mut self, order: Order) -> Result;

    /// Plans the step and stages it.
    ///
    /// # Errors
    /// As [`Runner::stage`].
    fn stage(&mut self, memory: &Registry, lift_bytes: Bytes) -> Result<Staged>;

    /// Launches what comes before a forward.
    ///
    /// # Errors
    /// As [`Runner::before_forward`].
    fn before_forward(&mut self, memory: &mut Registry) -> Result;

    /// Launches what comes after a forward.
    ///
    /// # Errors
    /// As [`Runner::after_forward`].
    fn after_forward(&mut self, memory: &mut Registry) -> Result;

    /// Records what comes before a forward into a graph.
    ///
    /// # Errors
    /// As [`Runner::record_before_forward`].
    fn record_before_forward(&mut self, memory: &mut Registry) -> Result;

    /// Records what comes after a forward into a graph.
    ///
    /// # Errors
    /// As [`Runner::record_after_forward`].
    fn record_after_forward(&mut self, memory: &mut Registry) -> Result;

    /// Runs the graph into which both were recorded, by `replay`.
    ///
    /// # Errors
    /// As [`Runner::replay`], by the language's own errors.
    fn replay(
        &mut self,
        memory: &mut Registry,
        replay: &mut dyn FnMut() -> std::result::Result<(), L::Failure>,
    ) -> std::result::Result<(), L::Failure>;

    /// Adds what became of everything that has finished by now.
    fn poll(&mut self, said: &mut Vec<Event<'static>>);

    /// Waits until every launch has finished.
    ///
    /// # Errors
    /// As [`Runner::wait`].
    fn wait(&self) -> Result;

    /// Whether it has nothing to do.
    fn is_idle(&self) -> bool;

    /// Whether it does nothing more.
    fn is_lost(&self) -> bool;

    /// What was staged and launched for a kind of work.
    fn counters(&self, lane: Lane) -> Counters;

    /// Uses another stream; `None` is the backend's own.
    ///
    /// # Errors
    /// [`Mismatch::NoStreams`], and as [`Runner::set_stream`].
    fn set_stream(&mut self, stream: Option<L::Stream>) -> Result;
}

/// Binds a runner; see [`Runner::bind`].
///
/// # Errors
/// As that.
pub fn bind<L: Boundary>(
    engine: &Engine,
    memory: &Registry,
    plans: StepPlans,
    options: RunnerOptions,
) -> Result<Box<dyn Steps<L>>> {
    on_engine!(engine, backend => bind_on(backend, memory, plans, options))
}

fn bind_on<L: Boundary, B: Shared<L>>(
    backend: &B,
    memory: &Registry,
    plans: StepPlans,
    options: RunnerOptions,
) -> Result<Box<dyn Steps<L>>> {
    let runner = Runner::bind(backend.clone(), memory, plans, options)?;
    Ok(Box::new(OnBackend { runner, backend: backend.clone() }))
}

/// Which blocks and pages of a group a lifecycle's numbers stand for; `each` is the pages for each request, of a paged group that is
/// whole on the device.
///
/// # Errors
/// [`Mismatch::Each`] where such a number is said of another kind of group.
pub fn frames(group: AnyGroup, blocks: Vec<u32>, pages: Vec<u32>, each: Option<u32>) -> Result<GroupFrames> {
    let (blocks, pages) = (ids(blocks), ids(pages));
    Ok(match (group, each) {
        (ByKind::Paged(group), None) => GroupFrames::Paged { group, blocks, pages },
        (ByKind::Paged(group), Some(each)) => GroupFrames::Whole { group, blocks, pages, each },
        (ByKind::Ring(group), None) => GroupFrames::Ring { group, blocks, pages },
        (ByKind::State(group), None) => GroupFrames::State { group, blocks, pages },
        (other, Some(_)) => return Err(Mismatch::Each { found: other.kind() }.into()),
    })
}

/// A runner, and its backend.
struct OnBackend<B: pagelift::backends::Backend> {
    runner: Runner<B>,
    backend: B,
}

/// Why a graph was not replayed, as a language says it.
struct Unplayed<L: Boundary>(L::Failure);

impl<L: Boundary> From<pagelift::Error> for Unplayed<L> {
    fn from(error: pagelift::Error) -> Self {
        Self(L::failure(Error::Library(error)))
    }
}

impl<L: Boundary, B: Shared<L>> Steps<L> for OnBackend<B> {
    fn bind_rows(&mut self, group: AnyGroup, binding: RowBinding) -> Result {
        plan::bind(self.runner.mirror_plan(), group, binding)
    }

    fn clear_bindings(&mut self) {
        self.runner.mirror_plan().clear_bindings();
    }

    fn hear(&mut self, order: Order) -> Result {
        Ok(self.runner.hear(order)?)
    }

    fn stage(&mut self, memory: &Registry, lift_bytes: Bytes) -> Result<Staged> {
        Ok(self.runner.stage(memory, lift_bytes)?)
    }

    fn before_forward(&mut self, memory: &mut Registry) -> Result {
        Ok(self.runner.before_forward(memory)?)
    }

    fn after_forward(&mut self, memory: &mut Registry) -> Result {
        Ok(self.runner.after_forward(memory)?)
    }

    fn record_before_forward(&mut self, memory: &mut Registry) -> Result {
        Ok(L::record_before_forward(&mut self.runner, memory)?)
    }

    fn record_after_forward(&mut self, memory: &mut Registry) -> Result {
        Ok(L::record_after_forward(&mut self.runner, memory)?)
    }

    fn replay(
        &mut self,
        memory: &mut Registry,
        replay: &mut dyn FnMut() -> std::result::Result<(), L::Failure>,
    ) -> std::result::Result<(), L::Failure> {
        self.runner.replay(memory, || replay().map_err(Unplayed::<L>)).map_err(|Unplayed(failure)| failure)
    }

    fn poll(&mut self, said: &mut Vec<Event<'static>>) {
        self.runner.poll(|event| said.push(event));
    }

    fn wait(&self) -> Result {
        Ok(self.runner.wait()?)
    }

    fn is_idle(&self) -> bool {
        self.runner.is_idle()
    }

    fn is_lost(&self) -> bool {
        self.runner.is_lost()
    }

    fn counters(&self, lane: Lane) -> Counters {
        self.runner.counters(lane)
    }

    fn set_stream(&mut self, stream: Option<L::Stream>) -> Result {
        let stream = self.backend.stream_or_own(stream)?;
        Ok(self.runner.set_stream(&stream)?)
    }
}
