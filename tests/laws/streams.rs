//! Streams: a launcher that changes them, the default one, those of other GPUs, and captures that begin meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use pagelift::Error;
use pagelift::backends::{
    Backend as _, Buffer, CaptureMode, CopyCalls, Cuda, CudaDriver, CudaStream, HostPool, HostPoolSpec,
};
use pagelift::error::{BackendError, LaunchError, MemoryError};
use pagelift::geometry::Memory;
use pagelift::launcher::{Launcher, Report, TicketState};
use pagelift::memory::Registry;
use pagelift::plan::{MirrorPlan, RestorePlan, RowCapacity};
use pagelift_cases::draw::Draw;

use crate::capture::Hooked;
use crate::device::{Device, Engine, MODES, on_devices, on_several, on_two_in_software};
use crate::gpu::Lifts;
use crate::lifts::ROOM;
use crate::tickets::slots;
use crate::world::World;

const DONE: TicketState = TicketState::Done(Report { bad: 0, rows: 0, skipped: 0 });

on_devices! {
    what_is_staged_on_another_stream_comes_after_what_was_before,
    a_launcher_changes_its_stream_in_no_capture,
    a_launcher_that_cannot_be_bound_leaves_the_plan_to_another,
    a_stream_of_one_thread_alone_is_refused,
    a_default_stream_that_refuses_amid_the_capture_of_another,
    a_registry_forgets_streams_that_are_done,
    a_capture_begins_before_a_plan_is_staged_or_after,
    a_pool_that_overlaps_is_refused_while_launches_cannot_be_waited_for,
    a_graph_of_copies_is_replayed_with_its_registry,
}

fn is_capturing(error: &Error) -> bool {
    matches!(error, Error::Backend(BackendError::Capturing { .. }))
}

fn what_is_staged_on_another_stream_comes_after_what_was_before(device: &Device) {
    device.engine.enter();
    let mut draw = Draw::seeded(1);
    let streams = [device.engine.stream(false), device.engine.stream(true), device.engine.stream(false)];
    let mut it = Lifts::new(device, &mut draw, 4);
    let mut tickets = Vec::new();
    for stream in &streams {
        it.launcher.set_stream(&stream.adopted(device)).unwrap();
        let prompts = it.prompts(&mut draw);
        tickets.push(it.stage(&prompts));
        it.launcher.launch(&mut it.world.pools.memory).unwrap();
    }
    // Only the last of the streams is waited for.
    it.launcher.wait().unwrap();
    assert!(tickets.iter().all(|ticket| it.launcher.state(*ticket) == DONE));
    if let Some(machine) = &device.machine {
        let _ = machine.calls();
        it.launcher.set_stream(&streams[2].adopted(device)).unwrap();
        assert_eq!(machine.calls(), [""; 0], "the same stream again");
    }
}

fn a_launcher_changes_its_stream_in_no_capture(device: &Device) {
    device.engine.enter();
    for (seed, mode) in (0..).zip(MODES) {
        let mut draw = Draw::seeded(seed);
        let [stream, other] = [(); 2].map(|()| device.engine.stream(false));
        let mut it = Lifts::new(device, &mut draw, 2);
        it.launcher.set_stream(&stream.adopted(device)).unwrap();
        // To a stream that is being captured, and from it.
        assert_eq!(other.begin(mode), 0);
        assert!(is_capturing(&it.launcher.set_stream(&other.adopted(device)).unwrap_err()));
        assert_eq!((other.state(), stream.state()), (1, 0));
        drop(other.end().unwrap());
        assert_eq!(stream.begin(mode), 0);
        it.launcher.set_stream(&stream.adopted(device)).unwrap();
        assert!(is_capturing(&it.launcher.set_stream(&other.adopted(device)).unwrap_err()));
        let mut engine = device.gpu.copy_engine();
        assert!(is_capturing(&engine.set_stream(&stream.adopted(device)).unwrap_err()));
        it.record().unwrap();
        assert_eq!(stream.state(), 1);
        let graph = stream.end().unwrap();
        // It is still on its stream.
        let prompts = it.prompts(&mut draw);
        let expected = it.expected(&mut draw, &prompts);
        let ticket = it.stage(&prompts);
        graph.replay(&stream);
        it.launcher.wait().unwrap();
        assert_eq!(it.launcher.state(ticket), DONE);
        it.world.assert_is(&expected);
    }
}

