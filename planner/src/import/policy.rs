//! How an engine takes an unaligned prompt: three ways under one type.

use serde::{Deserialize, Serialize};

use super::span::{BlockSpan, PromptSpan, Recurrence};
use crate::error::SpanError;
use crate::quantity::Tokens;

/// What becomes of a prompt's partly filled last block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// It is received in the host pool and lifted into one page: decoding resumes with a single-token forward.
    #[default]
    LiftTail,
    /// It is left out: the decoder computes its tokens again, which is a prefill, however short.
    RoundDown,
    /// It lands on the device with all blocks before it, where there are pages enough; otherwise it is lifted. A
    /// [`Lifecycle`](crate::lifecycle::Lifecycle) that has found some of the blocks lifts it too.
    LandOnDevice,
}

/// Where an import's blocks arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrival {
    /// In the host pool; the last block is lifted from there.
    HostThenLift,
    /// In the host pool; nothing is lifted, because the writable page begins empty.
    Host,
    /// On the device.
    Device,
}

/// What a [`Policy`] decided for one import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// What is imported, and where decoding resumes.
    pub span: PromptSpan,
    /// The same in blocks.
    pub blocks: BlockSpan,
    /// Where it arrives.
    pub arrival: Arrival,
    /// Pages that the import needs on the device before it starts; the writable one is among them.
    pub pages: u32,
    /// Prompt tokens that are left to the decoder: 1 where it only replays or computes the last.
    pub left: Tokens,
}

impl Policy {
    /// Decides for a prompt in blocks of `block_tokens` tokens, with `free_pages` pages free.
    ///
    /// ```
    /// use pagelift_planner::import::{Arrival, Policy, Recurrence};
    /// use pagelift_planner::quantity::Tokens;
    /// let (prompt, block) = (Tokens::new(32_019), Tokens::new(128));
    /// let lift = Policy::LiftTail.decide(prompt, Recurrence::None, block, 1)?;
    /// assert_eq!((lift.arrival, lift.pages, lift.left.get()), (Arrival::HostThenLift, 1, 1));
    /// // 250 whole blocks are 32,000 tokens: the other 19 are computed again.
    /// let round = Policy::RoundDown.decide(prompt, Recurrence::None, block, 1)?;
    /// assert_eq!((round.arrival, round.left.get()), (Arrival::Host, 19));
    /// let land = Policy::LandOnDevice.decide(prompt, Recurrence::None, block, 251)?;
    /// assert_eq!((land.arrival, land.pages), (Arrival::Device, 251));
    /// # Ok::<(), pagelift_planner::error::SpanError>(())
    /// ```
    ///
    /// # Errors
    /// Where the prompt is empty, a block has no slots, or ids would need more than 32 bits. Whether enough pages are
    /// free for [`Decision::pages`] is the engine's to say: it may wait for them.
    pub fn decide(
        self,
        prompt_tokens: Tokens,
        recurrence: Recurrence,
        block_tokens: Tokens,
        free_pages: u32,
    ) -> Result<Decision, SpanError> {
        let whole = PromptSpan::new(prompt_tokens, recurrence)?;
        let blocks = whole.in_blocks_of(block_tokens)?;
        let span = match self {
            Self::RoundDown => {
                // The decoder computes the last token in any case, so a block that it fills is not whole before it.
                let before_last = whole.resume_at().get();
                let partial = before_last.checked_rem(block_tokens.get()).ok_or(SpanError::EmptyBlock)?;
                let rounded = Tokens::new(before_last.saturating_sub(partial));
                PromptSpan::explicit(prompt_tokens, rounded, rounded)?
            }
            Self::LiftTail | Self::LandOnDevice => whole,
        };
        let blocks = if self == Self::RoundDown { span.in_blocks_of(block_tokens)? } else { blocks };
        let (arrival, pages) = match self {
            Self::LandOnDevice if blocks.endpoints() <= free_pages => (Arrival::Device, blocks.endpoints()),
            _ if blocks.tail_tokens() == Tokens::ZERO => (Arrival::Host, 1),
            _ => (Arrival::HostThenLift, 1),
        };
        let left = prompt_tokens.saturating_sub(span.resume_at());
        Ok(Decision { span, blocks, arrival, pages, left })
    }
}
