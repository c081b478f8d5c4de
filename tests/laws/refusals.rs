//! What is refused: with a typed error, without any effect, and without harm to what is staged before or after.

use pagelift::Error;
use pagelift::backends::{Backend, Buffer, Emulated, Kernel, Reach, Shape};
use pagelift::error::{BackendError, LaunchError, MemoryError};
use pagelift::geometry::{Memory, Region};
use pagelift::launcher::{Launcher, LauncherOptions, TicketState};
use pagelift::memory::Registry;
use pagelift::plan::{DigestPlan, MirrorPlan, Plan as _, PlanCapacity, RestorePlan, RowBinding};
use pagelift_cases::arrays::Scratch;
use std::cell::{Cell, RefCell};
use std::num::NonZeroU32;
use std::rc::Rc;

use crate::backends::Subject;
use crate::lifts::{ROOM, simple};
use crate::mirror;
use crate::page_map::Fixture;
use crate::tickets::{Lifts, one, slots, two};
use crate::world::World;

/// What `refuse` does is an error without effect: neither on memory, nor on what was staged before.
fn without_effect<S: Subject>(refuse: impl FnOnce(&mut Lifts<S>) -> Error) -> Error {
    let mut it = Lifts::<S>::new(slots(2));
    let ticket = it.stage(&[one()]);
    let (image, counters) = (it.world.image(), it.launcher.counters());
    let error = refuse(&mut it);
    it.world.assert_is(&image);
    assert_eq!(it.launcher.counters(), counters);
    assert_eq!(it.launcher.state(ticket), TicketState::Pending);
    it.launch(&[one()]);
    assert!(matches!(it.launcher.state(ticket), TicketState::Done(_)));
    it.stage(&[two()]);
    it.launch(&[two()]);
    error
}

pub fn another_geometry<S: Subject>() {
    let error = without_effect::<S>(|it| {
        let other = World::small(&S::backend(1));
        let mut plan = RestorePlan::new(other.geometry(), ROOM).unwrap();
        other.lift(&mut plan, &two());
        it.launcher.stage(&it.world.pools.memory, &mut plan).unwrap_err()
    });
    assert!(matches!(error, Error::Launch(LaunchError::OtherGeometry)), "{error}");
}

pub fn another_registry<S: Subject>() {
    let error = without_effect::<S>(|it| {
        let other = World::small(&S::backend(1));
        it.plan.clear();
        it.world.lift(&mut it.plan, &two());
        it.launcher.stage(&other.pools.memory, &mut it.plan).unwrap_err()
    });
    assert!(matches!(error, Error::Launch(LaunchError::OtherRegistry)), "{error}");
    let error = without_effect::<S>(|it| {
        let mut other = World::small(&S::backend(1));
        let image = other.image();
        let error = it.launcher.launch(&mut other.pools.memory).unwrap_err();
        other.assert_is(&image);
        error
    });
    assert!(matches!(error, Error::Launch(LaunchError::OtherRegistry)), "{error}");
}

pub fn a_released_region<S: Subject>() {
    let mut it = Lifts::<S>::new(slots(2));
    // A region that no pool needs may go.
    let spare = it.world.pools.memory.allocate(&S::backend(1), Memory::Host, 64).unwrap();
    it.world.pools.memory.release(spare).unwrap();
    assert!(matches!(it.world.pools.memory.release(spare), Err(Error::Memory(MemoryError::Released))));
    it.stage(&[one()]);
    it.launch(&[one()]);

    let ticket = it.stage(&[two()]);
    let gone = it.world.pools.regions.remove(0);
    it.world.pools.memory.release(gone).unwrap();
    let image = it.world.image();
    for _ in 0..2 {
        let error = it.launcher.launch(&mut it.world.pools.memory).unwrap_err();
        assert!(matches!(error, Error::Memory(MemoryError::Unregistered { .. })), "{error}");
        let error = it.try_stage(&[one()]).unwrap_err();
        assert!(matches!(error, Error::Memory(MemoryError::Unregistered { .. })), "{error}");
    }
    it.world.assert_is(&image);
    assert_eq!(it.launcher.state(ticket), TicketState::Pending);
    assert_eq!(it.launcher.counters().launches, 1);
    let error = Launcher::bind(S::backend(1), &it.world.pools.memory, &mut it.plan, slots(1)).unwrap_err();
    assert!(matches!(error, Error::Memory(MemoryError::Unregistered { .. })), "{error}");
}

