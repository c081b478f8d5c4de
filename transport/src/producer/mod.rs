//! P's end: it takes connections of D's ranks, exports what its engine has, and holds that until nobody reads it.
//!
//! An engine asks it to go on ([`Producer::poll`]) as often as it likes, a few times for each heartbeat at least; nothing here
//! waits, and there is no thread. What the engine says of its blocks it says as an [`Exporter`].
//!
//! | what happens to a connection | what comes of it |
//! |---|---|
//! | it is not of who knows the secret, or of another schema or rank | it is closed; others go on |
//! | it says what makes no sense, or too much at one time, or nothing for too long | the same |
//! | it is lost | what was exported to it is held until D's notice has come another way, or its leases are over |
//! | there are as many as there may be | the first that has not shown yet that it knows the secret makes room for the newest |
//! | the system brings none, as while this process has as many files open as it may | those that are there go on; it is tried again |

mod connection;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pagelift_planner::quantity::Tokens;

use self::connection::{Asked, Connection, Step};
use crate::control::{Listen, Message};
use crate::error::{ControlError, LeaseError, ProducerError};
use crate::lease::{ExportCounters, Exports, Moment, RankEnd, Terms};
use crate::notice::{ExportId, Notice};
use crate::offer::Offer;
use crate::plan::BlockTables;
use crate::transfer::Transfer;

/// What a producer is made of, besides its engine.
#[derive(Clone, Copy, Debug)]
pub struct ProducerOptions {
    /// A number that this process has drawn: it tells its exports from those of one that had its name before.
    pub incarnation: u64,
    /// How long exports are held.
    pub terms: Terms,
    /// The most exports at one time.
    pub most_exports: usize,
    /// The most connections at one time. Who comes when there are as many is turned away, unless one is there that has not paired
    /// yet: that is closed in its stead, so that silent strangers keep nobody out.
    pub most_connections: usize,
    /// The most requests that one connection may wait for.
    pub most_asked: usize,
    /// How long a connection may say nothing before it is closed. D says something every [`ConsumerOptions::presence_interval`].
    ///
    /// [`ConsumerOptions::presence_interval`]: crate::consumer::ConsumerOptions::presence_interval
    pub silence_timeout: Duration,
}

impl ProducerOptions {
    /// With the terms that [`Terms::default`] has, 4,096 exports, 256 connections, 1,024 requests of each, and thirty seconds of
    /// silence.
    #[must_use]
    pub fn new(incarnation: u64) -> Self {
        let (terms, silence_timeout) = (Terms::default(), Duration::from_secs(30));
        Self {
            incarnation,
            terms,
            most_exports: 4096,
            most_connections: 256,
            most_asked: 1024,
            silence_timeout,
        }
    }
}

/// What a rank of D asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ask {
    /// Which ask: a number that this producer gives to no other. It stays, however long D waits.
    pub number: u64,
    /// The connection that asks, by its number.
    pub connection: u64,
    /// The request, by the number that both engines know it by.
    pub request: u64,
    /// Tokens that D imports.
    pub imported: Tokens,
    /// The rank that asks, and that will read.
    pub rank: u32,
}

/// What an engine answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<B> {
    /// The caches are computed, and lie in these blocks.
    Export {
        /// The blocks of each group, by position.
        tables: BlockTables,
        /// What stands for them: the engine gets it back when they are free.
        blocks: B,
    },
    /// They are not computed yet: the engine is asked again.
    NotYet,
    /// They will not be.
    Refuse {
        /// Why, for a person.
        reason: String,
    },
}

/// The engine of a producer.
pub trait Exporter {
    /// What stands for the blocks of an export.
    type Blocks;

    /// A rank of D wants the caches of a request. It is asked in each turn, until there is another answer than
    /// [`Answer::NotYet`].
    fn export(&mut self, ask: &Ask) -> Answer<Self::Blocks>;

    /// Nobody waits for the answer any more: the connection is over. It is not asked again.
    fn withdrawn(&mut self, _ask: &Ask) {}

    /// No rank reads an export any more: its blocks are free. Exactly once for each export.
    fn free(&mut self, freed: Freed<Self::Blocks>);
}

/// An export that nobody reads any more.
#[derive(Debug)]
pub struct Freed<B> {
    /// What was asked for.
    pub ask: Ask,
    /// Which export.
    pub export: ExportId,
    /// What the engine gave for its blocks.
    pub blocks: B,
    /// How it ended for the rank that read.
    pub end: RankEnd,
}

