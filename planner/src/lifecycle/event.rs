//! What a lifecycle is told, and what it wants done.
//!
//! Both are plain data with names of their own in JSON, so that a run can be written down and played again.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::rank::{Rank, Ranks};
use super::request::RequestId;
use super::round::Answer;
use crate::id::{HostBlockId, PageId};
use crate::import::{Arrival, Policy};
use crate::quantity::Tokens;

/// An engine's name for the content of a full block and of all before it: equal names mean equal content.
///
/// ```
/// use pagelift_planner::lifecycle::ContentHash;
/// assert_eq!(ContentHash::new(0xAB).to_string(), "000000000000000000000000000000ab");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash(u128);

impl ContentHash {
    /// Wraps a hash.
    #[must_use]
    pub const fn new(hash: u128) -> Self {
        Self(hash)
    }

    /// The hash.
    #[must_use]
    pub const fn get(self) -> u128 {
        self.0
    }

    /// Its low and its high half.
    pub(super) const fn halves(self) -> [u64; 2] {
        [self.0 as u64, (self.0 >> 64) as u64]
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// As hexadecimal text: few readers of JSON hold 128 bits.
impl Serialize for ContentHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ContentHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'_, str>::deserialize(deserializer)?;
        u128::from_str_radix(&text, 16).map(Self).map_err(de::Error::custom)
    }
}

/// A request that asks to be admitted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Admission<'a> {
    /// Tokens of its prompt.
    pub prompt: Tokens,
    /// What becomes of a partly filled last block.
    pub policy: Policy,
    /// Whether another engine holds the prompt's caches, and waits to hear that they were read.
    pub producer: bool,
    /// The contents of the prompt's full blocks, in order.
    pub hashes: Cow<'a, [ContentHash]>,
}

/// What became of one read of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Read {
    /// Its bytes are here.
    Landed,
    /// It failed or took too long, and does not write any more. The first so many tokens of the prompt are valid in
    /// what it reads.
    Failed {
        /// Those tokens.
        valid: Tokens,
    },
}

/// What happened.
///
/// Events of ranks may come twice, late, and in any order. Those of the engine come in its order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Event<'a> {
    /// The engine has a request.
    Admit(Admission<'a>),
    /// The engine has begun the reads that [`Effect::Read`] asked for: `each` of each of these ranks, at most
    /// [`Event::MOST_READS`] together.
    Posted {
        /// The request.
        request: RequestId,
        /// Who reads.
        ranks: Ranks,
        /// How many reads each of them has; none is fine.
        each: u8,
    },
    /// A read has ended.
    Read {
        /// The request.
        request: RequestId,
        /// Who reads.
        rank: Rank,
        /// Which of the rank's reads.
        part: u8,
        /// How it ended.
        read: Read,
    },
    /// A rank answers [`Effect::Lift`], [`Effect::Cancel`] or [`Effect::Stop`].
    Answer {
        /// The request.
        request: RequestId,
        /// The round that the effect named.
        round: u32,
        /// Who answers.
        rank: Rank,
        /// What it says.
        answer: Answer,
    },
    /// The engine begins the next step of a request, which computes so many tokens. Steps are counted from 1.
    Begin {
        /// The request.
        request: RequestId,
        /// Tokens: one, and the drafts.
        tokens: u32,
    },
    /// So many of a step's tokens were accepted.
    Accept {
        /// The request.
        request: RequestId,
        /// The step: the first that has not been accepted.
        step: u32,
        /// Tokens, at least 1.
        tokens: u32,
    },
    /// The engine names the content of the request's next full block.
    Name {
        /// The request.
        request: RequestId,
        /// The content.
        hash: ContentHash,
    },
    /// A rank has finished a request's steps up to this one: forwards, and mirrors where it has any. Their tickets are
    /// done.
    Mirrored {
        /// The request.
        request: RequestId,
        /// The rank.
        rank: Rank,
        /// The step.
        step: u32,
    },
    /// A rank has the states of [`Effect::Checkpoint`]s safe, for pages before this one.
    Checkpointed {
        /// The request.
        request: RequestId,
        /// The rank.
        rank: Rank,
        /// One past the last page's position.
        pages: u32,
    },
    /// A rank has pages of [`Effect::Spill`] safe, those before this one.
    Spilled {
        /// The request.
        request: RequestId,
        /// The rank.
        rank: Rank,
        /// One past the last page's position.
        pages: u32,
    },
    /// Something of a request that a rank was to write back is not written, and cannot be any more: rows, a page, or states. The
    /// rank says so once, and nothing of the request is safe there from then on. So it fails.
    Broken {
        /// The request.
        request: RequestId,
        /// The rank.
        rank: Rank,
    },
    /// The request has all of its tokens.
    Finish {
        /// The request.
        request: RequestId,
    },
    /// The client does not want it any more.
    Abort {
        /// The request.
        request: RequestId,
    },
    /// The engine wants its pages for others.
    Preempt {
        /// The request.
        request: RequestId,
    },
    /// A preempted request goes on, with the page it writes next and up to `behind` sealed ones before it, as many as are
    /// free.
    Resume {
        /// The request.
        request: RequestId,
        /// Sealed pages to lift again.
        behind: u32,
    },
    /// A rank is gone. The engine knows that nothing of it runs any more, neither copies nor reads.
    ///
    /// Its pages are lost with it. Host blocks are taken to hold what they held, those that it wrote too: others find them
    /// still, and preempted requests resume from them. Where a rank's host memory goes with it, end all requests, and make
    /// a new [`Lifecycle`](super::Lifecycle).
    ///
    /// A rank has many lives, and an event does not say of which it is. So the engine drops what a rank of an earlier life has said,
    /// its own `RankLost` too, once it has said [`Event::RankJoined`] for the next one: otherwise that one would be declared dead.
    RankLost {
        /// The rank.
        rank: Rank,
    },
    /// A rank is there again, with nothing in its pages. Of one that was not lost it is counted as a duplicate. Nothing that its
    /// earlier lives have said may come after it: see [`Event::RankLost`].
    RankJoined {
        /// The rank.
        rank: Rank,
    },
}