/// A mirror's launcher keeps its page map: one that could not be bound does not take it away.
fn a_launcher_that_cannot_be_bound_leaves_the_plan_to_another(device: &Device) {
    device.engine.enter();
    let (world, stream) = (World::small(&device.gpu), device.engine.stream(false));
    let (memory, gpu) = (&world.pools.memory, || Arc::clone(&device.gpu));
    let mut plan = MirrorPlan::new(world.geometry(), RowCapacity { jobs: 2, changes: 4 }).unwrap();
    let mut first = Launcher::bind(gpu(), memory, &mut plan, slots(2)).unwrap();
    assert_eq!(stream.begin(MODES[1]), 0);
    let adopted = stream.adopted(device);
    let error = Launcher::bind_on(gpu(), memory, &mut plan, slots(2), &adopted).unwrap_err();
    assert!(is_capturing(&error), "{error}");
    first.stage(memory, &mut plan).unwrap();
    assert_eq!(stream.state(), 1);
    drop(stream.end().unwrap());

    let mut second = Launcher::bind_on(gpu(), memory, &mut plan, slots(2), &adopted).unwrap();
    let error = first.stage(memory, &mut plan).unwrap_err();
    assert!(matches!(error, Error::Launch(LaunchError::OtherLauncher)), "{error}");
    second.stage(memory, &mut plan).unwrap();
    assert_eq!(stream.begin(MODES[1]), 0);
    assert!(is_capturing(&second.stage(memory, &mut plan).unwrap_err()));
    drop(stream.end().unwrap());
}

fn a_stream_of_one_thread_alone_is_refused(device: &Device) {
    // SAFETY: (1, 2) it is refused.
    let refused = unsafe { device.gpu.adopt_stream(2) };
    assert!(matches!(refused, Err(BackendError::PerThreadStream)), "{refused:?}");
}

/// A blocking stream is being captured, which the default stream would have to wait for: that is told from a launch that has
/// failed.
fn a_default_stream_that_refuses_amid_the_capture_of_another(device: &Device) {
    device.engine.enter();
    let mut draw = Draw::seeded(3);
    // SAFETY: (1) it is there as long as the context; (2) it is never captured.
    let default = unsafe { device.gpu.adopt_stream(0) }.unwrap();
    let blocking = device.engine.stream(true);
    let mut it = Lifts::new(device, &mut draw, 2);
    it.launcher.set_stream(&default).unwrap();
    let prompts = it.prompts(&mut draw);
    let expected = it.expected(&mut draw, &prompts);
    let ticket = it.stage(&prompts);
    it.launcher.launch(&mut it.world.pools.memory).unwrap();

    assert_eq!(blocking.begin(MODES[1]), 0);
    let id = it.world.pools.regions[0];
    let refused = [
        it.launcher.wait(),
        it.world.pools.memory.release(id),
        it.world.pools.memory.read(id, 0, &mut [0]),
        it.launcher.launch(&mut it.world.pools.memory),
        it.try_stage(&[]).map(drop),
        it.record(),
    ];
    for refused in refused {
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::Backend(BackendError::CapturingAnother)), "{error}");
    }
    assert_eq!(blocking.state(), 1);
    drop(blocking.end().unwrap());

    it.launcher.wait().unwrap();
    assert_eq!(it.launcher.state(ticket), DONE);
    it.world.assert_is(&expected);
}

