//! Backends are asked how many workers suit a launch, and told what it does; where somebody says it, they are not asked.

use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Mutex;

use pagelift::Error;
use pagelift::backends::{
    Backend, Buffer, Calibration, Cpu, Cuda, Kernel, LaunchWork, Launchable, Pace, Paces, Pieces,
};
use pagelift::error::BackendError;
use pagelift::geometry::Memory;
use pagelift::launcher::{Launcher, LauncherOptions};
use pagelift::plan::{
    DeviceToDevice, DigestPlan, MirrorPlan, PagePlan, PlanCapacity, RestorePlan, RowCapacity, WriteBackPlan,
};
use pagelift::quantity::Bytes;

use pagelift_fake_driver::Machine;

use crate::backends::software;
use crate::world::World;

const ROOM: PlanCapacity = PlanCapacity { jobs: 8, list_entries: 8 };

/// What it was asked about, and what each launch was given.
#[derive(Debug)]
struct Asked {
    cpu: Cpu,
    asked: Mutex<Vec<LaunchWork>>,
    given: Mutex<Vec<Option<u32>>>,
}

// SAFETY: (1 to 7) those of `Cpu`, which does all.
unsafe impl Backend for Asked {
    type Stream = ();

    fn name(&self) -> &'static str {
        "asked"
    }

    fn stream(&self) {}

    fn allocate(&self, place: Memory, bytes: u64) -> Result<Buffer, Error> {
        self.cpu.allocate(place, bytes)
    }

    fn suited(&self, work: LaunchWork) -> Option<NonZeroU32> {
        self.asked.lock().unwrap().push(work);
        NonZeroU32::new(3)
    }

    unsafe fn launch(
        &self,
        (): &(),
        workers: Option<NonZeroU32>,
        kernel: Kernel,
    ) -> Result<(), BackendError> {
        self.given.lock().unwrap().push(workers.map(NonZeroU32::get));
        // SAFETY: (1) is ours.
        unsafe { self.cpu.launch(&(), workers, kernel) }
    }
}

/// Launches a plan of nothing, and says what the backend was asked, and what it was given then.
fn launched<P: Launchable>(
    plan: impl FnOnce(&World) -> P,
    workers: Option<NonZeroU32>,
) -> (Vec<LaunchWork>, Vec<Option<u32>>) {
    let cpu = Cpu::with_threads(1).unwrap();
    let backend = Asked { cpu, asked: Mutex::default(), given: Mutex::default() };
    let mut world = World::small(&backend);
    let mut plan = plan(&world);
    let options = LauncherOptions { workers, ..LauncherOptions::default() };
    let mut launcher = Launcher::bind(&backend, &world.pools.memory, &mut plan, options).unwrap();
    launcher.stage(&world.pools.memory, &mut plan).unwrap();
    launcher.launch(&mut world.pools.memory).unwrap();
    drop(launcher);
    (backend.asked.into_inner().unwrap(), backend.given.into_inner().unwrap())
}

#[test]
fn a_backend_is_told_what_a_launch_does() {
    let (host, device) = (Memory::Host, Memory::Device);
    let pages = |way| LaunchWork { way: Some(way), pieces: Pieces::Pages, bytes: Some(Bytes::new(0)) };
    let found = [
        launched(|world| RestorePlan::new(world.geometry(), ROOM).unwrap(), None),
        launched(|world| WriteBackPlan::new(world.geometry(), ROOM).unwrap(), None),
        launched(|world| PagePlan::<DeviceToDevice>::new(world.geometry(), ROOM).unwrap(), None),
        launched(|world| MirrorPlan::new(world.geometry(), RowCapacity::default()).unwrap(), None),
        launched(|world| DigestPlan::new(world.geometry(), ROOM).unwrap(), None),
    ];
    let expected = [
        pages((host, device)),
        pages((device, host)),
        pages((device, device)),
        // What it copies only the device knows.
        LaunchWork { way: Some((device, host)), pieces: Pieces::Rows, bytes: None },
        LaunchWork { way: None, pieces: Pieces::Pages, bytes: Some(Bytes::new(0)) },
    ];
    for ((asked, given), expected) in found.into_iter().zip(expected) {
        assert_eq!((asked, given), (vec![expected], vec![Some(3)]));
    }
}

#[test]
fn what_the_launcher_was_told_goes_before_what_suits() {
    let plan = |world: &World| RestorePlan::new(world.geometry(), ROOM).unwrap();
    assert_eq!(launched(plan, NonZeroU32::new(2)), (vec![], vec![Some(2)]));
}

#[test]
fn a_calibrated_gpu_uses_what_was_measured() {
    let machine = Machine::new(1);
    let gpu = Cuda::open_with(&software(&machine).unwrap(), 0).unwrap();
    let lift = LaunchWork { way: Some((Memory::Host, Memory::Device)), pieces: Pieces::Pages, bytes: None };
    assert_eq!((gpu.suited(lift), gpu.calibration()), (None, None));

    let pace = |workers| Pace {
        workers: NonZeroU32::new(workers).unwrap(),
        bytes_per_second: NonZeroU64::new(1 << 35).unwrap(),
    };
    let paces = |workers| Paces { pages: pace(workers), rows: pace(workers + 1) };
    let measured =
        Calibration { host_to_device: paces(2), device_to_host: paces(4), device_to_device: paces(6) };
    let gpu = gpu.with_calibration(measured);
    assert_eq!(gpu.calibration(), Some(measured));
    let suited = |work| gpu.suited(work).map(NonZeroU32::get);
    let mirror = LaunchWork { way: Some((Memory::Device, Memory::Host)), pieces: Pieces::Rows, bytes: None };
    assert_eq!([lift, mirror, LaunchWork { way: None, ..lift }].map(suited), [Some(2), Some(5), None]);
}
