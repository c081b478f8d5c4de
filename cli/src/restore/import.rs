//! The producer's blocks land, and one launch lifts them.

use std::sync::Arc;
use std::time::Instant;

use pagelift::backends::Backend;
use pagelift::geometry::Geometry;
use pagelift::id::{HostBlockId, PageId};
use pagelift::import::{Import, ImportGroup, PromptSpan};
use pagelift::launcher::{Counters, Launcher, LauncherOptions};
use pagelift::plan::{Plan, PlanCapacity, RestorePlan, TailRows};

use super::world::{AnyKey, World};
use super::{RestoreError, done};
use crate::manifest::{Group, Lift, Manifest};
use crate::progress::Progress;
use crate::reference::{Model, Producer};

/// What the lift did.
#[derive(Clone, Copy, Debug)]
pub struct Lifted {
    /// Jobs of the plan.
    pub jobs: usize,
    /// Units that the launch's warps shared.
    pub units: u32,
    /// The launcher's account.
    pub counters: Counters,
    /// How long the launch took, planning and staging not included.
    pub seconds: f64,
}

/// Copies the producer's blocks to where each group lands: the transfer.
pub fn land(
    world: &mut World<'_>,
    model: &mut Model<'_>,
    producer: Producer<'_>,
    progress: Progress,
) -> Result<(), RestoreError> {
    let manifest = world.manifest;
    let bar = progress.bytes("land", manifest.handed_over());
    for group in manifest.groups() {
        let Some(side) = group.landing_side() else { continue };
        let received = usize::try_from(group.received_blocks(side, manifest.span())).unwrap_or(usize::MAX);
        let blocks = side.blocks.get(..received).unwrap_or(&side.blocks);
        let mut waiting = 0;
        model.land(producer, group, (side.pool.memory, blocks), |piece| {
            waiting += piece.bytes.len() as u64;
            if waiting >= TELL {
                bar.advance(std::mem::take(&mut waiting));
            }
            world.put(piece).map_err(RestoreError::from)
        })?;
    }
    Ok(())
}

/// Bytes after which the bar hears of progress.
const TELL: u64 = 1 << 20;

/// Plans the import, and lifts it in one launch.
pub fn lift(
    world: &mut World<'_>,
    model: &mut Model<'_>,
    backend: &impl Backend,
    span: PromptSpan,
    mode: TailRows,
) -> Result<Lifted, RestoreError> {
    let mut plan = plan(world.manifest, &world.keys, Arc::clone(&world.geometry), span, mode)?;
    let mut launcher = Launcher::bind(backend, &world.memory, &mut plan, LauncherOptions::default())?;
    let ticket = launcher.stage(&world.memory, &mut plan)?;
    let started = Instant::now();
    launcher.launch(&mut world.memory)?;
    launcher.wait()?;
    let state = launcher.state(ticket);
    let seconds = started.elapsed().as_secs_f64();
    done("lift", state)?;
    for group in world.manifest.groups() {
        follow(model, group, world, mode)?;
    }
    Ok(Lifted { jobs: plan.jobs(), units: plan.units(), counters: launcher.counters(), seconds })
}

/// What the launch will lift.
pub fn plan(
    manifest: &Manifest,
    keys: &[AnyKey],
    geometry: Arc<Geometry>,
    span: PromptSpan,
    mode: TailRows,
) -> Result<RestorePlan, RestoreError> {
    let lists: Vec<(AnyKey, Vec<HostBlockId>, Vec<PageId>)> = keys
        .iter()
        .zip(manifest.groups())
        .map(|(key, group)| {
            let blocks = group.host_blocks().iter().copied().map(HostBlockId::new).collect();
            (*key, blocks, group.device_pages().iter().copied().map(PageId::new).collect())
        })
        .collect();
    let groups: Vec<ImportGroup<'_>> = lists
        .iter()
        .map(|(key, blocks, pages)| match key {
            AnyKey::Paged(key) => ImportGroup::new(*key, blocks, pages),
            AnyKey::Ring(key) => ImportGroup::new(*key, blocks, pages),
            AnyKey::State(key) => ImportGroup::new(*key, blocks, pages),
        })
        .collect();
    // A job for each of the parts that a block or page has, one for the rows left over, one for zeros; and a list of
    // the parts of all pages.
    let sum = |count: &dyn Fn(&Group) -> usize| manifest.groups().iter().map(count).sum::<usize>();
    let parts = |group: &Group| usize::try_from(group.parts()).unwrap_or(usize::MAX);
    let page_parts = |group: &Group| match (&group.host, &group.device) {
        (Some(host), Some(device)) if device.rows > host.rows => parts(group),
        _ => 1,
    };
    let small = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let capacity = PlanCapacity {
        jobs: small(sum(&|group| parts(group).saturating_add(2))),
        list_entries: small(sum(&|group| page_parts(group).saturating_mul(group.device_pages().len()))),
    };
    let mut plan = RestorePlan::new(geometry, capacity)?;
    plan.lift(&Import { span, groups: &groups }, mode)?;
    Ok(plan)
}

/// Tells the model what the lift of a group must have done: row by row of the request, wherever each lies on either side.
fn follow(
    model: &mut Model<'_>,
    group: &Group,
    world: &World<'_>,
    mode: TailRows,
) -> Result<(), RestoreError> {
    let span = world.manifest.span();
    let (Some(host), Some(device)) = (&group.host, &group.device) else { return Ok(()) };
    let copied = match (group.lift, mode) {
        (Lift::None, _) => return Ok(()),
        (Lift::State, _) => device.rows.into(),
        (_, TailRows::Whole) => group.received_blocks(host, span).saturating_mul(host.rows.into()),
        (_, TailRows::Exact | TailRows::ExactZeroed) => group.imported_rows(span),
    };
    let mut row = group.first_page(span).saturating_mul(device.rows.into());
    for page in &device.blocks {
        for to in (0..device.rows).map(|row| (*page, row)) {
            if row < copied {
                model.lift(group, host.slot_of(row).unwrap_or_default(), to)?;
            } else if mode == TailRows::ExactZeroed {
                model.clear(group, to)?;
            }
            row = row.saturating_add(1);
        }
    }
    Ok(())
}
