//! A step allocates nothing: staging, launching and asking for a ticket's state run on every decode step.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what it expects by panicking"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

use pagelift::backends::{Backend, CaptureMode, Cpu, Cuda, CudaDriver};
use pagelift::geometry::*;
use pagelift::id::{HostBlockId, PageId};
use pagelift::import::*;
use pagelift::launcher::{Launcher, LauncherOptions, TicketState};
use pagelift::layout::PagedLayout;
use pagelift::lifecycle::{
    Admission, Event, FrameLimits, GroupFrames, Lifecycle, LifecycleOptions, Rank, Ranks, StepOptions,
    StepPlans,
};
use pagelift::memory::Registry;
use pagelift::plan::{
    DigestPlan, MirrorPlan, PlanCapacity, Queries, RestorePlan, RowBinding, RowCapacity, TailRows,
};
use pagelift::quantity::{Bytes, Tokens};
use pagelift::runner::{Runner, RunnerOptions};
use pagelift_fake_driver::{Machine, Pace};

/// Counts what the calling thread allocates.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: the system's allocator, and a number that needs no allocation.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !pagelift_fake_driver::in_a_call() {
            ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        }
        // SAFETY: the caller's conditions are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's conditions are the same.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(body: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    body();
    ALLOCATIONS.get() - before
}

struct World<B> {
    backend: B,
    memory: Registry,
    geometry: Arc<Geometry>,
    group: GroupKey<Paged>,
    /// The sides of the group, as digests read them.
    digests: [DigestKey<Paged>; 2],
    /// Room on the device for the arrays of a step.
    arrays: u64,
}

/// Two layers of 16 rows a page; eight blocks and four pages, all of which are lifted.
fn world<B: Backend>(backend: B) -> World<B> {
    world_that_lifts(backend, PagedLift::All)
}

fn world_that_lifts<B: Backend>(backend: B, lift: PagedLift) -> World<B> {
    let layout = PagedLayout::builder(16).segment("row", 64).build().unwrap();
    let page = layout.page_bytes().get();
    let mut memory = Registry::new();
    let mut allocate = |place, bytes| {
        let id = memory.allocate(&backend, place, bytes).unwrap();
        memory.region(id).unwrap()
    };
    let (host, device) = (allocate(Memory::Host, 16 * page), allocate(Memory::Device, 8 * page));
    let arrays = allocate(Memory::Device, 4096).address();
    let mut builder = GeometryBuilder::new();
    let blocks = builder.pool(PoolSpec::new("host", Memory::Host, 8, &[host])).unwrap();
    let pages = builder.pool(PoolSpec::new("slab", Memory::Device, 4, &[device])).unwrap();
    let side = |pool, region: Region| {
        SideSpec::packed(pool, &[region.address()], &[0, page], 2 * page, layout.clone())
    };
    let spec = GroupSpec::<Paged> {
        name: "main".into(),
        layers: 2,
        landing: Landing::Host,
        lift,
        host: Some(side(blocks, host)),
        device: Some(side(pages, device)),
    };
    let group = builder.group(spec).unwrap();
    let digests = [Memory::Host, Memory::Device].map(|place| {
        let side = builder.main_side(group, place).unwrap();
        builder.digest(side).unwrap()
    });
    World { backend, memory, geometry: Arc::new(builder.build().unwrap()), group, digests, arrays }
}

