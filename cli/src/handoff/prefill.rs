//! `pagelift prefill`: P fills its pools, exports them, and ends when all exports are free.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pagelift::backends::{AnyBackend, Backend};
use pagelift::geometry::Memory;
use pagelift::quantity::Tokens;
use pagelift_transport::control::{Listen, Listener, nonce};
use pagelift_transport::error::LeaseError;
use pagelift_transport::lease::{Moment, RankEnd};
use pagelift_transport::nixl::AgentOptions;
use pagelift_transport::plan::BlockTables;
use pagelift_transport::producer::{Answer, Ask, Exporter, Freed, Producer, ProducerEvent, ProducerOptions};
use pagelift_transport::transfer::Transfer;
use pagelift_transport::wanted::state_position;

use super::arrange::{self, Arranged};
use super::digests::{Block, digests, rows_of};
use super::error::HandoffError;
use super::facts::{self, Exchanged, RankOf};
use super::fill::fill;
use super::mapped::Mapped;
use super::report::{ExportReport, PrefillReport, ended};
use super::secret::secret;
use super::{agent, ranks};
use crate::args::{self, Parameter};
use crate::digest::Keys;
use crate::manifest::{Draft, Manifest};
use crate::progress::Progress;
use crate::reference::{Model, Piece, Producer as Content, row_place};
use crate::restore::{World, block_tokens};
use crate::setup::{check_memory, opened};
use crate::{Failure, say};

/// `pagelift prefill`.
pub fn command(args: &args::Prefill) -> Result<(), Failure> {
    say::keep_results_apart()?;
    ranks::check(&args.hand, &[args.listen])?;
    let terms = args.terms();
    if !terms.are_sound() {
        return Err(HandoffError::from(LeaseError::Terms { terms }).into());
    }
    if let Some(ready) = &args.ready {
        not_ready(ready)?;
    }
    if args.hand.tp > 1 && args.hand.rank.is_none() {
        return ranks::prefill(args);
    }
    let report = run(args)?;
    if args.json { say::json(&report) } else { report.print() }
}

fn run(args: &args::Prefill) -> Result<PrefillReport, HandoffError> {
    let rank = RankOf { rank: args.hand.rank.unwrap_or(0), ranks: args.hand.tp };
    let asked = Draft::load(&args.manifest).map_err(crate::restore::RestoreError::from)?;
    let asked = asked.assign().map_err(crate::restore::RestoreError::from)?;
    let unreadable = |error| HandoffError::Usage(format!("{}: {error}", args.manifest.display()));
    let text = std::fs::read(&args.manifest).map_err(unreadable)?;
    let arrangement = args.arrangement.unwrap_or(args.hand.seed.wrapping_add(rank.rank.into()));
    let on_device = args.hand.policy == args::Policy::Direct;
    let arranged = Arranged::new((&asked, on_device), &text, &args.manifest, arrangement)?;
    check_memory(arranged.draft.footprint())?;
    let splits = arranged.splits().to_vec();
    let manifest = arranged.draft.assign().map_err(crate::restore::RestoreError::from)?;
    let exchanged = Arranged::exchanged(&splits, &manifest);
    let blocks = block_tokens(&asked);
    let (engine, reason) = opened(args.hand.backend, args.hand.gpu_of(rank.rank))?;
    let job = Job { args, rank, manifest: &manifest, exchanged: &exchanged, block_tokens: blocks };
    let mut report = match engine {
        AnyBackend::Cpu(cpu) => job.run(&cpu),
        AnyBackend::Cuda(gpu) => job.run(&gpu),
    }?;
    report.backend_reason = reason;
    Ok(report)
}

/// All that one rank of P does.
struct Job<'a> {
    args: &'a args::Prefill,
    rank: RankOf,
    manifest: &'a Manifest,
    exchanged: &'a [Exchanged<'a>],
    block_tokens: u64,
}

