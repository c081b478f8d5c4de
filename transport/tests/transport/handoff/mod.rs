//! Both ends together: an import from one engine's memory to the other's, and what may happen to it.

mod fabric;
mod guests;
mod imports;
mod lost;
mod many;
mod outcomes;
mod pair;
mod quiet;
mod turns;
mod wires;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use pagelift_planner::geometry::Memory;
use pagelift_planner::quantity::Tokens;
use pagelift_transport::consumer::{Consumer, ConsumerEvent, ConsumerOptions, End, Notices, Wanted};
use pagelift_transport::control::Role;
use pagelift_transport::lease::{Moment, RankEnd, Terms};
use pagelift_transport::notice::ReadOutcome;
use pagelift_transport::plan::{BlockTables, ReadLimits};
use pagelift_transport::producer::{Answer, Ask, Exporter, Freed, Producer, ProducerEvent, ProducerOptions};

use self::fabric::{Agent, Fabric};
use self::wires::{Door, Tap, Tapped, link};
use crate::reference::{Lists, expected, lists, tables};
use crate::world::{self, Arrangement, BASE, BLOCK, Engine, GroupMeaning, Meaning};

/// Tokens of every import, of which D has those of the first block: of the last, P's pages cover a part.
const IMPORTED: u32 = 4 * BLOCK + 5;
const ORDER: [u32; 6] = [3, 1, 5, 0, 4, 2];

fn terms() -> Terms {
    let milliseconds = Duration::from_millis;
    Terms { lease: milliseconds(1000), heartbeat: milliseconds(200), margin: milliseconds(50) }
}

fn groups() -> Vec<GroupMeaning> {
    let group = |name, meaning, rows, segments| GroupMeaning::new(name, meaning, 2, rows, segments);
    let paged = |tokens_per_row| Meaning::Paged { tokens_per_row };
    vec![
        group("main", paged(1), BLOCK, &[8, 3]),
        group("compressed", paged(4), BLOCK / 4, &[5]),
        group("ring", Meaning::Ring, 6, &[7]),
        group("gdn", Meaning::State, 1, &[30, 50]),
    ]
}

fn arranged(producer: bool) -> Vec<Arrangement> {
    world::arranged(&groups(), producer, 2)
}

/// P's engine: what it will answer, and what it was given back.
#[derive(Default)]
struct Engines {
    exported: BlockTables,
    answers: VecDeque<Answer<u64>>,
    held: BTreeMap<u64, u64>,
    freed: Vec<(u64, RankEnd)>,
    next: u64,
    /// Asks, by their number.
    asked: BTreeSet<u64>,
    withdrawn: Vec<Ask>,
}

impl Exporter for Engines {
    type Blocks = u64;

    fn export(&mut self, ask: &Ask) -> Answer<u64> {
        assert_eq!(ask.imported, Tokens::new(IMPORTED.into()));
        self.asked.insert(ask.number);
        let answer = self.answers.pop_front().unwrap_or_else(|| {
            self.next += 1;
            Answer::Export { tables: self.exported.clone(), blocks: self.next }
        });
        if let Answer::Export { blocks, .. } = answer {
            assert!(self.held.insert(blocks, ask.request).is_none());
        }
        answer
    }

    fn withdrawn(&mut self, ask: &Ask) {
        self.withdrawn.push(*ask);
    }

    fn free(&mut self, freed: Freed<u64>) {
        assert_eq!(self.held.remove(&freed.blocks), Some(freed.ask.request), "freed once");
        self.freed.push((freed.ask.request, freed.end));
    }
}

/// One P, one D.
struct World {
    fabric: Rc<Fabric>,
    p: Agent,
    d: Agent,
    door: Door,
    tap: Tap,
    producer: Option<Producer<Agent, Door, u64>>,
    consumer: Option<Consumer<Agent, Tapped, u32>>,
    engine: Engines,
    seen: Vec<ProducerEvent>,
    events: Vec<ConsumerEvent<u32>>,
    lists: Vec<Lists>,
}

fn options() -> ConsumerOptions {
    ConsumerOptions {
        read_limits: ReadLimits { most_bytes: 600, ..ReadLimits::default() },
        greeting_timeout: Duration::from_millis(100),
        grant_timeout: Duration::from_millis(2000),
        read_timeout: Duration::from_millis(5000),
        stop_timeout: Duration::from_millis(3000),
        presence_interval: Duration::from_millis(200),
        // Tests lose and double those.
        notices: Notices::Transfer,
        ..ConsumerOptions::default()
    }
}

