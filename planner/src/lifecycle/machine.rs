//! The lifecycle: events go in, effects come out.

use std::hash::{Hash, Hasher};

use super::blocks::Blocks;
use super::counters::LifecycleCounters;
use super::event::{ContentHash, Effect, Event};
use super::options::LifecycleOptions;
use super::pages::Pages;
use super::rank::{Rank, Ranks};
use super::request::{Request, RequestId, Stage};
use super::shared::Shared;
use super::slab::Slab;
use super::view::RequestView;
use crate::error::{LifecycleError, Resource};
use crate::id::{HostBlockId, PageId};
use crate::import::Arrival;

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
///     requests: 8, blocks: 64, pages: 4, keep: 0, draft_lag: 0, retries: 1, limits: FrameLimits::default(),
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
    /// [`LifecycleError::Options`] for options that cannot be, before any memory is taken; [`LifecycleError::Memory`] where there
    /// is not enough of it.
    pub fn new(options: LifecycleOptions) -> Result<Self, LifecycleError> {
        options.check()?;
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
    /// Where the event makes no sense, or cannot be taken now: [`LifecycleError::is_transient`] tells which. Nothing has
    /// changed then, but what was counted.
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
                let none = LifecycleError::NoRoom { of: Resource::Requests, needed: 1, free: 0 };
                let (key, request) = self.requests.next().ok_or(none)?;
                request.admit(RequestId::of(key), admission, &mut self.shared)?;
                self.requests.open();
                Ok(())
            }
            Event::Posted { request, ranks, each } => {
                self.with(request, |this, shared| this.posted(request, (ranks, each), shared))
            }
            Event::Read { request, rank, part, read } => {
                self.shared.check_rank(rank)?;
                self.with(request, |this, shared| this.read(request, (rank, part), read, shared))
            }
            Event::Answer { request, round, rank, answer } => {
                self.shared.check_rank(rank)?;
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
                self.shared.check_rank(rank)?;
                self.with(request, |this, shared| {
                    let reached = ("step", step, this.steps.begun);
                    this.reached(request, rank, reached, |progress| &mut progress.steps, shared)
                })
            }
            Event::Checkpointed { request, rank, pages } => {
                self.shared.check_rank(rank)?;
                self.with(request, |this, shared| {
                    let reached = ("checkpoint", pages, this.checkpoints);
                    this.reached(request, rank, reached, |progress| &mut progress.checkpoints, shared)
                })
            }
            Event::Spilled { request, rank, pages } => {
                self.shared.check_rank(rank)?;
                self.with(request, |this, shared| {
                    let lifted = this.whole.is_some() && this.arrival == Arrival::Device;
                    let latest = if lifted { this.received(shared.options) } else { 0 };
                    let reached = ("spill", pages, latest);
                    this.reached(request, rank, reached, |progress| &mut progress.spills, shared)
                })
            }
            Event::Broken { request, rank } => {
                self.shared.check_rank(rank)?;
                self.with(request, |this, shared| {
                    this.broken(request, rank, shared);
                    Ok(())
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
                self.shared.check_rank(rank)?;
                self.lose(rank)
            }
            Event::RankJoined { rank } => {
                self.shared.check_rank(rank)?;
                if self.shared.lost.contains(rank) {
                    self.shared.lost.remove(rank);
                } else {
                    self.shared.duplicate();
                }
                Ok(())
            }
        }
    }

    fn lose(&mut self, rank: Rank) -> Result<(), LifecycleError> {
        if self.shared.lost.contains(rank) {
            self.shared.duplicate();
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
        Some(RequestView::new(self.requests.get(id.key())?, &self.shared))
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
