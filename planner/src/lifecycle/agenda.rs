//! Work that waits for a launch, and work that is in one. Nothing is done twice, and nothing is lost.
//!
//! ```text
//! waiting ── draft ──▶ drafted ── staged ──▶ in flight ── done ──▶ out
//!    ▲                    │                      │
//!    └──── step retried ──┴──── superseded ──────┘
//! ```

use std::collections::VecDeque;

/// Work of one kind of plan, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Agenda<T> {
    waiting: VecDeque<T>,
    /// Of these, the first so many are in the plan that is being made.
    drafted: usize,
    /// With the ticket of its plan, the earliest first.
    flying: VecDeque<(u64, T)>,
}

impl<T> Default for Agenda<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), drafted: 0, flying: VecDeque::new() }
    }
}

impl<T: Copy + PartialEq> Agenda<T> {
    pub fn push(&mut self, work: T) {
        self.waiting.push_back(work);
    }

    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.flying.is_empty()
    }

    /// What waits and is not drafted, in order.
    pub fn next(&self) -> Option<T> {
        self.waiting.get(self.drafted).copied()
    }

    /// The next one is in the plan that is being made.
    pub fn draft(&mut self) {
        self.drafted = self.drafted.saturating_add(1).min(self.waiting.len());
    }

    pub const fn drafted(&self) -> usize {
        self.drafted
    }

    /// The plan was thrown away: all that it had waits again.
    pub const fn undraft(&mut self) {
        self.drafted = 0;
    }

    /// The plan was staged.
    pub fn staged(&mut self, ticket: u64) {
        self.flying.extend(self.waiting.drain(..self.drafted).map(|work| (ticket, work)));
        self.drafted = 0;
    }

    /// Takes the next work out that a ticket had.
    pub fn settle(&mut self, ticket: u64) -> Option<T> {
        let at = self.flying.iter().position(|(own, _)| *own == ticket)?;
        self.flying.remove(at).map(|(_, work)| work)
    }

    /// Work of a superseded ticket comes first again. The last of several has to be put back first.
    pub fn put_back(&mut self, work: T) {
        self.waiting.push_front(work);
        if self.drafted > 0 {
            // What is being planned is planned again, in order.
            self.drafted = 0;
        }
    }

    /// The last work that a ticket had, taken out.
    pub fn settle_last(&mut self, ticket: u64) -> Option<T> {
        let at = self.flying.iter().rposition(|(own, _)| *own == ticket)?;
        self.flying.remove(at).map(|(_, work)| work)
    }

    /// Tickets that are in flight, each once.
    pub fn tickets(&self) -> impl Iterator<Item = u64> {
        let mut last = None;
        self.flying
            .iter()
            .map(|(ticket, _)| *ticket)
            .filter(move |ticket| last.replace(*ticket) != Some(*ticket))
    }

    /// What a ticket has.
    pub fn of(&self, ticket: u64) -> impl Iterator<Item = T> {
        self.flying.iter().filter(move |(own, _)| *own == ticket).map(|(_, work)| *work)
    }

    /// Takes work out that is not in flight. Whether it was there.
    pub fn withdraw(&mut self, work: T) -> bool {
        let Some(at) = self.waiting.iter().position(|other| *other == work) else { return false };
        self.waiting.remove(at);
        if at < self.drafted {
            self.drafted = 0;
        }
        true
    }

    /// Whether work waits or is in flight.
    pub fn has(&self, work: T) -> bool {
        self.waiting.contains(&work) || self.flying.iter().any(|(_, flying)| *flying == work)
    }

    /// What is not in flight, in order.
    pub fn waiting(&self) -> impl Iterator<Item = T> {
        self.waiting.iter().copied()
    }

    /// What is in flight.
    pub fn in_flight(&self) -> impl Iterator<Item = T> {
        self.flying.iter().map(|(_, work)| *work)
    }
}
