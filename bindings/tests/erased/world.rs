//! Memory with a group of each kind on both sides, and a language without streams and graphs.

use std::sync::Arc;

use pagelift::backends::{Backend, Cpu, Cuda, CudaStream, Launchable};
use pagelift::error::BackendError;
use pagelift::geometry::{Geometry, GeometryBuilder, Landing, Lift, Memory, PoolSpec, SideSpec};
use pagelift::launcher::Launcher;
use pagelift::layout::{PagedLayout, RingLayout, StateLayout, StatePart};
use pagelift::memory::{RegionId, Registry};
use pagelift::plan::{PlanCapacity, RowBinding, RowCapacity};
use pagelift::runner::Runner;
use pagelift_bindings::geometry::{self, AnyGroupSpec, AnySideSpec};
use pagelift_bindings::keys::{AnyCompactRoute, AnyDigest, AnyGroup, AnyLayout, AnyRoute, AnySide, Way};
use pagelift_bindings::plan::AnyPlan;
use pagelift_bindings::{Boundary, Engine, Error};

/// Blocks of each pool.
pub const BLOCKS: u32 = 8;
/// Rows of a paged block, and slots of a ring.
pub const ROWS: u32 = 4;
/// Bytes of a block of any group: one layer.
pub const BLOCK: u64 = 64;

/// A language that has neither streams nor graphs, and whose errors are text.
pub enum Plain {}

impl Boundary for Plain {
    type Stream = u64;
    type Failure = String;

    fn failure(error: Error) -> String {
        error.to_string()
    }

    fn stream(_gpu: &Arc<Cuda>, _name: u64) -> Result<CudaStream, BackendError> {
        Err(BackendError::PerThreadStream)
    }

    fn record<B: Backend, P: Launchable>(
        _launcher: &mut Launcher<B, P>,
        _memory: &mut Registry,
    ) -> Result<(), pagelift::Error> {
        Err(BackendError::NotCapturing.into())
    }

    fn record_before_forward<B: Backend>(
        _runner: &mut Runner<B>,
        _memory: &mut Registry,
    ) -> Result<(), pagelift::Error> {
        Err(BackendError::NotCapturing.into())
    }

    fn record_after_forward<B: Backend>(
        _runner: &mut Runner<B>,
        _memory: &mut Registry,
    ) -> Result<(), pagelift::Error> {
        Err(BackendError::NotCapturing.into())
    }
}

/// A group with its memory and its keys.
pub struct Group {
    pub key: AnyGroup,
    /// Its sides, on the host and on the device.
    pub sides: [AnySide; 2],
    pub regions: [RegionId; 2],
    /// Routes in the order of [`Way::ALL`].
    pub routes: [AnyRoute; 3],
    pub digests: [AnyDigest; 2],
}

/// All of it.
pub struct World {
    pub engine: Engine,
    pub memory: Registry,
    pub geometry: Arc<Geometry>,
    /// A paged group, a ring and a state.
    pub groups: [Group; 3],
    /// From the paged group's sides into a compact buffer on the device.
    pub compact: [AnyCompactRoute; 2],
    /// Slots of a mapping on the device.
    pub slots: RegionId,
}

/// A layout of each kind, of [`BLOCK`] bytes.
pub fn layouts() -> [AnyLayout; 3] {
    [
        PagedLayout::builder(ROWS).segment("kv", 16).build().unwrap().into(),
        RingLayout::builder(ROWS, 16).build().unwrap().into(),
        StateLayout::new(&[StatePart::new("s", 64)], None).unwrap().into(),
    ]
}

/// Memory of its own for a side of one layer.
pub fn side(
    builder: &mut GeometryBuilder,
    memory: &mut Registry,
    name: &str,
    place: Memory,
    blocks: u32,
    layout: AnyLayout,
) -> (AnySideSpec, RegionId) {
    let page = match &layout {
        AnyLayout::Paged(own) => own.page_bytes().get(),
        AnyLayout::Ring(own) => own.page_bytes().get(),
        AnyLayout::State(own) => own.page_bytes().get(),
    };
    let id = memory.allocate(&Cpu::with_threads(1).unwrap(), place, u64::from(blocks) * page).unwrap();
    let region = memory.region(id).unwrap();
    let pool = builder.pool(PoolSpec::new(name, place, blocks, &[region])).unwrap();
    let spec = SideSpec::packed(pool, &[region.address()], &[0], page, layout);
    (AnySideSpec { spec, memory: place }, id)
}

