//! One import of one rank, from its wish to its end.

use std::sync::Arc;
use std::time::Duration;

use pagelift_planner::geometry::{GroupKind, Memory};
use pagelift_planner::quantity::Tokens;

use super::event::{ConsumerEvent, End, Failure, fills};
use super::{ConsumerCounters, ConsumerOptions, Notices, Paired, Wanted};
use crate::control::{Message, Wire};
use crate::descriptors::ListSide;
use crate::error::ConsumerError;
use crate::lease::{Holding, Moment, Terms};
use crate::notice::{ExportId, Notice, ReadOutcome};
use crate::offer::Offer;
use crate::plan::{BlockTables, ReadPlan};
use crate::receive::{ReadEffect, ReadEvent, Receive, ReceiveOptions};
use crate::transfer::{Destination, ReadingState, Transfer};

/// The most bytes of P's words that are kept.
const MOST_REASON: usize = 1 << 10;

/// An import.
pub(super) struct Import<R> {
    wanted: Wanted,
    stage: Stage<R>,
    cancelled: bool,
}

enum Stage<R> {
    /// P's offer is not here.
    Wished,
    /// P was asked first, and was last told that the answer is waited for.
    Asked { first: Moment, last: Moment },
    /// P has said no.
    Refused { reason: String },
    /// P has granted it; nothing is read yet.
    Granted { asked: Moment, export: ExportId, terms: Terms, blocks: BlockTables },
    /// Reads are in flight.
    Reading(Box<Reads<R>>),
    /// Its end was told.
    Over,
}

/// The reads of an import.
struct Reads<R> {
    export: ExportId,
    receive: Receive,
    plan: ReadPlan,
    /// What is told when all of them have been begun.
    announced: Option<Told>,
    /// Those that were begun, the first of the plan; none where one has ended.
    parts: Vec<Option<R>>,
    /// The GPUs that they write.
    devices: Vec<u64>,
    /// Whether any has landed.
    any: bool,
    /// What was valid before any of them.
    before: Vec<(Arc<str>, Tokens)>,
    /// Whether there are blocks to fill.
    filled: bool,
    /// What P has said since the last turn.
    said: Vec<ReadEvent>,
    /// What is to be done once they have been begun: of an import without reads, all.
    due: Vec<ReadEffect>,
    /// When they were told to stop, and whether the engine has heard that they have not.
    stopped: Option<(Moment, bool)>,
    /// What the first that failed said.
    reason: Option<String>,
    landed: bool,
}

/// What an import goes on with.
pub(super) struct Turn<'t, X: Transfer, W, M> {
    /// When it began.
    pub now: Moment,
    pub clock: &'t dyn Fn() -> Moment,
    pub memory: &'t mut M,
    pub transfer: &'t X,
    pub paired: Option<&'t Paired<X::Lists>>,
    pub wire: &'t mut W,
    pub offer: &'t Offer,
    pub options: &'t ConsumerOptions,
    pub over: Option<&'t ConsumerError>,
    pub counters: &'t mut ConsumerCounters,
    /// Whether something was said to P.
    pub spoke: bool,
    /// Reads that were begun in it, with their bytes and entries.
    pub begun: u32,
    pub bytes: u64,
    pub entries: usize,
}

/// An event of an import, which does not know its id.
pub(super) enum Told {
    Begun { export: ExportId, reads: usize, bytes: u64, zeroed: u64, exported: BlockTables },
    Stuck,
    Ended(End),
}

impl Told {
    pub fn of<K>(self, id: K) -> ConsumerEvent<K> {
        match self {
            Self::Begun { export, reads, bytes, zeroed, exported } => {
                ConsumerEvent::Begun { id, export, reads, bytes, zeroed, exported }
            }
            Self::Stuck => ConsumerEvent::Stuck { id },
            Self::Ended(end) => ConsumerEvent::Ended { id, end },
        }
    }
}

