//! Slots that are used again, under keys that are not.

use std::hash::{Hash, Hasher};

use crate::error::PlanError;
use crate::room::with_room;

/// Names what is in a slot, for as long as it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub slot: u32,
    /// Counts what came into the slot and what left it: odd while something is there.
    pub generation: u64,
}

/// Room for a fixed number of values. What a value allocated stays with its slot, for the next one.
#[derive(Clone, Debug)]
pub(super) struct Slab<T> {
    slots: Vec<Slot<T>>,
    /// Slots that are free; the last is given away first.
    free: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Slot<T> {
    generation: u64,
    value: T,
}

impl<T> Slab<T> {
    /// So many slots with values that nobody has a key of.
    pub fn new(
        what: &'static str,
        count: u32,
        mut value: impl FnMut() -> Result<T, PlanError>,
    ) -> Result<Self, PlanError> {
        let mut slots = with_room(what, count.into())?;
        for _ in 0..count {
            slots.push(Slot { generation: 0, value: value()? });
        }
        let mut free = with_room(what, count.into())?;
        free.extend((0..count).rev());
        Ok(Self { slots, free })
    }

    /// Values that somebody has a key of.
    pub const fn len(&self) -> usize {
        self.slots.len().saturating_sub(self.free.len())
    }

    pub const fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The slot and the key that [`Slab::open`] gives away next.
    pub fn next(&mut self) -> Option<(Key, &mut T)> {
        let slot = *self.free.last()?;
        let entry = self.slots.get_mut(index(slot))?;
        let generation = entry.generation.wrapping_add(1);
        Some((Key { slot, generation }, &mut entry.value))
    }

    /// Gives the next slot away.
    pub fn open(&mut self) {
        let slot = self.free.pop().and_then(|slot| self.slots.get_mut(index(slot)));
        if let Some(slot) = slot {
            slot.generation = slot.generation.wrapping_add(1);
        }
    }

    /// Takes a slot back: its key is not known any more.
    pub fn close(&mut self, key: Key) {
        if let Some(slot) = self.slots.get_mut(index(key.slot)).filter(|slot| slot.is_of(key)) {
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(key.slot);
        }
    }

    #[inline]
    pub fn get(&self, key: Key) -> Option<&T> {
        self.slots.get(index(key.slot)).filter(|slot| slot.is_of(key)).map(|slot| &slot.value)
    }

    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.slots.get_mut(index(key.slot)).filter(|slot| slot.is_of(key)).map(|slot| &mut slot.value)
    }

    /// The key at a place, if somebody has it.
    pub fn at(&self, slot: usize) -> Option<Key> {
        let generation = self.slots.get(slot)?.generation;
        is_live(generation).then_some(Key { slot: u32::try_from(slot).ok()?, generation })
    }

    /// All keys, in the order of their slots.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        (0..self.slots.len()).filter_map(|slot| self.at(slot))
    }
}

impl<T> Slot<T> {
    #[inline]
    const fn is_of(&self, key: Key) -> bool {
        self.generation == key.generation && is_live(self.generation)
    }

    /// What counts of it: a value that nobody has a key of is room for the next one, and no more.
    fn content(&self) -> (u64, Option<&T>) {
        (self.generation, is_live(self.generation).then_some(&self.value))
    }
}

impl<T: PartialEq> PartialEq for Slot<T> {
    fn eq(&self, other: &Self) -> bool {
        self.content() == other.content()
    }
}

impl<T: Hash> Hash for Slot<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.content().hash(state);
    }
}

impl<T: PartialEq> PartialEq for Slab<T> {
    fn eq(&self, other: &Self) -> bool {
        (&self.slots, &self.free) == (&other.slots, &other.free)
    }
}

impl<T: Hash> Hash for Slab<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.slots, &self.free).hash(state);
    }
}

const fn is_live(generation: u64) -> bool {
    generation & 1 == 1
}

#[inline]
fn index(slot: u32) -> usize {
    usize::try_from(slot).unwrap_or(usize::MAX)
}
