//! The memory that kernels may touch.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use pagelift::backends;
use pagelift::error::MemoryError;
use pagelift::geometry;
use pagelift::memory::{self, RegionId as RustId};
use pagelift_bindings::on_engine;
use pagelift_bindings::recorded::RecordedCount;

use crate::backend::Backend;
use crate::foreign::{self, In, Out};
use crate::handle::{Handle, keep, object, tried};
use crate::status::{Failure, Outcome, Status, answer, bad_value};

/// Knows every region of memory that kernels may touch. Memory is registered before anything is bound to it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Registry {
    /// Meaningless but to this library; 0 is none.
    pub value: u64,
}

impl Registry {
    /// What it stands for.
    pub const fn handle(self) -> Handle<Registered> {
        Handle::new(self.value)
    }
}

/// Which memory.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Of the host: pinned and mapped where the backend is a GPU.
    Host = 0,
    /// Of the device. On the CPU that is ordinary memory too.
    Device = 1,
}

/// As Rust has it.
pub fn place(memory: u32, what: &str) -> Outcome<geometry::Memory> {
    match memory {
        0 => Ok(geometry::Memory::Host),
        1 => Ok(geometry::Memory::Device),
        _ => Err(bad_value(what, memory, "a pagelift_memory")),
    }
}

/// Names a registered region. Numbers are not used again.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RegionId {
    /// Its registry.
    pub registry: u64,
    /// Its number there.
    pub number: u64,
}

/// Where a region lies.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// Where kernels reach its first byte. Of host memory on a GPU that need not be where the host does.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
}

impl Region {
    /// As Rust has it.
    pub const fn region(self) -> geometry::Region {
        geometry::Region::new(self.address, self.bytes)
    }
}

/// A registry as launchers share it.
pub struct Shared {
    memory: RwLock<memory::Registry>,
    /// Launchers that were recorded into graphs and not freed.
    pub recorded: RecordedCount,
}

impl Shared {
    /// The registry, beside others who read it.
    pub fn read(&self) -> Outcome<RwLockReadGuard<'_, memory::Registry>> {
        tried(self.memory.try_read(), "a registry")
    }

    /// The registry, alone.
    pub fn write(&self) -> Outcome<RwLockWriteGuard<'_, memory::Registry>> {
        tried(self.memory.try_write(), "a registry")
    }
}

/// What a handle of a registry stands for.
pub struct Registered {
    /// The registry.
    pub shared: Arc<Shared>,
    /// Tells it from others.
    id: u64,
    next: u64,
    regions: HashMap<u64, RustId>,
}

object!(Registered, Registry);

impl Registered {
    fn name(&mut self, region: RustId) -> RegionId {
        let number = self.next;
        self.next = number.saturating_add(1);
        self.regions.insert(number, region);
        RegionId { registry: self.id, number }
    }

    fn find(&self, region: RegionId) -> Outcome<RustId> {
        let found = self.regions.get(&region.number).filter(|_| region.registry == self.id);
        found.copied().ok_or_else(|| MemoryError::Released.into())
    }
}

/// Makes a registry without memory. Free it by `pagelift_registry_free`.
///
/// Errors: PAGELIFT_NULL_POINTER, PAGELIFT_MISALIGNED.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_registry_new(registry: Out<Registry>) -> Status {
    static IDS: AtomicU32 = AtomicU32::new(1);
    answer(|| {
        let registry = registry.ready("registry")?;
        let shared =
            Shared { memory: RwLock::new(memory::Registry::new()), recorded: RecordedCount::default() };
        let id = IDS.fetch_add(1, Ordering::Relaxed).into();
        let own = Registered { shared: Arc::new(shared), id, next: 1, regions: HashMap::new() };
        registry.put(Registry { value: keep(own)? });
        Ok(())
    })
}

/// Takes in `bytes` bytes at `start` that the caller made and will free, where they lie: of the host (`memory` is
/// PAGELIFT_MEMORY_HOST; on a GPU they are pinned and mapped here, unless they are already), or of the device (a
/// CUdeviceptr as a pointer; on the CPU any memory).
///
/// The caller promises that
/// 1. `bytes` initialised bytes lie there, which can be read and written, until the region is released or the registry
///    is freed;
/// 2. what a launch reads or writes is left alone by everybody else from then on until it is done, as a stream orders it;
/// 3. host memory that somebody else registered with CUDA before stays registered as long;
/// 4. device memory is of the backend's GPU, in its primary context.
///
/// Errors: PAGELIFT_NULL_POINTER, PAGELIFT_BAD_VALUE for no bytes; PAGELIFT_REGISTRY where it shares bytes with a region
/// that is here, is registered with CUDA in part, or is said to be the device's and its GPU does not reach it. In a capture: another stream's is not disturbed.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_registry_adopt(
    registry: Registry,
    backend: Backend,
    memory: u32,
    start: Out<c_void>,
    bytes: usize,
    region: Out<RegionId>,
) -> Status {
    answer(|| {
        let region = region.ready("region")?;
        let place = place(memory, "memory")?;
        check_start(start, bytes)?;
        region.put(registry.handle().change(|own| {
            let shared = Arc::clone(&own.shared);
            let mut memory = shared.write()?;
            let buffer = backend.handle().look(|engine| Ok(foreign::adopt(engine, place, start, bytes)?))?;
            let adopted = memory.adopt(place, buffer)?;
            Ok(own.name(adopted))
        })?);
        Ok(())
    })
}

