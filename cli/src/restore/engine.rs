//! An engine in small: a scheduler, one rank, and all that comes between them.
//!
//! ```text
//!   client, sampler ──▶ events ─▶ Lifecycle ─▶ effects ──▶ transport (the producer's blocks land)
//!                         ▲           └─▶ orders ─▶ Runner ─▶ launches around a forward
//!                         └── wire ◀──────────────────┘
//! ```
//!
//! In each step, what was ordered before is launched, a forward writes rows, and the mirror copies them; the model is told
//! what must have been copied.

use std::ops::Range;

use pagelift::backends::Backend;
use pagelift::error::LifecycleError;
use pagelift::import::Arrival;
use pagelift::lifecycle::{
    Admission, ContentHash, Effect, Event, GroupFrames, Lifecycle, LifecycleOptions, Order, Outcome, Ranks,
    RequestId, Stage,
};
use pagelift::quantity::{Bytes, Tokens};
use pagelift::runner::Runner;

use super::follow::{Copied, check_sealed};
use super::forward::Forward;
use super::frames::{Frames, Places};
use super::log::Log;
use super::rank::{self, Launched, Lifted, RANK};
use super::step::StepArrays;
use super::transfer::{Import, Landed, Transfer};
use super::wire::Wire;
use super::world::World;
use super::{Options, RestoreError};
use crate::manifest::{Memory, mix};
use crate::progress::Progress;
use crate::reference::Model;

/// The engine, and what it plays on.
#[derive(Debug)]
pub struct Engine<'w, 'm, B: Backend> {
    pub world: &'w mut World<'m>,
    pub model: &'w mut Model<'m>,
    backend: &'w B,
    transfer: &'w mut dyn Transfer<'m>,
    options: Options<'w>,
    progress: Progress,
    pub lifecycle: Lifecycle,
    frames: Frames<'m>,
    runner: Runner<&'w B>,
    arrays: StepArrays,
    pub wire: Wire,
    log: Log,
    /// The one request, until it has ended.
    request: Option<RequestId>,
    /// Positions that are to be read.
    reads: Option<Range<u32>>,
    outcome: Option<Outcome>,
    /// Why the import failed, if it did.
    failed: Option<String>,
    /// Blocks that have names.
    named: u64,
    /// What was ordered, and is not launched.
    ordered: Vec<Copied>,
    /// The first lift.
    pub lifted: Lifted,
    /// What ranks that have died had launched.
    before: Launched,
}

impl<'w, 'm, B: Backend> Engine<'w, 'm, B> {
    /// An engine without a request, whose frames have room for what it will generate.
    pub fn new(
        world: &'w mut World<'m>,
        model: &'w mut Model<'m>,
        backend: &'w B,
        transfer: &'w mut dyn Transfer<'m>,
        frames: Frames<'m>,
        options: Options<'w>,
        progress: Progress,
    ) -> Result<Self, RestoreError> {
        let manifest = world.manifest;
        let recurrent = manifest.groups().iter().any(|group| group.shape.recurrent);
        let lifecycle = Lifecycle::new(LifecycleOptions {
            ranks: 1,
            writers: Ranks::first(1),
            block_tokens: frames.tokens,
            recurrence: super::span::recurrence(recurrent),
            requests: 1,
            blocks: frames.blocks,
            pages: frames.pages,
            keep: 0,
            draft_lag: 0,
            retries: 0,
            limits: GroupFrames::limits(&world.geometry, frames.tokens, &frames.of_rank(&world.keys)),
        })
        .map_err(pagelift::Error::from)?;
        let step = manifest.speculative_tokens().saturating_add(1);
        let arrays = StepArrays::new(&mut world.memory, backend, manifest.groups().len(), step)?;
        Ok(Self {
            runner: rank::runner(world, backend, (&frames, &arrays), (lifecycle.options(), options.mode))?,
            transfer,
            log: Log::create(options.log, &lifecycle)?,
            wire: Wire::new(options.inject, mix(options.seed ^ WIRE)),
            world,
            model,
            backend,
            options,
            progress,
            lifecycle,
            frames,
            arrays,
            request: None,
            reads: None,
            outcome: None,
            failed: None,
            named: 0,
            ordered: Vec::new(),
            lifted: Lifted::default(),
            before: Launched::default(),
        })
    }

