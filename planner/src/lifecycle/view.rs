//! What is known of a request.

use super::page::PageState;
use super::rank::{Rank, Ranks};
use super::request::{Request, Stage};
use super::shared::Shared;
use crate::id::{HostBlockId, PageId};
use crate::import::{Arrival, PromptSpan};
use crate::quantity::Tokens;

/// What is known of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestView<'a> {
    request: &'a Request,
    shared: &'a Shared,
}

impl<'a> RequestView<'a> {
    pub(super) const fn new(request: &'a Request, shared: &'a Shared) -> Self {
        Self { request, shared }
    }

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

    /// Ranks that have not said yet that all is safe which they were to write so far: rows of steps, states at pages' ends, and pages
    /// that landed on the device.
    #[must_use]
    pub fn unsettled(self) -> Ranks {
        let (request, options) = (self.request, self.shared.options);
        let landed = request.whole.is_some() && request.arrival == Arrival::Device;
        let spills = if landed { request.received(options) } else { 0 };
        let mut ranks = Ranks::NONE;
        for (rank, progress) in (0..).map(Rank::new).zip(&request.progress) {
            let safe = progress.steps >= request.steps.begun
                && progress.checkpoints >= request.checkpoints
                && progress.spills >= spills;
            if !safe {
                ranks.insert(rank);
            }
        }
        ranks
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
    #[must_use]
    pub const fn span(self) -> PromptSpan {
        self.request.span
    }

    /// Whether all ranks have lifted it before: what it is lifted from now is its own.
    #[must_use]
    pub const fn was_lifted(self) -> bool {
        self.request.whole.is_some()
    }

    /// Tokens whose rows were imported or found.
    #[must_use]
    pub const fn imported(self) -> Tokens {
        self.request.span.imported()
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
