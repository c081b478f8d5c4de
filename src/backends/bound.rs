//! A geometry bound to a backend: its tables in memory that kernels read, and what is done with them.
//!
//! This is where checked plans become addresses. A plan can only be made by the planner ([`Plan`] is sealed), which
//! proves that its jobs stay inside the geometry's regions and that no destination meets another destination or a
//! source; a registry proves that these regions are memory. Together they are what the kernels ask for.

use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;

use pagelift_abi as abi;
use pagelift_planner::geometry::{Memory, Region};
use pagelift_planner::plan::{DigestPlan, Direction, PagePlan, Plan, RowPlan, Staging};
use pagelift_planner::quantity::Bytes;
use zerocopy::{Immutable, IntoBytes};

use super::bound_pools::Pools;
use super::{Backend, Buffer, Kernel, LaunchWork, Pieces, Reach};
use crate::error::{BackendError, Error, LaunchError, MemoryError};
use crate::memory::Registry;

/// Addresses of everything that a launch reads besides pools.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    table: u64,
    routes: u64,
    segments: u64,
    bases: u64,
    progress: u64,
    maps: u64,
    sums: u64,
}

/// Plans that a kernel carries out: page plans by `pagelift_copy_pages`, row plans by `pagelift_copy_rows`, digest plans
/// by `pagelift_digest`.
pub trait Launchable: Plan {
    /// Whether the plan carries page-map changes.
    #[doc(hidden)]
    fn changes_maps(&self) -> bool {
        false
    }

    /// Whether a launch may be repeated: sums would be added again.
    #[doc(hidden)]
    const REPEATABLE: bool = true;

    /// What it is called in a profile: what it moves, and which way.
    #[doc(hidden)]
    const NAME: [&'static str; 2];

    /// From which memory to which it copies, if it does.
    #[doc(hidden)]
    const WAY: Option<(Memory, Memory)>;

    /// In what pieces.
    #[doc(hidden)]
    const PIECES: Pieces = Pieces::Pages;

    /// The kernel of this kind of plan, for tables at these addresses.
    #[doc(hidden)]
    fn kernel(at: Addresses) -> Kernel;
}

impl<D: Direction> Launchable for PagePlan<D> {
    const NAME: [&'static str; 2] = ["pages", D::NAME];
    const WAY: Option<(Memory, Memory)> = Some((D::SOURCE, D::DESTINATION));

    fn kernel(at: Addresses) -> Kernel {
        let Addresses { table, routes, segments, bases, progress, .. } = at;
        Kernel::CopyPages(abi::PagesArgs { table, routes, segments, bases, progress })
    }
}

impl<D: Direction> Launchable for RowPlan<D> {
    const NAME: [&'static str; 2] = ["rows", D::NAME];
    const WAY: Option<(Memory, Memory)> = Some((D::SOURCE, D::DESTINATION));
    const PIECES: Pieces = Pieces::Rows;

    fn changes_maps(&self) -> bool {
        !self.page_map().pending().is_empty()
    }

    fn kernel(at: Addresses) -> Kernel {
        let Addresses { table, routes, segments, bases, progress, maps, .. } = at;
        Kernel::CopyRows(abi::RowsArgs { table, routes, segments, bases, progress, maps })
    }
}

impl Launchable for DigestPlan {
    const NAME: [&'static str; 2] = ["digests", "of either side"];
    const REPEATABLE: bool = false;
    const WAY: Option<(Memory, Memory)> = None;

    fn kernel(at: Addresses) -> Kernel {
        let Addresses { table, routes, segments, bases, progress, sums: digests, .. } = at;
        Kernel::Digest(abi::DigestArgs { table, routes, segments, bases, progress, digests })
    }
}

/// A geometry's tables, one job table and its results, in memory that kernels read.
#[derive(Debug)]
pub(crate) struct Bound<B> {
    backend: B,
    pools: Pools,
    /// Arrays of the staged plan, and of those after it whose staging failed: they must be registered when one is launched.
    arrays: Vec<Region>,
    /// The registry in which all of them were found, as it was then: while it is the same, nobody looks for them again.
    found: Option<(u64, u64)>,
    /// The same, of the plan that was checked last.
    checked: Option<(u64, u64)>,
    /// What the staged plan copies, where the host knows it.
    bytes: Option<Bytes>,
    /// Routes, segment pairs and bases: held so that their addresses stay good.
    tables: [Buffer; 3],
    table: Buffer,
    progress: Buffer,
    maps: Buffer,
    /// What launches add results to: a word for each job of a digest plan.
    sums: Buffer,
    addresses: Addresses,
    /// Something that failed may still read a slot.
    unsettled: bool,
}

impl<B: Backend> Bound<B> {
    /// Uploads the geometry and the plan's page maps, and makes room for its table and its results at its capacity.
    pub fn new<P: Launchable>(backend: B, memory: &Registry, plan: &P) -> Result<Self, Error> {
        let geometry = plan.geometry();
        let pools = Pools::find(memory, geometry, backend.reach())?;
        let routes = upload(&backend, geometry.routes())?;
        let segments = upload(&backend, geometry.segments())?;
        let bases = upload(&backend, geometry.bases())?;
        let maps = upload(&backend, plan.maps())?;
        let table = allocate(&backend, Memory::Device, plan.table_bytes())?;
        let progress = allocate(&backend, Memory::Device, size_of::<abi::Progress>())?;
        let sums = allocate(&backend, Memory::Device, plan.sums() as usize * size_of::<u64>())?;
        let addresses = Addresses {
            table: table.address(),
            routes: routes.address(),
            segments: segments.address(),
            bases: bases.address(),
            progress: progress.address(),
            maps: maps.address(),
            sums: sums.address(),
        };
        Ok(Self {
            backend,
            pools,
            arrays: Vec::with_capacity(64),
            found: None,
            checked: None,
            bytes: None,
            tables: [routes, segments, bases],
            table,
            progress,
            maps,
            sums,
            addresses,
            unsettled: false,
        })
    }

    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// Never frees the tables: something may still read or write them.
    pub fn keep(&mut self) {
        let Self { tables, table, progress, maps, sums, .. } = self;
        tables.iter_mut().chain([table, progress, maps, sums]).for_each(Buffer::keep);
    }

