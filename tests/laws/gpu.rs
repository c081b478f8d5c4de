//! What a GPU does besides: launches that return before they have run, streams, graphs that are recorded once.

use std::num::NonZeroU32;
use std::sync::Arc;

use pagelift::Error;
use pagelift::backends::{Backend, CaptureMode, Cpu, Cuda, CudaGraph, CudaStream};
use pagelift::error::{BackendError, MemoryError};
use pagelift::geometry::{GeometryBuilder, GroupSpec, Landing, Memory, Paged, PagedLift, PoolSpec, SideSpec};
use pagelift::id::{HostBlockId, PageId, Ticket};
use pagelift::launcher::{Launcher, LauncherOptions, Report, TicketState};
use pagelift::layout::PagedLayout;
use pagelift::memory::Registry;
use pagelift::plan::{PlanCapacity, RestorePlan, WriteBackPlan};
use pagelift_cases::draw::Draw;
use pagelift_cases::lift::LiftCall;
use pagelift_cases::memory::Image;

use crate::device::{Device, on_devices};
use crate::lifts::ROOM;
use crate::world::World;

/// Bytes of a row of [`a_ticket_that_is_polled_shows_every_byte`].
const ROW: u32 = 4096;

const DONE: TicketState = TicketState::Done(Report { bad: 0, rows: 0, skipped: 0 });

on_devices! {
    graphs_recorded_once_carry_out_whatever_is_staged,
    the_host_may_be_two_steps_ahead,
    a_capturing_stream_takes_no_stage_and_no_launch,
    a_replay_is_no_part_of_a_capture,
    memory_is_read_after_launches_have_finished,
    a_launcher_waits_before_it_goes,
    an_engines_stream_may_be_adopted_in_every_step,
    an_engines_own_host_memory_is_registered_where_it_lies,
    an_engines_own_device_memory_is_adopted_and_not_freed,
    kernels_are_not_launched_on_memory_that_they_do_not_reach,
    what_a_gpu_still_writes_the_host_copies_afterwards,
}

/// A random world on the GPU, and a launcher of lifts.
pub struct Lifts {
    gpu: Arc<Cuda>,
    pub world: World,
    pub plan: RestorePlan,
    pub launcher: Launcher<Arc<Cuda>, RestorePlan>,
}

impl Lifts {
    pub fn new(device: &Device, draw: &mut Draw, slots: u32) -> Self {
        let gpu = Arc::clone(&device.gpu);
        let world = World::random(draw, 4, &gpu);
        let mut plan = RestorePlan::new(world.geometry(), ROOM).unwrap();
        let options = LauncherOptions { slots, ..LauncherOptions::default() };
        let launcher = Launcher::bind(Arc::clone(&gpu), &world.pools.memory, &mut plan, options).unwrap();
        Self { gpu, world, plan, launcher }
    }

    pub fn try_stage(&mut self, prompts: &[LiftCall]) -> Result<Ticket, Error> {
        self.plan.clear();
        prompts.iter().for_each(|prompt| self.world.lift(&mut self.plan, prompt));
        self.launcher.stage(&self.world.pools.memory, &mut self.plan)
    }

    pub fn stage(&mut self, prompts: &[LiftCall]) -> Ticket {
        self.try_stage(prompts).unwrap()
    }

    /// Some imports that fit beside each other, perhaps none.
    pub fn prompts(&self, draw: &mut Draw) -> Vec<LiftCall> {
        let mut free = self.world.free(draw);
        (0..draw.below(4)).map_while(|_| LiftCall::fitting(draw, &self.world.model, &mut free)).collect()
    }

    pub fn record(&mut self) -> Result<(), Error> {
        // SAFETY: (1) tests drop their graphs first; (2, 3) they replay them one after the other, and wait before they
        // look.
        unsafe { self.launcher.record(&mut self.world.pools.memory) }
    }

    pub fn capture(&mut self, stream: &CudaStream, mode: CaptureMode) -> CudaGraph {
        let gpu = Arc::clone(&self.gpu);
        gpu.capture(stream, mode, || self.record()).unwrap().0
    }

