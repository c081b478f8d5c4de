//! Handles: numbers that tables know.
//!
//! A handle is a kind (8 bits), how often its slot was freed before (32 bits), and the slot (24 bits). It is compared with the slot
//! before anything is touched, so that null, forged, wrong and freed ones are told apart and refused. Slots never move, and are
//! looked up by two loads; what is in one is had by a lock that is tried and never waited for.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, RwLock, TryLockError};

use crate::foreign::Out;
use crate::status::{Failure, Outcome, Status, answer};

/// What a handle may stand for.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum HandleKind {
    /// A `pagelift_backend`.
    Backend = 1,
    /// A `pagelift_layout`.
    Layout,
    /// A `pagelift_registry`.
    Registry,
    /// A `pagelift_geometry_builder`.
    GeometryBuilder,
    /// A `pagelift_geometry`.
    Geometry,
    /// A `pagelift_plan`.
    Plan,
    /// A `pagelift_reservations`.
    Reservations,
    /// A `pagelift_launcher`.
    Launcher,
    /// A `pagelift_lifecycle`.
    Lifecycle,
    /// A `pagelift_runner`.
    Runner,
}

impl HandleKind {
    const ALL: [(Self, &'static str); 10] = [
        (Self::Backend, "a backend"),
        (Self::Layout, "a layout"),
        (Self::Registry, "a registry"),
        (Self::GeometryBuilder, "a geometry builder"),
        (Self::Geometry, "a geometry"),
        (Self::Plan, "a plan"),
        (Self::Reservations, "reservations"),
        (Self::Launcher, "a launcher"),
        (Self::Lifecycle, "a lifecycle"),
        (Self::Runner, "a runner"),
    ];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("?", |(_, name)| name)
    }
}

/// What handles stand for.
pub trait Object: Sized + Send + Sync + 'static {
    /// Its kind.
    const KIND: HandleKind;
    /// Where all of its kind are.
    fn table() -> &'static Table<Self>;
}

/// A kind of object, with its table.
macro_rules! object {
    ($type:ty, $kind:ident) => {
        impl $crate::handle::Object for $type {
            const KIND: $crate::handle::HandleKind = $crate::handle::HandleKind::$kind;

            fn table() -> &'static $crate::handle::Table<Self> {
                static TABLE: $crate::handle::Table<$type> = $crate::handle::Table::new();
                &TABLE
            }
        }
    };
}
pub(crate) use object;

const SLOT_BITS: u32 = 24;
const GENERATION_BITS: u32 = 32;
/// Slots of the first chunk; each of the next ones has twice as many as the one before.
const FIRST: u32 = 64;
/// Chunks of a table: 1,048,512 slots.
const CHUNKS: usize = 14;

/// Objects of all kinds that were not freed.
static LIVE: AtomicU64 = AtomicU64::new(0);

/// A place for one object after the other.
struct Slot<T> {
    /// How often it was freed, from 1. Changed with the value locked.
    generation: AtomicU32,
    value: RwLock<Option<T>>,
}

/// All objects of one kind. Slots are added, and never moved or removed.
pub struct Table<T> {
    chunks: [OnceLock<Box<[Slot<T>]>>; CHUNKS],
    unused: Mutex<Unused>,
}

/// Slots to be given out.
struct Unused {
    freed: Vec<u32>,
    /// The first that was never used.
    next: u32,
}

/// What a handle says.
#[derive(Clone, Copy)]
struct Parts {
    generation: u32,
    slot: u32,
}

impl Parts {
    fn of<T: Object>(handle: u64) -> Outcome<Self> {
        let kind = handle >> (SLOT_BITS + GENERATION_BITS);
        if kind == T::KIND as u64 {
            let generation = (handle >> SLOT_BITS) as u32;
            return Ok(Self { generation, slot: handle as u32 & ((1 << SLOT_BITS) - 1) });
        }
        let wanted = T::KIND.name();
        if handle == 0 {
            return Err(Failure::new(Status::InvalidHandle, format!("the handle is 0; expected {wanted}")));
        }
        match HandleKind::ALL.iter().find(|(known, _)| *known as u64 == kind) {
            Some((_, name)) => {
                Err(Failure::new(Status::WrongKind, format!("expected {wanted}, found {name}")))
            }
            None => Err(forged::<T>(handle)),
        }
    }
}

/// In which chunk a slot is, and its place there.
fn place(number: u32) -> (usize, usize) {
    let number = u64::from(number) + u64::from(FIRST);
    let chunk = number.ilog2() - FIRST.ilog2();
    (chunk as usize, (number - (u64::from(FIRST) << chunk)) as usize)
}

