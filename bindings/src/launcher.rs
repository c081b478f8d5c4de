//! A launcher of any backend and type of plan.

use std::any::Any;

use pagelift::id::Ticket;
use pagelift::launcher::{Counters, Launcher, LauncherOptions, TicketState};
use pagelift::memory::Registry;
use pagelift::plan::{DigestNumber, DigestPlan};

use crate::boundary::{Boundary, Engine, Shared};
use crate::plan::{AnyPlan, Variant, on_plan};
use crate::{Mismatch, Result, on_engine};

/// What all launchers can do, in a language `L`. The calls are those of [`Launcher`].
pub trait Launches<L: Boundary>: Send + Sync {
    /// Stages a plan.
    ///
    /// # Errors
    /// [`Mismatch::Launcher`] for another type of plan, and as [`Launcher::stage`].
    fn stage(&mut self, memory: &Registry, plan: &mut AnyPlan) -> Result<Ticket>;

    /// Runs the kernel.
    ///
    /// # Errors
    /// As [`Launcher::launch`].
    fn launch(&mut self, memory: &mut Registry) -> Result;

    /// Records the kernel into a graph.
    ///
    /// # Errors
    /// As [`Launcher::record`].
    fn record(&mut self, memory: &mut Registry) -> Result;

    /// Uses another stream; `None` is the backend's own.
    ///
    /// # Errors
    /// [`Mismatch::NoStreams`], and as [`Launcher::set_stream`].
    fn set_stream(&mut self, stream: Option<L::Stream>) -> Result;

    /// Waits for its stream.
    ///
    /// # Errors
    /// As [`Launcher::wait`].
    fn wait(&self) -> Result;

    /// What became of a ticket.
    fn state(&self, ticket: Ticket) -> TicketState;

    /// A digest of a plan that is done.
    ///
    /// # Errors
    /// [`Mismatch::Plan`] but for a launcher of digest plans, and as [`Launcher::digest`].
    fn digest(&self, ticket: Ticket, number: DigestNumber) -> Result<u64>;

    /// What it has done.
    fn counters(&self) -> Counters;

    /// What its tickets are told by.
    fn id(&self) -> u64;
}

/// Binds a launcher for plans like this one, on a stream, or on the backend's own; see [`Launcher::bind_on`].
///
/// # Errors
/// [`Mismatch::NoStreams`], and as that.
pub fn bind<L: Boundary>(
    engine: &Engine,
    memory: &Registry,
    plan: &mut AnyPlan,
    options: LauncherOptions,
    stream: Option<L::Stream>,
) -> Result<Box<dyn Launches<L>>> {
    on_engine!(engine, backend => bind_on(backend, memory, plan, options, stream))
}

fn bind_on<L: Boundary, B: Shared<L>>(
    backend: &B,
    memory: &Registry,
    plan: &mut AnyPlan,
    options: LauncherOptions,
    stream: Option<L::Stream>,
) -> Result<Box<dyn Launches<L>>> {
    let own = backend.clone();
    let Some(stream) = stream else {
        return on_plan!(plan, plan => Ok(Box::new(Launcher::bind(own, memory, plan, options)?)));
    };
    let stream = backend.stream_or_own(Some(stream))?;
    on_plan!(plan, plan => Ok(Box::new(Launcher::bind_on(own, memory, plan, options, &stream)?)))
}

impl<L, B, P> Launches<L> for Launcher<B, P>
where
    L: Boundary,
    B: Shared<L>,
    P: Variant,
{
    fn stage(&mut self, memory: &Registry, plan: &mut AnyPlan) -> Result<Ticket> {
        let mismatch = Mismatch::Launcher { expected: P::WORDS, found: plan.name() };
        Ok(self.stage(memory, P::of(plan).ok_or(mismatch)?)?)
    }

    fn launch(&mut self, memory: &mut Registry) -> Result {
        Ok(self.launch(memory)?)
    }

    fn record(&mut self, memory: &mut Registry) -> Result {
        Ok(L::record(self, memory)?)
    }

    fn set_stream(&mut self, stream: Option<L::Stream>) -> Result {
        let stream = self.backend().stream_or_own(stream)?;
        Ok(self.set_stream(&stream)?)
    }

    fn wait(&self) -> Result {
        Ok(self.wait()?)
    }

    fn state(&self, ticket: Ticket) -> TicketState {
        self.state(ticket)
    }

    fn digest(&self, ticket: Ticket, number: DigestNumber) -> Result<u64> {
        let mismatch = Mismatch::Plan { expected: DigestPlan::WORDS, found: P::WORDS };
        let own = (self as &dyn Any).downcast_ref::<Launcher<B, DigestPlan>>().ok_or(mismatch)?;
        Ok(own.digest(ticket, number)?)
    }

    fn counters(&self) -> Counters {
        self.counters()
    }

    fn id(&self) -> u64 {
        self.id()
    }
}
