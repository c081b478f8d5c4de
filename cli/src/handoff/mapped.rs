//! Where a transport reaches the pools: by this process's addresses, in the memory that it sees.

use pagelift::backends::Backend;
use pagelift::geometry::{Memory, Region};
use pagelift::memory::RegionId;
use pagelift_transport::descriptors::Descriptor;
use pagelift_transport::transfer::Destination;
use thiserror::Error;

use crate::restore::World;

/// All extents of all pools.
#[derive(Debug)]
pub struct Mapped {
    extents: Vec<Extent>,
}

#[derive(Clone, Copy, Debug)]
struct Extent {
    pool: usize,
    id: RegionId,
    region: Region,
    /// Whether this process reaches its bytes, and by which address.
    memory: Memory,
    address: u64,
}

impl Mapped {
    pub fn of(world: &World<'_>) -> Self {
        let mut extents = Vec::new();
        for (pool, id) in world.extents() {
            let Some(region) = world.memory.region(id) else { continue };
            // The address by which kernels reach memory of the host need not be this process's.
            let (memory, address) = match world.memory.host_region(id) {
                Some(own) => (Memory::Host, own.address()),
                None => (Memory::Device, region.address()),
            };
            extents.push(Extent { pool, id, region, memory, address });
        }
        Self { extents }
    }

    /// The address by which a transport reaches a region of a pool.
    pub fn address(&self, region: Region) -> u64 {
        let found = self.extents.iter().find(|extent| extent.region == region);
        found.map_or(region.address(), |extent| extent.address)
    }

    /// The memory of a pool as a transport sees it: that of a CPU which stands in for a GPU is the host's.
    pub fn memory_of(&self, pool: usize) -> Memory {
        let found = self.extents.iter().find(|extent| extent.pool == pool);
        found.map_or(Memory::Host, |extent| extent.memory)
    }

    /// The extent that holds a range, and where that begins in it.
    fn find(&self, range: Descriptor) -> Option<(RegionId, u64)> {
        let holds = |extent: &&Extent| {
            let inside = range.address.checked_sub(extent.address);
            let end = inside.and_then(|inside| inside.checked_add(range.bytes));
            extent.memory == range.memory && end.is_some_and(|end| end <= extent.region.bytes())
        };
        let extent = self.extents.iter().find(holds)?;
        Some((extent.id, range.address - extent.address))
    }
}

/// The engine's memory while its imports are in flight.
pub struct Landing<'l, 'm, B> {
    pub world: &'l mut World<'m>,
    pub mapped: &'l Mapped,
    pub backend: &'l B,
}

/// Why a range cannot be zeroed.
#[derive(Debug, Error)]
pub enum LandingError {
    #[error("no pool has the {bytes} bytes at {address:#x}")]
    Nowhere { address: u64, bytes: u64 },
    #[error(transparent)]
    Pagelift(#[from] pagelift::Error),
}

impl<B: Backend> Destination for Landing<'_, '_, B> {
    type Error = LandingError;

    fn zero(&mut self, range: Descriptor) -> Result<(), LandingError> {
        let nowhere = LandingError::Nowhere { address: range.address, bytes: range.bytes };
        let (id, offset) = self.mapped.find(range).ok_or(nowhere)?;
        let zeros = vec![0; usize::try_from(range.bytes).unwrap_or(0)];
        Ok(self.world.memory.write(id, offset, &zeros)?)
    }

    fn settle(&mut self, _device: u64) -> Result<(), LandingError> {
        // This process has one.
        self.backend.settle_remote_writes().map_err(|error| LandingError::Pagelift(error.into()))
    }
}
