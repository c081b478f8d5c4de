//! One rank's part of an engine: it does what the scheduler orders, and says what became of it.
//!
//! ```text
//!             scheduler                                     each rank
//!  events ──▶ Lifecycle::apply ──▶ Lifecycle::orders ─────▶ Runner::hear
//!    ▲              │                                       Runner::stage           ┐
//!    │              └──▶ effects, to engine and transport   Runner::before_forward  │ a step: launches, or
//!    │                                                      the engine's forward    │ a replay of the graph
//!    │                                                      Runner::after_forward   ┘ that has them
//!    └───────────────────────────────────────────────────── Runner::poll
//! ```
//!
//! [`Order`]s and [`Event`]s are plain data, and implement `serde`'s traits: between them there may be a channel, or a pipe
//! to another process.
//!
//! # Example
//! A prompt of 6 tokens comes from another engine, is lifted, and three tokens are generated. Then both blocks of 4 tokens
//! that are full are published, with every row in the host pool.
//! ```
//! use std::sync::Arc;
//! use pagelift::backends::Cpu;
//! use pagelift::geometry::*;
//! use pagelift::id::{HostBlockId, PageId};
//! use pagelift::import::*;
//! use pagelift::layout::PagedLayout;
//! use pagelift::lifecycle::*;
//! use pagelift::memory::Registry;
//! use pagelift::plan::{PlanCapacity, RowBinding, RowCapacity, TailRows};
//! use pagelift::quantity::{Bytes, Tokens};
//! use pagelift::runner::{Runner, RunnerOptions};
//! # const BLOCKS: u32 = 8;
//! # const PAGES: u32 = 4;
//! # const ROW: usize = 64;
//! # const BLOCK: usize = 4 * ROW;
//! # let backend = Cpu::with_threads(1)?;
//! # let mut memory = Registry::new();
//! # let mut builder = GeometryBuilder::new();
//! # let layout = PagedLayout::builder(4).segment("kv", ROW as u32).build()?;
//! # let mut side = |place, count: u32| -> Result<_, pagelift::Error> {
//! #     let id = memory.allocate(&backend, place, u64::from(count) * BLOCK as u64)?;
//! #     let region = memory.region(id).expect("just allocated");
//! #     let pool = builder.pool(PoolSpec::new(place.name(), place, count, &[region]))?;
//! #     Ok((id, Some(SideSpec::packed(pool, &[region.address()], &[0], BLOCK as u64, layout.clone()))))
//! # };
//! # let ((blocks_at, host), (pages_at, device)) = (side(Memory::Host, BLOCKS)?, side(Memory::Device, PAGES)?);
//! # let (name, lift) = ("main".into(), PagedLift::Tail);
//! # let group = builder.group(GroupSpec::<Paged> { name, layers: 1, landing: Landing::Host, lift, host, device })?;
//! # let geometry = Arc::new(builder.build()?);
//! # let slots_at = memory.allocate(&backend, Memory::Device, 8)?;
//! # let slots = memory.region(slots_at).expect("just allocated").address();
//!
//! // The scheduler: blocks of 4 tokens, and one rank.
//! let options = LifecycleOptions {
//!     ranks: 1, writers: Ranks::first(1), block_tokens: 4, recurrence: Recurrence::None,
//!     requests: 8, blocks: BLOCKS, pages: PAGES, keep: 0, draft_lag: 0, retries: 1, limits: FrameLimits::NONE,
//! };
//! let mut lifecycle = Lifecycle::new(options)?;
//!
//! // The rank: its geometry has one group, of rows of 64 bytes, whose pages and blocks have the lifecycle's numbers.
//! let frames = GroupFrames::Paged {
//!     group,
//!     blocks: (0..BLOCKS).map(HostBlockId::new).collect(),
//!     pages: (0..PAGES).map(PageId::new).collect(),
//! };
//! // What the scheduler's options say, it does not say again.
//! let room = StepOptions {
//!     pages: PlanCapacity::default(), rows: RowCapacity::default(), mode: TailRows::Whole,
//! };
//! let mut plans = StepPlans::new(Rank::new(0), geometry, vec![frames], options, room)?;
//! plans.mirror_plan().bind(group, RowBinding::new(slots, 1))?;
//! let mut runner = Runner::bind(&backend, &memory, plans, RunnerOptions::default())?;
//!
//! // The request is admitted. The transport reads what it has to: two blocks.
//! let hashes = [0xA, 0xB].map(ContentHash::new);
//! let admission = Admission {
//!     prompt: Tokens::new(6), policy: Policy::LiftTail, producer: true, hashes: hashes[..1].into(),
//! };
//! let mut events = vec![Event::Admit(admission)];
//! let mut request = None;
//! let mut step = 0;
//! loop {
//!     // The scheduler: events in, effects out.
//!     for event in std::mem::take(&mut events) {
//!         lifecycle.apply(&event)?;
//!         for effect in lifecycle.effects() {
//!             match *effect {
//!                 Effect::Admitted { request: admitted, .. } => request = Some(admitted),
//!                 Effect::Read { request, first, end } => {
//!                     let blocks = lifecycle.request(request).expect("admitted").blocks();
//!                     for token in 4 * first..6.min(4 * end) {
//!                         let block = blocks[token as usize / 4].get() as usize;
//!                         let row = block * BLOCK + token as usize % 4 * ROW;
//!                         memory.bytes_mut(blocks_at).expect("ours")[row..][..ROW].fill(token as u8);
//!                     }
//!                     let (rank, read) = (Rank::new(0), Read::Landed);
//!                     events.push(Event::Posted { request, ranks: Ranks::first(1), each: 1 });
//!                     events.push(Event::Read { request, rank, part: 0, read });
//!                 }
//!                 // Steps may begin: the last token of the prompt is replayed.
//!                 Effect::Lifted { request } => events.push(Event::Begin { request, tokens: 1 }),
//!                 _ => {}
//!             }
//!         }
//!         lifecycle.orders().try_for_each(|order| runner.hear(order))?;
//!     }
//!     // The rank's step. What a forward writes, and to where, only the device knows.
//!     let computes = request.and_then(|request| lifecycle.request(request)).filter(|view| view.begun() > step);
//!     runner.stage(&memory, Bytes::new(u64::MAX))?;
//!     runner.before_forward(&mut memory)?;
//!     if let Some(view) = computes {
//!         let (request, token) = (request.expect("admitted"), view.next_token().get());
//!         let page = view.pages().find(|(position, ..)| u64::from(*position) == token / 4).expect("mapped").1;
//!         let slot = page.get() as usize * 4 + token as usize % 4;
//!         memory.bytes_mut(pages_at).expect("ours")[slot * ROW..][..ROW].fill(token as u8);
//!         memory.bytes_mut(slots_at).expect("ours").copy_from_slice(&(slot as i64).to_le_bytes());
//!         step += 1;
//!         events.push(Event::Accept { request, step, tokens: 1 });
//!         match token {
//!             5 | 6 => events.push(Event::Begin { request, tokens: 1 }),
//!             // The engine names what is full now.
//!             _ => events.push(Event::Name { request, hash: hashes[1] }),
//!         }
//!     }
//!     runner.after_forward(&mut memory)?;
//!     runner.poll(|event| events.push(event));
//!     if events.is_empty() {
//!         break;
//!     }
//! }
//!
//! // Tokens 0 to 5 came from the other engine, 6 and 7 were generated here: all are where others find them.
//! for (hash, first) in hashes.into_iter().zip([0, 4]) {
//!     let block = lifecycle.find(hash).expect("published").get() as usize;
//!     let rows = memory.bytes(blocks_at).expect("ours")[block * BLOCK..][..BLOCK].chunks(ROW);
//!     assert!(rows.zip(first..).all(|(row, token)| row.iter().all(|byte| *byte == token)));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod line;

