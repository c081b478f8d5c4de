//! A piece of memory that kernels reach by address.

use std::alloc::{self, Layout};
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pagelift_planner::geometry::{Memory, Region};

use super::pool::{Pinned, Registrar};
use crate::error::{BackendError, Error, MemoryError};

/// Allocations begin at multiples of this: registration works in pages, and vector moves need 16.
const ALIGNMENT: usize = 4096;

/// Waits for launches that have returned before they have run.
///
/// # Safety
/// Registries lend bytes, and let memory go, where this says that nothing touches them any more.
///
/// 1. `finish` succeeds only when none of the launches on the stream touches memory any more; it gives
///    [`BackendError::ContextLost`] or [`BackendError::ContextGone`] only where none ever will again.
/// 2. `is_finished` says so only where `finish` would succeed.
/// 3. Two values with one `stream` wait for the same launches.
pub unsafe trait Finish: fmt::Debug + Send + Sync {
    /// Which stream they are on: its GPU, and its handle. Whoever has the same waits for the same.
    fn stream(&self) -> (u32, u64);

    /// Waits until none of them touches memory any more.
    ///
    /// # Errors
    /// [`BackendError::ContextLost`] or [`BackendError::ContextGone`] where a fault has ended them; any other where it cannot
    /// wait, so that they may still run.
    fn finish(&self) -> Result<(), BackendError>;

    /// Whether none of them touches memory any more, as far as can be told without waiting.
    fn is_finished(&self) -> bool;
}

/// Whose kernels reach a piece of memory, or which memory a backend's kernels reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Memory of this process; kernels that run on its CPU.
    Process,
    /// Host memory that is mapped for every GPU.
    Mapped,
    /// Memory of one GPU, by its ordinal; its kernels.
    Gpu(u32),
}

/// Memory that no Rust reference reaches.
pub(crate) trait DeviceOwner: fmt::Debug + Send + Sync {
    /// The GPU's ordinal.
    fn gpu(&self) -> u32;

    /// Reads bytes from offset `at` on. They are inside the memory, and no launch writes them any more.
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), BackendError>;

    /// Writes bytes from offset `at` on, and waits until they are there. They are inside the memory, and no launch touches
    /// them any more.
    fn write(&self, at: u64, from: &[u8]) -> Result<(), BackendError>;

    /// As [`Backend::settle_remote_writes`](super::Backend::settle_remote_writes), of the GPU.
    fn settle_remote_writes(&self) -> Result<(), BackendError>;
}

/// Whose the memory of a buffer is.
#[derive(Debug)]
enum Keep {
    /// Allocated here: what to free, and with what.
    Heap(NonNull<u8>, Layout),
    /// Somebody else's.
    Adopted,
    /// Host memory that is mapped for GPUs, and unmapped when this goes.
    Mapped { _owner: Box<dyn fmt::Debug + Send + Sync> },
    /// A piece of a host pool.
    Pinned(Pinned),
    /// Memory of a GPU.
    Device(Box<dyn DeviceOwner>),
}

/// Zeroed memory of its own, or memory of somebody else's.
///
/// Like a boxed slice it lends its bytes by `&self` and `&mut self`, where the host reaches them; unlike one, kernels may
/// also write it by address, while a launch borrows it exclusively.
pub struct Buffer {
    // Invariant: `start` is valid for reads and writes of `bytes` bytes for as long as this value lives, its provenance
    // is exposed, and nobody but this value and the launches it is lent to touches them. At `address` kernels reach the
    // same bytes.
    start: Option<NonNull<u8>>,
    address: u64,
    bytes: usize,
    keep: Keep,
}

