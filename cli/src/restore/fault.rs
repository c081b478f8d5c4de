//! Faults that are played, and when.

use clap::ValueEnum;
use serde::Serialize;

use crate::manifest::SplitMix64;
use crate::say::count;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// The client does not want the request any more; then it comes again.
    Abort,
    /// Messages of the transport and of the rank come up to three steps late, and in another order.
    Late,
    /// Every message of the transport and of the rank comes twice, the second up to three steps late.
    Duplicate,
    /// The rank dies, with all that it had on the device; another takes its place, and the request comes again.
    WorkerDeath,
    /// The request loses its pages to others, and goes on when they are there again.
    Preempt,
}

/// When a fault happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// While blocks are read.
    Reading,
    /// When the rank was told to lift them.
    Lifting,
    /// When it is lifted, and no step has begun.
    Lifted,
    /// After a step's launches, before their answers have arrived. Steps are counted from 1.
    Step(u64),
}

impl Fault {
    /// When it happens, in a run that takes at least so many steps; `None` for what happens all the time.
    pub fn moment(self, seed: u64, steps: u64, reads: bool) -> Option<Moment> {
        let mut random = SplitMix64::new(seed);
        let mut step = || Moment::Step(random.below(usize::try_from(steps).unwrap_or(usize::MAX)) as u64 + 1);
        let mut moments = match self {
            Self::Late | Self::Duplicate => return None,
            Self::Preempt if steps > 0 => return Some(step()),
            Self::Preempt => return Some(Moment::Lifted),
            Self::Abort | Self::WorkerDeath => vec![Moment::Lifting],
        };
        moments.extend(reads.then_some(Moment::Reading));
        moments.extend((steps > 0).then(&mut step));
        let at = SplitMix64::at(seed, 1) as usize % moments.len().max(1);
        moments.get(at).copied()
    }
}

/// A fault that was played, and what came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Injected {
    /// Which.
    pub fault: Fault,
    /// When, in words.
    pub moment: String,
    /// Blocks of the request that were published when it had ended, each of them whole; of a preempted one, when it was.
    pub published: u64,
    /// Pages and host blocks that were held then, by anyone.
    pub pages_held: u64,
    /// Those blocks.
    pub blocks_held: u64,
    /// Messages that came late, or twice.
    pub messages: u64,
}

impl Injected {
    /// What a person should know of it.
    pub fn words(&self) -> String {
        let Self { moment, published, pages_held, blocks_held, messages, .. } = self;
        let held = match (pages_held, blocks_held) {
            (0, 0) => "all pages and blocks were free".to_owned(),
            (pages, blocks) => format!("{} and {} were held", count(*pages, "page"), count(*blocks, "block")),
        };
        let published = match published {
            0 => "nothing of it was published".into(),
            n => format!("{} of it, each whole, stayed published", count(*n, "block")),
        };
        match self.fault {
            Fault::Abort => format!(
                "abort {moment}: {published}, and {held} when it had ended; the same prompt was then restored"
            ),
            Fault::WorkerDeath => format!(
                "worker death {moment}: the request failed, {published}, and {held}; another worker then \
                 restored the same prompt"
            ),
            Fault::Preempt => {
                format!("preempted {moment}: {held} meanwhile; then it was lifted again, and went on")
            }
            Fault::Late => format!("{} came late, and nothing was lost", count(*messages, "message")),
            Fault::Duplicate => {
                format!("{} came twice, and did nothing twice", count(*messages, "message"))
            }
        }
    }
}
