//! What comes before and after a launch: the engine's forward, other launchers, other threads, other devices, and the
//! engine's own errors.

use std::sync::Arc;
use std::thread;

use pagelift::Error;
use pagelift::backends::{Backend, Cuda, CudaDriver};
use pagelift::error::{BackendError, MemoryError};
use pagelift::geometry::{Memory, Region};
use pagelift::launcher::{Launcher, LauncherOptions, Report, TicketState};
use pagelift::plan::RestorePlan;
use pagelift_cases::draw::Draw;
use pagelift_cases::memory::Image;

use crate::device::{Device, Engine, EngineStream, MODES, on_devices, on_several, on_two_in_software};
use crate::gpu::Lifts;
use crate::lifts::ROOM;
use crate::mirror;
use crate::page_map::Fixture;
use crate::tickets::{one, slots, two};
use crate::world::World;

const DONE: TicketState = TicketState::Done(Report { bad: 0, rows: 0, skipped: 0 });

on_devices! {
    case_12_rows_are_mirrored_after_the_forward_that_wrote_them,
    case_12_rows_of_a_forked_branch_are_mirrored_after_it,
    case_12_a_page_is_lifted_into_after_the_forward_that_read_it,
    launchers_on_two_streams_do_not_meet,
    threads_have_launchers_of_their_own,
    the_callers_context_is_left_as_it_was;
    refused: case_22_errors_of_the_engine_are_not_blamed_on_a_launch, the_callers_context_survives_errors,
}

/// A forward that writes every row of the region that page 0 begins in.
struct Forward {
    address: u64,
    bytes: usize,
}

impl Forward {
    fn of(world: &World) -> Self {
        let row = world.model.groups[0].device.row(0, 0, 0, 0);
        let mut regions = world.pools.regions.iter().map(|id| world.pools.memory.region(*id).unwrap());
        let holds = |region: &Region| (region.address()..region.end().unwrap()).contains(&row);
        let region = regions.find(holds).unwrap();
        Self { address: region.address(), bytes: region.bytes() as usize }
    }

    fn fill(&self, image: &mut Image, value: u8) {
        image.fill(self.address, self.bytes, value);
    }

    fn run(&self, stream: &EngineStream<'_>, value: u8) {
        // SAFETY: (1) the region is there, and tests wait before they look.
        unsafe { stream.fill(self.address, value, self.bytes) };
    }
}

/// What mirroring pages 0 and 1 leaves, once a forward has filled their region with `value`.
fn mirrored(it: &Fixture<Arc<Cuda>>, forward: &Forward, value: u8) -> Image {
    let mut expected = it.world.image();
    forward.fill(&mut expected, value);
    for (page, block) in [(0, 1), (1, 2)] {
        (0..4).for_each(|row| it.world.expect_mirrored(&mut expected, page, block, row));
    }
    expected
}

/// A fixture whose pages 0 and 1 are mapped, and staged to be mirrored in each launch.
fn mirrors(device: &Device, stream: &EngineStream<'_>) -> Fixture<Arc<Cuda>> {
    let (mut it, mut plan) = Fixture::new(Arc::clone(&device.gpu), mirror::ROOM, true);
    it.launcher.set_stream(&stream.adopted(device)).unwrap();
    it.map(&mut plan, 0, 1).unwrap();
    it.map(&mut plan, 1, 2).unwrap();
    it.stage(&mut plan).unwrap();
    it
}

fn case_12_rows_are_mirrored_after_the_forward_that_wrote_them(device: &Device) {
    device.engine.enter();
    let stream = device.engine.stream(false);
    let mut it = mirrors(device, &stream);
    let forward = Forward::of(&it.world);
    // Eagerly.
    let expected = mirrored(&it, &forward, 0x11);
    forward.run(&stream, 0x11);
    it.launcher.launch(&mut it.world.pools.memory).unwrap();
    it.launcher.wait().unwrap();
    it.world.assert_is(&expected);
    // Recorded, the forward with it.
    assert_eq!(stream.begin(MODES[1]), 0);
    forward.run(&stream, 0x22);
    // SAFETY: (1) the graph goes first; (2, 3) replays are waited for one by one.
    unsafe { it.launcher.record(&mut it.world.pools.memory) }.unwrap();
    // What comes later is not mirrored.
    forward.run(&stream, 0x33);
    let graph = stream.end().unwrap();
    for _ in 0..3 {
        let mut expected = mirrored(&it, &forward, 0x22);
        forward.fill(&mut expected, 0x33);
        graph.replay(&stream);
        it.launcher.wait().unwrap();
        it.world.assert_is(&expected);
    }
}

