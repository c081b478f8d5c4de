//! The lifecycle: events go in, effects come out.

use std::hash::{Hash, Hasher};

use super::blocks::Blocks;
use super::counters::LifecycleCounters;
use super::event::{ContentHash, Effect, Event};
use super::options::LifecycleOptions;
use super::page::PageState;
use super::pages::Pages;
use super::rank::{Rank, Ranks};
use super::request::{Request, RequestId, Stage};
use super::shared::Shared;
use super::slab::Slab;
use crate::error::{LifecycleError, SpanError};
use crate::id::{HostBlockId, PageId};
use crate::import::{Arrival, PromptSpan};
use crate::quantity::Tokens;

/// Who may see which block, and what may be used again: of all requests of an engine.
///
/// It has no clock, does no input or output, and depends on nothing but its events: whoever gives the same events to
/// another one gets the same effects. After it is made, an event allocates nothing once its request's slot has been used
/// by one as long; it takes well below a microsecond, however many requests there are.
///
/// An import of two blocks of 16 tokens and 3 tokens more, by an engine of two ranks:
/// ```
/// use pagelift_planner::import::{Policy, Recurrence};
/// use pagelift_planner::lifecycle::*;
/// use pagelift_planner::quantity::Tokens;
/// let mut lifecycle = Lifecycle::new(LifecycleOptions {
///     ranks: 2, writers: Ranks::first(1), block_tokens: 16, recurrence: Recurrence::None,
///     requests: 8, blocks: 64, pages: 4, keep: 0, draft_lag: 0, retries: 1,
/// })?;
/// let hashes = [7, 8].map(ContentHash::new);
/// let admission = Admission {
///     prompt: Tokens::new(35), policy: Policy::LiftTail, producer: true, hashes: hashes.as_slice().into(),
/// };
/// let effects = lifecycle.apply(&Event::Admit(admission))?;
/// let Some(Effect::Admitted { request, left, .. }) = effects.first().copied() else { panic!("{effects:?}") };
/// assert_eq!(left, Tokens::new(1), "the last token is replayed");
/// assert!(effects.contains(&Effect::Read { request, first: 0, end: 3 }));
///
/// // Rank 0 reads, all in one.
/// let rank = Rank::new;
/// lifecycle.apply(&Event::Posted { request, ranks: Ranks::first(1), each: 1 })?;
/// let effects = lifecycle.apply(&Event::Read { request, rank: rank(0), part: 0, read: Read::Landed })?;
/// let round = 1;
/// assert_eq!(effects, [Effect::Notify { request }, Effect::Received { request }, Effect::Lift { request, round }]);
///
/// // Nothing is published before both ranks have lifted it; then the two full blocks are.
/// lifecycle.apply(&Event::Answer { request, round, rank: rank(1), answer: Answer::Done })?;
/// assert_eq!(lifecycle.find(hashes[0]), None);
/// lifecycle.apply(&Event::Answer { request, round, rank: rank(0), answer: Answer::Done })?;
/// assert!(lifecycle.find(hashes[0]).is_some() && lifecycle.find(hashes[1]).is_some());
/// # Ok::<(), pagelift_planner::error::LifecycleError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Lifecycle {
    requests: Slab<Request>,
    shared: Shared,
    /// Whose step the last event has begun.
    begun: Option<RequestId>,
}

