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
    /// 0 where there is none: before the first, and where what would have had one has failed.
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
    /// The slot that is filled next.
    next: usize,
    /// The last number that a ticket was given, or a plan whose staging failed.
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
        Ok(Self { launcher, slots, next: 0, last: 0, settled, totals: Totals::default() })
    }

    /// Gives the next ticket a slot and lets `load` fill it. Where `load` fails, the slot is the next ticket's, but the number is
    /// used up: what failed may be carried out all the same, and no other plan may be taken for it.
    pub fn stage(
        &mut self,
        load: impl FnOnce(Ticket, u64, &mut Buffer) -> Result<(), Error>,
    ) -> Result<Ticket, Error> {
        let earlier = self.slots[self.next].ticket;
        if earlier != 0 {
            let state = self.in_flight(&self.slots[self.next]);
            if state == TicketState::Pending {
                let slots = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
                return Err(
                    LaunchError::RingFull { slots, oldest: Ticket::new(self.launcher, earlier) }.into()
                );
            }
            // Now, as its answer may be written over.
            self.settled[remembered(earlier)] = (earlier, state);
            self.totals = self.totals.plus(state);
        }
        self.last += 1;
        let slot = &mut self.slots[self.next];
        slot.ticket = 0;
        let ticket = Ticket::new(self.launcher, self.last);
        load(ticket, slot.completion.address(), &mut slot.table)?;
        slot.ticket = self.last;
        self.next = (self.next + 1) % self.slots.len();
        Ok(ticket)
    }

    /// Never frees the slots: something may still read or write them.
    pub fn keep(&mut self) {
        for Slot { table, completion, .. } in &mut self.slots {
            table.keep();
            completion.keep();
        }
    }

    /// Settles as superseded what has not run and never will, so that its slots are free.
    pub fn give_up(&mut self) {
        for at in 0..self.slots.len() {
            let slot = &self.slots[at];
            if slot.ticket != 0 && self.in_flight(slot) == TicketState::Pending {
                let (ticket, state) = (slot.ticket, TicketState::Superseded);
                self.settled[remembered(ticket)] = (ticket, state);
                self.totals = self.totals.plus(state);
                self.slots[at].ticket = 0;
            }
        }
    }

    /// What became of a ticket.
    pub fn state(&self, ticket: Ticket) -> TicketState {
        if ticket.launcher() != self.launcher {
            return TicketState::Unknown;
        }
        let ticket = ticket.number();
        if let Some(slot) = self.staged().find(|slot| slot.ticket == ticket) {
            return self.in_flight(slot);
        }
        let (settled, state) = self.settled[remembered(ticket)];
        if settled == ticket { state } else { TicketState::Unknown }
    }

    /// Sums over everything that is settled by now.
    pub fn totals(&self) -> Totals {
        self.staged().map(|slot| self.in_flight(slot)).fold(self.totals, Totals::plus)
    }

    /// Slots with tickets.
    fn staged(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(|slot| slot.ticket != 0)
    }

    /// The state of a slot's ticket.
    fn in_flight(&self, slot: &Slot) -> TicketState {
        if let Some(report) = slot.report() {
            return report;
        }
        // The table holds one plan: once a later one has run, this one never will.
        let later_ran = |other: &Slot| other.answered().is_some_and(|answered| answered > slot.ticket);
        if !self.slots.iter().any(later_ran) {
            return TicketState::Pending;
        }
        // Or it has run since it was looked at, and the later one after it.
        slot.report().unwrap_or(TicketState::Superseded)
    }
}

/// Where a settled ticket is remembered.
fn remembered(ticket: u64) -> usize {
    (ticket % REMEMBERED as u64) as usize
}

impl Slot {
    /// The ticket that the kernel answered to last. It is not the slot's before that has run.
    fn answered(&self) -> Option<u64> {
        self.completion.load_acquire(offset_of!(Completion, ticket))
    }

    /// What the kernel answered to the slot's ticket, if it has.
    fn report(&self) -> Option<TicketState> {
        // The ticket is stored last, with release: once it is seen, so is the rest. All words are loaded atomically,
        // because a repeated plan answers again.
        if self.answered()? != self.ticket {
            return None;
        }
        let word = |offset| self.completion.load_acquire(offset);
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