fn forged<T: Object>(handle: u64) -> Failure {
    Failure::new(Status::InvalidHandle, format!("{handle:#x} is no handle; expected {}", T::KIND.name()))
}

impl<T: Object> Table<T> {
    /// An empty one.
    #[expect(clippy::new_without_default, reason = "tables are statics, made by `object!`")]
    pub const fn new() -> Self {
        let unused = Mutex::new(Unused { freed: Vec::new(), next: 0 });
        Self { chunks: [const { OnceLock::new() }; CHUNKS], unused }
    }

    fn slot(&self, number: u32) -> Option<&Slot<T>> {
        let (chunk, place) = place(number);
        self.chunks.get(chunk)?.get()?.get(place)
    }

    /// The slot of a handle which is not known to be bad.
    fn find(&self, handle: u64, parts: Parts) -> Outcome<&Slot<T>> {
        let slot = self.slot(parts.slot).ok_or_else(|| forged::<T>(handle))?;
        Self::check(slot, handle, parts)?;
        Ok(slot)
    }

    fn check(slot: &Slot<T>, handle: u64, parts: Parts) -> Outcome {
        let current = slot.generation.load(Ordering::Acquire);
        match parts.generation.cmp(&current) {
            std::cmp::Ordering::Equal => Ok(()),
            std::cmp::Ordering::Less if parts.generation > 0 => Err(Failure::new(
                Status::StaleHandle,
                format!("{} that was freed, or built, before", T::KIND.name()),
            )),
            _ => Err(forged::<T>(handle)),
        }
    }

    /// The number of a slot that nothing is in, and the slot.
    fn unused(&self) -> Outcome<(u32, &Slot<T>)> {
        let full = || {
            Failure::new(Status::TooManyHandles, format!("there are no more handles of {}", T::KIND.name()))
        };
        let mut unused = self.unused.lock().unwrap_or_else(PoisonError::into_inner);
        let number = match unused.freed.pop() {
            Some(number) => number,
            None => {
                let number = unused.next;
                let (chunk, _) = place(number);
                let chunk = self.chunks.get(chunk).ok_or_else(full)?;
                if chunk.get().is_none() {
                    self.add(chunk, number, &mut unused)?;
                }
                unused.next += 1;
                number
            }
        };
        drop(unused);
        Ok((number, self.slot(number).ok_or_else(full)?))
    }

    /// Adds the chunk that begins with a slot, and room to give all slots back: that cannot fail. Nobody else does, for `unused` is
    /// locked.
    fn add(&self, chunk: &OnceLock<Box<[Slot<T>]>>, number: u32, unused: &mut Unused) -> Outcome {
        let slots = (number + FIRST) as usize;
        let no_memory = |_| {
            let text = format!("there is no memory for {slots} more handles of {}", T::KIND.name());
            Failure::new(Status::OutOfMemory, text)
        };
        let mut list = Vec::new();
        list.try_reserve_exact(slots).map_err(no_memory)?;
        unused.freed.try_reserve_exact(slots + number as usize).map_err(no_memory)?;
        list.resize_with(slots, || Slot { generation: AtomicU32::new(1), value: RwLock::new(None) });
        let added = chunk.set(list.into_boxed_slice());
        debug_assert!(added.is_ok(), "it was not there");
        Ok(())
    }

    /// Gives a slot out again.
    fn give_back(&self, number: u32) {
        self.unused.lock().unwrap_or_else(PoisonError::into_inner).freed.push(number);
    }

    /// Takes an object out, unless `may` refuses.
    fn remove(&self, handle: u64, may: impl FnOnce(&T) -> Outcome) -> Outcome<T> {
        let parts = Parts::of::<T>(handle)?;
        let slot = self.find(handle, parts)?;
        let mut value = match slot.value.try_write() {
            Ok(value) => value,
            // What a mistake of ours has left can be freed still.
            Err(TryLockError::Poisoned(value)) => value.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(busy::<T>()),
        };
        Self::check(slot, handle, parts)?;
        may(value.as_ref().ok_or_else(|| forged::<T>(handle))?)?;
        let taken = value.take().ok_or_else(|| forged::<T>(handle))?;
        LIVE.fetch_sub(1, Ordering::Relaxed);
        let next = parts.generation.saturating_add(1);
        slot.generation.store(next, Ordering::Release);
        slot.value.clear_poison();
        drop(value);
        // The last generation is given to nobody, and its slot is not used again: all handles of it are stale for good.
        if next < u32::MAX {
            self.give_back(parts.slot);
        }
        Ok(taken)
    }
}

fn busy<T: Object>() -> Failure {
    Failure::busy(T::KIND.name())
}

