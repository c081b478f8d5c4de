//! A launcher of whichever backend and type of plan.

use std::ffi::c_void;

use pagelift::Error;
use pagelift::backends::{Backend as Runs, Launchable};
use pagelift::id::Ticket;
use pagelift::launcher::{Counters, Launcher, LauncherOptions, TicketState};
use pagelift::memory::Registry;
use pagelift::plan::{self, DeviceToDevice, DigestNumber, HostToDevice, PagePlan, RowPlan};

use crate::backend::Engine;
use crate::foreign::{self, Out, Streams};
use crate::plan::{AnyPlan, on_plan};
use crate::status::Outcome;

/// What all launchers can do.
pub trait Launches: Send + Sync {
    /// `None` for a plan of another type.
    fn stage(&mut self, memory: &Registry, plan: &mut AnyPlan) -> Option<Result<Ticket, Error>>;
    /// Runs the kernel.
    fn launch(&mut self, memory: &mut Registry) -> Result<(), Error>;
    /// Records the kernel.
    fn record(&mut self, memory: &mut Registry) -> Result<(), Error>;
    /// `None` is the backend's own stream. Returns whether the backend has one of that handle.
    fn set_stream(&mut self, handle: Option<Out<c_void>>) -> Result<bool, Error>;
    /// Waits for the stream.
    fn wait(&self) -> Result<(), Error>;
    /// What became of a ticket.
    fn state(&self, ticket: Ticket) -> TicketState;
    /// What it has done.
    fn counters(&self) -> Counters;
    /// `None` for a launcher of plans without digests.
    fn digest(&self, ticket: Ticket, number: DigestNumber) -> Option<Result<u64, Error>>;
    /// What its tickets are told by.
    fn id(&self) -> u64;
}

/// A type of plan, among all of them.
trait Variant: Launchable + Sized + Send + Sync + 'static {
    fn of(plan: &mut AnyPlan) -> Option<&mut Self>;

    fn digest<B: Runs>(
        _launcher: &Launcher<B, Self>,
        _ticket: Ticket,
        _number: DigestNumber,
    ) -> Option<Result<u64, Error>> {
        None
    }
}

macro_rules! variants {
    ($($variant:ident: $plan:ty $(, $digest:item)?;)+) => { $(
        impl Variant for $plan {
            fn of(plan: &mut AnyPlan) -> Option<&mut Self> {
                match plan {
                    AnyPlan::$variant(own) => Some(own),
                    _ => None,
                }
            }

            $($digest)?
        }
    )+ };
}

variants! {
    Restore: plan::RestorePlan;
    WriteBack: plan::WriteBackPlan;
    Across: PagePlan<DeviceToDevice>;
    RowsDown: RowPlan<HostToDevice>;
    Mirror: plan::MirrorPlan;
    RowsAcross: RowPlan<DeviceToDevice>;
    Digest: plan::DigestPlan,
        fn digest<B: Runs>(
            launcher: &Launcher<B, Self>,
            ticket: Ticket,
            number: DigestNumber,
        ) -> Option<Result<u64, Error>> {
            Some(launcher.digest(ticket, number))
        };
}

impl<B, P> Launches for Launcher<B, P>
where
    B: Streams + Send + Sync,
    B::Stream: Send + Sync,
    P: Variant,
{
    fn stage(&mut self, memory: &Registry, plan: &mut AnyPlan) -> Option<Result<Ticket, Error>> {
        P::of(plan).map(|plan| self.stage(memory, plan))
    }

    fn launch(&mut self, memory: &mut Registry) -> Result<(), Error> {
        self.launch(memory)
    }

    fn record(&mut self, memory: &mut Registry) -> Result<(), Error> {
        foreign::record(self, memory)
    }

    fn set_stream(&mut self, handle: Option<Out<c_void>>) -> Result<bool, Error> {
        let Some(stream) = foreign::stream_or_own(self.backend(), handle)? else { return Ok(false) };
        self.set_stream(&stream).map(|()| true)
    }

    fn wait(&self) -> Result<(), Error> {
        self.wait()
    }

    fn state(&self, ticket: Ticket) -> TicketState {
        self.state(ticket)
    }

    fn counters(&self) -> Counters {
        self.counters()
    }

    fn digest(&self, ticket: Ticket, number: DigestNumber) -> Option<Result<u64, Error>> {
        P::digest(self, ticket, number)
    }

    fn id(&self) -> u64 {
        self.id()
    }
}

/// Binds a launcher.
pub fn bind(
    engine: &Engine,
    memory: &Registry,
    plan: &mut AnyPlan,
    options: LauncherOptions,
) -> Outcome<Box<dyn Launches>> {
    match engine {
        Engine::Cpu(cpu) => bind_on(cpu, memory, plan, options),
        Engine::Cuda(gpu) => bind_on(gpu, memory, plan, options),
    }
}

fn bind_on<B>(
    backend: &B,
    memory: &Registry,
    plan: &mut AnyPlan,
    options: LauncherOptions,
) -> Outcome<Box<dyn Launches>>
where
    B: Streams + Clone + Send + Sync + 'static,
    B::Stream: Send + Sync,
{
    on_plan!(plan, plan => Ok(Box::new(Launcher::bind(backend.clone(), memory, plan, options)?)))
}
