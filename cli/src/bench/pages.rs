//! Works of page plans: tails and imports, states, and pages that change their arrangement on the GPU.

use std::sync::Arc;

use pagelift::geometry::{
    Geometry, GroupKey, GroupSpec, Landing, Memory, Paged, PagedLift, State, StateLift,
};
use pagelift::id::{HostBlockId, PageId};
use pagelift::import::{Import, ImportGroup, PromptSpan, Recurrence};
use pagelift::layout::{GdnShape, PagedLayout, SsmShape, StateLayout, StatePart};
use pagelift::plan::{DeviceToDevice, PagePlan, PlanCapacity, RestorePlan, TailRows};
use pagelift::quantity::Tokens;

use super::BenchError;
use super::bed::{Move, Order, Pages, Pool};
use super::beside::Forward;
use super::draft::{Asked, Draft, Moved, Rows, rows};
use super::measure::{Way, Work};
use super::rig::Rig;

/// Layers of DeepSeek-V3 and V3.2.
const LAYERS: u32 = 61;

/// A tail of DeepSeek-V3: one page of 128 rows a layer.
pub fn tail<'r, B: Rig>(rig: &'r B, asked: &Asked) -> Result<Work<'r>, BenchError> {
    let layout = PagedLayout::mla_bf16(128)?;
    let group = Tails { name: "main", host: layout.clone(), device: layout };
    imports(rig, asked, &[group], 1, TailRows::Whole, 128)
}

/// The same beside products of large matrices.
pub fn tail_beside_products<'r, B: Rig>(rig: &'r B, asked: &Asked) -> Result<Work<'r>, BenchError> {
    tail_beside(rig, asked, Forward::Products)
}

/// The same beside a step of short layers.
pub fn tail_beside_step<'r, B: Rig>(rig: &'r B, asked: &Asked) -> Result<Work<'r>, BenchError> {
    tail_beside(rig, asked, Forward::Step)
}

fn tail_beside<'r, B: Rig>(rig: &'r B, asked: &Asked, forward: Forward) -> Result<Work<'r>, BenchError> {
    let layout = PagedLayout::mla_bf16(128)?;
    let group = Tails { name: "main", host: layout.clone(), device: layout };
    imports_then(rig, asked, &[group], 1, TailRows::Whole, 128, |mut draft, moved, plan| {
        draft.bed.fill(&moved.moves)?;
        let ways = rig.beside(forward, &mut draft.bed.memory, plan)?;
        Ok(Work { bed: draft.bed, ways, bytes: 0, fragments: 0 })
    })
}

/// The tails of one V3.2 import: latent rows, and an indexer page split into keys and scales.
pub fn import<'r, B: Rig>(rig: &'r B, asked: &Asked) -> Result<Work<'r>, BenchError> {
    imports(rig, asked, &v32(0)?, 1, TailRows::Whole, 64)
}

/// The same into pages whose rows are padded.
pub fn import_padded<'r, B: Rig>(rig: &'r B, asked: &Asked) -> Result<Work<'r>, BenchError> {
    imports(rig, asked, &v32(16)?, 1, TailRows::Whole, 64)
}

/// The same, of which 37 rows are copied and no other.
pub fn import_exact<'r, B: Rig>(rig: &'r B, asked: &Asked) -> Result<Work<'r>, BenchError> {
    imports(rig, asked, &v32(0)?, 1, TailRows::Exact, 37)
}

/// The tails of 64 V3.2 imports.
pub fn many_imports<'r, B: Rig>(rig: &'r B, asked: &Asked) -> Result<Work<'r>, BenchError> {
    imports(rig, asked, &v32(0)?, asked.count(64), TailRows::Whole, 64)
}

/// A group whose tails are lifted.
struct Tails {
    name: &'static str,
    host: PagedLayout,
    device: PagedLayout,
}

/// The groups of DeepSeek-V3.2, rows of pages padded by so many bytes.
fn v32(padding: u32) -> Result<[Tails; 2], BenchError> {
    let padded = |layout: &PagedLayout| {
        let builder = PagedLayout::builder(64).row_padding(padding);
        layout
            .segments()
            .iter()
            .fold(builder, |builder, segment| builder.segment(segment.name(), segment.row_bytes()))
    };
    let (main, indexer) = (PagedLayout::fp8_ds_mla(64)?, PagedLayout::indexer_fp8(64)?);
    let [main_pages, indexer_pages] = [padded(&main).build()?, padded(&indexer).build()?];
    Ok([
        Tails { name: "main", host: main, device: main_pages },
        Tails { name: "indexer", host: indexer, device: indexer_pages },
    ])
}

/// Imports of one block each, of so many tokens.
fn imports<'r, B: Rig>(
    rig: &'r B,
    asked: &Asked,
    groups: &[Tails],
    imports: u32,
    mode: TailRows,
    tokens: u32,
) -> Result<Work<'r>, BenchError> {
    imports_then(rig, asked, groups, imports, mode, tokens, |draft, moved, plan| draft.page_work(moved, plan))
}