fn check_start(start: Out<c_void>, bytes: usize) -> Outcome {
    if start.is_null() {
        return Err(Failure::new(Status::NullPointer, "`start` is null"));
    }
    let end = start.end(bytes).filter(|_| bytes > 0);
    end.map(drop).ok_or_else(|| bad_value("bytes", bytes, "at least 1, and an end inside of memory"))
}

/// Allocates `bytes` zeroed bytes, page-aligned: pinned and mapped memory of the host, or memory of the device. They are
/// freed when the region is released or the registry freed.
///
/// Errors: PAGELIFT_OUT_OF_MEMORY. In a capture: another stream's is not disturbed.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_registry_allocate(
    registry: Registry,
    backend: Backend,
    memory: u32,
    bytes: u64,
    region: Out<RegionId>,
) -> Status {
    answer(|| {
        let region = region.ready("region")?;
        let place = place(memory, "memory")?;
        region.put(registry.handle().change(|own| {
            let shared = Arc::clone(&own.shared);
            let mut memory = shared.write()?;
            let allocated = backend
                .handle()
                .look(|engine| Ok(on_engine!(engine, backend => memory.allocate(backend, place, bytes))?))?;
            Ok(own.name(allocated))
        })?);
        Ok(())
    })
}

/// A host pool that is registered in chunks.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HostPoolSpec {
    /// sizeof(pagelift_host_pool_spec).
    pub size: u32,
    /// Its blocks.
    pub blocks: u32,
    /// Bytes of a block, all layers together.
    pub block_bytes: u64,
    /// Bytes of a chunk, at most: up to 256 GiB; 0 means 16 GiB. A chunk never cuts a block.
    pub chunk_bytes: u64,
    /// Threads that register chunks, at most 256; 0 means one a processor, and no more than 16.
    pub threads: u32,
    /// 0.
    pub reserved: u32,
}

/// Takes in a host pool of many gigabytes that the caller made and will free, `blocks * block_bytes` bytes at `start`,
/// registered in chunks by several threads. `regions`, which has room for `regions_room`, gets a region for each chunk,
/// `regions_count` how many there are, `blocks_per_extent` the blocks of each but the last, which may have fewer. A
/// geometry has an extent for each.
///
/// The caller promises that
/// 1. the bytes lie there, initialised, to be read and written, until all regions are released or the registry is freed;
/// 2. as 2 and 3 of `pagelift_registry_adopt`.
///
/// Errors: PAGELIFT_REGISTRY where chunks of that size would cut blocks or pages of memory, or a chunk is registered in part;
/// PAGELIFT_CAPACITY where `regions` has no room for all, before anything is registered: `regions_count` is how many there
/// would be. PAGELIFT_BACKEND where threads cannot be started. Then nothing stays registered.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_registry_adopt_pool(
    registry: Registry,
    backend: Backend,
    spec: In<HostPoolSpec>,
    start: Out<c_void>,
    regions: Out<RegionId>,
    regions_room: usize,
    regions_count: Out<usize>,
    blocks_per_extent: Out<u32>,
) -> Status {
    answer(|| {
        let HostPoolSpec { blocks, block_bytes, chunk_bytes, threads, reserved, .. } = spec.sized("spec")?;
        if reserved != 0 {
            return Err(bad_value("spec->reserved", reserved, "0"));
        }
        let (regions, count) =
            (regions.room(regions_room, "regions")?, regions_count.ready("regions_count")?);
        let per_extent = blocks_per_extent.ready_or_null("blocks_per_extent")?;
        let bytes = u64::from(blocks).checked_mul(block_bytes).and_then(|bytes| usize::try_from(bytes).ok());
        check_start(
            start,
            bytes.ok_or_else(|| bad_value("spec", "a pool past 64 bits", "one that fits memory"))?,
        )?;
        let spec = backends::HostPoolSpec::new(blocks, block_bytes).threads(threads as usize);
        let spec = if chunk_bytes == 0 { spec } else { spec.chunks_of(chunk_bytes) };
        registry.handle().change(|own| {
            let shared = Arc::clone(&own.shared);
            let mut memory = shared.write()?;
            let chunks = blocks.div_ceil(spec.blocks_per_extent_at(start.address())?) as usize;
            if chunks > regions_room {
                count.put(chunks);
                let text = format!("the pool has {chunks} chunks, and `regions` has room for {regions_room}");
                return Err(Failure::new(Status::Capacity, text));
            }
            let pool = backend.handle().look(|engine| Ok(foreign::adopt_pool(engine, &spec, start)?))?;
            let extents = pool.blocks_per_extent();
            let names: Vec<_> = memory.adopt_pool(pool)?.into_iter().map(|region| own.name(region)).collect();
            regions.put_list(&names);
            count.put(names.len());
            if let Some(per_extent) = per_extent {
                per_extent.put(extents);
            }
            Ok(())
        })
    })
}

