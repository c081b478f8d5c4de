//! Whole blocks, from one memory to the other.

use std::sync::Arc;

use pagelift::backends::Backend;
use pagelift::error::PlanError;
use pagelift::geometry::{Kind, RouteKey};
use pagelift::id::{HostBlockId, PageId};
use pagelift::launcher::{Launcher, LauncherOptions};
use pagelift::plan::{Direction, PagePlan, Plan as _, PlanCapacity, RestorePlan, WriteBackPlan};
use serde::Serialize;

use super::GatherError;
use crate::manifest::{Group, Memory, Pool, Side, SplitMix64};
use crate::reference::Model;
use crate::restore::{self, AnyKey, World};

/// A group's block gather.
#[derive(Debug, Serialize)]
pub struct BlocksGathered {
    /// The group.
    pub group: String,
    /// Blocks that were read.
    pub sources: usize,
    /// Blocks that were written.
    pub destinations: usize,
    /// Rows, each counted once whatever its layers.
    pub rows: u64,
    /// Bytes copied.
    pub bytes: u64,
}

/// A group's lists: as many rows on either side.
struct Lists<'m> {
    group: &'m Group,
    key: AnyKey,
    host: Vec<u32>,
    device: Vec<u32>,
    rows: u64,
}

/// Gathers about `count` blocks of each group that lies in both memories, in one launch, and tells the model.
pub fn run<B: Backend>(
    world: &mut World<'_>,
    model: &mut Model<'_>,
    backend: &B,
    groups: &[&Group],
    (from, count): (Memory, u32),
    seed: u64,
) -> Result<Vec<BlocksGathered>, GatherError> {
    let lists = lists(world, groups, (from, count), seed)?;
    if lists.is_empty() {
        return Ok(Vec::new());
    }
    let hosts = |list: &Lists<'_>| list.host.iter().copied().map(HostBlockId::new).collect::<Vec<_>>();
    let pages = |list: &Lists<'_>| list.device.iter().copied().map(PageId::new).collect::<Vec<_>>();
    let geometry = Arc::clone(&world.geometry);
    match from {
        Memory::Host => {
            let mut plan = RestorePlan::new(Arc::clone(&geometry), capacity(&lists))?;
            for list in &lists {
                let (from, to) = (hosts(list), pages(list));
                match list.key {
                    AnyKey::Paged(key) => add(&mut plan, geometry.lift_route(key), &from, &to),
                    AnyKey::Ring(key) => add(&mut plan, geometry.lift_route(key), &from, &to),
                    AnyKey::State(key) => add(&mut plan, geometry.lift_route(key), &from, &to),
                }?;
            }
            launch(world, backend, plan, &lists)?;
        }
        Memory::Device => {
            let mut plan = WriteBackPlan::new(Arc::clone(&geometry), capacity(&lists))?;
            for list in &lists {
                let (from, to) = (pages(list), hosts(list));
                match list.key {
                    AnyKey::Paged(key) => add(&mut plan, geometry.spill_route(key), &from, &to),
                    AnyKey::Ring(key) => add(&mut plan, geometry.spill_route(key), &from, &to),
                    AnyKey::State(key) => add(&mut plan, geometry.spill_route(key), &from, &to),
                }?;
            }
            launch(world, backend, plan, &lists)?;
        }
    }
    lists.iter().try_for_each(|list| list.follow(model, from))?;
    Ok(lists.iter().map(|list| list.gathered(from)).collect())
}

/// Adds one group's blocks to a plan.
fn add<D: Direction, K: Kind>(
    plan: &mut PagePlan<D>,
    route: Option<RouteKey<D, K>>,
    sources: &[D::Source],
    destinations: &[D::Destination],
) -> Result<(), PlanError> {
    // Groups with both sides have routes both ways.
    plan.gather(route.ok_or(PlanError::ForeignKey)?, sources, destinations)
}