use std::num::NonZeroU32;

use pagelift_planner::lifecycle::{Event, Lane, Order, Rank, Settled, StepPlans};
use pagelift_planner::plan::{MirrorPlan, RestorePlan, WriteBackPlan};
use pagelift_planner::quantity::Bytes;

use crate::backends::Backend;
use crate::error::{Error, LaunchError};
use crate::launcher::{Counters, LauncherOptions};
use crate::memory::Registry;
use line::Line;

/// How a runner launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunnerOptions {
    /// Staging slots of each kind of plan: how many steps the host may be ahead. 1 to 64.
    pub slots: u32,
    /// The most workers (multiprocessors of a GPU) of lifts; `None` leaves it to the backend.
    pub lift_workers: Option<NonZeroU32>,
    /// Those of states and pages that are written back.
    pub write_back_workers: Option<NonZeroU32>,
    /// Those of mirrored rows.
    pub mirror_workers: Option<NonZeroU32>,
}

impl Default for RunnerOptions {
    /// Four slots, and workers as the backend likes.
    fn default() -> Self {
        Self { slots: 4, lift_workers: None, write_back_workers: None, mirror_workers: None }
    }
}

/// What a step's plans have in them.
#[derive(Debug, Default)]
#[must_use = "a forward may run when its step is staged"]
pub struct Staged {
    /// Requests that are lifted.
    pub lifts: usize,
    /// States and pages that are written back.
    pub write_backs: usize,
    /// Requests whose step is mirrored.
    pub mirrors: usize,
    /// Why some of it could not be planned or staged, now or by a call before that had to wait. The rank answers that it has
    /// failed, and the step goes on without.
    pub failed: Option<Error>,
}

