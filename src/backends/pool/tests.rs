//! Registration against a driver that keeps books, and that fails when it is told to.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use pagelift_planner::geometry::{GeometryBuilder, GroupSpec, Landing, Paged, PagedLift, SideSpec};
use pagelift_planner::layout::PagedLayout;

use super::*;
use crate::error::{BackendError, GeometryError};

/// Bytes of a chunk in these tests.
const CHUNK: u64 = 2 << 20;

/// A driver's books.
#[derive(Debug, Default)]
struct Books {
    /// Start and end of what is registered, by whomever.
    registered: BTreeMap<usize, usize>,
    /// What somebody else has registered.
    others: BTreeSet<usize>,
    /// Calls that were made.
    registrations: usize,
    /// Calls that undid something that was not there.
    wrong: usize,
}

/// A driver that keeps books.
#[derive(Debug, Default)]
struct Fake {
    books: Mutex<Books>,
    /// Memory that it refuses to register, or to tell the alias of.
    refused: Option<usize>,
    no_alias: Option<usize>,
    /// It takes everything, and gives nothing back.
    lost: bool,
}

fn refusal(call: &'static str, code: i32) -> BackendError {
    BackendError::Driver { call, code, name: "A_NAME".into(), text: "a text".into() }
}

impl Fake {
    fn new() -> Self {
        Self::default()
    }

    /// With memory that somebody else has registered.
    fn with(others: &[Range<usize>]) -> Self {
        let registered = others.iter().map(|range| (range.start, range.end)).collect();
        let others = others.iter().map(|range| range.start).collect();
        let books = Books { registered, others, ..Books::default() };
        Self { books: Mutex::new(books), ..Self::default() }
    }

    /// What is registered, but by others.
    fn ours(&self) -> Vec<Range<usize>> {
        let books = self.books.lock().unwrap();
        assert_eq!(books.wrong, 0);
        assert!(
            books.others.iter().all(|start| books.registered.contains_key(start)),
            "others' are left alone"
        );
        let all = books.registered.iter().map(|(start, end)| *start..*end);
        all.filter(|range| !books.others.contains(&range.start)).collect()
    }
}

// SAFETY: (1, 2, 3) no kernel runs here.
unsafe impl Registrar for Fake {
    fn reach(&self) -> super::super::Reach {
        super::super::Reach::Mapped
    }

    unsafe fn register(&self, start: NonNull<u8>, bytes: usize) -> Result<(), BackendError> {
        let mut books = self.books.lock().unwrap();
        books.registrations += 1;
        let range = start.addr().get()..start.addr().get() + bytes;
        if self.refused.is_some_and(|refused| range.contains(&refused)) {
            return Err(refusal("cuMemHostRegister_v2", 304));
        }
        if books.registered.iter().any(|(start, end)| *start < range.end && range.start < *end) {
            return Err(refusal("cuMemHostRegister_v2", 712));
        }
        books.registered.insert(range.start, range.end);
        Ok(())
    }

    unsafe fn unregister(&self, start: NonNull<u8>) -> Result<(), BackendError> {
        if self.lost {
            return Err(BackendError::ContextGone);
        }
        let mut books = self.books.lock().unwrap();
        let at = start.addr().get();
        if books.others.contains(&at) || books.registered.remove(&at).is_none() {
            books.wrong += 1;
        }
        Ok(())
    }

    /// Aliases of neighbours lie apart.
    fn alias(&self, start: NonNull<u8>) -> Result<u64, BackendError> {
        let (books, at) = (self.books.lock().unwrap(), start.addr().get());
        if self.no_alias == Some(at) {
            return Err(refusal("cuMemHostGetDevicePointer_v2", 1));
        }
        let holder = books.registered.iter().find(|(start, end)| (**start..**end).contains(&at));
        holder
            .map(|(start, _)| at as u64 + distance(*start))
            .ok_or_else(|| refusal("cuMemHostGetDevicePointer_v2", 1))
    }

    fn registered(&self, at: usize, end: usize) -> Result<Option<usize>, BackendError> {
        let books = self.books.lock().unwrap();
        let holder = books.registered.range(..=at).next_back().map(|(_, known)| *known);
        Ok(holder.filter(|known| *known > at).map(|known| known.min(end)))
    }
}

/// How far from its host address the alias of what is registered at `start` lies: another distance for each neighbour, in
/// whichever order they were registered.
fn distance(start: usize) -> u64 {
    (1 + start as u64 / CHUNK % 64) << 48
}

/// Six chunks of two blocks.
fn spec(threads: usize) -> HostPoolSpec {
    HostPoolSpec::new(12, CHUNK / 2).chunks_of(CHUNK).threads(threads)
}

