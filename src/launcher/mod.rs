//! Stages plans and launches them.
//!
//! A launcher has one job table at a fixed address and a ring of staging slots. [`Launcher::stage`] encodes a plan into
//! a free slot and copies it into the table; [`Launcher::launch`] runs the kernel on whatever the table holds. A staged
//! plan takes effect in exactly one launch: the kernel remembers the last ticket that it carried out.
//!
//! | ticket | means |
//! |---|---|
//! | [`Pending`](TicketState::Pending) | staged; a launch has not finished with it |
//! | [`Done`](TicketState::Done) | carried out, and visible to the host |
//! | [`Superseded`](TicketState::Superseded) | overwritten before a launch saw it: plan its work again |
//! | [`Refused`](TicketState::Refused) | its table was of another version, and nothing was moved |
//! | [`Lost`](TicketState::Lost) | a fault took the GPU's context before |
//! | [`Unknown`](TicketState::Unknown) | settled too long ago, or another launcher's |

mod counters;
mod digests;
mod ring;

use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};

use pagelift_planner::id::Ticket;
use pagelift_planner::plan::Staging;
use pagelift_planner::quantity::Bytes;

pub use counters::Counters;
pub use ring::{Report, TicketState};

use crate::backends::{Backend, Bound, Launchable, Range, range, refuse_capture};
use crate::error::{BackendError, Error, LaunchError};
use crate::memory::Registry;
use digests::Results;
use ring::Ring;

/// Tells launchers apart; 0 is none.
static IDS: AtomicU64 = AtomicU64::new(1);

/// How a launcher stages and launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LauncherOptions {
    /// Staging slots: how many plans may be in flight. 1 to 64.
    pub slots: u32,
    /// The most workers that a launch may use (multiprocessors of a GPU, warps on a CPU); `None` leaves it to the
    /// backend.
    pub workers: Option<NonZeroU32>,
    /// Whether a staged plan runs in every launch until the next one is staged, and not only in the first. Its ticket is
    /// [`Done`](TicketState::Done) when it has run once, and says nothing of later runs: that one of these is done, its stream says
    /// ([`Launcher::wait`]), or an event that it passes afterwards.
    pub repeat: bool,
}

impl Default for LauncherOptions {
    /// Four slots, so that the host may be two steps ahead; workers as the backend likes; each plan once.
    fn default() -> Self {
        Self { slots: 4, workers: None, repeat: false }
    }
}

/// Launches plans of type `P` on backend `B`.
///
/// See the crate's example. Its methods take `&mut self` and the registry, which lends no byte to the host while a launch may
/// touch it. Launches on one stream run one after the other, whosever they are. Those on several streams run beside each other:
/// where one needs what another has done, let its stream [wait](crate::backends::CudaStream::wait_for) for an event. A launch on
/// the CPU waits for all launches of its registry.
#[derive(Debug)]
pub struct Launcher<B: Backend, P> {
    /// Tells its tickets and its plan from others'.
    id: u64,
    bound: Bound<B>,
    ring: Ring,
    options: LauncherOptions,
    stream: B::Stream,
    counters: Counters,
    /// Whose results there are, or will be: the plan's that was staged last.
    results: Option<Results>,
    plan: PhantomData<fn(P)>,
}

impl<B: Backend, P: Launchable> Launcher<B, P> {
    /// Binds a launcher for plans with the geometry and the capacity of `plan`. It takes the page maps of a row plan into
    /// its keeping: that plan alone can be staged, and by this launcher alone.
    ///
    /// # Errors
    /// Where a pool of the geometry is not registered, there is no memory for the tables, `slots` is 0 or more than 64,
    /// or plans of this type may not be repeated.
    pub fn bind(
        backend: B,
        memory: &Registry,
        plan: &mut P,
        options: LauncherOptions,
    ) -> Result<Self, Error> {
        let stream = backend.stream();
        Self::made(backend, memory, plan, options, stream)
    }

    /// The same, on a stream of its own from the start. Where that cannot be, the plan is as it was, and another launcher's.
    ///
    /// # Errors
    /// As [`Launcher::bind`], [`BackendError::OtherGpu`], and [`BackendError::Capturing`] while the stream is being captured.
    pub fn bind_on(
        backend: B,
        memory: &Registry,
        plan: &mut P,
        options: LauncherOptions,
        stream: &B::Stream,
    ) -> Result<Self, Error> {
        if backend.is_capturing(stream)? {
            return Err(BackendError::Capturing { what: "the binding of a launcher" }.into());
        }
        Self::made(backend, memory, plan, options, stream.clone())
    }