/// What happened, for logs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProducerEvent {
    /// A rank of D has connected, and means the same by a block.
    Connected {
        /// The connection's number.
        connection: u64,
    },
    /// A connection is over.
    Closed {
        /// Its number.
        connection: u64,
        /// Why, where D has not said that it is done.
        why: Option<ProducerError>,
    },
    /// Blocks are exported, and held from now on.
    Granted {
        /// What was asked for.
        ask: Ask,
        /// The export.
        export: ExportId,
    },
    /// Nothing is exported.
    Refused {
        /// What was asked for.
        ask: Ask,
        /// Why.
        reason: String,
    },
    /// The listener brings no connection, though somebody may be there: this process may have as many files open as it may. It is
    /// tried again in each turn, and this is said once until it brings one, or has none.
    Unreached {
        /// Why.
        why: ControlError,
    },
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProducerCounters {
    /// Connections that were turned away, or closed before they had paired, for there were as many as there may be.
    pub turned_away: u64,
    /// Connections that were closed for what they did, or did not.
    pub misbehaved: u64,
    /// Exports granted.
    pub granted: u64,
    /// Exports freed.
    pub freed: u64,
    /// Of these, such as nobody gave notice of.
    pub expired: u64,
    /// Heartbeats of exports that are held.
    pub heartbeats: u64,
    /// Notices over the transport that were none.
    pub strange_notices: u64,
}

/// P's end, of one rank.
///
/// `X` carries bytes, `L` brings connections, `B` stands for the blocks of an export.
pub struct Producer<X, L: Listen, B> {
    transfer: X,
    listener: L,
    offer: Arc<Offer>,
    options: ProducerOptions,
    connections: Vec<Connection<L::Wire>>,
    next_connection: u64,
    next_ask: u64,
    exports: Exports<(Ask, B)>,
    stopping: bool,
    /// Whether the listener has failed when it was last asked.
    unreached: bool,
    counters: ProducerCounters,
    events: Vec<ProducerEvent>,
}

/// Connections that are taken in one turn: others go on meanwhile, however many come.
const MOST_TAKEN: usize = 64;

/// Says where it stands, and nothing of its transport, its connections and the exports.
impl<X, L: Listen, B> fmt::Debug for Producer<X, L, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut own = f.debug_struct("Producer");
        own.field("connections", &self.connections.len()).field("held", &self.exports.len());
        own.field("stopping", &self.stopping).field("options", &self.options);
        own.field("counters", &(self.counters, self.exports.counters()));
        own.finish_non_exhaustive()
    }
}

impl<X: Transfer, L: Listen, B> Producer<X, L, B> {
    /// A producer that listens. The memory that `offer` lists is registered with `transfer` before this.
    ///
    /// # Errors
    /// Where a lease would end before two heartbeats could come.
    pub fn new(transfer: X, listener: L, offer: Offer, options: ProducerOptions) -> Result<Self, LeaseError> {
        Ok(Self {
            exports: Exports::new(options.incarnation, options.terms, options.most_exports)?,
            transfer,
            listener,
            offer: Arc::new(offer),
            options,
            connections: Vec::new(),
            next_connection: 0,
            next_ask: 0,
            stopping: false,
            unreached: false,
            counters: ProducerCounters::default(),
            events: Vec::new(),
        })
    }

    /// Goes on: takes connections, hears what is said, asks the engine, and gives blocks back. Returns what happened.
    ///
    /// # Errors
    /// Where the transport is broken. Everything that a peer does is an event, and so is a listener that brings nobody.
    pub fn poll(
        &mut self,
        clock: impl Fn() -> Moment,
        engine: &mut impl Exporter<Blocks = B>,
    ) -> Result<Vec<ProducerEvent>, ProducerError> {
        self.accept(clock());
        for notice in self.transfer.heard().map_err(ProducerError::transfer)? {
            match notice.notice {
                Ok(notice) => self.notice(clock(), &notice),
                Err(_) => self.counters.strange_notices = self.counters.strange_notices.saturating_add(1),
            }
        }
        let mut connections = std::mem::take(&mut self.connections);
        connections.retain_mut(|connection| {
            let why = match self.serve(&clock, connection, engine) {
                Ok(true) => return true,
                Ok(false) => None,
                Err(why) => Some(why),
            };
            self.closed(connection, why);
            while let Some(asked) = connection.next_ask() {
                engine.withdrawn(&asked.ask);
            }
            false
        });
        self.connections = connections;
        let now = clock();
        while let Some(ended) = self.exports.ended(now) {
            // One rank reads each export.
            let end = ended.ranks.first().copied().unwrap_or(RankEnd::Gone);
            let (ask, blocks) = ended.blocks;
            self.counters.freed = self.counters.freed.saturating_add(1);
            if end == RankEnd::Expired {
                self.counters.expired = self.counters.expired.saturating_add(1);
            }
            engine.free(Freed { ask, export: ended.export, blocks, end });
        }
        Ok(std::mem::take(&mut self.events))
    }