    pub fn expect(&self, image: &mut Image, prompts: &[LiftCall]) {
        for prompt in prompts {
            self.world.expect(image, prompt);
        }
    }

    /// New bytes everywhere, and what they become by these imports.
    pub fn expected(&mut self, draw: &mut Draw, prompts: &[LiftCall]) -> Image {
        self.world.fill(draw);
        let mut expected = self.world.image();
        self.expect(&mut expected, prompts);
        expected
    }

    /// Replays a graph over new bytes, and expects the effect of these imports and no other.
    fn replay(&mut self, graph: &mut CudaGraph, draw: &mut Draw, prompts: &[LiftCall]) {
        let expected = self.expected(draw, prompts);
        graph.replay(&self.gpu.stream()).unwrap();
        self.launcher.wait().unwrap();
        self.world.assert_is(&expected);
    }
}

fn graphs_recorded_once_carry_out_whatever_is_staged(device: &Device) {
    let gpu = &device.gpu;
    for seed in 0..12 {
        let mut draw = Draw::seeded(seed);
        let mut it = Lifts::new(device, &mut draw, 3);
        let modes = [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed];
        let mut graphs = modes.map(|mode| it.capture(&gpu.stream(), mode));
        // Nothing is staged yet.
        it.replay(&mut graphs[0], &mut draw, &[]);
        for step in 0..12 {
            let prompts = it.prompts(&mut draw);
            let ticket = it.stage(&prompts);
            assert_eq!(it.launcher.state(ticket), TicketState::Pending);
            let graph = &mut graphs[step % modes.len()];
            it.replay(graph, &mut draw, &prompts);
            assert_eq!(it.launcher.state(ticket), DONE);
            // A plan takes effect in one replay only, of whichever graph.
            it.replay(&mut graphs[(step + 1) % modes.len()], &mut draw, &[]);
        }
    }
}

fn the_host_may_be_two_steps_ahead(device: &Device) {
    let gpu = &device.gpu;
    let mut draw = Draw::seeded(1);
    let mut it = Lifts::new(device, &mut draw, 3);
    let mut graph = it.capture(&gpu.stream(), CaptureMode::ThreadLocal);
    it.world.fill(&mut draw);
    let mut expected = it.world.image();
    let mut tickets = Vec::new();
    for _ in 0..3 {
        let prompts = it.prompts(&mut draw);
        tickets.push(it.stage(&prompts));
        it.expect(&mut expected, &prompts);
        graph.replay(&gpu.stream()).unwrap();
    }
    gpu.synchronize().unwrap();
    it.world.assert_is(&expected);
    assert!(tickets.iter().all(|ticket| it.launcher.state(*ticket) == DONE));
}

fn a_capturing_stream_takes_no_stage_and_no_launch(device: &Device) {
    let gpu = &device.gpu;
    let mut draw = Draw::seeded(2);
    let mut it = Lifts::new(device, &mut draw, 2);
    let before = it.world.image();
    let refused = gpu.capture(&gpu.stream(), CaptureMode::Relaxed, || {
        let staged = it.launcher.stage(&it.world.pools.memory, &mut it.plan).map(drop);
        Ok([staged, it.launcher.launch(&mut it.world.pools.memory)])
    });
    for result in refused.unwrap().1 {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Backend(BackendError::Capturing { .. })), "{error}");
    }
    // SAFETY: (1, 2, 3) nothing is recorded.
    let error = unsafe { it.launcher.record(&mut it.world.pools.memory) }.unwrap_err();
    assert!(matches!(error, Error::Backend(BackendError::NotCapturing)), "{error}");
    it.world.assert_is(&before);
    let ticket = it.stage(&[]);
    it.launcher.launch(&mut it.world.pools.memory).unwrap();
    gpu.synchronize().unwrap();
    assert_eq!(it.launcher.state(ticket), DONE);
}

