//! An engine in small: what may happen next, and what it does to everybody.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};

use pagelift_planner::error::LifecycleError;
use pagelift_planner::id::{HostBlockId, PageId};
use pagelift_planner::import::{Arrival, Policy, Recurrence};
use pagelift_planner::lifecycle::{
    Admission, ContentHash, Effect, Event, Lane, Lifecycle, LifecycleOptions, Rank, Ranks, Read, RequestId,
    Settled, Stage, Work, Worker,
};
use pagelift_planner::quantity::Tokens;

use crate::ghost::{Memory, Row};

/// In the order of a step's launches: a step runs between lifts and mirrors.
pub const LANES: [Lane; 3] = [Lane::Lift, Lane::Mirror, Lane::WriteBack];

/// Whose message it is.
fn sender(event: &Event<'_>) -> Option<Rank> {
    match event {
        Event::Answer { rank, .. } | Event::Read { rank, .. } | Event::Mirrored { rank, .. } => Some(*rank),
        Event::Checkpointed { rank, .. } | Event::Spilled { rank, .. } => Some(*rank),
        _ => None,
    }
}

/// A hash of 128 bits: two of a million states do not share one.
#[derive(Default)]
struct Fingerprint(u128);

impl Hasher for Fingerprint {
    fn finish(&self) -> u64 {
        self.0 as u64
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        let mixed = (self.0 ^ u128::from(word)).wrapping_mul(0xDA94_2042_E4DD_58B5_9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ mixed >> 67 ^ mixed >> 31;
    }

    fn write_u8(&mut self, word: u8) {
        self.write_u64(word.into());
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}

/// A request that will ask to be admitted.
#[derive(Clone, Debug)]
pub struct Script {
    pub prompt: u64,
    pub policy: Policy,
    pub producer: bool,
    pub hashes: Vec<u128>,
    /// Steps that it runs.
    pub steps: u32,
    /// Tokens that each of them computes.
    pub tokens: u32,
    /// Steps that may be begun before they are accepted.
    pub ahead: u32,
}

impl Script {
    /// The content of a block, by position: named in the prompt, or this request's own.
    fn content(&self, own: usize, position: u64) -> ContentHash {
        let named = self.hashes.get(position as usize).copied();
        ContentHash::new(named.unwrap_or(1000 + own as u128 * 100 + u128::from(position)))
    }
}

/// How often each kind of fault may happen, and how many may in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    pub all: u32,
    pub aborts: u32,
    pub reads: u32,
    pub superseded: u32,
    pub failed: u32,
    pub deaths: u32,
    pub duplicates: u32,
    pub reordered: u32,
    pub preemptions: u32,
}

/// What may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Admit,
    Post(RequestId),
    Land(RequestId, Rank, u8, bool),
    Deliver(usize),
    Overtake(usize),
    DeliverTwice(usize),
    Step(Rank, Option<(Lane, Settled)>),
    Settle(Rank),
    Begin(RequestId),
    Accept(RequestId, u32),
    Finish(RequestId),
    Abort(RequestId),
    Preempt(RequestId),
    Resume(RequestId),
    Die(Rank),
    Lose(Rank),
    Join(Rank),
}

/// What a rank is told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    Do(Effect),
    /// A lift, with what lies where, and whether it lies on the host.
    Lift(Effect, List, bool),
    Begin(RequestId, u32, u64, u64),
}

/// One launch's work that may be running.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Flight {
    pub work: Work,
    pub ends: List,
}

type List = Vec<(u32, PageId, HostBlockId)>;
type Table = BTreeMap<u32, (PageId, HostBlockId, bool)>;

/// A rank, its queue, and what it knows of pages.
#[derive(Clone, Debug, Hash)]
pub struct Side {
    pub alive: bool,
    pub worker: Worker,
    pub inbox: VecDeque<Order>,
    /// Pages by position: their blocks, and whether they are mirrored.
    tables: BTreeMap<RequestId, Table>,
    /// What a lift copies: what lies where, and whether it lies on the host.
    lists: BTreeMap<RequestId, (List, bool)>,
    steps: BTreeMap<(RequestId, u32), (u64, u64)>,
    ran: BTreeMap<RequestId, u32>,
    pub flights: BTreeMap<(u8, u64), (Settled, Vec<Flight>)>,
    states: BTreeMap<RequestId, u64>,
    next_ticket: u64,
}

