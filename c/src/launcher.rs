//! Stages plans, launches them, and records launches into graphs.

use std::ffi::c_void;
use std::num::NonZeroU32;
use std::sync::Arc;

use pagelift::id;
use pagelift::launcher::{self, TicketState as RustState};
use pagelift_bindings::launcher::{Launches, bind};

use crate::backend::Backend;
use crate::foreign::{C, In, Out};
use crate::handle::{Handle, Vacancy, object};
use crate::held::Held;
use crate::memory::Registry;
use crate::plan::{DigestNumber, Plan};
use crate::status::{Failure, Outcome, Status, answer, bad_value};

/// Stages plans of one type, and launches them on one stream.
///
/// A staged plan takes effect in exactly one launch, or one replay of a graph that the launcher was recorded into.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Launcher {
    /// Meaningless but to this library; 0 is none.
    pub value: u64,
}

impl Launcher {
    const fn handle(self) -> Handle<Launching> {
        Handle::new(self.value)
    }
}

/// What a handle of a launcher stands for.
type Launching = Held<dyn Launches<C>>;

object!(Launching, Launcher);

/// How a launcher stages and launches.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LauncherOptions {
    /// sizeof(pagelift_launcher_options).
    pub size: u32,
    /// Staging slots, 1 to 64: how many plans may be in flight.
    pub slots: u32,
    /// The most multiprocessors of a GPU, or warps on a CPU, that a launch may use; 0 leaves it to the backend.
    pub workers: u32,
    /// 1 where a staged plan runs in every launch until the next one is staged, and its ticket, done when it has run once, says
    /// nothing of later runs; 0 where only in the first.
    pub repeat: u32,
}

/// The number of one staged plan, counted from 1 by each launcher. Another launcher does not know it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The launcher that gave it.
    pub launcher: u64,
    /// Its number.
    pub number: u64,
}

impl Ticket {
    const fn id(self) -> id::Ticket {
        id::Ticket::new(self.launcher, self.number)
    }
}

/// Binds a launcher for plans with the type, the geometry and the capacity of `plan`, whose pools are registered in
/// `registry`. `options` may be null: 4 slots, workers as the backend likes, each plan once. It uses a stream of the
/// backend's own until `pagelift_launcher_set_stream`. It takes the page map of a row plan into its keeping: that plan
/// alone can be staged, and by this launcher alone. Free it by `pagelift_launcher_free`.
///
/// Errors: PAGELIFT_REGISTRY where a pool is not registered; PAGELIFT_OUT_OF_MEMORY; PAGELIFT_LAUNCH for wrong options;
/// PAGELIFT_BAD_VALUE, PAGELIFT_WRONG_SIZE, those of handles. In a capture: another stream's is not disturbed.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_launcher_bind(
    backend: Backend,
    registry: Registry,
    plan: Plan,
    options: In<LauncherOptions>,
    launcher: Out<Launcher>,
) -> Status {
    answer(|| {
        let out = launcher.ready("launcher")?;
        let options = match options.sized_or_null("options")? {
            None => launcher::LauncherOptions::default(),
            Some(LauncherOptions { slots, workers, repeat, .. }) => {
                let repeat = match repeat {
                    0 => false,
                    1 => true,
                    _ => return Err(bad_value("options->repeat", repeat, "0 or 1")),
                };
                launcher::LauncherOptions { slots, workers: NonZeroU32::new(workers), repeat }
            }
        };
        let place = Vacancy::new()?;
        let own = plan.handle().change(|plan| {
            let memory = registry.handle().look(|own| Ok(Arc::clone(&own.shared)))?;
            let bound = {
                let registry = memory.read()?;
                backend.handle().look(|engine| Ok(bind(engine, &registry, &mut plan.plan, options, None)?))?
            };
            Ok(Launching::new(bound, memory))
        })?;
        out.put(Launcher { value: place.keep(own) });
        Ok(())
    })
}

