//! A host pool may be any GPU's, and its blocks go to and from the memory of any, whichever is current in the thread; with and
//! without access of the GPUs to each other's memory.

use std::num::NonZeroU32;
use std::sync::Arc;

use pagelift::Error;
use pagelift::backends::{
    Backend, Buffer, CaptureMode, Cuda, CudaDriver, CudaStream, Finish, Kernel, LaunchWork, Reach, Registrar,
};
use pagelift::error::BackendError;
use pagelift::geometry::Memory;
use pagelift::launcher::{Launcher, LauncherOptions, Report, TicketState};
use pagelift::plan::RestorePlan;
use pagelift_cases::draw::Draw;

use crate::device::{Engine, on_several, on_two_in_software};
use crate::lifts::ROOM;
use crate::mirror;
use crate::page_map::Fixture;
use crate::tickets::{one, two};
use crate::world::World;

const DONE: TicketState = TicketState::Done(Report { bad: 0, rows: 0, skipped: 0 });

/// A GPU whose host memory another one pins.
#[derive(Clone, Debug)]
struct Beside {
    gpu: Arc<Cuda>,
    owner: Arc<Cuda>,
}

// SAFETY: (1) what either allocates is its own, and host memory that one pins is mapped for all, at one address; (2..=7) those of
// `gpu`.
unsafe impl Backend for Beside {
    type Stream = CudaStream;

    fn name(&self) -> &'static str {
        self.gpu.name()
    }

    fn stream(&self) -> CudaStream {
        self.gpu.stream()
    }

    fn allocate(&self, place: Memory, bytes: u64) -> Result<Buffer, Error> {
        match place {
            Memory::Host => self.owner.allocate(place, bytes),
            _ => self.gpu.allocate(place, bytes),
        }
    }

    fn reach(&self) -> Reach {
        self.gpu.reach()
    }

    fn registrar(&self) -> Arc<dyn Registrar> {
        self.owner.registrar()
    }

    fn in_flight<'s>(&self, stream: &'s CudaStream) -> Option<&'s Arc<dyn Finish>> {
        self.gpu.in_flight(stream)
    }

    fn is_lost(&self) -> bool {
        self.gpu.is_lost()
    }

    fn wait(&self, stream: &CudaStream) -> Result<(), BackendError> {
        self.gpu.wait(stream)
    }

    fn suited(&self, work: LaunchWork) -> Option<NonZeroU32> {
        self.gpu.suited(work)
    }

    fn is_capturing(&self, stream: &CudaStream) -> Result<bool, BackendError> {
        self.gpu.is_capturing(stream)
    }

    fn chain(&self, stream: &CudaStream, next: &CudaStream) -> Result<(), BackendError> {
        self.gpu.chain(stream, next)
    }

    unsafe fn upload(
        &self,
        stream: &CudaStream,
        from: &Buffer,
        to: &mut Buffer,
        bytes: usize,
    ) -> Result<(), BackendError> {
        // SAFETY: (1) is ours.
        unsafe { self.gpu.upload(stream, from, to, bytes) }
    }

    unsafe fn clear(&self, stream: &CudaStream, buffer: &mut Buffer) -> Result<(), BackendError> {
        // SAFETY: (1) is ours.
        unsafe { self.gpu.clear(stream, buffer) }
    }

    unsafe fn launch(
        &self,
        stream: &CudaStream,
        workers: Option<NonZeroU32>,
        kernel: Kernel,
    ) -> Result<(), BackendError> {
        // SAFETY: (1) is ours.
        unsafe { self.gpu.launch(stream, workers, kernel) }
    }
}

/// Every owner, every GPU that copies, and every current context, of two and none.
fn any_gpu_copies_what_any_has_pinned(driver: &CudaDriver, engines: &[Engine; 2]) {
    let gpus = [0, 1].map(|ordinal| Arc::new(Cuda::open_with(driver, ordinal).unwrap()));
    for peers in [false, true] {
        if peers && !(engines[0].reaches(&engines[1]) && engines[1].reaches(&engines[0])) {
            println!("skipped: these GPUs do not reach each other's memory");
            break;
        }
        for case in 0..12 {
            let [owner, gpu] = [case & 1, case >> 1 & 1].map(|index| Arc::clone(&gpus[index]));
            engines[0].leave();
            engines.iter().take(case >> 2).for_each(Engine::enter);
            let current = engines[0].current();
            let between = Beside { gpu, owner };
            lifts(&between);
            mirrors(&between);
            assert_eq!(engines[0].current(), current);
        }
    }
}

/// By launches, and by a graph.
fn lifts(between: &Beside) {
    let mut world = World::small(between);
    let mut plan = RestorePlan::new(world.geometry(), ROOM).unwrap();
    let options = LauncherOptions::default();
    let mut launcher = Launcher::bind(between.clone(), &world.pools.memory, &mut plan, options).unwrap();
    let stream = between.stream();
    let (mut graph, ()) = between
        .gpu
        .capture(&stream, CaptureMode::ThreadLocal, || {
            // SAFETY: (1) the graph is dropped before the launcher and the memory; (2, 3) it is replayed after what came before,
            // and awaited before anybody looks.
            unsafe { launcher.record(&mut world.pools.memory) }
        })
        .unwrap();
    for (seed, prompt) in (0..).zip([one(), two(), two(), one()]) {
        world.fill(&mut Draw::seeded(seed));
        let mut expected = world.image();
        world.expect(&mut expected, &prompt);
        plan.clear();
        world.lift(&mut plan, &prompt);
        let ticket = launcher.stage(&world.pools.memory, &mut plan).unwrap();
        if seed % 2 == 0 {
            launcher.launch(&mut world.pools.memory).unwrap();
        } else {
            graph.replay(&stream).unwrap();
        }
        launcher.wait().unwrap();
        assert_eq!(launcher.state(ticket), DONE);
        world.assert_is(&expected);
    }
    drop(graph);
}

fn mirrors(between: &Beside) {
    let (mut it, mut plan) = Fixture::new(between.clone(), mirror::ROOM, false);
    it.map(&mut plan, 0, 2).unwrap();
    it.map(&mut plan, 2, 0).unwrap();
    it.stage(&mut plan).unwrap();
    it.run(&[(0, 2), (2, 0)], |it| {
        it.launcher.launch(&mut it.world.pools.memory).unwrap();
        it.launcher.wait().unwrap();
    });
}

#[test]
fn any_of_two_gpus_in_software() {
    on_two_in_software(any_gpu_copies_what_any_has_pinned);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn any_of_two_gpus() {
    on_several(any_gpu_copies_what_any_has_pinned);
}
