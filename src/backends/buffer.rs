//! A piece of memory that kernels reach by address.

use std::alloc::{self, Layout};
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use pagelift_planner::geometry::{Memory, Region};

use crate::error::{Error, MemoryError};

/// Allocations begin at multiples of this: registration works in pages, and vector moves need 16.
const ALIGNMENT: usize = 4096;

/// Zeroed memory of its own, or memory of somebody else's.
///
/// Like a boxed slice it lends its bytes by `&self` and `&mut self`; unlike one, kernels may also write it by address,
/// while a launch borrows it exclusively.
pub struct Buffer {
    // Invariant: `start` is valid for reads and writes of `bytes` bytes for as long as this value lives, its provenance
    // is exposed, and nobody but this value and the launches it is lent to touches them.
    start: NonNull<u8>,
    bytes: usize,
    /// What to free, and with what; `None` where it was adopted.
    allocation: Option<(NonNull<u8>, Layout)>,
}

// SAFETY: a buffer owns its bytes, or has been promised them; it hands them out by the rules of references.
unsafe impl Send for Buffer {}
// SAFETY: as above: `&Buffer` only reads.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Allocates `bytes` zeroed bytes of ordinary memory.
    pub(crate) fn zeroed(place: Memory, bytes: u64) -> Result<Self, Error> {
        let out_of_memory = || MemoryError::OutOfMemory { bytes, place: place.name() };
        let size = usize::try_from(bytes).map_err(|_| out_of_memory())?;
        // Where the allocator is asked for pages, it zeroes what the system has zeroed already: one thread, and all of it.
        // So this asks for bytes, and for room to begin at a page.
        let room = size.checked_add(ALIGNMENT).ok_or_else(out_of_memory)?;
        let layout = Layout::array::<u8>(room).map_err(|_| out_of_memory())?;
        // SAFETY: the layout has at least one byte.
        let allocated = NonNull::new(unsafe { alloc::alloc_zeroed(layout) }).ok_or_else(out_of_memory)?;
        let skipped = allocated.addr().get().wrapping_neg() & (ALIGNMENT - 1);
        // SAFETY: less than `ALIGNMENT` bytes are skipped, and that many come on top of `size`.
        let start = unsafe { allocated.add(skipped) };
        let _ = start.as_ptr().expose_provenance();
        Ok(Self { start, bytes: size, allocation: Some((allocated, layout)) })
    }

    /// Adopts memory that somebody else made, and will free.
    ///
    /// ```
    /// use pagelift::backends::Buffer;
    /// let mut engines = vec![0u8; 64];
    /// // SAFETY: (1) the vector outlives the buffer, and (2) is not touched while that lives.
    /// let buffer = unsafe { Buffer::adopt(engines.as_mut_ptr(), engines.len()) }.expect("not null");
    /// assert_eq!(buffer.region().bytes(), 64);
    /// ```
    ///
    /// Returns `None` for a null address.
    ///
    /// # Safety
    /// 1. `start` is valid for reads and writes of `bytes` initialised bytes while the buffer lives.
    /// 2. Meanwhile nobody else touches them, except as an ordering that both sides keep allows.
    #[must_use]
    pub unsafe fn adopt(start: *mut u8, bytes: usize) -> Option<Self> {
        let _ = start.expose_provenance();
        NonNull::new(start).map(|start| Self { start, bytes, allocation: None })
    }

    /// Where it lies, as kernels see it.
    #[must_use]
    pub fn region(&self) -> Region {
        Region::new(self.address(), self.bytes as u64)
    }

    /// Its first address, as kernels see it.
    pub(crate) fn address(&self) -> u64 {
        self.start.as_ptr().addr() as u64
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: by the invariant they are valid and initialised, and nobody writes them while `self` is borrowed.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    /// Its bytes, to be written.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: by the invariant they are valid and initialised, and nobody else touches them while `self` is
        // borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }

    /// Loads the `u64` at `offset` with acquire ordering; `None` where no aligned one lies there. Kernels store such
    /// words while the buffer is shared.
    pub(crate) fn load_acquire(&self, offset: usize) -> Option<u64> {
        let fits = offset.checked_add(8).is_some_and(|end| end <= self.bytes);
        // SAFETY: `offset` is inside the buffer.
        let word = fits.then(|| unsafe { self.start.as_ptr().add(offset) }.cast::<u64>())?;
        // SAFETY: by the invariant the word is valid; it is aligned; kernels store it atomically.
        word.is_aligned().then(|| unsafe { AtomicU64::from_ptr(word) }.load(Ordering::Acquire))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some((allocated, layout)) = self.allocation {
            // SAFETY: it was allocated with this layout, and goes once.
            unsafe { alloc::dealloc(allocated.as_ptr(), layout) };
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({:#x}, {} bytes)", self.address(), self.bytes)
    }
}