fn a_replay_is_no_part_of_a_capture(device: &Device) {
    let gpu = &*device.gpu;
    let mut world = World::random(&mut Draw::seeded(17), 2, &device.gpu);
    let mut plan = RestorePlan::new(world.geometry(), ROOM).unwrap();
    let launcher = Launcher::bind(gpu, &world.pools.memory, &mut plan, LauncherOptions::default()).unwrap();
    let mut replay = gpu.record(launcher, &mut world.pools.memory).unwrap();
    // That graph would outlive the launcher's tables.
    let body = || Ok(replay.replay(&mut world.pools.memory));
    let refused = gpu.capture(&gpu.stream(), CaptureMode::Relaxed, body).unwrap().1;
    let error = refused.unwrap_err();
    assert!(matches!(error, Error::Backend(BackendError::Capturing { .. })), "{error}");
    replay.replay(&mut world.pools.memory).unwrap();
    replay.launcher().wait().unwrap();
}

fn memory_is_read_after_launches_have_finished(device: &Device) {
    let mut draw = Draw::seeded(3);
    let mut it = Lifts::new(device, &mut draw, 4);
    for _ in 0..20 {
        it.world.fill(&mut draw);
        let mut expected = it.world.image();
        let prompts = it.prompts(&mut draw);
        it.expect(&mut expected, &prompts);
        it.stage(&prompts);
        it.launcher.launch(&mut it.world.pools.memory).unwrap();
        // Without waiting: reading does.
        it.world.assert_is(&expected);
    }
}

/// The registry remembers streams, and not how often it was told of one.
fn an_engines_stream_may_be_adopted_in_every_step(device: &Device) {
    device.engine.enter();
    let mut draw = Draw::seeded(4);
    let streams = [device.engine.stream(false), device.engine.stream(true)];
    let mut it = Lifts::new(device, &mut draw, 2);
    for step in 0..12 {
        it.launcher.wait().unwrap();
        it.launcher.set_stream(&streams[step % 2].adopted(device)).unwrap();
        let prompts = it.prompts(&mut draw);
        let expected = it.expected(&mut draw, &prompts);
        it.stage(&prompts);
        it.launcher.launch(&mut it.world.pools.memory).unwrap();
        it.world.assert_is(&expected);
    }
    if let Some(machine) = &device.machine {
        let _ = machine.calls();
        let id = it.world.pools.regions[0];
        it.world.pools.memory.read(id, 0, &mut []).unwrap();
        let waits = machine.calls().into_iter().filter(|call| *call == "cuStreamIsCapturing").count();
        assert_eq!(waits, streams.len());
    }
}

/// Launches read its tables, and copies its slots.
fn a_launcher_waits_before_it_goes(device: &Device) {
    for seed in 0..4 {
        let mut draw = Draw::seeded(seed);
        let mut it = Lifts::new(device, &mut draw, 2);
        let prompts = it.prompts(&mut draw);
        let expected = it.expected(&mut draw, &prompts);
        it.stage(&prompts);
        it.launcher.launch(&mut it.world.pools.memory).unwrap();
        drop(it.launcher);
        it.world.assert_is(&expected);
    }
}

fn an_engines_own_host_memory_is_registered_where_it_lies(device: &Device) {
    let gpu = &device.gpu;
    let mut own = vec![7_u8; 3 << 20];
    let mut memory = Registry::new();
    // SAFETY: (1) the vector outlives the registry, and (2) is not touched but through it.
    let buffer = unsafe { gpu.register(own.as_mut_ptr(), own.len()) }.unwrap();
    let id = memory.adopt(Memory::Host, buffer).unwrap();
    assert!(memory.bytes(id).unwrap().iter().all(|byte| *byte == 7));
    // Half of it again: it is recognised, and still registered when that goes.
    let address = memory.region(id).unwrap().address();
    // SAFETY: (1, 2) as above, and it goes before.
    let again = unsafe { gpu.register(memory.bytes_mut(id).unwrap().as_mut_ptr(), 1 << 20) }.unwrap();
    assert_eq!(again.region().address(), address);
    drop(again);
    memory.release(id).unwrap();
    drop(memory);
    assert_eq!(own[0], 7);
}