    fn made(
        backend: B,
        memory: &Registry,
        plan: &mut P,
        options: LauncherOptions,
        stream: B::Stream,
    ) -> Result<Self, Error> {
        if options.repeat && !P::REPEATABLE {
            return Err(LaunchError::Repeated.into());
        }
        let [what, way] = P::NAME;
        // The first range looks for a profiler: not in a step.
        let _range = range(format_args!("bind {what} {way}"), 0);
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        let ring = Ring::new(&backend, id, options.slots, plan.table_bytes())?;
        let bound = Bound::new(backend, memory, plan)?;
        plan.attach(id);
        let counters = Counters::of(P::PIECES);
        Ok(Self { id, bound, ring, options, stream, counters, results: None, plan: PhantomData })
    }

    /// Stages a plan: the next launch carries it out. A plan staged before and not launched yet is superseded.
    ///
    /// Page-map changes take effect at once, whatever becomes of the plan.
    ///
    /// # Errors
    /// Where the plan has another geometry or outgrows the table, an array it reads is not registered, its page map is
    /// kept by another launcher, every staging slot is in flight, the stream is being captured, or the backend fails.
    /// Nothing is enqueued then, and what was staged before still runs. Only where the backend fails, some of it may have
    /// been: page-map changes may have taken effect, which are staged again with the plan, digests of the plan before may be
    /// gone, and the next launch may carry out this plan, under no ticket, and not the one before, which is then superseded.
    /// Until another is staged, an empty one perhaps, and launches before that are waited for, what this one reads and writes is
    /// not free.
    pub fn stage(&mut self, memory: &Registry, plan: &mut P) -> Result<Ticket, Error> {
        let ([what, way], jobs) = (P::NAME, plan.jobs());
        let _range = match plan.bytes().map(Bytes::get) {
            Some(bytes) => range(format_args!("stage {what} {way}: {jobs} jobs, {bytes} bytes"), bytes),
            // Which rows are copied, only the device knows.
            None => range(format_args!("stage {what} {way}: {jobs} jobs"), jobs as u64),
        };
        let (needed, room) = (plan.table_bytes(), self.bound.table_bytes());
        if needed > room {
            return Err(LaunchError::TableTooSmall { needed, room }.into());
        }
        let (needed, room) = (plan.sums() as usize, self.bound.results());
        if needed > room {
            return Err(LaunchError::TooManyResults { needed, room }.into());
        }
        if plan.launcher().is_some_and(|launcher| launcher != self.id) {
            return Err(LaunchError::OtherLauncher.into());
        }
        self.bound.check(memory, plan)?;
        let (repeat, stream, bound) = (self.options.repeat, &self.stream, &mut self.bound);
        let results = &mut self.results;
        let _uncaptured = refuse_capture(bound.backend(), stream, "a staged plan")?;
        let ticket = self.ring.stage(|ticket, completion, slot| {
            *results = None;
            #[allow(unsafe_code, reason = "who may write a slot, only the ring knows")]
            // SAFETY: (1) the ring lends a slot again when its ticket is settled, and waits before it is dropped.
            unsafe {
                bound.load(stream, plan, Staging { ticket, completion, repeat }, slot)
            }
        })?;
        plan.staged();
        self.results = Some(Results { ticket, filling: plan.filling(), jobs: plan.jobs() });
        self.counters.staged(plan.jobs(), plan.bytes());
        Ok(ticket)
    }

    /// Runs the kernel once on the staged plan. Without one that has not run yet it does nothing.
    ///
    /// # Errors
    /// Where the registry has lost a pool or an array since, the stream is being captured, or, on the CPU, launches of a GPU
    /// cannot be waited for: nothing ran then. Where the backend fails, the plan may run all the same: [wait](Launcher::wait),
    /// and ask its ticket. A plan that has run does not run again.
    pub fn launch(&mut self, memory: &mut Registry) -> Result<(), Error> {
        let _range = self.range("launch");
        let _uncaptured = refuse_capture(self.backend(), &self.stream, "a launch")?;
        self.bound.launch::<P>(&self.stream, memory, self.options.workers)?;
        self.counters.launched();
        Ok(())
    }

