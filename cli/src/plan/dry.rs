//! A manifest's geometry over addresses that nothing lies at: a plan needs numbers, not memory.

use std::sync::Arc;

use pagelift::geometry::{Geometry, Region};

use crate::manifest::{Manifest, Memory};
use crate::restore::{AnyKey, RestoreError, describe};

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
