//! The way of messages from transport and rank to the scheduler, on which some may come late, or twice.

use pagelift::lifecycle::Event;

use super::fault::Fault;
use crate::manifest::SplitMix64;

/// Messages on their way.
#[derive(Debug)]
pub struct Wire {
    fault: Option<Fault>,
    random: SplitMix64,
    /// Steps so far.
    now: u64,
    sent: u64,
    /// When each is due, its number, and what it says.
    messages: Vec<(u64, u64, Event<'static>)>,
    /// Messages that came late, and copies of messages.
    disturbed: u64,
}

/// The most steps that a message is late.
const LATEST: usize = 3;

impl Wire {
    /// A wire that does what the fault says of messages, and otherwise nothing to them.
    pub const fn new(fault: Option<Fault>, seed: u64) -> Self {
        let random = SplitMix64::new(seed);
        Self { fault, random, now: 0, sent: 0, messages: Vec::new(), disturbed: 0 }
    }

    /// Sends a message.
    pub fn send(&mut self, event: Event<'static>) {
        match self.fault {
            Some(Fault::Late) => {
                let delay = self.delay();
                self.disturbed += u64::from(delay > 0);
                self.push(delay, event);
            }
            Some(Fault::Duplicate) => {
                let delay = self.delay();
                self.disturbed += 1;
                self.push(0, event.clone());
                self.push(delay, event);
            }
            _ => self.push(0, event),
        }
    }

    fn delay(&mut self) -> u64 {
        self.random.below(LATEST + 1) as u64
    }

    fn push(&mut self, delay: u64, event: Event<'static>) {
        self.messages.push((self.now + delay, self.sent, event));
        self.sent += 1;
    }

    /// The next message that has arrived.
    pub fn receive(&mut self) -> Option<Event<'static>> {
        let due = self.messages.iter().enumerate().filter(|(_, (due, ..))| *due <= self.now);
        let (at, _) = due.min_by_key(|(_, (due, number, _))| (*due, *number))?;
        Some(self.messages.swap_remove(at).2)
    }

    /// A step goes by.
    pub const fn step(&mut self) {
        self.now += 1;
    }

    /// Whether nothing is on its way.
    pub const fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Whether messages may come when their request has ended.
    pub const fn is_faulty(&self) -> bool {
        matches!(self.fault, Some(Fault::Late | Fault::Duplicate))
    }

    /// Loses all that is on its way.
    pub fn lose(&mut self) {
        self.messages.clear();
    }

    /// Messages that came late, or copies of messages.
    pub const fn disturbed(&self) -> u64 {
        self.disturbed
    }
}