/// Stages a plan: the next launch or replay carries it out. A plan staged before and not launched yet is superseded.
/// Page-map changes take effect at once. A hot call: it takes no lists, allocates nothing, and waits for nothing.
///
/// Errors: PAGELIFT_RING_FULL where all slots are in flight; PAGELIFT_CAPTURE while the stream is being captured;
/// PAGELIFT_LAUNCH for a plan of another geometry or larger capacity, or another launcher's row plan;
/// PAGELIFT_WRONG_PLAN for one of another type; PAGELIFT_REGISTRY where an array is not registered; PAGELIFT_BUSY while
/// another thread uses launcher, plan or registry; those of handles. What was staged before still runs then. Where the driver
/// fails instead, this plan may run in its place, under no ticket, until another was staged: an empty one will do.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_launcher_stage(launcher: Launcher, plan: Plan, ticket: Out<Ticket>) -> Status {
    answer(|| {
        let ticket = ticket.ready("ticket")?;
        let staged = plan.handle().change(|plan| {
            launcher
                .handle()
                .change(|own| own.stage(|launcher, memory| Ok(launcher.stage(memory, &mut plan.plan)?)))
        })?;
        ticket.put(Ticket { launcher: staged.launcher(), number: staged.number() });
        Ok(())
    })
}

/// Runs the kernel once on the staged plan. Without one that has not run yet it does nothing. On a GPU it returns before
/// that has finished, in the order of the stream; on the CPU afterwards. A hot call.
///
/// Errors: PAGELIFT_CAPTURE while the stream is being captured (see `pagelift_launcher_record`); PAGELIFT_REGISTRY where
/// a pool or an array was released; PAGELIFT_BUSY while another thread uses the launcher, or its registry for any launch;
/// those of handles: nothing ran then. PAGELIFT_CONTEXT_LOST, and where the driver fails, the plan may run all the same: wait,
/// and ask its ticket.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_launcher_launch(launcher: Launcher) -> Status {
    answer(|| launcher.handle().change(|own| own.launch(|launcher, memory| Ok(launcher.launch(memory)?))))
}

/// Records the kernel into the graph that the launcher's stream is being captured into (`cuStreamBeginCapture`, in any
/// mode): one node. Each replay then carries out the plan that is staged at that time, once; a replay without one does
/// nothing. Give the launcher the stream before the capture begins. It may be recorded into any number of graphs.
///
/// The caller promises that
/// 1. the launcher is freed only when no graph with it is replayed any more, and the last replay has finished;
/// 2. replays run in the order of the launcher's stream: one after the other, each after the `pagelift_launcher_stage`
///    before it and before the next one. On that stream they do;
/// 3. until a replay has finished, nobody touches what its plan reads and writes: the registry does not know of replays.
///
/// Errors: PAGELIFT_CAPTURE where the stream is not being captured (that of the CPU never is), and as
/// `pagelift_launcher_launch`.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_launcher_record(launcher: Launcher) -> Status {
    answer(|| launcher.handle().change(|own| own.record(|launcher, memory| launcher.record(memory))))
}

/// Uses another stream from now on: a CUstream (or cudaStream_t); null is the default stream. What is enqueued there
/// comes after all that is on the one before; where both are the same stream nothing is done, so that an engine may say
/// its stream in every step.
///
/// The caller promises that
/// 1. the stream is of the backend's GPU, in its primary context, and lives as long as the launcher uses it and as the
///    registry that its launches were made with;
/// 2. no capture of it begins in one thread while another thread stages or launches on it.
///
/// Errors: PAGELIFT_CAPTURE while one of the two streams is being captured; PAGELIFT_BACKEND for a stream of another
/// GPU, for the calling thread's own default stream (2), and for the CPU, which has no streams; those of handles. The
/// launcher stays on its stream then.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_launcher_set_stream(launcher: Launcher, stream: Out<c_void>) -> Status {
    switch(launcher, Some(stream))
}

