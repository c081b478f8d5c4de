//! Memory to measure in: pools with random bytes, and what a copy must have made of them.

use pagelift::backends::{Backend, HostPool, HostPoolSpec};
use pagelift::error::MemoryError;
use pagelift::geometry::{GeometryBuilder, Memory, PoolSpec, Region, SideSpec};
use pagelift::id::PoolId;
use pagelift::memory::{RegionId, Registry};
use rayon::prelude::*;

use super::BenchError;
use crate::manifest::SplitMix64;
use crate::restore::RestoreError;
use crate::setup::available_memory;

/// Bytes that are filled at a time: a multiple of a word.
const CHUNK: usize = 1 << 16;

/// How the pages of a pool lie.
#[derive(Clone, Copy, Debug)]
pub struct Pages {
    pub place: Memory,
    pub layers: u32,
    pub blocks: u32,
    /// Bytes from one page to the next.
    pub stride: u64,
    pub order: Order,
}

/// What is outermost in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The pages of a layer lie together.
    Layers,
    /// The pages of a block lie together.
    Blocks,
}

/// A pool in memory: where each page lies, by a formula that shares nothing with the library's.
#[derive(Clone, Debug)]
pub struct Pool {
    id: PoolId,
    region: RegionId,
    place: Memory,
    at: Region,
    /// Bytes from the pool's start to block 0 of each layer.
    layers: Vec<u64>,
    block_stride: u64,
    blocks: u32,
}

impl Pool {
    /// The pool as a side of a group.
    pub fn side<L>(&self, layout: L) -> SideSpec<L> {
        SideSpec::packed(self.id, &[self.at.address()], &self.layers, self.block_stride, layout)
    }

    /// The same memory in another geometry, where each row of so many bytes is a page: of a pool whose pages are rows and
    /// nothing else, one after the other.
    pub fn by_rows<L>(
        &self,
        builder: &mut GeometryBuilder,
        bytes: u32,
        layout: L,
    ) -> Result<SideSpec<L>, BenchError> {
        let stride = u64::from(bytes);
        let rows = u64::from(self.blocks) * self.block_stride / stride;
        let rows = u32::try_from(rows).unwrap_or(u32::MAX);
        let id = builder.pool(PoolSpec::new(self.place.name(), self.place, rows, &[self.at]))?;
        Ok(SideSpec::packed(id, &[self.at.address()], &self.layers, stride, layout))
    }

    /// Where a page begins.
    pub fn page(&self, layer: u32, block: u32) -> At {
        let first = self.layers.get(layer as usize).copied().unwrap_or(0);
        At { region: self.region, offset: first + u64::from(block) * self.block_stride }
    }
}

/// A place in a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    region: RegionId,
    offset: u64,
}

impl At {
    /// So many bytes further on.
    pub const fn plus(self, bytes: u64) -> Self {
        Self { offset: self.offset + bytes, ..self }
    }
}

/// Bytes that must have been copied.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    pub from: At,
    pub to: At,
    pub bytes: u64,
}

/// A region that is written.
#[derive(Debug)]
struct Target {
    region: RegionId,
    before: Vec<u8>,
    after: Vec<u8>,
}

/// Pools with random bytes.
#[derive(Debug)]
pub struct Bed {
    pub memory: Registry,
    pub builder: GeometryBuilder,
    random: SplitMix64,
    /// Threads that prepare host memory; 0 leaves it to the library.
    threads: usize,
    regions: Vec<(RegionId, u64)>,
    targets: Vec<Target>,
}

impl Bed {
    /// Without any pool; `seed` decides all that is random in it, and small pools are prepared by this thread alone.
    pub fn new(seed: u64, small: bool) -> Self {
        Self {
            memory: Registry::new(),
            builder: GeometryBuilder::new(),
            random: SplitMix64::new(seed),
            threads: usize::from(small),
            regions: Vec::new(),
            targets: Vec::new(),
        }
    }

    /// Allocates a pool. Its layers lie in random order.
    pub fn pool(&mut self, backend: &impl Backend, name: &str, pages: Pages) -> Result<Pool, BenchError> {
        let Pages { place, layers, blocks, stride, order } = pages;
        let bytes = u64::from(layers) * u64::from(blocks) * stride;
        let region = self.allocate(backend, place, bytes)?;
        let at = self.memory.region(region).ok_or(MemoryError::Released)?;
        let id = self.builder.pool(PoolSpec::new(name, place, blocks, &[at]))?;
        let (between, block_stride) = match order {
            Order::Layers => (u64::from(blocks) * stride, stride),
            Order::Blocks => (stride, u64::from(layers) * stride),
        };
        let layers = self.choose(layers, layers).into_iter().map(|place| u64::from(place) * between);
        Ok(Pool { id, region, place, at, layers: layers.collect(), block_stride, blocks })
    }

