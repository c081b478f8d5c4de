//! Small geometries by hand: host pools with layers outermost, device slabs with blocks outermost.

use std::sync::Arc;

use pagelift_planner::geometry::*;
use pagelift_planner::id::{HostBlockId, PageId, PoolId};
use pagelift_planner::import::{Import, ImportGroup, PromptSpan, Recurrence};
use pagelift_planner::layout::{PagedLayout, StateLayout, StatePart};
use pagelift_planner::plan::{
    DeviceToDevice, DeviceToHost, Direction, HostToDevice, PagePlan, PlanCapacity, RestorePlan,
};
use pagelift_planner::quantity::Tokens;

pub const HOST: u64 = 0x10_0000_0000;
pub const DEVICE: u64 = 0x7000_0000_0000;

/// A prompt of an attention-only model.
pub fn prompt(tokens: u64) -> PromptSpan {
    PromptSpan::new(Tokens::new(tokens), Recurrence::None).unwrap()
}

/// A prompt of a model with recurrent state.
pub fn hybrid(tokens: u64) -> PromptSpan {
    PromptSpan::new(Tokens::new(tokens), Recurrence::State).unwrap()
}

/// Import number 7.
pub fn import<'a>(span: PromptSpan, groups: &'a [ImportGroup<'a>]) -> Import<'a> {
    Import { span, groups }
}

/// A pool named `host` or `device` of `blocks` blocks in one region of `bytes`.
pub fn pool(builder: &mut GeometryBuilder, memory: Memory, blocks: u32, bytes: u64) -> PoolId {
    let address = if memory == Memory::Host { HOST } else { DEVICE };
    let spec = PoolSpec::new(memory.name(), memory, blocks, &[Region::new(address, bytes)]);
    builder.pool(spec).unwrap()
}

/// Layers one after the other, each `blocks` pages without gaps, from `HOST + at` on.
pub fn layers_outermost(
    pool: PoolId,
    at: u64,
    layers: u32,
    blocks: u32,
    layout: &PagedLayout,
) -> SideSpec<PagedLayout> {
    let page = layout.page_bytes().get();
    let bases: Vec<u64> = (0..u64::from(layers)).map(|l| HOST + at + l * u64::from(blocks) * page).collect();
    SideSpec::layer_separate(pool, &bases, page, layout.clone())
}

/// Blocks one after the other in a slab, each with its layers side by side from byte 0 on.
pub fn blocks_outermost(
    pool: PoolId,
    layers: u32,
    stride: u64,
    layout: &PagedLayout,
) -> SideSpec<PagedLayout> {
    let offsets: Vec<u64> = (0..u64::from(layers)).map(|l| l * layout.page_bytes().get()).collect();
    SideSpec::packed(pool, &[DEVICE], &offsets, stride, layout.clone())
}

/// Says a paged group that lands on the host.
pub fn paged(
    name: &str,
    layers: u32,
    lift: PagedLift,
    host: SideSpec<PagedLayout>,
    device: SideSpec<PagedLayout>,
) -> GroupSpec<Paged> {
    GroupSpec {
        name: name.into(),
        layers,
        landing: Landing::Host,
        lift,
        host: Some(host),
        device: Some(device),
    }
}

/// One paged group in pools of its own.
pub struct One {
    pub geometry: Arc<Geometry>,
    pub group: GroupKey<Paged>,
}

impl One {
    pub fn new(layout: &PagedLayout, layers: u32, blocks: u32, pages: u32, lift: PagedLift) -> Self {
        Self::between((layout, blocks), (layout, pages), layers, lift)
    }

    /// A group whose host blocks and pages look different.
    pub fn between(
        (on_host, blocks): (&PagedLayout, u32),
        (on_device, pages): (&PagedLayout, u32),
        layers: u32,
        lift: PagedLift,
    ) -> Self {
        let stride = |layout: &PagedLayout| u64::from(layers) * layout.page_bytes().get();
        let mut builder = GeometryBuilder::new();
        let host = pool(&mut builder, Memory::Host, blocks, u64::from(blocks) * stride(on_host));
        let device = pool(&mut builder, Memory::Device, pages, u64::from(pages) * stride(on_device));
        let host = layers_outermost(host, 0, layers, blocks, on_host);
        let device = blocks_outermost(device, layers, stride(on_device), on_device);
        let group = builder.group(paged("main", layers, lift, host, device)).unwrap();
        Self { geometry: Arc::new(builder.build().unwrap()), group }
    }

    /// A group without a host side: four pages of four rows, which land on the device.
    pub fn on_the_device() -> Self {
        let layout = PagedLayout::builder(4).segment("row", 16).build().unwrap();
        let mut builder = GeometryBuilder::new();
        let device = pool(&mut builder, Memory::Device, 4, 4 * 64);
        let side = blocks_outermost(device, 1, 64, &layout);
        let spec = paged("main", 1, PagedLift::None, side.clone(), side);
        let group = builder.group(GroupSpec { host: None, landing: Landing::Device, ..spec }).unwrap();
        Self { geometry: Arc::new(builder.build().unwrap()), group }
    }

    pub fn plan(&self) -> RestorePlan {
        RestorePlan::new(Arc::clone(&self.geometry), PlanCapacity::default()).unwrap()
    }
}

/// Two paged groups and a state that share both pools: 8 host blocks, 8 pages, blocks of 4 tokens.
pub struct Three {
    pub geometry: Arc<Geometry>,
    pub tail: GroupKey<Paged>,
    pub all: GroupKey<Paged>,
    pub state: GroupKey<State>,
}

impl Three {
    pub const BLOCKS: u32 = 8;

    pub fn new() -> Self {
        let layout = PagedLayout::builder(4).segment("row", 48).build().unwrap();
        let state =
            StateLayout::new(&[StatePart::new("conv", 96), StatePart::new("temporal", 32)], Some(192));
        let state = state.unwrap();
        let (stride, blocks) = (384, Self::BLOCKS);
        let bytes = stride * u64::from(blocks);
        let mut builder = GeometryBuilder::new();
        let host = pool(&mut builder, Memory::Host, blocks, bytes);
        let device = pool(&mut builder, Memory::Device, blocks, bytes);
        let at = |pool, base| SideSpec::packed(pool, &[base], &[0, 192], stride, layout.clone());
        let tail = paged("tail", 2, PagedLift::Tail, at(host, HOST), at(device, DEVICE));
        let all = paged("all", 2, PagedLift::All, at(host, HOST), at(device, DEVICE));
        let at = |pool, base| SideSpec::packed(pool, &[base], &[0, 192], stride, state.clone());
        let state = GroupSpec::<State> {
            name: "state".into(),
            layers: 2,
            landing: Landing::Host,
            lift: StateLift::State,
            host: Some(at(host, HOST)),
            device: Some(at(device, DEVICE)),
        };
        let (tail, all) = (builder.group(tail).unwrap(), builder.group(all).unwrap());
        let state = builder.group(state).unwrap();
        Self { geometry: Arc::new(builder.build().unwrap()), tail, all, state }
    }

    pub fn plan(&self) -> RestorePlan {
        RestorePlan::new(Arc::clone(&self.geometry), PlanCapacity::default()).unwrap()
    }

    /// The lists of all three groups, in their order.
    pub fn lists<'a>(
        &self,
        tail: (&'a [HostBlockId], &'a [PageId]),
        all: (&'a [HostBlockId], &'a [PageId]),
        state: (&'a [HostBlockId], &'a [PageId]),
    ) -> [ImportGroup<'a>; 3] {
        [
            ImportGroup::new(self.tail, tail.0, tail.1),
            ImportGroup::new(self.all, all.0, all.1),
            ImportGroup::new(self.state, state.0, state.1),
        ]
    }
}

