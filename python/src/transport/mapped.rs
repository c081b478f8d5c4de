//! Where a transport reaches registered memory: by this process's addresses, in the memory that it sees.

use std::sync::Arc;

use pagelift::geometry::{Geometry, Memory, Region};
use pagelift::id::GroupId;
use pagelift::memory::RegionId;
use pagelift_transport::descriptors::Descriptor;
use pagelift_transport::region::MemoryRange;
use pagelift_transport::transfer::Destination;
use pyo3::prelude::*;

use super::facts::GroupFacts;
use crate::locks::{BROKEN, read};
use crate::memory::Shared;

/// All regions of a registry.
pub struct Mapped {
    /// The registry.
    pub memory: Arc<Shared>,
    extents: Vec<Extent>,
}

#[derive(Clone, Copy)]
struct Extent {
    id: RegionId,
    region: Region,
    /// Whether this process reaches its bytes, and by which address.
    memory: Memory,
    address: u64,
}

impl Mapped {
    /// A registry's regions as they are now.
    ///
    /// # Errors
    /// Inside of a call that has the registry.
    pub fn of(py: Python<'_>, memory: &Arc<Shared>) -> PyResult<Self> {
        let registry = read(py, &memory.memory)?;
        let (ids, registry) = (memory.ids(py)?, &*registry);
        let extent = |id| {
            let region = registry.region(id)?;
            // The address by which kernels reach memory of the host need not be this process's.
            let (memory, address) = match registry.host_region(id) {
                Some(own) => (Memory::Host, own.address()),
                None => (Memory::Device, region.address()),
            };
            Some(Extent { id, region, memory, address })
        };
        let extents = ids.into_iter().filter_map(extent).collect();
        Ok(Self { memory: Arc::clone(memory), extents })
    }

    /// The address by which a transport reaches a region of a pool.
    pub fn address(&self, region: Region) -> u64 {
        self.of_region(region).map_or(region.address(), |extent| extent.address)
    }

    /// A group's facts, with the memory of its pool as a transport sees it: that of a CPU which stands in for a GPU is the host's.
    pub fn reached(&self, geometry: &Geometry, own: &GroupFacts) -> pagelift_transport::facts::GroupFacts {
        let mut groups = (0..).map(GroupId::new).zip(geometry.groups());
        let id = groups.find(|(_, group)| group.name() == own.name).map(|(id, _)| id);
        let pool = id.and_then(|id| geometry.pool_of(id, own.memory)).and_then(|pool| geometry.pool(pool));
        let region = pool.and_then(|pool| pool.regions().first());
        match region.and_then(|region| self.of_region(*region)) {
            Some(extent) => own.facts.clone().reached_in(extent.memory),
            None => own.facts.clone(),
        }
    }

    /// The region that a range lies in.
    pub fn region(&self, range: &MemoryRange) -> Option<RegionId> {
        self.find(range.memory, range.address, range.bytes).map(|(id, _)| id)
    }

    fn of_region(&self, region: Region) -> Option<&Extent> {
        self.extents.iter().find(|extent| extent.region == region)
    }

    /// The region that some bytes lie in, and where they begin there.
    fn find(&self, memory: Memory, address: u64, bytes: u64) -> Option<(RegionId, u64)> {
        self.extents.iter().filter(|extent| extent.memory == memory).find_map(|extent| {
            let inside = address.checked_sub(extent.address)?;
            let end = inside.checked_add(bytes)?;
            (end <= extent.region.bytes()).then_some((extent.id, inside))
        })
    }
}

/// The memory of D's engine, while its imports are in flight. Used without the interpreter.
pub struct Landing(pub Arc<Mapped>);

impl Destination for Landing {
    type Error = String;

    fn zero(&mut self, range: Descriptor) -> Result<(), String> {
        let Descriptor { address, bytes, memory, .. } = range;
        let nowhere = || format!("no registered region has the {bytes} bytes at {address:#x}");
        let (id, at) = self.0.find(memory, address, bytes).ok_or_else(nowhere)?;
        let zeros = vec![0; usize::try_from(bytes).map_err(|error| error.to_string())?];
        let mut registry = self.0.memory.memory.write().map_err(|_| BROKEN)?;
        registry.write(id, at, &zeros).map_err(|error| error.to_string())
    }

    fn settle(&mut self, _device: u64) -> Result<(), String> {
        // Transports and drivers may count GPUs differently: all that the registry has memory of.
        let registry = self.0.memory.memory.read().map_err(|_| BROKEN)?;
        registry.settle_remote_writes().map_err(|error| error.to_string())
    }
}
