//! Plans as plain copies: spelled out they are what a launch does, and copy engines do that too.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use pagelift::Error;
use pagelift::backends::{Backend as _, CaptureMode, CopyCalls, CopyMethod, Cuda, CudaStream};
use pagelift::error::{BackendError, MemoryError};
use pagelift::geometry::Memory;
use pagelift::launcher::{Launcher, LauncherOptions, Report, TicketState};
use pagelift::memory::Registry;
use pagelift::plan::{CopyRun, RestorePlan};
use pagelift_cases::decode::Move;
use pagelift_cases::draw::Draw;
use pagelift_cases::lift::LiftCall;
use pagelift_cases::memory::Image;

use crate::backends::Subject;
use crate::device::{Device, on_devices};
use crate::lifts::{ROOM, simple};
use crate::world::World;

on_devices! {
    copy_engines_do_what_a_launch_does,
    a_graph_of_copies_copies_its_plan_in_each_replay,
    case_18_a_batch_is_refused_before_a_capture_could_lose_it,
    the_default_stream_takes_no_batch,
    large_pieces_are_left_to_copy_engines,
    bytes_are_copied_between_regions_and_not_past_them,
    events_time_streams_and_join_the_branches_of_a_capture,
    a_launcher_in_a_graph_of_its_own_takes_plan_after_plan;
    refused: case_18_the_driver_captures_a_batch_or_says_that_it_cannot,
}

/// A random plan of lifts, and what it must make of the world's memory.
fn random_plan(draw: &mut Draw, world: &World) -> (RestorePlan, Image) {
    let mut plan = RestorePlan::new(world.geometry(), ROOM).unwrap();
    let mut expected = world.image();
    let mut free = world.free(draw);
    for _ in 0..draw.below(4) {
        let Some(prompt) = LiftCall::fitting(draw, &world.model, &mut free) else { break };
        world.lift(&mut plan, &prompt);
        world.expect(&mut expected, &prompt);
    }
    (plan, expected)
}

/// The runs of a plan, carried out one by one, leave behind what its launch does.
pub fn law<S: Subject>(seed: u64, size: u32) {
    let mut draw = Draw::seeded(seed);
    let backend = S::backend(draw.number());
    let mut world = World::random(&mut draw, size, &backend);
    let (mut plan, _) = random_plan(&mut draw, &world);
    let mut runs: Vec<CopyRun> = plan.copies().collect();
    if draw.once_in(2) {
        CopyRun::join(&mut runs);
    }
    let mut expected = world.image();
    for row in draw.order(runs.len() as u32).into_iter().flat_map(|index| runs[index as usize].each()) {
        expected.apply(&[Move { to: row.destination, from: row.source, bytes: row.bytes }]);
    }
    let mut launcher =
        Launcher::bind(backend, &world.pools.memory, &mut plan, LauncherOptions::default()).unwrap();
    launcher.stage(&world.pools.memory, &mut plan).unwrap();
    launcher.launch(&mut world.pools.memory).unwrap();
    world.assert_is(&expected);
}

pub fn copy_engines_do_what_a_launch_does(device: &Device) {
    let gpu = &*device.gpu;
    let ways =
        if gpu.batches_copies() { vec![CopyCalls::Each, CopyCalls::Batch] } else { vec![CopyCalls::Each] };
    for seed in 0..48 {
        let mut draw = Draw::seeded(seed);
        let mut world = World::random(&mut draw, 4, gpu);
        let other = gpu.new_stream().unwrap();
        let mut engine = if draw.once_in(2) { gpu.copy_engine_on(&other) } else { gpu.copy_engine() };
        for calls in ways.iter().copied().cycle().take(4) {
            world.fill(&mut draw);
            let (plan, expected) = random_plan(&mut draw, &world);
            let done = engine.copy(&mut world.pools.memory, &plan, calls).unwrap();
            if draw.once_in(2) {
                done.wait().unwrap();
                assert!(done.is_passed().unwrap());
                // Nobody has paid for a time.
                assert_eq!(done.elapsed_since(&done), Err(BackendError::NoTime));
            }
            // Without waiting: reading does.
            world.assert_is(&expected);
        }
    }
}

pub fn a_graph_of_copies_copies_its_plan_in_each_replay(device: &Device) {
    let gpu = &*device.gpu;
    for seed in 0..12 {
        let mut draw = Draw::seeded(seed);
        let mut world = World::random(&mut draw, 4, gpu);
        let (plan, _) = random_plan(&mut draw, &world);
        let mut graph = gpu.copy_engine().graph(&mut world.pools.memory, &plan).unwrap();
        for _ in 0..2 {
            world.fill(&mut draw);
            let mut expected = world.image();
            for row in plan.copies().flat_map(CopyRun::each) {
                expected.apply(&[Move { to: row.destination, from: row.source, bytes: row.bytes }]);
            }
            graph.replay(&mut world.pools.memory).unwrap();
            world.assert_is(&expected);
        }
    }
}

