//! Host memory that kernels reach: registered piece by piece, and given back piece by piece.

use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use super::chunks::page_bytes;
use super::crew::Crew;
use super::mapping::Mapping;
use crate::backends::Reach;
use crate::error::{BackendError, Error, MemoryError};

/// `CUDA_ERROR_INVALID_VALUE`.
const INVALID_VALUE: i32 = 1;
/// `CUDA_ERROR_OUT_OF_MEMORY`.
const OUT_OF_MEMORY: i32 = 2;
/// `CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED`.
const ALREADY_REGISTERED: i32 = 712;

/// How host memory becomes memory that a backend's kernels reach, and stops being so.
///
/// The methods have the bodies of a backend whose kernels run on the CPU: they reach everything, where it lies.
///
/// # Safety
/// Pools tell geometries and registries what this says.
///
/// 1. Once memory is registered, the kernels that `reach` names read and write its bytes, and no others, from its `alias` on, until it
///    is unregistered.
/// 2. `register` and `unregister` touch no other memory's registration, and where `register` fails nothing is registered.
/// 3. What `registered` tells is registered so that (1) holds for it, for as long as those who did it keep it so.
pub unsafe trait Registrar: fmt::Debug + Send + Sync {
    /// Whose kernels reach registered memory.
    fn reach(&self) -> Reach {
        Reach::Process
    }

    /// The NUMA node that the memory should lie on, where it matters.
    fn node(&self) -> Option<u32> {
        None
    }

    /// Pins memory, and maps it for the kernels.
    ///
    /// # Safety
    /// 1. The memory is valid for reads and writes until it is unregistered.
    ///
    /// # Errors
    /// Those of the driver; then nothing was registered.
    unsafe fn register(&self, _start: NonNull<u8>, _bytes: usize) -> Result<(), BackendError> {
        Ok(())
    }

    /// Undoes [`Registrar::register`].
    ///
    /// # Safety
    /// 1. It was registered from `start` on by this value, and not unregistered since.
    /// 2. No launch uses it any more.
    ///
    /// # Errors
    /// Those of the driver; then the memory may still be pinned.
    unsafe fn unregister(&self, _start: NonNull<u8>) -> Result<(), BackendError> {
        Ok(())
    }

    /// The address by which kernels reach registered memory.
    ///
    /// # Errors
    /// Those of the driver.
    fn alias(&self, start: NonNull<u8>) -> Result<u64, BackendError> {
        Ok(start.as_ptr().expose_provenance() as u64)
    }

    /// What of the addresses from `at` on, up to `end` at most, one registration holds, where one holds `at`: whoever made
    /// it. Only the driver looks at the addresses.
    ///
    /// # Errors
    /// Those of the driver.
    fn registered(&self, _at: usize, _end: usize) -> Result<Option<usize>, BackendError> {
        Ok(None)
    }
}

/// Memory of this process, for kernels on its CPU.
#[derive(Debug)]
pub(crate) struct Process;

// SAFETY: (1) kernels on the CPU take addresses as they are; (2, 3) there is nothing to register.
unsafe impl Registrar for Process {}

/// A piece of memory that kernels reach.
#[derive(Debug)]
pub(crate) struct Pinned {
    registrar: Arc<dyn Registrar>,
    start: NonNull<u8>,
    bytes: usize,
    /// What kernels reach it by.
    alias: u64,
    /// Registered here, and not by somebody who was there before.
    ours: bool,
    /// What it is a piece of, where that is ours.
    mapping: Option<Arc<Mapping>>,
}

