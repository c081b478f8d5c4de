//! What laws of lifts are told with: a plan's room, a launcher's options, and imports that are written down.

use pagelift::import::{PromptSpan, Recurrence};
use pagelift::plan::{PlanCapacity, TailRows};
use pagelift::quantity::Tokens;
use pagelift_cases::lift::{LiftCall, Lists};

pub const ROOM: PlanCapacity = PlanCapacity { jobs: 64, list_entries: 128 };

/// Tokens `0..tokens` of an attention-only model, whose only lifted group is group 0.
pub fn simple(tokens: u64, blocks: &[u32], page: u32, mode: TailRows) -> LiftCall {
    let span = PromptSpan::new(Tokens::new(tokens), Recurrence::None).unwrap();
    let lists = Lists { group: 0, blocks: blocks.into(), pages: vec![page], landed: false };
    LiftCall { span, mode, lists: vec![lists] }
}