/// What is known of a request besides what the lifecycle knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Known {
    pub script: usize,
    /// The step that computed a token for good.
    last: BTreeMap<u64, u32>,
    named: u64,
    received: bool,
    preempted: bool,
    notified: u32,
}

#[derive(Clone, Debug)]
pub struct World<'a> {
    pub life: Lifecycle,
    pub sides: Vec<Side>,
    pub reads: BTreeSet<(RequestId, Rank, u8)>,
    pub to_post: BTreeSet<RequestId>,
    pub net: Vec<Event<'static>>,
    pub memory: Memory,
    states: BTreeMap<(Rank, u32), u64>,
    pub known: BTreeMap<RequestId, Known>,
    /// Of what is published, the step of each row.
    truth: BTreeMap<ContentHash, Vec<u32>>,
    /// What the event at hand sealed: it may have been the last of its request.
    sealed: BTreeMap<HostBlockId, (RequestId, u64)>,
    next: usize,
    left: Faults,
    scripts: &'a [Script],
}

impl<'a> World<'a> {
    pub fn new(options: LifecycleOptions, scripts: &'a [Script], faults: Faults) -> Self {
        let side = |rank| Side {
            alive: true,
            worker: Worker::new(Rank::new(rank), options.requests).unwrap(),
            inbox: VecDeque::new(),
            tables: BTreeMap::new(),
            lists: BTreeMap::new(),
            steps: BTreeMap::new(),
            ran: BTreeMap::new(),
            flights: BTreeMap::new(),
            states: BTreeMap::new(),
            next_ticket: 1,
        };
        Self {
            life: Lifecycle::new(options).unwrap(),
            sides: (0..options.ranks).map(side).collect(),
            reads: BTreeSet::new(),
            to_post: BTreeSet::new(),
            net: Vec::new(),
            memory: Memory::default(),
            states: BTreeMap::new(),
            known: BTreeMap::new(),
            truth: BTreeMap::new(),
            sealed: BTreeMap::new(),
            next: 0,
            left: faults,
            scripts,
        }
    }

    /// Tells states apart. Messages of different ranks have no order.
    pub fn fingerprint(&self) -> u128 {
        let mut hasher = Fingerprint::default();
        self.life.hash(&mut hasher);
        (&self.sides, &self.reads, &self.to_post, &self.memory, &self.known).hash(&mut hasher);
        (&self.states, &self.truth, self.next, self.left).hash(&mut hasher);
        for side in &self.sides {
            let own = |event: &&Event<'_>| sender(event) == Some(side.worker.rank());
            self.net.iter().filter(own).for_each(|event| event.hash(&mut hasher));
            hasher.write_u8(u8::MAX);
        }
        hasher.0
    }

    fn block(&self) -> u64 {
        self.life.options().block_tokens.into()
    }

