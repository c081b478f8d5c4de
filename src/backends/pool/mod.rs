//! Host pools: many gigabytes of host memory that a GPU's kernels reach.
//!
//! | memory | by |
//! |---|---|
//! | of the pool's own | [`HostPool::allocate`] |
//! | of an engine's, where it lies | [`HostPool::register`] |
//! | of several processes | [`HostPool::share`] |
//!
//! All of them come in chunks, each registered alone, by several threads; what kernels reach each by is asked for. A
//! geometry has an extent for each.

mod chunks;
mod crew;
mod mapping;
mod maps;
pub(super) mod node;
mod registrar;
mod shared;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Range;
use std::os::fd::AsFd as _;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pagelift_planner::geometry::{Memory, PoolSpec, Region};

pub use chunks::HostPoolSpec;
pub use registrar::Registrar;
pub(super) use registrar::{Pinned, Process};
pub use shared::SharedMemory;

use super::{Backend, Buffer};
use crate::error::{Error, MemoryError};
use chunks::Chunks;
use crew::Crew;
use mapping::{Mapping, populate};

/// Bytes that a thread makes present at a time.
const PIECE: usize = 64 << 20;

/// How far the preparation of a pool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolProgress {
    /// Bytes whose pages are present.
    pub present: u64,
    /// Bytes that are registered, or were before.
    pub registered: u64,
    /// Bytes of the pool.
    pub total: u64,
}

/// Host memory for numbered blocks, which a backend's kernels reach.
///
/// ```
/// use pagelift::backends::{Cpu, HostPool, HostPoolSpec};
/// use pagelift::geometry::GeometryBuilder;
/// use pagelift::memory::Registry;
/// // A thousand blocks of 1 MiB, in chunks of 256.
/// let spec = HostPoolSpec::new(1000, 1 << 20).chunks_of(256 << 20);
/// let pool = HostPool::allocate(&Cpu::new()?, &spec, |done| assert!(done.present <= done.total))?;
/// assert_eq!((pool.blocks_per_extent(), pool.regions().len()), (256, 4));
///
/// // What a geometry wants to know, and what a launcher looks for.
/// let blocks = GeometryBuilder::new().pool(pool.spec("host"))?;
/// let extents: Vec<u64> = pool.regions().iter().map(|region| region.address()).collect();
/// let mut memory = Registry::new();
/// let regions = memory.adopt_pool(pool)?;
/// assert_eq!(memory.region(regions[3]).map(|region| region.bytes()), Some((1000 - 3 * 256) << 20));
/// # Ok::<(), pagelift::Error>(())
/// ```
pub struct HostPool {
    blocks: u32,
    blocks_per_extent: u32,
    chunks: Vec<Pinned>,
}

impl HostPool {
    /// Allocates zeroed memory near the GPU: page-aligned, on its NUMA node where there are several, cached by the CPU, and
    /// pinned and mapped. `progress` is called now and then, from several threads.
    ///
    /// # Errors
    /// [`MemoryError::EmptyPool`], [`MemoryError::Chunks`], [`MemoryError::OutOfMemory`], [`MemoryError::StaleRegistration`],
    /// and what the driver says. Then nothing stays allocated or registered.
    pub fn allocate(
        backend: &impl Backend,
        spec: &HostPoolSpec,
        progress: impl Fn(PoolProgress) + Sync,
    ) -> Result<Self, Error> {
        let mapping = Mapping::anonymous(spec.bytes()?, spec.huge_pages)?;
        // SAFETY: (1) the mapping is ours, and as large as the chunks ask for; (2) nobody has registered it.
        unsafe {
            Self::of(&backend.registrar(), spec, spec.padded()?, mapping.start(), Some(mapping), &progress)
        }
    }

    /// Maps memory that several processes have, and registers this process' mapping of it. Pages that no process has touched
    /// yet come to lie near the GPU of the one that does first.
    ///
    /// # Safety
    /// 1. Other processes touch the bytes only as an ordering that all sides keep allows; [`Registry`](crate::memory::Registry)
    ///    lends those of a pool as Rust references.
    /// 2. The memory keeps its size while the pool lives. That of [`SharedMemory::create`] is sealed.
    ///
    /// # Errors
    /// [`MemoryError::SharedSize`] where it has another size than the pool, and as [`HostPool::allocate`].
    pub unsafe fn share(
        backend: &impl Backend,
        spec: &HostPoolSpec,
        memory: &SharedMemory,
        progress: impl Fn(PoolProgress) + Sync,
    ) -> Result<Self, Error> {
        let bytes = spec.bytes()?;
        memory.check(bytes)?;
        // SAFETY: (1) it has so many bytes, and keeps them (2).
        let mapping = unsafe { Mapping::shared(memory.as_fd(), bytes, spec.huge_pages) }?;
        // SAFETY: (1) the mapping is ours, and as large as the chunks ask for; (2) nobody has registered it.
        unsafe {
            Self::of(&backend.registrar(), spec, spec.padded()?, mapping.start(), Some(mapping), &progress)
        }
    }