/// What P is told of an export that nobody wants.
pub(super) const fn not_wanted(export: ExportId, rank: u32) -> Notice {
    Notice { export, rank, outcome: ReadOutcome::Cancelled }
}

impl<R> Import<R> {
    pub const fn new(wanted: Wanted) -> Self {
        Self { wanted, stage: Stage::Wished, cancelled: false }
    }

    pub const fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    pub const fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    pub const fn cancel(&mut self) {
        self.cancelled = true;
    }

    /// Whether it waits for the answer to what was said then.
    pub fn waits_for(&self, request: u64, sent: Duration) -> bool {
        let Stage::Asked { first, last } = self.stage else { return false };
        self.wanted.request == request && (first..=last).contains(&Moment::new(sent))
    }

    pub fn reads(&self, export: ExportId) -> bool {
        matches!(&self.stage, Stage::Reading(reads) if reads.export == export)
    }

    /// Whether P holds that export for it.
    pub fn has(&self, export: ExportId) -> bool {
        matches!(&self.stage, Stage::Granted { export: own, .. } if *own == export) || self.reads(export)
    }

    /// P answers what was said at `asked`, and has granted it later than that. However much it has sent, no more is kept than was
    /// wanted.
    pub fn granted(&mut self, asked: Moment, export: ExportId, terms: Terms, blocks: &BlockTables) {
        let blocks = blocks.at_positions_of(&self.wanted.blocks);
        self.stage = Stage::Granted { asked, export, terms, blocks };
    }

    /// P says no. Of its words so many are kept as a person reads.
    pub fn refused(&mut self, mut reason: String) {
        if reason.len() > MOST_REASON {
            reason.truncate(reason.floor_char_boundary(MOST_REASON));
            reason.shrink_to_fit();
        }
        self.stage = Stage::Refused { reason };
    }

    pub fn acknowledged(&mut self, sent: Moment) {
        self.say(ReadEvent::Acknowledged { sent });
    }

    pub fn not_held(&mut self) {
        self.say(ReadEvent::Refused);
    }

    fn say(&mut self, event: ReadEvent) {
        if let Stage::Reading(reads) = &mut self.stage {
            reads.said.push(event);
        }
    }

