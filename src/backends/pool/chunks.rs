//! Where a pool is cut into chunks.

use std::ops::Range;

use crate::error::MemoryError;

/// Bytes of a huge page.
const HUGE: u64 = 2 << 20;
/// The most chunks: each is a base address for every layer of a geometry.
const MOST_CHUNKS: u64 = 1 << 16;

/// Bytes of a page of memory: what is mapped and registered at least. 4 KiB most often, 64 KiB on some servers with ARM
/// processors.
pub(super) fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// What memory of so many bytes is made of: pages, or huge pages, so that each of these has one owner.
pub(super) fn granule(bytes: u64) -> u64 {
    if bytes < HUGE { page_bytes() } else { HUGE }
}

/// A pool's blocks, and how many of them are registered at a time.
///
/// A chunk never cuts a block, and it is what a geometry calls an *extent*: the address by which kernels reach it is its
/// own, as the addresses of neighbours need not be.
///
/// ```
/// use pagelift::backends::HostPoolSpec;
/// let spec = HostPoolSpec::new(1000, 3 << 20).chunks_of(1 << 30);
/// assert_eq!(spec.blocks_per_extent()?, 341);
/// # Ok::<(), pagelift::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostPoolSpec {
    pub(super) blocks: u32,
    pub(super) block_bytes: u64,
    chunk_bytes: u64,
    pub(super) threads: usize,
    pub(super) huge_pages: bool,
}

impl HostPoolSpec {
    /// Bytes of a chunk, at most, where nobody says: 16 GiB.
    pub const CHUNK_BYTES: u64 = 16 << 30;
    /// The most bytes that a chunk may have, 256 GiB: drivers have refused registrations of 512 GiB.
    pub const MOST_CHUNK_BYTES: u64 = 256 << 30;

    /// `blocks` blocks of `block_bytes` bytes, all layers of a block together.
    #[must_use]
    pub const fn new(blocks: u32, block_bytes: u64) -> Self {
        Self { blocks, block_bytes, chunk_bytes: Self::CHUNK_BYTES, threads: 0, huge_pages: true }
    }

    /// In chunks of at most `bytes` bytes, [`HostPoolSpec::MOST_CHUNK_BYTES`] at most. Every process that shares the pool must say the same.
    #[must_use]
    pub const fn chunks_of(mut self, bytes: u64) -> Self {
        self.chunk_bytes = bytes;
        self
    }

    /// Prepared by `threads` threads, at most 256. 0, which is the default, stands for one a processor, and no more than 16;
    /// a single one is the caller's own, unless the memory is to lie on a certain NUMA node.
    #[must_use]
    pub const fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Whether the system is asked for huge pages, as is the default. It gives them where it has them.
    #[must_use]
    pub const fn huge_pages(mut self, wanted: bool) -> Self {
        self.huge_pages = wanted;
        self
    }

    /// Blocks of a chunk of memory that is allocated for the pool; the last may have fewer.
    ///
    /// # Errors
    /// [`MemoryError::EmptyPool`], [`MemoryError::Chunks`].
    pub fn blocks_per_extent(&self) -> Result<u32, MemoryError> {
        Ok(self.padded()?.blocks_per_chunk)
    }

    /// The same of memory that lies at `address` and is registered there, as [`HostPool::register`](super::HostPool::register) does: so an
    /// engine knows how many extents there will be before anything is pinned.
    ///
    /// ```
    /// use pagelift::backends::HostPoolSpec;
    /// let spec = HostPoolSpec::new(1000, 3 << 20).chunks_of(1 << 30);
    /// let extents = 1000_u32.div_ceil(spec.blocks_per_extent_at(0x10_0000_0000)?);
    /// assert_eq!(extents, 3);
    /// # Ok::<(), pagelift::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`HostPoolSpec::blocks_per_extent`], and [`MemoryError::NoSeam`].
    pub fn blocks_per_extent_at(&self, address: u64) -> Result<u32, MemoryError> {
        Ok(self.adjacent(address)?.blocks_per_chunk)
    }

    /// Bytes of memory that is allocated for the pool, or shared: whole pages, of 2 MiB where it is that large. So is each
    /// chunk, which begins with a page.
    ///
    /// # Errors
    /// As [`HostPoolSpec::blocks_per_extent`].
    pub fn bytes(&self) -> Result<u64, MemoryError> {
        let end = self.padded()?.end();
        Ok(end.next_multiple_of(granule(end)))
    }

    /// Chunks with a gap behind each, so that all begin well.
    pub(super) fn padded(&self) -> Result<Chunks, MemoryError> {
        let blocks_per_chunk = self.most_blocks()?;
        let bytes = u64::from(blocks_per_chunk) * self.block_bytes;
        self.checked(blocks_per_chunk, bytes.next_multiple_of(granule(bytes)))
    }

    /// Chunks without gaps, of memory that begins at `address`: a chunk ends where a block and a page do.
    pub(super) fn adjacent(&self, address: u64) -> Result<Chunks, MemoryError> {
        let most = self.most_blocks()?;
        if most == self.blocks {
            return self.checked(most, u64::from(most) * self.block_bytes);
        }
        // Every so many blocks are whole pages.
        let page = page_bytes();
        let together = page >> self.block_bytes.trailing_zeros().min(page.trailing_zeros());
        let blocks = u64::from(most) / together * together;
        if blocks == 0 || !address.is_multiple_of(page) {
            return Err(MemoryError::NoSeam {
                address,
                block_bytes: self.block_bytes,
                chunk_bytes: self.chunk_bytes,
                page_bytes: page,
            });
        }
        let blocks = u32::try_from(blocks).unwrap_or(most);
        self.checked(blocks, u64::from(blocks) * self.block_bytes)
    }