impl World {
    fn new() -> Self {
        Self::with(options(), ProducerOptions { terms: terms(), ..ProducerOptions::new(0x5eed) })
    }

    fn with(consumer_options: ConsumerOptions, producer_options: ProducerOptions) -> Self {
        let (fabric, groups) = (Rc::new(Fabric::default()), groups());
        let engine = |producer, memory, seed| Engine::new(memory, &groups, &arranged(producer), seed);
        let p = Agent::new(&fabric, "prefill", engine(true, Memory::Host, 1));
        let d = Agent::new(&fabric, "decode", engine(false, Memory::Device, 2));
        let (door, tap) = (Door::default(), Tap::default());
        let offer = p.node.engine.borrow().offer(BASE);
        let producer = Producer::new(p.clone(), door.clone(), offer, producer_options).unwrap();
        let lists: Vec<Lists> = groups.iter().map(|group| lists(group, IMPORTED, &ORDER, 1)).collect();
        let engine = Engines { exported: tables(&groups, &lists, true), ..Engines::default() };
        let mut world = Self {
            fabric,
            p,
            d,
            door,
            tap,
            producer: Some(producer),
            consumer: None,
            engine,
            seen: Vec::new(),
            events: Vec::new(),
            lists,
        };
        world.connect(consumer_options);
        world
    }

    /// D connects, once more if it had before.
    fn connect(&mut self, options: ConsumerOptions) {
        self.tap.cut.set(false);
        let wire = Tapped::new(link(self.door.waiting.connect(), Role::Consumer), self.tap.clone());
        let offer = self.d.node.engine.borrow().offer(BASE);
        self.consumer = None;
        self.consumer = Some(Consumer::new(self.d.clone(), wire, offer, options, self.now()).unwrap());
    }

    fn now(&self) -> Moment {
        Moment::new(Duration::from_millis(self.fabric.now.get()))
    }

    fn wanted(&self, request: u64) -> Wanted {
        let blocks = tables(&groups(), &self.lists, false);
        Wanted { request, imported: Tokens::new(IMPORTED.into()), blocks, awaited: true }
    }

    fn begin(&mut self, id: u32) {
        let wanted = self.wanted(1000 + u64::from(id));
        self.consumer.as_mut().unwrap().begin(id, wanted).unwrap();
    }

    /// So many milliseconds pass.
    fn pass(&mut self, milliseconds: u64) {
        for _ in 0..milliseconds {
            self.fabric.now.set(self.fabric.now.get() + 1);
            let now = self.now();
            if let Some(producer) = &mut self.producer {
                self.seen.extend(producer.poll(|| now, &mut self.engine).unwrap());
            }
            if let Some(consumer) = &mut self.consumer {
                self.events.extend(consumer.poll(|| now, &mut &*self.d.node));
            }
        }
    }

    /// How an import has ended, if it has; exactly once.
    fn end(&self, id: u32) -> Option<End> {
        let ends = self.events.iter().filter_map(|event| match event {
            ConsumerEvent::Ended { id: own, end } if *own == id => Some(end.clone()),
            _ => None,
        });
        let ends: Vec<End> = ends.collect();
        assert!(ends.len() <= 1, "{ends:?}");
        ends.into_iter().next()
    }

    /// D's bytes as they must be when an import has landed.
    fn expected(&self) -> Vec<u8> {
        let groups = groups();
        let before = Engine::new(Memory::Device, &groups, &arranged(false), 2);
        expected(&groups, &self.p.node.engine.borrow(), &before, &self.lists, IMPORTED)
    }

    fn held(&self) -> usize {
        let held = self.producer.as_ref().unwrap().held();
        assert_eq!(held, self.engine.held.len());
        held
    }
}

const READ: RankEnd = RankEnd::Heard(ReadOutcome::Read);
const FAILED: RankEnd = RankEnd::Heard(ReadOutcome::Failed);
const CANCELLED: RankEnd = RankEnd::Heard(ReadOutcome::Cancelled);

/// What a test keeps of what D said.
type Log = Rc<RefCell<Vec<&'static str>>>;
