//! Small geometries by hand: host pools with layers outermost, device slabs with blocks outermost.

use std::sync::Arc;

use pagelift_planner::geometry::*;
use pagelift_planner::id::{HostBlockId, PageId, PoolId};
use pagelift_planner::import::{Import, ImportGroup, PromptSpan, Recurrence};
use pagelift_planner::layout::{PagedLayout, StateLayout, StatePart};
use pagelift_planner::plan::{PlanCapacity, RestorePlan};
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
        let page = layout.page_bytes().get();
        let stride = u64::from(layers) * page;
        let mut builder = GeometryBuilder::new();
        let host = pool(&mut builder, Memory::Host, blocks, u64::from(blocks) * stride);
        let device = pool(&mut builder, Memory::Device, pages, u64::from(pages) * stride);
        let host = layers_outermost(host, 0, layers, blocks, layout);
        let device = blocks_outermost(device, layers, stride, layout);
        let group = builder.group(paged("main", layers, lift, host, device)).unwrap();
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
