//! Steps of a runner, one call after the other: what a lost rank does no more, and what is not carried out twice or late.

use std::sync::Arc;

use pagelift::Error;
use pagelift::backends::{Backend as _, CaptureMode, Cuda, CudaGraph};
use pagelift::error::{BackendError, LaunchError, PlanError};
use pagelift::geometry::*;
use pagelift::id::{HostBlockId, PageId};
use pagelift::import::{Policy, Recurrence};
use pagelift::layout::PagedLayout;
use pagelift::lifecycle::*;
use pagelift::memory::{RegionId, Registry};
use pagelift::plan::{PlanCapacity, RowBinding, RowCapacity, TailRows};
use pagelift::quantity::{Bytes, Tokens};
use pagelift::runner::{Runner, RunnerOptions, Staged};
use pagelift_fake_driver::Machine;
use pagelift_simulation::faulty::Faulty;
use pagelift_simulation::message::Fault;

use crate::backends::software;

const BLOCKS: u32 = 32;
const PAGES: u32 = 4;
const REQUESTS: u32 = 8;
const ROW: u64 = 64;
const PAGE: u64 = 4 * ROW;
const MOST: Bytes = Bytes::new(u64::MAX);

/// A scheduler and one rank, of blocks of 4 tokens. Its GPU runs what was launched when it is waited for.
struct Engine {
    lifecycle: Lifecycle,
    runner: Runner<Faulty<Arc<Cuda>>>,
    backend: Faulty<Arc<Cuda>>,
    memory: Registry,
    slab: RegionId,
    slots: RegionId,
    gpu: Arc<Cuda>,
    machine: Machine,
}

impl Engine {
    /// The rank has the first `pages` of the lifecycle's pages, and its rows are bound.
    fn new(pages: u32, writes: bool, slots: u32) -> Self {
        let (mut engine, group) = Self::unbound(pages, writes, slots);
        engine.bind(group);
        engine
    }

    fn bind(&mut self, group: GroupKey<Paged>) {
        let address = self.memory.region(self.slots).unwrap().address();
        self.runner.mirror_plan().bind(group, RowBinding::new(address, 1)).unwrap();
    }

    /// One that does not write has another beside it that does.
    fn unbound(pages: u32, writes: bool, slots: u32) -> (Self, GroupKey<Paged>) {
        let ranks = if writes { 1 } else { 2 };
        let machine = Machine::new(1);
        let gpu = Arc::new(Cuda::open_with(&software(&machine).unwrap(), 0).unwrap());
        let backend = Faulty::new(Arc::clone(&gpu));
        let (mut memory, mut builder) = (Registry::new(), GeometryBuilder::new());
        let layout = PagedLayout::builder(4).segment("row", ROW as u32).build().unwrap();
        let mut side = |place: Memory, count: u32| {
            let id = memory.allocate(&backend, place, u64::from(count) * PAGE).unwrap();
            let region = memory.region(id).unwrap();
            let pool = builder.pool(PoolSpec::new(place.name(), place, count, &[region])).unwrap();
            (id, Some(SideSpec::packed(pool, &[region.address()], &[0], PAGE, layout.clone())))
        };
        let ((_, host), (slab, device)) = (side(Memory::Host, BLOCKS), side(Memory::Device, PAGES));
        let (name, lift) = ("main".into(), PagedLift::Tail);
        let spec = GroupSpec::<Paged> { name, layers: 1, landing: Landing::Host, lift, host, device };
        let group = builder.group(spec).unwrap();
        let array = memory.allocate(&backend, Memory::Device, 8).unwrap();
        let frames = GroupFrames::Paged {
            group,
            blocks: (0..BLOCKS).map(HostBlockId::new).collect(),
            pages: (0..pages).map(PageId::new).collect(),
        };
        let room = StepOptions {
            pages: PlanCapacity::default(),
            rows: RowCapacity::default(),
            mode: TailRows::Whole,
        };
        let options = LifecycleOptions {
            ranks,
            writers: Ranks::one(Rank::new(ranks - 1)),
            block_tokens: 4,
            recurrence: Recurrence::None,
            requests: REQUESTS,
            blocks: BLOCKS,
            pages: PAGES,
            keep: 0,
            draft_lag: 0,
            retries: 0,
            limits: FrameLimits::NONE,
        };
        let geometry = Arc::new(builder.build().unwrap());
        let plans = StepPlans::new(Rank::new(0), geometry, vec![frames], options, room).unwrap();
        let launching = RunnerOptions { slots, ..RunnerOptions::default() };
        let runner = Runner::bind(backend.clone(), &memory, plans, launching).unwrap();
        let lifecycle = Lifecycle::new(options).unwrap();
        (Self { lifecycle, runner, backend, memory, slab, slots: array, gpu, machine }, group)
    }

