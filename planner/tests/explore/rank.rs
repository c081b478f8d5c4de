//! The ranks' side: orders are taken, launches copy rows, steps compute them.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use pagelift_planner::id::{HostBlockId, PageId};
use pagelift_planner::import::{Arrival, Recurrence};
use pagelift_planner::lifecycle::{Effect, Lane, LifecycleOptions, Rank, RequestId, Settled, Work, Worker};

use crate::ghost::Row;
use crate::world::World;

/// In the order of a step's launches: a step runs between lifts and mirrors.
pub const LANES: [Lane; 3] = [Lane::WriteBack, Lane::Lift, Lane::Mirror];

/// What a rank is told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    Do(Effect),
    /// A lift, with what lies where, and whether it lies on the host.
    Lift(Effect, List, bool),
    /// A step, with the tokens that it computes, and the first of which it may write a row.
    Begin(RequestId, u32, u64, u64, u64),
}

/// One launch's work that may be running.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Flight {
    pub work: Work,
    pub ends: List,
}

pub type List = Vec<(u32, PageId, HostBlockId)>;
pub type Table = BTreeMap<u32, (PageId, HostBlockId, bool)>;

/// A rank, its queue, and what it knows of pages.
#[derive(Clone, Debug, Hash)]
pub struct Side {
    pub alive: bool,
    pub worker: Worker,
    pub inbox: VecDeque<Order>,
    /// Pages by position: their blocks, and whether they are mirrored.
    pub tables: BTreeMap<RequestId, Table>,
    /// What a lift copies: what lies where, and whether it lies on the host.
    lists: BTreeMap<RequestId, (List, bool)>,
    steps: BTreeMap<(RequestId, u32), (u64, u64)>,
    /// Of the last steps, the tokens that they computed: of those that were accepted, draft layers' rows become final later.
    computed: BTreeMap<(RequestId, u32), (u64, u64)>,
    pub ran: BTreeMap<RequestId, u32>,
    pub flights: BTreeMap<(u8, u64), (Settled, Vec<Flight>)>,
    states: BTreeMap<RequestId, u64>,
    pub next_ticket: u64,
}

impl Side {
    /// A rank with nothing in its pages.
    pub fn new(rank: Rank, requests: u32) -> Self {
        Self {
            alive: true,
            worker: Worker::new(rank, requests).unwrap(),
            inbox: VecDeque::new(),
            tables: BTreeMap::new(),
            lists: BTreeMap::new(),
            steps: BTreeMap::new(),
            computed: BTreeMap::new(),
            ran: BTreeMap::new(),
            flights: BTreeMap::new(),
            states: BTreeMap::new(),
            next_ticket: 1,
        }
    }

    /// An order comes. What is only written down, and is the first, is written down at once: nobody can tell.
    pub fn give(&mut self, order: Order, block: u64, writes: bool) {
        if self.inbox.is_empty()
            && matches!(order, Order::Do(Effect::Map { .. } | Effect::ReleasePage { .. }))
        {
            return self.take(order, block, writes);
        }
        self.inbox.push_back(order);
    }

    /// Takes an order. Only writers have a page map.
    fn take(&mut self, order: Order, block: u64, writes: bool) {
        match order {
            Order::Lift(effect, list, on_host) => {
                let Effect::Lift { request, .. } = effect else { return };
                let table = self.tables.entry(request).or_default();
                for (position, page, block) in &list {
                    table.entry(*position).or_insert((*page, *block, false));
                }
                self.lists.insert(request, (list, on_host));
                self.worker.hear(&effect);
            }
            Order::Do(Effect::Map { request, position, page, block }) => {
                self.tables.entry(request).or_default().insert(position, (page, block, writes));
            }
            Order::Do(Effect::ReleasePage { request, page }) => {
                let table = self.tables.entry(request).or_default();
                table.retain(|_, (own, ..)| *own != page);
                if table.is_empty() {
                    self.tables.remove(&request);
                }
            }
            Order::Do(effect) => self.worker.hear(&effect),
            Order::Begin(request, step, from, to, mirrored) => {
                self.steps.insert((request, step), (from, to));
                self.ran.insert(request, step);
                self.worker.begin(request, step, (mirrored / block) as u32, ((to - 1) / block) as u32);
            }
        }
    }

    /// It does nothing any more. What it ran before, it ran.
    pub fn die(&mut self, requests: u32) {
        let (fresh, ran) = (Self::new(self.worker.rank(), requests), std::mem::take(&mut self.ran));
        *self = Self { alive: false, ran, ..fresh };
    }

