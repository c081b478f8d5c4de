//! A producer and a consumer of two ranks with everything that may happen to them, in a time of their own.
//!
//! A part of a read takes P's bytes at some moment between its beginning and its end, whatever P has done with the blocks
//! until then; P gives a block to another request the moment that it is free. Leases are all that stands between.

use std::collections::BTreeMap;
use std::time::Duration;

use pagelift_transport::lease::{Exports, Moment, RankEnd, Terms};
use pagelift_transport::notice::{ExportId, Notice};
use pagelift_transport::plan::ReadPlan;
use pagelift_transport::receive::{ReadEffect, ReadEvent, Receive, ReceiveOptions};

use crate::receive::three_reads;

const RANKS: u32 = 2;
const BLOCKS: usize = 8;

/// How often things go wrong, in a thousand.
#[derive(Clone, Copy, Default)]
struct Faults {
    lost: u64,
    doubled: u64,
    slow: u64,
    stuck: u64,
    failed: u64,
    cancelled: u64,
    producer_killed: u64,
    consumer_killed: u64,
}

enum Message {
    Ask { import: u64, asked: u64 },
    Granted { import: u64, asked: u64, export: ExportId, contents: [u64; 3] },
    Heartbeat { import: u64, export: ExportId, rank: u32, sent: Moment },
    Answer { import: u64, rank: u32, sent: Option<Moment> },
    Notify(Notice),
}

/// A part in flight: when it takes P's bytes, and when it ends. Stuck ones end only when they are told to stop.
struct Flight {
    taken_at: u64,
    ends_at: Option<u64>,
    taken: Option<u64>,
    fails: bool,
}

struct Import {
    export: ExportId,
    contents: [u64; 3],
    blocks: [usize; 3],
    receive: Receive,
    flights: BTreeMap<usize, Flight>,
    landed: Vec<(usize, u64)>,
    notified: u32,
    ended: u32,
    released: bool,
}

#[derive(Default, Debug)]
struct Seen {
    received: u32,
    failed: u32,
    frees: u32,
    expired: u32,
}

struct World {
    now: u64,
    random: u64,
    faults: Faults,
    plan: ReadPlan,
    terms: Terms,
    incarnation: u64,
    exports: Exports<[usize; 3]>,
    /// The blocks of each export, and until when each rank may believe in it by what P has heard.
    granted: BTreeMap<ExportId, ([usize; 3], [u64; RANKS as usize])>,
    free: Vec<usize>,
    /// What lies in P's blocks.
    contents: [u64; BLOCKS],
    next_content: u64,
    imports: BTreeMap<(u64, u32), Import>,
    messages: BTreeMap<(u64, u64), Message>,
    sent: u64,
    seen: Seen,
}

fn at(now: u64) -> Moment {
    Moment::new(Duration::from_millis(now))
}

impl World {
    fn new(seed: u64, faults: Faults) -> Self {
        let milliseconds = Duration::from_millis;
        let terms = Terms { lease: milliseconds(100), heartbeat: milliseconds(20), margin: milliseconds(5) };
        Self {
            now: 0,
            random: seed,
            faults,
            plan: three_reads(),
            terms,
            incarnation: 1,
            exports: Exports::new(1, terms, 64).unwrap(),
            granted: BTreeMap::new(),
            free: (0..BLOCKS).collect(),
            contents: std::array::from_fn(|block| block as u64),
            next_content: 1000,
            imports: BTreeMap::new(),
            messages: BTreeMap::new(),
            sent: 0,
            seen: Seen::default(),
        }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % limit
    }

    fn happens(&mut self, in_a_thousand: u64) -> bool {
        self.below(1000) < in_a_thousand
    }

    fn send(&mut self, message: impl Fn() -> Message) {
        let copies = if self.happens(self.faults.doubled) { 2 } else { 1 };
        for _ in 0..copies {
            if self.happens(self.faults.lost) {
                continue;
            }
            let slow = if self.happens(self.faults.slow) { 150 } else { 3 };
            let arrives = self.now + 1 + self.below(slow);
            self.sent += 1;
            self.messages.insert((arrives, self.sent), message());
        }
    }

    /// A moment passes.
    fn step(&mut self) {
        self.now += 1;
        while let Some(((arrives, _), _)) = self.messages.first_key_value()
            && *arrives <= self.now
        {
            let (_, message) = self.messages.pop_first().unwrap();
            self.deliver(message);
        }
        for key in self.imports.keys().copied().collect::<Vec<_>>() {
            self.fly(key);
            self.tell(key, ReadEvent::Tick);
        }
        self.free_what_ended();
        if self.happens(self.faults.producer_killed) {
            self.kill_producer();
        }
        if self.happens(self.faults.consumer_killed) {
            // Its reads end with it, and nobody tells P.
            self.imports.clear();
        }
    }