/// Two lifecycles are equal if they will do the same from now on. What they counted does not matter for that.
impl PartialEq for Lifecycle {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Lifecycle {}

impl Hash for Lifecycle {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl Lifecycle {
    /// A lifecycle without requests, all of whose memory is free.
    ///
    /// # Errors
    /// [`LifecycleError::Options`] for options that cannot be, and where there is no memory for so many.
    pub fn new(options: LifecycleOptions) -> Result<Self, LifecycleError> {
        let wrong = |what, found: u64, expected| Err(LifecycleError::Options { what, found, expected });
        let all = Ranks::first(options.ranks);
        if options.ranks == 0 || options.ranks > Ranks::MOST {
            return wrong("the number of ranks", options.ranks.into(), "1 to 64");
        }
        if options.writers.is_empty() || !options.writers.without(all).is_empty() {
            return wrong("the number of writers", options.writers.len().into(), "some of the ranks");
        }
        if options.block_tokens == 0 {
            return wrong("the number of tokens of a block", 0, "at least 1");
        }
        if options.draft_lag > LifecycleOptions::MOST_LAG {
            return wrong("the lag of drafts", options.draft_lag.into(), "at most 2 steps");
        }
        let most = u64::from(u32::MAX >> 1);
        let counts = [
            ("the number of requests", options.requests),
            ("the number of blocks", options.blocks),
            ("the number of pages", options.pages),
        ];
        if let Some((what, count)) = counts.into_iter().find(|(_, count)| u64::from(*count) > most) {
            return wrong(what, count.into(), "less than 2^31");
        }
        let shared = Shared {
            options,
            lost: Ranks::NONE,
            blocks: Blocks::new(options.blocks)?,
            pages: Pages::new(options.pages)?,
            effects: Vec::with_capacity(64),
            counters: LifecycleCounters::default(),
        };
        let requests = Slab::new("requests", options.requests, || Request::new(options.ranks))?;
        Ok(Self { requests, shared, begun: None })
    }

    /// Takes an event, and returns what is to be done, in that order.
    ///
    /// # Errors
    /// Where the event makes no sense, or there is no room for what it asks. Nothing has changed then, but what was
    /// counted.
    pub fn apply(&mut self, event: &Event<'_>) -> Result<&[Effect], LifecycleError> {
        self.shared.effects.clear();
        self.begun = None;
        let counters = &mut self.shared.counters;
        counters.events = counters.events.saturating_add(1);
        let done = self.dispatch(event);
        if let Err(error) = done {
            let counters = &mut self.shared.counters;
            counters.refused = counters.refused.saturating_add(1);
            self.shared.effects.clear();
            return Err(error);
        }
        Ok(&self.shared.effects)
    }

    fn dispatch(&mut self, event: &Event<'_>) -> Result<(), LifecycleError> {
        match *event {
            Event::Admit(ref admission) => {
                let requests = self.requests.len();
                let Some((key, request)) = self.requests.next() else {
                    let needed = u64::try_from(requests).unwrap_or(u64::MAX).saturating_add(1);
                    return Err(LifecycleError::NoRoom { what: "requests", needed, free: 0 });
                };
                request.admit(RequestId::of(key), admission, &mut self.shared)?;
                self.requests.open();
                Ok(())
            }
            Event::Posted { request, ranks, each } => {
                self.with(request, |this, shared| this.posted(request, (ranks, each), shared))
            }
            Event::Read { request, rank, part, read } => {
                self.check(rank)?;
                self.with(request, |this, shared| this.read(request, (rank, part), read, shared))
            }
            Event::Answer { request, round, rank, answer } => {
                self.check(rank)?;
                self.with(request, |this, shared| this.answer(request, (round, rank), answer, shared))
            }
            Event::Begin { request, tokens } => {
                self.with(request, |this, shared| this.begin(request, tokens, shared))?;
                self.begun = Some(request);
                Ok(())
            }
            Event::Accept { request, step, tokens } => {
                self.with(request, |this, shared| this.accept(request, (step, tokens), shared))
            }
            Event::Name { request, hash } => {
                self.with(request, |this, shared| this.name(request, hash, shared))
            }
            Event::Mirrored { request, rank, step } => {
                self.check(rank)?;
                self.with(request, |this, shared| {
                    let reached = ("step", step, this.steps.begun);
                    this.reached(request, rank, reached, |progress| &mut progress.steps, shared)
                })
            }
            Event::Checkpointed { request, rank, pages } => {
                self.check(rank)?;
                self.with(request, |this, shared| {
                    let reached = ("checkpoint", pages, this.checkpoints);
                    this.reached(request, rank, reached, |progress| &mut progress.checkpoints, shared)
                })
            }
            Event::Spilled { request, rank, pages } => {
                self.check(rank)?;
                self.with(request, |this, shared| {
                    let lifted = this.whole.is_some() && this.arrival == Arrival::Device;
                    let latest = if lifted { this.received(shared.options) } else { 0 };
                    let reached = ("spill", pages, latest);
                    this.reached(request, rank, reached, |progress| &mut progress.spills, shared)
                })
            }
            Event::Finish { request } => self.with(request, |this, shared| this.finish(request, shared)),
            Event::Abort { request } => self.with(request, |this, shared| {
                this.abort(request, shared);
                Ok(())
            }),
            Event::Preempt { request } => self.with(request, |this, shared| this.preempt(request, shared)),
            Event::Resume { request, behind } => {
                self.with(request, |this, shared| this.resume(request, behind, shared))
            }
            Event::RankLost { rank } => {
                self.check(rank)?;
                self.lose(rank)
            }
            Event::RankJoined { rank } => {
                self.check(rank)?;
                self.shared.lost.remove(rank);
                Ok(())
            }
        }
    }