/// Uses a stream of the backend's own again. On the CPU, nothing is to be done.
///
/// Errors: as `pagelift_launcher_set_stream`.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_launcher_set_own_stream(launcher: Launcher) -> Status {
    switch(launcher, None)
}

fn switch(launcher: Launcher, stream: Option<Out<c_void>>) -> Status {
    answer(|| launcher.handle().change(|own| Ok(own.value_mut().set_stream(stream)?)))
}

/// Waits until everything on its stream has finished: other calls on the launcher answer PAGELIFT_BUSY meanwhile, but
/// for those that look (state, is_done, report, counters).
///
/// Errors: PAGELIFT_CAPTURE while the stream is being captured, PAGELIFT_CONTEXT_LOST where some of it failed, those of
/// handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_launcher_wait(launcher: Launcher) -> Status {
    answer(|| launcher.handle().look(|own| Ok(own.value().wait()?)))
}

/// What became of a staged plan.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TicketState {
    /// Staged; a launch has not finished with it.
    Pending = 0,
    /// Carried out: its last copy is complete and visible to the host.
    Done = 1,
    /// Overwritten before a launch saw it: plan its work again.
    Superseded = 2,
    /// Its table was of another version, and nothing was moved.
    Refused = 3,
    /// A fault took the GPU's context before.
    Lost = 4,
    /// Settled too long ago to be remembered, or another launcher's.
    Unknown = 5,
}

fn look<R>(launcher: Launcher, ticket: Ticket, look: impl FnOnce(RustState) -> Outcome<R>) -> Outcome<R> {
    launcher.handle().look(|own| look(own.value().state(ticket.id())))
}

/// Tells what became of a ticket: a look at memory, and no call of a driver. Safe in a capture, and beside other threads
/// that look. A hot call.
///
/// Errors: PAGELIFT_BUSY while another thread stages, launches or records; those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_launcher_state(
    launcher: Launcher,
    ticket: Ticket,
    state: Out<TicketState>,
) -> Status {
    answer(|| {
        let state = state.ready("state")?;
        state.put(look(launcher, ticket, |state| {
            Ok(match state {
                RustState::Pending => TicketState::Pending,
                RustState::Done(_) => TicketState::Done,
                RustState::Superseded => TicketState::Superseded,
                RustState::Refused => TicketState::Refused,
                RustState::Lost => TicketState::Lost,
                RustState::Unknown => TicketState::Unknown,
            })
        })?);
        Ok(())
    })
}

/// Tells whether a ticket's state is PAGELIFT_TICKET_STATE_DONE; as `pagelift_launcher_state`.
///
/// Errors: as `pagelift_launcher_state`.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_launcher_is_done(
    launcher: Launcher,
    ticket: Ticket,
    is_done: Out<bool>,
) -> Status {
    answer(|| {
        let is_done = is_done.ready("is_done")?;
        is_done.put(look(launcher, ticket, |state| Ok(matches!(state, RustState::Done(_))))?);
        Ok(())
    })
}

/// What a launch reported of one plan.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// sizeof(pagelift_report).
    pub size: u32,
    /// Rows that a row plan copied; 0 for page plans.
    pub rows: u32,
    /// Entries of slot mappings that were rightly left alone: padding, pages without a mirror, tokens that were not accepted.
    pub skipped: u32,
    /// Entries on the device that made no sense: skipped too, never written somewhere else.
    pub bad: u32,
}

/// Tells what the launch reported of a ticket's plan. Set `report->size` before.
///
/// Errors: PAGELIFT_LAUNCH where it is not done; otherwise as `pagelift_launcher_state`.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_launcher_report(
    launcher: Launcher,
    ticket: Ticket,
    report: Out<Report>,
) -> Status {
    answer(|| {
        let out = report.sized("report")?;
        out.put_sized(look(launcher, ticket, |state| match state {
            RustState::Done(launcher::Report { rows, skipped, bad }) => {
                Ok(Report { size: 0, rows, skipped, bad })
            }
            state => {
                let text =
                    format!("there is no report: the ticket is {}", format!("{state:?}").to_lowercase());
                Err(Failure::new(Status::Launch, text))
            }
        })?);
        Ok(())
    })
}

