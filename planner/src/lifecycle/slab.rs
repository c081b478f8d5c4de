//! Requests by id: a slot is used again, an id is not.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::request::Request;
use crate::error::PlanError;
use crate::plan::room;

/// A request, from its admission to its end. Its slot is used again; the id is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestId {
    slot: u32,
    generation: u64,
}

impl RequestId {
    /// Its place among the requests of one time.
    #[must_use]
    pub const fn slot(self) -> u32 {
        self.slot
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {}.{}", self.slot, self.generation)
    }
}

/// Room for a fixed number of requests. What a request allocated stays with its slot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Slab {
    slots: Vec<Slot>,
    /// Slots without a request; the last is given away first.
    free: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Slot {
    /// Counts admissions and ends: odd while a request is here.
    generation: u64,
    request: Request,
}

impl Slab {
    pub fn new(requests: u32, ranks: u8) -> Result<Self, PlanError> {
        let mut slots = room("requests", requests.into())?;
        for _ in 0..requests {
            slots.push(Slot { generation: 0, request: Request::new(ranks)? });
        }
        let mut free = room("requests", requests.into())?;
        free.extend((0..requests).rev());
        Ok(Self { slots, free })
    }

    pub fn len(&self) -> usize {
        self.slots.len().saturating_sub(self.free.len())
    }

    /// The slot and the id that [`Slab::open`] takes next.
    pub fn next(&mut self) -> Option<(RequestId, &mut Request)> {
        let slot = *self.free.last()?;
        let entry = self.slots.get_mut(index(slot))?;
        let generation = entry.generation.saturating_add(1);
        Some((RequestId { slot, generation }, &mut entry.request))
    }

    /// Gives the next slot away.
    pub fn open(&mut self) {
        let slot = self.free.pop().and_then(|slot| self.slots.get_mut(index(slot)));
        if let Some(slot) = slot {
            slot.generation = slot.generation.saturating_add(1);
        }
    }

    /// Takes a request's slot back: its id is not known any more.
    pub fn close(&mut self, id: RequestId) {
        if let Some(slot) = self.slots.get_mut(index(id.slot)).filter(|slot| slot.generation == id.generation)
        {
            slot.generation = slot.generation.saturating_add(1);
            self.free.push(id.slot);
        }
    }

    pub fn get(&self, id: RequestId) -> Option<&Request> {
        let slot = self.slots.get(index(id.slot))?;
        (slot.generation == id.generation && is_live(slot)).then_some(&slot.request)
    }

    pub fn get_mut(&mut self, id: RequestId) -> Option<&mut Request> {
        let slot = self.slots.get_mut(index(id.slot))?;
        (slot.generation == id.generation && is_live(slot)).then_some(&mut slot.request)
    }

    pub fn ids(&self) -> impl Iterator<Item = RequestId> {
        let live = (0..).zip(&self.slots).filter(|(_, slot)| is_live(slot));
        live.map(|(number, slot)| RequestId { slot: number, generation: slot.generation })
    }

    /// The id at a place, if a request is there.
    pub fn at(&self, slot: usize) -> Option<RequestId> {
        let entry = self.slots.get(slot).filter(|slot| is_live(slot))?;
        Some(RequestId { slot: u32::try_from(slot).ok()?, generation: entry.generation })
    }

    pub fn slots(&self) -> usize {
        self.slots.len()
    }
}

const fn is_live(slot: &Slot) -> bool {
    slot.generation & 1 == 1
}

fn index(slot: u32) -> usize {
    usize::try_from(slot).unwrap_or(usize::MAX)
}
