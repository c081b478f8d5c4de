//! Launchers in captures: the engine's and our own, in every mode, beside other threads and other streams.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::thread;

use pagelift::Error;
use pagelift::backends::{Backend, Buffer, CaptureMode, CudaStream, Finish, Kernel, Reach};
use pagelift::error::{BackendError, LaunchError};
use pagelift::geometry::Memory;
use pagelift::launcher::{Launcher, Report, TicketState};
use pagelift::plan::{PlanCapacity, RestorePlan};
use pagelift_cases::draw::Draw;
use pagelift_cases::lift::LiftCall;

use crate::device::{Device, MODES, on_devices};
use crate::gpu::Lifts;
use crate::lifts::ROOM;
use crate::mirror;
use crate::page_map::Fixture;
use crate::tickets::{one, slots, two};
use crate::world::World;

const DONE: TicketState = TicketState::Done(Report { bad: 0, rows: 0, skipped: 0 });

on_devices! {
    an_engine_records_a_launcher_in_any_mode,
    case_18_what_a_capture_forbids_is_refused_and_spoils_nothing,
    case_19_no_host_address_is_frozen_in_a_graph,
    case_19_segments_of_a_step_need_no_event,
    staging_spoils_no_capture_of_another_thread,
    binding_and_dropping_spoil_no_capture_of_another_thread,
    a_thread_that_captures_may_stage_on_another_stream,
    unused_entries_of_the_table_are_never_read,
    plans_between_replays_are_superseded_refused_or_wait,
    page_maps_change_between_replays;
    refused: case_18_a_spoiled_capture_is_an_error_and_no_more, case_19_an_event_of_another_capture_is_no_fault_of_ours,
    a_capture_that_cannot_begin_ends_none_of_an_engines,
}

fn an_engine_records_a_launcher_in_any_mode(device: &Device) {
    device.engine.enter();
    for (seed, mode) in (0..).zip(MODES.into_iter().flat_map(|mode| [mode; 2])) {
        let mut draw = Draw::seeded(seed);
        let stream = device.engine.stream(seed % 2 == 0);
        let mut it = Lifts::new(device, &mut draw, 2);
        it.launcher.set_stream(&stream.adopted(device)).unwrap();
        let graphs = [(); 2].map(|()| {
            assert_eq!(stream.begin(mode), 0);
            it.record().unwrap();
            assert_eq!(stream.state(), 1);
            stream.end().unwrap()
        });
        for step in 0..6 {
            let prompts = it.prompts(&mut draw);
            let ticket = it.stage(&prompts);
            for (graph, prompts) in [(step % 2, &prompts[..]), ((step + 1) % 2, &[])] {
                let expected = it.expected(&mut draw, prompts);
                graphs[graph].replay(&stream);
                it.launcher.wait().unwrap();
                it.world.assert_is(&expected);
                assert_eq!(it.launcher.state(ticket), DONE);
            }
        }
    }
}

fn case_18_what_a_capture_forbids_is_refused_and_spoils_nothing(device: &Device) {
    device.engine.enter();
    for (seed, mode) in (0..).zip(MODES) {
        let mut draw = Draw::seeded(seed);
        let stream = device.engine.stream(false);
        let mut it = Lifts::new(device, &mut draw, 3);
        it.launcher.set_stream(&stream.adopted(device)).unwrap();
        it.stage(&[]);
        it.launcher.launch(&mut it.world.pools.memory).unwrap();
        let prompts = it.prompts(&mut draw);
        let ticket = it.stage(&prompts);
        let expected = it.expected(&mut draw, &prompts);

        assert_eq!(stream.begin(mode), 0);
        for refused in [it.try_stage(&[]).map(drop), it.launcher.launch(&mut it.world.pools.memory)] {
            let error = refused.unwrap_err();
            assert!(matches!(error, Error::Backend(BackendError::Capturing { .. })), "{error}");
        }
        let id = it.world.pools.regions[0];
        let waits = [
            it.launcher.wait(),
            it.world.pools.memory.read(id, 0, &mut [0]),
            it.world.pools.memory.release(id),
        ];
        for refused in waits {
            let error = refused.unwrap_err();
            assert!(matches!(error, Error::Backend(BackendError::WaitsForCapture)), "{error}");
        }
        assert!(it.world.pools.memory.region(id).is_some() && it.world.pools.memory.bytes(id).is_none());
        it.record().unwrap();
        assert_eq!(stream.state(), 1);
        let graph = stream.end().unwrap();

        // Nothing of what was refused is in the graph, and nothing of what was recorded is missing.
        assert_eq!(it.launcher.state(ticket), TicketState::Pending);
        graph.replay(&stream);
        it.launcher.wait().unwrap();
        it.world.assert_is(&expected);
        assert_eq!(it.launcher.state(ticket), DONE);
        // SAFETY: (1, 2, 3) nothing is recorded.
        let error = unsafe { it.launcher.record(&mut it.world.pools.memory) }.unwrap_err();
        assert!(matches!(error, Error::Backend(BackendError::NotCapturing)), "{error}");
    }
}

