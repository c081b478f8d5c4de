//! D's end: a connection of one rank to its like of P, and imports in flight over it.
//!
//! An engine says [`Consumer::begin`], asks it to go on ([`Consumer::poll`]) as often as it likes, a few times for each heartbeat
//! at least, and hears of each import once how it ended; from then on nothing writes its blocks. Nothing here waits, and there
//! is no thread.
//!
//! ```text
//!          begin               P has granted it                the last read has ended
//!  engine ───────▶ ASKED ─────────────────────────▶ READING ────────────────────────────▶ Ended, with what is valid
//!                    │    planned, zeroed, begun        │ heartbeats; a notice, once
//!                    └── refused, cancelled, no answer, connection lost ────────────────▶ Ended: nothing was read
//! ```
//!
//! With ids of a lifecycle ([`RequestId`]) all of that is its events: one *read* of the lifecycle is all that one rank reads of
//! an import. [`crate::wanted`] makes the block tables, [`posted`] and [`ConsumerEvent::of_lifecycle`] the events.
//!
//! | what happens to the connection | what comes of it |
//! |---|---|
//! | P has another schema or rank, or says what makes no sense | [`ConsumerEvent::Lost`]; whatever was asked for fails |
//! | it is lost while reads are in flight | they go on for as long as the lease lasts that P has acknowledged; then they have failed |
//!
//! [`RequestId`]: pagelift_planner::lifecycle::RequestId

mod event;
mod import;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use pagelift_planner::quantity::Tokens;

pub use self::event::{ConsumerEvent, End, Failure, posted};
use self::import::{Import, Turn};
use crate::control::{Message, Wire};
use crate::error::{ConsumerError, ControlError};
use crate::lease::Moment;
use crate::offer::Offer;
use crate::pairing::Peer;
use crate::plan::{BlockTables, ReadLimits};
use crate::transfer::{Destination, Transfer};

/// How a consumer goes about it.
#[derive(Clone, Copy, Debug)]
pub struct ConsumerOptions {
    /// How large a read may be.
    pub read_limits: ReadLimits,
    /// How long P may take to greet and to send its offer.
    pub greeting_timeout: Duration,
    /// How long P may take to grant an export: its engine may have to compute it first.
    pub grant_timeout: Duration,
    /// How long the reads of an import may take.
    pub read_timeout: Duration,
    /// How long reads that were told to stop may take to end, before the engine hears of it.
    pub stop_timeout: Duration,
    /// How often P hears something, where there is nothing to say. A lease counts from the last of these words before P's grant:
    /// so it is well shorter than P's leases, or what P computes for a while is granted in vain.
    pub presence_interval: Duration,
    /// How P hears that an import reads no more.
    pub notices: Notices,
    /// Messages that are heard in one turn.
    pub turns: u32,
    /// What is begun in one turn, of all imports, unless a single read has more. The rest follows in later turns: heartbeats are
    /// sent between.
    pub turn_limits: ReadLimits,
}

impl Default for ConsumerOptions {
    /// Reads of 64 MiB; ten seconds for the greeting, five minutes for a grant, one for reads, thirty seconds to stop; a
    /// word every five seconds; notices over the control channel; 256 messages a turn, and the reads of
    /// 256 MiB or 65,536 entries.
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            read_limits: ReadLimits::default(),
            greeting_timeout: seconds(10),
            grant_timeout: seconds(300),
            read_timeout: seconds(60),
            stop_timeout: seconds(30),
            presence_interval: seconds(5),
            notices: Notices::default(),
            turns: 256,
            turn_limits: ReadLimits { most_bytes: 256 << 20, most_entries: 1 << 16 },
        }
    }
}

/// How P hears that an import reads no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Notices {
    /// Over the control channel; over the transport where that is lost.
    #[default]
    Control,
    /// Over the transport, which does not say whether it has arrived; over the control channel where it cannot be sent.
    Transfer,
}

/// What an engine wants read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The request, by the number that both engines know it by.
    pub request: u64,
    /// Tokens that are imported.
    pub imported: Tokens,
    /// The blocks to fill, by position; without those that are here already. With none, P is notified and that is all.
    pub blocks: BlockTables,
    /// Whether the engine waits to hear that all bytes are here.
    pub awaited: bool,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConsumerCounters {
    /// Imports begun.
    pub begun: u64,
    /// Those that landed whole, or had nothing to read.
    pub landed: u64,
    /// Those that did not.
    pub failed: u64,
    /// Bytes of the reads that were begun.
    pub bytes: u64,
    /// Bytes that were zeroed.
    pub zeroed: u64,
    /// Heartbeats sent.
    pub heartbeats: u64,
    /// Grants of what nobody waits for any more: P was told.
    pub late_grants: u64,
    /// Notices that could not be sent. P frees when the lease is over.
    pub unsent: u64,
}

