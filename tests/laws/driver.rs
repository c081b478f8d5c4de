//! The calls that are made of the driver: which, in which order, and what becomes of each that fails.

use std::sync::Arc;

use pagelift::Error;
use pagelift::backends::{Backend, CaptureMode, Cuda, CudaDriver, CudaGraph};
use pagelift::error::{BackendError, LaunchError};
use pagelift::geometry::*;
use pagelift::id::{HostBlockId, PageId, Ticket};
use pagelift::launcher::{Launcher, TicketState};
use pagelift::layout::PagedLayout;
use pagelift::memory::{RegionId, Registry};
use pagelift::plan::{DigestPlan, MirrorPlan, PlanCapacity, RestorePlan, RowBinding, RowCapacity};
use pagelift_fake_driver::{Live, Machine, Pace};

use crate::backends::software;
use crate::device::Engine;
use crate::tickets::slots;

/// A code that the driver's manual does not have among those that a context does not survive.
const SOME: i32 = 999;
/// `CUDA_ERROR_ILLEGAL_ADDRESS`.
const FATAL: i32 = 700;

const ROOM: PlanCapacity = PlanCapacity { jobs: 4, list_entries: 8 };

/// A machine, and an engine that keeps its context, so that nothing is hidden by its end.
fn machine() -> (Machine, Engine) {
    let machine = Machine::new(1);
    let calls = machine.clone();
    let engine = Engine::new(move |name| calls.symbol(name).unwrap());
    let _ = machine.calls();
    (machine, engine)
}

/// Nothing but the engine's.
const NOTHING: Live =
    Live { contexts: 1, streams: 0, events: 0, graphs: 0, executables: 0, device: 0, host: 0, registered: 0 };

/// Four blocks and four pages of 16 rows of 64 bytes, one layer, and an array of slots.
struct Small {
    memory: Registry,
    host: RegionId,
    slab: RegionId,
    slots: u64,
    geometry: Arc<Geometry>,
    main: GroupKey<Paged>,
    digests: DigestKey<Paged>,
}

const PAGE: u64 = 1024;

impl Small {
    fn new(gpu: &Arc<Cuda>) -> Result<Self, Error> {
        let mut memory = Registry::new();
        let [host, slab, array] =
            [(Memory::Host, 4 * PAGE), (Memory::Device, 4 * PAGE), (Memory::Device, 64 * 8)]
                .map(|(place, bytes)| memory.allocate(gpu, place, bytes));
        let (host, slab, array) = (host?, slab?, array?);
        for block in 0..4_u8 {
            memory.write(host, u64::from(block) * PAGE, &[block + 1; PAGE as usize])?;
        }
        let slots = memory.region(array).unwrap().address();
        let numbers: Vec<u8> = (0..64).flat_map(i64::to_le_bytes).collect();
        memory.write(array, 0, &numbers)?;
        let mut builder = GeometryBuilder::new();
        let layout = PagedLayout::builder(16).segment("row", 64).build()?;
        let mut side = |name, place, id| -> Result<_, Error> {
            let region = memory.region(id).unwrap();
            let pool = builder.pool(PoolSpec::new(name, place, 4, &[region]))?;
            Ok(Some(SideSpec::packed(pool, &[region.address()], &[0], PAGE, layout.clone())))
        };
        let (host_side, slab_side) = (side("host", Memory::Host, host)?, side("slab", Memory::Device, slab)?);
        let main = builder.group(GroupSpec::<Paged> {
            name: "main".into(),
            layers: 1,
            landing: Landing::Host,
            lift: PagedLift::All,
            host: host_side,
            device: slab_side,
        })?;
        let digests = builder.main_side(main, Memory::Device).unwrap();
        let digests = builder.digest(digests)?;
        Ok(Self { memory, host, slab, slots, geometry: Arc::new(builder.build()?), main, digests })
    }

    /// A plan that copies block `block` to page `page`.
    fn gather(&self, plan: &mut RestorePlan, block: u32, page: u32) -> Result<(), Error> {
        plan.clear();
        let route = self.geometry.lift_route(self.main).unwrap();
        Ok(plan.gather(route, &[HostBlockId::new(block)], &[PageId::new(page)])?)
    }