    /// Room for a table.
    pub const fn table_bytes(&self) -> usize {
        self.table.len()
    }

    /// Room for results.
    pub const fn results(&self) -> usize {
        self.sums.len() / size_of::<u64>()
    }

    /// What launches have added up since the last plan was staged, over these jobs.
    pub fn sum(&self, jobs: Range<u32>) -> Result<u64, Error> {
        let mut sum = 0_u64;
        let mut words = [0; 64];
        for first in jobs.clone().step_by(64) {
            let left = (jobs.end - first) as usize;
            let here = &mut words[..left.min(64)];
            self.sums.read(u64::from(first) * size_of::<u64>() as u64, here.as_mut_bytes())?;
            sum = here.iter().fold(sum, |sum, word| sum.wrapping_add(*word));
        }
        Ok(sum)
    }

    /// Refuses a plan of another geometry, or arrays that are not registered. Nothing has changed then.
    pub fn check<P: Launchable>(&mut self, memory: &Registry, plan: &P) -> Result<(), Error> {
        if !Arc::ptr_eq(plan.geometry(), self.pools.geometry()) {
            return Err(LaunchError::OtherGeometry.into());
        }
        self.pools.check(memory)?;
        let known = self.found == Some(memory.stamp());
        for (place, array) in plan.arrays().enumerate() {
            if !(known && self.arrays.get(place) == Some(&array)) {
                check_array(memory, array, self.backend.reach())?;
            }
        }
        self.checked = Some(memory.stamp());
        Ok(())
    }

    /// Encodes a checked plan into `slot`, and enqueues what makes it the next one: its page-map changes, results of 0, and
    /// a copy into the table. Where the backend fails, any of that may come all the same: the changes may have been applied,
    /// results may be gone, and the table may hold this plan or the one before.
    ///
    /// # Safety
    /// 1. Nobody writes `slot`, or frees it, before the plan's ticket is settled.
    pub unsafe fn load<P: Launchable>(
        &mut self,
        stream: &B::Stream,
        plan: &P,
        staging: Staging,
        slot: &mut Buffer,
    ) -> Result<(), Error> {
        if self.unsettled {
            self.backend.wait(stream)?;
            self.unsettled = false;
        }
        let room = slot.bytes_mut().unwrap_or_default();
        let used = plan.encode(staging, room)?;
        let room = self.table.len();
        if used > room {
            return Err(LaunchError::TableTooSmall { needed: used, room }.into());
        }
        // SAFETY: (1) is ours; (2) the slot was just written.
        if let Err(error) = unsafe { self.enqueue(stream, plan, slot, used) } {
            // The slot is used again, and may still be read: a call that fails may have enqueued something all the same.
            self.unsettled = self.backend.wait(stream).is_err();
            // The copy into the table too: a launch finds the plan before there, or this one.
            for array in plan.arrays() {
                if !self.arrays.contains(&array) {
                    self.arrays.push(array);
                }
            }
            self.found = None;
            return Err(error.into());
        }
        self.arrays.clear();
        self.arrays.extend(plan.arrays());
        self.found = self.checked;
        self.bytes = plan.bytes();
        Ok(())
    }

