//! Memory mapped from the system, and pages made present.

use std::ffi::c_void;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

use super::chunks::{granule, page_bytes};
use crate::error::{Error, MemoryError};

/// Pages of zeros, or of shared memory, that are unmapped when this goes.
#[derive(Debug)]
pub(crate) struct Mapping {
    /// What was mapped.
    base: NonNull<c_void>,
    room: usize,
    /// Where the pool begins in it.
    start: NonNull<u8>,
}

// SAFETY: it is plain memory, unmapped from any thread.
unsafe impl Send for Mapping {}
// SAFETY: as above: nothing is read or written through it.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Zeroed memory, from a multiple of 2 MiB on where it is that large.
    pub fn anonymous(bytes: u64, huge_pages: bool) -> Result<Self, Error> {
        let out_of_memory = || MemoryError::OutOfMemory { bytes, place: "host" };
        let (page, skip) = (page_bytes() as usize, granule(bytes) as usize);
        let size = usize::try_from(bytes).map_err(|_| out_of_memory())?;
        let room = size.checked_add(skip.saturating_sub(page)).ok_or_else(out_of_memory)?;
        // SAFETY: the system chooses an address where nothing is.
        let base = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            mmap_anonymous(std::ptr::null_mut(), room, access, MapFlags::PRIVATE)
        };
        let base = NonNull::new(base.map_err(|_| out_of_memory())?).ok_or_else(out_of_memory)?;
        let skipped = base.addr().get().wrapping_neg() & (skip - 1);
        // SAFETY: it begins at a page, so at most `skip - page` bytes are skipped, which come on top of `size`.
        let start = unsafe { base.cast::<u8>().add(skipped) };
        Ok(Self { base, room, start }.advised(size, huge_pages))
    }

    /// The first bytes of shared memory.
    ///
    /// # Safety
    /// 1. The file keeps so many bytes while this lives: behind its end an access is a fault.
    pub unsafe fn shared(file: BorrowedFd<'_>, bytes: u64, huge_pages: bool) -> Result<Self, Error> {
        let out_of_memory = || MemoryError::OutOfMemory { bytes, place: "host" };
        let size = usize::try_from(bytes).map_err(|_| out_of_memory())?;
        // SAFETY: the system chooses an address where nothing is.
        let base = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            mmap(std::ptr::null_mut(), size, access, MapFlags::SHARED, file, 0)
        };
        let base = base.map_err(|error| failed("mmap", error))?;
        let base = NonNull::new(base).ok_or_else(out_of_memory)?;
        Ok(Self { base, room: size, start: base.cast() }.advised(size, huge_pages))
    }

    /// Asks for huge pages. Where there are none, small ones do.
    fn advised(self, bytes: usize, huge_pages: bool) -> Self {
        if huge_pages {
            // SAFETY: the pages are ours, and keep what is in them.
            let _ = unsafe { madvise(self.start.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
        }
        self
    }

    pub const fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped here, and goes once, when nothing is registered in it and no buffer lends it.
        let _ = unsafe { munmap(self.base.as_ptr(), self.room) };
    }
}

/// Makes all pages of memory present and writable, on the node of the calling thread where they were not yet. What is in
/// them stays.
///
/// # Safety
/// 1. `start..start + bytes` is valid for reads and writes, and only atomically touched meanwhile.
pub(super) unsafe fn populate(start: NonNull<u8>, bytes: usize) -> Result<(), Error> {
    let ahead = start.addr().get() % page_bytes() as usize;
    // The page that it begins in may be another's too: its content stays.
    let first = start.as_ptr().wrapping_sub(ahead);
    // SAFETY: the pages are mapped (1), and keep what is in them.
    match unsafe { madvise(first.cast(), bytes + ahead, Advice::LinuxPopulateWrite) } {
        Ok(()) => Ok(()),
        // Before Linux 5.14.
        Err(Errno::INVAL | Errno::NOSYS) => {
            // SAFETY: (1) is ours.
            unsafe { touch(start, bytes) };
            Ok(())
        }
        Err(Errno::NOMEM) => Err(MemoryError::OutOfMemory { bytes: bytes as u64, place: "host" }.into()),
        Err(error) => Err(failed("madvise", error)),
    }
}

/// Writes one byte of each page, which stays as it is.
///
/// # Safety
/// 1. As [`populate`].
unsafe fn touch(start: NonNull<u8>, bytes: usize) {
    let page = page_bytes() as usize;
    let ahead = start.addr().get() % page;
    let pages = (0..bytes.saturating_add(ahead)).step_by(page);
    for at in pages.map(|page| page.saturating_sub(ahead)) {
        // SAFETY: `at` is less than `bytes`, so valid (1), and a byte is always aligned.
        let byte = unsafe { AtomicU8::from_ptr(start.as_ptr().add(at)) };
        let found = byte.load(Ordering::Relaxed);
        // Where another thread has written it meanwhile, the page is there.
        let _ = byte.compare_exchange(found, found, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// What the system said of a call.
pub(super) fn failed(call: &'static str, error: impl std::fmt::Display) -> Error {
    MemoryError::System { call, cause: error.to_string() }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_made_present_and_keep_their_bytes() {
        let mapping = Mapping::anonymous(5 << 20, true).unwrap();
        let start = mapping.start().as_ptr();
        assert!(start.addr().is_multiple_of(2 << 20));
        // SAFETY: the bytes are mapped, and ours.
        let bytes = unsafe { std::slice::from_raw_parts_mut(start, 5 << 20) };
        assert!(bytes.iter().all(|byte| *byte == 0));
        bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at % 251) as u8);
        for populate in [populate, |start, bytes| {
            // SAFETY: (1) as below.
            unsafe { touch(start, bytes) };
            Ok(())
        }] {
            // SAFETY: (1) they are mapped, and nobody else's.
            unsafe { populate(mapping.start().add(4097), 100_000) }.unwrap();
        }
        // SAFETY: as above.
        let bytes = unsafe { std::slice::from_raw_parts(start, 5 << 20) };
        assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == (at % 251) as u8));
        assert!(Mapping::anonymous(100, false).is_ok() && Mapping::anonymous(u64::MAX - 5, false).is_err());
    }
}