    /// The first byte of each page.
    fn pages(&self) -> Result<[u8; 4], Error> {
        self.first(self.slab)
    }

    /// The first byte of each block.
    fn blocks(&self) -> Result<[u8; 4], Error> {
        self.first(self.host)
    }

    fn first(&self, id: RegionId) -> Result<[u8; 4], Error> {
        let mut found = [0; 4];
        for (page, byte) in (0..).zip(&mut found) {
            self.memory.read(id, page * PAGE, std::slice::from_mut(byte))?;
        }
        Ok(found)
    }
}

fn open(machine: &Machine) -> Result<Arc<Cuda>, Error> {
    Ok(Arc::new(Cuda::open_with(&software(machine)?, 0)?))
}

/// A launcher of page plans, recorded into a graph.
struct Pages {
    graph: CudaGraph,
    launcher: Launcher<Arc<Cuda>, RestorePlan>,
    plan: RestorePlan,
    gpu: Arc<Cuda>,
}

impl Pages {
    fn new(gpu: &Arc<Cuda>, small: &mut Small) -> Result<Self, Error> {
        let mut plan = RestorePlan::new(Arc::clone(&small.geometry), ROOM)?;
        let mut launcher = Launcher::bind(Arc::clone(gpu), &small.memory, &mut plan, slots(2))?;
        // SAFETY: (1) the graph goes first; (2, 3) it is replayed on the launcher's stream, and waited for.
        let record = || unsafe { launcher.record(&mut small.memory) };
        let (graph, ()) = gpu.capture(&gpu.stream(), CaptureMode::ThreadLocal, record)?;
        Ok(Self { graph, launcher, plan, gpu: Arc::clone(gpu) })
    }

    fn stage(&mut self, small: &Small, block: u32, page: u32) -> Result<Ticket, Error> {
        small.gather(&mut self.plan, block, page)?;
        self.launcher.stage(&small.memory, &mut self.plan)
    }

    fn replay(&mut self) -> Result<(), Error> {
        self.graph.replay(&self.gpu.stream())?;
        self.launcher.wait()
    }
}

fn mirrors(gpu: &Arc<Cuda>, small: &Small) -> Result<(Launcher<Arc<Cuda>, MirrorPlan>, MirrorPlan), Error> {
    let mut plan = MirrorPlan::new(Arc::clone(&small.geometry), RowCapacity { jobs: 1, changes: 8 })?;
    plan.bind(small.main, RowBinding::new(small.slots, 64))?;
    let launcher = Launcher::bind(Arc::clone(gpu), &small.memory, &mut plan, slots(2))?;
    Ok((launcher, plan))
}

fn map(plan: &mut MirrorPlan, small: &Small, page: u32, block: u32) {
    plan.page_map_mut().map(small.main, PageId::new(page), HostBlockId::new(block)).unwrap();
}

fn unmap(plan: &mut MirrorPlan, small: &Small, page: u32) {
    plan.page_map_mut().unmap(small.main, PageId::new(page)).unwrap();
}

const ASK: &str = "cuCtxGetCurrent";
const STATE: &str = "cuStreamIsCapturing";
const UPLOAD: &str = "cuMemcpyHtoDAsync_v2";
const LAUNCH: &str = "cuLaunchKernel";

/// A machine whose engine the thread has entered, and a small world with pages to lift on its GPU.
fn entered() -> (Machine, Engine, Arc<Cuda>, Small, Pages) {
    let (machine, engine) = machine();
    engine.enter();
    let gpu = open(&machine).unwrap();
    let mut small = Small::new(&gpu).unwrap();
    let pages = Pages::new(&gpu, &mut small).unwrap();
    (machine, engine, gpu, small, pages)
}

