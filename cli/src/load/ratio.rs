//! How fast whole imports are, beside one large read of as many bytes, and what of that is this library's own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pagelift::backends::Backend;
use pagelift::geometry::{GroupKey, Paged};
use pagelift::id::{HostBlockId, PageId};
use pagelift::import::{Import, ImportGroup, PromptSpan, Recurrence};
use pagelift::launcher::{Launcher, LauncherOptions, TicketState};
use pagelift::memory::Registry;
use pagelift::plan::{PlanCapacity, RestorePlan, TailRows};
use pagelift::quantity::Tokens;
use pagelift_transport::nixl::Prepared;
use pagelift_transport::pairing::Peer;
use pagelift_transport::plan::{BlockTable, BlockTables, ReadLimits, ReadPlan};
use pagelift_transport::transfer::ReadingState;
use serde::Serialize;

use super::error::LoadError;
use super::family::{Family, MAIN};
use super::pair::{Pair, Producing};
use super::pool::{Content, Order};
use super::producer::NAME;
use super::side::{Side, Spec, WHOLE};
use super::timed::Timed;
use crate::args;
use crate::bench::measure::Spread;

/// Tokens of the import whose own cost is looked at.
const TOKENS: u64 = 1152;

/// A family's imports.
#[derive(Debug, Serialize)]
pub struct Ratio {
    pub family: &'static str,
    pub words: &'static str,
    pub layers: u32,
    /// Bytes that an import reads.
    pub bytes: u64,
    /// Pieces of it, as the transport is told.
    pub pieces: u64,
    /// Milliseconds of one read of as many bytes that lie together.
    pub whole_milliseconds: Spread,
    /// Milliseconds of an import, from when it is wanted until it has ended.
    pub import_milliseconds: Spread,
    /// Gigabytes (10⁹ bytes) a second of both, at the median.
    pub whole_speed: f64,
    pub import_speed: f64,
    /// How fast the import was beside the large read of its round.
    pub ratio: Spread,
    /// The part of an import's time that NIXL's calls took: over memory of one host, they copy.
    pub calls: Spread,
    /// What the median must be.
    pub bar: Option<f64>,
    /// Microseconds from when all reads had ended until a decode step may start: those of a lift of the last block (planned,
    /// staged, launched, done), or of making what lies in a GPU's memory visible to it. `None` for the host alone.
    pub ready_microseconds: Option<Spread>,
}

/// What an import costs besides reading, after the first: microseconds.
#[derive(Debug, Serialize)]
pub struct Setup {
    pub tokens: u64,
    pub pieces: u64,
    pub imports: u64,
    /// From when D heard P's grant until all reads were begun, without NIXL's calls.
    pub own: Spread,
    /// Of that, the plan: what is read, and by which entries of the lists.
    pub plan: Spread,
    /// NIXL's calls, which make a request and post it.
    pub calls: Spread,
    /// From when the import was wanted until all reads were begun: P was asked in between.
    pub begun: Spread,
}

/// What rounds took.
#[derive(Default)]
struct Rounds {
    wholes: Vec<f64>,
    imports: Vec<f64>,
    ratios: Vec<f64>,
    calls: Vec<f64>,
    readies: Vec<f64>,
    /// Bytes and pieces of an import.
    bytes: u64,
    pieces: u64,
    setup: Option<Setup>,
}

/// Measures one family, between several pairs of processes: how fast memory is depends on which of the machine's pages a process
/// was given.
pub fn measure<B: Backend>(
    backend: &B,
    args: &args::Load,
    family: &'static Family,
) -> Result<(Ratio, Option<Setup>), LoadError> {
    let mut rounds = Rounds::default();
    for _ in 0..args.pairs {
        between_two(backend, args, family, &mut rounds)?;
    }
    let Rounds { wholes, imports, ratios, calls, readies, bytes, pieces, setup } = rounds;
    let (whole_milliseconds, import_milliseconds) = (Spread::of(wholes), Spread::of(imports));
    let speed = |milliseconds: Spread| bytes as f64 / milliseconds.median / 1e6;
    let ratio = Ratio {
        family: family.name,
        words: family.words,
        layers: family.layers,
        bytes,
        pieces,
        whole_speed: speed(whole_milliseconds),
        import_speed: speed(import_milliseconds),
        whole_milliseconds,
        import_milliseconds,
        ratio: Spread::of(ratios),
        calls: Spread::of(calls),
        bar: family.bar,
        ready_microseconds: (!readies.is_empty()).then(|| Spread::of(readies)),
    };
    Ok((ratio, setup))
}