/// Tells the digest that a call added to the plan which was staged as `ticket`. Results are kept until the next plan is
/// staged.
///
/// Errors: PAGELIFT_LAUNCH before the ticket is done, and where there are no such results (any more);
/// PAGELIFT_WRONG_PLAN for a launcher that was not bound with a digest plan; those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_launcher_digest(
    launcher: Launcher,
    ticket: Ticket,
    number: DigestNumber,
    digest: Out<u64>,
) -> Status {
    answer(|| {
        let out = digest.ready("digest")?;
        out.put(launcher.handle().look(|own| Ok(own.value().digest(ticket.id(), number.number())?))?);
        Ok(())
    })
}

/// A count that nobody keeps.
pub const PAGELIFT_UNCOUNTED: u64 = u64::MAX;

/// Sums since a launcher was bound: software accounting of what plans said and kernels reported, not what a bus carried.
/// What nobody counts is PAGELIFT_UNCOUNTED, never 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Counters {
    /// sizeof(pagelift_counters).
    pub size: u32,
    /// 0.
    pub reserved: u32,
    /// Plans staged.
    pub staged: u64,
    /// Launches made, those that had nothing to do included; replays of graphs are not among them.
    pub launches: u64,
    /// Jobs of the staged plans.
    pub jobs: u64,
    /// Bytes that the staged plans copy, or that digests read; uncounted for row plans.
    pub bytes: u64,
    /// Plans that were carried out.
    pub done: u64,
    /// Plans that were overwritten before they ran.
    pub superseded: u64,
    /// Plans whose table had another version.
    pub refused: u64,
    /// Rows copied by row plans; uncounted for page plans.
    pub rows: u64,
    /// Entries of slot mappings rightly skipped; uncounted for page plans.
    pub skipped: u64,
    /// Bad entries met on the device.
    pub bad: u64,
}

impl From<launcher::Counters> for Counters {
    fn from(counters: launcher::Counters) -> Self {
        let launcher::Counters {
            staged,
            launches,
            jobs,
            bytes,
            done,
            superseded,
            refused,
            rows,
            skipped,
            bad,
        } = counters;
        let counted = |count: Option<u64>| count.unwrap_or(PAGELIFT_UNCOUNTED);
        let (bytes, rows, skipped) = (counted(bytes), counted(rows), counted(skipped));
        let (size, reserved) = (0, 0);
        Self { size, reserved, staged, launches, jobs, bytes, done, superseded, refused, rows, skipped, bad }
    }
}

/// Tells what a launcher has done. Set `counters->size` before.
///
/// Errors: PAGELIFT_WRONG_SIZE, and as `pagelift_launcher_state`.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_launcher_counters(launcher: Launcher, counters: Out<Counters>) -> Status {
    answer(|| {
        let out = counters.sized("counters")?;
        out.put_sized(launcher.handle().look(|own| Ok(own.value().counters().into()))?);
        Ok(())
    })
}

/// Tells what a launcher's tickets are told by: no other launcher of this process has the same.
///
/// Errors: those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_launcher_id(launcher: Launcher, id: Out<u64>) -> Status {
    answer(|| {
        let id = id.ready("id")?;
        id.put(launcher.handle().look(|own| Ok(own.value().id()))?);
        Ok(())
    })
}

/// Waits for its stream and frees a launcher. One that was recorded is freed when no graph with it will be replayed any
/// more: such a replay would touch memory that is gone. In a capture of its stream it does not wait: the driver frees
/// nothing that is in use.
///
/// Errors: those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_launcher_free(launcher: Launcher) -> Status {
    answer(|| launcher.handle().take().map(drop))
}