    /// Goes on as far as it can.
    pub fn go_on<X: Transfer<Reading = R>, W: Wire, M: Destination>(
        &mut self,
        turn: &mut Turn<'_, X, W, M>,
    ) -> Vec<Told> {
        let mut told = Vec::new();
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Wished | Stage::Asked { .. } if self.cancelled => {
                self.fail(turn, Failure::Cancelled, &mut told);
            }
            Stage::Wished | Stage::Asked { .. } if turn.over.is_some() => {
                let why = turn.over.cloned().unwrap_or(ConsumerError::Closed);
                self.fail(turn, Failure::Lost(Box::new(why)), &mut told);
            }
            Stage::Wished if turn.paired.is_some() => {
                let (request, imported) = (self.wanted.request, self.wanted.imported);
                turn.say(&Message::Ask { request, imported, sent: turn.now.since_start() });
                self.stage = Stage::Asked { first: turn.now, last: turn.now };
            }
            Stage::Asked { first, .. } if turn.now.since(first) >= turn.options.grant_timeout => {
                self.fail(turn, Failure::NoAnswer, &mut told);
            }
            Stage::Asked { first, last } if turn.now.since(last) >= turn.options.presence_interval => {
                turn.say(&Message::Waiting { request: self.wanted.request, sent: turn.now.since_start() });
                self.stage = Stage::Asked { first, last: turn.now };
            }
            Stage::Refused { reason } => self.fail(turn, Failure::Refused { reason }, &mut told),
            Stage::Granted { asked, export, terms, blocks } => {
                match self.begin(turn, (asked, export, terms, blocks)) {
                    Ok(reads) => self.read(turn, Box::new(reads), &mut told),
                    Err(why) => {
                        let outcome = match why {
                            Failure::Cancelled => ReadOutcome::Cancelled,
                            _ => ReadOutcome::Failed,
                        };
                        turn.notify(&Notice { export, rank: turn.offer.rank, outcome });
                        self.fail(turn, why, &mut told);
                    }
                }
            }
            Stage::Reading(reads) => self.read(turn, reads, &mut told),
            waiting => self.stage = waiting,
        }
        told
    }

    /// Ends it before anything of it was read.
    fn fail<X: Transfer<Reading = R>, W: Wire, M: Destination>(
        &self,
        turn: &mut Turn<'_, X, W, M>,
        why: Failure,
        told: &mut Vec<Told>,
    ) {
        turn.counters.failed = turn.counters.failed.saturating_add(1);
        let valid = before(&self.wanted.blocks, turn.offer);
        told.push(Told::Ended(End::Failed { why, valid }));
    }

    /// Plans what P has granted, and zeroes what P does not have. Nothing is read yet.
    fn begin<X: Transfer<Reading = R>, W: Wire, M: Destination>(
        &self,
        turn: &mut Turn<'_, X, W, M>,
        (asked, export, terms, exported): (Moment, ExportId, Terms, BlockTables),
    ) -> Result<Reads<R>, Failure> {
        let lost = || Failure::Lost(Box::new(turn.over.cloned().unwrap_or(ConsumerError::Closed)));
        let paired = turn.paired.ok_or_else(lost)?;
        if self.cancelled {
            return Err(Failure::Cancelled);
        }
        if !terms.are_sound() {
            return Err(Failure::Terms);
        }
        if !Holding::new(terms, asked).lasts(turn.now) {
            return Err(Failure::Reads { why: crate::receive::Ending::LeaseLost, reason: None });
        }
        let Wanted { imported, blocks: wanted, awaited, .. } = &self.wanted;
        let plan = paired.peer.plan(*imported, &exported, wanted, turn.options.read_limits)?;
        let mut zeroed = 0_u64;
        for range in plan.zeroes().iter().flat_map(|zero| paired.peer.zero_ranges(zero)) {
            let done = turn.memory.zero(range);
            done.map_err(|error| Failure::Zero { reason: error.to_string() })?;
            zeroed = zeroed.saturating_add(range.bytes);
        }
        turn.counters.zeroed = turn.counters.zeroed.saturating_add(zeroed);
        let (rank, timeout) = (turn.offer.rank, turn.options.read_timeout);
        let options = ReceiveOptions { export, rank, awaited: *awaited, terms, asked, timeout };
        let (receive, effects) = Receive::begin(&plan, options, turn.now);
        let (count, bytes) = (plan.reads().len(), plan.bytes());
        Ok(Reads {
            export,
            receive,
            announced: Some(Told::Begun { export, reads: count, bytes, zeroed, exported }),
            parts: Vec::with_capacity(count),
            devices: devices(paired, &plan),
            before: before(wanted, turn.offer),
            filled: fills(wanted),
            plan,
            any: false,
            said: Vec::new(),
            due: effects,
            stopped: None,
            reason: None,
            landed: false,
        })
    }

    /// Looks at what is in flight.
    fn read<X: Transfer<Reading = R>, W: Wire, M: Destination>(
        &mut self,
        turn: &mut Turn<'_, X, W, M>,
        mut reads: Box<Reads<R>>,
        told: &mut Vec<Told>,
    ) {
        if self.cancelled {
            self.cancelled = false;
            reads.said.push(ReadEvent::Cancel);
        }
        for event in std::mem::take(&mut reads.said) {
            reads.hear(turn, event, told);
        }
        reads.go_on(turn, told);
        for part in 0..reads.parts.len() {
            if let Some(event) = reads.ended(turn, part) {
                reads.hear(turn, event, told);
            }
        }
        reads.hear(turn, ReadEvent::Tick, told);
        if let Some((since, false)) = reads.stopped
            && turn.now.since(since) >= turn.options.stop_timeout
            && !reads.receive.is_over()
        {
            reads.stopped = Some((since, true));
            told.push(Told::Stuck);
        }
        if !reads.receive.is_over() {
            self.stage = Stage::Reading(reads);
        }
    }
}

