//! The memory of a machine: what is there, and at which addresses.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ptr::{NonNull, null_mut};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::words::{ALREADY_REGISTERED, INVALID_VALUE, NOT_REGISTERED, OUT_OF_MEMORY};

/// What new memory holds, and what is left of old one.
const RUBBISH: u8 = 0xCD;

/// Allocations begin at multiples of this, as a GPU's do.
const ALIGNMENT: usize = 512;

/// One piece of memory.
struct Piece {
    bytes: usize,
    keep: Keep,
}

/// Where a piece comes from.
enum Keep {
    /// Memory of a GPU, by its context.
    Device { context: usize, start: NonNull<u8>, layout: Layout },
    /// Host memory that was allocated here: seen by the host at `start`, by devices at another address.
    Host { start: NonNull<c_void>, alias: NonNull<c_void>, mapped: usize },
    /// Somebody else's.
    Registered,
}

/// All memory, by the addresses that kernels see it at.
#[derive(Default)]
pub(crate) struct Memory {
    pieces: BTreeMap<u64, Piece>,
    /// The aliases of what was allocated on the host.
    by_host: BTreeMap<u64, u64>,
}

// SAFETY: it is plain memory, which only the machine's owner touches.
unsafe impl Send for Memory {}

/// The piece that an address is in.
#[derive(Clone, Copy)]
pub(crate) struct Around {
    pub host: bool,
    /// The context that it was allocated in, where that is known.
    pub context: Option<usize>,
    pub start: u64,
    pub bytes: usize,
}

/// How many pieces of each kind there are.
pub(crate) struct Count {
    pub device: usize,
    pub host: usize,
    pub registered: usize,
}

impl Memory {
    pub fn count(&self) -> Count {
        let count = |of: fn(&Keep) -> bool| self.pieces.values().filter(|piece| of(&piece.keep)).count();
        Count {
            device: count(|keep| matches!(keep, Keep::Device { .. })),
            host: count(|keep| matches!(keep, Keep::Host { .. })),
            registered: count(|keep| matches!(keep, Keep::Registered)),
        }
    }

    /// Whether a range lies in one piece that a context reaches.
    pub fn holds(&self, address: u64, bytes: usize, from: usize) -> bool {
        let Some((start, piece)) = self.pieces.range(..=address).next_back() else { return false };
        let inside = (address - start).checked_add(bytes as u64).is_some_and(|end| end <= piece.bytes as u64);
        inside && !matches!(piece.keep, Keep::Device { context, .. } if context != from)
    }

    /// The piece that an address of the host's or of a device is in.
    pub fn around(&self, address: u64) -> Option<Around> {
        let own = self.pieces.range(..=address).next_back().map(|(start, piece)| (*start, piece));
        let host = self.by_host.range(..=address).next_back();
        let host = host.and_then(|(start, alias)| Some((*start, self.pieces.get(alias)?)));
        let mut all = [own, host].into_iter().flatten();
        let (start, piece) = all.find(|(start, piece)| address - start < piece.bytes as u64)?;
        let context = match piece.keep {
            Keep::Device { context, .. } => Some(context),
            Keep::Host { .. } | Keep::Registered => None,
        };
        Some(Around { host: context.is_none(), context, start, bytes: piece.bytes })
    }

    /// Whether the host's address lies in memory that copies may read when they run.
    pub fn is_pinned(&self, host: u64, bytes: usize) -> bool {
        let inside = |(start, length): (u64, usize)| {
            (host - start).checked_add(bytes as u64).is_some_and(|end| end <= length as u64)
        };
        let allocated = self.by_host.range(..=host).next_back();
        let allocated = allocated.and_then(|(start, alias)| Some((*start, self.pieces.get(alias)?.bytes)));
        let registered = self.pieces.range(..=host).next_back();
        let registered = registered
            .filter(|(_, piece)| matches!(piece.keep, Keep::Registered))
            .map(|(start, piece)| (*start, piece.bytes));
        allocated.into_iter().chain(registered).any(inside)
    }

    pub fn allocate_on(&mut self, context: usize, bytes: usize) -> Result<u64, c_int> {
        if bytes == 0 {
            return Err(INVALID_VALUE);
        }
        let layout = Layout::from_size_align(bytes, ALIGNMENT).map_err(|_| OUT_OF_MEMORY)?;
        // SAFETY: the layout has at least one byte.
        let start = NonNull::new(unsafe { alloc(layout) }).ok_or(OUT_OF_MEMORY)?;
        // SAFETY: so many bytes were just allocated.
        unsafe { start.write_bytes(RUBBISH, bytes) };
        let address = start.as_ptr().expose_provenance() as u64;
        self.pieces.insert(address, Piece { bytes, keep: Keep::Device { context, start, layout } });
        Ok(address)
    }

