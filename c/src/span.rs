//! Which tokens of a prompt are imported, and which page is written next.

use pagelift::import;
use pagelift::quantity::Tokens;

use crate::foreign::{In, Out};
use crate::status::{Outcome, Status, answer, bad_value};

/// Whether groups keep recurrent state.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recurrence {
    /// Attention only: all tokens are imported, and the last is computed again for its logits.
    None = 0,
    /// Some group keeps recurrent state: the last token is not imported, for a state must not absorb it twice.
    State = 1,
}

fn recurrence(recurrence: u32) -> Outcome<import::Recurrence> {
    match recurrence {
        0 => Ok(import::Recurrence::None),
        1 => Ok(import::Recurrence::State),
        _ => Err(bad_value("recurrence", recurrence, "a pagelift_recurrence")),
    }
}

/// Which tokens of a prompt are imported, and the first that the decoder computes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromptSpan {
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Tokens imported.
    pub imported_tokens: u64,
    /// The first token that the decoder computes.
    pub resume_at: u64,
}

impl From<import::PromptSpan> for PromptSpan {
    fn from(span: import::PromptSpan) -> Self {
        let (prompt_tokens, imported_tokens) = (span.prompt().get(), span.imported().get());
        Self { prompt_tokens, imported_tokens, resume_at: span.resume_at().get() }
    }
}

impl PromptSpan {
    /// As Rust has it, which is checked.
    pub fn span(self) -> Outcome<import::PromptSpan> {
        let [prompt, imported, resume] =
            [self.prompt_tokens, self.imported_tokens, self.resume_at].map(Tokens::new);
        Ok(import::PromptSpan::explicit(prompt, imported, resume)?)
    }
}

/// The span of a prompt of `prompt_tokens` tokens; `recurrence` is a pagelift_recurrence.
///
/// Errors: PAGELIFT_SPAN for a prompt of no tokens, PAGELIFT_BAD_VALUE.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_prompt_span_new(
    prompt_tokens: u64,
    recurrence: u32,
    span: Out<PromptSpan>,
) -> Status {
    answer(|| {
        let span = span.ready("span")?;
        let recurrence = self::recurrence(recurrence)?;
        span.put(import::PromptSpan::new(Tokens::new(prompt_tokens), recurrence)?.into());
        Ok(())
    })
}

/// A span as the engine decided it, checked.
///
/// Errors: PAGELIFT_SPAN where more is imported than the prompt has, or decoding does not resume at the token after the
/// imported ones or at the last of them, inside the prompt.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_prompt_span_explicit(
    prompt_tokens: u64,
    imported_tokens: u64,
    resume_at: u64,
    span: Out<PromptSpan>,
) -> Status {
    answer(|| {
        let span = span.ready("span")?;
        span.put(PromptSpan { prompt_tokens, imported_tokens, resume_at }.span()?.into());
        Ok(())
    })
}

/// A prompt's span in blocks of one size.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSpan {
    /// Token slots of a block.
    pub block_tokens: u64,
    /// Token slots of the received blocks.
    pub capacity: u64,
    /// Slots of the received blocks that hold no imported token.
    pub holes: u64,
    /// Imported tokens in the writable page, possibly none.
    pub tail_tokens: u64,
    /// Blocks received.
    pub received: u32,
    /// The writable page: the one that `resume_at` lies in.
    pub tail_page: u32,
    /// Blocks up to the writable page, that one included.
    pub endpoints: u32,
    /// 0.
    pub reserved: u32,
}

impl From<import::BlockSpan> for BlockSpan {
    fn from(span: import::BlockSpan) -> Self {
        Self {
            block_tokens: span.block_tokens().get(),
            capacity: span.capacity().get(),
            holes: span.holes().get(),
            tail_tokens: span.tail_tokens().get(),
            received: span.received(),
            tail_page: span.tail_page(),
            endpoints: span.endpoints(),
            reserved: 0,
        }
    }
}

/// A span in blocks of `block_tokens` slots.
///
/// Errors: PAGELIFT_SPAN.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_prompt_span_in_blocks_of(
    span: In<PromptSpan>,
    block_tokens: u64,
    blocks: Out<BlockSpan>,
) -> Status {
    answer(|| {
        let blocks = blocks.ready("blocks")?;
        blocks.put(span.read("span")?.span()?.in_blocks_of(Tokens::new(block_tokens))?.into());
        Ok(())
    })
}

/// What becomes of a prompt's partly filled last block.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Received and lifted into one page: decoding resumes with a single-token forward.
    LiftTail = 0,
    /// Left out: the decoder computes its tokens again.
    RoundDown = 1,
    /// On the device with all blocks before it, where there are pages enough; otherwise it is lifted.
    LandOnDevice = 2,
}

/// Where an import's blocks arrive.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// In the host pool; the last block is lifted from there.
    HostThenLift = 0,
    /// In the host pool; nothing is lifted, because the writable page begins empty.
    Host = 1,
    /// On the device.
    Device = 2,
}

/// What a policy decided for one import.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Decision {
    /// sizeof(pagelift_decision).
    pub size: u32,
    /// A pagelift_arrival.
    pub arrival: u32,
    /// What is imported, and where decoding resumes.
    pub span: PromptSpan,
    /// The same in blocks.
    pub blocks: BlockSpan,
    /// Prompt tokens that are left to the decoder: 1 where it only replays or computes the last.
    pub left: u64,
    /// Pages that the import needs on the device before it starts; the writable one is among them.
    pub pages: u32,
    /// 0.
    pub reserved: u32,
}

/// Decides what becomes of a prompt's partly filled last block, in blocks of `block_tokens` tokens, with `free_pages`
/// pages free. `policy` is a pagelift_policy, `recurrence` a pagelift_recurrence. Set `decision->size` before.
///
/// Errors: PAGELIFT_SPAN where the prompt is empty, a block has no slots, or ids would need more than 32 bits;
/// PAGELIFT_BAD_VALUE, PAGELIFT_WRONG_SIZE.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_decide(
    policy: u32,
    prompt_tokens: u64,
    recurrence: u32,
    block_tokens: u64,
    free_pages: u32,
    decision: Out<Decision>,
) -> Status {
    answer(|| {
        let decision = decision.sized("decision")?;
        let recurrence = self::recurrence(recurrence)?;
        let policy = match policy {
            0 => import::Policy::LiftTail,
            1 => import::Policy::RoundDown,
            2 => import::Policy::LandOnDevice,
            _ => return Err(bad_value("policy", policy, "a pagelift_policy")),
        };
        let (prompt, block) = (Tokens::new(prompt_tokens), Tokens::new(block_tokens));
        let decided = policy.decide(prompt, recurrence, block, free_pages)?;
        let arrival = match decided.arrival {
            import::Arrival::HostThenLift => Arrival::HostThenLift,
            import::Arrival::Host => Arrival::Host,
            import::Arrival::Device => Arrival::Device,
        };
        decision.put_sized(Decision {
            size: 0,
            arrival: arrival as u32,
            span: decided.span.into(),
            blocks: decided.blocks.into(),
            left: decided.left.get(),
            pages: decided.pages,
            reserved: 0,
        });
        Ok(())
    })
}
