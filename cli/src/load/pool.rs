//! One side's blocks of a group: where they lie, what is in them, and whether that is right.

use pagelift::Error;
use pagelift::backends::Backend;
use pagelift::geometry::{Memory, PoolSpec, Region};
use pagelift::memory::{RegionId, Registry};
use pagelift_transport::descriptors::Descriptor;

use super::family::Layout;
use crate::manifest::{SplitMix64, mix};

/// In which order the blocks of all layers lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// All blocks of a layer, then those of the next: one region.
    Layers,
    /// All layers of a block, and a region for each block: what is in one is looked at while others are written.
    Blocks,
}

/// The blocks of a group.
#[derive(Debug)]
pub struct Pool {
    pub name: &'static str,
    pub layout: Layout,
    pub layers: u32,
    pub blocks: u32,
    pub memory: Memory,
    order: Order,
    extents: Vec<Extent>,
}

#[derive(Clone, Copy, Debug)]
struct Extent {
    id: RegionId,
    region: Region,
    /// The address by which this process, and a transport, reaches it.
    address: u64,
}

impl Pool {
    /// Allocates it.
    pub fn new<B: Backend>(
        (registry, backend): (&mut Registry, &B),
        name: &'static str,
        (layout, layers, blocks): (Layout, u32, u32),
        (memory, order): (Memory, Order),
    ) -> Result<Self, Error> {
        let block = layout.page_bytes().saturating_mul(layers.into());
        let (extents, bytes) = match order {
            Order::Layers => (1, block.saturating_mul(blocks.into())),
            Order::Blocks => (blocks, block),
        };
        let mut own = Self { name, layout, layers, blocks, memory, order, extents: Vec::new() };
        for _ in 0..extents {
            let id = registry.allocate(backend, memory, bytes)?;
            let Some(region) = registry.region(id) else { continue };
            // The address by which kernels reach memory of the host need not be this process's.
            let address = registry.host_region(id).unwrap_or(region).address();
            own.extents.push(Extent { id, region, address });
        }
        Ok(own)
    }

    /// Bytes of a block, of all layers.
    pub fn block_bytes(&self) -> u64 {
        self.layout.page_bytes().saturating_mul(self.layers.into())
    }

    /// What a geometry is told of it.
    pub fn spec(&self) -> PoolSpec {
        let regions: Vec<Region> = self.extents.iter().map(|extent| extent.region).collect();
        let spec = PoolSpec::new(self.name, self.memory, self.blocks, &regions);
        match self.order {
            Order::Layers => spec,
            Order::Blocks => spec.extents_of(1),
        }
    }

    /// Where its extents begin, where each layer begins in them, and from one block to the next.
    pub fn places(&self) -> (Vec<u64>, Vec<u64>, u64) {
        let page = self.layout.page_bytes();
        let (layer, stride) = match self.order {
            Order::Layers => (page.saturating_mul(self.blocks.into()), page),
            Order::Blocks => (page, self.block_bytes()),
        };
        let layers = (0..u64::from(self.layers)).map(|number| number.saturating_mul(layer)).collect();
        (self.extents.iter().map(|extent| extent.region.address()).collect(), layers, stride)
    }

    /// The address by which a transport reaches a region, where it is one of this pool.
    pub fn address(&self, region: Region) -> Option<u64> {
        self.extents.iter().find(|extent| extent.region == region).map(|extent| extent.address)
    }

    /// The region that holds a range, and where that begins in it.
    pub fn find(&self, range: Descriptor) -> Option<(RegionId, u64)> {
        let holds = |extent: &&Extent| {
            let inside = range.address.checked_sub(extent.address);
            let end = inside.and_then(|inside| inside.checked_add(range.bytes));
            range.memory == self.memory && end.is_some_and(|end| end <= extent.region.bytes())
        };
        let extent = self.extents.iter().find(holds)?;
        Some((extent.id, range.address - extent.address))
    }

    /// Where the page of a layer of a block lies.
    fn page(&self, block: u32, layer: u32) -> Option<(RegionId, u64)> {
        let page = self.layout.page_bytes();
        let (extent, number) = match self.order {
            Order::Layers => {
                (0, u64::from(layer).saturating_mul(self.blocks.into()).saturating_add(block.into()))
            }
            Order::Blocks => (usize::try_from(block).ok()?, layer.into()),
        };
        Some((self.extents.get(extent)?.id, number.saturating_mul(page)))
    }

    /// Fills a block with what the producer's block of that number has, or with what none has.
    pub fn fill(
        &self,
        memory: &mut Registry,
        block: u32,
        content: Content,
        page: &mut Vec<u8>,
    ) -> Result<(), Error> {
        for layer in 0..self.layers {
            content.write(layer, self.layout.page_bytes(), page);
            if let Some((id, at)) = self.page(block, layer) {
                memory.write(id, at, page)?;
            }
        }
        Ok(())
    }

    /// The first layer of a block that has other bytes than these.
    pub fn wrong(
        &self,
        memory: &Registry,
        block: u32,
        content: Content,
        (page, found): (&mut Vec<u8>, &mut Vec<u8>),
    ) -> Result<Option<u32>, Error> {
        for layer in 0..self.layers {
            content.write(layer, self.layout.page_bytes(), page);
            found.resize(page.len(), 0);
            if let Some((id, at)) = self.page(block, layer) {
                memory.read(id, at, found)?;
            }
            if found != page {
                return Ok(Some(layer));
            }
        }
        Ok(None)
    }
}

/// What a block holds: it follows from a seed.
#[derive(Clone, Copy, Debug)]
pub struct Content(u64);

impl Content {
    /// That of the producer's block of this number.
    pub const fn of(seed: u64, block: u32) -> Self {
        Self(mix(seed ^ ((block as u64) << 16)))
    }

    /// That of no block of the producer's.
    pub const fn none(seed: u64) -> Self {
        Self(mix(!seed))
    }

    /// The page of one layer.
    fn write(self, layer: u32, bytes: u64, page: &mut Vec<u8>) {
        page.resize(usize::try_from(bytes).unwrap_or(0), 0);
        let mut words = SplitMix64::new(self.0 ^ u64::from(layer));
        for chunk in page.chunks_mut(8) {
            let word = words.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}
