//! One rank's part of an engine: it does what the scheduler orders, and says what became of it.

use std::ffi::{c_char, c_void};
use std::num::NonZeroU32;
use std::sync::Arc;

use pagelift::lifecycle::{
    Event, GroupFrames as RustFrames, Lane as RustLane, Order, Rank, Ranks, StepOptions, StepPlans,
};
use pagelift::memory::Registry as RustRegistry;
use pagelift::quantity::Bytes;
use pagelift::runner;
use pagelift_bindings::Result;
use pagelift_bindings::runner::{Steps, bind, frames};

use crate::backend::Backend;
use crate::foreign::{C, In, Out, Replay, Text, TextOut};
use crate::geometry::Geometry;
use crate::handle::{Handle, keep, object};
use crate::held::Held;
use crate::import::tail_rows;
use crate::keys::{GroupKey, Keys};
use crate::launcher::Counters;
use crate::lifecycle::{LifecycleOptions, parsed, told};
use crate::memory::Registry;
use crate::plan::PlanCapacity;
use crate::rows::{RowBinding, RowCapacity};
use crate::status::{Failure, Outcome, Status, answer, bad_value};

/// One rank's steps: what they lift, mirror and write back, by one launch each.
///
/// In each step the rank hears its orders, stages its plans, and launches them around its forward, or replays the graph
/// that they were recorded into. It polls when it likes, and its events go to the scheduler's lifecycle. None of it
/// waits for a launch.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Runner {
    /// Meaningless but to this library; 0 is none.
    pub value: u64,
}

impl Runner {
    const fn handle(self) -> Handle<Running> {
        Handle::new(self.value)
    }
}

/// What a handle of a runner stands for.
struct Running {
    steps: Held<dyn Steps<C>>,
    keys: Arc<Keys>,
    /// Events that nobody has read yet.
    said: Vec<Event<'static>>,
}

object!(Running, Runner);

/// Which blocks and pages of a group a lifecycle's numbers stand for: entry `n` of a list is the group's for number `n`.
///
/// A group that lifts its tail has `blocks` by the lifecycle's blocks and `pages` by its pages. One that has all of its
/// pages on the device has `each` pages for each slot of a request, by position. A ring has both by the slots of
/// requests, a state its pages by the slots of requests.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GroupFrames {
    /// The group.
    pub group: GroupKey,
    /// Its host blocks.
    pub blocks: In<u32>,
    /// How many.
    pub blocks_count: usize,
    /// Its pages.
    pub pages: In<u32>,
    /// How many.
    pub pages_count: usize,
    /// Pages for each slot of a request, of a paged group that is whole on the device; 0 for others.
    pub each: u32,
    /// 0.
    pub reserved: u32,
}

impl GroupFrames {
    fn read(self, keys: &Keys) -> Outcome<RustFrames> {
        let Self { group, each, reserved, .. } = self;
        if reserved != 0 {
            return Err(bad_value("frames->reserved", reserved, "0"));
        }
        let blocks = self.blocks.list(self.blocks_count, "frames->blocks")?;
        let pages = self.pages.list(self.pages_count, "frames->pages")?;
        Ok(frames(*keys.group(group)?, blocks, pages, (each != 0).then_some(each))?)
    }
}

/// How a runner plans, stages and launches.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RunnerOptions {
    /// sizeof(pagelift_runner_options).
    pub size: u32,
    /// The rank: one of the lifecycle's.
    pub rank: u32,
    /// The options of the lifecycle whose orders it takes, as `pagelift_lifecycle_new` has them: whether this rank writes host
    /// blocks, its `writers` say.
    pub lifecycle: In<LifecycleOptions>,
    /// A pagelift_tail_rows: which rows of a partly filled page are lifted.
    pub mode: u32,
    /// How many steps the host may be ahead: 1 to 64.
    pub slots: u32,
    /// The room of its plans of pages; null means as in `pagelift_page_plan_new`.
    pub pages: In<PlanCapacity>,
    /// The room of its plan of rows; null means as in `pagelift_row_plan_new`. There is always room for a change of each
    /// entry of the page maps where the rank writes host blocks.
    pub rows: In<RowCapacity>,
    /// The most multiprocessors of lifts; 0 leaves it to the backend.
    pub lift_workers: u32,
    /// Those of what is written back.
    pub write_back_workers: u32,
    /// Those of mirrors.
    pub mirror_workers: u32,
    /// 0.
    pub reserved: u32,
}