/// Measures rounds between two processes.
fn between_two<B: Backend>(
    backend: &B,
    args: &args::Load,
    family: &'static Family,
    rounds: &mut Rounds,
) -> Result<(), LoadError> {
    let layout = family.layout().map_err(pagelift::Error::from)?;
    let (block, block_tokens) =
        (layout.page_bytes().saturating_mul(family.layers.into()), u64::from(layout.block_tokens()));
    let mut count = (args.mebibytes << 20).div_ceil(block).max(1);
    if args.round_down && block_tokens > 1 {
        count = count.max(2);
    }
    // The last block has a part of its tokens.
    let tokens = count.saturating_mul(block_tokens).saturating_sub(block_tokens / 2).max(1);
    let (count, tokens) = match args.round_down && block_tokens > 1 {
        true => (count.saturating_sub(1), tokens / block_tokens * block_tokens),
        false => (count, tokens),
    };
    let most = count.max(TOKENS.div_ceil(block_tokens).min(if family.name == MAIN { u64::MAX } else { 0 }));
    let number = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    let spec = Spec {
        family: family.name.into(),
        blocks: number(most.saturating_mul(2)),
        whole: number(count.saturating_mul(block)),
        place: args.from,
        seed: args.seed,
        parameters: args.parameters.clone(),
        same: true,
    };
    let producing = Producing::start(&spec)?;
    let own = Spec { place: args.into, ..spec.clone() };
    let mut side = Side::new(backend, &own, Order::Layers)?;
    side.fill(|_| Content::none(spec.seed))?;
    let mut agent = own.agent("decode")?;
    side.register(&mut agent)?;
    let transfer = Timed::new(agent);
    let mut pair = Pair::new(&mut side, &transfer, &producing)?;
    let whole = Whole::new(&pair)?;
    let mut lifter = pair.side.paged.map(|key| Lifter::new(backend, pair.side, key)).transpose()?;
    // Every second block, from the end: no two are neighbours.
    let blocks: Vec<u32> = (0..number(count)).rev().map(|block| block.saturating_mul(2)).collect();

    for round in 0..=args.rounds {
        let mut large = Duration::ZERO;
        if round % 2 == 0 {
            large = whole.read(&transfer)?;
        }
        let (times, theirs) = pair.import(tokens, &blocks)?;
        if round % 2 == 1 {
            large = whole.read(&transfer)?;
        }
        let lifted =
            lifter.as_mut().map(|lifter| lifter.lift(&mut pair.side.memory, tokens, &blocks)).transpose()?;
        let ready = lifted.or(pair.side.settled);
        // The first round warms up, and the first import of all is compared.
        if round == 0 {
            compare(pair.side, &spec, pair.next.saturating_sub(1), &blocks, &theirs)?;
            continue;
        }
        let (large, import) = (large.as_secs_f64(), times.ended.as_secs_f64());
        rounds.wholes.push(large * 1e3);
        rounds.imports.push(import * 1e3);
        rounds.ratios.push(large / import);
        rounds.calls.push(times.spent.as_secs_f64() / import);
        rounds.readies.extend(ready.map(|time| time.as_secs_f64() * 1e6));
    }
    if family.name == MAIN && !args.round_down && rounds.setup.is_none() {
        rounds.setup = Some(setup(&mut pair, &whole.peer, args.imports, block_tokens)?);
    }
    let plan = whole.plan_of(&pair, tokens, &blocks)?;
    (rounds.bytes, rounds.pieces) = (plan.bytes(), count_pieces(&plan));
    pair.close();
    drop((pair, whole));
    let exported = producing.finish()?;
    if exported.held > 0 || exported.freed != exported.granted {
        return Err(LoadError::Left(format!("the producer holds {} exports", exported.held)));
    }
    Ok(())
}

/// One large read of as many bytes, past everything that is ours.
struct Whole {
    // Dropped in this order.
    lists: Prepared,
    peer: Peer,
    plan: ReadPlan,
}

impl Whole {
    fn new(pair: &Pair<'_, '_>) -> Result<Self, LoadError> {
        let theirs = pair.consumer.producer().ok_or(LoadError::Late("the producer has sent no offer"))?;
        let peer = Peer::pair(&pair.side.offer, theirs)?;
        let lists = pair.transfer.agent.prepare(NAME, &peer)?;
        let tables = BlockTables::new().with(WHOLE, BlockTable::from_first(&[0]));
        let plan = peer.plan(Tokens::new(1), &tables, &tables, ReadLimits::default())?;
        Ok(Self { lists, peer, plan })
    }

    /// What an import into these blocks reads. Which of P's blocks does not matter here.
    fn plan_of(&self, pair: &Pair<'_, '_>, tokens: u64, blocks: &[u32]) -> Result<ReadPlan, LoadError> {
        let tables = BlockTables::new().with(pair.side.cache.name, BlockTable::from_first(blocks));
        Ok(self.peer.plan(Tokens::new(tokens), &tables, &tables, ReadLimits::default())?)
    }