impl<R> Reads<R> {
    /// Begins more of them, as many as may be in one turn; or none, where it would be for nothing.
    fn go_on<X: Transfer<Reading = R>, W: Wire, M: Destination>(
        &mut self,
        turn: &mut Turn<'_, X, W, M>,
        told: &mut Vec<Told>,
    ) {
        let most = turn.options.turn_limits;
        while let Some(read) = self.plan.reads().get(self.parts.len()) {
            let part = self.parts.len();
            let reading = match turn.paired {
                Some(paired) if !self.receive.is_ending() => {
                    let bytes = turn.bytes.saturating_add(read.bytes());
                    let entries = turn.entries.saturating_add(read.remote().len());
                    if turn.begun > 0 && (bytes > most.most_bytes || entries > most.most_entries) {
                        return;
                    }
                    (turn.bytes, turn.entries, turn.begun) = (bytes, entries, turn.begun.saturating_add(1));
                    turn.counters.bytes = turn.counters.bytes.saturating_add(read.bytes());
                    turn.transfer.read(&paired.lists, read).map_err(|error| Some(error.to_string()))
                }
                _ => Err(None),
            };
            match reading {
                Ok(reading) => self.parts.push(Some(reading)),
                Err(reason) => {
                    self.parts.push(None);
                    self.reason = self.reason.take().or(reason);
                    self.hear(turn, ReadEvent::Failed { part }, told);
                }
            }
        }
        told.extend(self.announced.take().filter(|_| !self.receive.is_ending()));
        let due = std::mem::take(&mut self.due);
        self.carry_out(turn, due, told);
    }

    /// How a part has ended, if it was in flight and is not any more.
    fn ended<X: Transfer<Reading = R>, W: Wire, M: Destination>(
        &mut self,
        turn: &mut Turn<'_, X, W, M>,
        part: usize,
    ) -> Option<ReadEvent> {
        let own = self.parts.get_mut(part)?;
        let state = turn.transfer.state(own.as_ref()?);
        let reason = match state {
            ReadingState::InFlight => return None,
            ReadingState::Landed => None,
            ReadingState::Failed { reason } => Some(reason),
        };
        *own = None;
        self.any |= reason.is_none();
        // Before the last is said to have landed, all of them are made visible. Those of an import that fails are later.
        let last = self.parts.len() == self.plan.reads().len() && self.parts.iter().all(Option::is_none);
        let whole = last && reason.is_none() && !self.receive.is_ending();
        let settled = if whole { self.settle(turn) } else { Ok(()) };
        match reason.or_else(|| settled.err()) {
            None => Some(ReadEvent::Landed { part }),
            Some(reason) => {
                self.reason.get_or_insert(reason);
                Some(ReadEvent::Failed { part })
            }
        }
    }

    /// Makes what was read into GPUs visible to what they launch next.
    fn settle<X: Transfer<Reading = R>, W: Wire, M: Destination>(
        &self,
        turn: &mut Turn<'_, X, W, M>,
    ) -> Result<(), String> {
        let mut devices = self.devices.iter();
        devices.try_for_each(|device| turn.memory.settle(*device)).map_err(|error| error.to_string())
    }

    fn hear<X: Transfer<Reading = R>, W: Wire, M: Destination>(
        &mut self,
        turn: &mut Turn<'_, X, W, M>,
        event: ReadEvent,
        told: &mut Vec<Told>,
    ) {
        // Other imports have had their turn since this one began, and may have taken long.
        let now = if matches!(event, ReadEvent::Landed { .. }) { (turn.clock)() } else { turn.now };
        // Parts are counted here.
        let effects = self.receive.handle(now, event).unwrap_or_default();
        self.carry_out(turn, effects, told);
    }

