//! Worlds in real memory, and what every byte of it should be.

use std::borrow::Cow;

use pagelift::backends::Backend;
use pagelift::geometry::Memory;
use pagelift::memory::{RegionId, Registry};

use crate::decode::Move;
use crate::draw::Draw;
use crate::shape::{Arena, Shape};
use crate::world::World;

/// Registered memory, all of which is compared.
pub struct Pools {
    /// Who has it.
    pub memory: Registry,
    /// Every region.
    pub regions: Vec<RegionId>,
}

impl Pools {
    /// A shape in memory of a backend's, filled at random.
    pub fn new(draw: &mut Draw, shape: &Shape, backend: &impl Backend) -> (World, Self) {
        Self::placed(draw, shape, |memory, arena| {
            memory.allocate(backend, arena.memory, arena.bytes).unwrap()
        })
    }

    /// The same, each arena in a region that `place` registers.
    pub fn placed(
        draw: &mut Draw,
        shape: &Shape,
        mut place: impl FnMut(&mut Registry, &Arena) -> RegionId,
    ) -> (World, Self) {
        let mut memory = Registry::new();
        let regions: Vec<RegionId> = shape.arenas().iter().map(|arena| place(&mut memory, arena)).collect();
        let arenas: Vec<u64> = regions.iter().map(|id| memory.region(*id).unwrap().address()).collect();
        let mut pools = Self { memory, regions };
        pools.fill(draw);
        (shape.build(&arenas), pools)
    }

    /// One more region; its address.
    pub fn add(&mut self, backend: &impl Backend, memory: Memory, bytes: u64) -> u64 {
        let id = self.memory.allocate(backend, memory, bytes).unwrap();
        self.regions.push(id);
        self.memory.region(id).unwrap().address()
    }

    /// Random bytes everywhere: what is to be overwritten too.
    pub fn fill(&mut self, draw: &mut Draw) {
        for &id in &self.regions {
            if let Some(bytes) = self.memory.bytes_mut(id) {
                draw.fill(bytes);
                continue;
            }
            let mut bytes = vec![0; self.memory.region(id).unwrap().bytes() as usize];
            draw.fill(&mut bytes);
            self.memory.write(id, 0, &bytes).unwrap();
        }
    }

    /// What all memory holds.
    #[must_use]
    pub fn image(&self) -> Image {
        Image::of(&self.memory, &self.regions)
    }

    /// Fails where any byte differs.
    pub fn assert_is(&self, expected: &Image) {
        assert_eq!(expected.difference(&self.memory, &self.regions), None);
    }
}

/// The bytes of all regions, by address.
#[derive(Clone)]
pub struct Image {
    /// Sorted by where they begin.
    regions: Vec<(u64, Vec<u8>)>,
}

impl Image {
    /// What the regions hold now.
    #[must_use]
    pub fn of(memory: &Registry, regions: &[RegionId]) -> Self {
        let region =
            |id: &RegionId| (memory.region(*id).unwrap().address(), contents(memory, *id).into_owned());
        Self::from_parts(regions.iter().map(region).collect())
    }

    /// Regions, each an address and its bytes.
    #[must_use]
    pub fn from_parts(mut regions: Vec<(u64, Vec<u8>)>) -> Self {
        regions.sort_by_key(|(start, _)| *start);
        Self { regions }
    }

    /// The bytes from `address` on, in one region.
    fn from(&mut self, address: u64) -> &mut [u8] {
        let after = self.regions.partition_point(|(start, _)| *start <= address);
        let (start, bytes) = &mut self.regions[after - 1];
        &mut bytes[(address - *start) as usize..]
    }

    /// Some bytes.
    pub fn read(&mut self, address: u64, bytes: u64) -> Vec<u8> {
        self.from(address)[..bytes as usize].to_vec()
    }

    /// Makes copies, one after the other.
    pub fn apply(&mut self, moves: &[Move]) {
        for &Move { to, from, bytes } in moves {
            let bytes = bytes as usize;
            let row = from.map_or_else(|| vec![0; bytes], |from| self.read(from, bytes as u64));
            self.from(to)[..bytes].copy_from_slice(&row);
        }
    }