    fn tell(&mut self, event: &Event<'_>) -> Vec<Effect> {
        let effects = self.lifecycle.apply(event).unwrap().to_vec();
        self.lifecycle.orders().for_each(|order| self.runner.hear(order).unwrap());
        effects
    }

    /// A request of 6 tokens that has landed: its second block is to be lifted.
    fn landed(&mut self) -> RequestId {
        let (prompt, policy) = (Tokens::new(6), Policy::LiftTail);
        let admission = Admission { prompt, policy, producer: true, hashes: vec![].into() };
        let effects = self.tell(&Event::Admit(admission));
        let Some(Effect::Admitted { request, .. }) = effects.first().copied() else { panic!("{effects:?}") };
        self.tell(&Event::Posted { request, ranks: Ranks::NONE, each: 0 });
        request
    }

    fn stage(&mut self) -> Result<Staged, Error> {
        self.runner.stage(&self.memory, MOST)
    }

    fn before(&mut self) -> Result<(), Error> {
        self.runner.before_forward(&mut self.memory)
    }

    fn after(&mut self) -> Result<(), Error> {
        self.runner.after_forward(&mut self.memory)
    }

    fn poll(&mut self) -> Vec<Event<'static>> {
        let mut said = Vec::new();
        self.runner.poll(|event| said.push(event));
        said
    }

    /// Waits for what was launched, and tells the scheduler what came of it.
    fn report(&mut self) {
        self.runner.wait().unwrap();
        for event in self.poll() {
            self.tell(&event);
        }
    }

    /// A graph with what comes before a forward and after it.
    fn graph(&mut self) -> Result<CudaGraph, Error> {
        let Self { runner, memory, gpu, .. } = self;
        // SAFETY: (1) tests drop the graph first; (2, 3) the runner replays it, on its own stream.
        let record = || unsafe {
            runner.record_before_forward(memory)?;
            runner.record_after_forward(memory)
        };
        gpu.capture(&gpu.stream(), CaptureMode::ThreadLocal, record).map(|(graph, ())| graph)
    }

    fn replay(&mut self, graph: &mut CudaGraph) -> Result<(), Error> {
        let stream = self.gpu.stream();
        self.runner.replay(&mut self.memory, || graph.replay(&stream).map_err(Error::from))
    }

    /// An order of another engine's.
    fn lose(&mut self) {
        let request = self.lifecycle.requests().next().unwrap();
        let (page, block) = (PageId::new(1000), HostBlockId::new(0));
        self.runner.hear(Order::Map { request, position: 0, page, block }).unwrap_err();
        assert!(self.runner.is_lost());
    }
}

fn is_lost(error: &Error) -> bool {
    matches!(error, Error::Launch(LaunchError::RankLost { .. }))
}

/// Its pages are given away when the scheduler knows of the loss.
#[test]
fn a_lost_rank_launches_nothing_that_it_has_staged() {
    let mut engine = Engine::new(PAGES, true, 4);
    let mut graph = engine.graph().unwrap();
    engine.landed();
    assert_eq!(engine.stage().unwrap().lifts, 1);
    engine.lose();
    engine.runner.wait().unwrap();
    assert_eq!(engine.poll(), [Event::RankLost { rank: Rank::new(0) }]);
    let given = vec![7; (u64::from(PAGES) * PAGE) as usize];
    engine.memory.write(engine.slab, 0, &given).unwrap();
    for lost in [engine.before(), engine.after(), engine.replay(&mut graph), engine.graph().map(drop)] {
        assert!(is_lost(&lost.unwrap_err()));
    }
    engine.runner.wait().unwrap();
    let mut found = vec![0; given.len()];
    engine.memory.read(engine.slab, 0, &mut found).unwrap();
    assert!(found == given, "it has lifted into pages of others");
    assert_eq!(engine.poll(), []);
    drop(graph);
}

