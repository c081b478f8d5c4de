//! The arithmetic of a prompt: what arrives, what is missing, and where writing goes on.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::SpanError;
use crate::quantity::Tokens;

/// Whether a model keeps recurrent state (GDN, SSM, a PLE convolution).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Recurrence {
    /// Attention only: the decoder replays the prompt's last token, whose row it imported.
    None,
    /// A state that has absorbed a token must not absorb it twice: the last token is not imported.
    State,
}

/// Which tokens of a prompt are imported, and the first that the decoder computes.
///
/// ```
/// use pagelift_planner::{import::{PromptSpan, Recurrence}, quantity::Tokens};
/// // The same prompt for an attention-only and for a hybrid model.
/// let tokens = Tokens::new(32_001);
/// let plain = PromptSpan::new(tokens, Recurrence::None)?;
/// let hybrid = PromptSpan::new(tokens, Recurrence::State)?;
/// assert_eq!((plain.imported().get(), plain.resume_at().get()), (32_001, 32_000));
/// assert_eq!((hybrid.imported().get(), hybrid.resume_at().get()), (32_000, 32_000));
/// # Ok::<(), pagelift_planner::error::SpanError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct PromptSpan {
    prompt_tokens: Tokens,
    imported_tokens: Tokens,
    resume_at: Tokens,
}

impl PromptSpan {
    /// What a request has before it is admitted.
    pub(crate) const NOTHING: Self =
        Self { prompt_tokens: Tokens::ZERO, imported_tokens: Tokens::ZERO, resume_at: Tokens::ZERO };

    /// The span of a whole prompt.
    ///
    /// # Errors
    /// [`SpanError::EmptyPrompt`] for a prompt of no tokens.
    pub fn new(prompt_tokens: Tokens, recurrence: Recurrence) -> Result<Self, SpanError> {
        let Some(last) = prompt_tokens.get().checked_sub(1) else { return Err(SpanError::EmptyPrompt) };
        let resume_at = Tokens::new(last);
        let imported_tokens = match recurrence {
            Recurrence::None => prompt_tokens,
            Recurrence::State => resume_at,
        };
        Ok(Self { prompt_tokens, imported_tokens, resume_at })
    }

    /// A span with `imported_tokens` and `resume_at` as the engine decided them: a policy may leave tokens to the
    /// decoder.
    ///
    /// # Errors
    /// Where more is imported than the prompt has, or decoding does not resume at the token after the imported ones
    /// or at the last of them, inside the prompt.
    pub fn explicit(
        prompt_tokens: Tokens,
        imported_tokens: Tokens,
        resume_at: Tokens,
    ) -> Result<Self, SpanError> {
        let (prompt, imported, resume) = (prompt_tokens.get(), imported_tokens.get(), resume_at.get());
        if prompt == 0 {
            return Err(SpanError::EmptyPrompt);
        }
        if imported > prompt {
            return Err(SpanError::ImportedPastPrompt { imported, prompt });
        }
        let follows = resume == imported || resume.checked_add(1) == Some(imported);
        if !follows || resume >= prompt {
            return Err(SpanError::ResumeOutOfPlace { resume_at: resume, imported, prompt });
        }
        Ok(Self { prompt_tokens, imported_tokens, resume_at })
    }

    /// Tokens of the prompt.
    #[must_use]
    pub const fn prompt(self) -> Tokens {
        self.prompt_tokens
    }

    /// Tokens imported.
    #[must_use]
    pub const fn imported(self) -> Tokens {
        self.imported_tokens
    }

    /// The first token that the decoder computes.
    #[must_use]
    pub const fn resume_at(self) -> Tokens {
        self.resume_at
    }

    /// The same span in blocks of `block_tokens` slots.
    ///
    /// # Errors
    /// Where a block has no slots, or ids would need more than 32 bits.
    pub fn in_blocks_of(self, block_tokens: Tokens) -> Result<BlockSpan, SpanError> {
        let (imported, block) = (self.imported_tokens.get(), block_tokens.get());
        let Some(tail_page) = self.resume_at.get().checked_div(block) else {
            return Err(SpanError::EmptyBlock);
        };
        let received = imported.div_ceil(block);
        let too_many =
            SpanError::TooManyBlocks { tokens: self.prompt_tokens.get(), block_tokens: block_tokens.get() };
        let capacity = received.checked_mul(block).ok_or(too_many)?;
        // The tail page may be one past the last received, so its number plus one must be an id too.
        let tail_page = u32::try_from(tail_page).ok().filter(|page| *page < u32::MAX).ok_or(too_many)?;
        let before_tail = u64::from(tail_page).checked_mul(block).ok_or(too_many)?;
        Ok(BlockSpan {
            block_tokens,
            received: u32::try_from(received).map_err(|_| too_many)?,
            capacity: Tokens::new(capacity),
            holes: Tokens::new(capacity.saturating_sub(imported)),
            tail_page,
            tail_tokens: Tokens::new(imported.saturating_sub(before_tail)),
        })
    }
}

impl fmt::Display for PromptSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { prompt_tokens, imported_tokens, resume_at } = self;
        write!(f, "{prompt_tokens}, {} imported, resume at {}", imported_tokens.get(), resume_at.get())
    }
}

/// A prompt's span in blocks of one size.
///
/// ```
/// use pagelift_planner::{import::{PromptSpan, Recurrence}, quantity::Tokens};
/// let span = PromptSpan::new(Tokens::new(32_000), Recurrence::None)?;
/// let blocks = span.in_blocks_of(Tokens::new(128))?;
/// // An aligned prompt still restores its last page.
/// assert_eq!((blocks.received(), blocks.holes().get(), blocks.tail_page()), (250, 0, 249));
/// # Ok::<(), pagelift_planner::error::SpanError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BlockSpan {
    block_tokens: Tokens,
    received: u32,
    capacity: Tokens,
    holes: Tokens,
    tail_page: u32,
    tail_tokens: Tokens,
}

impl BlockSpan {
    /// Token slots of a block.
    #[must_use]
    pub const fn block_tokens(self) -> Tokens {
        self.block_tokens
    }

    /// Blocks received.
    #[must_use]
    pub const fn received(self) -> u32 {
        self.received
    }

    /// Token slots of the received blocks.
    #[must_use]
    pub const fn capacity(self) -> Tokens {
        self.capacity
    }

    /// Slots of the received blocks that hold no imported token.
    #[must_use]
    pub const fn holes(self) -> Tokens {
        self.holes
    }

    /// The writable page: the one that `resume_at` lies in.
    #[must_use]
    pub const fn tail_page(self) -> u32 {
        self.tail_page
    }

    /// Imported tokens in the writable page, possibly none.
    #[must_use]
    pub const fn tail_tokens(self) -> Tokens {
        self.tail_tokens
    }

    /// Blocks up to the writable page, that one included: the received ones, and one more where nothing of the
    /// writable page was received.
    #[must_use]
    pub const fn endpoints(self) -> u32 {
        // `in_blocks_of` keeps the tail page below u32::MAX.
        self.tail_page.saturating_add(1)
    }
}

impl fmt::Display for BlockSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { received, block_tokens, holes, tail_page, tail_tokens, .. } = self;
        let (block, holes, tail) = (block_tokens.get(), holes.get(), tail_tokens.get());
        write!(
            f,
            "{received} blocks of {block} slots, {holes} holes, tail page {tail_page} with {tail} tokens"
        )
    }
}