/// A paged group, another one and a state in both pools, with every way between its pages; blocks of 4 rows of 16 bytes.
pub struct Ways {
    pub geometry: Arc<Geometry>,
    pub main: GroupKey<Paged>,
    pub other: GroupKey<Paged>,
    pub state: GroupKey<State>,
    pub down: RouteKey<HostToDevice, Paged>,
    pub up: RouteKey<DeviceToHost, Paged>,
    /// Inside the device pool, of the first group and of the other.
    pub across: RouteKey<DeviceToDevice, Paged>,
    pub other_across: RouteKey<DeviceToDevice, Paged>,
    /// To a buffer of 4 pages at `BUFFER`, and back.
    pub out: RouteKey<DeviceToDevice, Paged>,
    pub back: RouteKey<DeviceToDevice, Paged>,
    /// Into the first half of the same blocks: pages of 2 rows.
    pub halves: RouteKey<DeviceToDevice, Paged>,
}

pub const BUFFER: u64 = 0x7100_0000_0000;

impl Ways {
    /// Blocks of host and device.
    pub const BLOCKS: u32 = 8;

    pub fn new() -> Self {
        let layout = |rows| PagedLayout::builder(rows).segment("row", 16).build().unwrap();
        let mut builder = GeometryBuilder::new();
        let [host, device] =
            [Memory::Host, Memory::Device].map(|memory| pool(&mut builder, memory, Self::BLOCKS, 64 * 8));
        let region = [Region::new(BUFFER, 64 * 4)];
        let buffer = builder.pool(PoolSpec::new("buffer", Memory::Device, 4, &region)).unwrap();
        let at = |pool, base, rows| SideSpec::packed(pool, &[base], &[0], 64, layout(rows));
        let mut group = |name| {
            let group = paged(name, 1, PagedLift::Tail, at(host, HOST, 4), at(device, DEVICE, 4));
            builder.group(group).unwrap()
        };
        let (main, other) = (group("main"), group("other"));
        let state = StateLayout::new(&[StatePart::new("conv", 48)], None).unwrap();
        let state_at = |pool, base| Some(SideSpec::packed(pool, &[base], &[0], 64, state.clone()));
        let state = GroupSpec::<State> {
            name: "state".into(),
            layers: 1,
            landing: Landing::Device,
            lift: StateLift::None,
            host: state_at(host, HOST),
            device: state_at(device, DEVICE),
        };
        let state = builder.group(state).unwrap();
        let side = |builder: &GeometryBuilder, group, memory| builder.main_side(group, memory).unwrap();
        let (host, pages) = (side(&builder, main, Memory::Host), side(&builder, main, Memory::Device));
        let other_pages = side(&builder, other, Memory::Device);
        let buffer = builder.side(main, &at(buffer, BUFFER, 4)).unwrap();
        let half_pages = builder.side(main, &at(device, DEVICE, 2)).unwrap();
        Self {
            down: builder.route(host, pages).unwrap(),
            up: builder.route(pages, host).unwrap(),
            across: builder.route(pages, pages).unwrap(),
            other_across: builder.route(other_pages, other_pages).unwrap(),
            out: builder.route(pages, buffer).unwrap(),
            back: builder.route(buffer, pages).unwrap(),
            halves: builder.route(pages, half_pages).unwrap(),
            geometry: Arc::new(builder.build().unwrap()),
            main,
            other,
            state,
        }
    }

    pub fn plan<D: Direction>(&self) -> PagePlan<D> {
        PagePlan::new(Arc::clone(&self.geometry), PlanCapacity::default()).unwrap()
    }
}
