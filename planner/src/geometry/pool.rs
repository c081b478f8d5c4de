//! Memory that holds numbered blocks.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::GeometryError;

/// Which memory a pool lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Memory {
    /// Host memory that the device can reach.
    Host,
    /// Device memory.
    Device,
}

impl Memory {
    /// `host` or `device`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Device => "device",
        }
    }
}

/// Its [name](Memory::name).
///
/// ```
/// use pagelift_planner::geometry::Memory;
/// assert_eq!(format!("in {} memory", Memory::Host), "in host memory");
/// ```
impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One allocated or registered range, at the address by which the *device* reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Region {
    address: u64,
    bytes: u64,
}

impl Region {
    /// `bytes` bytes from `address` on.
    #[must_use]
    pub const fn new(address: u64, bytes: u64) -> Self {
        Self { address, bytes }
    }

    /// Its first address.
    #[must_use]
    pub const fn address(self) -> u64 {
        self.address
    }

    /// Its size.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.bytes
    }

    /// One past its last address, or `None` where that does not fit.
    #[must_use]
    pub const fn end(self) -> Option<u64> {
        self.address.checked_add(self.bytes)
    }

    /// Whether `start..end` lies inside.
    #[must_use]
    pub fn holds(self, start: u64, end: u64) -> bool {
        start >= self.address && start <= end && self.end().is_some_and(|own| end <= own)
    }
}

/// Says what a pool is: everything in it shares one numbering of blocks.
///
/// Groups that alias one slab name one pool; groups with memory of their own have a pool each.
#[derive(Clone, Debug)]
pub struct PoolSpec {
    /// Its name, for messages.
    pub name: Arc<str>,
    /// Where it lies.
    pub memory: Memory,
    /// Blocks: ids are `0..blocks`. At most 2³¹, for page maps hold them as `i32`.
    pub blocks: u32,
    /// Blocks of one extent. Registrations come in chunks that never cut a block.
    pub blocks_per_extent: u32,
    /// The ranges that its blocks may lie in; no two share a byte.
    pub regions: Vec<Region>,
}

impl PoolSpec {
    /// A pool in one extent.
    #[must_use]
    pub fn new(name: &str, memory: Memory, blocks: u32, regions: &[Region]) -> Self {
        Self { name: name.into(), memory, blocks, blocks_per_extent: blocks, regions: regions.to_vec() }
    }

    /// The same pool in extents of `blocks` blocks; the last may have fewer.
    #[must_use]
    pub fn extents_of(mut self, blocks: u32) -> Self {
        self.blocks_per_extent = blocks;
        self
    }
}

/// A pool of a [`super::Geometry`].
#[derive(Clone, Debug)]
pub struct Pool {
    pub(crate) spec: PoolSpec,
    pub(crate) extents: u32,
    /// The stamp of its geometry.
    pub(crate) geometry: u64,
}

impl Pool {
    /// Checks the specification.
    pub(crate) fn new(mut spec: PoolSpec, geometry: u64) -> Result<Self, GeometryError> {
        let zero = |what| GeometryError::Zero { place: spec.name.clone(), what };
        if spec.blocks == 0 {
            return Err(zero("the number of blocks"));
        }
        if spec.blocks_per_extent == 0 {
            return Err(zero("blocks_per_extent"));
        }
        if spec.regions.iter().any(|region| region.bytes() == 0) {
            return Err(zero("the size of a region"));
        }
        if spec.regions.iter().any(|region| region.end().is_none()) {
            return Err(GeometryError::Overflow { place: spec.name.clone(), what: "a region's end" });
        }
        if spec.blocks.checked_sub(1).is_some_and(|last| i32::try_from(last).is_err()) {
            return Err(GeometryError::Overflow { place: spec.name.clone(), what: "the number of blocks" });
        }
        spec.regions.sort_by_key(|region| region.address());
        let mut neighbours = spec.regions.iter().zip(spec.regions.iter().skip(1));
        let shared = neighbours.find(|(low, high)| low.end().is_some_and(|end| end > high.address()));
        if let Some((low, high)) = shared {
            let words = |region: &Region| {
                let (start, bytes) = (region.address(), region.bytes());
                Arc::from(format!("{}: the region of {bytes} bytes at {start:#x}", spec.name))
            };
            return Err(GeometryError::SharedBytes { first: words(low), second: words(high) });
        }
        let extents = spec.blocks.div_ceil(spec.blocks_per_extent);
        Ok(Self { spec, extents, geometry })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Where it lies.
    #[must_use]
    pub const fn memory(&self) -> Memory {
        self.spec.memory
    }

    /// Blocks: ids are `0..blocks`.
    #[must_use]
    pub const fn blocks(&self) -> u32 {
        self.spec.blocks
    }

    /// Blocks of one extent; the last may have fewer.
    #[must_use]
    pub const fn blocks_per_extent(&self) -> u32 {
        self.spec.blocks_per_extent
    }

    /// The ranges that its blocks lie in, by address.
    #[must_use]
    pub fn regions(&self) -> &[Region] {
        &self.spec.regions
    }

    /// Blocks in extent `extent`: all have the same number but the last.
    pub(crate) fn blocks_in_extent(&self, extent: u32) -> u32 {
        let before = extent.saturating_mul(self.spec.blocks_per_extent);
        self.spec.blocks.saturating_sub(before).min(self.spec.blocks_per_extent)
    }

    /// Whether `start..end` lies inside one region.
    pub(crate) fn holds(&self, start: u64, end: u64) -> bool {
        let after = self.spec.regions.partition_point(|region| region.address() <= start);
        let candidate = after.checked_sub(1).and_then(|index| self.spec.regions.get(index));
        candidate.is_some_and(|region| region.holds(start, end))
    }
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PoolSpec { name, memory, blocks, .. } = &self.spec;
        write!(f, "pool `{name}`: {blocks} blocks in {} memory, {} extents", memory.name(), self.extents)
    }
}