    fn deliver(&mut self, message: Message) {
        match message {
            Message::Ask { import, asked } => {
                if self.free.len() < 3 {
                    return;
                }
                let blocks: [usize; 3] = std::array::from_fn(|_| self.free.pop().unwrap());
                let contents = blocks.map(|block| {
                    self.next_content += 1;
                    self.contents[block] = self.next_content;
                    self.next_content
                });
                let export = self.exports.grant(at(self.now), 0..RANKS, blocks).unwrap();
                self.granted.insert(export, (blocks, [self.now + 100; RANKS as usize]));
                self.send(|| Message::Granted { import, asked, export, contents });
            }
            Message::Granted { import, asked, export, contents } => {
                let Some((blocks, _)) = self.granted.get(&export) else { return };
                let blocks = *blocks;
                for rank in 0..RANKS {
                    if !self.imports.contains_key(&(import, rank)) {
                        self.begin((import, rank), asked, export, contents, blocks);
                    }
                }
            }
            Message::Heartbeat { import, export, rank, sent } => {
                let heard = self.exports.heartbeat(at(self.now), export, rank).is_ok();
                if heard {
                    self.granted.get_mut(&export).unwrap().1[rank as usize] = self.now + 100;
                }
                self.send(|| Message::Answer { import, rank, sent: heard.then_some(sent) });
            }
            Message::Answer { import, rank, sent } => {
                let event = sent.map_or(ReadEvent::Refused, |sent| ReadEvent::Acknowledged { sent });
                self.tell((import, rank), event);
            }
            Message::Notify(notice) => drop(self.exports.notice(at(self.now), &notice)),
        }
    }

    fn begin(
        &mut self,
        key: (u64, u32),
        asked: u64,
        export: ExportId,
        contents: [u64; 3],
        blocks: [usize; 3],
    ) {
        let options = ReceiveOptions {
            export,
            rank: key.1,
            awaited: true,
            terms: self.terms,
            asked: at(asked),
            timeout: Duration::from_millis(400),
        };
        let (receive, effects) = Receive::begin(&self.plan, options, at(self.now));
        assert!(effects.is_empty());
        let mut flights = BTreeMap::new();
        for part in 0..3 {
            let slow = if self.happens(self.faults.slow) { 300 } else { 30 };
            let ends = self.now + 1 + self.below(slow);
            let taken_at = self.now + self.below(ends - self.now + 1);
            let ends_at = (!self.happens(self.faults.stuck)).then_some(ends);
            let fails = self.happens(self.faults.failed);
            flights.insert(part, Flight { taken_at, ends_at, taken: None, fails });
        }
        let import = Import {
            export,
            contents,
            blocks,
            receive,
            flights,
            landed: Vec::new(),
            notified: 0,
            ended: 0,
            released: false,
        };
        self.imports.insert(key, import);
        if self.happens(self.faults.cancelled) {
            self.tell(key, ReadEvent::Cancel);
        }
    }

    /// Parts of an import take bytes, and end.
    fn fly(&mut self, key: (u64, u32)) {
        let Some(import) = self.imports.get_mut(&key) else { return };
        let mut events = Vec::new();
        for (part, flight) in &mut import.flights {
            if flight.taken_at == self.now {
                flight.taken = Some(self.contents[import.blocks[*part]]);
            }
            if flight.ends_at.is_some_and(|end| end <= self.now) {
                events.push((*part, flight.fails, flight.taken));
            }
        }
        for (part, fails, taken) in events {
            let import = self.imports.get_mut(&key).unwrap();
            import.flights.remove(&part);
            match taken.filter(|_| !fails) {
                Some(taken) => {
                    import.landed.push((part, taken));
                    self.tell(key, ReadEvent::Landed { part });
                }
                None => self.tell(key, ReadEvent::Failed { part }),
            }
        }
    }

    fn tell(&mut self, key: (u64, u32), event: ReadEvent) {
        let Some(import) = self.imports.get_mut(&key) else { return };
        let (export, rank) = (import.export, key.1);
        for effect in import.receive.handle(at(self.now), event).unwrap() {
            let import = self.imports.get_mut(&key).unwrap();
            assert!(!import.released, "the last word was said");
            match effect {
                ReadEffect::Heartbeat { sent } => {
                    self.send(|| Message::Heartbeat { import: key.0, export, rank, sent });
                }
                ReadEffect::Stop { part } => {
                    let flight = import.flights.get_mut(&part).expect("only parts in flight are stopped");
                    (flight.ends_at, flight.fails) = (Some(self.now + 10), true);
                }
                ReadEffect::Notify(notice) => {
                    import.notified += 1;
                    assert!(import.flights.is_empty(), "P is notified when nothing reads");
                    self.send(|| Message::Notify(notice));
                }
                ReadEffect::Received => {
                    import.ended += 1;
                    let landed: BTreeMap<usize, u64> = import.landed.iter().copied().collect();
                    let exported: BTreeMap<usize, u64> = import.contents.into_iter().enumerate().collect();
                    assert_eq!(landed, exported, "what is published is what was exported");
                    self.seen.received += 1;
                }
                ReadEffect::Failed { valid, .. } => {
                    import.ended += 1;
                    // What is called valid is the export's too: a state is whole, and main ends before its first hole.
                    let true_parts: Vec<usize> = import
                        .landed
                        .iter()
                        .filter(|(part, content)| import.contents[*part] == *content)
                        .map(|(part, _)| *part)
                        .collect();
                    let (state, main) = (valid[0].1.get(), valid[1].1.get());
                    assert!(state == 0 || true_parts.contains(&0));
                    assert!(main == 0 || true_parts.contains(&1));
                    assert!(main <= 32 || true_parts.contains(&2));
                    self.seen.failed += 1;
                }
                ReadEffect::Released => {
                    assert!(import.flights.is_empty(), "nothing writes what is released");
                    assert_eq!((import.notified, import.ended), (1, 1));
                    import.released = true;
                }
            }
        }
    }