/// Binds a launcher for each of a rank's plans. `frames` are those of the geometry's groups. It uses a stream of the
/// backend's own until `pagelift_runner_set_stream`. Free it by `pagelift_runner_free`.
///
/// Errors: PAGELIFT_PLAN where a group that is lifted has no frames or others than it needs, and for options that cannot be a
/// lifecycle's, or not one's with this rank; PAGELIFT_CAPACITY past the most room that is allowed; PAGELIFT_NULL_POINTER,
/// PAGELIFT_BAD_VALUE, PAGELIFT_WRONG_SIZE, those of keys, and as `pagelift_launcher_bind`.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_runner_bind(
    backend: Backend,
    registry: Registry,
    geometry: Geometry,
    frames: In<GroupFrames>,
    frames_count: usize,
    options: In<RunnerOptions>,
    runner: Out<Runner>,
) -> Status {
    answer(|| {
        let out = runner.ready("runner")?;
        let options = options.sized("options")?;
        let rank = u8::try_from(options.rank).ok().filter(|rank| *rank < Ranks::MOST);
        let rank = rank.ok_or_else(|| bad_value("options->rank", options.rank, "0 to 63"))?;
        if options.reserved != 0 {
            return Err(bad_value("options->reserved", options.reserved, "0"));
        }
        let lifecycle = LifecycleOptions::read(options.lifecycle, "options->lifecycle")?;
        let step = StepOptions {
            pages: PlanCapacity::read(options.pages)?,
            rows: RowCapacity::read(options.rows)?,
            mode: tail_rows(options.mode)?,
        };
        let frames = frames.list(frames_count, "frames")?;
        let (geometry, keys) =
            geometry.handle().look(|own| Ok((Arc::clone(&own.geometry), Arc::clone(&own.keys))))?;
        let frames = frames.into_iter().map(|frames| frames.read(&keys)).collect::<Outcome<_>>()?;
        let plans = StepPlans::new(Rank::new(rank), geometry, frames, lifecycle, step)?;
        let options = runner::RunnerOptions {
            slots: options.slots,
            lift_workers: NonZeroU32::new(options.lift_workers),
            write_back_workers: NonZeroU32::new(options.write_back_workers),
            mirror_workers: NonZeroU32::new(options.mirror_workers),
        };
        let memory = registry.handle().look(|own| Ok(Arc::clone(&own.shared)))?;
        let steps = {
            let registry = memory.read()?;
            backend.handle().look(|engine| Ok(bind(engine, &registry, plans, options)?))?
        };
        let own = Running { steps: Held::new(steps, memory), keys, said: Vec::new() };
        out.put(Runner { value: keep(own)? });
        Ok(())
    })
}

/// Mirrors the rows of a paged or ring group that steps write, as `binding` will say on the device:
/// `pagelift_mirror_plan_bind` of the runner's own plan. Where the rank writes host blocks, each such group that is written back
/// has to be bound before a step begins.
///
/// Errors: as `pagelift_mirror_plan_bind`.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_runner_bind_rows(
    runner: Runner,
    group: GroupKey,
    binding: In<RowBinding>,
) -> Status {
    answer(|| {
        let binding = RowBinding::read(binding, "binding")?;
        runner.handle().change(|own| {
            let group = *own.keys.group(group)?;
            Ok(own.steps.value_mut().bind_rows(group, binding)?)
        })
    })
}

/// Takes an order, one item of what `pagelift_lifecycle_orders` tells. Orders come in the scheduler's order, each exactly
/// once; those that came before a step begins are carried out before its forward.
///
/// Errors: PAGELIFT_BAD_TEXT for what is no order; PAGELIFT_PLAN where a page cannot be mapped or unmapped, or the order is of
/// another lifecycle's request, PAGELIFT_CAPACITY where its plan has no room for that: the rank is lost then. Those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_runner_hear(runner: Runner, order: Text) -> Status {
    answer(|| {
        let order: Order = parsed("an order", order, "order")?;
        runner.handle().change(|own| Ok(own.steps.value_mut().hear(order)?))
    })
}

