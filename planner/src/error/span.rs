//! Prompts and blocks that cannot be.

use thiserror::Error;

/// Prompt arithmetic that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SpanError {
    /// A prompt has a token.
    #[error("a prompt has at least 1 token")]
    EmptyPrompt,
    /// More tokens imported than the prompt has.
    #[error("{imported} tokens were imported of a prompt of {prompt}")]
    ImportedPastPrompt {
        /// Tokens imported.
        imported: u64,
        /// Tokens of the prompt.
        prompt: u64,
    },
    /// The decoder computes the token after the imported ones, or the last imported one again, and at least the
    /// prompt's last.
    #[error(
        "decoding cannot resume at token {resume_at}: expected the token after the {imported} imported ones, or the \
         last of these, before the prompt's end at {prompt}"
    )]
    ResumeOutOfPlace {
        /// The first token that is computed.
        resume_at: u64,
        /// Tokens imported.
        imported: u64,
        /// Tokens of the prompt.
        prompt: u64,
    },
    /// A block has a slot.
    #[error("a block has at least 1 token slot")]
    EmptyBlock,
    /// Block ids are 32 bits.
    #[error("{tokens} tokens need more blocks of {block_tokens} than 32-bit ids can name")]
    TooManyBlocks {
        /// Tokens.
        tokens: u64,
        /// Tokens of a block.
        block_tokens: u64,
    },
}
