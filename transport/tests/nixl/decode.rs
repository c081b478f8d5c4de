//! D: it reads what P has exported, and compares.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use pagelift_planner::geometry::Memory;
use pagelift_planner::quantity::Tokens;
use pagelift_transport::error::ReadPlanError;
use pagelift_transport::lease::{Moment, Terms};
use pagelift_transport::nixl::{Agent, AgentOptions, Library, NixlError, Reading};
use pagelift_transport::offer::Offer;
use pagelift_transport::pairing::Peer;
use pagelift_transport::plan::{BlockTable, BlockTables, ReadLimits, ReadPlan};
use pagelift_transport::receive::{ReadEffect, ReadEvent, Receive, ReceiveOptions};
use pagelift_transport::transfer::ReadingState;

use crate::prefill::{EXPORTER, LINE, SEED};
use crate::reference::{Lists, expected, lists, tables};
use crate::world::{BASE, BLOCKS, Engine};
use crate::{Hello, ROLE, arranged, groups, really};

struct Producer {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Producer {
    fn start() -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "prefill::producer", "--nocapture", "--test-threads=1"]).env(ROLE, EXPORTER);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        let own = self.lines.find_map(|line| line.unwrap().strip_prefix(LINE).map(str::to_owned));
        own.expect("P has ended before its time")
    }

    /// P ends by itself, and well.
    fn finish(mut self) {
        drop(self.child.stdin.take());
        assert_eq!(self.line(), "\"freed\"");
        assert!(self.lines.all(|line| line.is_ok()));
        assert!(self.child.wait().unwrap().success());
    }
}

/// Waits for a read, with heartbeats to nobody: P's lease lasts for longer than this test.
fn wait(reading: &Reading) -> ReadingState {
    let start = Instant::now();
    loop {
        match reading.state() {
            ReadingState::InFlight if start.elapsed() < Duration::from_secs(30) => std::thread::yield_now(),
            state => return state,
        }
    }
}

#[test]
fn every_kind_of_group_arrives_between_two_processes() {
    let groups = groups();
    let mut producer = Producer::start();
    let asked = Instant::now();
    let hello: Hello = serde_json::from_str(&producer.line()).unwrap();
    let theirs = Offer::parse(&hello.offer.to_json().unwrap()).unwrap();
    let ours = Engine::new(Memory::Host, &groups, &arranged(false), !SEED);
    let offer = ours.offer(really(&ours));
    let peer = Peer::pair(&offer, &theirs).unwrap();

    let library = Library::open().unwrap();
    let mut agent = Agent::new(&library, AgentOptions::new("decode")).unwrap();
    for range in &offer.regions.memory {
        // SAFETY: 1. The engine's bytes are on the heap and outlive the agent, its list and its reads, which are dropped before they
        //    are compared.
        // 2. Until then nothing looks at them but NIXL, and the zeroes below after all reads have landed.
        unsafe { agent.register(*range) }.unwrap();
        // SAFETY: as above; it is refused.
        let again = unsafe { agent.register(*range) };
        assert_eq!(again, Err(NixlError::RegisteredTwice { range: *range }));
    }
    let absent = agent.prepare("prefill", &peer).err();
    assert_eq!(absent, Some(NixlError::NoPeer { name: "prefill".into() }));
    assert_eq!(agent.add_peer(&hello.metadata).unwrap(), "prefill");
    let prepared = agent.prepare("prefill", &peer).unwrap();

    // 70 tokens, of which D has the first block; P's pages of 8 tokens cover a part of the last block only.
    let imported = 70;
    let order: Vec<u32> = [3, 1, 5, 0, 4, 2].into();
    let blocks: Vec<Lists> = groups.iter().map(|group| lists(group, imported, &order, 1)).collect();
    let exported = tables(&groups, &blocks, true);
    let wanted = tables(&groups, &blocks, false);
    let plan = peer
        .plan(
            Tokens::new(imported.into()),
            &exported,
            &wanted,
            ReadLimits { most_bytes: 30_000, ..ReadLimits::default() },
        )
        .unwrap();
    assert!(plan.reads().len() > groups.len() && !plan.zeroes().is_empty());
    let beyond = BlockTables::new().with("main", BlockTable::from_first(&[BLOCKS]));
    let refused = peer.plan(Tokens::new(1), &beyond, &beyond, ReadLimits::default());
    assert!(matches!(refused, Err(ReadPlanError::OutOfRange { .. })));

    let start = asked;
    let options = |number: usize| ReceiveOptions {
        export: hello.exports[number],
        rank: 0,
        awaited: true,
        terms: Terms::default(),
        asked: Moment::new(Duration::ZERO),
        timeout: Duration::from_secs(20),
    };
    let mut told = Vec::new();
    let perform = |effects: Vec<ReadEffect>, told: &mut Vec<ReadEffect>| {
        for effect in effects {
            if let ReadEffect::Notify(notice) = &effect {
                agent.notify("prefill", notice).unwrap();
            }
            told.push(effect);
        }
    };
    let readings: Vec<Reading> =
        plan.reads().iter().map(|read| agent.read(&prepared, read).unwrap()).collect();
    let (mut receive, begun) = Receive::begin(&plan, options(0), Moment::now(start));
    perform(begun, &mut told);
    for (part, reading) in readings.iter().enumerate() {
        assert_eq!(wait(reading), ReadingState::Landed);
        let landed = receive.handle(Moment::now(start), ReadEvent::Landed { part }).unwrap();
        assert!(!landed.iter().any(|effect| matches!(effect, ReadEffect::Notify(_))) || receive.is_over());
        perform(landed, &mut told);
    }
    assert!(matches!(told[..], [ReadEffect::Notify(_), ReadEffect::Received, ReadEffect::Released]));

    // Of the second export nothing is wanted: P is told, and nobody else.
    let nothing = peer.plan(Tokens::new(1), &exported, &BlockTables::new(), ReadLimits::default()).unwrap();
    told.clear();
    let (_, effects) = Receive::begin(&nothing, options(1), Moment::now(start));
    perform(effects, &mut told);
    assert!(matches!(told[..], [ReadEffect::Notify(_), ReadEffect::Released]));

    drop(readings);
    let zeroes: Vec<_> = plan.zeroes().iter().flat_map(|zero| peer.zero_ranges(zero)).collect();
    drop((prepared, agent));
    let mut ours = ours;
    let base = really(&ours);
    for range in zeroes {
        ours.at(range.address - base + BASE, range.bytes).fill(0);
    }
    producer.finish();
    let theirs = Engine::new(Memory::Host, &groups, &arranged(true), SEED);
    let before = Engine::new(Memory::Host, &groups, &arranged(false), !SEED);
    assert!(ours.bytes == expected(&groups, &theirs, &before, &blocks, imported), "some byte is wrong");
    assert!(ours.bytes != before.bytes);
}