/// Room for these lists: rows that pair in several ways make a job each.
fn capacity(lists: &[Lists<'_>]) -> PlanCapacity {
    let entries: usize = lists.iter().map(|list| list.host.len().max(list.device.len())).sum();
    let entries = u32::try_from(entries).unwrap_or(u32::MAX);
    PlanCapacity { jobs: entries, list_entries: entries }
}

/// Runs a plan, whose bytes must be those of the lists.
fn launch<D: Direction, B: Backend>(
    world: &mut World<'_>,
    backend: &B,
    mut plan: PagePlan<D>,
    lists: &[Lists<'_>],
) -> Result<(), GatherError> {
    let mut launcher = Launcher::bind(backend, &world.memory, &mut plan, LauncherOptions::default())?;
    let ticket = launcher.stage(&world.memory, &mut plan)?;
    launcher.launch(&mut world.memory)?;
    launcher.wait()?;
    restore::done("gather", launcher.state(ticket))?;
    let expected: u64 = lists.iter().map(Lists::bytes).sum();
    let found = plan.bytes().map_or(0, |bytes| bytes.get());
    if found != expected {
        let (found, expected) = (format!("{found} bytes"), format!("{expected} bytes"));
        return Err(GatherError::Counted { found, expected });
    }
    Ok(())
}

/// Draws blocks of each group, none of a pool twice.
fn lists<'m>(
    world: &World<'m>,
    groups: &[&'m Group],
    (from, count): (Memory, u32),
    seed: u64,
) -> Result<Vec<Lists<'m>>, GatherError> {
    let mut random = SplitMix64::new(seed);
    let pools = world.manifest.pools().iter();
    let mut free: Vec<Vec<u32>> = pools.map(|pool| usable(pool, &mut random)).collect();
    let both = groups.iter().copied().filter_map(|group| {
        let sides = (group.host.as_ref()?, group.device.as_ref()?);
        Some((group, *world.keys.get(group.index)?, sides))
    });
    let both: Vec<_> = both.collect();
    // Groups that share a pool share its blocks.
    let share = |side: &Side, all: &[Vec<u32>]| {
        let sharers = both.iter().filter(|(_, _, (host, device))| {
            [host, device].iter().any(|other| other.pool.index == side.pool.index)
        });
        all.get(side.pool.index).map_or(0, |ids| ids.len() / sharers.count().max(1))
    };
    let mut lists = Vec::new();
    let shares: Vec<[usize; 2]> =
        both.iter().map(|(_, _, (host, device))| [share(host, &free), share(device, &free)]).collect();
    for ((group, key, (host, device)), [hosts, pages]) in both.iter().copied().zip(shares) {
        // Rows of the larger of a block and a page: it pairs with so many of the smaller.
        let unit = host.rows.max(device.rows);
        let per_unit = |side: &Side| (unit / side.rows.max(1)).max(1) as usize;
        let wanted = match from {
            Memory::Host => count as usize / per_unit(host),
            Memory::Device => count as usize / per_unit(device),
        };
        let units = wanted.max(1).min(hosts / per_unit(host)).min(pages / per_unit(device));
        if units == 0 {
            return Err(GatherError::TooSmall { group: group.name.clone() });
        }
        let mut take = |side: &Side| {
            let ids = free.get_mut(side.pool.index);
            ids.map_or_else(Vec::new, |ids| ids.split_off(ids.len().saturating_sub(units * per_unit(side))))
        };
        let (host, device) = (take(host), take(device));
        lists.push(Lists { group, key, host, device, rows: units as u64 * u64::from(unit) });
    }
    Ok(lists)
}

/// The ids of a pool in random order, without its null block.
fn usable(pool: &Pool, random: &mut SplitMix64) -> Vec<u32> {
    let mut ids: Vec<u32> = (0..pool.blocks).filter(|id| pool.null_block != Some(*id)).collect();
    for last in (1..ids.len()).rev() {
        ids.swap(last, random.below(last + 1));
    }
    ids
}

impl Lists<'_> {
    /// Tells the model, row by row.
    fn follow(&self, model: &mut Model<'_>, from: Memory) -> Result<(), GatherError> {
        let place = |ids: &[u32], memory: Memory, row: u64| {
            let rows = u64::from(self.group.side(memory)?.rows);
            let block = ids.get(usize::try_from(row.checked_div(rows)?).ok()?)?;
            Some((*block, u32::try_from(row % rows).ok()?))
        };
        for row in 0..self.rows {
            let host = place(&self.host, Memory::Host, row);
            let device = place(&self.device, Memory::Device, row);
            // Both lists have so many rows.
            let Some((host, device)) = host.zip(device) else { continue };
            match from {
                Memory::Host => model.lift(self.group, host, device)?,
                Memory::Device => model.mirror(self.group, device, host)?,
            }
        }
        Ok(())
    }

    fn bytes(&self) -> u64 {
        let row: u64 = self.group.shape.segments.iter().map(|segment| u64::from(segment.row_bytes)).sum();
        row * u64::from(self.group.layers) * self.rows
    }

    fn gathered(&self, from: Memory) -> BlocksGathered {
        let (sources, destinations) = match from {
            Memory::Host => (self.host.len(), self.device.len()),
            Memory::Device => (self.device.len(), self.host.len()),
        };
        BlocksGathered {
            group: self.group.name.clone(),
            sources,
            destinations,
            rows: self.rows,
            bytes: self.bytes(),
        }
    }
}