impl Job<'_> {
    fn run<B: Backend>(&self, backend: &B) -> Result<PrefillReport, HandoffError> {
        let (args, started) = (self.args, Instant::now());
        let progress = Progress::new(args.json);
        let address = ranks::address(args.listen, self.rank.rank)?;
        let secret = secret(args.hand.secret_file.as_deref(), &[address.ip()])?;
        // Before the prompt is computed, which may take a while: D waits until this side says what it has.
        let listener = Listener::bind(address, &secret);
        let listener = listener.map_err(|why| HandoffError::Listen { address, why })?;
        let address = listener.address()?;
        let (mut world, (keys, digest_keys)) =
            World::with(self.manifest, backend, progress, |builder, keys, _| {
                let digests =
                    keys.iter().map(|key| Keys::of(builder, *key)).collect::<Result<Vec<_>, _>>()?;
                Ok((keys.to_vec(), digests))
            })?;
        let seed = ranks::seed(args.hand.seed, self.rank.rank);
        let mut model = Model::new(self.manifest, seed);
        world.fill(&model, progress)?;
        fill(&mut world, &mut model, Content::new(self.manifest, seed), progress)?;
        let mapped = Mapped::of(&world);
        let offer = facts::offer(
            &world,
            &keys,
            self.exchanged,
            &mapped,
            (self.rank, args.hand.gpu_of(self.rank.rank).into()),
        )?;
        let name = format!("prefill-{}-{:016x}", self.rank.rank, random()?);
        let parameters = Parameter::with(&args.hand.plugin, &args.hand.parameters);
        let options = AgentOptions { name: &name, plugin: &args.hand.plugin, parameters: &parameters };
        let regions = offer.regions.memory.len();
        let mut report = agent::with(&mut world, &offer, options, |world, agent, library| {
            let options = ProducerOptions { terms: args.terms(), ..ProducerOptions::new(random()?) };
            let producer = Producer::new(agent, listener, offer.clone(), options)?;
            let (keys, spoils) = (digest_keys.as_slice(), args.inject.is_some());
            let engine = Engine {
                job: self,
                world,
                keys,
                backend,
                exports: Vec::new(),
                asked: 0,
                spoils,
                wanted: BTreeSet::new(),
                computed: BTreeMap::new(),
            };
            if let Some(ready) = &args.ready {
                say_ready(ready, address)?;
            }
            if !args.json {
                say::note(format_args!("listening on {address}"));
            }
            let exports = serve(producer, engine, args, progress)?;
            Ok(PrefillReport::new(self.manifest, self.rank, address, exports, library))
        })?;
        // Nobody has written to what was exported.
        report.bytes_verified = world.verify(&model, "verify", progress)?;
        (report.regions, report.backend, report.seed) = (regions, backend.name(), args.hand.seed);
        report.seconds = started.elapsed().as_secs_f64();
        report.check()?;
        Ok(report)
    }
}

/// Serves until as many exports are free as were asked for.
fn serve<B: Backend>(
    mut producer: Producer<impl Transfer, impl Listen, Vec<u64>>,
    mut engine: Engine<'_, '_, '_, B>,
    args: &args::Prefill,
    progress: Progress,
) -> Result<Vec<ExportReport>, HandoffError> {
    let (start, patience) = (Instant::now(), Duration::from_secs(args.hand.timeout));
    // When an import was last begun, gone on with, or ended; strangers do not count.
    let (mut went_on, mut before) = (start, (0, 0, 0));
    let mut closed = 0;
    let bar = progress.steps("export", args.requests.into());
    let mut said = 0;
    while !producer.is_finished() {
        for event in producer.poll(|| Moment::now(start), &mut engine)? {
            match event {
                ProducerEvent::Closed { why: Some(why), .. } if closed < MOST_CLOSED => {
                    closed += 1;
                    say::note(format_args!("pagelift: a connection was closed: {why}"));
                }
                ProducerEvent::Unreached { why } => {
                    say::note(format_args!("pagelift: no connection can be taken now: {why}"));
                }
                _ => {}
            }
        }
        engine.compute();
        let counters = producer.counters().0;
        let now = (counters.granted, counters.freed, counters.heartbeats);
        if now != before {
            (went_on, before) = (Instant::now(), now);
        }
        let freed = u32::try_from(engine.exports.len()).unwrap_or(u32::MAX);
        bar.advance(freed.saturating_sub(said).into());
        said = freed;
        if freed >= args.requests {
            producer.stop();
        } else if went_on.elapsed() >= patience {
            let (held, requests) = (producer.held(), args.requests);
            return Err(HandoffError::Late(format!(
                "nobody has imported anything for {} s: {freed} of {requests} exports are free and {held} are held; --timeout says \
                 how long to wait",
                args.hand.timeout
            )));
        }
        std::thread::sleep(POLL);
    }
    Ok(engine.exports)
}

/// The most connections of which is said why they were closed: strangers may come as often as they like.
const MOST_CLOSED: u32 = 100;

/// How often both ends look.
pub const POLL: Duration = Duration::from_micros(200);

/// P's engine: one prompt, as often as it is asked for.
struct Engine<'e, 'm, 'a, B> {
    job: &'e Job<'a>,
    world: &'e mut World<'m>,
    keys: &'e [Keys],
    backend: &'e B,
    exports: Vec<ExportReport>,
    asked: u32,
    /// Whether a byte changes after its digest was taken.
    spoils: bool,
    /// Imports of so many tokens are waited for, ...
    wanted: BTreeSet<u64>,
    /// ... and the blocks of these are known, with their digests.
    computed: BTreeMap<u64, Result<Exported, String>>,
}

/// The blocks of an import, with their digests.
type Exported = (BlockTables, Vec<u64>);