/// The same, as the work that `finish` makes of them.
fn imports_then<'r, B: Rig>(
    rig: &'r B,
    asked: &Asked,
    groups: &[Tails],
    imports: u32,
    mode: TailRows,
    tokens: u32,
    finish: impl FnOnce(
        Draft<'r, B>,
        &Moved,
        &dyn Fn() -> Result<RestorePlan, BenchError>,
    ) -> Result<Work<'r>, BenchError>,
) -> Result<Work<'r>, BenchError> {
    let mut draft = Draft::new(rig, asked);
    let (layers, pages_each) = (asked.count(LAYERS), imports + 7);
    let (mut keys, mut lists, mut moves) = (Vec::new(), Vec::new(), Vec::new());
    for group in groups {
        let mut pool = |side, place, layout: &PagedLayout, order| {
            let stride = layout.page_bytes().get();
            let pages = Pages { place, layers, blocks: pages_each, stride, order };
            draft.pool(&format!("{} {side}", group.name), pages)
        };
        let host = pool("blocks", Memory::Host, &group.host, Order::Layers)?;
        let device = pool("pages", Memory::Device, &group.device, Order::Blocks)?;
        keys.push(draft.bed.builder.group(GroupSpec::<Paged> {
            name: group.name.into(),
            layers,
            landing: Landing::Host,
            lift: PagedLift::Tail,
            host: Some(host.side(group.host.clone())),
            device: Some(device.side(group.device.clone())),
        })?);
        let blocks = draft.bed.choose(imports, pages_each);
        let pages = draft.bed.choose(imports, pages_each);
        for (block, page) in blocks.iter().zip(&pages) {
            let from = Rows { pool: &host, layout: &group.host, block: *block, row: 0 };
            let to = Rows { pool: &device, layout: &group.device, block: *page, row: 0 };
            moves.extend(rows(layers, from, to, tokens));
        }
        let blocks: Vec<_> = blocks.into_iter().map(HostBlockId::new).collect();
        lists.push((blocks, pages.into_iter().map(PageId::new).collect::<Vec<_>>()));
    }
    let geometry = draft.geometry()?;
    let span = PromptSpan::new(Tokens::new(tokens.into()), Recurrence::None)?;
    let plan = || {
        let mut plan = RestorePlan::new(Arc::clone(&geometry), PlanCapacity::default())?;
        for import in 0..imports as usize {
            let one = |(key, (blocks, pages)): (&GroupKey<Paged>, &'_ (Vec<HostBlockId>, Vec<PageId>))| {
                (*key, blocks[import..=import].to_vec(), pages[import..=import].to_vec())
            };
            let ends: Vec<_> = keys.iter().zip(&lists).map(one).collect();
            let groups: Vec<_> =
                ends.iter().map(|(key, blocks, pages)| ImportGroup::new(*key, blocks, pages)).collect();
            plan.lift(&Import { span, groups: &groups }, mode)?;
        }
        Ok(plan)
    };
    let moved = Moved { from: Memory::Host, to: Memory::Device, moves, arrays: Vec::new() };
    finish(draft, &moved, &plan)
}

/// Pages of one pool of the GPU to another, whose layers lie in another order and whose pages lie further apart.
pub fn regroup<'r, B: Rig>(rig: &'r B, asked: &Asked) -> Result<Work<'r>, BenchError> {
    let mut draft = Draft::new(rig, asked);
    let (layers, blocks, layout) = (8, asked.count(64), PagedLayout::mla_bf16(128)?);
    let mut pool = |name, order| {
        let stride = layout.page_bytes().get();
        draft.pool(name, Pages { place: Memory::Device, layers, blocks, stride, order })
    };
    let (from, to) = (pool("layers outermost", Order::Layers)?, pool("blocks outermost", Order::Blocks)?);
    let builder = &mut draft.bed.builder;
    let key = builder.group(GroupSpec::<Paged> {
        name: "main".into(),
        layers,
        landing: Landing::Device,
        lift: PagedLift::None,
        host: None,
        device: Some(from.side(layout.clone())),
    })?;
    let target = builder.side(key, &to.side(layout.clone()))?;
    let source = builder.main_side(key, Memory::Device).ok_or(pagelift::error::PlanError::ForeignKey)?;
    let route = builder.route::<DeviceToDevice, Paged>(source, target)?;
    let (sources, targets) = (draft.bed.choose(blocks, blocks), draft.bed.choose(blocks, blocks));
    let mut moves = Vec::new();
    for (source, target) in sources.iter().zip(&targets) {
        let end = |pool, block: &u32| Rows { pool, layout: &layout, block: *block, row: 0 };
        moves.extend(rows(layers, end(&from, source), end(&to, target), 128));
    }
    let [sources, targets] =
        [sources, targets].map(|list| list.into_iter().map(PageId::new).collect::<Vec<_>>());
    let geometry = draft.geometry()?;
    let plan = || {
        let mut plan = PagePlan::<DeviceToDevice>::new(Arc::clone(&geometry), PlanCapacity::default())?;
        plan.gather(route, &sources, &targets)?;
        Ok(plan)
    };
    let moved = Moved { from: Memory::Device, to: Memory::Device, moves, arrays: Vec::new() };
    draft.page_work(&moved, plan)
}

