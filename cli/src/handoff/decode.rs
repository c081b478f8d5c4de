//! `pagelift decode`: D is the engine of `restore`, and its blocks come from P.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use pagelift::backends::{AnyBackend, Backend};
use pagelift::import::Policy;
use pagelift_transport::consumer::{Consumer, ConsumerOptions};
use pagelift_transport::control::{Link, Secret, connect};
use pagelift_transport::lease::Moment;
use pagelift_transport::nixl::AgentOptions;
use pagelift_transport::plan::{BlockTables, ReadLimits};

use super::error::HandoffError;
use super::facts::{self, Exchanged, RankOf};
use super::mapped::{Landing, Mapped};
use super::prefill::random;
use super::reads::{Came, PATIENCE, Reads};
use super::report::DecodeReport;
use super::secret::secret;
use super::{agent, arrange, ranks};
use crate::args::{self, Parameter};
use crate::digest::Keys;
use crate::manifest::{Draft, Manifest};
use crate::progress::Progress;
use crate::reference::{Model, ReferenceError};
use crate::restore::{Frames, Options, RestoreError, World, block_tokens, play};
use crate::setup::{check_memory, opened};
use crate::{Failure, say};

/// `pagelift decode`.
pub fn command(args: &args::Decode) -> Result<(), Failure> {
    say::keep_results_apart()?;
    ranks::check(&args.hand, &args.from)?;
    if args.hand.tp > 1 && args.hand.rank.is_none() {
        return ranks::decode(args);
    }
    let report = run(args)?;
    if args.json { say::json(&report) } else { report.print() }
}

fn run(args: &args::Decode) -> Result<DecodeReport, HandoffError> {
    let rank = RankOf { rank: args.hand.rank.unwrap_or(0), ranks: args.hand.tp };
    let policy = Policy::from(args.hand.policy);
    let mut draft = Draft::load(&args.manifest).map_err(RestoreError::from)?;
    match policy {
        Policy::RoundDown => draft = draft.rounded_down(block_tokens),
        Policy::LandOnDevice => draft = arrange::with_pages(draft, &args.manifest)?,
        Policy::LiftTail => {}
    }
    check_memory(draft.footprint())?;
    let manifest = draft.assign().map_err(RestoreError::from)?;
    let exchanged = facts::landing(&manifest, policy == Policy::LandOnDevice);
    let (engine, reason) = opened(args.hand.backend, args.hand.gpu_of(rank.rank))?;
    let job = Job { args, rank, policy, manifest: &manifest, exchanged: &exchanged };
    let mut report = match engine {
        AnyBackend::Cpu(cpu) => job.run(&cpu),
        AnyBackend::Cuda(gpu) => job.run(&gpu),
    }?;
    report.restored.backend_reason = reason;
    Ok(report)
}

/// All that one rank of D does.
struct Job<'a> {
    args: &'a args::Decode,
    rank: RankOf,
    policy: Policy,
    manifest: &'a Manifest,
    exchanged: &'a [Exchanged<'a>],
}

impl Job<'_> {
    fn run<B: Backend>(&self, backend: &B) -> Result<DecodeReport, HandoffError> {
        let (args, started) = (self.args, Instant::now());
        let progress = Progress::new(args.json);
        let address = ranks::of_list(&args.from, self.rank.rank)?;
        let secret = secret(args.hand.secret_file.as_deref(), &[address.ip()])?;
        let span = self.manifest.span();
        // What P did not hand over is computed here: the last of it is the replay, with which generating begins.
        let left = span.prompt_tokens.saturating_sub(span.resume_at).saturating_sub(1);
        let left = u32::try_from(left).unwrap_or(u32::MAX);
        let options = Options {
            mode: args.mode.into(),
            policy: self.policy,
            generate: args.generate.saturating_add(left),
            seed: ranks::seed(args.hand.seed, self.rank.rank),
            log: args.log.as_deref(),
            ..Options::default()
        };
        let frames = match self.policy {
            Policy::LandOnDevice => Frames::landing_on_device(self.manifest, options.generate)?,
            Policy::LiftTail | Policy::RoundDown => Frames::new(self.manifest, options.generate, false)?,
        };
        let (mut world, (keys, digest_keys)) =
            World::with(self.manifest, backend, progress, |builder, keys, _| {
                let digests =
                    keys.iter().map(|key| Keys::of(builder, *key)).collect::<Result<Vec<_>, _>>()?;
                Ok((keys.to_vec(), digests))
            })?;
        let mut model = Model::new(self.manifest, options.seed);
        world.fill(&model, progress)?;
        let mapped = Mapped::of(&world);
        let offer = facts::offer(
            &world,
            &keys,
            self.exchanged,
            &mapped,
            (self.rank, args.hand.gpu_of(self.rank.rank).into()),
        )?;
        let name = format!("decode-{}-{:016x}", self.rank.rank, random()?);
        let parameters = Parameter::with(&args.hand.plugin, &args.hand.parameters);
        let agent_options = AgentOptions { name: &name, plugin: &args.hand.plugin, parameters: &parameters };
        agent::with(&mut world, &offer, agent_options, |world, agent, library| {
            let clock = Instant::now();
            let timeout = Duration::from_secs(args.hand.timeout);
            let wire = {
                let _waiting = progress.waiting("waits for the producer");
                reach(address, &secret, timeout)?
            };
            let mut read_limits = ReadLimits::default();
            read_limits.most_bytes = args.most_bytes.unwrap_or(read_limits.most_bytes);
            let consumer_options = ConsumerOptions {
                read_limits,
                // P may be computing for somebody else.
                greeting_timeout: timeout,
                grant_timeout: timeout,
                read_timeout: timeout,
                stop_timeout: PATIENCE,
                ..ConsumerOptions::default()
            };
            let consumer = Consumer::new(agent, wire, offer.clone(), consumer_options, Moment::now(clock))?;
            let mut reads = Reads {
                consumer,
                clock,
                request: args.request,
                keys: &keys,
                digest_keys: &digest_keys,
                mapped: &mapped,
                exchanged: self.exchanged,
                backend,
                wanted: BlockTables::new(),
                came: Came::default(),
            };
            reads.pair(&mut Landing { world, mapped: &mapped, backend })?;
            let paired = clock.elapsed().as_secs_f64();
            let restored =
                play(world, &mut model, backend, &mut reads, frames, options, progress).map_err(|error| {
                    match error {
                        RestoreError::Reference(why @ ReferenceError::Mismatch(_))
                            if reads.came.digests > 0 =>
                        {
                            HandoffError::OtherSeed { why, seed: args.hand.seed }
                        }
                        other => other.into(),
                    }
                })?;
            reads.close(&mut Landing { world, mapped: &mapped, backend });
            let mut report =
                DecodeReport::new(self.rank, address, self.policy, reads.came, restored, library);
            (report.pair_seconds, report.left_tokens) = (paired, left);
            report.restored.generated_tokens = args.generate;
            report.restored.seed = args.hand.seed;
            report.restored.backend = backend.name();
            report.restored.seconds = started.elapsed().as_secs_f64();
            Ok(report)
        })
    }
}

/// Connects to P, which may begin later than D.
fn reach(address: SocketAddr, secret: &Secret, timeout: Duration) -> Result<Link<TcpStream>, HandoffError> {
    let start = Instant::now();
    loop {
        match connect(address, secret, timeout) {
            Ok(wire) => return Ok(wire),
            Err(error) if start.elapsed() >= timeout => {
                return Err(HandoffError::Late(format!(
                    "no producer is at {address} after {} s: {error}; --timeout says how long to wait",
                    timeout.as_secs()
                )));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}