fn case_18_a_spoiled_capture_is_an_error_and_no_more(device: &Device) {
    device.engine.enter();
    let mut draw = Draw::seeded(3);
    let stream = device.engine.stream(false);
    let mut it = Lifts::new(device, &mut draw, 2);
    it.launcher.set_stream(&stream.adopted(device)).unwrap();
    let prompts = it.prompts(&mut draw);
    let expected = it.expected(&mut draw, &prompts);
    assert_eq!(stream.begin(MODES[0]), 0);
    // What the engine must not do.
    assert_eq!(device.engine.allocates(4096), 900);
    assert_eq!(stream.state(), 2);
    let error = it.try_stage(&prompts).unwrap_err();
    assert!(matches!(error, Error::Backend(BackendError::Capturing { .. })), "{error}");
    let error = it.record().unwrap_err();
    let words = error.to_string();
    assert!(matches!(error, Error::Backend(BackendError::Driver { code: 901, .. })), "{words}");
    assert!(words.contains("cuLaunchKernel"), "{words}");
    assert_eq!(stream.end().map(drop), Err(901));

    let ticket = it.stage(&prompts);
    it.launcher.launch(&mut it.world.pools.memory).unwrap();
    it.launcher.wait().unwrap();
    it.world.assert_is(&expected);
    assert_eq!(it.launcher.state(ticket), DONE);
}

fn a_capture_that_cannot_begin_ends_none_of_an_engines(device: &Device) {
    device.engine.enter();
    for (seed, mode) in (0..).zip(MODES.into_iter().flat_map(|mode| [mode; 2])) {
        let mut draw = Draw::seeded(seed);
        let stream = device.engine.stream(seed % 2 == 0);
        let adopted = stream.adopted(device);
        let mut it = Lifts::new(device, &mut draw, 2);
        it.launcher.set_stream(&adopted).unwrap();
        let prompts = it.prompts(&mut draw);
        it.stage(&prompts);
        let expected = it.expected(&mut draw, &prompts);
        assert_eq!(stream.begin(mode), 0);
        it.record().unwrap();
        for own in [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed] {
            let begun = device.gpu.capture(&adopted, own, || -> Result<(), Error> { panic!("it has begun") });
            let error = begun.map(drop).unwrap_err();
            assert!(matches!(error, Error::Backend(BackendError::Driver { .. })), "{error}");
        }
        assert_eq!(stream.state(), 1);
        stream.end().unwrap().replay(&stream);
        it.launcher.wait().unwrap();
        it.world.assert_is(&expected);
    }
}

/// Slots of the ring come round several times: a graph that had an address of one frozen in would replay an old plan.
fn case_19_no_host_address_is_frozen_in_a_graph(device: &Device) {
    let mut draw = Draw::seeded(19);
    let mut it = Lifts::new(device, &mut draw, 2);
    let stream = device.gpu.stream();
    let mut first = it.stage(&[]);
    let mut graph = it.capture(&stream, CaptureMode::ThreadLocal);
    for _ in 0..9 {
        let prompts = it.prompts(&mut draw);
        let second = it.stage(&prompts);
        let expected = it.expected(&mut draw, &prompts);
        graph.replay(&stream).unwrap();
        it.launcher.wait().unwrap();
        it.world.assert_is(&expected);
        assert_eq!(it.launcher.state(second), DONE);
        assert_ne!(it.launcher.state(first), TicketState::Pending);
        first = second;
    }
}