/// What a step's plans have in them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Staged {
    /// sizeof(pagelift_staged).
    pub size: u32,
    /// 0, or the status that says why some of it could not be planned or staged: the rank answers that it has failed,
    /// and the step goes on without. `pagelift_last_error` has the message.
    pub failed: i32,
    /// Requests that are lifted.
    pub lifts: u64,
    /// States and pages that are written back.
    pub write_backs: u64,
    /// Requests whose step is mirrored.
    pub mirrors: u64,
}

/// Plans the step and stages it: what is written back, lifts of at most `lift_bytes` bytes (one at least, where any
/// waits; UINT64_MAX is all), and mirrors. A step in which nothing is computed is staged too, until the runner is idle.
/// Set `staged->size` before.
///
/// Errors: PAGELIFT_RING_FULL and PAGELIFT_CAPTURE where some of it can only be staged later: no forward of this step
/// may run before a call succeeds. PAGELIFT_PLAN where a step has begun, and rows that it writes are to be mirrored and not
/// bound: nothing has changed then; bind them by `pagelift_runner_bind_rows`, and call this again. PAGELIFT_LAUNCH where the rank
/// is lost. PAGELIFT_BUSY, those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_runner_stage(runner: Runner, lift_bytes: u64, staged: Out<Staged>) -> Status {
    answer(|| {
        let out = staged.sized("staged")?;
        let staged = runner.handle().change(|own| {
            own.steps.stage(|steps, memory| Ok(steps.stage(memory, Bytes::new(lift_bytes))?))
        })?;
        let runner::Staged { lifts, write_backs, mirrors, failed } = staged;
        let failed = failed.map_or(Status::Ok, |error| answer(|| Err(error.into()))) as i32;
        let [lifts, write_backs, mirrors] = [lifts, write_backs, mirrors].map(|count| count as u64);
        out.put_sized(Staged { size: 0, failed, lifts, write_backs, mirrors });
        Ok(())
    })
}

/// Launches what comes before a forward: what is written back, and lifts. Nothing, where nothing was staged since.
///
/// Errors: as `pagelift_launcher_launch`. What was to be launched has failed then (but where the call is PAGELIFT_BUSY),
/// and the rank answers so; the step may go on. PAGELIFT_LAUNCH where the rank is lost.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_runner_before_forward(runner: Runner) -> Status {
    launch(runner, |steps, memory| steps.before_forward(memory))
}

/// Launches what comes after a forward: its mirror.
///
/// Errors: as `pagelift_launcher_launch`; what the step wrote is then written back by a later one. PAGELIFT_LAUNCH where
/// the rank is lost.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_runner_after_forward(runner: Runner) -> Status {
    launch(runner, |steps, memory| steps.after_forward(memory))
}

fn launch(runner: Runner, launch: impl FnOnce(&mut dyn Steps<C>, &mut RustRegistry) -> Result) -> Status {
    answer(|| runner.handle().change(|own| own.steps.launch(|steps, memory| Ok(launch(steps, memory)?))))
}

/// Records what comes before a forward into the graph that the stream is being captured into. A step then is
/// `pagelift_runner_stage` and `pagelift_runner_replay`. The caller promises what that of `pagelift_launcher_record`
/// does.
///
/// Errors: as `pagelift_launcher_record`, and PAGELIFT_LAUNCH where the rank is lost.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_runner_record_before_forward(runner: Runner) -> Status {
    answer(|| {
        runner.handle().change(|own| own.steps.record(|steps, memory| steps.record_before_forward(memory)))
    })
}

/// Records what comes after a forward; as `pagelift_runner_record_before_forward`.
///
/// Errors: as `pagelift_runner_record_before_forward`.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_runner_record_after_forward(runner: Runner) -> Status {
    answer(|| {
        runner.handle().change(|own| own.steps.record(|steps, memory| steps.record_after_forward(memory)))
    })
}