pub fn case_18_a_batch_is_refused_before_a_capture_could_lose_it(device: &Device) {
    let gpu = &*device.gpu;
    let mut draw = Draw::seeded(1);
    let mut world = World::small(gpu);
    let prompt = simple(3, &[0], 0, pagelift::plan::TailRows::Whole);
    let mut plan = RestorePlan::new(world.geometry(), ROOM).unwrap();
    world.lift(&mut plan, &prompt);
    world.fill(&mut draw);
    let before = world.image();
    let mut engine = gpu.copy_engine();
    let stream = gpu.stream();
    let (mut graph, refused) = gpu
        .capture(&stream, CaptureMode::ThreadLocal, || {
            let memory = &mut world.pools.memory;
            // SAFETY: (1, 2) nothing is recorded.
            let recorded = unsafe { engine.record(memory, &plan, CopyCalls::Batch) };
            let mut copy = |calls| engine.copy(memory, &plan, calls).map(drop);
            Ok([recorded, copy(CopyCalls::Each), copy(CopyCalls::Batch)])
        })
        .unwrap();
    let [recorded, copied @ ..] = refused.map(Result::unwrap_err);
    assert!(matches!(recorded, Error::Backend(BackendError::BatchInCapture)), "{recorded}");
    assert!(!recorded.is_transient());
    for error in copied {
        assert!(matches!(error, Error::Backend(BackendError::Capturing { .. })), "{error}");
        assert!(error.is_transient());
    }
    graph.replay(&stream).unwrap();
    gpu.synchronize().unwrap();
    world.assert_is(&before);
    // SAFETY: (1, 2) nothing is recorded.
    let error = unsafe { engine.record(&mut world.pools.memory, &plan, CopyCalls::Each) }.unwrap_err();
    assert!(matches!(error, Error::Backend(BackendError::NotCapturing)), "{error}");
}

/// The driver would refuse it too, but after what comes before the batch.
pub fn the_default_stream_takes_no_batch(device: &Device) {
    let gpu = &*device.gpu;
    let mut draw = Draw::seeded(1);
    let mut world = World::small(gpu);
    let mut plan = RestorePlan::new(world.geometry(), ROOM).unwrap();
    world.lift(&mut plan, &simple(3, &[0], 0, pagelift::plan::TailRows::ExactZeroed));
    world.fill(&mut draw);
    let before = world.image();
    // SAFETY: (1) it is there as long as the context; (2) it is never captured.
    let default = unsafe { gpu.adopt_stream(0) }.unwrap();
    let mut engine = gpu.copy_engine_on(&default);
    let error = engine.copy(&mut world.pools.memory, &plan, CopyCalls::Batch).unwrap_err();
    assert!(matches!(error, Error::Backend(BackendError::BatchOnDefaultStream)), "{error}");
    gpu.synchronize().unwrap();
    world.assert_is(&before);
}

/// What the driver does when nobody refuses: on one H200, error 900, a capture that goes on, and a graph without the copy.
pub fn case_18_the_driver_captures_a_batch_or_says_that_it_cannot(device: &Device) {
    let gpu = &*device.gpu;
    let Some(driver) = Driver::of(device) else {
        println!("this driver has no batches of copies");
        return;
    };
    let mut memory = Registry::new();
    let [from, to] = [Memory::Host, Memory::Device].map(|place| memory.allocate(gpu, place, 4096).unwrap());
    memory.write(from, 0, &[7; 4096]).unwrap();
    memory.write(to, 0, &[1; 4096]).unwrap();
    let [source, destination] = [from, to].map(|id| memory.region(id).unwrap().address());
    let stream = gpu.new_stream().unwrap();
    let captured = gpu
        .capture(&stream, CaptureMode::ThreadLocal, || Ok(driver.batch(destination, source, 4096, &stream)));
    let mut bytes = [0; 4096];
    match captured {
        Ok((mut graph, code)) => {
            graph.replay(&stream).unwrap();
            stream.wait().unwrap();
            memory.read(to, 0, &mut bytes).unwrap();
            println!("cuMemcpyBatchAsync under capture: {code}; the graph's copy arrived: {}", bytes[0] == 7);
            // It copies, or it says that it does not.
            assert!(if code == 0 { bytes == [7; 4096] } else { code == 900 && bytes == [1; 4096] }, "{code}");
        }
        Err(error) => println!("cuMemcpyBatchAsync under capture spoils the capture: {error}"),
    }
    assert_eq!(driver.batch(destination, source, 4096, &stream), 0);
    stream.wait().unwrap();
    memory.read(to, 0, &mut bytes).unwrap();
    assert_eq!(bytes, [7; 4096]);
}