#[test]
fn a_step_of_restore_allocates_nothing() {
    let World { backend, mut memory, geometry, group, .. } = world(Cpu::with_threads(1).unwrap());
    let mut plan = RestorePlan::new(geometry, PlanCapacity::default()).unwrap();
    let mut launcher = Launcher::bind(backend, &memory, &mut plan, LauncherOptions::default()).unwrap();
    let (blocks, pages) = ([7, 2, 5].map(HostBlockId::new), [3, 0, 1].map(PageId::new));
    let groups = [ImportGroup::new(group, &blocks, &pages)];
    let span = PromptSpan::new(Tokens::new(35), Recurrence::None).unwrap();
    let mut step = || {
        plan.clear();
        plan.lift(&Import { span, groups: &groups }, TailRows::ExactZeroed).unwrap();
        let ticket = launcher.stage(&memory, &mut plan).unwrap();
        launcher.launch(&mut memory).unwrap();
        assert!(matches!(launcher.state(ticket), TicketState::Done(_)));
        assert!(launcher.counters().done > 0);
    };
    // The first step of a thread may set up what it keeps.
    step();
    assert_eq!(allocations(|| (0..200).for_each(|_| step())), 0);
}

#[test]
fn a_step_of_mirroring_allocates_nothing() {
    let World { backend, mut memory, geometry, group, arrays, .. } = world(Cpu::with_threads(1).unwrap());
    let mut plan = MirrorPlan::new(geometry, RowCapacity::default()).unwrap();
    let queries = Some(Queries { starts: arrays + 512, accepted: Some(arrays + 1024), requests: 4 });
    let binding = RowBinding { count: Some(arrays + 2048), queries, ..RowBinding::new(arrays, 32) };
    plan.bind(group, binding).unwrap();
    let mut launcher = Launcher::bind(backend, &memory, &mut plan, LauncherOptions::default()).unwrap();
    let mut number = 0;
    let mut step = || {
        // A page comes and goes.
        let (page, block) = (PageId::new(number % 4), HostBlockId::new(number % 8));
        plan.page_map_mut().unmap(group, page).unwrap();
        plan.page_map_mut().map(group, page, block).unwrap();
        let ticket = launcher.stage(&memory, &mut plan).unwrap();
        launcher.launch(&mut memory).unwrap();
        assert!(matches!(launcher.state(ticket), TicketState::Done(_)));
        number += 1;
    };
    step();
    assert_eq!(allocations(|| (0..200).for_each(|_| step())), 0);
}

#[test]
fn a_step_of_digests_allocates_nothing() {
    let World { backend, mut memory, geometry, digests: [host, device], .. } =
        world(Cpu::with_threads(1).unwrap());
    let mut plan = DigestPlan::new(geometry, PlanCapacity::default()).unwrap();
    let mut launcher = Launcher::bind(backend, &memory, &mut plan, LauncherOptions::default()).unwrap();
    let (blocks, pages) = ([7, 2, 5].map(HostBlockId::new), [3, 0, 1].map(PageId::new));
    let mut step = || {
        plan.clear();
        let numbers = [plan.host(host, &blocks, 35).unwrap(), plan.device(device, &pages, 35).unwrap()];
        let ticket = launcher.stage(&memory, &mut plan).unwrap();
        launcher.launch(&mut memory).unwrap();
        let [sent, received] = numbers.map(|number| launcher.digest(ticket, number).unwrap());
        assert_eq!(sent, received);
    };
    step();
    assert_eq!(allocations(|| (0..200).for_each(|_| step())), 0);
}