/// A step that is captured piece by piece, with a launcher in two of the pieces. Recording leaves no event behind that a
/// piece could wait for in vain.
fn case_19_segments_of_a_step_need_no_event(device: &Device) {
    let engine = &device.engine;
    engine.enter();
    let mut draw = Draw::seeded(20);
    let stream = engine.stream(false);
    let mut it = Lifts::new(device, &mut draw, 2);
    it.launcher.set_stream(&stream.adopted(device)).unwrap();
    let segments = [(); 2].map(|()| {
        assert_eq!(stream.begin(MODES[1]), 0);
        it.record().unwrap();
        stream.end().unwrap()
    });
    for _ in 0..4 {
        let prompts = it.prompts(&mut draw);
        let ticket = it.stage(&prompts);
        let expected = it.expected(&mut draw, &prompts);
        segments.iter().for_each(|segment| segment.replay(&stream));
        it.launcher.wait().unwrap();
        it.world.assert_is(&expected);
        assert_eq!(it.launcher.state(ticket), DONE);
    }
}

/// The engine waits in one capture for an event of another. Drivers may refuse that, and spoil the capture: then what
/// cannot be recorded is not said to be.
fn case_19_an_event_of_another_capture_is_no_fault_of_ours(device: &Device) {
    let engine = &device.engine;
    engine.enter();
    let mut draw = Draw::seeded(21);
    let stream = engine.stream(false);
    let mut it = Lifts::new(device, &mut draw, 2);
    it.launcher.set_stream(&stream.adopted(device)).unwrap();
    let event = engine.event();
    assert_eq!(stream.begin(MODES[1]), 0);
    it.record().unwrap();
    assert_eq!(event.record(&stream), 0);
    let first = stream.end().unwrap();
    assert_eq!(stream.begin(MODES[1]), 0);
    let waited = stream.wait(&event);
    let recorded = it.record();
    let second = stream.end();
    println!("the wait: {waited}; the record: {recorded:?}; the end: {:?}", second.as_ref().err());
    assert!(recorded.is_err() || second.is_ok());
    assert!(device.machine.is_none() || waited == 905);
    for graph in [Some(first), second.ok().filter(|_| recorded.is_ok())].into_iter().flatten() {
        let prompts = it.prompts(&mut draw);
        it.stage(&prompts);
        let expected = it.expected(&mut draw, &prompts);
        graph.replay(&stream);
        it.launcher.wait().unwrap();
        it.world.assert_is(&expected);
    }
}

/// Records a launcher, does something else before the capture ends, and expects that the graph is whole.
fn during_a_capture(device: &Device, seed: u64, mut body: impl FnMut()) {
    device.engine.enter();
    for (seed, mode) in (seed..).zip(MODES) {
        let mut draw = Draw::seeded(seed);
        let stream = device.engine.stream(false);
        let mut it = Lifts::new(device, &mut draw, 2);
        it.launcher.set_stream(&stream.adopted(device)).unwrap();
        assert_eq!(stream.begin(mode), 0);
        it.record().unwrap();
        body();
        assert_eq!(stream.state(), 1, "mode {mode}");
        let graph = stream.end().unwrap();
        let prompts = it.prompts(&mut draw);
        let ticket = it.stage(&prompts);
        let expected = it.expected(&mut draw, &prompts);
        graph.replay(&stream);
        it.launcher.wait().unwrap();
        it.world.assert_is(&expected);
        assert_eq!(it.launcher.state(ticket), DONE);
    }
}

/// A step of another launcher.
fn step(it: &mut Lifts, draw: &mut Draw) {
    let prompts = it.prompts(draw);
    let expected = it.expected(draw, &prompts);
    let ticket = it.stage(&prompts);
    it.launcher.launch(&mut it.world.pools.memory).unwrap();
    it.launcher.wait().unwrap();
    assert_eq!(it.launcher.state(ticket), DONE);
    it.world.assert_is(&expected);
}