/// Tells where a region lies.
///
/// Errors: PAGELIFT_REGISTRY where it was released, or is another registry's; those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_registry_region(registry: Registry, id: RegionId, region: Out<Region>) -> Status {
    answer(|| {
        let region = region.ready("region")?;
        let found = registry.handle().look(|own| {
            let found = own.shared.read()?.region(own.find(id)?);
            found.ok_or_else(|| MemoryError::Released.into())
        })?;
        region.put(Region { address: found.address(), bytes: found.bytes() });
        Ok(())
    })
}

/// Releases a region once no launch uses it any more: this waits. It is freed where it was allocated here, forgotten
/// where it was adopted. Launchers that need it refuse work from then on.
///
/// Errors: PAGELIFT_REGISTRY where it was released before, or is another registry's; PAGELIFT_IN_USE while a launcher
/// that was recorded into a graph is not freed, for graphs are replayed without this library's knowledge;
/// PAGELIFT_CAPTURE where a stream with launches is being captured; PAGELIFT_BUSY.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_registry_release(registry: Registry, region: RegionId) -> Status {
    answer(|| {
        registry.handle().change(|own| {
            let id = own.find(region)?;
            let shared = Arc::clone(&own.shared);
            let mut memory = shared.write()?;
            let recorded = shared.recorded.get();
            if recorded > 0 {
                let text =
                    format!("{recorded} launchers were recorded into graphs and may use it; free them first");
                return Err(Failure::new(Status::InUse, text));
            }
            memory.release(id)?;
            own.regions.remove(&region.number);
            Ok(())
        })
    })
}

/// Bytes that are read at a time.
const PIECE: usize = 4 << 20;

/// Copies `bytes` bytes from offset `at` of a region on to `into`, in whatever memory the region is, once no launch that
/// this registry knows of touches it: this waits. Replays of graphs of the caller's it does not know of. Where a driver fails, a
/// part of it may have been copied.
///
/// Errors: PAGELIFT_REGISTRY where it was released, or has no such bytes; PAGELIFT_CAPTURE where a stream with launches
/// is being captured; PAGELIFT_BUSY.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_registry_read(
    registry: Registry,
    region: RegionId,
    at: u64,
    into: Out<u8>,
    bytes: usize,
) -> Status {
    answer(|| {
        let into = into.room(bytes, "into")?;
        registry.handle().look(|own| {
            let memory = own.shared.read()?;
            let id = own.find(region)?;
            let has = memory.region(id).ok_or(MemoryError::Released)?.bytes();
            let length = bytes as u64;
            if at.checked_add(length).is_none_or(|end| end > has) {
                return Err(MemoryError::Outside { at, length, bytes: has }.into());
            }
            let mut at = at;
            into.put_by(PIECE, |piece| {
                memory.read(id, at, piece)?;
                at = at.saturating_add(piece.len() as u64);
                Ok(())
            })
        })
    })
}

/// Copies `bytes` bytes at `from` to offset `at` of a region on, once no launch that this registry knows of touches it:
/// this waits.
///
/// Errors: as `pagelift_registry_read`.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_registry_write(
    registry: Registry,
    region: RegionId,
    at: u64,
    from: In<u8>,
    bytes: usize,
) -> Status {
    answer(|| {
        let from = from.list(bytes, "from")?;
        registry.handle().look(|own| Ok(own.shared.write()?.write(own.find(region)?, at, &from)?))
    })
}

/// Counts the regions of a registry.
///
/// Errors: those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_registry_len(registry: Registry, regions: Out<usize>) -> Status {
    answer(|| {
        let regions = regions.ready("regions")?;
        regions.put(registry.handle().look(|own| Ok(own.regions.len()))?);
        Ok(())
    })
}

/// Waits for all launches and frees a registry: what it allocated is freed, what it adopted is the caller's again. Where
/// launches cannot be waited for, what they may use is never freed.
///
/// Errors: PAGELIFT_IN_USE while a launcher that was bound to it is not freed, those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_registry_free(registry: Registry) -> Status {
    answer(|| {
        let unused = |own: &Registered| match Arc::strong_count(&own.shared) {
            1 => Ok(()),
            more => {
                let text = format!(
                    "{} launchers are bound to the registry; free them first",
                    more.saturating_sub(1)
                );
                Err(Failure::new(Status::InUse, text))
            }
        };
        registry.handle().take_where(unused).map(drop)
    })
}
