//! The file format, field by field as it stands in the JSON. `read` makes it of JSON, checked for
//! type and bounds; `load` checks the rest.

use std::fmt;

use super::fields::Word;

/// The version of the format that this program reads.
pub const VERSION: u64 = 1;

/// The root object.
#[derive(Debug)]
pub struct ManifestSpec {
    pub model: String,
    pub prompt_tokens: u64,
    pub block_tokens: u32,
    pub tensor_parallel: u32,
    pub speculative_tokens: u32,
    pub pools: Vec<PoolSpec>,
    pub groups: Vec<GroupSpec>,
}

/// A pool of blocks.
#[derive(Debug)]
pub struct PoolSpec {
    pub name: String,
    pub memory: Memory,
    pub order: PoolOrder,
    pub layers: u32,
    pub blocks: u32,
    pub blocks_per_extent: Option<u32>,
    pub page_bytes: u64,
    pub block_padding: u64,
    pub null_block: Option<u32>,
}

/// Which memory a pool lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Memory {
    /// Pinned host memory.
    Host,
    /// The memory of the GPU; ordinary memory where the CPU stands in for one.
    Device,
}

impl Word for Memory {
    const WORDS: &'static [(&'static str, Self)] = &[("host", Self::Host), ("device", Self::Device)];
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which index of an extent varies slowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolOrder {
    /// `[layers, blocks, page]`: each layer is one contiguous run.
    LayersOutermost,
    /// `[blocks, layers, page]`: each block is one contiguous run, packed over its layers.
    BlocksOutermost,
}

impl Word for PoolOrder {
    const WORDS: &'static [(&'static str, Self)] =
        &[("layers-outermost", Self::LayersOutermost), ("blocks-outermost", Self::BlocksOutermost)];
}

/// A cache group.
#[derive(Debug)]
pub struct GroupSpec {
    pub name: String,
    pub layers: u32,
    pub layout: LayoutSpec,
    pub landing: Landing,
    pub lift: Lift,
    pub mirror: bool,
    pub host: Option<SideSpec>,
    pub device: Option<SideSpec>,
}

/// Where the blocks of a group arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Landing {
    /// In the host pool.
    Host,
    /// In the GPU's pages, at once.
    Gpu,
}

impl Word for Landing {
    const WORDS: &'static [(&'static str, Self)] = &[("host", Self::Host), ("gpu", Self::Gpu)];
}

/// What of a host-landed group is lifted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lift {
    /// The block that holds the first token to be computed, into the writable page.
    Tail,
    /// Every imported block.
    All,
    /// The one page of a state or ring.
    State,
    /// Nothing.
    None,
}

impl Word for Lift {
    const WORDS: &'static [(&'static str, Self)] =
        &[("tail", Self::Tail), ("all", Self::All), ("state", Self::State), ("none", Self::None)];
}

impl fmt::Display for Lift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where a group lies in a pool, and which blocks are its own.
#[derive(Debug)]
pub struct SideSpec {
    pub pool: String,
    pub first_layer: u32,
    pub layer_order: LayerOrder,
    pub row_padding: u32,
    pub head_order: Option<HeadOrder>,
    pub kv_regions: Option<KvRegions>,
    pub page_tokens: Option<u32>,
    pub blocks: BlocksSpec,
}

/// In which order the layers of a group follow each other in its pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LayerOrder {
    /// The group's first layer comes first.
    #[default]
    Forward,
    /// The group's last layer comes first.
    Reversed,
}

impl Word for LayerOrder {
    const WORDS: &'static [(&'static str, Self)] =
        &[("forward", Self::Forward), ("reversed", Self::Reversed)];
}

/// How the heads of a dense cache lie in a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HeadOrder {
    /// Heads inside rows: `[rows, heads, head_dim]`.
    #[default]
    Nhd,
    /// Heads outside rows: `[heads, rows, head_dim]`.
    Hnd,
}

impl Word for HeadOrder {
    const WORDS: &'static [(&'static str, Self)] = &[("nhd", Self::Nhd), ("hnd", Self::Hnd)];
}

/// Where K and V of a dense cache lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KvRegions {
    /// K, then V, in one page.
    #[default]
    One,
    /// K and V in pages of their own: two layers of the pool for each layer of the group.
    Two,
}

impl KvRegions {
    /// How many regions a page has.
    #[must_use]
    pub const fn count(self) -> u32 {
        match self {
            Self::One => 1,
            Self::Two => 2,
        }
    }
}

impl Word for KvRegions {
    const WORDS: &'static [(&'static str, Self)] = &[("one", Self::One), ("two", Self::Two)];
}

/// A block list.
#[derive(Debug)]
pub enum BlocksSpec {
    /// These ids, by position in the prompt.
    List(Vec<u32>),
    /// As many free ids as are needed, drawn at random.
    Scattered { seed: u64 },
}

/// What a page holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LayoutSpec {
    /// Latent attention: 512 latent and 64 rope values a token.
    MlaBf16,
    /// DeepSeek V3.2: 512 e4m3, four fp32 scales and 64 bf16 rope values a token.
    Fp8DsMla,
    /// DeepSeek V3.2 indexer keys: all rows' values, then all rows' scales.
    IndexerFp8,
    /// MXFP4 indexer keys: all rows' values, then all rows' scales.
    IndexerMxfp4,
    /// DeepSeek V4 in fp8: all rows' values, then all rows' exponents, in pages of a multiple of so many bytes.
    DeepseekV4 { page_multiple: u32 },
    /// DeepSeek V4.1: the same with other sizes.
    DeepseekV41,
    /// Qwen sparse attention: K then V of one head in a row, one segment a head.
    QsaMainBf16 { kv_heads: u32 },
    /// The same in fp8, with a scale a tensor that is kept outside the cache.
    QsaMainFp8 { kv_heads: u32 },
    /// Its compressed index keys, one for four tokens.
    QsaCompressedBf16,
    /// The same in fp8.
    QsaCompressedFp8 { width: u32 },
    /// K and V of each head, as MHA and GQA models keep them.
    Dense { kv_heads: u32, head_dim: u32, element_bytes: u32, scales: Scales },
    /// Qwen sparse attention's raw keys of the last tokens, at slot `position % slots`.
    Ring { slot_bytes: u32 },
    /// Gated delta net.
    Gdn { v_heads: u32, k_heads: u32, v_dim: u32, k_dim: u32, conv_kernel: u32 },
    /// Mamba2.
    Ssm { heads: u32, head_dim: u32, groups: u32, state: u32, conv_kernel: u32 },
    /// The short convolution of per-layer embeddings.
    Ple { conv_kernel: u32, ngram: u32, hidden: u32, hc: u32 },
    /// Rows of any shape.
    Segments { tokens_per_row: u32, segments: Vec<SegmentSpec> },
    /// A state of any shape.
    State { recurrent: bool, parts: Vec<PartSpec> },
}

/// The scales that a dense cache keeps in its pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scales {
    /// None: the values need none, or have one a tensor, which lies elsewhere.
    #[default]
    None,
    /// An fp32 for each token and head, of K and of V.
    PerTokenHead,
}

impl Word for Scales {
    const WORDS: &'static [(&'static str, Self)] =
        &[("none", Self::None), ("per-token-head", Self::PerTokenHead)];
}

/// A run of equally spaced rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentSpec {
    pub name: String,
    pub row_bytes: u32,
}

/// A part of a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartSpec {
    pub name: String,
    pub bytes: u32,
}
