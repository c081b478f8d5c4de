//! What every byte should be.

use pagelift::memory::{RegionId, Registry};

/// The bytes of all regions, by address.
pub struct Image {
    /// Sorted by where they begin.
    regions: Vec<(u64, Vec<u8>)>,
}

impl Image {
    /// What the regions hold now.
    pub fn of(memory: &Registry, regions: &[RegionId]) -> Self {
        let region = |id: &RegionId| {
            let region = memory.region(*id).unwrap();
            let mut bytes = vec![0; region.bytes() as usize];
            memory.read(*id, 0, &mut bytes).unwrap();
            (region.address(), bytes)
        };
        Self::from_parts(regions.iter().map(region).collect())
    }

    /// Regions, each an address and its bytes.
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

    /// One row, from here to there; zeros without a source.
    pub fn copy(&mut self, from: Option<u64>, to: u64, bytes: u32) {
        let bytes = bytes as usize;
        let row = from.map_or_else(|| vec![0; bytes], |from| self.from(from)[..bytes].to_vec());
        self.from(to)[..bytes].copy_from_slice(&row);
    }

    /// The same byte from `address` on.
    pub fn fill(&mut self, address: u64, bytes: usize, value: u8) {
        self.from(address)[..bytes].fill(value);
    }

    /// The bytes of one row, as they were.
    pub fn restore(&mut self, before: &mut Self, address: u64, bytes: u32) {
        let bytes = bytes as usize;
        self.from(address)[..bytes].copy_from_slice(&before.from(address)[..bytes]);
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
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
    pub fn difference(&self, memory: &Registry, regions: &[RegionId]) -> Option<String> {
        self.differs_from(&Self::of(memory, regions))
    }

    /// Where the images first differ.
    pub fn differs_from(&self, found: &Self) -> Option<String> {
        assert_eq!(found.regions.len(), self.regions.len());
        self.regions.iter().zip(&found.regions).find_map(|((start, expected), (_, found))| {
            assert_eq!(expected.len(), found.len());
            let at = expected.iter().zip(found).position(|(expected, found)| expected != found);
            let at = if expected == found { None } else { at }?;
            Some(format!("{:#x}: expected {:#x}, found {:#x}", start + at as u64, expected[at], found[at]))
        })
    }
}