    /// Allocates memory that is filled with random bytes, too.
    pub fn allocate(
        &mut self,
        backend: &impl Backend,
        place: Memory,
        bytes: u64,
    ) -> Result<RegionId, BenchError> {
        // Each byte has two images beside it: what it was, and what it must become.
        let needed = bytes.saturating_mul(3);
        if let Some(available) = available_memory().filter(|available| *available < needed) {
            return Err(RestoreError::TooLittleMemory { needed, available }.into());
        }
        let region = match place {
            Memory::Device => self.memory.allocate(backend, place, bytes)?,
            Memory::Host => {
                // Near the GPU, as an engine has it.
                let spec = HostPoolSpec::new(1, bytes).threads(self.threads);
                let pool = HostPool::allocate(backend, &spec, |_| {})?;
                *self.memory.adopt_pool(pool)?.first().ok_or(MemoryError::Released)?
            }
        };
        self.regions.push((region, bytes));
        Ok(region)
    }

    /// Where kernels find a region.
    pub fn address(&self, region: RegionId) -> Result<u64, BenchError> {
        Ok(self.memory.region(region).ok_or(MemoryError::Released)?.address())
    }

    /// `count` different numbers below `bound`, in random order.
    pub fn choose(&mut self, count: u32, bound: u32) -> Vec<u32> {
        let mut numbers: Vec<u32> = (0..bound).collect();
        for index in 0..numbers.len() {
            let other = index + self.random.below(numbers.len() - index);
            numbers.swap(index, other);
        }
        numbers.truncate(count as usize);
        numbers
    }

    /// Fills all memory with random bytes, and notes what these copies must make of it.
    pub fn fill(&mut self, moves: &[Move]) -> Result<(), BenchError> {
        let mut images = Vec::new();
        for (region, bytes) in &self.regions {
            let image = random_bytes(self.random.next_u64(), *bytes);
            self.memory.write(*region, 0, &image)?;
            images.push((*region, image));
        }
        let image_of =
            |region: RegionId| images.iter().find(|(own, _)| *own == region).map(|(_, image)| image);
        for one in moves {
            let known = self.targets.iter().position(|target| target.region == one.to.region);
            let index = match known {
                Some(index) => index,
                None => {
                    let before = image_of(one.to.region).ok_or(MemoryError::Released)?.clone();
                    self.targets.push(Target { region: one.to.region, after: before.clone(), before });
                    self.targets.len() - 1
                }
            };
            let range = |at: At| at.offset as usize..(at.offset + one.bytes) as usize;
            let from = image_of(one.from.region).and_then(|image| image.get(range(one.from)));
            let to = self.targets.get_mut(index).and_then(|target| target.after.get_mut(range(one.to)));
            let (from, to) = from.zip(to).ok_or(MemoryError::Released)?;
            to.copy_from_slice(from);
        }
        Ok(())
    }

    /// Puts back what was there before, lets something run, and compares every byte of the pools that it writes.
    pub fn verify(
        &mut self,
        run: impl FnOnce(&mut Registry) -> Result<(), pagelift::Error>,
    ) -> Result<(), BenchError> {
        for target in &self.targets {
            self.memory.write(target.region, 0, &target.before)?;
        }
        run(&mut self.memory)?;
        for target in &self.targets {
            let mut found = vec![0; target.after.len()];
            self.memory.read(target.region, 0, &mut found)?;
            let chunks = found.par_chunks(CHUNK).zip(target.after.par_chunks(CHUNK)).enumerate();
            let wrong = chunks.find_map_first(|(index, (found, expected))| {
                let byte = found.iter().zip(expected).position(|(found, expected)| found != expected)?;
                Some(index * CHUNK + byte)
            });
            if let Some(offset) = wrong {
                return Err(BenchError::WrongByte { way: String::new(), offset });
            }
        }
        Ok(())
    }
}

/// Random bytes, made by all threads.
fn random_bytes(seed: u64, bytes: u64) -> Vec<u8> {
    let mut image = vec![0; usize::try_from(bytes).unwrap_or(0)];
    image.par_chunks_mut(CHUNK).enumerate().for_each(|(index, chunk)| {
        let mut random = SplitMix64::from(seed, (index * CHUNK / 8) as u64);
        for word in chunk.chunks_mut(8) {
            let random = random.next_u64().to_ne_bytes();
            word.iter_mut().zip(random).for_each(|(byte, random)| *byte = random);
        }
    });
    image
}