    /// Takes no new connections and exports nothing more. What is exported is held as before.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// Whether it was stopped, and holds nothing any more.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.stopping && self.exports.is_empty() && self.connections.iter().all(Connection::is_flushed)
    }

    /// Exports that are held.
    #[must_use]
    pub fn held(&self) -> usize {
        self.exports.len()
    }

    /// Connections that are open.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// What was counted, of connections and exports.
    #[must_use]
    pub const fn counters(&self) -> (ProducerCounters, ExportCounters) {
        (self.counters, self.exports.counters())
    }

    /// What brings connections.
    #[must_use]
    pub const fn listener(&self) -> &L {
        &self.listener
    }

    fn accept(&mut self, now: Moment) {
        for _ in 0..MOST_TAKEN {
            let taken = self.listener.accept();
            let failed_before = std::mem::replace(&mut self.unreached, taken.is_err());
            match taken {
                Ok(Some(wire)) => self.take(now, wire),
                Ok(None) => return,
                Err(why) => {
                    if !failed_before {
                        self.events.push(ProducerEvent::Unreached { why });
                    }
                    return;
                }
            }
        }
    }

    fn take(&mut self, now: Moment, wire: L::Wire) {
        let full = self.connections.len() >= self.options.most_connections;
        if self.stopping || full {
            self.counters.turned_away = self.counters.turned_away.saturating_add(1);
            // Those of this turn have not been heard yet.
            let stranger = self.connections.iter().position(|own| !own.is_paired() && own.heard() < now);
            match stranger.filter(|_| !self.stopping) {
                Some(first) => drop(self.connections.remove(first)),
                None => return,
            }
        }
        let number = self.next_connection;
        self.next_connection = number.saturating_add(1);
        self.connections.push(Connection::new(number, wire, now));
    }

    fn closed(&mut self, connection: &Connection<L::Wire>, why: Option<ProducerError>) {
        let lost = matches!(
            why,
            None | Some(ProducerError::Control(ControlError::Ended | ControlError::Stream { .. }))
        );
        if !lost {
            self.counters.misbehaved = self.counters.misbehaved.saturating_add(1);
        }
        self.events.push(ProducerEvent::Closed { connection: connection.number(), why });
    }

    /// Goes on with one connection. Whether it is still open.
    fn serve(
        &mut self,
        clock: &impl Fn() -> Moment,
        connection: &mut Connection<L::Wire>,
        engine: &mut impl Exporter<Blocks = B>,
    ) -> Result<bool, ProducerError> {
        loop {
            let step = connection.step(clock(), &self.offer, &self.options, &mut self.next_ask)?;
            // D may have said it since this turn began, and counts from when it did.
            let now = clock();
            match step {
                Step::Nothing => break,
                Step::Offered { fits } => {
                    let metadata = self.transfer.metadata().map_err(ProducerError::transfer)?;
                    let offer = Box::new(Offer::clone(&self.offer));
                    connection.say(&Message::Offer { offer, metadata })?;
                    if fits {
                        self.events.push(ProducerEvent::Connected { connection: connection.number() });
                    }
                }
                Step::Heartbeat { export, sent } => {
                    let rank = self.offer.rank;
                    let answer = match self.exports.heartbeat(now, export, rank) {
                        Ok(()) => {
                            self.counters.heartbeats = self.counters.heartbeats.saturating_add(1);
                            Message::Held { export, rank, sent }
                        }
                        Err(_) => Message::NotHeld { export, rank },
                    };
                    connection.say(&answer)?;
                }
                Step::Notice(notice) => self.notice(now, &notice),
                Step::Bye => return Ok(false),
            }
        }
        for _ in 0..connection.asked() {
            let Some(asked) = connection.next_ask() else { break };
            if self.answer(clock, connection, &asked, engine)? == Told::Later {
                connection.ask_again(asked);
            }
        }
        Ok(true)
    }

    /// Asks the engine, and tells D what it says.
    fn answer(
        &mut self,
        clock: &impl Fn() -> Moment,
        connection: &mut Connection<L::Wire>,
        Asked { ask, sent }: &Asked,
        engine: &mut impl Exporter<Blocks = B>,
    ) -> Result<Told, ProducerError> {
        let full = self.exports.len() >= self.options.most_exports;
        let reason = match self.stopping {
            true => "this producer is shutting down".to_owned(),
            // It will be asked again when one has ended.
            false if full => return Ok(Told::Later),
            false => match engine.export(ask) {
                Answer::NotYet => return Ok(Told::Later),
                Answer::Refuse { reason } => reason,
                Answer::Export { tables, blocks } => {
                    let rank = ask.rank;
                    let granted = self.exports.grant(clock(), rank..rank.saturating_add(1), (*ask, blocks));
                    let export = granted.map_err(ProducerError::Lease)?;
                    self.counters.granted = self.counters.granted.saturating_add(1);
                    self.events.push(ProducerEvent::Granted { ask: *ask, export });
                    let terms = self.options.terms;
                    let granted =
                        Message::Granted { request: ask.request, sent: *sent, export, terms, blocks: tables };
                    connection.say(&granted)?;
                    return Ok(Told::Now);
                }
            },
        };
        self.events.push(ProducerEvent::Refused { ask: *ask, reason: reason.clone() });
        connection.say(&Message::Refused { request: ask.request, sent: *sent, reason })?;
        Ok(Told::Now)
    }

    fn notice(&mut self, now: Moment, notice: &Notice) {
        // What is not held, or was said before, is counted there.
        let _: Result<(), LeaseError> = self.exports.notice(now, notice);
    }
}

#[derive(PartialEq, Eq)]
enum Told {
    Now,
    Later,
}