/// D's end, of one rank and one P. `K` is the engine's id of an import.
pub struct Consumer<X: Transfer, W, K> {
    // Dropped in this order: readings need lists, and lists the transport.
    imports: BTreeMap<K, Import<X::Reading>>,
    paired: Option<Paired<X::Lists>>,
    transfer: X,
    wire: W,
    offer: Offer,
    options: ConsumerOptions,
    begun: Moment,
    /// When something was last said.
    said: Option<Moment>,
    over: Option<ConsumerError>,
    /// Whether goodbye was said, and P has not closed the connection yet.
    leaving: bool,
    counters: ConsumerCounters,
    events: Vec<ConsumerEvent<K>>,
}

/// P, once its offer has come.
struct Paired<L> {
    name: String,
    peer: Peer,
    lists: L,
    offer: Offer,
}

/// Says where it stands, and nothing of its transport, its wire and the imports.
impl<X: Transfer, W, K> fmt::Debug for Consumer<X, W, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut own = f.debug_struct("Consumer");
        own.field("producer", &self.paired.as_ref().map(|paired| &paired.name));
        own.field("in_flight", &self.imports.len()).field("over", &self.over);
        own.field("options", &self.options).field("counters", &self.counters);
        own.finish_non_exhaustive()
    }
}

impl<X: Transfer, W: Wire, K: Copy + Ord> Consumer<X, W, K> {
    /// Begins a conversation with P. The memory that `offer` lists is registered with `transfer` before this. P reads nothing
    /// here, so it is not told how that would be done.
    ///
    /// # Errors
    /// Where the conversation has failed already.
    pub fn new(
        transfer: X,
        mut wire: W,
        offer: Offer,
        options: ConsumerOptions,
        now: Moment,
    ) -> Result<Self, ConsumerError> {
        wire.send(&Message::Offer { offer: Box::new(offer.clone()), metadata: Vec::new() })?;
        Ok(Self {
            imports: BTreeMap::new(),
            paired: None,
            transfer,
            wire,
            offer,
            options,
            begun: now,
            said: None,
            over: None,
            leaving: false,
            counters: ConsumerCounters::default(),
            events: Vec::new(),
        })
    }

    /// Wants an import read. It is asked for as soon as P's offer is here.
    ///
    /// # Errors
    /// Where the connection is over, or an import of that id or request is in flight.
    pub fn begin(&mut self, id: K, wanted: Wanted) -> Result<(), ConsumerError> {
        if let Some(why) = &self.over {
            return Err(why.clone());
        }
        let request = wanted.request;
        let twice = self.imports.values().any(|import| import.wanted().request == request);
        if twice || self.imports.contains_key(&id) {
            return Err(ConsumerError::Twice { request });
        }
        self.counters.begun = self.counters.begun.saturating_add(1);
        self.imports.insert(id, Import::new(wanted));
        Ok(())
    }

    /// The client does not want an import any more. Its end is heard of all the same, once nothing writes its blocks.
    pub fn cancel(&mut self, id: K) {
        if let Some(import) = self.imports.get_mut(&id) {
            import.cancel();
        }
    }

    /// Goes on: hears P, begins reads, looks at those in flight, sends heartbeats. Returns what happened.
    ///
    /// The clock is asked more than once: what has landed is believed where the lease lasts when that was seen, and not when the
    /// turn began.
    pub fn poll(
        &mut self,
        clock: impl Fn() -> Moment,
        memory: &mut impl Destination,
    ) -> Vec<ConsumerEvent<K>> {
        // An earlier time is the safe one for what is sent: D's leases count from it.
        let now = clock();
        if self.over.is_none()
            && let Err(why) = self.converse(now)
        {
            self.over = Some(why.clone());
            self.events.push(ConsumerEvent::Lost { why });
        }
        // What P still says means nothing any more, but it must be taken.
        for _ in 0..self.options.turns {
            match self.leaving.then(|| self.wire.receive()) {
                Some(Ok(Some(_))) => {}
                Some(Err(_)) => self.leaving = false,
                Some(Ok(None)) | None => break,
            }
        }
        let mut imports = std::mem::take(&mut self.imports);
        let mut turn = Turn {
            now,
            clock: &clock,
            memory,
            transfer: &self.transfer,
            paired: self.paired.as_ref(),
            wire: &mut self.wire,
            offer: &self.offer,
            options: &self.options,
            over: self.over.as_ref(),
            counters: &mut self.counters,
            spoke: false,
            begun: 0,
            bytes: 0,
            entries: 0,
        };
        imports.retain(|id, import| {
            for event in import.go_on(&mut turn) {
                self.events.push(event.of(*id));
            }
            !import.is_over()
        });
        if turn.spoke {
            self.said = Some(now);
        }
        self.imports = imports;
        std::mem::take(&mut self.events)
    }