fn other_launcher(device: &Device, draw: &mut Draw) -> Lifts {
    let mut other = Lifts::new(device, draw, 2);
    other.launcher.set_stream(&device.gpu.new_stream().unwrap()).unwrap();
    other
}

fn staging_spoils_no_capture_of_another_thread(device: &Device) {
    let mut draw = Draw::seeded(40);
    let mut other = other_launcher(device, &mut draw);
    during_a_capture(device, 41, || {
        let own = || {
            device.enter();
            step(&mut other, &mut draw);
            step(&mut other, &mut draw);
        };
        thread::scope(|scope| scope.spawn(own).join().unwrap());
    });
}

fn binding_and_dropping_spoil_no_capture_of_another_thread(device: &Device) {
    during_a_capture(device, 50, || {
        let own = || {
            device.enter();
            let mut draw = Draw::seeded(51);
            step(&mut other_launcher(device, &mut draw), &mut draw);
        };
        thread::scope(|scope| scope.spawn(own).join().unwrap());
    });
}

fn a_thread_that_captures_may_stage_on_another_stream(device: &Device) {
    let mut draw = Draw::seeded(60);
    let mut other = other_launcher(device, &mut draw);
    during_a_capture(device, 61, || step(&mut other, &mut draw));
}

/// Does something before each copy of a plan to the table.
pub struct Hooked<'d> {
    pub device: &'d Device,
    pub before: &'d dyn Fn(&CudaStream, &Buffer),
}

impl fmt::Debug for Hooked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.device.gpu.fmt(f)
    }
}

// SAFETY: (1 to 7) those of `Cuda`, which does all; what a hook does comes before the copy.
unsafe impl Backend for Hooked<'_> {
    type Stream = CudaStream;

    fn name(&self) -> &'static str {
        self.device.gpu.name()
    }

    fn stream(&self) -> CudaStream {
        self.device.gpu.stream()
    }

    fn allocate(&self, place: Memory, bytes: u64) -> Result<Buffer, Error> {
        self.device.gpu.allocate(place, bytes)
    }

    fn reach(&self) -> Reach {
        self.device.gpu.reach()
    }

    fn in_flight<'s>(&self, stream: &'s CudaStream) -> Option<&'s Arc<dyn Finish>> {
        self.device.gpu.in_flight(stream)
    }

    fn wait(&self, stream: &CudaStream) -> Result<(), BackendError> {
        self.device.gpu.wait(stream)
    }

    fn is_capturing(&self, stream: &CudaStream) -> Result<bool, BackendError> {
        self.device.gpu.is_capturing(stream)
    }

    fn chain(&self, stream: &CudaStream, next: &CudaStream) -> Result<(), BackendError> {
        self.device.gpu.chain(stream, next)
    }

    unsafe fn upload(
        &self,
        stream: &CudaStream,
        from: &Buffer,
        to: &mut Buffer,
        bytes: usize,
    ) -> Result<(), BackendError> {
        (self.before)(stream, to);
        // SAFETY: (1) is ours.
        unsafe { self.device.gpu.upload(stream, from, to, bytes) }
    }

    unsafe fn launch(
        &self,
        stream: &CudaStream,
        workers: Option<NonZeroU32>,
        kernel: Kernel,
    ) -> Result<(), BackendError> {
        // SAFETY: (1) is ours.
        unsafe { self.device.gpu.launch(stream, workers, kernel) }
    }
}

