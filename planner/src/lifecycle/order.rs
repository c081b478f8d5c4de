//! What a scheduler tells its ranks.

use serde::{Deserialize, Serialize};

use super::event::Effect;
use super::lists::LiftLists;
use super::machine::Lifecycle;
use super::request::RequestId;
use crate::id::{HostBlockId, PageId};

/// What every rank is told to do: plain data, to be sent to other threads and processes in the order in which it comes.
///
/// ```
/// use pagelift_planner::import::{Policy, Recurrence};
/// use pagelift_planner::lifecycle::*;
/// use pagelift_planner::quantity::Tokens;
/// # let mut lifecycle = Lifecycle::new(LifecycleOptions {
/// #     ranks: 1, writers: Ranks::first(1), block_tokens: 16, recurrence: Recurrence::None,
/// #     requests: 8, blocks: 64, pages: 4, keep: 0, draft_lag: 0, retries: 1, limits: FrameLimits::default(),
/// # })?;
/// // A prompt that nobody has to send: its first page is written next.
/// let admission =
///     Admission { prompt: Tokens::new(20), policy: Policy::LiftTail, producer: false, hashes: vec![].into() };
/// lifecycle.apply(&Event::Admit(admission))?;
/// let orders: Vec<Order> = lifecycle.orders().collect();
/// assert!(matches!(orders[..], [Order::Map { position: 0, .. }, Order::Lift { round: 1, .. }]));
///
/// let line = serde_json::to_string(&orders[0])?;
/// assert_eq!(line, r#"{"order":"map","request":{"slot":0,"generation":1},"position":0,"page":0,"block":0}"#);
/// assert_eq!(serde_json::from_str::<Order>(&line)?, orders[0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Order {
    /// Mirror this page to this block.
    Map {
        /// The request.
        request: RequestId,
        /// Its position.
        position: u32,
        /// The page.
        page: PageId,
        /// The block.
        block: HostBlockId,
    },
    /// Lift the request's pages, and answer.
    Lift {
        /// The request.
        request: RequestId,
        /// The round to answer.
        round: u32,
        /// What lies where.
        lists: LiftLists,
    },
    /// Acknowledge the lift where it has not begun.
    Cancel {
        /// The request.
        request: RequestId,
        /// The round to answer.
        round: u32,
    },
    /// A step of the request, which writes rows of tokens `from..to`: its own, and those that a draft layer changes once more.
    /// What was ordered before is done before it.
    Begin {
        /// The request.
        request: RequestId,
        /// The step.
        step: u32,
        /// The first token, at the earliest.
        from: u64,
        /// One past the last, at the latest.
        to: u64,
    },
    /// Write the request's states to its block at this position, before its next step.
    Checkpoint {
        /// The request.
        request: RequestId,
        /// The position.
        position: u32,
    },
    /// Write this page of the request to its block.
    Spill {
        /// The request.
        request: RequestId,
        /// The position.
        position: u32,
    },
    /// Write the request's states to its block at this position, as a part of the stop that follows.
    Save {
        /// The request.
        request: RequestId,
        /// The position.
        position: u32,
    },
    /// Begin nothing more for the request, finish what was begun, and answer.
    Stop {
        /// The request.
        request: RequestId,
        /// The round to answer.
        round: u32,
    },
    /// Unmap this page: another request will get it.
    ReleasePage {
        /// The request that had it.
        request: RequestId,
        /// The page.
        page: PageId,
    },
}

impl Order {
    /// Whose it is.
    #[must_use]
    pub const fn request(&self) -> RequestId {
        match self {
            Self::Map { request, .. }
            | Self::Lift { request, .. }
            | Self::Cancel { request, .. }
            | Self::Begin { request, .. }
            | Self::Checkpoint { request, .. }
            | Self::Spill { request, .. }
            | Self::Save { request, .. }
            | Self::Stop { request, .. }
            | Self::ReleasePage { request, .. } => *request,
        }
    }

    /// What an effect of the last event asks ranks to do, if anything.
    fn of(effect: Effect, lifecycle: &Lifecycle) -> Option<Self> {
        Some(match effect {
            Effect::Map { request, position, page, block } => Self::Map { request, position, page, block },
            Effect::Lift { request, round } => {
                Self::Lift { request, round, lists: LiftLists::of(lifecycle.request(request)?) }
            }
            Effect::Cancel { request, round } => Self::Cancel { request, round },
            Effect::Checkpoint { request, position } => Self::Checkpoint { request, position },
            Effect::Spill { request, position } => Self::Spill { request, position },
            Effect::Save { request, position } => Self::Save { request, position },
            Effect::Stop { request, round } => Self::Stop { request, round },
            Effect::ReleasePage { request, page } => Self::ReleasePage { request, page },
            _ => return None,
        })
    }

    /// The step that the last event has begun.
    fn begun(lifecycle: &Lifecycle) -> Option<Self> {
        let request = lifecycle.begun()?;
        let view = lifecycle.request(request)?;
        let from = view.first_written().get();
        Some(Self::Begin { request, step: view.begun(), from, to: view.reach().get() })
    }
}

impl Lifecycle {
    /// What all ranks have to be told after [`Lifecycle::apply`]: what the effects ask of them, and the step that was begun.
    /// Nothing, where the event was refused.
    pub fn orders(&self) -> impl Iterator<Item = Order> {
        let asked = self.effects().iter().filter_map(|effect| Order::of(*effect, self));
        asked.chain(Order::begun(self))
    }
}
