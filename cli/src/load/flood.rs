//! Many imports in flight for a while: sizes at random, some given up, some compared, and what both processes hold meanwhile.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pagelift::backends::Backend;
use pagelift_transport::consumer::{ConsumerEvent, End, Failure};
use pagelift_transport::receive::Ending;
use serde::Serialize;

use super::error::LoadError;
use super::family::Family;
use super::pair::{Pair, Producing, blocks_of};
use super::pool::{Content, Order};
use super::producer::Exported;
use super::side::{Side, Spec};
use super::timed::Timed;
use super::watch::Held;
use crate::args;
use crate::manifest::SplitMix64;

/// The most blocks of an import.
const MOST_BLOCKS: u64 = 4;

/// How long the last imports may take when nothing more is begun.
const DRAIN: Duration = Duration::from_secs(120);

/// What became of it.
#[derive(Debug, Serialize)]
pub struct Flood {
    pub family: &'static str,
    pub in_flight: u32,
    pub aborts_percent: u32,
    pub seconds: f64,
    /// Imports begun.
    pub begun: u64,
    /// Those that landed.
    pub landed: u64,
    /// Those that were given up before.
    pub aborted: u64,
    /// Bytes of those that landed.
    pub bytes: u64,
    /// Blocks of them that were compared, every byte.
    pub blocks_compared: u64,
    pub imports_per_second: f64,
    /// Gigabytes (10⁹ bytes) a second of what landed.
    pub gigabytes_per_second: f64,
    /// What D and P held: the most of the first third of the samples, and of the last.
    pub decode: Growth,
    pub prefill: Growth,
    /// What P counted.
    pub exported: Exported,
    /// One for each second.
    pub samples: Vec<Sample>,
}

/// What a process held early, and late.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Growth {
    pub early: Held,
    pub late: Held,
}

/// One second.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sample {
    /// Seconds from the beginning to its end.
    pub at: f64,
    /// Imports that landed in it.
    pub landed: u64,
    pub bytes: u64,
    pub decode: Held,
    pub prefill: Held,
}

/// An import in flight.
struct Flight {
    blocks: Vec<u32>,
    theirs: Vec<u32>,
    /// Which of its blocks is compared.
    compared: Option<usize>,
    /// When it is given up.
    abort: Option<Instant>,
    aborted: bool,
}

/// Runs it.
pub fn run<B: Backend>(backend: &B, args: &args::Load, family: &'static Family) -> Result<Flood, LoadError> {
    let blocks = args.in_flight.saturating_mul(3);
    let spec = Spec {
        family: family.name.into(),
        blocks: args.in_flight.max(8),
        whole: 4096,
        place: args.from,
        seed: args.seed,
        parameters: args.parameters.clone(),
        same: false,
    };
    let producing = Producing::start(&spec)?;
    let own = Spec { place: args.into, blocks, ..spec.clone() };
    let mut side = Side::new(backend, &own, Order::Blocks)?;
    side.fill(|_| Content::none(spec.seed))?;
    let mut agent = own.agent("decode")?;
    side.register(&mut agent)?;
    let transfer = Timed::new(agent);
    let pair = Pair::new(&mut side, &transfer, &producing)?;
    let mut run = Run::new(pair, &spec, args, (0..blocks).collect());
    let samples = run.until(Duration::from_secs(args.seconds), producing.id())?;
    let seconds = run.started.elapsed().as_secs_f64();
    run.drain()?;
    let Run { mut pair, free, flood: counted, .. } = run;
    if free.len() != blocks as usize || pair.consumer.in_flight() > 0 {
        return Err(LoadError::Left(format!("{} of {blocks} blocks are free", free.len())));
    }
    pair.close();
    drop(pair);
    let exported = producing.finish()?;
    if exported.held > 0 || exported.freed != exported.granted || exported.expired > 0 {
        return Err(LoadError::Left(format!("the producer has counted {exported:?}")));
    }
    let during: Counted = samples.iter().fold(Counted::default(), |mut all, sample| {
        all.landed += sample.landed;
        all.bytes += sample.bytes;
        all
    });
    Ok(Flood {
        family: family.name,
        in_flight: args.in_flight,
        aborts_percent: args.aborts,
        seconds,
        begun: counted.begun,
        landed: counted.landed,
        aborted: counted.aborted,
        bytes: counted.bytes,
        blocks_compared: counted.compared,
        imports_per_second: during.landed as f64 / seconds,
        gigabytes_per_second: during.bytes as f64 / seconds / 1e9,
        decode: growth(&samples, |sample| sample.decode),
        prefill: growth(&samples, |sample| sample.prefill),
        exported,
        samples,
    })
}

/// The most of the first third, and of the last.
fn growth(samples: &[Sample], of: impl Fn(&Sample) -> Held) -> Growth {
    let third = samples.len().div_ceil(3);
    let most = |samples: &[Sample]| Held {
        resident_bytes: samples.iter().map(|one| of(one).resident_bytes).max().unwrap_or(0),
        files: samples.iter().map(|one| of(one).files).max().unwrap_or(0),
    };
    let late = samples.len().saturating_sub(third);
    Growth { early: most(&samples[..third]), late: most(&samples[late..]) }
}

/// What was counted so far.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    begun: u64,
    landed: u64,
    aborted: u64,
    bytes: u64,
    compared: u64,
}

struct Run<'a, 'b> {
    pair: Pair<'a, 'b>,
    spec: &'a Spec,
    args: &'a args::Load,
    random: SplitMix64,
    /// D's blocks that no import writes.
    free: Vec<u32>,
    flights: BTreeMap<u64, Flight>,
    flood: Counted,
    started: Instant,
    /// A page as it must be, and as it is.
    pages: (Vec<u8>, Vec<u8>),
}

