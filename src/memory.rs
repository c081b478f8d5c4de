//! The memory that kernels may touch.
//!
//! A launcher is bound only to pools that lie in registered memory, and each launch borrows the registry exclusively:
//! while kernels move bytes, no Rust reference can watch them move.

use std::sync::atomic::{AtomicU64, Ordering};

use pagelift_planner::geometry::{Geometry, Memory, Region};

use crate::backends::{Backend, Buffer};
use crate::error::{Error, MemoryError};

/// Names one registered region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegionId {
    registry: u64,
    index: usize,
}

/// Owns or has adopted every region that kernels may touch.
///
/// ```
/// use pagelift::{backends::Cpu, geometry::Memory, memory::Registry};
/// let mut memory = Registry::new();
/// let pool = memory.allocate(&Cpu::new()?, Memory::Host, 4096)?;
/// memory.bytes_mut(pool).expect("just allocated")[7] = 1;
/// let region = memory.region(pool).expect("just allocated");
/// assert_eq!((region.bytes(), region.address() % 4096), (4096, 0));
/// memory.release(pool)?;
/// assert!(memory.region(pool).is_none());
/// # Ok::<(), pagelift::Error>(())
/// ```
#[derive(Debug)]
pub struct Registry {
    id: u64,
    /// Changes whenever a region goes, so that launchers look again.
    version: u64,
    entries: Vec<Option<Entry>>,
}

#[derive(Debug)]
struct Entry {
    place: Memory,
    buffer: Buffer,
}

/// Tells registries apart.
static IDS: AtomicU64 = AtomicU64::new(1);

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

impl Registry {
    /// No memory.
    #[must_use]
    pub fn new() -> Self {
        Self { id: IDS.fetch_add(1, Ordering::Relaxed), version: 0, entries: Vec::new() }
    }

    /// Allocates zeroed, page-aligned memory.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`] where the backend has no room for it.
    pub fn allocate(&mut self, backend: &impl Backend, place: Memory, bytes: u64) -> Result<RegionId, Error> {
        let buffer = backend.allocate(place, bytes)?;
        self.adopt(place, buffer)
    }

    /// Takes in memory that somebody else made; see [`Buffer::adopt`] for what that promises.
    ///
    /// # Errors
    /// [`MemoryError::Overlaps`] where it shares bytes with a region that is here.
    pub fn adopt(&mut self, place: Memory, buffer: Buffer) -> Result<RegionId, Error> {
        let (start, end) = (buffer.region().address(), buffer.region().end().unwrap_or(u64::MAX));
        let meets = |entry: &&Entry| {
            let region = entry.buffer.region();
            region.address() < end && region.end().is_none_or(|own| start < own)
        };
        if let Some(other) = self.entries.iter().flatten().find(meets) {
            let other = other.buffer.region().address();
            return Err(MemoryError::Overlaps { start, end, other }.into());
        }
        let index = self.entries.len();
        self.entries.push(Some(Entry { place, buffer }));
        Ok(RegionId { registry: self.id, index })
    }

    /// Releases a region: frees it where it was allocated here, forgets it where it was adopted. Launchers that need
    /// it refuse work from then on.
    ///
    /// # Errors
    /// [`MemoryError::Released`] where it is not here.
    pub fn release(&mut self, id: RegionId) -> Result<(), Error> {
        let own = id.registry == self.id;
        let entry = self.entries.get_mut(id.index).filter(|_| own).and_then(Option::take);
        self.version += u64::from(entry.is_some());
        entry.map(drop).ok_or_else(|| MemoryError::Released.into())
    }

    /// Where a region lies.
    #[must_use]
    pub fn region(&self, id: RegionId) -> Option<Region> {
        self.entry(id).map(|entry| entry.buffer.region())
    }

    /// The bytes of a region.
    #[must_use]
    pub fn bytes(&self, id: RegionId) -> Option<&[u8]> {
        self.entry(id).map(|entry| entry.buffer.bytes())
    }

    /// The bytes of a region, to be written.
    #[must_use]
    pub fn bytes_mut(&mut self, id: RegionId) -> Option<&mut [u8]> {
        let own = id.registry == self.id;
        let entry = self.entries.get_mut(id.index).filter(|_| own)?.as_mut()?;
        Some(entry.buffer.bytes_mut())
    }

    /// Refuses a geometry whose pools are not all registered.
    pub(crate) fn check_pools(&self, geometry: &Geometry) -> Result<(), MemoryError> {
        for pool in geometry.pools() {
            for region in pool.regions() {
                self.check(pool.memory(), *region, || format!("pool `{}`", pool.name()))?;
            }
        }
        Ok(())
    }

    /// Refuses an array that no registered region holds.
    pub(crate) fn check(
        &self,
        place: Memory,
        array: Region,
        what: impl FnOnce() -> String,
    ) -> Result<(), MemoryError> {
        let (start, end) = (array.address(), array.end().unwrap_or(u64::MAX));
        let holds = |entry: &Entry| entry.place == place && entry.buffer.region().holds(start, end);
        // A handful of regions: pools come in few registrations.
        if self.entries.iter().flatten().any(holds) {
            return Ok(());
        }
        Err(MemoryError::Unregistered { what: what(), place: place.name(), start, end })
    }

    /// Which registry this is, and how often regions were released.
    pub(crate) const fn stamp(&self) -> (u64, u64) {
        (self.id, self.version)
    }

    fn entry(&self, id: RegionId) -> Option<&Entry> {
        self.entries.get(id.index).filter(|_| id.registry == self.id)?.as_ref()
    }
}