    fn read(&self, transfer: &Timed) -> Result<Duration, LoadError> {
        let begun = Instant::now();
        for read in self.plan.reads() {
            let reading = transfer.agent.read(&self.lists, read)?;
            loop {
                match reading.state() {
                    ReadingState::InFlight => std::thread::yield_now(),
                    ReadingState::Landed => break,
                    ReadingState::Failed { reason } => return Err(LoadError::Read(reason)),
                }
            }
        }
        Ok(begun.elapsed())
    }
}

fn count_pieces(plan: &ReadPlan) -> u64 {
    plan.reads().iter().map(|read| read.remote().len() as u64).sum()
}

/// Imports one after the other, and looks at the turn that begins their reads.
fn setup(pair: &mut Pair<'_, '_>, peer: &Peer, imports: u32, block_tokens: u64) -> Result<Setup, LoadError> {
    let count = u32::try_from(TOKENS.div_ceil(block_tokens)).unwrap_or(u32::MAX);
    let blocks: Vec<u32> = (0..count).rev().map(|block| block.saturating_mul(2)).collect();
    let tables = BlockTables::new().with(pair.side.cache.name, BlockTable::from_first(&blocks));
    let (mut own, mut plan, mut calls, mut begun) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut pieces = 0;
    let microseconds = |time: Duration| time.as_secs_f64() * 1e6;
    for number in 0..=imports {
        let (times, theirs) = pair.import(TOKENS, &blocks)?;
        let exported = BlockTables::new().with(pair.side.cache.name, BlockTable::from_first(&theirs));
        let planning = Instant::now();
        let planned = peer.plan(Tokens::new(TOKENS), &exported, &tables, ReadLimits::default())?;
        let planning = planning.elapsed();
        pieces = count_pieces(&planned);
        // What the first import meets for the first time is another matter.
        if number > 0 {
            own.push(microseconds(times.turn.saturating_sub(times.calls)));
            plan.push(microseconds(planning));
            calls.push(microseconds(times.calls));
            begun.push(microseconds(times.begun));
        }
    }
    Ok(Setup {
        tokens: TOKENS,
        pieces,
        imports: imports.into(),
        own: Spread::of(own),
        plan: Spread::of(plan),
        calls: Spread::of(calls),
        begun: Spread::of(begun),
    })
}

/// Compares every byte of an import, with nothing in flight.
fn compare(
    side: &Side<'_>,
    spec: &Spec,
    request: u64,
    blocks: &[u32],
    theirs: &[u32],
) -> Result<(), LoadError> {
    let (mut page, mut found) = (Vec::new(), Vec::new());
    for (block, theirs) in blocks.iter().zip(theirs) {
        let content = Content::of(spec.seed, *theirs);
        if let Some(layer) = side.cache.wrong(&side.memory, *block, content, (&mut page, &mut found))? {
            return Err(LoadError::WrongByte { request, layer, block: *block, theirs: *theirs });
        }
    }
    Ok(())
}

/// Lifts the last block of an import into a page.
struct Lifter<'b, B: Backend> {
    plan: RestorePlan,
    launcher: Launcher<&'b B, RestorePlan>,
    key: GroupKey<Paged>,
}

impl<'b, B: Backend> Lifter<'b, B> {
    fn new(backend: &'b B, side: &Side<'_>, key: GroupKey<Paged>) -> Result<Self, LoadError> {
        let mut plan = RestorePlan::new(Arc::clone(&side.geometry), PlanCapacity::default())
            .map_err(pagelift::Error::from)?;
        let launcher = Launcher::bind(backend, &side.memory, &mut plan, LauncherOptions::default())?;
        Ok(Self { plan, launcher, key })
    }

    /// From when the reads have ended until the page is there.
    fn lift(&mut self, memory: &mut Registry, tokens: u64, blocks: &[u32]) -> Result<Duration, LoadError> {
        let blocks: Vec<HostBlockId> = blocks.iter().copied().map(HostBlockId::new).collect();
        let begun = Instant::now();
        self.plan.clear();
        let span = PromptSpan::new(Tokens::new(tokens), Recurrence::None).map_err(pagelift::Error::from)?;
        let pages = [PageId::new(0)];
        let groups = [ImportGroup::new(self.key, &blocks, &pages)];
        let import = Import { span, groups: &groups };
        self.plan.lift(&import, TailRows::Whole).map_err(pagelift::Error::from)?;
        let ticket = self.launcher.stage(memory, &mut self.plan)?;
        self.launcher.launch(memory)?;
        self.launcher.wait()?;
        match self.launcher.state(ticket) {
            TicketState::Done(_) => Ok(begun.elapsed()),
            _ => Err(LoadError::Late("the lift has not ended")),
        }
    }
}
