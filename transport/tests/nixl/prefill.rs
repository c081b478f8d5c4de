//! P: it exports, and frees what was read.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use pagelift_planner::geometry::Memory;
use pagelift_transport::lease::{Exports, Moment, RankEnd, Terms};
use pagelift_transport::nixl::{Agent, AgentOptions, Library};
use pagelift_transport::notice::ReadOutcome;
use pagelift_transport::transfer::Heard;

use crate::world::Engine;
use crate::{Hello, ROLE, arranged, groups, really};

/// P's bytes, which D's test knows too.
pub const SEED: u64 = 1;

/// Exports of one run: D reads one, and wants nothing of the other.
pub const EXPORTS: usize = 2;

/// What [`ROLE`] says of it.
pub const EXPORTER: &str = "exporter";

/// Not a test of its own: it is P where D has started it, and nothing otherwise.
#[test]
fn producer() {
    if std::env::var(ROLE).as_deref() != Ok(EXPORTER) {
        return;
    }
    let start = Instant::now();
    let engine = Engine::new(Memory::Host, &groups(), &arranged(true), SEED);
    let mut agent = Agent::new(&Library::open().unwrap(), AgentOptions::new("prefill")).unwrap();
    let offer = engine.offer(really(&engine));
    for range in &offer.regions.memory {
        // SAFETY: 1. The engine's bytes are on the heap and outlive the agent, which is dropped before the engine, and prepares nothing.
        // 2. From here on nothing looks at them until the agent is gone.
        unsafe { agent.register(*range) }.unwrap();
    }
    let mut exports = Exports::new(std::process::id().into(), Terms::default(), EXPORTS).unwrap();
    let ids = (0..EXPORTS).map(|number| exports.grant(Moment::now(start), 0..1, number).unwrap()).collect();
    let hello = Hello { offer, metadata: agent.metadata().unwrap(), exports: ids };
    say(&hello);
    let mut told = 0;
    while !exports.is_empty() {
        assert!(start.elapsed() < Duration::from_secs(60), "D is silent");
        for Heard { peer, notice } in agent.heard().unwrap() {
            assert_eq!(peer, "decode");
            exports.notice(Moment::now(start), &notice.unwrap()).unwrap();
            told += 1;
        }
        while let Some(ended) = exports.ended(Moment::now(start)) {
            assert_eq!(ended.ranks, [RankEnd::Heard(ReadOutcome::Read)]);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    // D closes our input when it has looked at its bytes: any notice too many would be here by then.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    told += agent.heard().unwrap().len();
    assert_eq!((told, exports.counters().duplicate), (EXPORTS, 0));
    drop(agent);
    assert!(!engine.bytes.is_empty());
    say(&"freed");
}

pub fn say(value: &impl serde::Serialize) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{LINE}{}", serde_json::to_string(value).unwrap()).unwrap();
    out.flush().unwrap();
}

/// What P's own lines begin with, among those of the test harness.
pub const LINE: &str = "P: ";