/// Runs the graph into which both were recorded, by calling `replay(user)`, which replays it and answers 0, or something
/// else where it could not. Meanwhile calls on the runner and its registry answer PAGELIFT_BUSY.
///
/// The caller promises that
/// 1. `replay` may be called with `user`, and does not throw or jump out of it.
///
/// Errors: PAGELIFT_NULL_POINTER; PAGELIFT_REGISTRY where a pool or an array is not registered any more;
/// PAGELIFT_BACKEND where `replay` answers something else than 0; those of handles. What is staged stays so: the engine
/// replays again, or gives the rank up. PAGELIFT_LAUNCH where the rank is lost; as `pagelift_launcher_stage` where a launch or a
/// staging has failed before: what is left of it is overwritten first.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_runner_replay(runner: Runner, replay: Replay, user: Out<c_void>) -> Status {
    answer(|| {
        let mut played = || match replay.call(user)? {
            0 => Ok(()),
            code => Err(Failure::new(Status::Backend, format!("`replay` answered {code}"))),
        };
        runner.handle().change(|own| own.steps.launch(|steps, memory| steps.replay(memory, &mut played)))
    })
}

/// Says what became of everything that has finished by now: a list of events, each for `pagelift_lifecycle_apply`. It
/// does not wait. What there is no room for is said by the next call.
///
/// Errors: as `pagelift_lifecycle_effects`.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_runner_poll(
    runner: Runner,
    buffer: Out<c_char>,
    room: usize,
    needed: Out<usize>,
) -> Status {
    answer(|| {
        let out = TextOut::new(buffer, room, needed)?;
        runner.handle().change(|own| {
            own.steps.value_mut().poll(&mut own.said);
            told(out, &own.said)?;
            own.said.clear();
            Ok(())
        })
    })
}

/// Waits until every launch has finished.
///
/// Errors: as `pagelift_launcher_wait`.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_runner_wait(runner: Runner) -> Status {
    answer(|| runner.handle().look(|own| Ok(own.steps.value().wait()?)))
}

/// Tells whether it has nothing to do, and nothing in flight.
///
/// Errors: those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_runner_is_idle(runner: Runner, is_idle: Out<bool>) -> Status {
    answer(|| {
        let is_idle = is_idle.ready("is_idle")?;
        is_idle.put(runner.handle().look(|own| Ok(own.steps.value().is_idle()))?);
        Ok(())
    })
}

/// Tells whether it does nothing more, because its GPU has failed, or it could not do as it was told.
///
/// Errors: those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_runner_is_lost(runner: Runner, is_lost: Out<bool>) -> Status {
    answer(|| {
        let is_lost = is_lost.ready("is_lost")?;
        is_lost.put(runner.handle().look(|own| Ok(own.steps.value().is_lost()))?);
        Ok(())
    })
}

/// Uses another stream from now on, the one that its forwards run on. The caller promises what that of
/// `pagelift_launcher_set_stream` does.
///
/// Errors: as `pagelift_launcher_set_stream`.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_runner_set_stream(runner: Runner, stream: Out<c_void>) -> Status {
    switch(runner, Some(stream))
}

/// Uses a stream of the backend's own again. On the CPU, nothing is to be done.
///
/// Errors: as `pagelift_launcher_set_stream`.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_runner_set_own_stream(runner: Runner) -> Status {
    switch(runner, None)
}

fn switch(runner: Runner, stream: Option<Out<c_void>>) -> Status {
    answer(|| runner.handle().change(|own| Ok(own.steps.value_mut().set_stream(stream)?)))
}

/// A kind of a runner's work.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Lifts.
    Lift = 0,
    /// States and pages that are written back.
    WriteBack = 1,
    /// Rows that are mirrored.
    Mirror = 2,
}

/// Tells what was staged and launched for a kind of work (a pagelift_lane). Set `counters->size` before.
///
/// Errors: PAGELIFT_BAD_VALUE, PAGELIFT_WRONG_SIZE, those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_runner_counters(runner: Runner, lane: u32, counters: Out<Counters>) -> Status {
    answer(|| {
        let out = counters.sized("counters")?;
        let lane = match lane {
            0 => RustLane::Lift,
            1 => RustLane::WriteBack,
            2 => RustLane::Mirror,
            _ => return Err(bad_value("lane", lane, "a pagelift_lane")),
        };
        out.put_sized(runner.handle().look(|own| Ok(own.steps.value().counters(lane).into()))?);
        Ok(())
    })
}

/// Waits for its stream and frees a runner; as `pagelift_launcher_free`.
///
/// Errors: those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_runner_free(runner: Runner) -> Status {
    answer(|| runner.handle().take().map(drop))
}
