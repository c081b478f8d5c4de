//! What is copied to calibrate: scattered pages and scattered rows, in each direction.

use std::sync::Arc;

use pagelift::geometry::Paged;
use pagelift::id::{HostBlockId, PageId};
use pagelift::layout::PagedLayout;
use pagelift::plan::{DeviceToDevice, DeviceToHost, Direction, HostToDevice, PagePlan, PlanCapacity};

use crate::bench::BenchError;
use crate::bench::bed::{Order, Pages};
use crate::bench::draft::{Asked, Draft, Moved, Rows, rows as moves_of};
use crate::bench::measure::Work;
use crate::bench::rig::Rig;
use crate::bench::rows::gathered;

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
    let (key, first) = draft.one_sided(D::SOURCE, &from, &layout)?;
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

/// Rows of 1,024 B by an index list.
fn rows<'r, B: Rig, D: Direction>(rig: &'r B, asked: &Asked) -> Result<Work<'r>, BenchError> {
    Ok(gathered::<B, D>(rig, asked, 1024)?.work)
}
