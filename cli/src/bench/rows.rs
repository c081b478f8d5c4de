//! Works of row plans: gathers by an index list, and mirrors of the rows that a step wrote.

use std::sync::Arc;

use pagelift::geometry::{GeometryBuilder, GroupKey, GroupSpec, Landing, Memory, Paged, PagedLift};
use pagelift::id::{HostBlockId, PageId};
use pagelift::layout::PagedLayout;
use pagelift::plan::{
    DeviceToHost, Direction, HostToDevice, MirrorPlan, PagePlan, PlanCapacity, RowBinding, RowCapacity,
    RowPlan,
};

use super::BenchError;
use super::bed::{Order, Pages, Pool};
use super::draft::{Asked, Draft, Moved, Rows, rows};
use super::measure::Work;
use super::rig::Rig;

/// Rows of a block.
const ROWS: u32 = 64;

/// 8192 rows of so many bytes from the host's pool, beside a copy for each of them.
pub fn gather<'r, B: Rig, const BYTES: u32>(rig: &'r B, asked: &Asked) -> Result<Work<'r>, BenchError> {
    let Gathered { mut work, pool, buffer, chosen } = gathered::<B, HostToDevice>(rig, asked, BYTES)?;
    // Thousands of calls take their time: what a copy for each row takes hardly depends on the row.
    if BYTES == 1024 {
        let pairs = chosen.iter().zip(0..).map(|(row, entry)| (HostBlockId::new(*row), PageId::new(entry)));
        let plan = row_by_row::<HostToDevice>((&pool, &buffer), 1, BYTES, pairs.collect())?;
        work.ways.extend(rig.plain(plan, &mut work.bed.memory)?);
    }
    Ok(work)
}

/// A work of rows by an index list.
pub struct Gathered<'r> {
    pub work: Work<'r>,
    /// Where the rows come from, and where they go.
    pool: Pool,
    buffer: Pool,
    /// The rows, numbered through the pool.
    chosen: Vec<u32>,
}

/// 8192 rows of `bytes` bytes, of four times as many in a pool, to a compact buffer.
pub fn gathered<'r, B: Rig, D: Direction>(
    rig: &'r B,
    asked: &Asked,
    bytes: u32,
) -> Result<Gathered<'r>, BenchError> {
    let mut draft = Draft::new(rig, asked);
    let count = asked.count(8192);
    let layout = |rows| PagedLayout::builder(rows).segment("rows", bytes).build();
    let (blocks, compact) = (layout(ROWS)?, layout(count)?);
    let mut pool = |name, place, blocks, layout: &PagedLayout| {
        let stride = layout.page_bytes().get();
        draft.pool(name, Pages { place, layers: 1, blocks, stride, order: Order::Layers })
    };
    let number = count * 4 / ROWS;
    let from = pool("sources", D::SOURCE, number, &blocks)?;
    let to = pool("compact rows", D::DESTINATION, 1, &compact)?;
    let (key, source) = draft.one_sided(D::SOURCE, &from, &blocks)?;
    let target = draft.bed.builder.side(key, &to.side(compact.clone()))?;
    let route = draft.bed.builder.compact_route::<D, Paged>(source, target)?;
    let chosen = draft.bed.choose(count, number * ROWS);
    let one = |(entry, row): (u32, &u32)| {
        let source = Rows { pool: &from, layout: &blocks, block: row / ROWS, row: row % ROWS };
        rows(1, source, Rows { pool: &to, layout: &compact, block: 0, row: entry }, 1)
    };
    let moves = (0..).zip(&chosen).flat_map(one).collect();
    let list = draft.bed.allocate(rig, Memory::Device, u64::from(count) * 8)?;
    let entries = chosen.iter().flat_map(|row| i64::from(*row).to_ne_bytes()).collect();
    let at = draft.bed.address(list)?;
    let geometry = draft.geometry()?;
    let plan = || {
        let mut plan = RowPlan::<D>::new(Arc::clone(&geometry), RowCapacity::default())?;
        plan.gather_rows(route, RowBinding::new(at, count))?;
        Ok(plan)
    };
    let moved = Moved { from: D::SOURCE, to: D::DESTINATION, moves, arrays: vec![(list, entries)] };
    Ok(Gathered { work: draft.work(&moved, plan)?, pool: from, buffer: to, chosen })
}