impl<B: Backend> Engine<'_, '_, '_, B> {
    /// Works out what is waited for. D says meanwhile that it waits, and is heard after this: so its lease counts from then.
    fn compute(&mut self) {
        for imported in std::mem::take(&mut self.wanted) {
            let exported = self.tables(imported).map_err(|error| error.to_string());
            self.computed.insert(imported, exported);
        }
    }

    fn tables(&mut self, imported: u64) -> Result<Exported, HandoffError> {
        let state = state_position(Tokens::new(imported), Tokens::new(self.job.block_tokens));
        let mut tables = Vec::new();
        for exchanged in self.job.exchanged {
            tables.push((exchanged, arrange::table(exchanged, imported, state)));
        }
        let blocks: Vec<Block<'_>> = tables
            .iter()
            .flat_map(|(exchanged, (table, pages))| {
                table.iter().zip(pages).map(|((position, _), pages)| Block {
                    group: exchanged.group.index,
                    memory: Memory::Device,
                    pages,
                    rows: rows_of(exchanged, position, imported),
                })
            })
            .collect();
        let numbers = digests(self.world, self.keys, self.backend, &blocks)?;
        let mut rest = numbers.as_slice();
        let mut all = BlockTables::new();
        for (exchanged, (table, pages)) in tables {
            let (own, after) = rest.split_at_checked(pages.len()).unwrap_or((rest, &[]));
            rest = after;
            all = all.with(&exchanged.group.name, table.with_digests(own.to_vec()));
        }
        Ok((all, numbers))
    }
}

impl<B> Engine<'_, '_, '_, B> {
    /// Changes a byte of what is exported, where that was asked for. Nobody reads it yet.
    fn spoil(&mut self) -> Result<(), pagelift::Error> {
        let spoils = std::mem::take(&mut self.spoils);
        let Some(Exchanged { group, side, .. }) = self.job.exchanged.first().filter(|_| spoils) else {
            return Ok(());
        };
        let Some(block) = side.blocks.first() else { return Ok(()) };
        let (place, mut byte) = (row_place(group, side, 0, *block, 0, 0), [0]);
        self.world.read(&side.pool, place, &mut byte)?;
        let [byte] = byte;
        let piece = Piece { pool: &side.pool, extent: place.extent, offset: place.offset, bytes: &[!byte] };
        self.world.put(piece)
    }
}

impl<B: Backend> Exporter for Engine<'_, '_, '_, B> {
    type Blocks = Vec<u64>;

    fn export(&mut self, ask: &Ask) -> Answer<Vec<u64>> {
        let (found, most) = (ask.imported.get(), self.job.manifest.span().imported_tokens);
        if found > most {
            return Answer::Refuse { reason: format!("{found} tokens are wanted, and {most} are there") };
        }
        if self.asked >= self.job.args.requests {
            return Answer::Refuse { reason: "all requests of this run have been exported".into() };
        }
        match self.computed.get(&found).cloned() {
            None => {
                self.wanted.insert(found);
                Answer::NotYet
            }
            Some(Ok((tables, blocks))) => {
                self.asked += 1;
                match self.spoil() {
                    Ok(()) => Answer::Export { tables, blocks },
                    Err(error) => Answer::Refuse { reason: error.to_string() },
                }
            }
            Some(Err(reason)) => Answer::Refuse { reason },
        }
    }

    fn free(&mut self, freed: Freed<Vec<u64>>) {
        let Freed { ask, blocks, end, .. } = freed;
        self.exports.push(ExportReport {
            request: ask.request,
            imported_tokens: ask.imported.get(),
            digests: blocks.len(),
            end: ended(end),
            read: end == RankEnd::Heard(pagelift_transport::notice::ReadOutcome::Read),
        });
    }
}

/// Takes away what an earlier run has said: whoever waits for the file would believe it.
pub fn not_ready(path: &Path) -> Result<(), HandoffError> {
    let unusable = |why: String| HandoffError::Usage(format!("--ready {}: {why}", path.display()));
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        return Err(unusable(format!("there is no folder {}", folder.display())));
    }
    let removed = match std::fs::symlink_metadata(path) {
        // Nobody means a device or a folder to be replaced.
        Ok(there) if !there.is_file() => return Err(unusable("it is there, and is no file".into())),
        Ok(_) => std::fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(unusable(error.to_string())),
        _ => Ok(()),
    }
}

/// Says to whoever waits for the file where this rank listens.
pub fn say_ready(path: &Path, address: impl std::fmt::Display) -> Result<(), HandoffError> {
    let draft = beside(path, "draft");
    let written = std::fs::write(&draft, format!("{address}\n")).and_then(|()| std::fs::rename(&draft, path));
    written.map_err(|error| HandoffError::Usage(format!("{}: cannot be written: {error}", path.display())))
}

/// A file beside another.
pub fn beside(path: &Path, what: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{what}"));
    name.into()
}

/// A number that no other process has.
pub fn random() -> Result<u64, HandoffError> {
    let bytes = nonce().map_err(pagelift_transport::error::ControlError::from)?;
    Ok(bytes.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte)))
}