#[test]
fn a_step_makes_few_calls_and_in_this_order() {
    let (machine, engine) = machine();
    let gpu = open(&machine).unwrap();
    let mut small = Small::new(&gpu).unwrap();
    let mut pages = Pages::new(&gpu, &mut small).unwrap();
    let (mut mirror, mut rows) = mirrors(&gpu, &small).unwrap();
    let mut digests = DigestPlan::new(Arc::clone(&small.geometry), ROOM).unwrap();
    let mut digest = Launcher::bind(&gpu, &small.memory, &mut digests, slots(2)).unwrap();
    let calls = machine.calls();
    // What a first launch would load is loaded, and nothing waits for all of the GPU.
    assert!(calls.contains(&"cuModuleGetFunction") && !calls.contains(&"cuCtxSynchronize"), "{calls:?}");

    engine.enter();
    let _ = machine.calls();
    let ticket = pages.stage(&small, 1, 0).unwrap();
    assert_eq!(machine.calls(), [ASK, STATE, ASK, UPLOAD]);
    pages.graph.replay(&gpu.stream()).unwrap();
    assert_eq!(machine.calls(), [ASK, "cuGraphLaunch"]);
    assert_eq!(pages.launcher.state(ticket), TicketState::Pending);
    machine.run();
    assert!(matches!(pages.launcher.state(ticket), TicketState::Done(_)));
    assert_eq!(pages.launcher.counters().done, 1);
    assert_eq!(machine.calls(), [""; 0]);
    pages.launcher.launch(&mut small.memory).unwrap();
    assert_eq!(machine.calls(), [ASK, STATE, ASK, LAUNCH]);
    pages.launcher.wait().unwrap();
    let exchange = "cuThreadExchangeStreamCaptureMode";
    assert_eq!(machine.calls(), [ASK, STATE, ASK, exchange, "cuStreamSynchronize", exchange]);
    // Map changes come before the table, and so do zeros for results: what has a table may run.
    map(&mut rows, &small, 1, 2);
    mirror.stage(&small.memory, &mut rows).unwrap();
    assert_eq!(machine.calls(), [ASK, STATE, ASK, LAUNCH, ASK, UPLOAD]);
    digests.device(small.digests, &[PageId::new(0)], 16).unwrap();
    digest.stage(&small.memory, &mut digests).unwrap();
    assert_eq!(machine.calls(), [ASK, STATE, ASK, "cuMemsetD8Async", ASK, UPLOAD]);

    // A thread with another context, or none, has it back after each call.
    engine.leave();
    let _ = machine.calls();
    let (push, pop) = ("cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2");
    pages.stage(&small, 1, 0).unwrap();
    assert_eq!(machine.calls(), [ASK, push, STATE, pop, ASK, push, UPLOAD, pop]);

    // A launcher waits before it frees anything.
    drop(digest);
    let calls = machine.calls();
    let first = |name| calls.iter().position(|call| *call == name);
    assert!(first("cuStreamSynchronize") < first("cuMemFree_v2"), "{calls:?}");
}

#[test]
fn calls_that_a_driver_lacks_are_named() {
    for lacks in [&["cuGraphLaunch"][..], &["cuStreamIsCapturing", "cuMemHostAlloc"], &["cuGetErrorName"]] {
        let machine = Machine::new(1);
        lacks.iter().for_each(|name| machine.lack(name));
        let error = software(&machine).unwrap_err();
        assert!(matches!(error, BackendError::NoDriver { .. }), "{error}");
        let words = error.to_string();
        assert!(lacks.iter().all(|name| words.contains(name)), "{words}");
        assert_eq!(machine.calls(), [""; 0]);
    }
}

#[test]
fn what_the_drivers_compiler_says_is_kept() {
    let (machine, _engine) = machine();
    let gpu = open(&machine).unwrap();
    assert_eq!(gpu.loading_log(), "ptxas info    : run by an emulation, in no registers");
}

#[test]
fn a_driver_without_gpus_is_opened_and_has_none() {
    let machine = Machine::new(0);
    let driver = software(&machine).unwrap();
    assert_eq!(driver.devices().unwrap(), 0);
    let error = Cuda::open_with(&driver, 0).unwrap_err();
    assert!(matches!(error, Error::Backend(BackendError::NoDevice { ordinal: 0, devices: 0 })), "{error}");
}