    /// A request's pages are another's now.
    pub fn forget_pages(&mut self, request: RequestId) {
        self.lists.remove(&request);
        self.states.remove(&request);
    }

    /// A request is over.
    pub fn forget(&mut self, request: RequestId) {
        self.forget_pages(request);
        self.ran.remove(&request);
        self.steps.retain(|(own, _), _| *own != request);
        self.computed.retain(|(own, _), _| *own != request);
    }
}

impl World<'_> {
    /// A read's bytes arrive.
    pub fn land(&mut self, request: RequestId, rank: Rank) {
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
            (0..count).for_each(|slot| rows[slot] = Some(Row { content, slot, step: 0, settled: true }));
            let imported = view.imported().get();
            let has_states = self.life.options().recurrence == Recurrence::State;
            if has_states && self.states_land && first + count as u64 == imported {
                for side in &mut self.sides {
                    side.states.insert(request, imported);
                }
            } else if has_states && view.arrival() == Arrival::Device && first + count as u64 == imported {
                self.sides[rank.get() as usize].states.insert(request, imported);
            } else if view.state().is_some_and(|(_, at)| at == position) {
                (0..self.life.options().ranks).for_each(|rank| {
                    self.states.insert((Rank::new(rank), block.get()), view.imported().get());
                });
            }
        }
    }

    /// A rank takes its orders and makes its launches.
    pub fn step(&mut self, rank: Rank, fault: Option<(Lane, Settled)>) -> bool {
        let number = rank.get() as usize;
        let LifecycleOptions { block_tokens, writers, .. } = self.life.options();
        // One step of a request at a time; what else has come is heard, also what is to be done after that step.
        let mut begun = Vec::new();
        while let Some(order) = self.sides[number].inbox.pop_front() {
            let side = &mut self.sides[number];
            if let Order::Begin(request, ..) = order {
                if begun.contains(&request) {
                    side.inbox.push_front(order);
                    break;
                }
                begun.push(request);
            }
            side.take(order, u64::from(block_tokens), writers.contains(rank));
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
                let view = self.life.request(id);
                // States that land on the device are lifted when they were written back.
                let states = view.filter(|view| !self.states_land || view.was_lifted());
                if done && let Some((_, at)) = states.and_then(|view| view.state()) {
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
                let (from, to) = self.sides[rank.get() as usize].steps.remove(&(id, step)).unwrap();
                let settled = self.forward(rank, id, step, (from, to));
                // Rows that are final only now are mirrored with those of the step.
                for token in settled.chain(from..to) {
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

    /// A step computes rows: it reads all before them, and writes its own. The tokens of which it makes rows final.
    fn forward(&mut self, rank: Rank, id: RequestId, step: u32, (from, to): (u64, u64)) -> Range<u64> {
        let side = &self.sides[rank.get() as usize];
        let table = side.tables.get(&id).cloned().unwrap_or_default();
        let (known, slots, block) = (self.known.get(&id).cloned(), self.block() as usize, self.block());
        let Some(known) = known else { return 0..0 };
        let lag = self.life.options().draft_lag;
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
            self.memory.page(rank, page, slots)[slot] = Some(Row { content, slot, step, settled: lag == 0 });
        }
        if self.life.options().recurrence == Recurrence::State {
            let state = self.sides[rank.get() as usize].states.insert(id, to);
            assert_eq!(state.unwrap_or(0), from, "a state absorbs a token twice, or not at all");
        }
        self.settle_drafts(rank, id, step, (from, to))
    }

    /// A draft layer sees what became of the tokens that were computed some steps ago, and changes its rows of them once more.
    fn settle_drafts(&mut self, rank: Rank, id: RequestId, step: u32, computed: (u64, u64)) -> Range<u64> {
        let (lag, slots, block) = (self.life.options().draft_lag, self.block() as usize, self.block());
        if lag == 0 {
            return 0..0;
        }
        let side = &mut self.sides[rank.get() as usize];
        side.computed.insert((id, step), computed);
        let Some((from, to)) = side.computed.remove(&(id, step.wrapping_sub(lag))) else { return 0..0 };
        // What the step after it computed again was rejected.
        let to = side.computed[&(id, step - lag + 1)].0.min(to);
        let table = side.tables[&id].clone();
        for token in from..to {
            let (page, ..) = *table.get(&((token / block) as u32)).expect("a row becomes final in no page");
            let row = &mut self.memory.page(rank, page, slots)[(token % block) as usize];
            row.as_mut().expect("a row becomes final that is not there").settled = true;
        }
        from..to
    }

    fn write_back(&mut self, rank: Rank, page: PageId, block: HostBlockId, rows: Range<usize>, done: bool) {
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
}
