//! What is copied to calibrate: scattered pages and scattered rows, in each direction.

use std::sync::Arc;

use pagelift::error::PlanError;
use pagelift::geometry::{GroupKey, GroupSpec, Landing, Memory, Paged, PagedLift, SideKey};
use pagelift::id::{HostBlockId, PageId};
use pagelift::layout::PagedLayout;
use pagelift::plan::{
    DeviceToDevice, DeviceToHost, Direction, HostToDevice, PagePlan, PlanCapacity, RowBinding, RowCapacity,
    RowPlan,
};

use crate::bench::BenchError;
use crate::bench::bed::{Order, Pages, Pool};
use crate::bench::draft::{Asked, Draft, Moved, Rows, rows as moves_of};
use crate::bench::measure::Work;
use crate::bench::rig::Rig;

/// Works: pages and rows from host to GPU, from GPU to host, and on the GPU.
pub const WORKS: usize = 6;

/// Makes a work in memory of its own.
pub type Build<B> = for<'r> fn(&'r B, &Asked) -> Result<Work<'r>, BenchError>;

/// All of them, in that order.
pub fn all<B: Rig>() -> [Build<B>; WORKS] {
    [
        |rig, asked| pages::<B, HostToDevice>(rig, asked, 61, HostBlockId::new, PageId::new),
        rows::<B, HostToDevice>,
        |rig, asked| pages::<B, DeviceToHost>(rig, asked, 61, PageId::new, HostBlockId::new),
        rows::<B, DeviceToHost>,
        // More than the GPU's cache holds.
        |rig, asked| pages::<B, DeviceToDevice>(rig, asked, 512, PageId::new, PageId::new),
        rows::<B, DeviceToDevice>,
    ]
}

/// Pages of 147,456 B, `pages` of twice as many, in random order on both sides.
fn pages<'r, B: Rig, D: Direction>(
    rig: &'r B,
    asked: &Asked,
    pages: u32,
    source: fn(u32) -> D::Source,
    destination: fn(u32) -> D::Destination,
) -> Result<Work<'r>, BenchError> {
    let mut draft = Draft::new(rig, asked);
    let (count, layout) = (asked.count(pages), PagedLayout::mla_bf16(128)?);
    let mut pool = |name, place| {
        let stride = layout.page_bytes().get();
        draft.pool(name, Pages { place, layers: 1, blocks: count * 2, stride, order: Order::Layers })
    };
    let (from, to) = (pool("sources", D::SOURCE)?, pool("destinations", D::DESTINATION)?);
    let (key, first) = group(&mut draft, D::SOURCE, &from, &layout)?;
    let target = draft.bed.builder.side(key, &to.side(layout.clone()))?;
    let route = draft.bed.builder.route::<D, Paged>(first, target)?;
    let [sources, targets] = [(); 2].map(|()| draft.bed.choose(count, count * 2));
    let pairs = sources.iter().zip(&targets);
    let moves = pairs.flat_map(|(source, target)| {
        let end = |pool, block: &u32| Rows { pool, layout: &layout, block: *block, row: 0 };
        moves_of(1, end(&from, source), end(&to, target), 128)
    });
    let moves = moves.collect();
    let sources: Vec<_> = sources.into_iter().map(source).collect();
    let targets: Vec<_> = targets.into_iter().map(destination).collect();
    let geometry = draft.geometry()?;
    let plan = || {
        let mut plan = PagePlan::<D>::new(Arc::clone(&geometry), PlanCapacity::default())?;
        plan.gather(route, &sources, &targets)?;
        Ok(plan)
    };
    draft.work(&Moved { from: D::SOURCE, to: D::DESTINATION, moves, arrays: Vec::new() }, plan)
}

/// Rows of 1,024 B by an index list, 8192 of four times as many.
fn rows<'r, B: Rig, D: Direction>(rig: &'r B, asked: &Asked) -> Result<Work<'r>, BenchError> {
    const ROWS: u32 = 64;
    let mut draft = Draft::new(rig, asked);
    let count = asked.count(8192);
    let layout = |rows| PagedLayout::builder(rows).segment("rows", 1024).build();
    let (blocks, compact) = (layout(ROWS)?, layout(count)?);
    let mut pool = |name, place, blocks, layout: &PagedLayout| {
        let stride = layout.page_bytes().get();
        draft.pool(name, Pages { place, layers: 1, blocks, stride, order: Order::Layers })
    };
    let number = count * 4 / ROWS;
    let from = pool("sources", D::SOURCE, number, &blocks)?;
    let to = pool("compact rows", D::DESTINATION, 1, &compact)?;
    let (key, source) = group(&mut draft, D::SOURCE, &from, &blocks)?;
    let target = draft.bed.builder.side(key, &to.side(compact.clone()))?;
    let route = draft.bed.builder.compact_route::<D, Paged>(source, target)?;
    let chosen = draft.bed.choose(count, number * ROWS);
    let one = |(entry, row): (u32, &u32)| {
        let source = Rows { pool: &from, layout: &blocks, block: row / ROWS, row: row % ROWS };
        moves_of(1, source, Rows { pool: &to, layout: &compact, block: 0, row: entry }, 1)
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
    draft.work(&Moved { from: D::SOURCE, to: D::DESTINATION, moves, arrays: vec![(list, entries)] }, plan)
}

/// A group whose only side so far is in one memory.
fn group<B: Rig>(
    draft: &mut Draft<'_, B>,
    place: Memory,
    pool: &Pool,
    layout: &PagedLayout,
) -> Result<(GroupKey<Paged>, SideKey<Paged>), BenchError> {
    let side = |memory| (place == memory).then(|| pool.side(layout.clone()));
    let key = draft.bed.builder.group(GroupSpec::<Paged> {
        name: "calibrated".into(),
        layers: 1,
        landing: if place == Memory::Host { Landing::Host } else { Landing::Device },
        lift: PagedLift::None,
        host: side(Memory::Host),
        device: side(Memory::Device),
    })?;
    let first = draft.bed.builder.main_side(key, place).ok_or(PlanError::ForeignKey)?;
    Ok((key, first))
}
