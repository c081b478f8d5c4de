//! What a rank has to know to lift a request.

use serde::{Deserialize, Serialize};

use super::view::RequestView;
use crate::error::SpanError;
use crate::id::{HostBlockId, PageId};
use crate::import::{Arrival, PromptSpan};
use crate::quantity::Tokens;

/// What a rank has to know to lift a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiftLists {
    /// The request's blocks, by position.
    pub blocks: Vec<HostBlockId>,
    /// Its pages, by position.
    pub pages: Vec<(u32, PageId)>,
    /// The position of the block that holds its state.
    pub state: Option<u32>,
    /// Tokens whose rows are there.
    pub tokens: u64,
    /// Of an import: prompt, imported tokens, and the first that is computed.
    span: Option<[u64; 3]>,
    /// Whether the import has landed in the pages.
    landed: bool,
}

impl LiftLists {
    /// What there is to know, at the time of the effect.
    #[must_use]
    pub fn of(request: RequestView<'_>) -> Self {
        let span = (!request.was_lifted()).then(|| request.span());
        Self {
            blocks: request.blocks().to_vec(),
            pages: request.pages().map(|(position, page, _)| (position, page)).collect(),
            state: request.state().map(|(_, position)| position),
            tokens: request.next_token().get().max(span.map_or(0, |span| span.imported().get())),
            span: span
                .map(|span| [span.prompt(), span.imported(), span.resume_at()].map(|tokens| tokens.get())),
            landed: request.arrival() == Arrival::Device && !request.was_lifted(),
        }
    }

    /// The tokens of an import; none where a request is lifted again.
    pub(super) fn span(&self) -> Option<Result<PromptSpan, SpanError>> {
        let [prompt, imported, resume_at] = self.span?.map(Tokens::new);
        Some(PromptSpan::explicit(prompt, imported, resume_at))
    }

    /// Whether the import has landed in the pages.
    pub(super) const fn landed(&self) -> bool {
        self.landed
    }
}