pub fn unregistered_memory<S: Subject>() {
    let mut it = Lifts::<S>::new(slots(1));
    let error = Launcher::bind(S::backend(1), &Registry::new(), &mut it.plan, slots(1)).unwrap_err();
    let words = error.to_string();
    assert!(matches!(error, Error::Memory(MemoryError::Unregistered { .. })), "{words}");
    assert!(words.contains("pool `") && words.contains("not registered"), "{words}");

    // Arrays that kernels would read: nowhere, in host memory, past an array's end, and gone before the launch.
    let (mut it, mut plan) = Fixture::new(S::backend(11), mirror::ROOM, false);
    it.map(&mut plan, 0, 1).unwrap();
    it.stage(&mut plan).unwrap();
    it.launch(&[(0, 1)]);
    let backend = S::backend(1);
    let (host, device) = {
        let memory = &mut it.world.pools.memory;
        let ids = [Memory::Host, Memory::Device].map(|place| memory.allocate(&backend, place, 64).unwrap());
        (ids[0], ids[1])
    };
    let one_slot = slots(1);
    let address = |it: &Fixture<S::Backend>, id| it.world.pools.memory.region(id).unwrap().address();
    let image = it.world.image();
    for slots in [8, u64::MAX - 127, address(&it, host), address(&it, device) + 8] {
        let mut bad = MirrorPlan::new(it.world.geometry(), mirror::ROOM).unwrap();
        bad.bind(it.key, RowBinding::new(slots, 8)).unwrap();
        let mut launcher = Launcher::bind(S::backend(1), &it.world.pools.memory, &mut bad, one_slot).unwrap();
        it.map(&mut bad, 2, 0).unwrap();
        let error = launcher.stage(&it.world.pools.memory, &mut bad).unwrap_err();
        assert!(matches!(error, Error::Memory(MemoryError::Unregistered { .. })), "{error}");
        assert_eq!(bad.page_map().pending().len(), 1, "its changes are still to be staged");
    }
    let mut late = MirrorPlan::new(it.world.geometry(), mirror::ROOM).unwrap();
    late.bind(it.key, RowBinding::new(address(&it, device), 8)).unwrap();
    let mut launcher = Launcher::bind(S::backend(1), &it.world.pools.memory, &mut late, one_slot).unwrap();
    let ticket = launcher.stage(&it.world.pools.memory, &mut late).unwrap();
    it.world.pools.memory.release(device).unwrap();
    let error = launcher.launch(&mut it.world.pools.memory).unwrap_err();
    assert!(matches!(error, Error::Memory(MemoryError::Unregistered { .. })), "{error}");
    it.world.assert_is(&image);
    assert_eq!(launcher.state(ticket), TicketState::Pending);
    it.stage(&mut plan).unwrap();
    it.launch(&[(0, 1)]);
}

pub fn a_larger_plan<S: Subject>() {
    for room in [
        PlanCapacity { jobs: ROOM.jobs + 1, ..ROOM },
        PlanCapacity { list_entries: ROOM.list_entries + 1, ..ROOM },
    ] {
        let error = without_effect::<S>(|it| {
            let mut plan = RestorePlan::new(it.world.geometry(), room).unwrap();
            it.launcher.stage(&it.world.pools.memory, &mut plan).unwrap_err()
        });
        let Error::Launch(LaunchError::TableTooSmall { needed, room }) = error else { panic!("{error}") };
        assert!(needed > room);
    }
    // A smaller one is welcome.
    let mut it = Lifts::<S>::new(slots(1));
    let mut plan = RestorePlan::new(it.world.geometry(), PlanCapacity { jobs: 1, list_entries: 0 }).unwrap();
    it.world.lift(&mut plan, &one());
    it.launcher.stage(&it.world.pools.memory, &mut plan).unwrap();
    it.launch(&[one()]);
}