/// Nobody waits for a stream here: the host sees a ticket, and with it all that any multiprocessor wrote before. A driver in
/// software runs nothing until it is waited for, so this is of GPUs alone.
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn on_a_gpu_a_ticket_that_is_polled_shows_every_byte() {
    Device::real(|device| {
        let (gpu, blocks) = (&device.gpu, 64_u32);
        let layout = PagedLayout::builder(64).segment("row", ROW).build().unwrap();
        let bytes = layout.page_bytes().get() * u64::from(blocks);
        let mut own = vec![0_u64; bytes as usize / 8];
        let start = own.as_mut_ptr();
        let mut memory = Registry::new();
        // SAFETY: (1) the vector outlives the registry, and (2) is only read, when a ticket has said that it is written.
        let buffer = unsafe { gpu.register(start.cast(), bytes as usize) }.unwrap();
        let host = memory.adopt(Memory::Host, buffer).unwrap();
        let device = memory.allocate(gpu, Memory::Device, bytes).unwrap();
        let mut builder = GeometryBuilder::new();
        let mut side = |name, place, id| {
            let region = memory.region(id).unwrap();
            let pool = builder.pool(PoolSpec::new(name, place, blocks, &[region])).unwrap();
            let page = layout.page_bytes().get();
            Some(SideSpec::packed(pool, &[region.address()], &[0], page, layout.clone()))
        };
        let (host, slab) = (side("host", Memory::Host, host), side("slab", Memory::Device, device));
        let (landing, lift) = (Landing::Host, PagedLift::All);
        let spec = GroupSpec { name: "main".into(), layers: 1, landing, lift, host, device: slab };
        let main = builder.group::<Paged>(spec).unwrap();
        let mut plan =
            WriteBackPlan::new(Arc::new(builder.build().unwrap()), PlanCapacity::default()).unwrap();
        let workers = NonZeroU32::new(gpu.multiprocessors());
        let options = LauncherOptions { workers, ..LauncherOptions::default() };
        let mut launcher = Launcher::bind(Arc::clone(gpu), &memory, &mut plan, options).unwrap();
        for round in 1_u64..=100 {
            memory.write(device, 0, &round.to_ne_bytes().repeat(bytes as usize / 8)).unwrap();
            plan.clear();
            for block in 0..blocks {
                plan.spill(main, &[PageId::new(block)], &[HostBlockId::new(blocks - 1 - block)]).unwrap();
            }
            let ticket = launcher.stage(&memory, &mut plan).unwrap();
            launcher.launch(&mut memory).unwrap();
            while launcher.state(ticket) == TicketState::Pending {
                std::hint::spin_loop();
            }
            assert_eq!(launcher.state(ticket), DONE);
            // SAFETY: the vector has so many words, and what wrote them is done.
            let seen = (0..own.len()).all(|at| unsafe { start.add(at).read_volatile() } == round);
            assert!(seen, "round {round}");
        }
        drop(launcher);
        drop(memory);
        assert!(own.iter().all(|word| *word == 100));
    });
}

fn an_engines_own_device_memory_is_adopted_and_not_freed(device: &Device) {
    let gpu = &device.gpu;
    let [mut theirs, mut ours] = [Registry::new(), Registry::new()];
    let owned = theirs.allocate(gpu, Memory::Device, 4096).unwrap();
    theirs.write(owned, 0, &[5; 4096]).unwrap();
    let address = theirs.region(owned).unwrap().address();
    gpu.check_reach(address + 1024, 2048).unwrap();
    let host = theirs.allocate(gpu, Memory::Host, 64).unwrap();
    gpu.check_reach(theirs.region(host).unwrap().address(), 64).unwrap();
    let plain = vec![0_u8; 4096];
    for (start, bytes) in [(plain.as_ptr().addr() as u64, 4096), (address, usize::MAX), (8, 8)] {
        let error = gpu.check_reach(start, bytes).unwrap_err();
        let expected = matches!(error, Error::Memory(MemoryError::NotOnGpu { gpu: 0, found: None, .. }));
        assert!(expected, "{error}");
    }
    // SAFETY: (1) the other registry outlives this one, and (2) is not asked meanwhile.
    let adopted = ours.adopt(Memory::Device, unsafe { gpu.adopt(address + 1024, 2048) }).unwrap();
    let mut bytes = [0; 2048];
    ours.read(adopted, 0, &mut bytes).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 5) && ours.bytes(adopted).is_none());
    ours.write(adopted, 2047, &[6]).unwrap();
    drop(ours);
    theirs.read(owned, 2048, &mut bytes).unwrap();
    assert_eq!(bytes[1022..1025], [5, 6, 5]);
}