/// Memory that something may still touch, for as long as the process runs.
static KEPT: Mutex<Vec<Buffer>> = Mutex::new(Vec::new());

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
        let address = start.as_ptr().expose_provenance() as u64;
        Ok(Self { start: Some(start), address, bytes: size, keep: Keep::Heap(allocated, layout) })
    }

    /// Adopts host memory that somebody else made, and will free. A GPU reaches such memory only where it is registered:
    /// see [`Cuda::register`](super::Cuda::register), and [`Cuda::adopt`](super::Cuda::adopt) for memory of a GPU.
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
        let address = start.expose_provenance() as u64;
        let start = NonNull::new(start)?;
        Some(Self { start: Some(start), address, bytes, keep: Keep::Adopted })
    }

    /// Host memory of a backend's, which kernels see at `address`.
    ///
    /// # Safety
    /// 1. `start` is valid for reads and writes of `bytes` initialised bytes until `owner` is dropped, and nobody else
    ///    touches them but launches that this buffer is lent to.
    pub(crate) unsafe fn mapped(
        start: NonNull<u8>,
        address: u64,
        bytes: usize,
        owner: Box<dyn fmt::Debug + Send + Sync>,
    ) -> Self {
        let _ = start.as_ptr().expose_provenance();
        Self { start: Some(start), address, bytes, keep: Keep::Mapped { _owner: owner } }
    }

    /// A piece of a host pool.
    ///
    /// # Safety
    /// 1. It is valid for reads and writes of initialised bytes until it is dropped, and nobody else touches them but
    ///    launches that this buffer is lent to, or as an ordering that both sides keep allows.
    pub(crate) unsafe fn pinned(piece: Pinned) -> Self {
        let (start, address, bytes) = (piece.start(), piece.alias(), piece.bytes());
        let _ = start.as_ptr().expose_provenance();
        Self { start: Some(start), address, bytes, keep: Keep::Pinned(piece) }
    }

    /// Somebody else's host memory, registered where it lies.
    ///
    /// # Safety
    /// 1. As [`Buffer::adopt`].
    /// 2. Where it is registered already, it stays so while this lives.
    pub(crate) unsafe fn registered(
        registrar: &Arc<dyn Registrar>,
        start: NonNull<u8>,
        bytes: usize,
    ) -> Result<Self, Error> {
        // SAFETY: (1, 2) are ours.
        let piece = unsafe { Pinned::new(registrar, start, bytes, None) }?;
        // SAFETY: (1) is ours.
        Ok(unsafe { Self::pinned(piece) })
    }

    /// Device memory of a backend's.
    pub(crate) fn on_device(address: u64, bytes: usize, owner: Box<dyn DeviceOwner>) -> Self {
        Self { start: None, address, bytes, keep: Keep::Device(owner) }
    }

    /// Never frees it: something may still touch it when it is gone.
    pub(crate) fn keep(&mut self) {
        let keep = std::mem::replace(&mut self.keep, Keep::Adopted);
        let kept = Self { start: None, address: self.address, bytes: self.bytes, keep };
        KEPT.lock().unwrap_or_else(PoisonError::into_inner).push(kept);
    }

    /// Where it lies, as kernels see it.
    #[must_use]
    pub fn region(&self) -> Region {
        Region::new(self.address(), self.bytes as u64)
    }

    /// Its first address, as kernels see it.
    pub(crate) const fn address(&self) -> u64 {
        self.address
    }

    /// How many bytes it has.
    pub(crate) const fn len(&self) -> usize {
        self.bytes
    }

    /// Where the host reaches it.
    pub(crate) fn host_region(&self) -> Option<Region> {
        self.start.map(|start| Region::new(start.as_ptr().expose_provenance() as u64, self.bytes as u64))
    }

    /// Its bytes, where the host reaches them.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        // SAFETY: by the invariant they are valid and initialised, and nobody writes them while `self` is borrowed.
        self.start.map(|start| unsafe { std::slice::from_raw_parts(start.as_ptr(), self.bytes) })
    }

    /// Its bytes, to be written, where the host reaches them.
    pub(crate) fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        // SAFETY: by the invariant they are valid and initialised, and nobody else touches them while `self` is
        // borrowed exclusively.
        self.start.map(|start| unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), self.bytes) })
    }

    /// Whose it is, where it is memory of a GPU.
    pub(crate) fn device_owner(&self) -> Option<&dyn DeviceOwner> {
        match &self.keep {
            Keep::Device(owner) => Some(&**owner),
            Keep::Heap(..) | Keep::Adopted | Keep::Mapped { .. } | Keep::Pinned(_) => None,
        }
    }

    /// Whether kernels that reach `by` reach it.
    pub(crate) fn is_reached(&self, by: Reach) -> bool {
        let of_whom = match &self.keep {
            Keep::Heap(..) | Keep::Adopted => Reach::Process,
            Keep::Mapped { .. } => Reach::Mapped,
            Keep::Pinned(piece) => piece.reach(),
            Keep::Device(owner) => Reach::Gpu(owner.gpu()),
        };
        match (of_whom, by) {
            (Reach::Mapped, Reach::Gpu(_)) => true,
            // The CPU's kernels take addresses as they are.
            (Reach::Mapped, Reach::Process) => {
                self.start.is_some_and(|start| start.as_ptr().addr() as u64 == self.address)
            }
            (of_whom, by) => of_whom == by,
        }
    }

    /// Reads bytes from offset `at` on, wherever they lie.
    pub(crate) fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Error> {
        let range = self.range(at, into.len())?;
        match (&self.keep, self.start) {
            (Keep::Device(owner), _) => owner.read(at, into)?,
            (_, None) => {}
            // SAFETY: the range is inside, and by the invariant its bytes are valid and initialised. No reference is made of them,
            // for the owner of adopted memory may be writing others of the region; nobody writes these.
            (_, Some(start)) => unsafe {
                std::ptr::copy_nonoverlapping(start.as_ptr().add(range.start), into.as_mut_ptr(), into.len());
            },
        }
        Ok(())
    }

    /// Writes bytes from offset `at` on, wherever they lie.
    pub(crate) fn write(&mut self, at: u64, from: &[u8]) -> Result<(), Error> {
        let range = self.range(at, from.len())?;
        match (&self.keep, self.start) {
            (Keep::Device(owner), _) => owner.write(at, from)?,
            (_, None) => {}
            // SAFETY: as in `read`; nobody touches the bytes of this range, for `self` is borrowed exclusively.
            (_, Some(start)) => unsafe {
                std::ptr::copy_nonoverlapping(from.as_ptr(), start.as_ptr().add(range.start), from.len());
            },
        }
        Ok(())
    }

    /// The range of `length` bytes from `at` on, where it lies inside.
    fn range(&self, at: u64, length: usize) -> Result<Range<usize>, MemoryError> {
        let outside = MemoryError::Outside { at, length: length as u64, bytes: self.bytes as u64 };
        let start = usize::try_from(at).map_err(|_| outside.clone())?;
        let end = start.checked_add(length).filter(|end| *end <= self.bytes).ok_or(outside)?;
        Ok(start..end)
    }

    /// Loads the `u64` at `offset` with acquire ordering; `None` where no aligned one lies there. Kernels store such
    /// words while the buffer is shared.
    pub(crate) fn load_acquire(&self, offset: usize) -> Option<u64> {
        let fits = offset.checked_add(8).is_some_and(|end| end <= self.bytes);
        let start = self.start.filter(|_| fits)?;
        // SAFETY: `offset` is inside the buffer.
        let word = unsafe { start.as_ptr().add(offset) }.cast::<u64>();
        // SAFETY: by the invariant the word is valid; it is aligned; kernels store it atomically.
        word.is_aligned().then(|| unsafe { AtomicU64::from_ptr(word) }.load(Ordering::Acquire))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Keep::Heap(allocated, layout) = &self.keep {
            // SAFETY: it was allocated with this layout, and goes once.
            unsafe { alloc::dealloc(allocated.as_ptr(), *layout) };
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({:#x}, {} bytes)", self.address(), self.bytes)
    }
}