/// Everything once: what is made is handed to `end` before it is dropped.
fn life(machine: &Machine, end: impl FnOnce()) -> Result<(), Error> {
    let gpu = open(machine)?;
    let mut small = Small::new(&gpu)?;
    let mut pages = Pages::new(&gpu, &mut small)?;
    pages.stage(&small, 1, 0)?;
    pages.replay()?;
    pages.stage(&small, 2, 3)?;
    pages.launcher.launch(&mut small.memory)?;
    let (mut mirror, mut rows) = mirrors(&gpu, &small)?;
    map(&mut rows, &small, 0, 3);
    mirror.stage(&small.memory, &mut rows)?;
    mirror.launch(&mut small.memory)?;
    mirror.wait()?;
    let mut digests = DigestPlan::new(Arc::clone(&small.geometry), ROOM)?;
    let mut digest = Launcher::bind(&gpu, &small.memory, &mut digests, slots(1))?;
    let number = digests.device(small.digests, &[PageId::new(0)], 16)?;
    let ticket = digest.stage(&small.memory, &mut digests)?;
    digest.launch(&mut small.memory)?;
    digest.wait()?;
    digest.digest(ticket, number)?;
    assert_eq!((small.pages()?[0], small.pages()?[3], small.blocks()?), (2, 3, [1, 2, 3, 2]));
    let mut own = vec![0_u8; 8192];
    // SAFETY: (1) the vector outlives the buffer, and nobody touches it; (2) nobody else has registered it.
    let registered = unsafe { gpu.register(own.as_mut_ptr(), own.len()) }?;
    end();
    drop(registered);
    Ok(())
}

#[test]
fn any_call_may_fail_and_nothing_is_left() {
    let (mut all, mut used, mut kept) = (usize::MAX, 0, 0);
    for after in 0.. {
        if after >= all {
            break;
        }
        let (machine, _engine) = machine();
        machine.pace(Pace::Early);
        if all != usize::MAX {
            machine.fail(after, SOME);
        }
        let mut made = Vec::new();
        let result = life(&machine, || made = machine.calls());
        made.extend(machine.calls());
        if all == usize::MAX {
            // The first life counts the calls.
            result.unwrap();
            assert_eq!(machine.live(), NOTHING);
            all = made.len();
            continue;
        }
        assert!(!machine.spare());
        let failed = made[after];
        match result {
            Err(Error::Backend(BackendError::Driver { call, code, .. })) => {
                assert_eq!((call, code), (failed, SOME));
                assert_eq!(machine.live(), NOTHING, "call {after}, {failed}");
                used += 1;
            }
            Err(Error::Backend(BackendError::Module { log, .. })) => {
                assert!(log.contains(failed) && log.contains("999"), "{log}");
                assert_eq!(machine.live(), NOTHING, "call {after}, {failed}");
            }
            // The registry cannot wait, and keeps what launches may still touch, and with it the context and its stream.
            Ok(()) if machine.live() == Live { contexts: 2, streams: 1, device: 2, host: 1, ..NOTHING } => {
                kept += 1;
            }
            // What cannot be let go, as a call for that fails, is all that is left.
            Ok(()) => {
                let Live { contexts, streams, events, graphs, executables, device, host, registered } =
                    machine.live();
                let left =
                    contexts - 1 + streams + events + graphs + executables + device + host + registered;
                assert!(left <= 1, "call {after}, {failed}: {:?}", machine.live());
            }
            Err(other) => panic!("call {after}, {failed}: {other}"),
        }
    }
    assert!(used > 100, "only {used} calls");
    assert!((1..20).contains(&kept), "{kept} calls");
}