    fn script(&self, id: RequestId) -> Option<&'a Script> {
        self.scripts.get(self.known.get(&id)?.script)
    }

    /// Everything that may happen next.
    pub fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        let Faults { all, .. } = self.left;
        let may = |left: u32| all > 0 && left > 0;
        if self.next < self.scripts.len() {
            actions.push(Action::Admit);
        }
        actions.extend(self.to_post.iter().map(|id| Action::Post(*id)));
        for (id, rank, part) in &self.reads {
            actions.push(Action::Land(*id, *rank, *part, true));
            if may(self.left.reads) {
                actions.push(Action::Land(*id, *rank, *part, false));
            }
        }
        for message in 0..self.net.len() {
            // Messages of different ranks come in any order; those of one rank too, where that is a fault.
            let overtakes =
                self.net[..message].iter().any(|other| sender(other) == sender(&self.net[message]));
            if overtakes && !may(self.left.reordered) {
                continue;
            }
            actions.push(if overtakes { Action::Overtake(message) } else { Action::Deliver(message) });
            if may(self.left.duplicates) {
                actions.push(Action::DeliverTwice(message));
            }
        }
        for side in &self.sides {
            let rank = side.worker.rank();
            if !side.alive {
                let lost = self.life.lost().contains(rank);
                actions.push(if lost { Action::Join(rank) } else { Action::Lose(rank) });
                continue;
            }
            if may(self.left.deaths) {
                actions.push(Action::Die(rank));
            }
            let busy = LANES.iter().any(|lane| side.worker.next(*lane).is_some());
            if busy || !side.inbox.is_empty() {
                actions.push(Action::Step(rank, None));
                for lane in LANES {
                    if may(self.left.superseded) {
                        actions.push(Action::Step(rank, Some((lane, Settled::Superseded))));
                    }
                    if may(self.left.failed) {
                        actions.push(Action::Step(rank, Some((lane, Settled::Failed))));
                    }
                }
            }
            if !side.flights.is_empty() {
                actions.push(Action::Settle(rank));
            }
        }
        for id in self.life.requests() {
            let (Some(view), Some(script)) = (self.life.request(id), self.script(id)) else { continue };
            if may(self.left.aborts) && !view.is_ending() {
                actions.push(Action::Abort(id));
            }
            match view.stage() {
                Stage::Lifted => {
                    let open = view.begun() - view.accepted();
                    if view.begun() < script.steps && open < script.ahead.max(1) {
                        actions.push(Action::Begin(id));
                    }
                    let ran = self.sides[0].ran.get(&id).copied().unwrap_or(0);
                    if open > 0 && view.accepted() < ran {
                        actions.extend((1..=script.tokens).map(|tokens| Action::Accept(id, tokens)));
                    }
                    if view.accepted() == script.steps {
                        actions.push(Action::Finish(id));
                    }
                    if may(self.left.preemptions) && open == 0 {
                        actions.push(Action::Preempt(id));
                    }
                }
                Stage::Preempted => actions.push(Action::Resume(id)),
                _ => {}
            }
        }
        actions
    }

    /// Lets something happen; `false` where it turns out that it cannot.
    pub fn act(&mut self, action: Action) -> bool {
        self.spend(action);
        match action {
            Action::Admit => return self.admit(),
            Action::Post(id) => {
                self.to_post.remove(&id);
                let arrival = self.life.request(id).map(|view| view.arrival());
                let options = self.life.options();
                let all = if arrival == Some(Arrival::Device) {
                    Ranks::first(options.ranks)
                } else {
                    options.writers
                };
                let ranks = all.without(self.dead());
                self.reads.extend(ranks.iter().map(|rank| (id, rank, 0)));
                self.tell(&Event::Posted { request: id, ranks: all, each: 1 });
            }
            Action::Land(request, rank, part, landed) => {
                self.reads.remove(&(request, rank, part));
                if landed {
                    self.land(request, rank);
                }
                let read = if landed { Read::Landed } else { Read::Failed { valid: Tokens::new(1) } };
                self.net.push(Event::Read { request, rank, part, read });
            }
            Action::Deliver(message) | Action::Overtake(message) => {
                let event = self.net.remove(message);
                self.tell_late(&event);
            }
            Action::DeliverTwice(message) => {
                let event = self.net[message].clone();
                self.tell_late(&event);
            }
            Action::Step(rank, fault) => return self.step(rank, fault),
            Action::Settle(rank) => {
                let side = &mut self.sides[rank.get() as usize];
                for ((lane, ticket), (settled, _)) in std::mem::take(&mut side.flights) {
                    let lane = LANES.into_iter().find(|known| *known as u8 == lane).unwrap();
                    side.worker.settle(lane, ticket, settled);
                }
                self.net.extend(side.worker.say());
            }
            Action::Begin(id) => return self.begin(id),
            Action::Accept(id, tokens) => self.accept(id, tokens),
            Action::Finish(request) => self.tell(&Event::Finish { request }),
            Action::Abort(request) => self.tell(&Event::Abort { request }),
            Action::Preempt(request) => self.tell(&Event::Preempt { request }),
            Action::Resume(request) => return self.try_tell(&Event::Resume { request, behind: 1 }).is_ok(),
            Action::Die(rank) => {
                let side = &mut self.sides[rank.get() as usize];
                side.alive = false;
                side.inbox.clear();
                side.flights.clear();
                self.reads.retain(|(_, reader, _)| *reader != rank);
            }
            Action::Lose(rank) => self.tell(&Event::RankLost { rank }),
            Action::Join(rank) => {
                let fresh = World::new(self.life.options(), &[], Faults::default());
                let side = fresh.sides.into_iter().nth(rank.get() as usize).unwrap();
                let old = std::mem::replace(&mut self.sides[rank.get() as usize], side);
                self.sides[rank.get() as usize].next_ticket = old.next_ticket;
                self.memory.device.retain(|(owner, _), _| *owner != rank);
                self.tell(&Event::RankJoined { rank });
            }
        }
        true
    }

    fn spend(&mut self, action: Action) {
        let left = &mut self.left;
        let kind = match action {
            Action::Abort(_) => &mut left.aborts,
            Action::Land(.., false) => &mut left.reads,
            Action::Step(_, Some((_, Settled::Superseded))) => &mut left.superseded,
            Action::Step(_, Some(_)) => &mut left.failed,
            Action::Die(_) => &mut left.deaths,
            Action::DeliverTwice(_) => &mut left.duplicates,
            Action::Overtake(_) => &mut left.reordered,
            Action::Preempt(_) => &mut left.preemptions,
            _ => return,
        };
        *kind -= 1;
        left.all -= 1;
    }

    fn dead(&self) -> Ranks {
        let mut dead = Ranks::NONE;
        self.sides.iter().filter(|side| !side.alive).for_each(|side| dead.insert(side.worker.rank()));
        dead
    }

    /// Tells the scheduler what it has to take.
    fn tell(&mut self, event: &Event<'_>) {
        self.try_tell(event).unwrap_or_else(|error| panic!("{event:?}: {error}"));
    }

    /// Tells it something that may be too late: of a request that is over.
    fn tell_late(&mut self, event: &Event<'_>) {
        match self.try_tell(event) {
            Ok(()) | Err(LifecycleError::UnknownRequest { .. }) => {}
            Err(error) => panic!("{event:?}: {error}"),
        }
    }

    fn try_tell(&mut self, event: &Event<'_>) -> Result<(), LifecycleError> {
        self.sealed.clear();
        // What comes from the engine may be refused for want of room.
        let risky = matches!(event, Event::Admit(_) | Event::Begin { .. } | Event::Resume { .. });
        let before = risky.then(|| self.life.clone());
        match self.life.apply(event).map(<[Effect]>::to_vec) {
            Ok(effects) => {
                effects.iter().for_each(|effect| self.follow(effect));
                Ok(())
            }
            Err(error) => {
                let same = before.is_none_or(|before| self.life == before);
                assert!(same, "{event:?} was refused, and changed something");
                Err(error)
            }
        }
    }

    fn follow(&mut self, effect: &Effect) {
        let order = match *effect {
            Effect::Read { request, .. } => {
                self.to_post.insert(request);
                return;
            }
            Effect::Lift { request, .. } => {
                let view = self.life.request(request).unwrap();
                let blocks = view.blocks();
                let list = view.pages().map(|(at, page, _)| (at, page, blocks[at as usize])).collect();
                let known = &self.known[&request];
                let on_host = view.arrival() != Arrival::Device || !known.received || known.preempted;
                Order::Lift(*effect, list, on_host)
            }
            Effect::Sealed { request, position, block } => {
                self.sealed.insert(block, (request, position.into()));
                return;
            }
            Effect::Publish { hash, block } => return self.published(hash, block),
            Effect::Hide { hash, .. } => {
                self.truth.remove(&hash);
                return;
            }
            Effect::Received { request } => {
                self.known.get_mut(&request).unwrap().received = true;
                return;
            }
            Effect::Preempted { request } => {
                self.known.get_mut(&request).unwrap().preempted = true;
                return;
            }
            Effect::Notify { request } => {
                let known = self.known.get_mut(&request).unwrap();
                known.notified += 1;
                assert_eq!(known.notified, 1, "the producer hears once");
                let reads = self.reads.iter().any(|(reader, ..)| *reader == request);
                assert!(!reads, "the producer's blocks are still read");
                return;
            }
            Effect::Ended { request, .. } => {
                let known = self.known.remove(&request).unwrap();
                let expected = u32::from(self.scripts[known.script].producer);
                assert_eq!(known.notified, expected, "the producer was not told");
                return;
            }
            _ => Order::Do(*effect),
        };
        for side in self.sides.iter_mut().filter(|side| side.alive) {
            side.inbox.push_back(order.clone());
        }
    }

    fn admit(&mut self) -> bool {
        let script = &self.scripts[self.next];
        let hashes: Vec<_> = script.hashes.iter().map(|hash| ContentHash::new(*hash)).collect();
        let Script { policy, producer, .. } = *script;
        let admission =
            Admission { prompt: Tokens::new(script.prompt), policy, producer, hashes: hashes.into() };
        // Effects speak of the request before anybody knows it.
        let mut trial = self.life.clone();
        let Ok(effects) = trial.apply(&Event::Admit(admission.clone())) else { return false };
        let admitted = effects.iter().find_map(|effect| match effect {
            Effect::Admitted { request, .. } => Some(*request),
            _ => None,
        });
        let known = Known {
            script: self.next,
            last: BTreeMap::new(),
            named: 0,
            received: false,
            preempted: false,
            notified: 0,
        };
        self.known.insert(admitted.unwrap(), known);
        self.next += 1;
        self.tell(&Event::Admit(admission));
        true
    }

    /// A read's bytes arrive.
    fn land(&mut self, request: RequestId, rank: Rank) {
        let view = self.life.request(request).expect("a read writes to blocks of nobody");
        let (script, slots) = (self.script(request).unwrap(), self.block() as usize);
        let own = self.known[&request].script;
        let pages: BTreeMap<u32, PageId> = view.pages().map(|(at, page, _)| (at, page)).collect();
        for position in view.found()..view.imported().get().div_ceil(self.block()) as u32 {
            let block = view.blocks()[position as usize];
            assert_eq!(self.life.content(block), None, "a read writes to a visible block");
            let first = u64::from(position) * self.block();
            let count = (view.imported().get() - first).min(self.block()) as usize;
            let content = script.content(own, position.into());
            let rows = match view.arrival() {
                Arrival::Device => self.memory.page(rank, pages[&position], slots),
                _ => self.memory.block(rank, block, slots),
            };
            rows.fill(None);
            (0..count).for_each(|slot| rows[slot] = Some(Row { content, slot, step: 0 }));
            if view.state().is_some_and(|(_, at)| at == position) {
                (0..self.life.options().ranks).for_each(|rank| {
                    self.states.insert((Rank::new(rank), block.get()), view.imported().get());
                });
            }
        }
    }

    /// A rank takes its orders and makes its launches.
    fn step(&mut self, rank: Rank, fault: Option<(Lane, Settled)>) -> bool {
        let number = rank.get() as usize;
        let mut taken = false;
        while let Some(order) = self.sides[number].inbox.pop_front() {
            let side = &mut self.sides[number];
            // What was asked for before a step begins is launched before it.
            if taken && matches!(order, Order::Begin(..)) {
                side.inbox.push_front(order);
                break;
            }
            taken = true;
            match order {
                Order::Lift(effect, list, on_host) => {
                    let Effect::Lift { request, .. } = effect else { continue };
                    side.tables.entry(request).or_default();
                    for (position, page, block) in &list {
                        let table = side.tables.get_mut(&request).unwrap();
                        table.entry(*position).or_insert((*page, *block, false));
                    }
                    side.lists.insert(request, (list, on_host));
                    side.worker.hear(&effect);
                }
                Order::Do(Effect::Map { request, position, page, block }) => {
                    // Only writers have a page map.
                    let writes = self.life.options().writers.contains(rank);
                    side.tables.entry(request).or_default().insert(position, (page, block, writes));
                }
                Order::Do(Effect::ReleasePage { request, page }) => {
                    let table = side.tables.entry(request).or_default();
                    table.retain(|_, (own, ..)| *own != page);
                    if table.is_empty() {
                        side.tables.remove(&request);
                    }
                }
                Order::Do(effect) => side.worker.hear(&effect),
                Order::Begin(request, step, from, to) => {
                    let block = u64::from(self.life.options().block_tokens);
                    side.steps.insert((request, step), (from, to));
                    side.ran.insert(request, step);
                    side.worker.begin(request, step, (from / block) as u32, ((to - 1) / block) as u32);
                }
            }
        }
        let mut hit = fault.is_none();
        for lane in LANES {
            let side = &mut self.sides[number];
            let mut works = Vec::new();
            while let Some(work) = side.worker.next(lane) {
                works.push(work);
                side.worker.draft(lane);
            }
            if works.is_empty() {
                continue;
            }
            let settled = match fault {
                Some((hit_lane, settled)) if hit_lane == lane => {
                    hit = true;
                    settled
                }
                _ => Settled::Done,
            };
            let ticket = side.next_ticket;
            side.next_ticket += 1;
            side.worker.staged(lane, ticket);
            let flights = works.iter().map(|work| self.run(rank, *work, settled)).collect();
            self.sides[number].flights.insert((lane as u8, ticket), (settled, flights));
        }
        let side = &mut self.sides[number];
        self.net.extend(side.worker.say());
        hit
    }

    /// A launch does some work, unless it fails.
    fn run(&mut self, rank: Rank, work: Work, settled: Settled) -> Flight {
        let side = &self.sides[rank.get() as usize];
        let (id, done) = (work.request(), settled == Settled::Done);
        let table = side.tables.get(&id).cloned().unwrap_or_default();
        let source = if self.life.options().writers.contains(rank) { rank } else { Rank::new(0) };
        let (slots, block) = (self.block() as usize, self.block());
        let mut ends = Vec::new();
        match work {
            Work::Lift { .. } => {
                let (list, on_host) = side.lists[&id].clone();
                for (_, page, from) in list.iter().filter(|_| done && on_host) {
                    let rows = self.memory.block(source, *from, slots).clone();
                    *self.memory.page(rank, *page, slots) = rows;
                }
                if done && let Some((_, at)) = self.life.request(id).and_then(|view| view.state()) {
                    let block = self.life.request(id).unwrap().blocks()[at as usize];
                    let state = self.states.get(&(rank, block.get())).copied();
                    self.sides[rank.get() as usize].states.insert(id, state.expect("a state was saved"));
                }
                ends = list;
            }
            Work::Checkpoint { position, .. } | Work::Save { position, .. } => {
                // The block is that of the request's, which an engine keeps by position.
                let view = self.life.request(id).expect("a state is written for nobody");
                let to = view.blocks()[position as usize];
                assert_eq!(self.life.content(to), None, "a state is written to a visible block");
                if done {
                    let state = side.states.get(&id).copied().unwrap();
                    self.states.insert((rank, to.get()), state);
                }
            }
            Work::Spill { position, .. } => {
                if let Some((page, to, true)) = table.get(&position).copied() {
                    ends.push((position, page, to));
                    self.write_back(rank, page, to, 0..slots, done);
                }
            }
            Work::Rewrite { first, last, .. } => {
                for (position, (page, to, mapped)) in table.range(first..=last) {
                    if *mapped {
                        ends.push((*position, *page, *to));
                        self.write_back(rank, *page, *to, 0..slots, done);
                    }
                }
            }
            Work::Mirror { step, .. } => {
                let (from, to) = side.steps[&(id, step)];
                self.forward(rank, id, step, (from, to));
                for token in from..to {
                    let position = (token / block) as u32;
                    let Some((page, to, true)) = table.get(&position).copied() else { continue };
                    let slot = (token % block) as usize;
                    ends.push((position, page, to));
                    self.write_back(rank, page, to, slot..slot + 1, done);
                }
            }
            _ => {}
        }
        Flight { work, ends }
    }

    /// A step computes rows: it reads all before them, and writes its own.
    fn forward(&mut self, rank: Rank, id: RequestId, step: u32, (from, to): (u64, u64)) {
        let side = &self.sides[rank.get() as usize];
        let table = side.tables.get(&id).cloned().unwrap_or_default();
        let (known, slots, block) = (self.known.get(&id).cloned(), self.block() as usize, self.block());
        let Some(known) = known else { return };
        let script = &self.scripts[known.script];
        let found = self.life.request(id).map_or(0, |view| view.found());
        for (position, (page, ..)) in &table {
            let first = u64::from(*position) * block;
            let rows = self.memory.page(rank, *page, slots);
            for token in first..from.min(first + block) {
                let row = rows[(token - first) as usize].expect("a step reads a row that is not there");
                assert_eq!(row.content, script.content(known.script, (*position).into()), "another's row");
                if *position >= found {
                    let last = known.last.get(&token).copied().unwrap_or(0);
                    assert_eq!(row.step, last, "token {token} of {id} as another step computed it");
                }
            }
        }
        for token in from..to {
            let position = (token / block) as u32;
            let (page, ..) = *table.get(&position).expect("a step writes to a page that is not there");
            let content = script.content(known.script, position.into());
            let slot = (token % block) as usize;
            self.memory.page(rank, page, slots)[slot] = Some(Row { content, slot, step });
        }
        if self.life.options().recurrence == Recurrence::State {
            let state = self.sides[rank.get() as usize].states.insert(id, to);
            assert_eq!(state.unwrap_or(0), from, "a state absorbs a token twice, or not at all");
        }
    }

    fn write_back(
        &mut self,
        rank: Rank,
        page: PageId,
        block: HostBlockId,
        rows: std::ops::Range<usize>,
        done: bool,
    ) {
        if !self.life.options().writers.contains(rank) {
            return;
        }
        assert_eq!(self.life.content(block), None, "a row is written to a visible block");
        if done {
            let slots = self.block() as usize;
            let from = self.memory.page(rank, page, slots).clone();
            self.memory.block(rank, block, slots)[rows.clone()].copy_from_slice(&from[rows]);
        }
    }

    fn begin(&mut self, id: RequestId) -> bool {
        let (view, script) = (self.life.request(id).unwrap(), self.script(id).unwrap());
        let from = view.next_token().get() + u64::from(view.begun() - view.accepted());
        let (step, tokens) = (view.begun() + 1, script.tokens);
        if self.try_tell(&Event::Begin { request: id, tokens }).is_err() {
            return false;
        }
        if tokens == 1 {
            self.known.get_mut(&id).unwrap().last.insert(from, step);
        }
        let order = Order::Begin(id, step, from, from + u64::from(tokens));
        for side in self.sides.iter_mut().filter(|side| side.alive) {
            side.inbox.push_back(order.clone());
        }
        true
    }

    fn accept(&mut self, id: RequestId, tokens: u32) {
        let view = self.life.request(id).unwrap();
        let (step, from) = (view.accepted() + 1, view.next_token().get());
        let known = self.known.get_mut(&id).unwrap();
        known.last.extend((from..from + u64::from(tokens)).map(|token| (token, step)));
        self.tell(&Event::Accept { request: id, step, tokens });
        // The engine names what is full.
        let script = self.script(id).unwrap();
        let (block, end) = (self.block(), from + u64::from(tokens));
        let own = self.known[&id].script;
        let from = (script.hashes.len() as u64).max(self.known[&id].named);
        for position in from..end / block {
            self.known.get_mut(&id).unwrap().named = position + 1;
            self.tell(&Event::Name { request: id, hash: script.content(own, position) });
        }
    }

    /// A block becomes visible: every writer's rows are there, as the last step that computed them left them.
    fn published(&mut self, hash: ContentHash, block: HostBlockId) {
        let find = |id: &RequestId| {
            let blocks = self.life.request(*id)?.blocks();
            Some((*id, blocks.iter().position(|own| *own == block)? as u64))
        };
        let sealed = self.sealed.get(&block).copied();
        let owner = sealed.or_else(|| self.known.keys().find_map(find));
        let (id, position) = owner.expect("nobody's block is published");
        let script = &self.scripts[self.known[&id].script];
        assert_eq!(script.content(self.known[&id].script, position), hash, "published by another's name");
        let known = &self.known[&id];
        let tokens = position * self.block()..(position + 1) * self.block();
        let steps: Vec<u32> = tokens.map(|token| known.last.get(&token).copied().unwrap_or(0)).collect();
        self.truth.insert(hash, steps);
    }

    /// What a visible block must hold, and what it does.
    pub fn visible(&self) -> impl Iterator<Item = (HostBlockId, Vec<Row>)> {
        self.truth.iter().map(|(hash, steps)| {
            let block = self.life.find(*hash).expect("what is published is found");
            let rows = steps.iter().enumerate();
            (block, rows.map(|(slot, step)| Row { content: *hash, slot, step: *step }).collect())
        })
    }
}