impl World {
    pub fn new() -> Self {
        let (mut builder, mut memory) = (GeometryBuilder::new(), Registry::new());
        let named = ["paged", "ring", "state"].into_iter().zip(layouts());
        let groups: Vec<_> = named
            .map(|(name, layout)| {
                let mut side = |place: Memory| {
                    let pool = format!("{name} {}", place.name());
                    side(&mut builder, &mut memory, &pool, place, BLOCKS, layout.clone())
                };
                let ((host, on_host), (device, on_device)) = (side(Memory::Host), side(Memory::Device));
                let lift = if name == "paged" { Lift::Tail } else { Lift::State };
                let (host, device) = (Some(host), Some(device));
                let (name, landing) = (name.into(), Landing::Host);
                let spec = AnyGroupSpec { name, layers: 1, landing, lift, host, device };
                let key = geometry::group(&mut builder, spec).unwrap();
                let sides = [Memory::Host, Memory::Device]
                    .map(|place| geometry::main_side(&builder, key, place).unwrap());
                let [from_host, from_device] = sides;
                let mut route = |from, to| geometry::route(&mut builder, from, to).unwrap();
                let routes = [
                    route(from_host, from_device),
                    route(from_device, from_host),
                    route(from_device, from_device),
                ];
                let digests = sides.map(|side| geometry::digest(&mut builder, side).unwrap());
                Group { key, sides, regions: [on_host, on_device], routes, digests }
            })
            .collect();
        let groups: [Group; 3] = groups.try_into().unwrap_or_else(|_| panic!("there are three"));
        let buffer = PagedLayout::builder(ROWS).segment("kv", 16).build().unwrap().into();
        let (buffer, _) = side(&mut builder, &mut memory, "compact", Memory::Device, 1, buffer);
        let [paged, ..] = &groups;
        let buffer = geometry::side(&mut builder, paged.key, buffer).unwrap();
        let compact = paged.sides.map(|from| geometry::compact_route(&mut builder, from, buffer).unwrap());
        let cpu = Arc::new(Cpu::with_threads(1).unwrap());
        let slots = memory.allocate(&cpu, Memory::Device, 64).unwrap();
        let geometry = Arc::new(builder.build().unwrap());
        Self { engine: Engine::Cpu(cpu), memory, geometry, groups, compact, slots }
    }

    /// A plan of each type.
    pub fn plans(&self) -> Vec<AnyPlan> {
        let pages = |way| AnyPlan::pages(self.geometry.clone(), way, PlanCapacity::default()).unwrap();
        let rows = |way| AnyPlan::rows(self.geometry.clone(), way, RowCapacity::default()).unwrap();
        let mut plans: Vec<_> =
            Way::ALL.into_iter().map(pages).chain(Way::ALL.into_iter().map(rows)).collect();
        plans.push(AnyPlan::digests(self.geometry.clone(), PlanCapacity::default()).unwrap());
        plans
    }

    /// A binding of one entry.
    pub fn binding(&self) -> RowBinding {
        RowBinding::new(self.memory.region(self.slots).unwrap().address(), 1)
    }

    /// Fills all blocks of a group's side with bytes of their own.
    pub fn fill(&mut self, group: usize, side: usize, seed: u8) {
        let region = self.groups[group].regions[side];
        for (at, byte) in self.memory.bytes_mut(region).unwrap().iter_mut().enumerate() {
            *byte = (at as u8).wrapping_mul(31).wrapping_add(seed);
        }
    }

    /// A block of a group's side.
    pub fn block(&self, group: usize, side: usize, block: u32) -> Vec<u8> {
        let bytes = self.memory.bytes(self.groups[group].regions[side]).unwrap();
        let (from, length) = ((u64::from(block) * BLOCK) as usize, BLOCK as usize);
        bytes[from..from + length].to_vec()
    }
}