fn case_12_rows_of_a_forked_branch_are_mirrored_after_it(device: &Device) {
    let engine = &device.engine;
    engine.enter();
    let (stream, branch) = (engine.stream(false), engine.stream(false));
    let (fork, join) = (engine.event(), engine.event());
    let mut it = mirrors(device, &stream);
    let forward = Forward::of(&it.world);
    let forked = |value| {
        assert_eq!(fork.record(&stream), 0);
        assert_eq!(branch.wait(&fork), 0);
        forward.run(&branch, value);
        assert_eq!(join.record(&branch), 0);
        assert_eq!(stream.wait(&join), 0);
    };
    let expected = mirrored(&it, &forward, 0x44);
    forked(0x44);
    it.launcher.launch(&mut it.world.pools.memory).unwrap();
    it.launcher.wait().unwrap();
    it.world.assert_is(&expected);

    assert_eq!(stream.begin(MODES[1]), 0);
    forked(0x55);
    // SAFETY: (1) the graph goes first; (2, 3) replays are waited for one by one.
    unsafe { it.launcher.record(&mut it.world.pools.memory) }.unwrap();
    let graph = stream.end().unwrap();
    for seed in 0..8 {
        if let Some(machine) = &device.machine {
            machine.seed(seed);
        }
        it.world.edit(forward.address, forward.bytes, |bytes| bytes.fill(0));
        let expected = mirrored(&it, &forward, 0x55);
        graph.replay(&stream);
        it.launcher.wait().unwrap();
        it.world.assert_is(&expected);
    }
}

fn case_12_a_page_is_lifted_into_after_the_forward_that_read_it(device: &Device) {
    device.engine.enter();
    let mut draw = Draw::seeded(12);
    let stream = device.engine.stream(false);
    let mut world = World::small(&device.gpu);
    let forward = Forward::of(&world);
    let read = world.pools.memory.allocate(&device.gpu, Memory::Device, forward.bytes as u64).unwrap();
    let read_at = world.pools.memory.region(read).unwrap().address();
    let mut plan = RestorePlan::new(world.geometry(), ROOM).unwrap();
    let mut launcher = Launcher::bind(&device.gpu, &world.pools.memory, &mut plan, slots(2)).unwrap();
    launcher.set_stream(&stream.adopted(device)).unwrap();
    for _ in 0..4 {
        world.fill(&mut draw);
        let before = world.edit(forward.address, forward.bytes, |bytes| bytes.to_vec());
        plan.clear();
        let mut expected = world.image();
        for prompt in [one(), two()] {
            world.lift(&mut plan, &prompt);
            world.expect(&mut expected, &prompt);
        }
        // SAFETY: (1) both are there, and tests wait before they look.
        unsafe { stream.copy(read_at, forward.address, forward.bytes) };
        launcher.stage(&world.pools.memory, &mut plan).unwrap();
        launcher.launch(&mut world.pools.memory).unwrap();
        launcher.wait().unwrap();
        world.assert_is(&expected);
        let mut seen = vec![0; forward.bytes];
        world.pools.memory.read(read, 0, &mut seen).unwrap();
        assert_eq!(seen, before);
    }
}

/// Errors that leave the context as it is: the engine has them, or we, and the next launch knows nothing of them.
fn case_22_errors_of_the_engine_are_not_blamed_on_a_launch(device: &Device) {
    device.engine.enter();
    let mut draw = Draw::seeded(22);
    let mut it = Lifts::new(device, &mut draw, 2);
    let fail = |step: u32| match step {
        0 => assert_ne!(device.engine.fails_to_register(), 0),
        1 => assert_ne!(device.engine.allocates(usize::MAX >> 1), 0),
        2 => {
            let error = device.gpu.allocate(Memory::Device, u64::MAX >> 1).unwrap_err();
            assert!(matches!(error, Error::Memory(MemoryError::OutOfMemory { .. })), "{error}");
        }
        _ => {
            let mut own = vec![0_u8; 1 << 16];
            // SAFETY: (1) the vector outlives both buffers, which nobody touches; (2) nobody else has registered it.
            let first = unsafe { device.gpu.register(own.as_mut_ptr(), 1 << 15) }.unwrap();
            // SAFETY: (1) as above.
            let more = unsafe { device.gpu.register(own.as_mut_ptr(), own.len()) };
            assert!(matches!(more, Err(Error::Memory(MemoryError::PartlyRegistered { .. }))), "{more:?}");
            drop((first, more));
        }
    };
    for step in 0..8 {
        let prompts = it.prompts(&mut draw);
        let expected = it.expected(&mut draw, &prompts);
        if step >= 4 {
            fail(step % 4);
        }
        let ticket = it.stage(&prompts);
        if step < 4 {
            fail(step % 4);
        }
        it.launcher.launch(&mut it.world.pools.memory).unwrap();
        fail(step % 4);
        it.launcher.wait().unwrap();
        assert_eq!(it.launcher.state(ticket), DONE);
        it.world.assert_is(&expected);
    }
}