    /// The same byte from `address` on.
    pub fn fill(&mut self, address: u64, bytes: usize, value: u8) {
        self.from(address)[..bytes].fill(value);
    }

    /// Some bytes as they were.
    pub fn restore(&mut self, before: &mut Self, address: u64, bytes: u64) {
        let bytes = bytes as usize;
        self.from(address)[..bytes].copy_from_slice(&before.from(address)[..bytes]);
    }

    /// Number of bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.regions.iter().map(|(_, bytes)| bytes.len()).sum()
    }

    /// Byte `index` of them all.
    pub fn byte(&mut self, mut index: usize) -> &mut u8 {
        for (_, bytes) in &mut self.regions {
            if index < bytes.len() {
                return &mut bytes[index];
            }
            index -= bytes.len();
        }
        panic!("there are fewer bytes")
    }

    /// Where memory is first not as it should be.
    #[must_use]
    pub fn difference(&self, memory: &Registry, regions: &[RegionId]) -> Option<String> {
        assert_eq!(regions.len(), self.regions.len());
        regions.iter().find_map(|&id| {
            let start = memory.region(id).unwrap().address();
            let at = self.regions.binary_search_by_key(&start, |(start, _)| *start).unwrap();
            difference(start, &self.regions[at].1, &contents(memory, id))
        })
    }

    /// Where the images first differ.
    #[must_use]
    pub fn differs_from(&self, found: &Self) -> Option<String> {
        assert_eq!(found.regions.len(), self.regions.len());
        let mut pairs = self.regions.iter().zip(&found.regions);
        pairs.find_map(|((start, expected), (_, found))| difference(*start, expected, found))
    }
}

/// What a region holds: a copy, where the host does not reach it.
fn contents(memory: &Registry, id: RegionId) -> Cow<'_, [u8]> {
    memory.bytes(id).map_or_else(
        || {
            let mut bytes = vec![0; memory.region(id).unwrap().bytes() as usize];
            memory.read(id, 0, &mut bytes).unwrap();
            bytes.into()
        },
        Cow::from,
    )
}

fn difference(start: u64, expected: &[u8], found: &[u8]) -> Option<String> {
    assert_eq!(expected.len(), found.len());
    if expected == found {
        return None;
    }
    let at = expected.iter().zip(found).position(|(expected, found)| expected != found)?;
    Some(format!("{:#x}: expected {:#x}, found {:#x}", start + at as u64, expected[at], found[at]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Scale;
    use crate::tables::cpu;

    #[test]
    fn case_25_one_wrong_byte_anywhere_is_noticed() {
        for seed in 0..20 {
            let mut draw = Draw::seeded(seed);
            let shape = Shape::draw(&mut draw, &Scale::in_memory(2));
            let (_, mut pools) = Pools::new(&mut draw, &shape, cpu(1));
            let image = pools.image();
            pools.assert_is(&image);
            for id in pools.regions.clone() {
                let bytes = pools.memory.region(id).unwrap().bytes();
                for at in [0, bytes - 1, draw.below(bytes)] {
                    let bit = 1 << draw.below(8);
                    pools.memory.bytes_mut(id).unwrap()[at as usize] ^= bit;
                    assert!(image.difference(&pools.memory, &pools.regions).is_some(), "byte {at} of {id:?}");
                    assert!(image.differs_from(&pools.image()).is_some());
                    pools.memory.bytes_mut(id).unwrap()[at as usize] ^= bit;
                }
            }
            pools.assert_is(&image);
        }
    }

    #[test]
    fn case_25_regions_differ_from_each_other_and_from_what_they_were() {
        let mut draw = Draw::seeded(1);
        let shape = Shape::draw(&mut draw, &Scale::in_memory(3));
        let (_, mut pools) = Pools::new(&mut draw, &shape, cpu(1));
        let before = pools.image();
        pools.fill(&mut draw);
        assert!(before.difference(&pools.memory, &pools.regions).is_some());
        let beginning = |id: &RegionId| pools.memory.bytes(*id).unwrap()[..16].to_vec();
        let mut beginnings: Vec<Vec<u8>> = pools.regions.iter().map(beginning).collect();
        beginnings.sort();
        beginnings.dedup();
        assert_eq!(beginnings.len(), pools.regions.len());
    }
}