/// What a lock that is tried says.
pub fn tried<G>(tried: Result<G, TryLockError<G>>, what: &'static str) -> Outcome<G> {
    tried.map_err(|error| match error {
        TryLockError::WouldBlock => Failure::busy(what),
        TryLockError::Poisoned(_) => broken(what),
    })
}

fn broken(what: &str) -> Failure {
    Failure::new(Status::Internal, format!("a call on {what} met a mistake of pagelift's before; free it"))
}

/// A handle as functions use it, whatever it is called in C.
pub struct Handle<T>(u64, PhantomData<fn(T)>);

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

impl<T: Object> Handle<T> {
    /// Whatever number C has given.
    pub const fn new(value: u64) -> Self {
        Self(value, PhantomData)
    }

    /// Looks at the object, beside others who do.
    pub fn look<R>(self, look: impl FnOnce(&T) -> Outcome<R>) -> Outcome<R> {
        let parts = Parts::of::<T>(self.0)?;
        let table = T::table();
        let slot = table.find(self.0, parts)?;
        let value = match slot.value.try_read() {
            Ok(value) => value,
            Err(TryLockError::WouldBlock) => return Err(busy::<T>()),
            Err(TryLockError::Poisoned(_)) => return Err(broken(T::KIND.name())),
        };
        // It may have been freed before it was locked.
        Table::check(slot, self.0, parts)?;
        look(value.as_ref().ok_or_else(|| forged::<T>(self.0))?)
    }

    /// Changes the object, alone.
    pub fn change<R>(self, change: impl FnOnce(&mut T) -> Outcome<R>) -> Outcome<R> {
        let parts = Parts::of::<T>(self.0)?;
        let table = T::table();
        let slot = table.find(self.0, parts)?;
        let mut value = match slot.value.try_write() {
            Ok(value) => value,
            Err(TryLockError::WouldBlock) => return Err(busy::<T>()),
            Err(TryLockError::Poisoned(_)) => return Err(broken(T::KIND.name())),
        };
        Table::check(slot, self.0, parts)?;
        change(value.as_mut().ok_or_else(|| forged::<T>(self.0))?)
    }

    /// Takes the object out: the handle is stale from then on.
    pub fn take(self) -> Outcome<T> {
        T::table().remove(self.0, |_| Ok(()))
    }

    /// The same, unless `may` refuses.
    pub fn take_where(self, may: impl FnOnce(&T) -> Outcome) -> Outcome<T> {
        T::table().remove(self.0, may)
    }
}

/// Keeps a new object, and gives its handle.
pub fn keep<T: Object>(value: T) -> Outcome<u64> {
    Ok(Vacancy::new()?.keep(value))
}

/// A place for an object that is not made yet. A call that changes something else has it before, so that it cannot fail for the lack of
/// one afterwards.
pub struct Vacancy<T: Object> {
    number: u32,
    slot: &'static Slot<T>,
}

impl<T: Object> Vacancy<T> {
    /// One of the places that are left.
    pub fn new() -> Outcome<Self> {
        let (number, slot) = T::table().unused()?;
        Ok(Self { number, slot })
    }

    /// Keeps the object there, and gives its handle.
    pub fn keep(self, value: T) -> u64 {
        let Self { number, slot } = self;
        std::mem::forget(self);
        // Nobody has a handle of it; a forged one may be tried just now, and is gone at once.
        *slot.value.write().unwrap_or_else(PoisonError::into_inner) = Some(value);
        LIVE.fetch_add(1, Ordering::Relaxed);
        let generation = u64::from(slot.generation.load(Ordering::Acquire));
        let kind = T::KIND as u64;
        kind << (SLOT_BITS + GENERATION_BITS) | generation << SLOT_BITS | u64::from(number)
    }
}

impl<T: Object> Drop for Vacancy<T> {
    fn drop(&mut self) {
        T::table().give_back(self.number);
    }
}

