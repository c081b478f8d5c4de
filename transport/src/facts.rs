//! What an engine says of its groups that no geometry knows: element types, shapes, who holds what.
//!
//! Kernels move bytes and need none of it. Two engines that exchange bytes do: rows of 1,152 bytes may be 576 bf16 values
//! or something else, and nothing of that is guessed from sizes.

use std::fmt;
use std::sync::Arc;

use pagelift_planner::geometry::Memory;
use pagelift_planner::quantity::Tokens;
use serde::{Deserialize, Serialize};

/// The type of a segment's values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Element {
    /// 16 bits, 8 of them exponent.
    Bf16,
    /// IEEE half.
    F16,
    /// IEEE single.
    F32,
    /// 8 bits, 4 of them exponent.
    E4m3,
    /// 8 bits, 5 of them exponent.
    E5m2,
    /// 8 bits, all of them exponent: scales.
    Ue8m0,
    /// Bytes.
    U8,
    /// 64-bit integers.
    I64,
    /// Several types in one row, by the name of the format, such as `fp8_ds_mla`. The shape counts bytes.
    Mixed(Arc<str>),
}

impl Element {
    /// Bytes of a value.
    #[must_use]
    pub const fn bytes(&self) -> u32 {
        match self {
            Self::I64 => 8,
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
            Self::E4m3 | Self::E5m2 | Self::Ue8m0 | Self::U8 | Self::Mixed(_) => 1,
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
            Self::F32 => "f32",
            Self::E4m3 => "e4m3",
            Self::E5m2 => "e5m2",
            Self::Ue8m0 => "ue8m0",
            Self::U8 => "u8",
            Self::I64 => "i64",
            Self::Mixed(name) => name,
        })
    }
}

/// What each rank holds of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sharing {
    /// Its own heads or channels.
    Sharded,
    /// All of it: MLA's latents, indexer keys, PLE's convolution.
    Whole,
}

/// What an engine says of one group: which of its sides is exchanged, and what the values are.
#[derive(Clone, Debug)]
pub struct GroupFacts {
    pub(crate) name: Arc<str>,
    pub(crate) memory: Memory,
    pub(crate) device: u64,
    pub(crate) sharing: Sharing,
    pub(crate) draft: bool,
    pub(crate) live_blocks: u32,
    pub(crate) block_tokens: Option<Tokens>,
    pub(crate) reached: Option<Memory>,
    pub(crate) segments: Vec<(Arc<str>, Element, Vec<u32>)>,
    pub(crate) others: Option<(Element, Vec<u32>)>,
}

impl GroupFacts {
    /// The memory as a transport sees it.
    pub(crate) fn reached(&self) -> Memory {
        self.reached.unwrap_or(self.memory)
    }

    /// The group of that name, exchanged by its main side in `memory`: P's is where it exports from, D's where it lands.
    ///
    /// Unless said otherwise it is sharded, of the model itself and not of a draft, and has one live block.
    #[must_use]
    pub fn new(name: &str, memory: Memory) -> Self {
        Self {
            name: name.into(),
            memory,
            device: 0,
            sharing: Sharing::Sharded,
            draft: false,
            live_blocks: 1,
            block_tokens: None,
            reached: None,
            segments: Vec::new(),
            others: None,
        }
    }

    /// The values of a row of one segment, or of one part of a state: their type, and the shape of all of them.
    #[must_use]
    pub fn segment(mut self, name: &str, element: Element, shape: &[u32]) -> Self {
        self.segments.push((name.into(), element, shape.to_vec()));
        self
    }

    /// The values of a row of every segment that is not named: the heads of a dense cache.
    #[must_use]
    pub fn other_segments(mut self, element: Element, shape: &[u32]) -> Self {
        self.others = Some((element, shape.to_vec()));
        self
    }

    /// All of the group is on every rank.
    #[must_use]
    pub const fn whole_on_every_rank(mut self) -> Self {
        self.sharing = Sharing::Whole;
        self
    }

    /// The group belongs to draft layers.
    #[must_use]
    pub const fn draft(mut self) -> Self {
        self.draft = true;
        self
    }

    /// State blocks that a request keeps at one time; engines with speculation keep `2 + spec`.
    #[must_use]
    pub const fn live_blocks(mut self, blocks: u32) -> Self {
        self.live_blocks = blocks;
        self
    }

    /// Tokens of this group's blocks, where they are others than the engine's ([`Exchange::new`]): some engines keep groups in
    /// blocks of their own sizes.
    #[must_use]
    pub const fn in_blocks_of(mut self, tokens: Tokens) -> Self {
        self.block_tokens = Some(tokens);
        self
    }

    /// The memory as a transport sees it, where that is another than the geometry's: where a CPU stands in for the GPU, its
    /// memory is the host's.
    #[must_use]
    pub const fn reached_in(mut self, memory: Memory) -> Self {
        self.reached = Some(memory);
        self
    }

    /// The GPU that the group lies on, as the transport counts them; 0 unless said. Means nothing in host memory.
    #[must_use]
    pub const fn on_device(mut self, device: u64) -> Self {
        self.device = device;
        self
    }
}

/// What an engine says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    pub(crate) block_tokens: Tokens,
    pub(crate) tp: u32,
    pub(crate) rank: u32,
    pub(crate) pp: u32,
    pub(crate) pcp: u32,
    pub(crate) dcp: u32,
}

impl Exchange {
    /// One rank, with paged blocks of `block_tokens` tokens. These are the blocks that lists of an import name; a pool may
    /// keep each as several pages.
    #[must_use]
    pub const fn new(block_tokens: Tokens) -> Self {
        Self { block_tokens, tp: 1, rank: 0, pp: 1, pcp: 1, dcp: 1 }
    }

    /// This is rank `rank` of `tp` tensor-parallel ones.
    #[must_use]
    pub const fn rank(mut self, rank: u32, tp: u32) -> Self {
        (self.rank, self.tp) = (rank, tp);
        self
    }

    /// Stages of pipeline parallelism, and ranks of prefill and decode context parallelism. More than 1 of any is refused.
    #[must_use]
    pub const fn parallel(mut self, pp: u32, pcp: u32, dcp: u32) -> Self {
        (self.pp, self.pcp, self.dcp) = (pp, pcp, dcp);
        self
    }
}