/// A rank's steps: what they lift, mirror and write back, by one launch each.
///
/// In each step the rank hears its orders, stages its plans, and launches them around its forward; an engine that has
/// recorded them into its graph replays that instead. It polls when it likes. None of it waits for a launch, and once a
/// request's slot was used before, none of it allocates but a request's first lift.
///
/// **Who writes to host blocks.** Ranks all of which have the same rows let one of them write
/// ([`LifecycleOptions::writers`](pagelift_planner::lifecycle::LifecycleOptions::writers)). The others lift as it does, and launch a
/// mirror that has no page to mirror: what tells them that their forward has finished. States are each rank's own, and so
/// are their blocks.
///
/// **What fails.** Work that can be staged later waits, and [`Runner::stage`] says so. Work that cannot be staged, or whose
/// launch fails, is answered as failed: the lifecycle asks again, or ends the request. What was to be written back the rank says
/// to be [`Event::Broken`], and its request fails. Rows that were not mirrored are
/// written back in whole pages by a later step. A rank that has lost its GPU, or cannot do as it was told, says
/// [`Event::RankLost`] when nothing of it runs any more, and nothing after that. Of a process or a thread that has died, whoever
/// looks after it says so.
#[derive(Debug)]
pub struct Runner<B: Backend> {
    plans: StepPlans,
    backend: B,
    lifts: Line<B, RestorePlan>,
    write_backs: Line<B, WriteBackPlan>,
    mirrors: Line<B, MirrorPlan>,
    /// Why the first of what could not be planned or staged was not, until a call that has staged a step says so.
    refused: Option<Error>,
    health: Health,
}

/// Whether a rank can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Well,
    /// It does nothing more, but has not said so.
    Lost,
    Told,
}