/// Each step has a stream of its own: as many as there are steps would be waited for, and never destroyed.
fn a_registry_forgets_streams_that_are_done(device: &Device) {
    let mut draw = Draw::seeded(5);
    let mut it = Lifts::new(device, &mut draw, 2);
    for _ in 0..40 {
        it.launcher.set_stream(&device.gpu.new_stream().unwrap()).unwrap();
        let prompts = it.prompts(&mut draw);
        it.stage(&prompts);
        it.launcher.launch(&mut it.world.pools.memory).unwrap();
        it.launcher.wait().unwrap();
    }
    if let Some(machine) = &device.machine {
        // The GPU's own, that for bytes, and a few that were kept.
        assert!(machine.live().streams <= 2 + 8, "{:?}", machine.live());
    }
    let prompts = it.prompts(&mut draw);
    let expected = it.expected(&mut draw, &prompts);
    it.stage(&prompts);
    it.launcher.launch(&mut it.world.pools.memory).unwrap();
    it.world.assert_is(&expected);
}

/// Between the look whether a stream is being captured and what is enqueued then, another thread would begin to capture it, or
/// let it wait for what is being captured: the graph would hold the copy of this one plan.
fn a_capture_begins_before_a_plan_is_staged_or_after(device: &Device) {
    device.engine.enter();
    let gpu = &device.gpu;
    for forked in [false, true] {
        let world = World::small(gpu);
        let (stream, origin) = (&gpu.stream(), &gpu.new_stream().unwrap());
        let captured = if forked { origin } else { stream };
        let (fork, join) = (&gpu.event().unwrap(), &gpu.event().unwrap());
        let begun = &AtomicBool::new(false);
        let ((tell, told), (ready, waits)) = (mpsc::channel(), mpsc::channel());
        let capture = move || {
            device.enter();
            let wait = || {
                ready.send(()).unwrap();
                told.recv().unwrap();
            };
            if !forked {
                wait();
            }
            let body = || {
                if forked {
                    wait();
                    fork.record(origin)?;
                    stream.wait_for(fork)?;
                }
                begun.store(true, Ordering::SeqCst);
                if forked {
                    join.record(stream)?;
                    origin.wait_for(join)?;
                }
                Ok(())
            };
            gpu.capture(captured, CaptureMode::ThreadLocal, body).unwrap();
        };
        // Long enough for a thread that does not wait.
        let before = |_: &CudaStream, _: &Buffer| {
            tell.send(()).unwrap();
            (0..50)
                .take_while(|_| !begun.load(Ordering::SeqCst))
                .for_each(|_| thread::sleep(Duration::from_millis(1)));
            assert!(!begun.load(Ordering::SeqCst), "forked: {forked}");
        };
        let mut plan = RestorePlan::new(world.geometry(), ROOM).unwrap();
        let backend = Hooked { device, before: &before };
        let mut launcher = Launcher::bind(backend, &world.pools.memory, &mut plan, slots(2)).unwrap();
        thread::scope(|scope| {
            scope.spawn(capture);
            waits.recv().unwrap();
            launcher.stage(&world.pools.memory, &mut plan).unwrap();
        });
        assert!(begun.load(Ordering::SeqCst));
    }
}