/// Rows as pages of one row each, so that a page plan can say what a copy for each of them would do.
fn row_by_row<D: Direction>(
    (host, device): (&Pool, &Pool),
    layers: u32,
    bytes: u32,
    pairs: Vec<(D::Source, D::Destination)>,
) -> Result<PagePlan<D>, BenchError> {
    let mut builder = GeometryBuilder::new();
    let layout = PagedLayout::builder(1).segment("row", bytes).build()?;
    let host = host.by_rows(&mut builder, bytes, layout.clone())?;
    let device = device.by_rows(&mut builder, bytes, layout)?;
    let key = builder.group(GroupSpec::<Paged> {
        name: "rows".into(),
        layers,
        landing: Landing::Host,
        lift: PagedLift::Tail,
        host: Some(host),
        device: Some(device),
    })?;
    let side = |memory| builder.main_side(key, memory).ok_or(pagelift::error::PlanError::ForeignKey);
    let (from, to) = (side(D::SOURCE)?, side(D::DESTINATION)?);
    let route = builder.route::<D, Paged>(from, to)?;
    let mut plan = PagePlan::<D>::new(Arc::new(builder.build()?), PlanCapacity::default())?;
    let (sources, destinations): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    plan.gather(route, &sources, &destinations)?;
    Ok(plan)
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
    let (mut bound, mut moves, mut arrays, mut plain) = (Vec::new(), Vec::new(), Vec::new(), None);
    for (name, layout) in groups {
        let mut pool = |side, place| {
            let stride = layout.page_bytes().get();
            let pages = Pages { place, layers, blocks: requests, stride, order: Order::Layers };
            draft.pool(&format!("{name} {side}"), pages)
        };
        let [host, device] = [pool("blocks", Memory::Host)?, pool("pages", Memory::Device)?];
        let key = draft.bed.builder.group(GroupSpec::<Paged> {
            name: (*name).into(),
            layers,
            landing: Landing::Host,
            lift: PagedLift::Tail,
            host: Some(host.side(layout.clone())),
            device: Some(device.side(layout.clone())),
        })?;
        let [blocks, pages] = [(); 2].map(|()| draft.bed.choose(requests, requests));
        let (mut slots, mut pairs) = (Vec::new(), Vec::new());
        for (block, page) in blocks.iter().zip(&pages) {
            let row = draft.bed.choose(1, ROWS).first().copied().unwrap_or(0);
            slots.extend(i64::from(page * ROWS + row).to_ne_bytes());
            pairs.push((PageId::new(page * ROWS + row), HostBlockId::new(block * ROWS + row)));
            let from = Rows { pool: &device, layout, block: *page, row };
            moves.extend(rows(layers, from, Rows { pool: &host, layout, block: *block, row }, 1));
        }
        let list = draft.bed.allocate(rig, Memory::Device, u64::from(requests) * 8)?;
        if let ([one], [_]) = (layout.segments(), groups) {
            plain = Some(row_by_row::<DeviceToHost>((&host, &device), layers, one.row_bytes(), pairs)?);
        }
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
    let mut work = draft.work(&Moved { from: Memory::Device, to: Memory::Host, moves, arrays }, plan)?;
    if let Some(plan) = plain {
        work.ways.extend(rig.plain(plan, &mut work.bed.memory)?);
    }
    Ok(work)
}

/// A mirrored group.
struct Bound {
    key: GroupKey<Paged>,
    /// Where its slot mapping lies.
    at: u64,
    /// Each page with its block.
    pages: Vec<(u32, u32)>,
}