impl<B: Backend + Clone> Runner<B> {
    /// Binds a launcher for each of a rank's plans. Their mirror has its bindings, or is given them later by
    /// [`Runner::mirror_plan`]. `backend` is one that may be shared: a reference, or an [`Arc`](std::sync::Arc).
    ///
    /// # Errors
    /// As [`Launcher::bind`](crate::launcher::Launcher::bind).
    pub fn bind(
        backend: B,
        memory: &Registry,
        mut plans: StepPlans,
        options: RunnerOptions,
    ) -> Result<Self, Error> {
        let RunnerOptions { slots, lift_workers, write_back_workers, mirror_workers } = options;
        let with = |workers| LauncherOptions { slots, workers, repeat: false };
        Ok(Self {
            lifts: Line::bind(backend.clone(), memory, &mut plans, with(lift_workers))?,
            write_backs: Line::bind(backend.clone(), memory, &mut plans, with(write_back_workers))?,
            mirrors: Line::bind(backend.clone(), memory, &mut plans, with(mirror_workers))?,
            backend,
            plans,
            refused: None,
            health: Health::Well,
        })
    }
}

impl<B: Backend> Runner<B> {
    /// Takes an order. Orders come in the scheduler's order, each exactly once, and those that came before a step begins are
    /// carried out before its forward: what is ordered after that step was accepted belongs to the next one.
    ///
    /// # Errors
    /// Where a page cannot be mapped or unmapped, or there is no room for the request: the orders are those of other frames, of
    /// another geometry, or of another lifecycle. The rank is lost then.
    pub fn hear(&mut self, order: Order) -> Result<(), Error> {
        if self.health != Health::Well {
            return Ok(());
        }
        Ok(self.plans.hear(order).inspect_err(|_| self.health = Health::Lost)?)
    }

    /// Plans the step and stages it: states and pages that are written back, lifts of at most `lift_bytes` bytes (one at
    /// least, where any waits; the rest is left to later steps), and mirrors.
    ///
    /// A step in which nothing is computed is staged too, until [`Runner::is_idle`].
    ///
    /// # Errors
    /// Where some of it can only be staged later, [because](Error::is_transient) too many plans are in flight
    /// ([`LaunchError::RingFull`]) or a stream is being captured ([`BackendError::Capturing`](crate::error::BackendError::Capturing)
    /// and [`CapturingAnother`](crate::error::BackendError::CapturingAnother)). What is staged is then launched, if it was not, and
    /// waited for, and this called again: no forward of this step may run before a call succeeds. What was staged is not staged
    /// again. [`PlanError::Unbound`](crate::error::PlanError::Unbound), before anything is planned, where steps have begun whose rows
    /// are to be mirrored and not [bound](Runner::mirror_plan): bind them, and call this again. And [`LaunchError::RankLost`], for
    /// good.
    pub fn stage(&mut self, memory: &Registry, lift_bytes: Bytes) -> Result<Staged, Error> {
        self.check_health()?;
        let Self { plans, lifts, write_backs, mirrors, refused, .. } = self;
        write_backs.poll(plans);
        lifts.poll(plans);
        mirrors.poll(plans);
        // A mirror that has to be made good becomes a page that is written back.
        plans.plan_mirrors()?;
        plans.plan_write_backs();
        plans.plan_lifts(lift_bytes);
        let drafted = [Lane::Lift, Lane::WriteBack, Lane::Mirror].map(|lane| plans.drafted(lane));
        // A call that fails says only why something has to wait: what has failed for good, the next one says.
        let mut keep = |failed: Option<Error>| *refused = refused.take().or(failed);
        keep(plans.refused().map(Error::from));
        // The mirror comes last: where something has to wait, all that is staged may be launched before the forward.
        keep(write_backs.stage(memory, plans)?);
        keep(lifts.stage(memory, plans)?);
        keep(mirrors.stage(memory, plans)?);
        let [lifts, write_backs, mirrors] = drafted;
        Ok(Staged { lifts, write_backs, mirrors, failed: refused.take() })
    }