/// The driver's own call, without the library in between.
struct Driver<'d> {
    device: &'d Device,
    call: NonNull<c_void>,
    /// Whether it is the one of CUDA 13, which no longer says which copy failed.
    second: bool,
}

impl<'d> Driver<'d> {
    fn of(device: &'d Device) -> Option<Self> {
        let found = |name, second| Some(Self { device, call: device.symbol(name)?, second });
        found("cuMemcpyBatchAsync_v2", true).or_else(|| found("cuMemcpyBatchAsync", false))
    }

    /// One copy as a batch; returns what the call does.
    fn batch(&self, to: u64, from: u64, bytes: usize, stream: &CudaStream) -> i32 {
        type One = *const u64;
        type Words = *const [i32; 6];
        type Second =
            unsafe extern "C" fn(One, One, *const usize, usize, Words, *const usize, usize, u64) -> i32;
        type First = unsafe extern "C" fn(
            One,
            One,
            *const usize,
            usize,
            Words,
            *const usize,
            usize,
            *mut usize,
            u64,
        ) -> i32;
        let (attributes, index, mut failed) = ([1, 0, 0, 0, 0, 0], 0, 0);
        self.device.engine.enter();
        // SAFETY: the call has one of these signatures, both addresses are of memory that the GPU reaches and that lives
        // until the stream was waited for, and the lists have one entry.
        let code = unsafe {
            if self.second {
                let call: Second = std::mem::transmute(self.call);
                call(&to, &from, &bytes, 1, &attributes, &index, 1, stream.handle())
            } else {
                let call: First = std::mem::transmute(self.call);
                call(&to, &from, &bytes, 1, &attributes, &index, 1, &raw mut failed, stream.handle())
            }
        };
        self.device.engine.leave();
        code
    }
}

pub fn large_pieces_are_left_to_copy_engines(device: &Device) {
    let gpu = &*device.gpu;
    use pagelift::geometry::*;
    use pagelift::layout::{StateLayout, StatePart};
    // A state of so many layers, of so many bytes each, so far apart on the host.
    let plan_of = |layers: u64, bytes: u32, apart: u64| {
        let mut builder = GeometryBuilder::new();
        let layout = StateLayout::new(&[StatePart::new("state", bytes)], None).unwrap();
        let mut side = |name, place, at: u64| {
            let apart = if place == Memory::Host { apart } else { bytes.into() };
            let pool = PoolSpec::new(name, place, 1, &[Region::new(at, layers * apart)]);
            let offsets: Vec<u64> = (0..layers).map(|layer| layer * apart).collect();
            let pool = builder.pool(pool).unwrap();
            Some(SideSpec::packed(pool, &[at], &offsets, layers * apart, layout.clone()))
        };
        let (host, device) = (side("host", Memory::Host, 1 << 30), side("device", Memory::Device, 1 << 31));
        let landing = Landing::Host;
        let spec = GroupSpec::<State> {
            name: "state".into(),
            layers: layers as u32,
            landing,
            lift: StateLift::State,
            host,
            device,
        };
        let key = builder.group(spec).unwrap();
        let geometry = Arc::new(builder.build().unwrap());
        let mut plan = RestorePlan::new(Arc::clone(&geometry), ROOM).unwrap();
        let route = geometry.lift_route(key).unwrap();
        plan.gather(route, &[pagelift::id::HostBlockId::new(0)], &[pagelift::id::PageId::new(0)]).unwrap();
        plan
    };
    let plan = |bytes| plan_of(1, bytes, u64::from(bytes));
    let auto = |stream: &CudaStream, plan: &RestorePlan| CopyMethod::Auto.resolve(gpu, stream, plan).unwrap();
    let each = CopyMethod::Copies(CopyCalls::Each);
    let (calls, least) =
        if gpu.batches_copies() { (CopyMethod::Copies(CopyCalls::Batch), 1 << 20) } else { (each, 2 << 20) };
    // SAFETY: (1) it is there as long as the context; (2) it is never captured.
    let default = unsafe { gpu.adopt_stream(0) }.unwrap();
    // A single call takes longer than a part of a batch, and batches are for other streams.
    for (stream, calls, least) in [(&gpu.stream(), calls, least), (&default, each, 2 << 20)] {
        assert_eq!(auto(stream, &plan(least - 16)), CopyMethod::Kernel);
        assert_eq!(auto(stream, &plan(least)), calls);
        // Layers that lie together on both sides are one piece, and others are not.
        assert_eq!(auto(stream, &plan_of(4, least / 4, u64::from(least / 4))), calls);
        assert_eq!(auto(stream, &plan_of(4, least / 2, u64::from(least / 2) + 16)), CopyMethod::Kernel);
    }
    let stream = gpu.new_stream().unwrap();
    let large = plan(2 << 20);
    let captured = || Ok(CopyMethod::Auto.resolve(gpu, &stream, &large)?);
    assert_eq!(gpu.capture(&stream, CaptureMode::ThreadLocal, captured).unwrap().1, CopyMethod::Kernel);
    let one = CopyMethod::Copies(CopyCalls::Each);
    assert_eq!(one.resolve(gpu, &gpu.stream(), &plan(1)).unwrap(), one);
}