#[test]
fn a_fault_ends_everything_and_frees_nothing() {
    let all = {
        let (machine, _engine) = machine();
        machine.pace(Pace::Early);
        let mut made = 0;
        life(&machine, || made = machine.calls().len()).unwrap();
        made
    };
    let mut lost = 0;
    for after in 0..all {
        let (machine, _engine) = machine();
        machine.pace(Pace::Early);
        machine.fail(after, FATAL);
        let error = life(&machine, || ()).unwrap_err();
        let made = machine.calls();
        let failed = made[after];
        let words = error.to_string();
        assert!(words.contains(failed) && words.contains("700"), "{failed}: {words}");
        if matches!(error, Error::Backend(BackendError::ContextLost { .. })) {
            let allowed = ["cuCtxPopCurrent_v2", "cuThreadExchangeStreamCaptureMode", "cuStreamSynchronize"];
            let inside = &made[after + 1..];
            let frees = inside.iter().filter(|call| call.contains("Free") || call.contains("Destroy"));
            assert_eq!(frees.count(), 0, "call {after}, {failed}: {inside:?}");
            let more = inside.iter().filter(|call| !allowed.contains(call));
            assert!(more.count() <= 1, "call {after}, {failed}: {inside:?}");
            lost += 1;
        }
    }
    assert!(lost > 100, "only {lost} calls");
}

#[test]
fn what_was_pending_in_a_lost_context_is_lost() {
    let (machine, _engine, gpu, mut small, mut pages) = entered();
    let done = pages.stage(&small, 1, 0).unwrap();
    pages.replay().unwrap();
    let pending = pages.stage(&small, 1, 0).unwrap();
    // Two calls replay the graph, two ask whether anything is captured, and two more come before the wait.
    machine.fail(6, FATAL);
    let error = pages.replay().unwrap_err();
    assert!(matches!(error, Error::Backend(BackendError::ContextLost { .. })), "{error}");
    assert!(matches!(pages.launcher.state(done), TicketState::Done(_)));
    assert_eq!(pages.launcher.state(pending), TicketState::Lost);
    let _ = machine.calls();
    let launched = pages.launcher.launch(&mut small.memory);
    let refused = [
        pages.stage(&small, 1, 0).map(drop),
        launched,
        pages.launcher.wait(),
        pages.replay(),
        small.pages().map(drop),
        small.memory.allocate(&gpu, Memory::Device, 64).map(drop),
        gpu.synchronize(),
        gpu.new_stream().map(drop).map_err(Error::from),
    ];
    for refused in refused {
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::Backend(BackendError::ContextGone)), "{error}");
    }
    assert!(small.memory.bytes(small.host).is_none());
    assert_eq!(machine.calls(), [""; 0]);
}

fn is_some(error: &Error) -> bool {
    matches!(error, Error::Backend(BackendError::Driver { code: SOME, .. }))
}

#[test]
fn a_stage_that_fails_leaves_the_plan_before() {
    for after in 0..4 {
        let (machine, _engine, _gpu, small, mut pages) = entered();
        let before = pages.stage(&small, 0, 1).unwrap();
        machine.fail(after, SOME);
        let error = pages.stage(&small, 3, 2).unwrap_err();
        assert!(is_some(&error) && !machine.spare(), "{error}");
        assert_eq!(pages.launcher.counters().staged, 1);
        pages.replay().unwrap();
        assert!(matches!(pages.launcher.state(before), TicketState::Done(_)));
        assert_eq!(small.pages().unwrap(), [0, 1, 0, 0]);

        // Both slots are free.
        let again = [pages.stage(&small, 2, 0).unwrap(), pages.stage(&small, 3, 2).unwrap()];
        let full = pages.stage(&small, 0, 0).unwrap_err();
        assert!(matches!(full, Error::Launch(LaunchError::RingFull { .. })), "{full}");
        pages.replay().unwrap();
        assert_eq!(pages.launcher.state(again[0]), TicketState::Superseded);
        assert!(matches!(pages.launcher.state(again[1]), TicketState::Done(_)));
        assert_eq!(small.pages().unwrap(), [0, 1, 4, 0]);
    }
}