    fn lose(&mut self, rank: Rank) -> Result<(), LifecycleError> {
        if self.shared.lost.contains(rank) {
            self.shared.counters.duplicate = self.shared.counters.duplicate.saturating_add(1);
            return Ok(());
        }
        self.shared.lost.insert(rank);
        for slot in 0..self.requests.slots() {
            if let Some(id) = self.requests.at(slot).map(RequestId::of) {
                self.with(id, |request, shared| {
                    request.lose(id, rank, shared);
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    /// Does something with a request, and closes its slot where that was its end.
    fn with(
        &mut self,
        id: RequestId,
        act: impl FnOnce(&mut Request, &mut Shared) -> Result<(), LifecycleError>,
    ) -> Result<(), LifecycleError> {
        let request =
            self.requests.get_mut(id.key()).ok_or(LifecycleError::UnknownRequest { request: id })?;
        act(request, &mut self.shared)?;
        if request.stage == Stage::Ended {
            self.requests.close(id.key());
        }
        Ok(())
    }

    fn check(&self, rank: Rank) -> Result<(), LifecycleError> {
        let ranks = self.shared.options.ranks;
        if rank.get() < ranks { Ok(()) } else { Err(LifecycleError::UnknownRank { rank, ranks }) }
    }

    fn key(&self) -> impl PartialEq + Hash + '_ {
        let Shared { options, lost, blocks, pages, .. } = &self.shared;
        (&self.requests, options, lost, blocks, pages)
    }
}

impl Lifecycle {
    /// What it looks after.
    #[must_use]
    pub const fn options(&self) -> LifecycleOptions {
        self.shared.options
    }

    /// What came of the last event; nothing, where it was refused.
    #[must_use]
    pub fn effects(&self) -> &[Effect] {
        &self.shared.effects
    }

    /// Whose step the last event has begun.
    pub(super) const fn begun(&self) -> Option<RequestId> {
        self.begun
    }

    /// What it has seen and done.
    #[must_use]
    pub const fn counters(&self) -> LifecycleCounters {
        self.shared.counters
    }

    /// Requests that have not ended, in the order of their slots.
    pub fn requests(&self) -> impl Iterator<Item = RequestId> {
        self.requests.keys().map(RequestId::of)
    }

    /// What is known of a request, until it has ended.
    #[must_use]
    pub fn request(&self, id: RequestId) -> Option<RequestView<'_>> {
        Some(RequestView { request: self.requests.get(id.key())?, shared: &self.shared })
    }

    /// The block that others find by this content.
    #[must_use]
    pub fn find(&self, hash: ContentHash) -> Option<HostBlockId> {
        self.shared.blocks.find(hash).map(|(block, _)| block)
    }

    /// The content that a block is found by.
    #[must_use]
    pub fn content(&self, block: HostBlockId) -> Option<ContentHash> {
        self.shared.blocks.hash(block)
    }

    /// How many requests use a block.
    #[must_use]
    pub fn users(&self, block: HostBlockId) -> u32 {
        self.shared.blocks.users(block)
    }

    /// The request that holds a page.
    #[must_use]
    pub fn holder(&self, page: PageId) -> Option<RequestId> {
        self.shared.pages.holder(page)
    }

    /// Pages that nobody holds.
    #[must_use]
    pub fn free_pages(&self) -> usize {
        self.shared.pages.free()
    }

    /// Host blocks that nobody uses and nobody finds.
    #[must_use]
    pub fn free_blocks(&self) -> usize {
        self.shared.blocks.free()
    }

    /// Host blocks that can be taken: those, and cached ones.
    #[must_use]
    pub fn available_blocks(&self) -> usize {
        self.shared.blocks.available()
    }

    /// Ranks that are lost.
    #[must_use]
    pub const fn lost(&self) -> Ranks {
        self.shared.lost
    }
}

/// What is known of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestView<'a> {
    request: &'a Request,
    shared: &'a Shared,
}

impl<'a> RequestView<'a> {
    /// Where it is.
    #[must_use]
    pub const fn stage(self) -> Stage {
        self.request.stage
    }

    /// Whether it was given up, or has finished, and only waits for its ranks or reads.
    #[must_use]
    pub const fn is_ending(self) -> bool {
        self.request.ending.is_some()
    }

    /// The question that its ranks were asked last, counted from 1.
    #[must_use]
    pub const fn round(self) -> u32 {
        self.request.round.number
    }

    /// Ranks that have not answered it.
    #[must_use]
    pub const fn awaited(self) -> Ranks {
        self.request.round.awaited()
    }

    /// Whether the producer has to keep its blocks: until it is notified, its lease is renewed.
    #[must_use]
    pub const fn needs_producer(self) -> bool {
        self.request.producer
    }

    /// Blocks that others had published, from the first on.
    #[must_use]
    pub const fn found(self) -> u32 {
        self.request.found
    }

    /// What was imported or found of its prompt.
    ///
    /// # Errors
    /// None, of a request that was admitted.
    pub fn span(self) -> Result<PromptSpan, SpanError> {
        let Request { prompt, imported, resume_at, .. } = *self.request;
        PromptSpan::explicit(Tokens::new(prompt), Tokens::new(imported), Tokens::new(resume_at))
    }

    /// Whether all ranks have lifted it before: what it is lifted from now is its own.
    #[must_use]
    pub const fn was_lifted(self) -> bool {
        self.request.whole.is_some()
    }

    /// Tokens whose rows were imported or found.
    #[must_use]
    pub const fn imported(self) -> Tokens {
        Tokens::new(self.request.imported)
    }

    /// The next token that it computes.
    #[must_use]
    pub const fn next_token(self) -> Tokens {
        Tokens::new(self.request.steps.at)
    }

    /// One past the last token that the steps so far may compute.
    #[must_use]
    pub const fn reach(self) -> Tokens {
        Tokens::new(self.request.steps.reach)
    }

    /// The first token of which the last step that was begun may write a row. It is the step's own first token, or where
    /// rows of draft layers are final some steps later, that of the step whose rows are final now.
    #[must_use]
    pub fn first_written(self) -> Tokens {
        Tokens::new(self.request.steps.first_written(self.shared.options.draft_lag))
    }

    /// Steps begun.
    #[must_use]
    pub const fn begun(self) -> u32 {
        self.request.steps.begun
    }

    /// Steps accepted.
    #[must_use]
    pub const fn accepted(self) -> u32 {
        self.request.steps.accepted
    }

    /// Tokens from the first on whose rows are final and safe in host blocks.
    #[must_use]
    pub fn durable(self) -> Tokens {
        Tokens::new(self.request.durable(self.shared.options))
    }

    /// Positions before this one are sealed.
    #[must_use]
    pub const fn sealed(self) -> u32 {
        self.request.sealed
    }

    /// Its host blocks, by position.
    #[must_use]
    pub fn blocks(self) -> &'a [HostBlockId] {
        &self.request.blocks
    }

    /// Its pages: position, page, and where each is in its life. A step that begins now reads none that is droppable: it may be
    /// another's when the step runs.
    pub fn pages(self) -> impl Iterator<Item = (u32, PageId, PageState)> {
        self.request.pages.iter().map(|held| (held.position, held.page, held.state()))
    }

    /// The position of the block that holds its newest state, and after how many tokens that is.
    #[must_use]
    pub const fn state(self) -> Option<(Tokens, u32)> {
        match self.request.state {
            Some((tokens, position)) => Some((Tokens::new(tokens), position)),
            None => None,
        }
    }

    /// Where its blocks arrive.
    #[must_use]
    pub const fn arrival(self) -> Arrival {
        self.request.arrival
    }
}