fn a_pool_that_overlaps_is_refused_while_launches_cannot_be_waited_for(device: &Device) {
    device.engine.enter();
    let mut draw = Draw::seeded(7);
    let stream = device.engine.stream(false);
    let mut it = Lifts::new(device, &mut draw, 2);
    let spec = HostPoolSpec::new(3, 2 << 20).chunks_of(2 << 20).threads(1);
    let pool = HostPool::allocate(&device.gpu, &spec, |_| ()).unwrap();
    let regions = pool.regions();
    // SAFETY: (1, 2) nobody touches it.
    let adopt = |at: usize| unsafe { device.gpu.adopt(regions[at].address(), 4096) };
    let last = it.world.pools.memory.adopt(Memory::Device, adopt(2)).unwrap();

    it.launcher.set_stream(&stream.adopted(device)).unwrap();
    it.stage(&[]);
    it.launcher.launch(&mut it.world.pools.memory).unwrap();
    assert_eq!(stream.begin(MODES[1]), 0);
    let error = it.world.pools.memory.adopt_pool(pool).unwrap_err();
    assert!(matches!(error, Error::Memory(MemoryError::Overlaps { .. })), "{error}");
    // Nothing of it has stayed.
    let first = it.world.pools.memory.adopt(Memory::Device, adopt(0)).unwrap();
    assert_eq!(stream.state(), 1);
    drop(stream.end().unwrap());
    it.world.pools.memory.release(first).unwrap();
    it.world.pools.memory.release(last).unwrap();
}

fn a_graph_of_copies_is_replayed_with_its_registry(device: &Device) {
    let mut draw = Draw::seeded(8);
    let mut it = Lifts::new(device, &mut draw, 2);
    it.stage(&[]);
    let mut engine = device.gpu.copy_engine();
    let mut graph = engine.graph(&mut it.world.pools.memory, &it.plan).unwrap();
    graph.replay(&mut it.world.pools.memory).unwrap();
    let error = graph.replay(&mut Registry::new()).unwrap_err();
    assert!(matches!(error, Error::Launch(LaunchError::OtherRegistry)), "{error}");
    // The engine itself looks for the pools again.
    let error = engine.copy(&mut Registry::new(), &it.plan, CopyCalls::Each).unwrap_err();
    assert!(matches!(error, Error::Memory(MemoryError::Unregistered { .. })), "{error}");
    engine.copy(&mut it.world.pools.memory, &it.plan, CopyCalls::Each).unwrap();
}

/// Default streams have one handle on all GPUs, and are other ones.
fn default_streams_of_two(driver: &CudaDriver, _: &[Engine; 2]) {
    let [first, second] = [0, 1].map(|ordinal| Cuda::open_with(driver, ordinal).unwrap());
    // SAFETY: (1) it is there as long as the context; (2) it is never captured.
    let default = |gpu: &Cuda| unsafe { gpu.adopt_stream(0) }.unwrap();
    let [of_first, of_second] = [default(&first), default(&second)];
    let (mut graph, ()) = first.capture(&first.stream(), CaptureMode::ThreadLocal, || Ok(())).unwrap();
    let event = first.event().unwrap();
    let refused = [
        event.record(&of_second).map_err(Error::from),
        graph.replay(&of_second).map_err(Error::from),
        first.capture(&second.stream(), CaptureMode::Relaxed, || Ok(())).map(drop),
    ];
    for refused in refused {
        let error = refused.unwrap_err();
        let other = matches!(error, Error::Backend(BackendError::OtherGpu { expected: 0, found: 1 }));
        assert!(other, "{error}");
    }
    graph.replay(&of_first).unwrap();

    // What is enqueued on the second GPU waits for the first.
    let mut memory = Registry::new();
    let [one, two] = [(); 2].map(|()| memory.allocate(&first, Memory::Host, 64).unwrap());
    memory.write(one, 0, &[7; 64]).unwrap();
    first.copy(&of_first, &mut memory, (one, 0), (two, 0), 64).unwrap();
    event.record(&of_first).unwrap();
    of_second.wait_for(&event).unwrap();
    second.copy(&of_second, &mut memory, (two, 0), (one, 32), 32).unwrap();
    of_second.wait().unwrap();
    assert!(event.is_passed().unwrap());
    assert_eq!(memory.bytes(two).unwrap(), [7; 64]);
}

#[test]
fn default_streams_of_two_gpus_in_software() {
    on_two_in_software(default_streams_of_two);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn default_streams_of_two_gpus() {
    on_several(default_streams_of_two);
}