#[test]
fn map_changes_whose_stage_fails_are_staged_again() {
    for after in 0..6 {
        let (machine, _engine, gpu, mut small, mut pages) = entered();
        for (block, page) in [(0, 0), (1, 1)] {
            pages.stage(&small, block, page).unwrap();
            pages.replay().unwrap();
        }
        let (mut mirror, mut rows) = mirrors(&gpu, &small).unwrap();
        map(&mut rows, &small, 0, 3);
        let before = mirror.stage(&small.memory, &mut rows).unwrap();
        unmap(&mut rows, &small, 0);
        map(&mut rows, &small, 1, 3);
        machine.fail(after, SOME);
        let error = mirror.stage(&small.memory, &mut rows).unwrap_err();
        assert!(is_some(&error) && !machine.spare(), "{error}");
        assert_eq!(rows.page_map().pending().len(), 2);
        // The plan before runs, by the map before; or by the new one, where its changes were enqueued.
        mirror.launch(&mut small.memory).unwrap();
        mirror.wait().unwrap();
        assert!(matches!(mirror.state(before), TicketState::Done(_)));
        assert_eq!(small.blocks().unwrap(), [1, 2, 3, if after < 4 { 1 } else { 2 }]);

        let again = mirror.stage(&small.memory, &mut rows).unwrap();
        assert_eq!(rows.page_map().pending().len(), 0);
        mirror.launch(&mut small.memory).unwrap();
        mirror.wait().unwrap();
        assert!(matches!(mirror.state(again), TicketState::Done(_)));
        assert_eq!(small.blocks().unwrap(), [1, 2, 3, 2]);
    }
}

/// A call that fails may have enqueued something all the same, which reads the slot.
#[test]
fn a_slot_of_changes_that_fail_is_waited_for_before_it_is_used_again() {
    let (machine, _engine, gpu, mut small, _pages) = entered();
    let (mut mirror, mut rows) = mirrors(&gpu, &small).unwrap();
    map(&mut rows, &small, 0, 3);
    const SYNC: &str = "cuStreamSynchronize";
    // The launch of the changes fails, and so does the wait after it.
    let _ = machine.calls();
    machine.fail(3, SOME);
    machine.fail(8, SOME);
    let error = mirror.stage(&small.memory, &mut rows).unwrap_err();
    assert!(is_some(&error) && !machine.spare(), "{error}");
    let made = machine.calls();
    assert_eq!((made[3], made[8]), (LAUNCH, SYNC), "{made:?}");
    // The next stage waits first, and fails where it cannot.
    machine.fail(2 + 4, SOME);
    let error = mirror.stage(&small.memory, &mut rows).unwrap_err();
    assert!(is_some(&error) && !machine.spare(), "{error}");
    let made = machine.calls();
    assert!(made.contains(&SYNC) && !made.contains(&LAUNCH) && !made.contains(&UPLOAD), "{made:?}");
    mirror.stage(&small.memory, &mut rows).unwrap();
    let made = machine.calls();
    let first = |name| made.iter().position(|call| *call == name).unwrap();
    assert!(first(SYNC) < first(LAUNCH) && first(LAUNCH) < first(UPLOAD), "{made:?}");
    mirror.launch(&mut small.memory).unwrap();
    mirror.wait().unwrap();
    // And then it waits no more.
    let _ = machine.calls();
    mirror.stage(&small.memory, &mut rows).unwrap();
    assert!(!machine.calls().contains(&SYNC));
}

/// A wait that fails tells nothing of what is waited for.
#[test]
fn what_cannot_be_waited_for_is_neither_released_nor_freed() {
    for after in 0..6 {
        let (machine, _engine, _gpu, mut small, mut pages) = entered();
        let ticket = pages.stage(&small, 1, 0).unwrap();
        pages.launcher.launch(&mut small.memory).unwrap();
        machine.fail(after, SOME);
        let error = small.memory.release(small.host).unwrap_err();
        assert!(is_some(&error) && !machine.spare(), "{error}");
        assert!(small.memory.region(small.host).is_some());
        small.memory.release(small.host).unwrap();
        assert!(small.memory.region(small.host).is_none());
        assert!(matches!(pages.launcher.state(ticket), TicketState::Done(_)));
    }
}

