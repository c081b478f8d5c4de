//! What the library's own arithmetic makes of a manifest's prompt.

use pagelift::import::{Policy, PromptSpan, Recurrence};
use pagelift::quantity::Tokens;
use serde::Serialize;

use super::RestoreError;
use crate::manifest::Manifest;
use crate::say::{count, number};

/// Tokens of a manifest's import.
pub fn span_of(manifest: &Manifest, policy: Policy) -> Result<PromptSpan, RestoreError> {
    let recurrent = manifest.groups().iter().any(|group| group.shape.recurrent);
    let block_tokens = Tokens::new(super::frames::block_tokens(manifest));
    let prompt = Tokens::new(manifest.span().prompt_tokens);
    let decision = policy.decide(prompt, recurrence(recurrent), block_tokens, u32::MAX);
    Ok(decision.map_err(pagelift::Error::from)?.span)
}

/// The library's word for it.
pub const fn recurrence(recurrent: bool) -> Recurrence {
    if recurrent { Recurrence::State } else { Recurrence::None }
}

/// The tokens of an import, and the blocks that hold them, as reports give them.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Imported {
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Tokens imported.
    pub imported_tokens: u64,
    /// The first token that is computed here.
    pub resume_at: u64,
    /// Token slots of a block.
    pub block_tokens: u64,
    /// Host blocks received of a token-paged group.
    pub host_blocks: u32,
    /// Their token slots.
    pub capacity: u64,
    /// Slots of them without an imported token.
    pub holes: u64,
    /// The writable page's position in the request.
    pub tail_page: u32,
    /// Imported tokens in it.
    pub tail_tokens: u64,
}

impl Imported {
    /// What there is to report of a manifest's import.
    pub fn of(manifest: &Manifest, span: PromptSpan) -> Result<Self, RestoreError> {
        let block_tokens = Tokens::new(manifest.span().block_tokens.into());
        let blocks = span.in_blocks_of(block_tokens).map_err(pagelift::Error::from)?;
        Ok(Self {
            prompt_tokens: span.prompt().get(),
            imported_tokens: span.imported().get(),
            resume_at: span.resume_at().get(),
            block_tokens: block_tokens.get(),
            host_blocks: blocks.received(),
            capacity: blocks.capacity().get(),
            holes: blocks.holes().get(),
            tail_page: blocks.tail_page(),
            tail_tokens: blocks.tail_tokens().get(),
        })
    }

    /// The same for a person.
    pub fn rows(&self) -> [(&'static str, String); 3] {
        let prompt = format!(
            "{}, {} imported, resumed at {}",
            count(self.prompt_tokens, "token"),
            number(self.imported_tokens),
            number(self.resume_at)
        );
        let blocks = format!(
            "{} of {}: {}, {}",
            number(self.host_blocks.into()),
            count(self.block_tokens, "token"),
            count(self.capacity, "slot"),
            count(self.holes, "hole")
        );
        let page = number(self.tail_page.into());
        let page = format!("page {page} with {}", count(self.tail_tokens, "imported token"));
        [("prompt", prompt), ("host blocks", blocks), ("writable page", page)]
    }
}