    /// Whether P's offer is here, and is of the same schema.
    #[must_use]
    pub const fn is_paired(&self) -> bool {
        self.paired.is_some()
    }

    /// P's offer, once it is here.
    #[must_use]
    pub fn producer(&self) -> Option<&Offer> {
        self.paired.as_ref().map(|paired| &paired.offer)
    }

    /// Why the connection is over, if it is.
    #[must_use]
    pub const fn over(&self) -> Option<&ConsumerError> {
        self.over.as_ref()
    }

    /// Imports whose end has not come.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.imports.len()
    }

    /// What was counted.
    #[must_use]
    pub const fn counters(&self) -> ConsumerCounters {
        self.counters
    }

    /// What carries bytes.
    #[must_use]
    pub const fn transfer(&self) -> &X {
        &self.transfer
    }

    /// Tells P that nothing more will be said. Imports in flight go on as after a lost connection; so it comes after the last.
    /// P has heard all when [`Consumer::is_left`] says so: until then it is polled, for a connection that is dropped may lose what
    /// was said last.
    pub fn close(&mut self) {
        if self.over.is_none() {
            // It is the last word: where it cannot be said, P notices.
            self.leaving = self.wire.send(&Message::Bye).is_ok();
            self.over = Some(ConsumerError::Closed);
        }
    }

    /// Whether the connection is over, and P has closed it where this side has said goodbye.
    #[must_use]
    pub const fn is_left(&self) -> bool {
        self.over.is_some() && !self.leaving
    }

    /// Hears what P says.
    fn converse(&mut self, now: Moment) -> Result<(), ConsumerError> {
        for _ in 0..self.options.turns {
            let Some(message) = self.wire.receive()? else { break };
            self.hear(message)?;
        }
        if self.paired.is_none() {
            let waited = now.since(self.begun);
            if waited >= self.options.greeting_timeout {
                return Err(ConsumerError::NoOffer { waited });
            }
        } else if self.said.is_none_or(|said| now.since(said) >= self.options.presence_interval) {
            self.wire.send(&Message::Here)?;
            self.said = Some(now);
        }
        Ok(())
    }

    fn hear(&mut self, message: Message) -> Result<(), ConsumerError> {
        match message {
            Message::Offer { offer, metadata } if self.paired.is_none() => {
                offer.check()?;
                let peer = Peer::pair(&self.offer, &offer)?;
                let name = self.transfer.add_peer(&metadata).map_err(ConsumerError::transfer)?;
                let lists = self.transfer.prepare(&name, &peer).map_err(|error| {
                    // What failed first is told.
                    let _: Result<(), X::Error> = self.transfer.forget_peer(&name);
                    ConsumerError::transfer(error)
                })?;
                self.paired = Some(Paired { name, peer, lists, offer: *offer });
                self.events.push(ConsumerEvent::Paired);
            }
            // It was said before. A notice would have P free what is being read.
            Message::Granted { export, .. } if self.imports.values().any(|import| import.has(export)) => {}
            Message::Granted { request, sent, export, terms, blocks } => {
                let import = self.imports.values_mut().find(|import| import.waits_for(request, sent));
                match import {
                    Some(import) => import.granted(Moment::new(sent), export, terms, &blocks),
                    None => {
                        self.counters.late_grants = self.counters.late_grants.saturating_add(1);
                        let notice = import::not_wanted(export, self.offer.rank);
                        self.wire.send(&Message::Notice(notice))?;
                    }
                }
            }
            Message::Refused { request, sent, reason } => {
                let mut imports = self.imports.values_mut();
                if let Some(import) = imports.find(|import| import.waits_for(request, sent)) {
                    import.refused(reason);
                }
            }
            Message::Held { export, rank, sent } if rank == self.offer.rank => {
                if let Some(import) = self.imports.values_mut().find(|import| import.reads(export)) {
                    import.acknowledged(Moment::new(sent));
                }
            }
            Message::NotHeld { export, rank } if rank == self.offer.rank => {
                if let Some(import) = self.imports.values_mut().find(|import| import.reads(export)) {
                    import.not_held();
                }
            }
            Message::Bye => return Err(ControlError::Ended.into()),
            other => return Err(ConsumerError::Unexpected { message: other.name() }),
        }
        Ok(())
    }
}

impl<X: Transfer, W, K> Drop for Consumer<X, W, K> {
    /// Reads in flight are given up, which no transport does for sure: an engine polls until none is, or drops the transport
    /// and the registration of its memory with it, before it uses their blocks again.
    fn drop(&mut self) {
        self.imports.clear();
        if let Some(Paired { name, lists, .. }) = self.paired.take() {
            drop(lists);
            // It may be gone from there already.
            let _: Result<(), X::Error> = self.transfer.forget_peer(&name);
        }
    }
}
