//! Which tokens an import brings, where the consumer resumes, and which blocks that takes.

/// The token arithmetic of one import.
///
/// An attention-only model imports the whole prompt and computes its last token again, for its logits. A state that
/// has absorbed a token must not absorb it twice: with any recurrent group every group stops one token earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Tokens of the prompt; at least 1.
    pub prompt_tokens: u64,
    /// Tokens whose rows the producer hands over.
    pub imported_tokens: u64,
    /// The first token that the consumer computes.
    pub resume_at: u64,
    /// Tokens of a block; at least 1.
    pub block_tokens: u32,
}

impl Span {
    /// The span of a prompt. A prompt or block of no tokens counts as one of 1.
    #[must_use]
    pub fn new(prompt_tokens: u64, block_tokens: u32, recurrent: bool) -> Self {
        let prompt_tokens = prompt_tokens.max(1);
        let resume_at = prompt_tokens - 1;
        let imported_tokens = if recurrent { resume_at } else { prompt_tokens };
        Self { prompt_tokens, imported_tokens, resume_at, block_tokens: block_tokens.max(1) }
    }

    /// The same tokens in blocks of another size.
    #[must_use]
    pub fn in_blocks_of(self, block_tokens: u32) -> Self {
        Self { block_tokens: block_tokens.max(1), ..self }
    }

    fn block(&self) -> u64 {
        u64::from(self.block_tokens)
    }

    /// Blocks that the producer hands over for a token-paged group.
    #[must_use]
    pub fn received_blocks(&self) -> u64 {
        self.imported_tokens.div_ceil(self.block())
    }

    /// The index of the one writable page.
    #[must_use]
    pub fn tail_page(&self) -> u64 {
        self.resume_at / self.block()
    }

    /// Pages up to and including the writable one. Never fewer than [`received_blocks`](Self::received_blocks), and
    /// one more when a recurrent model's import ends on a block boundary.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.tail_page().saturating_add(1)
    }
}

/// What only tests ask for: the program reports the planner's numbers, and tests compare them with these.
#[cfg(test)]
impl Span {
    /// Token slots of the received blocks.
    pub fn capacity(&self) -> u64 {
        self.received_blocks() * self.block()
    }

    /// Slots of the last received block that no imported token uses.
    pub fn holes(&self) -> u64 {
        self.capacity() - self.imported_tokens
    }

    /// Imported tokens of the writable page; possibly none.
    pub fn tail_tokens(&self) -> u64 {
        self.imported_tokens.saturating_sub(self.tail_page() * self.block())
    }
}

#[cfg(test)]
mod tests {
    use super::Span;

    /// (prompt, block, recurrent) and (received, capacity, holes, tail page, rows in it).
    type Case = ((u64, u32, bool), (u64, u64, u64, u64, u64));

    const WORKED: [Case; 10] = [
        ((32_019, 128, false), (251, 32_128, 109, 250, 19)),
        ((32_000, 128, false), (250, 32_000, 0, 249, 128)),
        ((100, 128, false), (1, 128, 28, 0, 100)),
        ((32_019, 64, false), (501, 32_064, 45, 500, 19)),
        ((32_001, 128, true), (250, 32_000, 0, 250, 0)),
        ((32_001, 128, false), (251, 32_128, 127, 250, 1)),
        ((32_000, 128, true), (250, 32_000, 1, 249, 127)),
        ((1, 128, false), (1, 128, 127, 0, 1)),
        ((1, 128, true), (0, 0, 0, 0, 0)),
        ((32_019, 1600, true), (21, 33_600, 1_582, 20, 18)),
    ];

    #[test]
    fn worked_numbers() {
        for ((prompt, block, recurrent), expected) in WORKED {
            let span = Span::new(prompt, block, recurrent);
            let found =
                (span.received_blocks(), span.capacity(), span.holes(), span.tail_page(), span.tail_tokens());
            assert_eq!(found, expected, "{prompt} tokens, block {block}, recurrent {recurrent}");
            assert_eq!((span.resume_at, span.imported_tokens), (prompt - 1, prompt - u64::from(recurrent)));
        }
    }

    #[test]
    fn the_writable_page_is_the_last_received_one_or_the_next() {
        for prompt in 1..300 {
            for recurrent in [false, true] {
                let span = Span::new(prompt, 16, recurrent);
                let one_more = u64::from(recurrent && span.imported_tokens.is_multiple_of(16));
                assert_eq!(span.pages(), span.received_blocks() + one_more);
            }
        }
    }
}
