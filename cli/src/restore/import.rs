//! The producer's blocks land, and one launch lifts them.

use std::sync::Arc;

use pagelift::backends::Backend;
use pagelift::geometry::Geometry;
use pagelift::id::{HostBlockId, PageId};
use pagelift::import::{Import, ImportGroup, PromptSpan};
use pagelift::launcher::{Counters, Launcher, LauncherOptions, TicketState};
use pagelift::plan::{Plan, PlanCapacity, RestorePlan, TailRows};

use super::RestoreError;
use super::world::{AnyKey, World};
use crate::manifest::{Group, Landing, Lift, Manifest, Memory};
use crate::progress::Progress;
use crate::reference::{Copied, Model, Producer};

/// What the lift did.
#[derive(Clone, Copy, Debug)]
pub struct Lifted {
    /// Jobs of the plan.
    pub jobs: usize,
    /// Units that the launch's warps shared.
    pub units: u32,
    /// The launcher's account.
    pub counters: Counters,
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
        let (memory, blocks) = match group.landing {
            Landing::Host => (Memory::Host, group.host_blocks()),
            Landing::Gpu => (Memory::Device, group.device_pages()),
        };
        let received = usize::try_from(group.received_blocks(manifest.span())).unwrap_or(usize::MAX);
        let blocks = blocks.get(..received).unwrap_or(blocks);
        let mut waiting = 0;
        model.land(producer, group, (memory, blocks), |piece| {
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
    launcher.launch(&mut world.memory)?;
    let state = launcher.state(ticket);
    if !matches!(state, TicketState::Done(_)) {
        return Err(RestoreError::NotDone { what: "lift", state: format!("{state:?}") });
    }
    for group in world.manifest.groups() {
        follow(model, group, world, mode)?;
    }
    Ok(Lifted { jobs: plan.jobs(), units: plan.units(), counters: launcher.counters() })
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
    // Two jobs and a list of all blocks for each group are the most that one import needs.
    let entries: usize = lists.iter().map(|(_, blocks, _)| blocks.len()).sum();
    let small = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let capacity = PlanCapacity { jobs: small(groups.len().saturating_mul(3)), list_entries: small(entries) };
    let mut plan = RestorePlan::new(geometry, capacity)?;
    plan.lift(&Import { span, groups: &groups }, mode)?;
    Ok(plan)
}

/// Tells the model what the lift of a group must have done.
fn follow(
    model: &mut Model<'_>,
    group: &Group,
    world: &World<'_>,
    mode: TailRows,
) -> Result<(), RestoreError> {
    let span = world.manifest.span();
    let pairs: Vec<(u32, u32)> = match group.lift {
        Lift::None => return Ok(()),
        Lift::Tail => {
            let tail = group.host_blocks().last().copied();
            tail.into_iter().zip(group.device_pages().iter().copied()).collect()
        }
        Lift::All | Lift::State => {
            group.host_blocks().iter().copied().zip(group.device_pages().iter().copied()).collect()
        }
    };
    let Some(((tail_block, tail_page), full)) = pairs.split_last() else { return Ok(()) };
    for (block, page) in full {
        model.lift(group, *block, *page, Copied::Whole)?;
    }
    let received = group.lift == Lift::State || span.received_blocks() > span.tail_page();
    let rows = group.tail_rows(span);
    let copied = match mode {
        TailRows::Whole if !received => return Ok(()),
        _ if group.lift == Lift::State => Copied::Whole,
        TailRows::Whole => Copied::Whole,
        TailRows::Exact => Copied::Exact { rows },
        TailRows::ExactZeroed => Copied::ExactZeroed { rows },
    };
    Ok(model.lift(group, *tail_block, *tail_page, copied)?)
}