pub fn numbers_of_slots<S: Subject>() {
    let mut it = Lifts::<S>::new(slots(64));
    let mut bind =
        |count| Launcher::bind(S::backend(1), &it.world.pools.memory, &mut it.plan, slots(count)).map(drop);
    assert!(matches!(bind(0), Err(Error::Launch(LaunchError::NoSlots))));
    for slots in [65, u32::MAX] {
        let error = bind(slots).unwrap_err();
        assert!(matches!(error, Error::Launch(LaunchError::TooManySlots { .. })), "{error}");
    }
}

/// Which call of a backend fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Pages,
    Rows,
    Map,
    Digest,
    /// It gives less than was asked for, where that is at most so many bytes.
    Allocate(u64),
}

/// A backend that fails on demand.
#[derive(Debug)]
struct Failing<B> {
    inner: B,
    fails: Rc<Cell<Option<Call>>>,
}

impl<B> Failing<B> {
    fn check(&self, call: Call) -> Result<(), BackendError> {
        if self.fails.get() == Some(call) {
            return Err(BackendError::ContextGone);
        }
        Ok(())
    }
}

// SAFETY: (1 to 7) those of `B`, which does all or is not asked, and whose work has run when a call returns. Where less memory is
// given than was asked for, the launcher sees it.
unsafe impl<B: Backend> Backend for Failing<B> {
    type Stream = B::Stream;

    fn stream(&self) -> Self::Stream {
        self.inner.stream()
    }

    fn reach(&self) -> Reach {
        self.inner.reach()
    }

    unsafe fn upload(
        &self,
        stream: &Self::Stream,
        from: &Buffer,
        to: &mut Buffer,
        bytes: usize,
    ) -> Result<(), BackendError> {
        // SAFETY: (1) is ours.
        unsafe { self.inner.upload(stream, from, to, bytes) }
    }

    unsafe fn clear(&self, stream: &Self::Stream, buffer: &mut Buffer) -> Result<(), BackendError> {
        // SAFETY: (1) is ours.
        unsafe { self.inner.clear(stream, buffer) }
    }

    fn name(&self) -> &'static str {
        "failing"
    }

    fn allocate(&self, place: Memory, bytes: u64) -> Result<Buffer, Error> {
        match self.fails.get() {
            Some(Call::Allocate(most)) if (1..=most).contains(&bytes) => {
                self.inner.allocate(place, bytes - 1)
            }
            _ => self.inner.allocate(place, bytes).inspect(|buffer| {
                if place == Memory::Host {
                    HOST.with_borrow_mut(|regions| regions.push(buffer.region()));
                }
            }),
        }
    }

    unsafe fn launch(
        &self,
        stream: &Self::Stream,
        workers: Option<NonZeroU32>,
        kernel: Kernel,
    ) -> Result<(), BackendError> {
        self.check(match kernel {
            Kernel::CopyPages(_) => Call::Pages,
            Kernel::CopyRows(_) => Call::Rows,
            Kernel::Digest(_) => Call::Digest,
            Kernel::ApplyMap(_) => Call::Map,
        })?;
        // SAFETY: (1) is ours.
        unsafe { self.inner.launch(stream, workers, kernel) }
    }
}

/// The engine of `S`, failing on demand.
struct Demand<S>(S);

thread_local! {
    static FAILS: Rc<Cell<Option<Call>>> = Rc::default();
    /// What was allocated on the host.
    static HOST: RefCell<Vec<Region>> = RefCell::default();
}