    /// Launches what comes before a forward: what is written back, and lifts. Nothing, where nothing was staged since. What is
    /// written back and was not launched before a forward is staged again, for states may have changed.
    ///
    /// # Errors
    /// Those of the launches. What was to be launched has failed then, and the rank answers so; the step may go on. And
    /// [`LaunchError::RankLost`].
    pub fn before_forward(&mut self, memory: &mut Registry) -> Result<(), Error> {
        self.check_health()?;
        let Self { plans, lifts, write_backs, .. } = self;
        let written = write_backs.launch(memory, plans);
        written.and(lifts.launch(memory, plans))
    }

    /// Launches what comes after a forward: its mirror. Nothing, where nothing was staged since.
    ///
    /// # Errors
    /// Those of the launch. What the step wrote is then written back by a later one. And [`LaunchError::RankLost`].
    pub fn after_forward(&mut self, memory: &mut Registry) -> Result<(), Error> {
        self.check_health()?;
        // Too late for what should have come before: states have moved on.
        self.write_backs.undo(&mut self.plans, Settled::Superseded);
        self.mirrors.settle_unstaged(&mut self.plans);
        self.mirrors.launch(memory, &mut self.plans)
    }

    /// Runs the engine's graph into which both were [recorded](Runner::record_before_forward), by `replay`.
    ///
    /// ```no_run
    /// # use pagelift::{Error, backends::{Backend as _, CaptureMode, Cuda}, memory::Registry, quantity::Bytes, runner::Runner};
    /// # fn engine(gpu: &Cuda, runner: &mut Runner<&Cuda>, memory: &mut Registry, forward: impl Fn()) -> Result<(), Error> {
    /// let stream = gpu.stream();
    /// let (mut graph, ()) = gpu.capture(&stream, CaptureMode::ThreadLocal, || {
    ///     // SAFETY: (1) the graph goes before runner and memory; (2, 3) it is replayed by the runner, on its stream.
    ///     unsafe { runner.record_before_forward(memory) }?;
    ///     forward();
    ///     unsafe { runner.record_after_forward(memory) }
    /// })?;
    /// // For each step:
    /// runner.stage(memory, Bytes::new(16 << 20))?;
    /// runner.replay(memory, || graph.replay(&stream).map_err(Error::from))?;
    /// runner.poll(|event| println!("{event:?}"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Where a pool or an array is not registered any more, and those of `replay`. What is staged stays so: the engine replays
    /// again, or gives the rank up. As [`Launcher::stage`](crate::launcher::Launcher::stage), where a launch or a staging has
    /// failed before: what a table has of it is overwritten first. And [`LaunchError::RankLost`].
    pub fn replay<E: From<Error>>(
        &mut self,
        memory: &mut Registry,
        replay: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let checked = self.check_health();
        let Self { plans, lifts, write_backs, mirrors, .. } = self;
        let checked = checked.and_then(|()| write_backs.replays(memory, plans));
        let checked = checked.and_then(|()| lifts.replays(memory, plans));
        let checked = checked.and_then(|()| mirrors.replays(memory, plans));
        checked.map_err(E::from).and_then(|()| replay())?;
        write_backs.note_launch();
        lifts.note_launch();
        mirrors.note_launch();
        mirrors.settle_unstaged(plans);
        Ok(())
    }

    /// Says what became of everything that has finished by now. It does not wait.
    pub fn poll(&mut self, mut say: impl FnMut(Event<'static>)) {
        if self.is_lost() {
            if self.health != Health::Told && self.has_stopped() {
                self.health = Health::Told;
                say(Event::RankLost { rank: self.rank() });
            }
            return;
        }
        let Self { plans, lifts, write_backs, mirrors, .. } = self;
        lifts.poll(plans);
        mirrors.poll(plans);
        write_backs.poll(plans);
        plans.say().for_each(say);
    }

    /// Waits until every launch has finished; [`Runner::poll`] then says what came of them.
    ///
    /// # Errors
    /// As [`Launcher::wait`](crate::launcher::Launcher::wait).
    pub fn wait(&self) -> Result<(), Error> {
        self.lifts.launcher.wait()?;
        self.write_backs.launcher.wait()?;
        self.mirrors.launcher.wait()
    }

    /// Whether it has nothing to do, and nothing in flight.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.plans.worker().is_idle()
    }