// SAFETY: it is plain memory, registered and unregistered from any thread.
unsafe impl Send for Pinned {}
// SAFETY: as above: nothing is read or written through it.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// Registers a piece, or recognises that it is registered already; not so memory that was mapped just now.
    ///
    /// # Safety
    /// 1. `start` is valid for reads and writes of `bytes` bytes while this lives; those of `mapping` are, where there is
    ///    one.
    /// 2. Where it is registered already, it stays so while this lives.
    pub unsafe fn new(
        registrar: &Arc<dyn Registrar>,
        start: NonNull<u8>,
        bytes: usize,
        mapping: Option<Arc<Mapping>>,
    ) -> Result<Self, Error> {
        let range = start.addr().get()..start.addr().get().saturating_add(bytes);
        let ours = match registrar.registered(range.start, range.end)? {
            Some(_) if mapping.is_some() => {
                let [start, end] = [range.start, range.end].map(|at| at as u64);
                return Err(MemoryError::StaleRegistration { start, end }.into());
            }
            Some(end) if end >= range.end => false,
            Some(end) => return Err(in_part(&range, range.start..end).into()),
            None => {
                // SAFETY: (1) is ours.
                match unsafe { registrar.register(start, bytes) } {
                    Ok(()) => true,
                    Err(error @ BackendError::Driver { code: INVALID_VALUE | ALREADY_REGISTERED, .. }) => {
                        let part = first_registered(registrar.as_ref(), &range)?;
                        return Err(part.map_or(error.into(), |part| in_part(&range, part).into()));
                    }
                    Err(BackendError::Driver { code: OUT_OF_MEMORY, .. }) => {
                        return Err(
                            MemoryError::OutOfMemory { bytes: bytes as u64, place: "pinned host" }.into()
                        );
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        };
        // From here on it is undone when it is dropped.
        let mut pinned = Self { registrar: Arc::clone(registrar), start, bytes, alias: 0, ours, mapping };
        pinned.alias = registrar.alias(start)?;
        Ok(pinned)
    }

    pub const fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    pub const fn alias(&self) -> u64 {
        self.alias
    }

    pub fn reach(&self) -> Reach {
        self.registrar.reach()
    }
}

/// Mappings that a driver may still have, for as long as the process runs.
static KEPT: Mutex<Vec<Arc<Mapping>>> = Mutex::new(Vec::new());

impl Drop for Pinned {
    fn drop(&mut self) {
        if !self.ours {
            return;
        }
        // SAFETY: (1) it was registered here, and goes once; (2) registries wait for launches before they drop what these use.
        let undone = unsafe { self.registrar.unregister(self.start) };
        if undone.is_err() {
            // A lost context, or a driver that has gone before us: it may still have the pages, so they stay mapped.
            let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend(self.mapping.take());
        }
    }
}

/// Registers the pieces of memory from `start` on side by side, and calls `done` with the bytes of each. Where one fails,
/// none stays registered.
///
/// # Safety
/// 1. As [`Pinned::new`], for each.
pub(super) unsafe fn all(
    registrar: &Arc<dyn Registrar>,
    start: NonNull<u8>,
    pieces: &[Range<usize>],
    mapping: Option<&Arc<Mapping>>,
    crew: &Crew,
    done: &(dyn Fn(usize) + Sync),
) -> Result<Vec<Pinned>, Error> {
    let base = start.as_ptr().expose_provenance();
    let pinned = Mutex::new(Vec::with_capacity(pieces.len()));
    crew.each(pieces.len(), |index| {
        let Some(piece) = pieces.get(index) else { return Ok(()) };
        let at = std::ptr::with_exposed_provenance_mut(base.wrapping_add(piece.start));
        let at = NonNull::new(at).ok_or(MemoryError::Null)?;
        // SAFETY: (1, 2) are ours.
        let one = unsafe { Pinned::new(registrar, at, piece.len(), mapping.cloned()) }?;
        pinned.lock().unwrap_or_else(PoisonError::into_inner).push((index, one));
        done(piece.len());
        Ok(())
    })?;
    let mut pinned = pinned.into_inner().unwrap_or_else(PoisonError::into_inner);
    pinned.sort_by_key(|(index, _)| *index);
    Ok(pinned.into_iter().map(|(_, one)| one).collect())
}

fn in_part(whole: &Range<usize>, part: Range<usize>) -> MemoryError {
    let [start, end, part_start, part_end] =
        [whole.start, whole.end, part.start, part.end].map(|at| at as u64);
    MemoryError::PartlyRegistered { start, end, part_start, part_end }
}

/// The first registered bytes of a range that the driver has refused, if any are. It asks page by page: only an error waits
/// for it.
fn first_registered(
    registrar: &dyn Registrar,
    range: &Range<usize>,
) -> Result<Option<Range<usize>>, BackendError> {
    let page = page_bytes() as usize;
    let next = |at: &usize| Some(((at / page) + 1).saturating_mul(page)).filter(|next| *next < range.end);
    for at in std::iter::successors(Some(range.start), next) {
        if let Some(end) = registrar.registered(at, range.end)? {
            return Ok(Some(at..end));
        }
    }
    Ok(None)
}