/// D's agent, with its engine's memory and all else that a read of P's first blocks takes.
struct Reader {
    // Dropped in this order.
    agent: Agent,
    _ours: Engine,
    peer: Peer,
    plan: ReadPlan,
}

impl Reader {
    fn of(hello: &Hello) -> Self {
        let groups = groups();
        let ours = Engine::new(Memory::Host, &groups, &arranged(false), !SEED);
        let offer = ours.offer(really(&ours));
        let peer = Peer::pair(&offer, &hello.offer).unwrap();
        let mut agent = Agent::new(&Library::open().unwrap(), AgentOptions::new("decode")).unwrap();
        for range in &offer.regions.memory {
            // SAFETY: 1. The engine's bytes are on the heap and outlive the agent, which is dropped first, and its lists and reads, which
            //    are dropped before the `Reader`.
            // 2. Nothing looks at them.
            unsafe { agent.register(*range) }.unwrap();
        }
        let blocks = BlockTables::new().with("main", BlockTable::from_first(&[0, 1, 2]));
        let plan = peer.plan(Tokens::new(40), &blocks, &blocks, ReadLimits::default()).unwrap();
        Self { agent, _ours: ours, peer, plan }
    }
}

#[test]
fn a_peer_is_forgotten_when_all_who_added_it_have_said_so() {
    let mut producer = Producer::start();
    let hello: Hello = serde_json::from_str(&producer.line()).unwrap();
    let Reader { agent, peer, plan, .. } = &Reader::of(&hello);
    let none = || NixlError::NoPeer { name: "prefill".into() };
    assert_eq!(agent.forget_peer("prefill"), Err(none()));
    // A connection that was lost, and the one after it.
    for _ in 0..2 {
        assert_eq!(agent.add_peer(&hello.metadata).unwrap(), "prefill");
    }
    let prepared = agent.prepare("prefill", peer).unwrap();
    agent.forget_peer("prefill").unwrap();
    assert_eq!(wait(&agent.read(&prepared, &plan.reads()[0]).unwrap()), ReadingState::Landed);
    drop(prepared);
    agent.forget_peer("prefill").unwrap();
    assert_eq!(agent.prepare("prefill", peer).err(), Some(none()));
    assert_eq!(agent.forget_peer("prefill"), Err(none()));
    producer.child.kill().unwrap();
    producer.child.wait().unwrap();
}

#[test]
fn case_23_a_producer_that_is_killed_fails_the_read() {
    let mut producer = Producer::start();
    let hello: Hello = serde_json::from_str(&producer.line()).unwrap();
    let Reader { agent, peer, plan, .. } = &Reader::of(&hello);
    agent.add_peer(&hello.metadata).unwrap();
    let prepared = agent.prepare("prefill", peer).unwrap();
    // It works while P is there.
    assert_eq!(wait(&agent.read(&prepared, &plan.reads()[0]).unwrap()), ReadingState::Landed);
    producer.child.kill().unwrap();
    producer.child.wait().unwrap();
    match agent.read(&prepared, &plan.reads()[0]) {
        Err(error) => assert!(matches!(error, NixlError::Call { .. }), "{error}"),
        Ok(reading) => {
            let state = wait(&reading);
            assert!(matches!(state, ReadingState::Failed { .. }), "{state:?}");
        }
    }
}
