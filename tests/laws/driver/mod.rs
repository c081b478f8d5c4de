//! The calls that are made of the driver: which, in which order, and what becomes of each that fails.

mod calls;
mod failures;
mod retries;

use std::sync::Arc;

use pagelift::Error;
use pagelift::backends::{Backend as _, CaptureMode, Cuda, CudaGraph};
use pagelift::geometry::*;
use pagelift::id::{HostBlockId, PageId, Ticket};
use pagelift::launcher::Launcher;
use pagelift::layout::PagedLayout;
use pagelift::memory::{RegionId, Registry};
use pagelift::plan::{MirrorPlan, PlanCapacity, RestorePlan, RowBinding, RowCapacity};
use pagelift_fake_driver::{Live, Machine};

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
    let engine = Engine::of(0, move |name| calls.symbol(name).unwrap());
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

/// A machine whose engine the thread has entered, and a small world with pages to lift on its GPU.
fn entered() -> (Machine, Engine, Arc<Cuda>, Small, Pages) {
    let (machine, engine) = machine();
    engine.enter();
    let gpu = open(&machine).unwrap();
    let mut small = Small::new(&gpu).unwrap();
    let pages = Pages::new(&gpu, &mut small).unwrap();
    (machine, engine, gpu, small, pages)
}

const ASK: &str = "cuCtxGetCurrent";
const STATE: &str = "cuStreamIsCapturing";
const UPLOAD: &str = "cuMemcpyHtoDAsync_v2";
const LAUNCH: &str = "cuLaunchKernel";