fn unused_entries_of_the_table_are_never_read(device: &Device) {
    device.engine.enter();
    let mut world = World::small(&device.gpu);
    let mut plan = RestorePlan::new(world.geometry(), ROOM).unwrap();
    // The table is filled with nonsense before a plan is copied to its beginning.
    let before = |stream: &CudaStream, table: &Buffer| {
        let table = table.region();
        // SAFETY: (1) the table is there, and the stream's alone.
        unsafe { device.engine.fill(stream.handle(), table.address(), 0xFF, table.bytes() as usize) };
    };
    let backend = Hooked { device, before: &before };
    let mut launcher = Launcher::bind(backend, &world.pools.memory, &mut plan, slots(2)).unwrap();
    let stream = device.gpu.stream();
    // SAFETY: (1) the graph goes first; (2, 3) replays are waited for one by one.
    let record = || unsafe { launcher.record(&mut world.pools.memory) };
    let mut graph = device.gpu.capture(&stream, CaptureMode::ThreadLocal, record).unwrap().0;
    let steps: [&[fn() -> LiftCall]; 6] = [&[], &[one, two], &[two], &[], &[one], &[]];
    for (seed, prompts) in (0..).zip(steps) {
        world.fill(&mut Draw::seeded(seed));
        let mut expected = world.image();
        plan.clear();
        for prompt in prompts {
            world.lift(&mut plan, &prompt());
            world.expect(&mut expected, &prompt());
        }
        let ticket = launcher.stage(&world.pools.memory, &mut plan).unwrap();
        for _ in 0..2 {
            graph.replay(&stream).unwrap();
        }
        launcher.wait().unwrap();
        world.assert_is(&expected);
        assert_eq!(launcher.state(ticket), DONE);
    }
}

fn plans_between_replays_are_superseded_refused_or_wait(device: &Device) {
    let mut draw = Draw::seeded(70);
    let mut it = Lifts::new(device, &mut draw, 2);
    let stream = device.gpu.stream();
    let mut graph = it.capture(&stream, CaptureMode::ThreadLocal);
    let (first, prompts) = (it.stage(&it.prompts(&mut Draw::seeded(71))), it.prompts(&mut draw));
    let second = it.stage(&prompts);
    let full = it.try_stage(&[]).unwrap_err();
    assert!(matches!(full, Error::Launch(LaunchError::RingFull { slots: 2, .. })), "{full}");
    let room = PlanCapacity { jobs: ROOM.jobs + 1, ..ROOM };
    let mut large = RestorePlan::new(it.world.geometry(), room).unwrap();
    let error = it.launcher.stage(&it.world.pools.memory, &mut large).unwrap_err();
    assert!(matches!(error, Error::Launch(LaunchError::TableTooSmall { .. })), "{error}");

    // None of that has touched the plan that was staged last.
    let expected = it.expected(&mut draw, &prompts);
    graph.replay(&stream).unwrap();
    it.launcher.wait().unwrap();
    it.world.assert_is(&expected);
    assert_eq!([first, second].map(|ticket| it.launcher.state(ticket)), [TicketState::Superseded, DONE]);
    let third = it.stage(&[]);
    graph.replay(&stream).unwrap();
    it.launcher.wait().unwrap();
    assert_eq!(it.launcher.state(third), DONE);
}

fn page_maps_change_between_replays(device: &Device) {
    let (mut it, mut plan) = Fixture::new(Arc::clone(&device.gpu), mirror::ROOM, false);
    let stream = device.gpu.stream();
    // SAFETY: (1) the graph goes first; (2, 3) replays are waited for one by one.
    let record = || unsafe { it.launcher.record(&mut it.world.pools.memory) };
    let mut graph = device.gpu.capture(&stream, CaptureMode::Global, record).unwrap().0;
    let mut replay = |it: &mut Fixture<_>| {
        graph.replay(&stream).unwrap();
        it.launcher.wait().unwrap();
    };
    it.map(&mut plan, 0, 1).unwrap();
    it.map(&mut plan, 1, 2).unwrap();
    let ticket = it.stage(&mut plan).unwrap();
    it.run(&[(0, 1), (1, 2)], &mut replay);
    assert_eq!(it.report(ticket), (8, 4, 0));
    // A page goes, and its block is another's at once. Until that is staged nothing is mirrored: the plan has run.
    it.unmap(&mut plan, 0);
    it.map(&mut plan, 2, 1).unwrap();
    it.run(&[], &mut replay);
    let ticket = it.stage(&mut plan).unwrap();
    it.run(&[(2, 1), (1, 2)], &mut replay);
    assert_eq!(it.report(ticket), (8, 4, 0));
    it.unmap(&mut plan, 1);
    it.unmap(&mut plan, 2);
    let ticket = it.stage(&mut plan).unwrap();
    it.run(&[], &mut replay);
    assert_eq!(it.report(ticket), (0, 12, 0));
}