    /// Whether it does nothing more, because its GPU has failed, or it could not do as it was told.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.health != Health::Well || self.backend.is_lost()
    }

    /// Which rank it is.
    #[must_use]
    pub const fn rank(&self) -> Rank {
        self.plans.worker().rank()
    }

    /// Its plans.
    #[must_use]
    pub const fn plans(&self) -> &StepPlans {
        &self.plans
    }

    /// The mirror's plan, to bind the arrays of coming steps.
    pub const fn mirror_plan(&mut self) -> &mut MirrorPlan {
        self.plans.mirror_plan()
    }

    /// What was staged and launched for a kind of work.
    #[must_use]
    pub fn counters(&self, lane: Lane) -> Counters {
        match lane {
            Lane::Lift => self.lifts.launcher.counters(),
            Lane::WriteBack => self.write_backs.launcher.counters(),
            Lane::Mirror => self.mirrors.launcher.counters(),
        }
    }

    /// Uses another stream from now on: the one that its forwards run on. What is enqueued there comes after all that is on the
    /// one before.
    ///
    /// # Errors
    /// As [`Launcher::set_stream`](crate::launcher::Launcher::set_stream). Where the driver fails, some work may have the new
    /// stream already: it is said again.
    pub fn set_stream(&mut self, stream: &B::Stream) -> Result<(), Error> {
        self.lifts.launcher.set_stream(stream)?;
        self.write_backs.launcher.set_stream(stream)?;
        self.mirrors.launcher.set_stream(stream)
    }

    /// Records what comes before a forward into the graph that the stream is being captured into. A step then is
    /// [`Runner::stage`] and [`Runner::replay`].
    ///
    /// # Safety
    /// Those of [`Launcher::record`](crate::launcher::Launcher::record), for the runner.
    ///
    /// # Errors
    /// As [`Launcher::record`](crate::launcher::Launcher::record). And [`LaunchError::RankLost`].
    #[allow(unsafe_code, reason = "what is replayed when, only the caller knows")]
    pub unsafe fn record_before_forward(&mut self, memory: &mut Registry) -> Result<(), Error> {
        self.check_health()?;
        // SAFETY: (1, 2, 3) are ours.
        unsafe {
            self.write_backs.launcher.record(memory)?;
            self.lifts.launcher.record(memory)
        }
    }

    /// Records what comes after a forward; as [`Runner::record_before_forward`].
    ///
    /// # Safety
    /// Those of [`Launcher::record`](crate::launcher::Launcher::record), for the runner.
    ///
    /// # Errors
    /// As [`Launcher::record`](crate::launcher::Launcher::record). And [`LaunchError::RankLost`].
    #[allow(unsafe_code, reason = "what is replayed when, only the caller knows")]
    pub unsafe fn record_after_forward(&mut self, memory: &mut Registry) -> Result<(), Error> {
        self.check_health()?;
        // SAFETY: (1, 2, 3) are ours.
        unsafe { self.mirrors.launcher.record(memory) }
    }

    /// What is staged may lie in pages that the scheduler gives away, once it knows of the loss.
    fn check_health(&self) -> Result<(), Error> {
        if self.is_lost() {
            return Err(LaunchError::RankLost { rank: self.rank() }.into());
        }
        Ok(())
    }

    /// Whether nothing of it runs any more: its context is gone, or all launches have finished.
    fn has_stopped(&self) -> bool {
        let Self { lifts, write_backs, mirrors, .. } = self;
        self.backend.is_lost() || lifts.has_finished() && write_backs.has_finished() && mirrors.has_finished()
    }
}