/// A request that is decoded, from the scheduler's events to the rank's answers, in a slot that another one has used before.
#[test]
fn a_step_of_a_runner_allocates_nothing() {
    let World { backend, mut memory, geometry, group, arrays, .. } =
        world_that_lifts(Cpu::with_threads(1).unwrap(), PagedLift::Tail);
    let options = LifecycleOptions {
        ranks: 1,
        writers: Ranks::first(1),
        block_tokens: 16,
        recurrence: Recurrence::None,
        requests: 1,
        blocks: 8,
        pages: 4,
        keep: 0,
        draft_lag: 0,
        retries: 0,
        limits: FrameLimits::default(),
    };
    let mut lifecycle = Lifecycle::new(options).unwrap();
    let frames = GroupFrames::Paged {
        group,
        blocks: (0..8).map(HostBlockId::new).collect(),
        pages: (0..4).map(PageId::new).collect(),
    };
    let (pages, rows) = (PlanCapacity::default(), RowCapacity::default());
    let room = StepOptions { pages, rows, mode: TailRows::Whole };
    let mut plans = StepPlans::new(Rank::new(0), geometry, vec![frames], options, room).unwrap();
    plans.mirror_plan().bind(group, RowBinding::new(arrays, 1)).unwrap();
    let mut runner = Runner::bind(&backend, &memory, plans, RunnerOptions::default()).unwrap();
    let mut events = VecDeque::with_capacity(16);
    let mut turn = |lifecycle: &mut Lifecycle, event: Event<'static>| {
        events.push_back(event);
        while let Some(event) = events.pop_front() {
            lifecycle.apply(&event).unwrap();
            lifecycle.orders().for_each(|order| runner.hear(order).unwrap());
            assert!(runner.stage(&memory, Bytes::new(u64::MAX)).unwrap().failed.is_none());
            runner.before_forward(&mut memory).unwrap();
            runner.after_forward(&mut memory).unwrap();
            runner.poll(|event| events.push_back(event));
        }
    };
    for used in [false, true] {
        let (prompt, policy) = (Tokens::new(20), Policy::LiftTail);
        let admission = Admission { prompt, policy, producer: false, hashes: vec![].into() };
        turn(&mut lifecycle, Event::Admit(admission));
        let request = lifecycle.requests().next().unwrap();
        let steps = allocations(|| {
            for step in 1..=100 {
                turn(&mut lifecycle, Event::Begin { request, tokens: 1 });
                turn(&mut lifecycle, Event::Accept { request, step, tokens: 1 });
            }
        });
        assert!(!used || steps == 0, "{steps} allocations");
        assert_eq!(lifecycle.request(request).unwrap().sealed(), 6);
        turn(&mut lifecycle, Event::Finish { request });
        assert_eq!(lifecycle.requests().count(), 0);
    }
}

/// What an engine does in each step on a GPU: planning, staging, a replay. The driver in software is not counted.
#[test]
fn a_step_of_replays_allocates_nothing() {
    let machine = Machine::new(1);
    machine.pace(Pace::Early);
    // SAFETY: (1) the machine's calls have the driver's signatures and keep its promises, and are functions of this program.
    let driver = unsafe { CudaDriver::from_symbols(|name| machine.symbol(name)) }.unwrap();
    let gpu = Cuda::open_with(&driver, 0).unwrap();
    let World { mut memory, geometry, group, .. } = world(&gpu);
    let mut plan = RestorePlan::new(geometry, PlanCapacity::default()).unwrap();
    let mut launcher = Launcher::bind(&gpu, &memory, &mut plan, LauncherOptions::default()).unwrap();
    let (blocks, pages) = ([7, 2, 5].map(HostBlockId::new), [3, 0, 1].map(PageId::new));
    let groups = [ImportGroup::new(group, &blocks, &pages)];
    let span = PromptSpan::new(Tokens::new(35), Recurrence::None).unwrap();
    let stream = gpu.stream();
    // SAFETY: (1) the graph goes first; (2, 3) it is replayed on the launcher's stream, and nobody looks.
    let record = || unsafe { launcher.record(&mut memory) };
    let (mut graph, ()) = gpu.capture(&stream, CaptureMode::ThreadLocal, record).unwrap();
    let mut step = || {
        plan.clear();
        plan.lift(&Import { span, groups: &groups }, TailRows::ExactZeroed).unwrap();
        let ticket = launcher.stage(&memory, &mut plan).unwrap();
        graph.replay(&stream).unwrap();
        assert!(matches!(launcher.state(ticket), TicketState::Done(_)));
    };
    step();
    assert_eq!(allocations(|| (0..50).for_each(|_| step())), 0);
}

#[test]
fn allocations_are_counted() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(7)))), 1);
}