fn kernels_are_not_launched_on_memory_that_they_do_not_reach(device: &Device) {
    let gpu = &device.gpu;
    fn bind<B: Backend>(on: &impl Backend, backend: B) -> Error {
        let world = World::small(on);
        let mut plan = RestorePlan::new(world.geometry(), ROOM).unwrap();
        Launcher::bind(backend, &world.pools.memory, &mut plan, LauncherOptions::default())
            .map(drop)
            .unwrap_err()
    }
    let cpu = Cpu::with_threads(1).unwrap();
    for error in [bind(&cpu, gpu), bind(gpu, &cpu)] {
        assert!(matches!(error, Error::Memory(MemoryError::OutOfReach { .. })), "{error}");
    }
}

/// Two launchers of one registry: a GPU's, whose launches return early, and one of the host's, which runs when it is called.
fn what_a_gpu_still_writes_the_host_copies_afterwards(device: &Device) {
    let (gpu, cpu) = (&device.gpu, &Cpu::with_threads(1).unwrap());
    let layout = PagedLayout::builder(16).segment("row", ROW).build().unwrap();
    let bytes = layout.page_bytes().get();
    let mut own = vec![0_u8; bytes as usize];
    let mut memory = Registry::new();
    // Registered memory has one address for both.
    // SAFETY: (1) the vector outlives the registry, and (2) is not touched but through it.
    let buffer = unsafe { gpu.register(own.as_mut_ptr(), own.len()) }.unwrap();
    let host = memory.adopt(Memory::Host, buffer).unwrap();
    let slabs = [memory.allocate(gpu, Memory::Device, bytes), memory.allocate(cpu, Memory::Device, bytes)];
    let [of_gpu, of_cpu] = slabs.map(Result::unwrap);
    memory.write(of_gpu, 0, &vec![7; bytes as usize]).unwrap();
    let world = |slab| {
        let mut builder = GeometryBuilder::new();
        let mut side = |place: Memory, id| {
            let region = memory.region(id).unwrap();
            let pool = builder.pool(PoolSpec::new(place.name(), place, 1, &[region])).unwrap();
            Some(SideSpec::packed(pool, &[region.address()], &[0], bytes, layout.clone()))
        };
        let (host, device) = (side(Memory::Host, host), side(Memory::Device, slab));
        let (landing, lift) = (Landing::Host, PagedLift::All);
        let spec = GroupSpec { name: "main".into(), layers: 1, landing, lift, host, device };
        let main = builder.group::<Paged>(spec).unwrap();
        (main, Arc::new(builder.build().unwrap()))
    };
    let ((spilled, on_gpu), (lifted, on_cpu)) = (world(of_gpu), world(of_cpu));
    let (block, page) = ([HostBlockId::new(0)], [PageId::new(0)]);
    let mut spill = WriteBackPlan::new(on_gpu, PlanCapacity::default()).unwrap();
    spill.spill(spilled, &page, &block).unwrap();
    let route = on_cpu.lift_route(lifted).unwrap();
    let mut lift = RestorePlan::new(on_cpu, PlanCapacity::default()).unwrap();
    lift.gather(route, &block, &page).unwrap();
    let options = LauncherOptions::default();
    let mut early = Launcher::bind(gpu, &memory, &mut spill, options).unwrap();
    let mut late = Launcher::bind(cpu, &memory, &mut lift, options).unwrap();
    early.stage(&memory, &mut spill).unwrap();
    late.stage(&memory, &mut lift).unwrap();

    early.launch(&mut memory).unwrap();
    late.launch(&mut memory).unwrap();
    assert!(memory.bytes(of_cpu).unwrap().iter().all(|byte| *byte == 7));
}

#[test]
fn without_a_driver_or_a_gpu_the_error_says_so() {
    if let Err(error) = Cuda::open(u32::MAX) {
        let words = error.to_string();
        assert!(words.contains("driver") || words.contains("there is no GPU"), "{words}");
    } else {
        panic!("there are not so many GPUs");
    }
}
