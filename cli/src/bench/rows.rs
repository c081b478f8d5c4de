//! Works of row plans: gathers by an index list, and mirrors of the rows that a step wrote.

use std::sync::Arc;

use pagelift::geometry::{GroupKey, GroupSpec, Landing, Memory, Paged, PagedLift};
use pagelift::id::{HostBlockId, PageId};
use pagelift::layout::PagedLayout;
use pagelift::plan::{HostToDevice, MirrorPlan, RowBinding, RowCapacity, RowPlan};

use super::BenchError;
use super::bed::{Order, Pages};
use super::draft::{Asked, Draft, Moved, Rows, rows};
use super::measure::Work;
use super::rig::Rig;

/// Rows of a block.
const ROWS: u32 = 64;

/// 8192 rows of so many bytes, of four times as many in the host's pool, to a compact buffer.
pub fn gather<'r, B: Rig, const BYTES: u32>(rig: &'r B, asked: &Asked) -> Result<Work<'r>, BenchError> {
    let mut draft = Draft::new(rig, asked);
    let count = asked.count(8192);
    let layout = |rows| PagedLayout::builder(rows).segment("rows", BYTES).build();
    let (blocks, compact) = (layout(ROWS)?, layout(count)?);
    let mut pool = |name, place, blocks, layout: &PagedLayout| {
        let stride = layout.page_bytes().get();
        draft.pool(name, Pages { place, layers: 1, blocks, stride, order: Order::Layers })
    };
    let number = count * 4 / ROWS;
    let host = pool("blocks", Memory::Host, number, &blocks)?;
    let buffer = pool("compact rows", Memory::Device, 1, &compact)?;
    let builder = &mut draft.bed.builder;
    let key = builder.group(GroupSpec::<Paged> {
        name: "rows".into(),
        layers: 1,
        landing: Landing::Host,
        lift: PagedLift::None,
        host: Some(host.side(blocks.clone())),
        device: None,
    })?;
    let target = builder.side(key, &buffer.side(compact.clone()))?;
    let source = builder.main_side(key, Memory::Host).ok_or(pagelift::error::PlanError::ForeignKey)?;
    let route = builder.compact_route::<HostToDevice, Paged>(source, target)?;
    let chosen = draft.bed.choose(count, number * ROWS);
    let one = |(entry, row): (u32, &u32)| {
        let from = Rows { pool: &host, layout: &blocks, block: row / ROWS, row: row % ROWS };
        rows(1, from, Rows { pool: &buffer, layout: &compact, block: 0, row: entry }, 1)
    };
    let moves = (0..).zip(&chosen).flat_map(one).collect();
    let list = draft.bed.allocate(rig, Memory::Device, u64::from(count) * 8)?;
    let entries = chosen.iter().flat_map(|row| i64::from(*row).to_ne_bytes()).collect();
    let at = draft.bed.address(list)?;
    let geometry = draft.geometry()?;
    let plan = || {
        let mut plan = RowPlan::<HostToDevice>::new(Arc::clone(&geometry), RowCapacity::default())?;
        plan.gather_rows(route, RowBinding::new(at, count))?;
        Ok(plan)
    };
    let moved = Moved { from: Memory::Host, to: Memory::Device, moves, arrays: vec![(list, entries)] };
    draft.work(&moved, plan)
}

/// A row of each of 64 requests of DeepSeek-V3, written back.
pub fn mirror<'r, B: Rig>(rig: &'r B, asked: &Asked) -> Result<Work<'r>, BenchError> {
    mirrors(rig, asked, &[("main", PagedLayout::mla_bf16(ROWS)?)])
}

/// The same, and the indexer's row of each.
pub fn mirror_with_indexer<'r, B: Rig>(rig: &'r B, asked: &Asked) -> Result<Work<'r>, BenchError> {
    let groups = [("main", PagedLayout::mla_bf16(ROWS)?), ("indexer", PagedLayout::indexer_fp8(ROWS)?)];
    mirrors(rig, asked, &groups)
}

fn mirrors<'r, B: Rig>(
    rig: &'r B,
    asked: &Asked,
    groups: &[(&str, PagedLayout)],
) -> Result<Work<'r>, BenchError> {
    let mut draft = Draft::new(rig, asked);
    let (layers, requests) = (asked.count(61), asked.count(64));
    let (mut bound, mut moves, mut arrays) = (Vec::new(), Vec::new(), Vec::new());
    for (name, layout) in groups {
        let mut pool = |side, place, order| {
            let stride = layout.page_bytes().get();
            draft.pool(&format!("{name} {side}"), Pages { place, layers, blocks: requests, stride, order })
        };
        let host = pool("blocks", Memory::Host, Order::Layers)?;
        let device = pool("pages", Memory::Device, Order::Blocks)?;
        let key = draft.bed.builder.group(GroupSpec::<Paged> {
            name: (*name).into(),
            layers,
            landing: Landing::Host,
            lift: PagedLift::Tail,
            host: Some(host.side(layout.clone())),
            device: Some(device.side(layout.clone())),
        })?;
        let [blocks, pages] = [(); 2].map(|()| draft.bed.choose(requests, requests));
        let mut slots = Vec::new();
        for (block, page) in blocks.iter().zip(&pages) {
            let row = draft.bed.choose(1, ROWS).first().copied().unwrap_or(0);
            slots.extend(i64::from(page * ROWS + row).to_ne_bytes());
            let from = Rows { pool: &device, layout, block: *page, row };
            moves.extend(rows(layers, from, Rows { pool: &host, layout, block: *block, row }, 1));
        }
        let list = draft.bed.allocate(rig, Memory::Device, u64::from(requests) * 8)?;
        bound.push(Bound {
            key,
            at: draft.bed.address(list)?,
            pages: pages.into_iter().zip(blocks).collect(),
        });
        arrays.push((list, slots));
    }
    let geometry = draft.geometry()?;
    let plan = || {
        let mut plan = MirrorPlan::new(Arc::clone(&geometry), RowCapacity::default())?;
        for Bound { key, at, pages } in &bound {
            for (page, block) in pages {
                plan.page_map_mut().map(*key, PageId::new(*page), HostBlockId::new(*block))?;
            }
            plan.bind(*key, RowBinding::new(*at, requests))?;
        }
        Ok(plan)
    };
    draft.work(&Moved { from: Memory::Device, to: Memory::Host, moves, arrays }, plan)
}

/// A mirrored group.
struct Bound {
    key: GroupKey<Paged>,
    /// Where its slot mapping lies.
    at: u64,
    /// Each page with its block.
    pages: Vec<(u32, u32)>,
}