    pub fn free_on(&mut self, context: usize, address: u64) -> Result<(), c_int> {
        match self.pieces.get(&address) {
            Some(Piece { keep: Keep::Device { context: owner, .. }, .. }) if *owner == context => {
                self.pieces.remove(&address);
                Ok(())
            }
            _ => Err(INVALID_VALUE),
        }
    }

    /// Frees what a context has, which is destroyed.
    pub fn forget(&mut self, gone: usize) {
        let stays = |piece: &Piece| !matches!(piece.keep, Keep::Device { context, .. } if context == gone);
        self.pieces.retain(|_, piece| stays(piece));
    }

    /// Allocates host memory that the host and devices see at different addresses.
    pub fn allocate_host(&mut self, bytes: usize) -> Result<*mut c_void, c_int> {
        if bytes == 0 {
            return Err(INVALID_VALUE);
        }
        let mapped = bytes.next_multiple_of(4096);
        let file = memfd_create("fake-driver", MemfdFlags::CLOEXEC).map_err(|_| OUT_OF_MEMORY)?;
        ftruncate(&file, mapped as u64).map_err(|_| OUT_OF_MEMORY)?;
        let map = || {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: a new mapping, at an address that the system chooses, of a file that is large enough.
            let start = unsafe { mmap(null_mut(), mapped, protection, MapFlags::SHARED, &file, 0) };
            NonNull::new(start.map_err(|_| OUT_OF_MEMORY)?).ok_or(OUT_OF_MEMORY)
        };
        let (start, alias) = (map()?, map()?);
        // SAFETY: so many bytes were just mapped.
        unsafe { start.cast::<u8>().write_bytes(RUBBISH, bytes) };
        let address = alias.as_ptr().expose_provenance() as u64;
        let host = start.as_ptr().expose_provenance() as u64;
        self.by_host.insert(host, address);
        self.pieces.insert(address, Piece { bytes, keep: Keep::Host { start, alias, mapped } });
        Ok(start.as_ptr())
    }

    pub fn free_host(&mut self, host: u64) -> Result<(), c_int> {
        let alias = self.by_host.remove(&host).ok_or(INVALID_VALUE)?;
        self.pieces.remove(&alias);
        Ok(())
    }

    /// Registers somebody else's memory, which devices see where the host does.
    pub fn register(&mut self, host: u64, bytes: usize) -> Result<(), c_int> {
        let end = host.checked_add(bytes as u64).filter(|_| host != 0 && bytes != 0).ok_or(INVALID_VALUE)?;
        let before = self.pieces.range(..end).next_back();
        if before.is_some_and(|(start, piece)| start + piece.bytes as u64 > host) || self.is_pinned(host, 1) {
            return Err(ALREADY_REGISTERED);
        }
        self.pieces.insert(host, Piece { bytes, keep: Keep::Registered });
        Ok(())
    }

    pub fn unregister(&mut self, host: u64) -> Result<(), c_int> {
        match self.pieces.get(&host) {
            Some(Piece { keep: Keep::Registered, .. }) => {
                self.pieces.remove(&host);
                Ok(())
            }
            _ => Err(NOT_REGISTERED),
        }
    }

    /// Where devices see an address of pinned host memory.
    pub fn alias(&self, host: u64) -> Result<u64, c_int> {
        if !self.is_pinned(host, 0) {
            return Err(INVALID_VALUE);
        }
        let allocated = self.by_host.range(..=host).next_back();
        let inside = allocated.filter(|(start, alias)| {
            self.pieces.get(*alias).is_some_and(|piece| host - *start <= piece.bytes as u64)
        });
        Ok(inside.map_or(host, |(start, alias)| alias + (host - start)))
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        match self.keep {
            Keep::Device { start, layout, .. } => {
                // SAFETY: it was allocated with this layout, and goes once. Who still reads it is to notice.
                unsafe {
                    start.write_bytes(RUBBISH, self.bytes);
                    dealloc(start.as_ptr(), layout);
                }
            }
            Keep::Host { start, alias, mapped } => {
                for mapping in [start, alias] {
                    // SAFETY: it was mapped with this length, and goes once.
                    let _ = unsafe { munmap(mapping.as_ptr(), mapped) };
                }
            }
            Keep::Registered => {}
        }
    }
}