    /// Blocks that a chunk has room for. Their bytes are at most [`HostPoolSpec::MOST_CHUNK_BYTES`].
    fn most_blocks(&self) -> Result<u32, MemoryError> {
        let Self { blocks, block_bytes, chunk_bytes, .. } = *self;
        if blocks == 0 || block_bytes == 0 {
            return Err(MemoryError::EmptyPool { blocks, block_bytes });
        }
        if chunk_bytes < block_bytes || chunk_bytes > Self::MOST_CHUNK_BYTES {
            return Err(self.unsuitable());
        }
        Ok(u32::try_from(chunk_bytes / block_bytes).map_or(blocks, |fit| fit.min(blocks)))
    }

    fn checked(&self, blocks_per_chunk: u32, stride: u64) -> Result<Chunks, MemoryError> {
        let chunks = Chunks { blocks: self.blocks, block_bytes: self.block_bytes, blocks_per_chunk, stride };
        // 2¹⁶ chunks of 2³⁸ bytes: nothing below overflows.
        if u64::from(chunks.count()) > MOST_CHUNKS { Err(self.unsuitable()) } else { Ok(chunks) }
    }

    fn unsuitable(&self) -> MemoryError {
        MemoryError::Chunks {
            chunk_bytes: self.chunk_bytes,
            blocks: self.blocks,
            block_bytes: self.block_bytes,
            most_bytes: Self::MOST_CHUNK_BYTES,
            most_chunks: MOST_CHUNKS,
        }
    }
}

/// Checked chunks: at least one, each of at least one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunks {
    blocks: u32,
    block_bytes: u64,
    pub blocks_per_chunk: u32,
    /// Bytes from one chunk to the next.
    stride: u64,
}

impl Chunks {
    pub const fn count(&self) -> u32 {
        self.blocks.div_ceil(self.blocks_per_chunk)
    }

    /// Offsets of each chunk's blocks.
    pub fn ranges(self) -> impl ExactSizeIterator<Item = Range<u64>> {
        (0..self.count()).map(move |chunk| {
            let before = chunk * self.blocks_per_chunk;
            let blocks = (self.blocks - before).min(self.blocks_per_chunk);
            let start = u64::from(chunk) * self.stride;
            start..start + u64::from(blocks) * self.block_bytes
        })
    }

    /// One past the last block.
    pub fn end(self) -> u64 {
        self.ranges().last().map_or(0, |range| range.end)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn chunks_hold_every_block_once_and_whole(
            blocks in 1_u32..3000, block_bytes in 1_u64..50_000, room in 1_u64..4_000_000,
            address in prop_oneof![Just(page_bytes()), 1_u64..10_000],
        ) {
            let spec = HostPoolSpec::new(blocks, block_bytes).chunks_of(room);
            let cuts = [(spec.padded(), 0), (spec.adjacent(address), address)];
            for (chunks, address) in cuts {
                let Ok(chunks) = chunks else { continue };
                let ranges: Vec<_> = chunks.ranges().collect();
                let full = u64::from(chunks.blocks_per_chunk) * block_bytes;
                let alignment = if address == 0 { granule(full) } else { page_bytes() };
                let mut held = 0;
                for (index, range) in ranges.iter().enumerate() {
                    let bytes = range.end - range.start;
                    prop_assert!(bytes <= room && bytes.is_multiple_of(block_bytes) && bytes > 0);
                    prop_assert!(index == 0 || (address + range.start).is_multiple_of(alignment));
                    prop_assert!(index == 0 || ranges[index - 1].end <= range.start);
                    prop_assert!(bytes == full || index + 1 == ranges.len());
                    held += bytes / block_bytes;
                }
                prop_assert_eq!(held, u64::from(blocks));
            }
            if let Ok(chunks) = spec.adjacent(address) {
                // No gap: it is somebody else's memory.
                prop_assert_eq!(chunks.end(), u64::from(blocks) * block_bytes);
            }
        }
    }

    #[test]
    fn a_pool_of_a_tebibyte_is_cut_well_under_512_gib() {
        let spec = HostPoolSpec::new(1 << 17, 8 << 20);
        let chunks = spec.padded().unwrap();
        assert_eq!((chunks.count(), chunks.end()), (64, 1 << 40));
        assert!(spec.chunks_of(512 << 30).padded().is_err());
    }

    #[test]
    fn memory_without_a_page_between_blocks_is_registered_at_once_or_not() {
        let (spec, page) = (HostPoolSpec::new(10, 1000), page_bytes());
        assert_eq!(spec.adjacent(77).unwrap().count(), 1);
        let refused = spec.chunks_of(5000).adjacent(page).unwrap_err();
        assert!(matches!(refused, MemoryError::NoSeam { block_bytes: 1000, .. }), "{refused}");
        let spec = HostPoolSpec::new(10, page).chunks_of(2 * page);
        assert!(spec.adjacent(77).is_err());
        assert_eq!(spec.adjacent(2 * page).unwrap().count(), 5);
    }

    #[test]
    fn absurd_numbers_are_refused() {
        for spec in [
            HostPoolSpec::new(0, 1),
            HostPoolSpec::new(1, 0),
            HostPoolSpec::new(2, 4096).chunks_of(4095),
            HostPoolSpec::new(u32::MAX, 1).chunks_of(1),
            HostPoolSpec::new(u32::MAX, u64::MAX),
            HostPoolSpec::new(1, 1).chunks_of(u64::MAX),
        ] {
            assert!(spec.bytes().is_err() && spec.adjacent(0).is_err(), "{spec:?}");
        }
    }
}