    /// Where the request is; over, where there is none.
    pub fn stage(&self) -> Stage {
        self.view().map_or(Stage::Ended, |view| view.stage())
    }

    fn view(&self) -> Option<pagelift::lifecycle::RequestView<'_>> {
        self.lifecycle.request(self.request?)
    }

    /// Where the request's pages and blocks are.
    pub fn places(&self) -> Places {
        self.view().map(Places::of).unwrap_or_default()
    }

    /// How the request ended, if it has.
    pub const fn outcome(&self) -> Option<Outcome> {
        self.outcome
    }

    /// What was launched.
    pub fn launched(&self) -> Launched {
        self.before.and(&self.runner)
    }

    /// The next token that the request computes.
    pub fn next_token(&self) -> u64 {
        self.view().map_or(0, |view| view.next_token().get())
    }

    /// Tokens that a step computes of so many: a recurrent model's ends at a page's end, where its state is checkpointed.
    pub fn tokens_of_step(&self, drafts: u32) -> u32 {
        let all = drafts.saturating_add(1);
        let block = u64::from(self.frames.tokens);
        let left = block - self.next_token() % block;
        let states = self.lifecycle.options().recurrence == super::span::recurrence(true);
        if states { all.min(u32::try_from(left).unwrap_or(all)) } else { all }
    }

    /// Admits the manifest's prompt, and asks for its blocks.
    pub fn admit(&mut self) -> Result<(), RestoreError> {
        let prompt = self.world.manifest.span().prompt_tokens;
        self.named = prompt / u64::from(self.frames.tokens);
        let hashes: Vec<_> = (0..self.named).map(|position| self.hash(position)).collect();
        self.outcome = None;
        self.tell(Event::Admit(Admission {
            prompt: Tokens::new(prompt),
            policy: self.options.policy,
            producer: true,
            hashes: hashes.into(),
        }))?;
        if let Some(import) = self.reads.clone().and_then(|reads| import!(self, reads)) {
            let posted = self.transfer.begin(import)?;
            self.tell(posted)?;
        }
        Ok(())
    }

    /// What a full block of the request is called: equal tokens of equal prompts are equal.
    fn hash(&self, position: u64) -> ContentHash {
        ContentHash::new(u128::from(mix(self.options.seed)) << 64 | u128::from(position))
    }

    /// Whether blocks are being read.
    pub const fn is_reading(&self) -> bool {
        self.reads.is_some()
    }

    /// The blocks that were asked for land, and the transport says so.
    pub fn land(&mut self) -> Result<(), RestoreError> {
        let Some(import) = self.reads.take().and_then(|reads| import!(self, reads)) else { return Ok(()) };
        let Landed { event, failed } = self.transfer.land(import)?;
        self.failed = failed;
        if let Some(event) = event {
            self.wire.send(event);
        }
        Ok(())
    }

    /// Why the import failed, if it did.
    pub const fn failed(&self) -> Option<&String> {
        self.failed.as_ref()
    }

    /// Takes what has arrived, and goes on with steps that compute nothing until the request is at a stage.
    pub fn until(&mut self, stage: Stage, expected: &'static str) -> Result<(), RestoreError> {
        self.receive()?;
        while self.stage() != stage {
            if !self.wait()? {
                return Err(RestoreError::Stuck { expected });
            }
        }
        Ok(())
    }

    /// Lets a step go by that computes nothing, and takes what has arrived. Whether anything did, or is on its way.
    fn wait(&mut self) -> Result<bool, RestoreError> {
        self.step(None)?;
        let arrives = !self.wire.is_empty() || !self.runner.is_idle();
        self.receive()?;
        Ok(arrives)
    }

    /// Begins a step of so many tokens; one for which there is no room yet waits for messages that are on their way.
    pub fn begin(&mut self, tokens: u32) -> Result<(), RestoreError> {
        let Some(request) = self.request else { return Err(RestoreError::Stuck { expected: "lifted" }) };
        loop {
            let event = Event::Begin { request, tokens };
            match self.apply(&event)? {
                None => return Ok(()),
                Some(cause) if cause.is_transient() && self.wait()? => {}
                Some(cause) => return Err(refused(&event, cause)),
            }
        }
    }

    /// The sampler has accepted so many of a step's tokens; blocks that are full now have names.
    pub fn accept(&mut self, step: u64, tokens: u64) -> Result<(), RestoreError> {
        let Some(request) = self.request else { return Ok(()) };
        let small = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        self.tell(Event::Accept { request, step: small(step), tokens: small(tokens) })?;
        while self.named < self.next_token() / u64::from(self.frames.tokens) {
            let hash = self.hash(self.named);
            self.tell(Event::Name { request, hash })?;
            self.named += 1;
        }
        Ok(())
    }

    /// Says something of the request that the engine decides.
    pub fn say(&mut self, event: impl FnOnce(RequestId) -> Event<'static>) -> Result<(), RestoreError> {
        self.request.map_or(Ok(()), |request| self.tell(event(request)))
    }

    /// Tells the lifecycle what must make sense to it.
    pub fn tell(&mut self, event: Event<'_>) -> Result<(), RestoreError> {
        self.apply(&event)?.map_or(Ok(()), |cause| Err(refused(&event, cause)))
    }

    /// Tells the lifecycle what has arrived.
    pub fn receive(&mut self) -> Result<(), RestoreError> {
        while let Some(event) = self.wire.receive() {
            match self.apply(&event)? {
                // It came when its request had ended.
                Some(LifecycleError::UnknownRequest { .. }) if self.wire.is_faulty() => {}
                Some(cause) => return Err(refused(&event, cause)),
                None => {}
            }
        }
        Ok(())
    }

    /// Tells the lifecycle, and does what comes of it. Returns why it was refused, if it was.
    fn apply(&mut self, event: &Event<'_>) -> Result<Option<LifecycleError>, RestoreError> {
        let refused = self.lifecycle.apply(event).err();
        self.log.write(event, self.lifecycle.effects(), refused.as_ref())?;
        let (effects, mut notify) = (self.lifecycle.effects().to_vec(), false);
        for effect in effects {
            match effect {
                Effect::Admitted { request, .. } => self.request = Some(request),
                // Of what was read, the transport has told the producer.
                Effect::Notify { .. } => notify = matches!(event, Event::Admit(_)),
                Effect::Read { first, end, .. } => self.reads = Some(first..end),
                Effect::Sealed { position, block, .. } => {
                    let resume_at = self.world.manifest.span().resume_at;
                    check_sealed(self.model, &self.frames, (position, block), resume_at)?;
                }
                Effect::Ended { outcome, .. } => {
                    (self.outcome, self.request, self.reads) = (Some(outcome), None, None);
                }
                _ => {}
            }
        }
        for order in self.lifecycle.orders().collect::<Vec<_>>() {
            match &order {
                Order::Lift { lists, .. } => {
                    let view = self.view();
                    let again = view.is_some_and(|view| view.was_lifted());
                    let landed = view.is_some_and(|view| view.arrival() == Arrival::Device);
                    self.ordered.push(Copied::lift(self.places(), lists, (again, landed)));
                }
                Order::Checkpoint { .. } | Order::Save { .. } => self.ordered.push(Copied::States),
                Order::Spill { position, .. } => self.ordered.push(Copied::Spill(*position)),
                Order::Cancel { .. } => self.ordered.retain(|copied| !copied.is_lift()),
                _ => {}
            }
            self.runner.hear(order)?;
        }
        if let Some(import) = Some(0..0).filter(|_| notify).and_then(|none| import!(self, none)) {
            self.transfer.notify(import)?;
        }
        Ok(refused)
    }

    /// A step of the rank: what was ordered, a forward if there is one, and its mirror.
    pub fn step(&mut self, forward: Option<Forward>) -> Result<(), RestoreError> {
        let staged = self.runner.stage(&self.world.memory, Bytes::new(u64::MAX))?;
        let (ordered, found) = (self.ordered.len(), staged.lifts + staged.write_backs);
        if ordered != found || staged.failed.is_some() {
            let why = staged.failed.map_or_else(|| "they wait".into(), |error| error.to_string());
            return Err(RestoreError::Postponed { ordered, found, why });
        }
        let lifted = rank::before_forward(self.world, &mut self.runner, staged.lifts > 0)?;
        if let Some(lifted) = lifted.filter(|_| self.before.lift_launches == 0 && self.lifted.seconds == 0.0)
        {
            self.lifted = lifted;
        }
        // What is written back comes first.
        self.ordered.sort_by_key(Copied::is_lift);
        let places = self.places();
        for copied in std::mem::take(&mut self.ordered) {
            copied.follow(self.model, &self.frames, &places, (self.world.manifest, self.options.mode))?;
        }
        if let Some(forward) = forward {
            forward.write(self.world, self.model, (&self.frames, &places), &self.arrays)?;
        }
        self.runner.after_forward(&mut self.world.memory)?;
        self.runner.wait()?;
        if let Some(forward) = forward {
            forward.follow_mirror(self.model, (&self.frames, &places))?;
        }
        let bad = self.launched().bad_entries;
        if bad > 0 {
            return Err(RestoreError::BadEntries { bad });
        }
        let wire = &mut self.wire;
        self.runner.poll(|event| wire.send(event));
        self.wire.step();
        Ok(())
    }

    /// The rank dies, with what it had on the device, and another takes its place.
    pub fn replace_rank(&mut self) -> Result<(), RestoreError> {
        self.before = self.launched();
        self.wire.lose();
        self.ordered.clear();
        self.tell(Event::RankLost { rank: RANK })?;
        self.model.forget(Memory::Device);
        self.world.fill_memory(self.model, Memory::Device, self.progress)?;
        let at = (&self.frames, &self.arrays);
        self.runner =
            rank::runner(self.world, self.backend, at, (self.lifecycle.options(), self.options.mode))?;
        self.tell(Event::RankJoined { rank: RANK })
    }

    /// Asks the model about every byte of every pool, and returns how many these were.
    pub fn verify(&self) -> Result<u64, RestoreError> {
        self.world.verify(self.model, "verify", self.progress)
    }

    /// Pages and host blocks that some request holds.
    pub fn held(&self) -> (u64, u64) {
        let lifecycle = &self.lifecycle;
        let held = |all: u32, free: usize| u64::from(all).saturating_sub(free as u64);
        let options = lifecycle.options();
        (held(options.pages, lifecycle.free_pages()), held(options.blocks, lifecycle.available_blocks()))
    }

    /// Takes the last messages, and ends the log.
    pub fn close(&mut self) -> Result<(), RestoreError> {
        while !self.wire.is_empty() {
            self.wire.step();
            self.receive()?;
        }
        self.log.finish()
    }
}

/// The import of an engine's request, if it has one.
macro_rules! import {
    ($engine:ident, $reads:expr) => {
        $engine.request.and_then(|request| {
            Some(Import {
                view: $engine.lifecycle.request(request)?,
                world: &mut *$engine.world,
                model: &mut *$engine.model,
                frames: &$engine.frames,
                request,
                reads: $reads,
                progress: $engine.progress,
            })
        })
    };
}
use import;

/// What of the seed decides how the wire behaves.
const WIRE: u64 = 0x77_69_72_65;

fn refused(event: &Event<'_>, cause: LifecycleError) -> RestoreError {
    RestoreError::Refused { event: serde_json::to_string(event).unwrap_or_default(), cause }
}