impl<S: Subject> Subject for Demand<S> {
    type Backend = Failing<S::Backend>;
    fn backend(seed: u64) -> Self::Backend {
        Failing { inner: S::backend(seed), fails: FAILS.with(Rc::clone) }
    }
}

fn failing<T>(call: Call, body: impl FnOnce() -> T) -> T {
    FAILS.with(|fails| fails.set(Some(call)));
    let result = body();
    FAILS.with(|fails| fails.set(None));
    result
}

pub fn a_backend_that_fails<S: Subject>() {
    // At launch: nothing ran, and the next launch carries the plan out.
    without_effect::<Demand<S>>(|it| {
        failing(Call::Pages, || it.launcher.launch(&mut it.world.pools.memory).unwrap_err())
    });

    let (mut it, mut plan) = Fixture::new(Demand::<S>::backend(11), mirror::ROOM, false);
    it.map(&mut plan, 0, 1).unwrap();
    it.map(&mut plan, 1, 2).unwrap();
    let first = it.stage(&mut plan).unwrap();
    // At staging: the changes are still to be staged, and what was staged before still runs, by the old map.
    it.unmap(&mut plan, 0);
    it.map(&mut plan, 2, 1).unwrap();
    let image = it.world.image();
    failing(Call::Map, || it.stage(&mut plan).unwrap_err());
    it.world.assert_is(&image);
    assert_eq!(plan.page_map().pending().len(), 2);
    assert_eq!(it.launcher.state(first), TicketState::Pending);
    it.launch(&[(0, 1), (1, 2)]);
    assert!(matches!(it.launcher.state(first), TicketState::Done(_)));

    // The same plan again: its ticket is not done before it ran.
    let second = it.stage(&mut plan).unwrap();
    assert_eq!(it.launcher.state(second), TicketState::Pending);
    failing(Call::Rows, || it.launcher.launch(&mut it.world.pools.memory).unwrap_err());
    assert_eq!(it.launcher.state(second), TicketState::Pending);
    it.launch(&[(2, 1), (1, 2)]);
    assert!(matches!(it.launcher.state(second), TicketState::Done(_)));
    let counters = it.launcher.counters();
    assert_eq!((counters.staged, counters.launches, counters.done), (2, 2, 2));

    // The block of a page that was not mapped after all is free for another page.
    it.map(&mut plan, 0, 0).unwrap();
    failing(Call::Map, || it.stage(&mut plan).unwrap_err());
    it.unmap(&mut plan, 0);
    it.unmap(&mut plan, 1);
    it.map(&mut plan, 1, 0).unwrap();
    it.stage(&mut plan).unwrap();
    it.launch(&[(2, 1), (1, 0)]);
}

/// A digest that could not be launched is still to be had.
pub fn a_backend_that_fails_to_digest<S: Subject>() {
    let mut world = World::small(&S::backend(1));
    let mut plan = DigestPlan::new(world.geometry(), ROOM).unwrap();
    let number = world.digest(&mut plan, (0, Memory::Host), &[2, 0], 7).unwrap();
    let backend = Demand::<S>::backend(1);
    let mut launcher = Launcher::bind(backend, &world.pools.memory, &mut plan, slots(1)).unwrap();
    let ticket = launcher.stage(&world.pools.memory, &mut plan).unwrap();
    failing(Call::Digest, || launcher.launch(&mut world.pools.memory).unwrap_err());
    let error = launcher.digest(ticket, number).unwrap_err();
    assert!(matches!(error, Error::Launch(LaunchError::DigestsPending { .. })), "{error}");
    launcher.launch(&mut world.pools.memory).unwrap();
    assert_ne!(launcher.digest(ticket, number).unwrap(), 0);
}