    /// Enqueues what makes a plan the next one.
    ///
    /// # Safety
    /// 1. Nobody writes `slot`, or frees it, before the stream has got there.
    /// 2. Its first `used` bytes are the encoded plan, which is of our geometry.
    unsafe fn enqueue<P: Launchable>(
        &mut self,
        stream: &B::Stream,
        plan: &P,
        slot: &Buffer,
        used: usize,
    ) -> Result<(), BackendError> {
        if plan.changes_maps() {
            let (maps, entries) = (self.addresses.maps, u64::from(plan.geometry().map_entries()));
            // The changes are read from the slot: until they are applied the table holds the plan before.
            let args = abi::MapArgs { table: slot.address(), maps, entries };
            // SAFETY: (1) the slot holds a planner's plan for this geometry (2), whose maps have that many entries, and stays
            // (1); the maps are ours, and touched in the stream's order.
            unsafe { self.backend.launch(stream, None, Kernel::ApplyMap(args)) }?;
        }
        if plan.sums() > 0 {
            // SAFETY: (1) sums are ours, and touched in the stream's order: `sum` is asked once the launch is done.
            unsafe { self.backend.clear(stream, &mut self.sums) }?;
        }
        // The table comes last: once it has the plan, the plan may run.
        // SAFETY: (1) the slot stays (1); the table is ours and touched in the stream's order.
        unsafe { self.backend.upload(stream, slot, &mut self.table, used) }
    }

    /// Launches the kernel of `P` on the table.
    pub fn launch<P: Launchable>(
        &mut self,
        stream: &B::Stream,
        memory: &mut Registry,
        workers: Option<NonZeroU32>,
    ) -> Result<(), Error> {
        self.check_launch(memory)?;
        if self.backend.in_flight(stream).is_none() {
            // It runs here and now: what other backends' streams still write comes first.
            memory.finish()?;
        }
        let work = LaunchWork { way: P::WAY, pieces: P::PIECES, bytes: self.bytes };
        let workers = workers.or_else(|| self.backend.suited(work));
        // The registry hears of it first: a call that fails may have launched all the same.
        self.note_launch(stream, memory);
        // SAFETY: (1) the tables are ours, were written for this geometry (an all-zero table has ticket 0 and is left
        // alone), and `&mut self` keeps them still; its pools and the plan's arrays are registered, and stay: the registry
        // waits for launches before it lets go of a byte, or lends one to the host; so have we, where this one runs on the host.
        // Launches on other streams may run beside it; which comes first where they meet, their users say by events, and where
        // nobody does, bytes of the pools and no others are those of either. (2) The planner refuses page plans whose destinations
        // meet another destination or a source, and routes whose pools share bytes; where slot mappings name a row twice, it is
        // written twice with the same bytes, and backends see to it that this does no harm. (3) Launches of this progress word come
        // through `&mut self`, one after the other.
        unsafe { self.backend.launch(stream, workers, P::kernel(self.addresses)) }?;
        Ok(())
    }

    /// Refuses a launch whose pools or arrays are not registered any more.
    pub fn check_launch(&mut self, memory: &Registry) -> Result<(), Error> {
        self.pools.check(memory)?;
        if self.found != Some(memory.stamp()) {
            let by = self.backend.reach();
            self.arrays.iter().try_for_each(|array| check_array(memory, *array, by))?;
            self.found = Some(memory.stamp());
        }
        Ok(())
    }

    /// Tells the registry of a launch that may still run.
    pub fn note_launch(&self, stream: &B::Stream, memory: &mut Registry) {
        if let Some(launches) = self.backend.in_flight(stream) {
            memory.launched(launches);
        }
    }
}

/// Refuses an array that is not registered device memory.
fn check_array(memory: &Registry, array: Region, by: Reach) -> Result<(), MemoryError> {
    memory.check(Memory::Device, array, by, || "an array of a row binding".into())
}

/// Copies a table into memory that kernels read.
fn upload<T: IntoBytes + Immutable>(backend: &impl Backend, entries: &[T]) -> Result<Buffer, Error> {
    let bytes = entries.as_bytes();
    let mut buffer = allocate(backend, Memory::Device, bytes.len())?;
    buffer.write(0, bytes)?;
    Ok(buffer)
}

/// Allocates memory for a table. Kernels trust its size and alignment, so a backend's word is not enough.
pub(crate) fn allocate(backend: &impl Backend, place: Memory, bytes: usize) -> Result<Buffer, Error> {
    let needed = bytes as u64;
    let buffer = backend.allocate(place, needed)?;
    let (found, address) = (buffer.region().bytes(), buffer.address());
    if found < needed || !address.is_multiple_of(16) {
        return Err(BackendError::Allocation { name: backend.name(), needed, found, address }.into());
    }
    Ok(buffer)
}
