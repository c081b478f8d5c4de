//! P: a process of its own, which exports whatever it is asked for until its standard input ends.

use std::io::{BufRead, Read};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pagelift::backends::Backend;
use pagelift_transport::control::{Listener, Secret};
use pagelift_transport::lease::{Moment, RankEnd};
use pagelift_transport::notice::ReadOutcome;
use pagelift_transport::plan::{BlockTable, BlockTables};
use pagelift_transport::producer::{Answer, Ask, Exporter, Freed, Producer, ProducerOptions};
use serde::{Deserialize, Serialize};

use super::error::LoadError;
use super::pool::{Content, Order};
use super::side::{Side, Spec, WHOLE};
use crate::manifest::SplitMix64;

/// What P's agent is called.
pub const NAME: &str = "prefill";

/// The most exports at one time.
const MOST_EXPORTS: usize = 1 << 16;

/// What P says first.
#[derive(Debug, Serialize, Deserialize)]
pub struct Hello {
    pub address: SocketAddr,
}

/// What P says at its end.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Exported {
    /// Exports granted.
    pub granted: u64,
    /// Exports freed.
    pub freed: u64,
    /// Those of them whose blocks were read, by D's word.
    pub read: u64,
    /// Those that D has given up.
    pub given_up: u64,
    /// Those that D said nothing of in time.
    pub expired: u64,
    /// Exports that are held still.
    pub held: u64,
}

/// Exports blocks that follow from the request's number.
struct Engine<'s> {
    spec: &'s Spec,
    block_tokens: u32,
    exported: Exported,
}

impl Exporter for Engine<'_> {
    type Blocks = ();

    fn export(&mut self, ask: &Ask) -> Answer<()> {
        let blocks = ask.imported.get().div_ceil(u64::from(self.block_tokens).max(1));
        match picked(self.spec, ask.request, blocks) {
            Some(picked) => {
                let whole = BlockTable::from_first(&[0]);
                let tables = BlockTables::new().with(&self.spec.family, BlockTable::from_first(&picked));
                Answer::Export { tables: tables.with(WHOLE, whole), blocks: () }
            }
            None => Answer::Refuse { reason: format!("there are {} blocks", self.spec.blocks) },
        }
    }

    fn free(&mut self, freed: Freed<()>) {
        let exported = &mut self.exported;
        exported.freed = exported.freed.saturating_add(1);
        let of = match freed.end {
            RankEnd::Heard(ReadOutcome::Read) => &mut exported.read,
            RankEnd::Heard(_) => &mut exported.given_up,
            _ => &mut exported.expired,
        };
        *of = of.saturating_add(1);
    }
}

/// Different blocks, in an order that follows from the request, where that matters. `None` where there are not as many.
fn picked(spec: &Spec, request: u64, blocks: u64) -> Option<Vec<u32>> {
    let mut all: Vec<u32> = (0..spec.blocks).collect();
    let blocks = usize::try_from(blocks).ok().filter(|blocks| *blocks <= all.len())?;
    let mut random = SplitMix64::new(if spec.same { spec.seed } else { spec.seed ^ request });
    for index in 0..blocks {
        let other = index.saturating_add(random.below(all.len().saturating_sub(index)));
        all.swap(index, other);
    }
    all.truncate(blocks);
    Some(all)
}

/// Fills the memory of P, listens, and serves until standard input ends.
pub fn serve<B: Backend>(backend: &B, spec: &Spec) -> Result<(), LoadError> {
    let stdin = LoadError::system("standard input cannot be read");
    let mut secret = String::new();
    std::io::stdin().lock().read_line(&mut secret).map_err(stdin)?;
    let secret = Secret::new(secret.trim().as_bytes())?;
    let mut side = Side::new(backend, spec, Order::Layers)?;
    side.fill(|block| Content::of(spec.seed, block))?;
    let mut agent = spec.agent(NAME)?;
    side.register(&mut agent)?;
    let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), &secret)?;
    let address = listener.address()?;
    let mut options = ProducerOptions::new(std::process::id().into());
    (options.most_exports, options.most_asked) = (MOST_EXPORTS, MOST_EXPORTS);
    let mut producer = Producer::new(&agent, listener, side.offer.clone(), options)?;
    say(&Hello { address })?;
    let over = Arc::new(AtomicBool::new(false));
    let heard = Arc::clone(&over);
    // It ends with this process at the latest.
    std::thread::spawn(move || {
        // An error is an end too.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        heard.store(true, Ordering::Relaxed);
    });
    let block_tokens = side.cache.layout.block_tokens();
    let mut engine = Engine { spec, block_tokens, exported: Exported::default() };
    let (start, mut busy) = (Instant::now(), Instant::now());
    while !producer.is_finished() {
        if over.load(Ordering::Relaxed) {
            producer.stop();
        }
        let before = producer.counters().0;
        producer.poll(|| Moment::now(start), &mut engine)?;
        if producer.counters().0 != before {
            busy = Instant::now();
        }
        // D waits for an answer to each import, and the processors may be few.
        match busy.elapsed() < Duration::from_millis(5) {
            true => std::thread::yield_now(),
            false => std::thread::sleep(Duration::from_micros(50)),
        }
    }
    let mut exported = engine.exported;
    exported.granted = producer.counters().0.granted;
    exported.held = producer.held() as u64;
    drop(producer);
    drop(agent);
    say(&exported)
}

/// Says a line of JSON to D.
fn say(line: &impl Serialize) -> Result<(), LoadError> {
    let text = serde_json::to_string(line).unwrap_or_default();
    crate::say::line(&text).map_err(LoadError::system("D does not listen"))
}