    fn carry_out<X: Transfer<Reading = R>, W: Wire, M: Destination>(
        &mut self,
        turn: &mut Turn<'_, X, W, M>,
        effects: Vec<ReadEffect>,
        told: &mut Vec<Told>,
    ) {
        for effect in effects {
            match effect {
                ReadEffect::Heartbeat { sent } => {
                    let (export, rank) = (self.export, turn.offer.rank);
                    let said = turn.say(&Message::Heartbeat { export, rank, sent: sent.since_start() });
                    turn.counters.heartbeats = turn.counters.heartbeats.saturating_add(said.into());
                }
                ReadEffect::Stop { part } => {
                    self.stopped.get_or_insert((turn.now, false));
                    if let Some(reading) = self.parts.get(part).and_then(Option::as_ref) {
                        turn.transfer.stop(reading);
                    }
                }
                ReadEffect::Notify(notice) => turn.notify(&notice),
                ReadEffect::Received => self.landed = true,
                ReadEffect::Failed { why, valid } => {
                    turn.counters.failed = turn.counters.failed.saturating_add(1);
                    // What is said to be valid is visible; what cannot be made so is not valid.
                    let unsettled = if self.any { self.settle(turn).err() } else { None };
                    let valid = if unsettled.is_some() { std::mem::take(&mut self.before) } else { valid };
                    let why = Failure::Reads { why, reason: self.reason.take().or(unsettled) };
                    told.push(Told::Ended(End::Failed { why, valid }));
                }
                ReadEffect::Released => {
                    // The end was told if it was a failure.
                    if !told.iter().any(|told| matches!(told, Told::Ended(_))) {
                        turn.counters.landed = turn.counters.landed.saturating_add(1);
                        told.push(Told::Ended(End::Landed { awaited: self.landed, filled: self.filled }));
                    }
                }
            }
        }
    }
}

/// Of each group that is wanted the tokens before: what is wanted begins after what is here.
fn before(wanted: &BlockTables, offer: &Offer) -> Vec<(Arc<str>, Tokens)> {
    let tokens = |name: &Arc<str>, first: u32| {
        let schema = offer.schema.groups.get(name).filter(|group| group.kind == GroupKind::Paged);
        schema.map_or(0, |group| u64::from(first).saturating_mul(group.block_tokens.into()))
    };
    let groups = wanted.iter().filter_map(|(name, table)| Some((name, table.iter().next()?.0)));
    groups.map(|(name, first)| (name.clone(), Tokens::new(tokens(name, first)))).collect()
}

/// The GPUs that a plan's reads write.
fn devices<L>(paired: &Paired<L>, plan: &ReadPlan) -> Vec<u64> {
    let lists = plan.reads().iter().filter_map(|read| paired.peer.lists().get(read.list()));
    let memories = lists.map(|list| list.memory(ListSide::Local));
    let mut devices: Vec<u64> =
        memories.filter_map(|(memory, device)| (memory == Memory::Device).then_some(device)).collect();
    devices.sort_unstable();
    devices.dedup();
    devices
}

impl<X: Transfer, W: Wire, M> Turn<'_, X, W, M> {
    /// Says something to P. Where the connection is lost, the next turn notices.
    fn say(&mut self, message: &Message) -> bool {
        self.spoke = true;
        self.over.is_none() && self.wire.send(message).is_ok()
    }

    /// Tells P that nothing reads its blocks any more.
    fn notify(&mut self, notice: &Notice) {
        let transfer =
            |own: &Self| own.paired.is_some_and(|paired| own.transfer.notify(&paired.name, notice).is_ok());
        let said = match self.options.notices {
            Notices::Control => self.say(&Message::Notice(*notice)) || transfer(self),
            Notices::Transfer => transfer(self) || self.say(&Message::Notice(*notice)),
        };
        if !said {
            self.counters.unsent = self.counters.unsent.saturating_add(1);
        }
    }
}