/// Counts the objects of all kinds that were made and not freed: 0 in a program that leaks none.
///
/// Errors: PAGELIFT_NULL_POINTER, PAGELIFT_MISALIGNED. May be called at any time, also in a capture.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_live_handles(count: Out<u64>) -> Status {
    answer(|| {
        count.ready("count")?.put(LIVE.load(Ordering::Relaxed));
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what it expects by panicking")]

    use super::*;

    struct Thing(u32);
    object!(Thing, Layout);

    struct Other;
    object!(Other, Backend);

    /// In a slot near the end of its generations.
    struct Aged;
    object!(Aged, Plan);

    /// The status of a refusal.
    fn refusal<T>(outcome: Outcome<T>) -> Status {
        outcome.map_or_else(|failure| failure.status(), |_| Status::Ok)
    }

    #[test]
    fn handles_are_told_apart() {
        let first = keep(Thing(7)).unwrap();
        let thing = Handle::<Thing>::new(first);
        assert_eq!(thing.look(|thing| Ok(thing.0)).unwrap(), 7);
        assert_eq!(thing.change(|thing| Ok(std::mem::replace(&mut thing.0, 8))).unwrap(), 7);
        // While one looks others may, and nobody changes or frees.
        thing
            .look(|_| {
                assert_eq!(refusal(thing.look(|_| Ok(()))), Status::Ok);
                assert_eq!(refusal(thing.change(|_| Ok(()))), Status::Busy);
                assert_eq!(refusal(thing.take()), Status::Busy);
                Ok(())
            })
            .unwrap();
        assert_eq!(thing.change(|_| Ok(refusal(thing.look(|_| Ok(()))))).unwrap(), Status::Busy);
        assert_eq!(thing.take().unwrap().0, 8);
        assert_eq!(refusal(thing.take()), Status::StaleHandle);
        // The slot is used again, by another handle.
        let second = keep(Thing(9)).unwrap();
        assert_ne!(first, second);
        assert_eq!(refusal(thing.look(|_| Ok(()))), Status::StaleHandle);
        for (forged, status) in [
            (0, Status::InvalidHandle),
            (second + (1 << SLOT_BITS), Status::InvalidHandle),
            (second | 0xff_ffff, Status::InvalidHandle),
            (second ^ (3 << 56), Status::WrongKind),
            (second | 0xff << 56, Status::InvalidHandle),
            (u64::MAX, Status::InvalidHandle),
        ] {
            assert_eq!(refusal(Handle::<Thing>::new(forged).look(|_| Ok(()))), status, "{forged:#x}");
        }
        Handle::<Thing>::new(second).take().unwrap();
    }

    #[test]
    fn slots_have_places_of_their_own() {
        for (number, expected) in [
            (0, (0, 0)),
            (63, (0, 63)),
            (64, (1, 0)),
            (191, (1, 127)),
            (192, (2, 0)),
            (1_048_511, (13, 524_287)),
        ] {
            assert_eq!(place(number), expected, "{number}");
        }
        assert_eq!(place(1_048_512).0, CHUNKS);
        let handles: Vec<_> = (0..300).map(|number| Handle::new(keep(Thing(number)).unwrap())).collect();
        for (number, thing) in handles.iter().enumerate() {
            assert_eq!(thing.look(|thing: &Thing| Ok(thing.0)).unwrap() as usize, number);
        }
        let freed = handles.into_iter().map(|thing| thing.take().unwrap().0);
        assert!(freed.eq(0..300));
    }

    #[test]
    fn a_place_that_is_not_taken_is_given_out_again() {
        let place = Vacancy::<Other>::new().unwrap();
        let number = place.number;
        drop(place);
        let place = Vacancy::<Other>::new().unwrap();
        assert_eq!(place.number, number);
        let other = Handle::<Other>::new(place.keep(Other));
        assert!(other.take().is_ok());
    }

    #[test]
    fn handles_of_a_slot_that_is_used_up_stay_stale() {
        let first = keep(Aged).unwrap();
        let number = first as u32 & ((1 << SLOT_BITS) - 1);
        Handle::<Aged>::new(first).take().unwrap();
        let slot = Aged::table().slot(number).unwrap();
        slot.generation.store(u32::MAX - 1, Ordering::Release);
        let last = keep(Aged).unwrap();
        Handle::<Aged>::new(last).take().unwrap();
        // No handle is given for it any more.
        let next = keep(Aged).unwrap();
        assert_ne!(next as u32 & ((1 << SLOT_BITS) - 1), number);
        for stale in [first, last] {
            assert_eq!(refusal(Handle::<Aged>::new(stale).look(|_| Ok(()))), Status::StaleHandle);
        }
        assert_eq!(
            refusal(Handle::<Aged>::new(last + (1 << SLOT_BITS)).look(|_| Ok(()))),
            Status::InvalidHandle
        );
    }

    #[test]
    fn what_a_panic_left_can_only_be_freed() {
        let thing = Handle::<Thing>::new(keep(Thing(1)).unwrap());
        let panicked = std::panic::catch_unwind(|| thing.change::<()>(|_| panic!("for the test")));
        assert!(panicked.is_err());
        assert_eq!(refusal(thing.look(|_| Ok(()))), Status::Internal);
        assert_eq!(refusal(thing.change(|_| Ok(()))), Status::Internal);
        assert_eq!(thing.take().unwrap().0, 1);
        // Its slot is as good as new.
        let next = Handle::<Thing>::new(keep(Thing(2)).unwrap());
        assert_eq!(next.take().unwrap().0, 2);
    }
}