#[test]
fn digests_are_right_or_gone_where_a_stage_fails() {
    for after in 0..6 {
        let (machine, _engine, gpu, mut small, mut pages) = entered();
        pages.stage(&small, 1, 0).unwrap();
        pages.replay().unwrap();
        let mut plan = DigestPlan::new(Arc::clone(&small.geometry), ROOM).unwrap();
        let mut digest = Launcher::bind(&gpu, &small.memory, &mut plan, slots(2)).unwrap();
        let run = |digest: &mut Launcher<_, _>, small: &mut Small, plan: &mut DigestPlan| {
            let ticket = digest.stage(&small.memory, plan).unwrap();
            digest.launch(&mut small.memory).unwrap();
            digest.wait().unwrap();
            ticket
        };
        let number = plan.device(small.digests, &[PageId::new(0)], 16).unwrap();
        let ticket = run(&mut digest, &mut small, &mut plan);
        let right = digest.digest(ticket, number).unwrap();

        plan.clear();
        let other = plan.device(small.digests, &[PageId::new(0)], 16).unwrap();
        machine.fail(after, SOME);
        let error = digest.stage(&small.memory, &mut plan).unwrap_err();
        assert!(is_some(&error) && !machine.spare(), "{error}");
        match digest.digest(ticket, number) {
            Ok(found) => assert_eq!((found, after < 2), (right, true)),
            Err(error) => {
                assert!(matches!(error, Error::Launch(LaunchError::DigestsGone { .. })), "{error}");
                assert!(after >= 2);
            }
        }
        let ticket = run(&mut digest, &mut small, &mut plan);
        assert_eq!(digest.digest(ticket, other).unwrap(), right);
    }
}

#[test]
fn a_launch_that_fails_is_made_again() {
    for after in 0..4 {
        let (machine, _engine, _gpu, mut small, mut pages) = entered();
        let ticket = pages.stage(&small, 1, 1).unwrap();
        machine.fail(after, SOME);
        let error = pages.launcher.launch(&mut small.memory).unwrap_err();
        assert!(is_some(&error) && !machine.spare(), "{error}");
        pages.launcher.wait().unwrap();
        assert_eq!(pages.launcher.state(ticket), TicketState::Pending);
        assert_eq!((pages.launcher.counters().launches, small.pages().unwrap()), (0, [0; 4]));
        pages.launcher.launch(&mut small.memory).unwrap();
        pages.launcher.wait().unwrap();
        assert!(matches!(pages.launcher.state(ticket), TicketState::Done(_)));
        assert_eq!(small.pages().unwrap(), [0, 2, 0, 0]);
    }
}

#[test]
fn a_gpu_is_known_by_its_uuid_and_its_place() {
    let (machine, _engine) = machine();
    let gpu = open(&machine).unwrap();
    let uuid = gpu.uuid();
    let digits = uuid.strip_prefix("GPU-").unwrap();
    assert_eq!(digits.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
    assert!(digits.chars().all(|digit| digit == '-' || digit.is_ascii_hexdigit()), "{uuid}");
    assert_eq!(gpu.bus(), "0000:00:00.0");
}

#[test]
fn what_others_have_written_is_waited_for_where_the_gpu_does_not_order_it() {
    const FLUSH: &str = "cuFlushGPUDirectRDMAWrites";
    let machine = Machine::new(1);
    let gpu = Cuda::open_with(&software(&machine).unwrap(), 0).unwrap();
    let _ = machine.calls();
    gpu.settle_remote_writes().unwrap();
    assert!(machine.calls().contains(&FLUSH));
    // SAFETY: (1) as `software`; the call that is left out is not made.
    let older =
        unsafe { CudaDriver::from_symbols(|name| (name != FLUSH).then(|| machine.symbol(name)).flatten()) };
    let gpu = Cuda::open_with(&older.unwrap(), 0).unwrap();
    assert_eq!(gpu.settle_remote_writes(), Err(BackendError::RemoteWrites));
}