/// Kind 15. A staged table may be read until its ticket is settled: until then nothing is written over it, also where
/// all slots are in flight.
pub fn a_table_in_flight_is_not_rewritten<S: Subject>() {
    let mut it = Lifts::<Demand<S>>::new(slots(2));
    // A launcher's last allocations are its slots: a table and an answer each.
    let tables = HOST.with_borrow(|all| [all[all.len() - 4], all[all.len() - 2]]);
    let held = || {
        tables.map(|region| {
            let start = std::ptr::with_exposed_provenance::<u8>(region.address() as usize);
            // SAFETY: the launcher has the buffers, and is not called meanwhile.
            unsafe { std::slice::from_raw_parts(start, region.bytes() as usize) }.to_vec()
        })
    };
    let empty = held();
    it.stage(&[one()]);
    let first = held();
    let own = (0..2).find(|&slot| first[slot] != empty[slot]).unwrap();
    assert_eq!(first[1 - own], empty[1 - own]);
    it.stage(&[two()]);
    let both = held();
    assert_eq!(both[own], first[own], "the first plan may still be read");
    it.try_stage(&[one(), two()]).unwrap_err();
    assert_eq!(held(), both, "both plans may still be read");
    it.launch(&[two()]);
    assert_eq!(held(), both);
    // Now the first one will never be read, and the second has been.
    it.stage(&[one(), two()]);
    assert_ne!(held()[own], both[own]);
    assert_eq!(held()[1 - own], both[1 - own]);
}

pub fn a_backend_that_gives_too_little<S: Subject>() {
    let mut it = Lifts::<S>::new(slots(1));
    // The sizes of all tables are among these.
    for most in [1, 24, 32, 64, 200, 4096, 1 << 20] {
        let backend = || Demand::<S>::backend(1);
        let bound = failing(Call::Allocate(most), || {
            Launcher::bind(backend(), &it.world.pools.memory, &mut it.plan, slots(2)).map(drop)
        });
        match bound {
            Err(Error::Backend(BackendError::Allocation { needed, found, .. })) => {
                assert_eq!((needed <= most, found + 1), (true, needed));
            }
            other => assert!(other.is_ok() && most < 24, "{most}: {other:?}"),
        }
    }
}

#[test]
fn launches_without_threads() {
    let shapes = [(0, 1, 1), (1, 0, 32), (1, 1, 0), (1 << 16, 1 << 16, 1), (1 << 11, 1 << 11, 32)];
    for (blocks, warps, lanes) in shapes {
        let backend = Emulated { shape: Shape { blocks, warps, lanes }, seed: 1 };
        let mut world = World::small(&backend);
        let scratch = Scratch::new(&mut world.pools, &backend).array(1, 8);
        let options = LauncherOptions::default();
        let shape = |error| matches!(error, Error::Backend(BackendError::Shape { .. }));

        let mut plan = RestorePlan::new(world.geometry(), ROOM).unwrap();
        world.lift(&mut plan, &simple(3, &[1], 0, pagelift::plan::TailRows::Whole));
        let image = world.image();
        let mut launcher = Launcher::bind(backend, &world.pools.memory, &mut plan, options).unwrap();
        let ticket = launcher.stage(&world.pools.memory, &mut plan).unwrap();
        assert!(shape(launcher.launch(&mut world.pools.memory).unwrap_err()));
        assert_eq!(launcher.state(ticket), TicketState::Pending);

        let mut plan = MirrorPlan::new(world.geometry(), mirror::ROOM).unwrap();
        let key = world.paged();
        plan.bind(key, RowBinding::new(scratch, 1)).unwrap();
        let mut launcher = Launcher::bind(backend, &world.pools.memory, &mut plan, options).unwrap();
        launcher.stage(&world.pools.memory, &mut plan).unwrap();
        assert!(shape(launcher.launch(&mut world.pools.memory).unwrap_err()));
        plan.page_map_mut()
            .map(key, pagelift::id::PageId::new(0), pagelift::id::HostBlockId::new(0))
            .unwrap();
        assert!(shape(launcher.stage(&world.pools.memory, &mut plan).unwrap_err()));
        assert_eq!(plan.jobs(), 1);
        world.assert_is(&image);
    }
}
