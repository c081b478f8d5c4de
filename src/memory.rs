//! The memory that kernels may touch.
//!
//! A launcher is bound only to pools that lie in registered memory, and each launch borrows the registry exclusively:
//! while kernels move bytes, no Rust reference can watch them move.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pagelift_planner::geometry::{Geometry, Memory, Region};

use crate::backends::{Backend, Buffer, Finish, HostPool, Reach};
use crate::error::{BackendError, Error, MemoryError};

/// Names one registered region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegionId {
    registry: u64,
    number: u64,
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
    /// What waits for launches that may still run: once for each stream.
    in_flight: Vec<Arc<dyn Finish>>,
    entries: HashMap<u64, Entry>,
    /// The number of the next region.
    next: u64,
    /// Start, end and number of each region that is here. No two share a byte, so that neighbours tell all.
    by_address: BTreeSet<(u64, u64, u64)>,
}

#[derive(Debug)]
struct Entry {
    place: Memory,
    buffer: Buffer,
}

/// Streams that are remembered without asking whether anything on them still runs.
const STREAMS: usize = 8;

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
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        let (in_flight, entries, by_address) = (Vec::new(), HashMap::new(), BTreeSet::new());
        Self { id, version: 0, in_flight, entries, next: 0, by_address }
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
        let (start, end) = bounds(buffer.region());
        let key = (start, end, self.next);
        let neighbours = [self.by_address.range(..key).next_back(), self.by_address.range(key..).next()];
        let meets = |&&(own_start, own_end, _): &&(u64, u64, u64)| own_start < end && start < own_end;
        if let Some(&(other, ..)) = neighbours.into_iter().flatten().find(meets) {
            return Err(MemoryError::Overlaps { start, end, other }.into());
        }
        self.by_address.insert(key);
        self.entries.insert(self.next, Entry { place, buffer });
        self.next += 1;
        Ok(RegionId { registry: self.id, number: key.2 })
    }

    /// Takes in a host pool, all of it or nothing: a region for each of its extents, in their order.
    ///
    /// # Errors
    /// As [`Registry::adopt`].
    pub fn adopt_pool(&mut self, pool: HostPool) -> Result<Vec<RegionId>, Error> {
        let mut regions = Vec::new();
        for buffer in pool.into_buffers() {
            match self.adopt(Memory::Host, buffer) {
                Ok(region) => regions.push(region),
                Err(error) => {
                    // Nobody knows of the others yet, and no launch: there is nothing to wait for.
                    regions.into_iter().for_each(|region| self.forget(region));
                    return Err(error);
                }
            }
        }
        Ok(regions)
    }

    /// Releases a region: frees it where it was allocated here, forgets it where it was adopted. Launchers that need
    /// it refuse work from then on.
    ///
    /// # Errors
    /// [`MemoryError::Released`] where it is not here, [`BackendError::WaitsForCapture`] and what else a GPU says where launches
    /// may use it that cannot be waited for now.
    pub fn release(&mut self, id: RegionId) -> Result<(), Error> {
        self.entry(id).ok_or(MemoryError::Released)?;
        // Its owner may free it from then on.
        self.settle()?;
        self.forget(id);
        Ok(())
    }

    /// Lets a region go that no launch touches.
    fn forget(&mut self, id: RegionId) {
        if let Some(entry) = self.entries.remove(&id.number) {
            let (start, end) = bounds(entry.buffer.region());
            self.by_address.remove(&(start, end, id.number));
            self.version += 1;
        }
    }

    /// Where a region lies.
    #[must_use]
    pub fn region(&self, id: RegionId) -> Option<Region> {
        self.entry(id).map(|entry| entry.buffer.region())
    }

    /// Where this process reaches a region of the host's memory: kernels of a GPU may see that at another address. `None` where
    /// the region is gone, or in memory of a GPU.
    #[must_use]
    pub fn host_region(&self, id: RegionId) -> Option<Region> {
        self.entry(id)?.buffer.host_region()
    }

    /// The bytes of a region, once no launch touches it any more: this waits. `None` where the region is gone, the host
    /// does not reach it, its GPU has failed, or a stream with launches is being captured; [`Registry::read`] says which, and
    /// reads any region.
    #[must_use]
    pub fn bytes(&self, id: RegionId) -> Option<&[u8]> {
        let entry = self.entry(id)?;
        self.finish().ok()?;
        entry.buffer.bytes()
    }

    /// The bytes of a region, to be written; as [`Registry::bytes`].
    #[must_use]
    pub fn bytes_mut(&mut self, id: RegionId) -> Option<&mut [u8]> {
        let own = id.registry == self.id;
        self.finish().ok()?;
        self.entries.get_mut(&id.number).filter(|_| own)?.buffer.bytes_mut()
    }

    /// Copies bytes from offset `at` of a region on, in whatever memory, once no launch touches it any more. Of adopted memory only
    /// these bytes are looked at: its owner may write others meanwhile.
    ///
    /// # Errors
    /// [`MemoryError::Released`] where it is not here, [`MemoryError::Outside`], and what a GPU says.
    pub fn read(&self, id: RegionId, at: u64, into: &mut [u8]) -> Result<(), Error> {
        let entry = self.entry(id).ok_or(MemoryError::Released)?;
        self.finish()?;
        entry.buffer.read(at, into)
    }

    /// Copies bytes to offset `at` of a region on, in whatever memory, once no launch touches it any more; as [`Registry::read`]
    /// it touches no others.
    ///
    /// # Errors
    /// As [`Registry::read`].
    pub fn write(&mut self, id: RegionId, at: u64, from: &[u8]) -> Result<(), Error> {
        self.entry(id).ok_or(MemoryError::Released)?;
        self.finish()?;
        let entry = self.entries.get_mut(&id.number).ok_or(MemoryError::Released)?;
        entry.buffer.write(at, from)
    }

    /// Makes what others have written into registered memory of GPUs visible to launches that follow; see
    /// [`Backend::settle_remote_writes`], which is of one GPU. Memory of the host needs nothing.
    ///
    /// ```
    /// use pagelift::{backends::Cpu, geometry::Memory, memory::Registry};
    /// let mut memory = Registry::new();
    /// memory.allocate(&Cpu::new()?, Memory::Device, 4096)?;
    /// memory.settle_remote_writes()?;
    /// # Ok::<(), pagelift::Error>(())
    /// ```
    ///
    /// # Errors
    /// As that, of the first GPU that fails.
    pub fn settle_remote_writes(&self) -> Result<(), Error> {
        let owners = self.entries.values().filter_map(|entry| entry.buffer.device_owner());
        let gpus: BTreeMap<u32, _> = owners.map(|owner| (owner.gpu(), owner)).collect();
        Ok(gpus.values().try_for_each(|owner| owner.settle_remote_writes())?)
    }

    /// Notes that a launch may still touch what is registered.
    pub(crate) fn launched(&mut self, launches: &Arc<dyn Finish>) {
        if self.in_flight.iter().any(|known| known.stream() == launches.stream()) {
            return;
        }
        if self.in_flight.len() >= STREAMS {
            self.in_flight.retain(|known| !known.is_finished());
        }
        self.in_flight.push(Arc::clone(launches));
    }

    /// Waits for launches, where there may be any: for all of them, and for those of other GPUs too where some have failed.
    pub(crate) fn finish(&self) -> Result<(), BackendError> {
        let mut finished = Ok(());
        for launches in &self.in_flight {
            finished = finished.and(launches.finish());
        }
        finished
    }

    /// Waits until no launch touches anything any more, and says why where that cannot be had: a call that fails tells nothing
    /// of the launches, but that a lost context runs none.
    fn settle(&self) -> Result<(), BackendError> {
        let mut settled = Ok(());
        for launches in &self.in_flight {
            settled = settled.and(match launches.finish() {
                Err(BackendError::ContextLost { .. } | BackendError::ContextGone) => Ok(()),
                finished => finished,
            });
        }
        settled
    }

    /// Refuses a geometry whose pools are not all registered.
    pub(crate) fn check_pools(&self, geometry: &Geometry, by: Reach) -> Result<(), MemoryError> {
        for pool in geometry.pools() {
            for region in pool.regions() {
                self.check(pool.memory(), *region, by, || format!("pool `{}`", pool.name()))?;
            }
        }
        Ok(())
    }

    /// Refuses an array that no registered region holds. Nothing is read of an empty one.
    pub(crate) fn check(
        &self,
        place: Memory,
        array: Region,
        by: Reach,
        what: impl FnOnce() -> String,
    ) -> Result<(), MemoryError> {
        let (start, end) = bounds(array);
        let last = self.by_address.range(..=(start, u64::MAX, u64::MAX)).next_back();
        let entry = last.and_then(|(.., number)| self.entries.get(number));
        let holds = |entry: &&Entry| entry.place == place && entry.buffer.region().holds(start, end);
        let holder = entry.filter(holds);
        if start == end || holder.is_some_and(|entry| entry.buffer.is_reached(by)) {
            return Ok(());
        }
        if holder.is_some() {
            return Err(MemoryError::OutOfReach { what: what(), start, end });
        }
        Err(MemoryError::Unregistered { what: what(), place: place.name(), start, end })
    }

    /// Part of a region, where it is inside of it and within reach.
    pub(crate) fn part(&self, id: RegionId, at: u64, length: u64, by: Reach) -> Result<Region, MemoryError> {
        let entry = self.entry(id).ok_or(MemoryError::Released)?;
        let (start, bytes) = (entry.buffer.region().address(), entry.buffer.region().bytes());
        if at.checked_add(length).is_none_or(|end| end > bytes) {
            return Err(MemoryError::Outside { at, length, bytes });
        }
        let part = Region::new(start.saturating_add(at), length);
        self.check(entry.place, part, by, || "a copy".into())?;
        Ok(part)
    }

    /// Which registry this is, and how often regions were released.
    pub(crate) const fn stamp(&self) -> (u64, u64) {
        (self.id, self.version)
    }

    fn entry(&self, id: RegionId) -> Option<&Entry> {
        self.entries.get(&id.number).filter(|_| id.registry == self.id)
    }
}

/// Memory that kernels may still write, for as long as the process runs.
static KEPT: Mutex<Vec<HashMap<u64, Entry>>> = Mutex::new(Vec::new());

impl Drop for Registry {
    fn drop(&mut self) {
        if self.settle().is_err() {
            // Whether they have finished nobody knows, so it is never freed.
            let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
            kept.push(std::mem::take(&mut self.entries));
        }
    }
}

/// First address of a region, and the one past its last.
fn bounds(region: Region) -> (u64, u64) {
    (region.address(), region.end().unwrap_or(u64::MAX))
}
