//! Staging slots, and what became of the plans in them.

use std::mem::offset_of;

use pagelift_abi::{Completion, status};
use pagelift_planner::geometry::Memory;
use pagelift_planner::id::Ticket;

use crate::backends::{Backend, Buffer, allocate};
use crate::error::{Error, LaunchError};

/// Outcomes that are remembered after their slots were used again.
const REMEMBERED: usize = 64;

/// The most slots of a ring: asking for a ticket's state looks at each.
const MOST_SLOTS: u32 = 64;

/// What a launch reported of one plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Entries on the device that made no sense: skipped, never written somewhere else.
    pub bad: u32,
    /// Rows mirrored; 0 for page plans.
    pub rows: u32,
    /// Slot-mapping entries that were rightly skipped: padding, unmapped pages, tokens that were not accepted.
    pub skipped: u32,
}

/// What became of a staged plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TicketState {
    /// It may still run.
    Pending,
    /// Its last copy is complete and visible to the host.
    Done(Report),
    /// It was overwritten before a launch saw it: plan its work again.
    Superseded,
    /// The kernel found a table of another version, and moved nothing.
    Refused,
    /// A fault took the GPU's context before it was done: what it was to move is unknown, as is all memory of that GPU.
    Lost,
    /// It was settled too long ago to be remembered, or was never staged by this launcher.
    Unknown,
}

/// One plan in flight: what the kernel will read and where it will answer.
#[derive(Debug)]
struct Slot {
    table: Buffer,
    completion: Buffer,
    ticket: u64,
}

/// Sums over all settled tickets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub done: u64,
    pub superseded: u64,
    pub refused: u64,
    pub bad: u64,
    pub rows: u64,
    pub skipped: u64,
}

/// Slots used in turn.
#[derive(Debug)]
pub(super) struct Ring {
    launcher: u64,
    slots: Vec<Slot>,
    /// The last ticket given.
    last: u64,
    settled: [(u64, TicketState); REMEMBERED],
    totals: Totals,
}

impl Ring {
    /// Slots for tables of `table_bytes` bytes.
    pub fn new(backend: &impl Backend, launcher: u64, slots: u32, table_bytes: usize) -> Result<Self, Error> {
        if slots == 0 {
            return Err(LaunchError::NoSlots.into());
        }
        if slots > MOST_SLOTS {
            return Err(LaunchError::TooManySlots { slots, most: MOST_SLOTS }.into());
        }
        let slot = |_| -> Result<Slot, Error> {
            Ok(Slot {
                table: allocate(backend, Memory::Host, table_bytes)?,
                completion: allocate(backend, Memory::Host, size_of::<Completion>())?,
                ticket: 0,
            })
        };
        let slots = (0..slots).map(slot).collect::<Result<Vec<_>, _>>()?;
        let settled = [(0, TicketState::Unknown); REMEMBERED];
        Ok(Self { launcher, slots, last: 0, settled, totals: Totals::default() })
    }

    /// Gives the next ticket a slot and lets `load` fill it. Where `load` fails, nothing has changed.
    pub fn stage(
        &mut self,
        load: impl FnOnce(Ticket, u64, &mut Buffer) -> Result<(), Error>,
    ) -> Result<Ticket, Error> {
        let next = self.last + 1;
        let index = self.index_of(next);
        let earlier = self.slots[index].ticket;
        let state = self.in_flight(earlier);
        if earlier != 0 && state == TicketState::Pending {
            let slots = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
            return Err(LaunchError::RingFull { slots, oldest: Ticket::new(self.launcher, earlier) }.into());
        }
        let slot = &mut self.slots[index];
        let completion = slot.completion.address();
        load(Ticket::new(self.launcher, next), completion, &mut slot.table)?;
        if earlier != 0 {
            self.settled[remembered(earlier)] = (earlier, state);
            self.totals = self.totals.plus(state);
        }
        self.slots[index].ticket = next;
        self.last = next;
        Ok(Ticket::new(self.launcher, next))
    }

    /// What became of a ticket.
    pub fn state(&self, ticket: Ticket) -> TicketState {
        if ticket.launcher() != self.launcher {
            return TicketState::Unknown;
        }
        let ticket = ticket.number();
        if ticket != 0 && self.slots[self.index_of(ticket)].ticket == ticket {
            return self.in_flight(ticket);
        }
        let (settled, state) = self.settled[remembered(ticket)];
        if settled == ticket { state } else { TicketState::Unknown }
    }

    /// Sums over everything that is settled by now.
    pub fn totals(&self) -> Totals {
        let states =
            self.slots.iter().filter(|slot| slot.ticket != 0).map(|slot| self.in_flight(slot.ticket));
        states.fold(self.totals, Totals::plus)
    }

    /// The state of a ticket whose slot has not been used again.
    fn in_flight(&self, ticket: u64) -> TicketState {
        let slot = &self.slots[self.index_of(ticket)];
        if let Some(report) = slot.report(ticket) {
            return report;
        }
        // The table holds one plan: once a later one has run, this one never will.
        let later_ran = |slot: &Slot| slot.ticket > ticket && slot.report(slot.ticket).is_some();
        if self.slots.iter().any(later_ran) { TicketState::Superseded } else { TicketState::Pending }
    }

    fn index_of(&self, ticket: u64) -> usize {
        (ticket % self.slots.len() as u64) as usize
    }
}

/// Where a settled ticket is remembered.
fn remembered(ticket: u64) -> usize {
    (ticket % REMEMBERED as u64) as usize
}

impl Slot {
    /// What the kernel answered to `ticket`, if it has.
    fn report(&self, ticket: u64) -> Option<TicketState> {
        // The ticket is stored last, with release: once it is seen, so is the rest. All words are loaded atomically,
        // because a repeated plan answers again.
        let word = |offset| self.completion.load_acquire(offset);
        if word(offset_of!(Completion, ticket))? != ticket {
            return None;
        }
        let halves = |word: u64| [word as u32, (word >> 32) as u32];
        let [status, bad] = halves(word(offset_of!(Completion, status))?);
        let [rows, skipped] = halves(word(offset_of!(Completion, rows))?);
        Some(match status {
            status::DONE => TicketState::Done(Report { bad, rows, skipped }),
            _ => TicketState::Refused,
        })
    }
}

/// A word of two fields is loaded at once: the first is its low half.
const _: () = assert!(
    cfg!(target_endian = "little")
        && offset_of!(Completion, bad) == offset_of!(Completion, status) + 4
        && offset_of!(Completion, skipped) == offset_of!(Completion, rows) + 4
);

impl Totals {
    /// With one more settled ticket.
    fn plus(mut self, state: TicketState) -> Self {
        match state {
            TicketState::Done(report) => {
                self.done += 1;
                self.bad += u64::from(report.bad);
                self.rows += u64::from(report.rows);
                self.skipped += u64::from(report.skipped);
            }
            TicketState::Superseded => self.superseded += 1,
            TicketState::Refused => self.refused += 1,
            TicketState::Pending | TicketState::Lost | TicketState::Unknown => {}
        }
        self
    }
}