/// An engine's memory.
fn memory() -> (Mapping, usize) {
    let mapping = Mapping::anonymous(6 * CHUNK, false).unwrap();
    let start = mapping.start().as_ptr().expose_provenance();
    (mapping, start)
}

fn allocate(fake: &Arc<Fake>, spec: &HostPoolSpec) -> Result<HostPool, Error> {
    let registrar: Arc<dyn Registrar> = Arc::clone(fake) as _;
    let mapping = Mapping::anonymous(spec.bytes()?, true)?;
    // SAFETY: (1, 2) the mapping is the pool's.
    unsafe { HostPool::of(&registrar, spec, spec.padded()?, mapping.start(), Some(mapping), &|_| ()) }
}

/// Registers an engine's memory, which outlives the pool.
fn register(fake: &Arc<Fake>, spec: &HostPoolSpec, memory: &Mapping) -> Result<HostPool, Error> {
    let registrar: Arc<dyn Registrar> = Arc::clone(fake) as _;
    let chunks = spec.adjacent(memory.start().addr().get() as u64)?;
    // SAFETY: (1) the test keeps the memory, (2) and what others have registered.
    unsafe { HostPool::of(&registrar, spec, chunks, memory.start(), None, &|_| ()) }
}

#[test]
fn each_chunk_is_registered_once_and_unregistered_once() {
    for threads in [1, 4] {
        let fake = Arc::new(Fake::new());
        let pool = allocate(&fake, &spec(threads)).unwrap();
        let ours = fake.ours();
        assert_eq!(ours.len(), 6);
        assert!(ours.iter().all(|range| range.len() as u64 == CHUNK));
        // Each has the alias that the driver said, and they come in the order of the blocks.
        let aliases: Vec<u64> = pool.regions().iter().map(|region| region.address()).collect();
        let expected = ours.iter().map(|range| range.start as u64 + distance(range.start));
        assert_eq!(aliases, expected.collect::<Vec<u64>>());
        drop(pool);
        assert_eq!((fake.ours(), fake.books.lock().unwrap().registrations), (vec![], 6));
    }
}

/// Kind 22: an error leaves nothing registered, whichever chunk it is of.
#[test]
fn case_22_what_fails_in_the_middle_leaves_nothing_registered() {
    for (threads, chunk, at_alias) in (0..24).map(|n| (if n % 2 == 0 { 1 } else { 3 }, n / 2 % 6, n >= 12)) {
        let (memory, start) = memory();
        let at = Some(start + chunk * CHUNK as usize);
        let fake = Arc::new(if at_alias {
            Fake { no_alias: at, ..Fake::new() }
        } else {
            Fake { refused: at, ..Fake::new() }
        });
        let error = register(&fake, &spec(threads), &memory).unwrap_err();
        let code = if at_alias { 1 } else { 304 };
        assert!(
            matches!(error, Error::Backend(BackendError::Driver { code: found, .. }) if found == code),
            "{error}"
        );
        assert_eq!(fake.ours(), vec![]);
        // The memory can be registered after that.
        let fake = Arc::new(Fake::new());
        drop(register(&fake, &spec(threads), &memory).unwrap());
        assert_eq!(fake.ours(), vec![]);
    }
}

/// Kind 22: nothing is registered twice.
#[test]
fn case_22_memory_that_is_registered_is_left_alone() {
    let chunk = CHUNK as usize;
    let (memory, start) = memory();
    let whole = start..start + 6 * chunk;
    let some = [start - 4096..start + 3 * chunk, start + 4 * chunk..start + 5 * chunk];
    for others in [vec![whole], some.to_vec()] {
        let fake = Arc::new(Fake::with(&others));
        let held = |at: usize| others.iter().any(|range| range.contains(&at));
        let own = (0..6).map(|index| start + index * chunk).filter(|at| !held(*at)).count();
        let pool = register(&fake, &spec(1), &memory).unwrap();
        assert_eq!((fake.ours().len(), fake.books.lock().unwrap().registrations), (own, own));
        assert_eq!(pool.regions().len(), 6);
        drop(pool);
        assert_eq!(fake.ours(), vec![]);
    }
}

/// Kind 21: no chunk reaches over the seam of two registrations.
#[test]
fn case_21_memory_that_is_registered_in_part_is_refused_and_the_part_told() {
    let chunk = CHUNK as usize;
    let (memory, start) = memory();
    let third = start + 2 * chunk;
    for part in [third..third + 4096, third + 8192..third + 12288, third + chunk - 4096..third + 2 * chunk] {
        let fake = Arc::new(Fake::with(std::slice::from_ref(&part)));
        let error = register(&fake, &spec(1), &memory).unwrap_err();
        let expected = MemoryError::PartlyRegistered {
            start: third as u64,
            end: (third + chunk) as u64,
            part_start: part.start as u64,
            part_end: part.end.min(third + chunk) as u64,
        };
        assert!(matches!(&error, Error::Memory(found) if *found == expected), "{error}");
        assert_eq!(fake.ours(), vec![]);
    }
    // Two registrations that together hold a chunk.
    let fake = Arc::new(Fake::with(&[start..third + 4096, third + 4096..start + 6 * chunk]));
    let error = register(&fake, &spec(1), &memory).unwrap_err();
    assert!(matches!(error, Error::Memory(MemoryError::PartlyRegistered { .. })), "{error}");
}

