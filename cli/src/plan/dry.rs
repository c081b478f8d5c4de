//! A manifest's geometry over addresses that nothing lies at, and its lift: a plan needs numbers, not memory.

use std::sync::Arc;

use pagelift::geometry::{Geometry, Region};
use pagelift::id::{HostBlockId, PageId};
use pagelift::import::{Import, ImportGroup, Policy};
use pagelift::plan::{PlanCapacity, RestorePlan, TailRows};

use crate::manifest::{Group, Manifest, Memory};
use crate::restore::{AnyKey, RestoreError, describe, span_of};

/// Where host pools would begin, and device pools: apart by more than all pools together may have.
const HOST: u64 = 1 << 48;
const DEVICE: u64 = 1 << 52;
/// Allocations begin at multiples of this.
const GRANULE: u64 = 4096;

/// The geometry of a manifest, and the keys of its groups.
pub fn geometry(manifest: &Manifest) -> Result<(Arc<Geometry>, Vec<AnyKey>), RestoreError> {
    let (mut host, mut device) = (HOST, DEVICE);
    let mut regions = Vec::new();
    for pool in manifest.pools() {
        let next = match pool.memory {
            Memory::Host => &mut host,
            Memory::Device => &mut device,
        };
        let extent = |_| {
            let region = Region::new(*next, pool.extent_bytes());
            *next = next.saturating_add(pool.extent_bytes()).next_multiple_of(GRANULE);
            region
        };
        regions.push((0..pool.extents()).map(extent).collect::<Vec<_>>());
    }
    let (builder, keys) = describe(manifest, &regions)?;
    Ok((Arc::new(builder.build()?), keys))
}

/// What one launch lifts of a manifest's import.
pub fn lift(
    manifest: &Manifest,
    keys: &[AnyKey],
    geometry: Arc<Geometry>,
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
    plan.lift(&Import { span: span_of(manifest, Policy::LiftTail)?, groups: &groups }, mode)?;
    Ok(plan)
}