impl<'a, 'b> Run<'a, 'b> {
    fn new(pair: Pair<'a, 'b>, spec: &'a Spec, args: &'a args::Load, free: Vec<u32>) -> Self {
        let random = SplitMix64::new(spec.seed);
        let (flights, flood, pages) = (BTreeMap::new(), Counted::default(), (Vec::new(), Vec::new()));
        Self { pair, spec, args, random, free, flights, flood, started: Instant::now(), pages }
    }

    /// Keeps imports in flight for so long.
    fn until(&mut self, time: Duration, producer: u32) -> Result<Vec<Sample>, LoadError> {
        let (mut samples, mut before) = (Vec::new(), Counted::default());
        let mut next = Duration::from_secs(1);
        while self.started.elapsed() < time {
            while self.flights.len() < self.args.in_flight as usize && self.begin()? {}
            self.turn()?;
            let at = self.started.elapsed();
            if at >= next {
                next = next.saturating_add(Duration::from_secs(1));
                samples.push(Sample {
                    at: at.as_secs_f64(),
                    landed: self.flood.landed - before.landed,
                    bytes: self.flood.bytes - before.bytes,
                    decode: Held::by(std::process::id()),
                    prefill: Held::by(producer),
                });
                before = self.flood;
            }
        }
        Ok(samples)
    }

    /// Waits for what is in flight.
    fn drain(&mut self) -> Result<(), LoadError> {
        let since = Instant::now();
        while !self.flights.is_empty() {
            if since.elapsed() > DRAIN {
                return Err(LoadError::Late("imports in flight do not end"));
            }
            self.turn()?;
        }
        Ok(())
    }

    /// Begins an import, if there are blocks for it.
    fn begin(&mut self) -> Result<bool, LoadError> {
        let count = 1 + self.random.below(MOST_BLOCKS as usize);
        if self.free.len() < count {
            return Ok(false);
        }
        let mut blocks = Vec::with_capacity(count);
        for _ in 0..count {
            let index = self.random.below(self.free.len());
            blocks.push(self.free.swap_remove(index));
        }
        let block_tokens = u64::from(self.pair.side.cache.layout.block_tokens());
        // The last block has some of its tokens.
        let left = self.random.below(block_tokens as usize) as u64;
        let mut tokens = (count as u64).saturating_mul(block_tokens).saturating_sub(left);
        if self.args.round_down && count > 1 && left > 0 {
            tokens = tokens / block_tokens * block_tokens;
            self.free.extend(blocks.pop());
        }
        let compared =
            (self.random.below(100) < self.args.compare as usize).then(|| self.random.below(blocks.len()));
        if let Some(block) = compared.and_then(|index| blocks.get(index)) {
            // What an earlier import has left there must not be taken for this one's.
            let content = Content::none(self.spec.seed);
            self.pair.side.cache.fill(&mut self.pair.side.memory, *block, content, &mut self.pages.0)?;
        }
        let abort = (self.random.below(100) < self.args.aborts as usize)
            .then(|| Instant::now() + Duration::from_micros(self.random.below(100_000) as u64));
        let request = self.pair.begin(tokens, &blocks)?;
        let flight = Flight { blocks, theirs: Vec::new(), compared, abort, aborted: false };
        self.flights.insert(request, flight);
        self.flood.begun += 1;
        Ok(true)
    }

    /// Goes on with all of them.
    fn turn(&mut self) -> Result<(), LoadError> {
        let now = Instant::now();
        for (request, flight) in &mut self.flights {
            if !flight.aborted && flight.abort.is_some_and(|at| at <= now) {
                flight.aborted = true;
                self.pair.consumer.cancel(*request);
            }
        }
        let events = self.pair.poll()?;
        if events.is_empty() {
            std::thread::yield_now();
        }
        for event in events {
            match event {
                ConsumerEvent::Begun { id, exported, .. } => {
                    if let Some(flight) = self.flights.get_mut(&id) {
                        flight.theirs = blocks_of(&exported, self.pair.side.cache.name);
                    }
                }
                ConsumerEvent::Ended { id, end } => self.ended(id, end)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn ended(&mut self, request: u64, end: End) -> Result<(), LoadError> {
        let Some(flight) = self.flights.remove(&request) else { return Ok(()) };
        match end {
            End::Landed { .. } => {
                self.flood.landed += 1;
                let bytes = self.pair.side.cache.block_bytes();
                self.flood.bytes += bytes * flight.blocks.len() as u64;
                self.compare(request, &flight)?;
            }
            End::Failed {
                why: Failure::Cancelled | Failure::Reads { why: Ending::Cancelled, .. }, ..
            } if flight.aborted => self.flood.aborted += 1,
            End::Failed { why, .. } => return Err(LoadError::Failed { request, why }),
        }
        self.free.extend(flight.blocks);
        Ok(())
    }

    /// Compares one block of an import that has landed.
    fn compare(&mut self, request: u64, flight: &Flight) -> Result<(), LoadError> {
        let Some(index) = flight.compared else { return Ok(()) };
        let (Some(block), Some(theirs)) = (flight.blocks.get(index), flight.theirs.get(index)) else {
            return Err(LoadError::Late("an import has landed and has not begun"));
        };
        let (content, side) = (Content::of(self.spec.seed, *theirs), &self.pair.side);
        let pages = (&mut self.pages.0, &mut self.pages.1);
        match side.cache.wrong(&side.memory, *block, content, pages)? {
            Some(layer) => Err(LoadError::WrongByte { request, layer, block: *block, theirs: *theirs }),
            None => {
                self.flood.compared += 1;
                Ok(())
            }
        }
    }
}