impl Event<'_> {
    /// The most reads of one import.
    pub const MOST_READS: u32 = 128;
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// With all of its tokens.
    Finished,
    /// By its client.
    Aborted,
    /// By a fault.
    Failed,
}

/// What is to be done. Effects of one event are in the order in which they are to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Effect {
    /// To the engine: the request is admitted, and its endpoints are held.
    Admitted {
        /// Its id.
        request: RequestId,
        /// Blocks that others had published.
        found: u32,
        /// The first token that it computes.
        resume_at: Tokens,
        /// Tokens of the prompt that are left to the engine.
        left: Tokens,
        /// Where blocks arrive.
        arrival: Arrival,
    },
    /// To the transport: read the blocks at these positions of the prompt, then say [`Event::Posted`].
    Read {
        /// The request.
        request: RequestId,
        /// The first position.
        first: u32,
        /// One past the last.
        end: u32,
    },
    /// To the producer: its blocks are not needed any more. Once for each import.
    Notify {
        /// The request.
        request: RequestId,
    },
    /// To the engine, where it waits: all blocks have arrived.
    Received {
        /// The request.
        request: RequestId,
    },
    /// To the page maps of all ranks: mirror this page to this block.
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
    /// To all ranks: lift the request's pages from their blocks, all of them, and answer.
    Lift {
        /// The request.
        request: RequestId,
        /// The round to answer.
        round: u32,
    },
    /// To all ranks: the lift is not wanted any more; whoever has not begun it acknowledges. Who has, answers when it is
    /// done.
    Cancel {
        /// The request.
        request: RequestId,
        /// The round to answer.
        round: u32,
    },
    /// To the engine: all ranks have lifted it, steps may begin.
    Lifted {
        /// The request.
        request: RequestId,
    },
    /// To all ranks: write the request's states to its block at this position, after the steps so far and before the next.
    Checkpoint {
        /// The request.
        request: RequestId,
        /// The position.
        position: u32,
    },
    /// To all ranks: write this page of the request to its block.
    Spill {
        /// The request.
        request: RequestId,
        /// The position.
        position: u32,
    },
    /// To all ranks: write the request's states to its block at this position, after the steps so far, as a part of the
    /// stop that follows.
    Save {
        /// The request.
        request: RequestId,
        /// The position.
        position: u32,
    },
    /// To all ranks: begin nothing more for the request, finish what was begun, and answer.
    Stop {
        /// The request.
        request: RequestId,
        /// The round to answer.
        round: u32,
    },
    /// To the engine: all rows of this page are safe in its block.
    Sealed {
        /// The request.
        request: RequestId,
        /// Its position.
        position: u32,
        /// The block.
        block: HostBlockId,
    },
    /// A block is used by one request more, which found it.
    Pin {
        /// The request.
        request: RequestId,
        /// The block.
        block: HostBlockId,
    },
    /// Others may find this block from now on.
    Publish {
        /// The content.
        hash: ContentHash,
        /// The block.
        block: HostBlockId,
    },
    /// Nobody finds this block any more; its memory is given away after this.
    Hide {
        /// The content.
        hash: ContentHash,
        /// The block.
        block: HostBlockId,
    },
    /// To the page maps of all ranks: unmap this page. It is given away after this.
    ReleasePage {
        /// The request that had it.
        request: RequestId,
        /// The page.
        page: PageId,
    },
    /// A request does not use this block any more.
    ReleaseBlock {
        /// The request that had it.
        request: RequestId,
        /// The block.
        block: HostBlockId,
    },
    /// To the engine: the request has no pages any more, and can be resumed.
    Preempted {
        /// The request.
        request: RequestId,
    },
    /// To the engine: the request is over, and its id with it.
    Ended {
        /// The request.
        request: RequestId,
        /// How.
        outcome: Outcome,
        /// Tokens from the prompt's first on whose rows were valid in the host pool: what need not be computed again
        /// where they are found, or read again.
        valid: Tokens,
    },
}