    /// Registers memory that somebody else made and will free, where it lies: `blocks · block_bytes` bytes from `start` on.
    /// Chunks that are registered already are left alone, now and when the pool is dropped.
    ///
    /// # Safety
    /// 1. `start` is valid for reads and writes of that many initialised bytes while the pool lives.
    /// 2. Meanwhile nobody else touches them, except as an ordering that both sides keep allows.
    /// 3. Chunks that are registered already stay so while the pool lives.
    ///
    /// # Errors
    /// [`MemoryError::NoSeam`] where chunks of that size would cut blocks or pages; [`MemoryError::PartlyRegistered`];
    /// [`MemoryError::ReadOnly`], [`MemoryError::NotMapped`] and [`MemoryError::FileBacked`] for memory that cannot be
    /// pinned; and as [`HostPool::allocate`]. Then nothing stays registered that was not.
    pub unsafe fn register(
        backend: &impl Backend,
        spec: &HostPoolSpec,
        start: *mut u8,
        progress: impl Fn(PoolProgress) + Sync,
    ) -> Result<Self, Error> {
        let start = NonNull::new(start).ok_or(MemoryError::Null)?;
        let chunks = spec.adjacent(start.addr().get() as u64)?;
        // SAFETY: (1) is ours, (2) is (3).
        unsafe { Self::of(&backend.registrar(), spec, chunks, start, None, &progress) }
    }

    /// Makes all pages present, and then registers the chunks.
    ///
    /// # Safety
    /// 1. The chunks' bytes from `start` on are valid for reads and writes while the pool lives, or `mapping`.
    /// 2. Those that are registered already stay so.
    unsafe fn of(
        registrar: &Arc<dyn Registrar>,
        spec: &HostPoolSpec,
        chunks: Chunks,
        start: NonNull<u8>,
        mapping: Option<Mapping>,
        progress: &(dyn Fn(PoolProgress) + Sync),
    ) -> Result<Self, Error> {
        let ranges = chunks.ranges().map(|range| size(range, start)).collect::<Result<Vec<_>, _>>()?;
        let base = start.as_ptr().expose_provenance();
        if let (None, Some(last)) = (&mapping, ranges.last()) {
            maps::check(&(base..base + last.end))?;
        }
        let crew = Crew::new(spec.threads, registrar.node())?;
        let total = ranges.iter().map(|range| range.len() as u64).sum();
        let (present, registered) = (AtomicU64::new(0), AtomicU64::new(0));
        let more = |counter: &AtomicU64, bytes: usize| {
            counter.fetch_add(bytes as u64, Ordering::Relaxed);
            let [present, registered] = [&present, &registered].map(|bytes| bytes.load(Ordering::Relaxed));
            progress(PoolProgress { present, registered, total });
        };
        let pieces: Vec<Range<usize>> = ranges.iter().cloned().flat_map(pieces).collect();
        crew.each(pieces.len(), |index| {
            let Some(piece) = pieces.get(index) else { return Ok(()) };
            let at = std::ptr::with_exposed_provenance_mut(base + piece.start);
            let at = NonNull::new(at).ok_or(MemoryError::Null)?;
            // SAFETY: (1) is ours.
            unsafe { populate(at, piece.len()) }?;
            more(&present, piece.len());
            Ok(())
        })?;
        let mapping = mapping.map(Arc::new);
        let done = |bytes| more(&registered, bytes);
        // SAFETY: (1, 2) are ours; the pieces keep the mapping.
        let pinned = unsafe { registrar::all(registrar, start, &ranges, mapping.as_ref(), &crew, &done) }?;
        Ok(Self { blocks: spec.blocks, blocks_per_extent: chunks.blocks_per_chunk, chunks: pinned })
    }

    /// Blocks of an extent; the last may have fewer.
    #[must_use]
    pub const fn blocks_per_extent(&self) -> u32 {
        self.blocks_per_extent
    }

    /// Where kernels reach each extent. The addresses of neighbours need not be adjacent, even where their memory is.
    #[must_use]
    pub fn regions(&self) -> Vec<Region> {
        self.chunks.iter().map(|chunk| Region::new(chunk.alias(), chunk.bytes() as u64)).collect()
    }

    /// What a geometry has to know of it.
    #[must_use]
    pub fn spec(&self, name: &str) -> PoolSpec {
        PoolSpec::new(name, Memory::Host, self.blocks, &self.regions()).extents_of(self.blocks_per_extent)
    }

    /// A buffer for each extent.
    pub(crate) fn into_buffers(self) -> impl Iterator<Item = Buffer> {
        // SAFETY: by the conditions of those who made it, the memory is valid and nobody else's while the piece lives; it
        // was zeroed, or initialised by others.
        self.chunks.into_iter().map(|chunk| unsafe { Buffer::pinned(chunk) })
    }
}

impl fmt::Debug for HostPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostPool({} blocks in {} extents)", self.blocks, self.chunks.len())
    }
}

/// Offsets as this machine counts them, where memory has them all.
fn size(range: Range<u64>, start: NonNull<u8>) -> Result<Range<usize>, MemoryError> {
    let out_of_memory = MemoryError::OutOfMemory { bytes: range.end, place: "host" };
    let end = usize::try_from(range.end).ok().filter(|end| start.addr().get().checked_add(*end).is_some());
    let (first, end) = usize::try_from(range.start).ok().zip(end).ok_or(out_of_memory)?;
    Ok(first..end)
}

/// A range in pieces.
fn pieces(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range.step_by(PIECE).map(move |start| start..end.min(start.saturating_add(PIECE)))
}