    /// Records the kernel into the graph that the stream is being captured into. Each replay of the graph then carries
    /// out the plan that is staged at that time, once. A launcher may be recorded into any number of graphs.
    ///
    /// # Safety
    /// 1. The launcher, the registry and what is registered live until no graph with it is replayed any more, and the last
    ///    replay has finished.
    /// 2. Replays run in the order of the launcher's stream, as if they were launches there: one after the other, each after
    ///    what was staged before it and before what is staged later. On that stream they are.
    /// 3. While a replay may run, nobody else touches what its plan reads and writes; [`Registry::bytes`] does not know
    ///    of it.
    ///
    /// # Errors
    /// [`BackendError::NotCapturing`], and as [`Launcher::launch`].
    #[allow(unsafe_code, reason = "what is replayed when, only the caller knows")]
    pub unsafe fn record(&mut self, memory: &mut Registry) -> Result<(), Error> {
        let _range = self.range("record");
        if !self.backend().is_capturing(&self.stream)? {
            return Err(BackendError::NotCapturing.into());
        }
        self.bound.launch::<P>(&self.stream, memory, self.options.workers)
    }

    /// Waits, and gives up what was staged and has not run, so that its slots are free: the caller stages another plan before it
    /// launches again.
    pub(crate) fn give_up(&mut self) -> Result<(), Error> {
        self.wait()?;
        self.ring.give_up();
        Ok(())
    }

    /// Names for a profiler what the thread does with the staged plan.
    fn range(&self, verb: &str) -> Option<Range> {
        let ([what, way], jobs) = (P::NAME, self.results.map_or(0, |staged| staged.jobs));
        range(format_args!("{verb} {what} {way}: {jobs} jobs"), jobs as u64)
    }

    /// Waits until everything on its stream has finished; a launch that was made is then done.
    ///
    /// # Errors
    /// [`BackendError::ContextLost`] where some of it failed.
    pub fn wait(&self) -> Result<(), Error> {
        Ok(self.backend().wait(&self.stream)?)
    }

    /// Uses another stream from now on. What is enqueued there comes after all that is on the one before: plans are staged into
    /// one table. Where both are the same stream, nothing is to be done, so that an engine may say its stream in every step.
    ///
    /// A launcher that is to be recorded on another stream is given that before the capture begins.
    ///
    /// # Errors
    /// [`BackendError::OtherGpu`], [`BackendError::Capturing`] while one of the two is being captured, and those of the driver.
    /// The launcher stays on its stream then.
    pub fn set_stream(&mut self, stream: &B::Stream) -> Result<(), Error> {
        self.backend().chain(&self.stream, stream)?;
        self.stream = stream.clone();
        Ok(())
    }

    /// The stream that it uses.
    pub(crate) const fn stream(&self) -> &B::Stream {
        &self.stream
    }

    /// Checks as a launch does, before a replay of a graph that this launcher was recorded into, and notes it in the
    /// registry.
    pub(crate) fn replays(&mut self, memory: &mut Registry) -> Result<(), Error> {
        self.bound.check_launch(memory)?;
        self.bound.note_launch(&self.stream, memory);
        Ok(())
    }

    /// What became of a ticket: a look at memory, and no call of a driver. That a context is lost is learnt by calls, such as
    /// [`Launcher::wait`]; from then on what was pending is [`TicketState::Lost`].
    #[must_use]
    pub fn state(&self, ticket: Ticket) -> TicketState {
        match self.ring.state(ticket) {
            TicketState::Pending if self.backend().is_lost() => TicketState::Lost,
            state => state,
        }
    }

    /// What this launcher has done.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters.with(self.ring.totals())
    }

    /// What its tickets are told by: no other launcher of this process has the same.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// The backend.
    #[must_use]
    pub fn backend(&self) -> &B {
        self.bound.backend()
    }
}

impl<B: Backend, P> Drop for Launcher<B, P> {
    fn drop(&mut self) {
        // Launches read its tables, and copies its slots. Where a capture forbids to wait, nobody knows whether they have finished,
        // and what they touch is never freed. A stream that cannot be waited for otherwise has failed, and runs nothing more.
        let waited = self.bound.backend().wait(&self.stream);
        if let Err(BackendError::WaitsForCapture | BackendError::CapturingAnother) = waited {
            self.bound.keep();
            self.ring.keep();
        }
    }
}