    fn free_what_ended(&mut self) {
        while let Some(ended) = self.exports.ended(at(self.now)) {
            let (blocks, until) = self.granted.remove(&ended.export).unwrap();
            assert_eq!(blocks, ended.blocks);
            for (end, until) in ended.ranks.iter().zip(until) {
                match end {
                    RankEnd::Heard(_) => {}
                    RankEnd::Expired => {
                        assert!(self.now >= until, "freed before the lease was over");
                        self.seen.expired += 1;
                    }
                    RankEnd::Gone => unreachable!("nobody has said so"),
                }
            }
            self.give_back(blocks);
            self.seen.frees += 1;
        }
    }

    /// Blocks that are free belong to somebody else at once.
    fn give_back(&mut self, blocks: [usize; 3]) {
        for block in blocks {
            self.next_content += 1;
            self.contents[block] = self.next_content;
            self.free.push(block);
        }
    }

    /// A process of the same name takes its place, and knows nothing.
    fn kill_producer(&mut self) {
        self.incarnation += 1;
        self.exports = Exports::new(self.incarnation, self.terms, 64).unwrap();
        for (blocks, _) in std::mem::take(&mut self.granted).into_values() {
            self.give_back(blocks);
        }
        // What had not been taken yet cannot be read any more, and no transport says when it will tell.
        let now = self.now;
        for import in self.imports.values_mut() {
            for flight in import.flights.values_mut().filter(|flight| flight.taken_at > now) {
                flight.fails = true;
            }
        }
    }
}

/// Imports by the thousand, and then rest. At the end nothing is held on either side.
fn run(seed: u64, faults: Faults) -> Seen {
    let mut world = World::new(seed, faults);
    for import in 0..1000 {
        let asked = world.now;
        world.send(|| Message::Ask { import, asked });
        for _ in 0..world.below(30) {
            world.step();
        }
        world.imports.retain(|_, import| !import.released);
    }
    world.faults = Faults::default();
    for _ in 0..2000 {
        world.step();
    }
    assert!(world.messages.is_empty());
    assert!(world.exports.is_empty() && world.granted.is_empty());
    assert_eq!(world.free.len(), BLOCKS, "P has all of its blocks");
    assert!(world.imports.values().all(|import| import.released), "D has all of its own");
    world.seen
}

#[test]
fn without_faults_all_arrives_and_no_lease_expires() {
    let seen = run(1, Faults::default());
    assert_eq!((seen.failed, seen.expired), (0, 0), "{seen:?}");
    assert!(seen.received > 1000, "{seen:?}");
    assert_eq!(seen.received, 2 * seen.frees);
}

#[test]
fn case_23_notices_lost_and_doubled_delay_and_do_no_more() {
    for seed in 0..4 {
        let seen = run(seed, Faults { lost: 200, doubled: 300, ..Faults::default() });
        assert!(seen.received > 400 && seen.expired > 50, "{seen:?}");
    }
}

#[test]
fn case_23_heartbeats_that_stop_while_reads_are_in_flight() {
    for seed in 0..4 {
        let seen = run(seed, Faults { lost: 400, slow: 500, ..Faults::default() });
        assert!(seen.received > 20 && seen.failed > 20 && seen.expired > 50, "{seen:?}");
    }
}

#[test]
fn case_23_reads_that_never_end() {
    for seed in 0..4 {
        let seen = run(seed, Faults { stuck: 100, slow: 100, ..Faults::default() });
        assert!(seen.received > 50 && seen.failed > 50, "{seen:?}");
    }
}

#[test]
fn case_23_a_producer_killed_and_started_again_under_its_name() {
    for seed in 0..4 {
        let seen = run(seed, Faults { producer_killed: 10, slow: 100, ..Faults::default() });
        assert!(seen.received > 200 && seen.failed > 20, "{seen:?}");
    }
}

#[test]
fn case_23_a_consumer_killed_in_the_middle() {
    for seed in 0..4 {
        let seen = run(seed, Faults { consumer_killed: 10, slow: 100, ..Faults::default() });
        assert!(seen.received > 100 && seen.expired > 20, "{seen:?}");
    }
}

#[test]
fn case_23_imports_by_the_thousand_with_every_fault() {
    let faults = Faults {
        lost: 50,
        doubled: 50,
        slow: 100,
        stuck: 20,
        failed: 20,
        cancelled: 50,
        producer_killed: 3,
        consumer_killed: 3,
    };
    for seed in 10..20 {
        let seen = run(seed, faults);
        assert!(seen.received > 50 && seen.failed > 50 && seen.expired > 20, "{seen:?}");
    }
}