/// What was asked of it, it would never answer.
#[test]
fn an_order_of_another_lifecycle_s_is_the_rank_s_loss() {
    let mut engine = Engine::new(PAGES, true, 4);
    let (requests, pages) = (REQUESTS + 1, REQUESTS + 1);
    let own = engine.lifecycle.options();
    engine.lifecycle = Lifecycle::new(LifecycleOptions { requests, pages, ..own }).unwrap();
    let (prompt, policy) = (Tokens::new(6), Policy::LiftTail);
    let admission = || Admission { prompt, policy, producer: true, hashes: vec![].into() };
    for _ in 0..requests {
        engine.lifecycle.apply(&Event::Admit(admission())).unwrap();
    }
    let request = engine.lifecycle.requests().last().unwrap();
    let refused = engine.runner.hear(engine.lifecycle.orders().next().unwrap()).unwrap_err();
    let room = PlanError::ForeignRequest { request, requests: REQUESTS };
    assert!(matches!(&refused, Error::Plan(error) if *error == room), "{refused}");
    assert_eq!(engine.poll(), [Event::RankLost { rank: Rank::new(0) }]);
}

/// Its mirror would be done, and its page given away with a row that is nowhere else.
#[test]
fn a_step_whose_rows_are_not_bound_is_staged_when_they_are() {
    let (mut engine, group) = Engine::unbound(PAGES, true, 4);
    let request = engine.landed();
    assert_eq!(engine.stage().unwrap().lifts, 1, "a lift has no rows of a step");
    engine.before().unwrap();
    engine.report();
    engine.tell(&Event::Begin { request, tokens: 1 });
    for _ in 0..2 {
        let refused = engine.stage().unwrap_err();
        assert!(matches!(refused, Error::Plan(PlanError::Unbound { .. })), "{refused}");
        engine.before().unwrap();
        engine.after().unwrap();
        engine.report();
        assert_eq!(engine.runner.counters(Lane::Mirror).launches, 0);
    }
    engine.bind(group);
    assert_eq!(engine.stage().unwrap().mirrors, 1);
    engine.after().unwrap();
    engine.report();
    assert_eq!(engine.runner.counters(Lane::Mirror).done, 1);
    // Whoever does not write needs none.
    let (mut engine, _) = Engine::unbound(PAGES, false, 4);
    let request = engine.landed();
    assert_eq!(engine.stage().unwrap().lifts, 1);
    engine.before().unwrap();
    engine.report();
    let (rank, answer) = (Rank::new(1), Answer::Done);
    engine.tell(&Event::Answer { request, round: 1, rank, answer });
    engine.tell(&Event::Begin { request, tokens: 1 });
    assert_eq!(engine.stage().unwrap().mirrors, 1);
}

#[test]
fn a_poll_of_a_lost_rank_waits_for_nothing() {
    let mut engine = Engine::new(PAGES, true, 4);
    engine.landed();
    assert_eq!(engine.stage().unwrap().lifts, 1);
    engine.before().unwrap();
    engine.lose();
    let _ = engine.machine.calls();
    for _ in 0..3 {
        assert_eq!(engine.poll(), [], "its lift runs still");
    }
    assert!(!engine.machine.calls().contains(&"cuStreamSynchronize"));
    engine.runner.wait().unwrap();
    assert_eq!(engine.poll(), [Event::RankLost { rank: Rank::new(0) }]);
    assert_eq!(engine.poll(), []);
}

/// One lift is refused, for there is no such page; and those beside it have to wait.
#[test]
fn why_work_was_refused_is_said_though_the_rest_has_to_wait() {
    let mut engine = Engine::new(PAGES - 1, false, 1);
    engine.landed();
    assert_eq!(engine.stage().unwrap().lifts, 1);
    engine.before().unwrap();
    let refused = [(); 3].map(|()| engine.landed())[2];
    let waits = engine.stage().unwrap_err();
    assert!(matches!(waits, Error::Launch(LaunchError::RingFull { .. })), "{waits}");
    engine.runner.wait().unwrap();
    let staged = engine.stage().unwrap();
    assert_eq!(staged.lifts, 2);
    let why = staged.failed.unwrap();
    assert!(matches!(why, Error::Plan(_)), "{why}");
    assert!(engine.stage().unwrap().failed.is_none(), "it is said once");
    let said = engine.poll();
    let failed = |event: &Event<'_>| matches!(event, Event::Answer { request, answer: Answer::Failed, .. } if *request == refused);
    assert!(said.iter().any(failed), "{said:?}");
}