#[test]
fn the_driver_is_not_asked_for_memory_that_it_cannot_pin() {
    let (memory, start) = memory();
    let page = std::ptr::with_exposed_provenance_mut::<std::ffi::c_void>(start + 3 * CHUNK as usize);
    // SAFETY: the page is ours, and nobody looks into it.
    unsafe { rustix::mm::mprotect(page, 4096, rustix::mm::MprotectFlags::READ) }.unwrap();
    let fake = Arc::new(Fake::new());
    let error = register(&fake, &spec(1), &memory).unwrap_err();
    assert!(matches!(error, Error::Memory(MemoryError::ReadOnly { .. })), "{error}");
    assert_eq!(fake.books.lock().unwrap().registrations, 0);
}

/// The driver would send kernels to pages that are gone.
#[test]
fn a_registration_that_outlived_its_memory_is_noticed() {
    let mapping = Mapping::anonymous(6 * CHUNK, false).unwrap();
    let start = mapping.start().addr().get();
    let chunk = CHUNK as usize;
    let stale = start + chunk..start + 5 * chunk;
    let registrar: Arc<dyn Registrar> = Arc::new(Fake::with(std::slice::from_ref(&stale)));
    let (spec, first) = (spec(1), mapping.start());
    // SAFETY: (1, 2) the mapping is the pool's.
    let made =
        unsafe { HostPool::of(&registrar, &spec, spec.padded().unwrap(), first, Some(mapping), &|_| ()) };
    let expected =
        MemoryError::StaleRegistration { start: (start + chunk) as u64, end: (start + 2 * chunk) as u64 };
    let error = made.unwrap_err();
    assert!(matches!(&error, Error::Memory(found) if *found == expected), "{error}");
}

#[test]
fn a_driver_that_is_lost_keeps_its_pages() {
    let fake = Arc::new(Fake { lost: true, ..Fake::new() });
    let pool = allocate(&fake, &spec(1)).unwrap();
    let ours = fake.ours();
    drop(pool);
    // Still mapped: nobody else gets these addresses.
    assert_eq!(maps::check(&(ours[0].start..ours[5].end)), Ok(()));
}

#[test]
fn progress_ends_with_all_of_it() {
    let seen = Mutex::new(Vec::new());
    let (memory, _) = memory();
    let registrar: Arc<dyn Registrar> = Arc::new(Fake::new());
    let (spec, start) = (spec(2), memory.start());
    let chunks = spec.adjacent(start.addr().get() as u64).unwrap();
    let note = |progress| seen.lock().unwrap().push(progress);
    // SAFETY: (1, 2) the test keeps the memory.
    let pool = unsafe { HostPool::of(&registrar, &spec, chunks, start, None, &note) }.unwrap();
    drop(pool);
    let total = 6 * CHUNK;
    let seen = seen.into_inner().unwrap();
    assert_eq!(seen.len(), 12);
    assert!(seen.iter().all(|at| at.total == total && (at.registered == 0 || at.present == total)));
    assert!(seen.contains(&PoolProgress { present: total, registered: total, total }));
}

/// Kind 21: a geometry whose extents are not the pool's is refused.
#[test]
fn case_21_a_run_of_blocks_over_a_seam_is_refused() {
    let fake = Arc::new(Fake::new());
    let pool = allocate(&fake, &spec(1)).unwrap();
    let layout = PagedLayout::builder(16).segment("kv", 1 << 16).build().unwrap();
    let bases: Vec<u64> = pool.regions().iter().map(|region| region.address()).collect();
    let build = |spec, bases: &[u64]| {
        let mut builder = GeometryBuilder::new();
        let host = builder.pool(spec)?;
        builder.group(GroupSpec::<Paged> {
            name: "main".into(),
            layers: 1,
            landing: Landing::Host,
            lift: PagedLift::None,
            host: Some(SideSpec::packed(host, bases, &[0], CHUNK / 2, layout.clone())),
            device: None,
        })?;
        builder.build()
    };
    build(pool.spec("host"), &bases).unwrap();
    let over = build(PoolSpec::new("host", Memory::Host, 12, &pool.regions()), &bases[..1]).unwrap_err();
    assert!(matches!(over, GeometryError::OutsideRegions { .. }), "{over}");
}