fn launchers_on_two_streams_do_not_meet(device: &Device) {
    let mut draw = Draw::seeded(30);
    let mut both = [(); 2].map(|()| {
        let mut it = Lifts::new(device, &mut draw, 2);
        it.launcher.set_stream(&device.gpu.new_stream().unwrap()).unwrap();
        it
    });
    for _ in 0..6 {
        let prompts = [both[0].prompts(&mut draw), both[1].prompts(&mut draw)];
        let expected = [0, 1].map(|index| both[index].expected(&mut draw, &prompts[index]));
        let tickets = [0, 1].map(|index| both[index].stage(&prompts[index]));
        for index in [1, 0] {
            both[index].launcher.launch(&mut both[index].world.pools.memory).unwrap();
        }
        for index in [0, 1] {
            both[index].launcher.wait().unwrap();
            assert_eq!(both[index].launcher.state(tickets[index]), DONE);
            assert_eq!(both[index].launcher.state(tickets[1 - index]), TicketState::Unknown);
            both[index].world.assert_is(&expected[index]);
        }
    }
}

fn threads_have_launchers_of_their_own(device: &Device) {
    thread::scope(|scope| {
        for seed in 80..84 {
            scope.spawn(move || {
                device.enter();
                let mut draw = Draw::seeded(seed);
                let mut it = Lifts::new(device, &mut draw, 2);
                it.launcher.set_stream(&device.gpu.new_stream().unwrap()).unwrap();
                for _ in 0..6 {
                    let prompts = it.prompts(&mut draw);
                    let expected = it.expected(&mut draw, &prompts);
                    let ticket = it.stage(&prompts);
                    it.launcher.launch(&mut it.world.pools.memory).unwrap();
                    it.launcher.wait().unwrap();
                    assert_eq!(it.launcher.state(ticket), DONE);
                    it.world.assert_is(&expected);
                }
            });
        }
    });
}

/// Lets the thread enter the engine's context, or leave it, and says which one it is in.
fn placed(device: &Device, enter: bool) -> usize {
    if enter {
        device.engine.enter()
    } else {
        device.engine.leave()
    }
    device.engine.current()
}

fn the_callers_context_is_left_as_it_was(device: &Device) {
    for enter in [true, false] {
        let current = placed(device, enter);
        assert_eq!(current, if enter { device.engine.context() } else { 0 });
        let mut draw = Draw::seeded(90);
        let mut it = Lifts::new(device, &mut draw, 2);
        let prompts = it.prompts(&mut draw);
        let expected = it.expected(&mut draw, &prompts);
        it.stage(&prompts);
        it.launcher.launch(&mut it.world.pools.memory).unwrap();
        it.launcher.wait().unwrap();
        it.world.assert_is(&expected);
        drop(it);
        assert_eq!(device.engine.current(), current);
    }
}

fn the_callers_context_survives_errors(device: &Device) {
    for enter in [true, false] {
        let current = placed(device, enter);
        device.gpu.allocate(Memory::Device, u64::MAX >> 1).unwrap_err();
        assert_eq!(device.engine.current(), current);
    }
}

/// Lifts on the second GPU, while the first one is the caller's.
fn on_the_second(driver: &CudaDriver, _: &[Engine; 2]) {
    let gpus = [0, 1].map(|ordinal| Cuda::open_with(driver, ordinal).unwrap());
    let mut worlds = gpus.each_ref().map(World::small);
    for index in [1, 0, 1] {
        let (gpu, world) = (&gpus[index], &mut worlds[index]);
        let mut plan = RestorePlan::new(world.geometry(), ROOM).unwrap();
        let options = LauncherOptions::default();
        let mut launcher = Launcher::bind(gpu, &world.pools.memory, &mut plan, options).unwrap();
        world.lift(&mut plan, &two());
        let mut expected = world.image();
        world.expect(&mut expected, &two());
        let ticket = launcher.stage(&world.pools.memory, &mut plan).unwrap();
        launcher.launch(&mut world.pools.memory).unwrap();
        launcher.wait().unwrap();
        assert_eq!(launcher.state(ticket), DONE);
        world.assert_is(&expected);

        // The other one's stream and memory are refused, and the launcher stays on its own.
        let other = gpus[1 - index].stream();
        let error = launcher.set_stream(&other).unwrap_err();
        assert!(matches!(error, Error::Backend(BackendError::OtherGpu { .. })), "{error}");
        let error = gpu.copy(
            &other,
            &mut world.pools.memory,
            (world.pools.regions[0], 0),
            (world.pools.regions[0], 0),
            0,
        );
        let error = error.unwrap_err();
        assert!(matches!(error, Error::Backend(BackendError::OtherGpu { .. })), "{error}");
        let ticket = launcher.stage(&world.pools.memory, &mut plan).unwrap();
        launcher.launch(&mut world.pools.memory).unwrap();
        launcher.wait().unwrap();
        assert_eq!(launcher.state(ticket), DONE);
        let other = Launcher::bind(&gpus[1 - index], &world.pools.memory, &mut plan, options).map(drop);
        let error = other.unwrap_err();
        assert!(matches!(error, Error::Memory(MemoryError::OutOfReach { .. })), "{error}");
    }
}

#[test]
fn any_of_several_gpus_in_software() {
    on_two_in_software(on_the_second);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn any_of_several_gpus() {
    on_several(on_the_second);
}