/// The next step computes nothing, and its slots are those of nobody.
#[test]
fn a_mirror_that_has_failed_is_in_no_replay() {
    for stages in [true, false] {
        a_mirror_fails(stages);
    }
}

fn a_mirror_fails(stages: bool) {
    let mut engine = Engine::new(PAGES, true, 4);
    let mut graph = engine.graph().unwrap();
    let request = engine.landed();
    assert_eq!(engine.stage().unwrap().lifts, 1);
    engine.before().unwrap();
    engine.report();
    engine.tell(&Event::Begin { request, tokens: 1 });
    let page = engine.lifecycle.request(request).unwrap().pages().next().unwrap().1;
    assert_eq!(engine.stage().unwrap().mirrors, 1);
    engine.before().unwrap();
    engine.memory.write(engine.slots, 0, &(4 * i64::from(page.get())).to_le_bytes()).unwrap();
    engine.backend.set(Fault::Rows);
    let failed = engine.after().unwrap_err();
    assert!(matches!(failed, Error::Backend(BackendError::Threads { .. })), "{failed}");
    engine.backend.set(Fault::None);

    if stages {
        let staged = engine.stage().unwrap();
        assert_eq!((staged.mirrors, staged.write_backs), (0, 1), "its page is written back whole");
    }
    engine.replay(&mut graph).unwrap();
    engine.report();
    let counters = engine.runner.counters(Lane::Mirror);
    assert_eq!((counters.rows, counters.superseded, counters.done), (Some(0), 1, 1));
    // Bindings stay: the next step is mirrored.
    engine.tell(&Event::Accept { request, step: 1, tokens: 1 });
    engine.tell(&Event::Begin { request, tokens: 1 });
    assert_eq!(engine.stage().unwrap().mirrors, 1);
    engine.replay(&mut graph).unwrap();
    engine.report();
    assert_eq!(engine.runner.counters(Lane::Mirror).rows, Some(1));
    drop(graph);
}

/// A copy into the table that fails may come all the same, and the scheduler has given the pages away.
#[test]
fn a_lift_whose_staging_has_failed_is_in_no_replay_and_no_launch() {
    for replays in [true, false] {
        let mut engine = Engine::new(PAGES, true, 4);
        let mut graph = engine.graph().unwrap();
        engine.landed();
        assert_eq!(engine.stage().unwrap().lifts, 1);
        engine.landed();
        engine.backend.set(Fault::Uploads);
        assert!(engine.stage().unwrap().failed.is_some());
        engine.backend.set(Fault::None);
        match replays {
            true => engine.replay(&mut graph).unwrap(),
            false => engine.before().unwrap(),
        }
        engine.report();
        // The one that was staged before waits again: nobody knows which of them the table has.
        assert_eq!(engine.runner.counters(Lane::Lift).bytes, Some(PAGE));
        assert_eq!(engine.runner.counters(Lane::Lift).superseded, u64::from(replays));
        assert_eq!(engine.stage().unwrap().lifts, 1);
        drop(graph);
    }
}

/// What has failed to launch is in its staging slot until another plan has run.
#[test]
fn launches_that_fail_leave_room_for_others() {
    for slots in [1, 3] {
        for replays in [true, false] {
            let mut engine = Engine::new(PAGES, true, slots);
            let mut graph = engine.graph().unwrap();
            engine.backend.set(Fault::Pages);
            for _ in 0..slots {
                engine.landed();
                assert_eq!(engine.stage().unwrap().lifts, 1);
                engine.before().unwrap_err();
            }
            engine.backend.set(Fault::None);
            if replays {
                engine.replay(&mut graph).unwrap();
                engine.runner.wait().unwrap();
            }
            engine.landed();
            assert_eq!(engine.stage().unwrap().lifts, 1);
            engine.before().unwrap();
            engine.runner.wait().unwrap();
            let counters = engine.runner.counters(Lane::Lift);
            assert_eq!((counters.superseded, counters.done), (slots.into(), 1 + u64::from(replays)));
            drop(graph);
        }
    }
}