/// The gated-delta-net states of 16 requests of Qwen3.8-Flash, on one rank of two.
pub fn gdn<'r, B: Rig>(rig: &'r B, asked: &Asked) -> Result<Work<'r>, BenchError> {
    let shape = GdnShape { conv_dim: 10_240, v_heads: 48, v_dim: 128, k_dim: 128, spec: 2, tp: 2 };
    states(rig, asked, &StateLayout::gdn(shape, Some(1_638_400))?, 36, 16)
}

/// The Mamba2 states of 16 requests of Nemotron-H-8B, on one rank of four.
pub fn mamba2<'r, B: Rig>(rig: &'r B, asked: &Asked) -> Result<Work<'r>, BenchError> {
    let shape =
        SsmShape { kernel: 4, inner: 8192, groups: 8, state: 128, heads: 128, head_dim: 64, spec: 0, tp: 4 };
    states(rig, asked, &StateLayout::ssm(shape, Some(1_064_960))?, 24, 16)
}

/// Pieces of one size: as many as make 64 MiB, and 4096 at most.
pub fn pieces<'r, B: Rig, const BYTES: u32>(rig: &'r B, asked: &Asked) -> Result<Work<'r>, BenchError> {
    let layout = StateLayout::new(&[StatePart::new("piece", BYTES)], None)?;
    let most = if asked.small { 32 } else { 4096 };
    states(rig, asked, &layout, 1, ((64 << 20) / BYTES).min(most))
}

/// The states of so many requests.
fn states<'r, B: Rig>(
    rig: &'r B,
    asked: &Asked,
    layout: &StateLayout,
    layers: u32,
    requests: u32,
) -> Result<Work<'r>, BenchError> {
    let mut draft = Draft::new(rig, asked);
    let (layers, requests) = (asked.count(layers), asked.count(requests));
    let mut pool = |name, place, order| {
        let stride = layout.page_bytes().get();
        draft.pool(name, Pages { place, layers, blocks: requests, stride, order })
    };
    let host = pool("blocks", Memory::Host, Order::Layers)?;
    let device = pool("pages", Memory::Device, Order::Blocks)?;
    let key = draft.bed.builder.group(GroupSpec::<State> {
        name: "state".into(),
        layers,
        landing: Landing::Host,
        lift: StateLift::State,
        host: Some(host.side(layout.clone())),
        device: Some(device.side(layout.clone())),
    })?;
    let [blocks, pages] = [(); 2].map(|()| draft.bed.choose(requests, requests));
    let pairs = || blocks.iter().zip(&pages);
    let moves = (0..layers).flat_map(|layer| {
        let bytes = layout.state_bytes().get();
        let (host, device) = (&host, &device);
        pairs().map(move |(block, page)| Move {
            from: host.page(layer, *block),
            to: device.page(layer, *page),
            bytes,
        })
    });
    let moves = moves.collect();
    let geometry = draft.geometry()?;
    let plan = || {
        let mut plan = RestorePlan::new(Arc::clone(&geometry), PlanCapacity::default())?;
        let route = geometry.lift_route(key).ok_or(pagelift::error::PlanError::ForeignKey)?;
        let blocks: Vec<_> = blocks.iter().copied().map(HostBlockId::new).collect();
        plan.gather(route, &blocks, &pages.iter().copied().map(PageId::new).collect::<Vec<_>>())?;
        Ok(plan)
    };
    let moved = Moved { from: Memory::Host, to: Memory::Device, moves, arrays: Vec::new() };
    draft.page_work(&moved, plan)
}

/// A plan of nothing, against a launch of nothing.
pub fn nothing<'r, B: Rig>(rig: &'r B, asked: &Asked) -> Result<Work<'r>, BenchError> {
    let mut draft = Draft::new(rig, asked);
    let layout = PagedLayout::mla_bf16(16)?;
    let mut pool = |name, place| {
        let pages =
            Pages { place, layers: 1, blocks: 1, stride: layout.page_bytes().get(), order: Order::Layers };
        draft.pool(name, pages)
    };
    let [host, device] = [pool("blocks", Memory::Host)?, pool("pages", Memory::Device)?];
    let side = |pool: &Pool| Some(pool.side(layout.clone()));
    draft.bed.builder.group(GroupSpec::<Paged> {
        name: "main".into(),
        layers: 1,
        landing: Landing::Host,
        lift: PagedLift::Tail,
        host: side(&host),
        device: side(&device),
    })?;
    let geometry: Arc<Geometry> = draft.geometry()?;
    let plan = || Ok(RestorePlan::new(Arc::clone(&geometry), PlanCapacity::default())?);
    let ways = draft.kernels(Way::beside("empty kernel", rig.empty()?), plan)?;
    Ok(Work { bed: draft.bed, ways, bytes: 0, fragments: 0 })
}