pub fn bytes_are_copied_between_regions_and_not_past_them(device: &Device) {
    let gpu = &*device.gpu;
    let mut memory = Registry::new();
    let [host, device] =
        [Memory::Host, Memory::Device].map(|place| memory.allocate(gpu, place, 4096).unwrap());
    let content: Vec<u8> = (0..4096).map(|index| (index % 251) as u8).collect();
    memory.write(host, 0, &content).unwrap();
    let stream = gpu.stream();
    let mut copy = |from, to, bytes| gpu.copy(&stream, &mut memory, from, to, bytes);
    for (from, to, bytes) in
        [((host, 1), (device, 0), 4096), ((host, 0), (device, 4000), 97), ((device, 4097), (host, 0), 0)]
    {
        let error = copy(from, to, bytes).unwrap_err();
        assert!(matches!(error, Error::Memory(MemoryError::Outside { .. })), "{error}");
    }
    copy((host, 100), (device, 7), 50).unwrap();
    copy((device, 7), (host, 4000), 50).unwrap();
    assert_eq!(memory.bytes(host).unwrap()[4000..4050], content[100..150]);
}

pub fn events_time_streams_and_join_the_branches_of_a_capture(device: &Device) {
    let gpu = &*device.gpu;
    let mut draw = Draw::seeded(5);
    let mut world = World::random(&mut draw, 4, gpu);
    let (mut plan, expected) = random_plan(&mut draw, &world);
    let (main, branch) = (gpu.stream(), gpu.new_stream().unwrap());
    let mut launcher =
        Launcher::bind(gpu, &world.pools.memory, &mut plan, LauncherOptions::default()).unwrap();
    let ticket = launcher.stage(&world.pools.memory, &mut plan).unwrap();
    launcher.set_stream(&branch).unwrap();
    let [fork, join, begun, done] = [(); 4].map(|()| gpu.event().unwrap());
    let memory = &mut world.pools.memory;
    let body = || {
        fork.record(&main)?;
        branch.wait_for(&fork)?;
        // SAFETY: (1) the graph goes first; (2, 3) it is replayed once, and waited for.
        unsafe { launcher.record(memory) }?;
        join.record(&branch)?;
        Ok(main.wait_for(&join)?)
    };
    let (mut graph, ()) = gpu.capture(&main, CaptureMode::ThreadLocal, body).unwrap();
    begun.record(&main).unwrap();
    graph.replay(&main).unwrap();
    done.record(&main).unwrap();
    // No time passes in software.
    let elapsed = done.elapsed_since(&begun).unwrap();
    assert!(device.machine.is_some() || elapsed > std::time::Duration::ZERO);
    assert!(begun.is_passed().unwrap());
    assert_eq!(launcher.state(ticket), TicketState::Done(Report::default()));
    world.assert_is(&expected);
}

pub fn a_launcher_in_a_graph_of_its_own_takes_plan_after_plan(device: &Device) {
    let gpu = &*device.gpu;
    let mut draw = Draw::seeded(6);
    let mut world = World::random(&mut draw, 4, gpu);
    let mut plan = RestorePlan::new(world.geometry(), ROOM).unwrap();
    let launcher: Launcher<&Cuda, RestorePlan> =
        Launcher::bind(gpu, &world.pools.memory, &mut plan, LauncherOptions::default()).unwrap();
    let mut replay = gpu.record(launcher, &mut world.pools.memory).unwrap();
    for _ in 0..6 {
        world.fill(&mut draw);
        let (mut plan, expected) = random_plan(&mut draw, &world);
        let ticket = replay.stage(&world.pools.memory, &mut plan).unwrap();
        assert_eq!(replay.launcher().state(ticket), TicketState::Pending);
        replay.replay(&mut world.pools.memory).unwrap();
        if draw.once_in(2) {
            replay.launcher().wait().unwrap();
            assert_eq!(replay.launcher().state(ticket), TicketState::Done(Report::default()));
        }
        world.assert_is(&expected);
    }
    let id = world.pools.regions[0];
    world.pools.memory.release(id).unwrap();
    let error = replay.replay(&mut world.pools.memory).unwrap_err();
    assert!(matches!(error, Error::Memory(MemoryError::Unregistered { .. })), "{error}");
    replay.launcher().wait().unwrap();
}
