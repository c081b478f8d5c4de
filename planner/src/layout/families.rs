//! The layouts of well-known models, as their engines keep them.
//!
//! Sizes are read from public engine sources (vLLM, SGLang, FlashMLA) in 2026.

use super::{ConvOrder, PagedLayout, PagedLayoutBuilder, RingLayout, StateLayout, StatePart};
use crate::error::LayoutError;

/// Bytes of a bf16 and of an f32.
const BF16: u32 = 2;
pub(super) const F32: u32 = 4;

impl PagedLayout {
    /// MLA in bf16 (DeepSeek V3): 512 latent and 64 rope values a token, 1152 bytes.
    ///
    /// # Errors
    /// Where `block_tokens` is zero or the page overflows.
    pub fn mla_bf16(block_tokens: u32) -> Result<Self, LayoutError> {
        Self::builder(block_tokens).segment("latent", 1152).build()
    }

    /// `fp8_ds_mla` (DeepSeek V3.2): 512 e4m3, 4 f32 scales, 64 bf16 rope values in one row of 656 bytes.
    ///
    /// # Errors
    /// Where `block_tokens` is zero or the page overflows.
    pub fn fp8_ds_mla(block_tokens: u32) -> Result<Self, LayoutError> {
        Self::builder(block_tokens).segment("latent", 656).build()
    }

    /// The fp8 indexer of DeepSeek V3.2: a segment of 128-byte keys, then one of 4-byte scales.
    ///
    /// # Errors
    /// Where `block_tokens` is zero or the page overflows.
    pub fn indexer_fp8(block_tokens: u32) -> Result<Self, LayoutError> {
        Self::builder(block_tokens).segment("key", 128).segment("scale", 4).build()
    }

    /// QSA's main cache in bf16 (Qwen3.x sparse attention): a segment for each KV head, its rows K\[256\] then
    /// V\[256\].
    ///
    /// # Errors
    /// Where a count is zero or the page overflows.
    pub fn qsa_main_bf16(block_tokens: u32, kv_heads: u32) -> Result<Self, LayoutError> {
        heads(block_tokens, kv_heads, 1024)
    }

    /// QSA's compressed index keys in bf16: 128 values for each group of 4 tokens, written when the group is whole.
    ///
    /// # Errors
    /// Where `block_tokens` is no multiple of 4, or the page overflows.
    pub fn qsa_compressed_bf16(block_tokens: u32) -> Result<Self, LayoutError> {
        Self::builder(block_tokens).tokens_per_row(4).segment("key", 256).build()
    }
}

impl PagedLayout {
    /// The MXFP4 indexer: a segment of 64-byte keys, then one of 4-byte scales.
    ///
    /// # Errors
    /// Where `block_tokens` is zero or the page overflows.
    pub fn indexer_mxfp4(block_tokens: u32) -> Result<Self, LayoutError> {
        Self::builder(block_tokens).segment("key", 64).segment("scale", 4).build()
    }

    /// DeepSeek V4 in fp8: a segment of rows of 448 e4m3 and 64 bf16 rope values, then one of 7 UE8M0 exponents and a pad
    /// byte. Pages are rounded up to a multiple of `rounding`: 576 or 512, as the engine has it.
    ///
    /// ```
    /// use pagelift_planner::layout::PagedLayout;
    /// assert_eq!(PagedLayout::deepseek_v4(64, 576)?.page_bytes().get(), 65 * 576);
    /// assert_eq!(PagedLayout::deepseek_v4(64, 512)?.page_bytes().get(), 73 * 512);
    /// # Ok::<(), pagelift_planner::error::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Where `block_tokens` or `rounding` is zero or the page overflows.
    pub fn deepseek_v4(block_tokens: u32, rounding: u32) -> Result<Self, LayoutError> {
        rounded(Self::builder(block_tokens).segment("latent", 576).segment("exponent", 8), rounding)
    }

    /// DeepSeek V4.1: a segment of 512-byte rows, then one of 16 UE8M0 exponents; pages are a multiple of 512 bytes.
    ///
    /// # Errors
    /// Where `block_tokens` is zero or the page overflows.
    pub fn deepseek_v4_1(block_tokens: u32) -> Result<Self, LayoutError> {
        rounded(Self::builder(block_tokens).segment("latent", 512).segment("exponent", 16), 512)
    }

    /// QSA's main cache in fp8: as [`PagedLayout::qsa_main_bf16`] with one byte a value, and a scale a tensor that is kept
    /// outside the cache.
    ///
    /// # Errors
    /// Where a count is zero or the page overflows.
    pub fn qsa_main_fp8(block_tokens: u32, kv_heads: u32) -> Result<Self, LayoutError> {
        heads(block_tokens, kv_heads, 512)
    }

    /// QSA's compressed index keys in fp8: `width` bytes (128 in the sources that were read) for each group of 4 tokens,
    /// without a scale.
    ///
    /// # Errors
    /// Where `block_tokens` is no multiple of 4, `width` is zero, or the page overflows.
    pub fn qsa_compressed_fp8(block_tokens: u32, width: u32) -> Result<Self, LayoutError> {
        Self::builder(block_tokens).tokens_per_row(4).segment("key", width).build()
    }
}

/// A segment of `row_bytes` bytes a row for each head.
fn heads(block_tokens: u32, heads: u32, row_bytes: u32) -> Result<PagedLayout, LayoutError> {
    // One more than a page may have is refused as any other number past it.
    let most = u32::try_from(super::MAX_SEGMENTS).unwrap_or(u32::MAX);
    (0..heads.min(most.saturating_add(1)))
        .fold(PagedLayout::builder(block_tokens), |layout, head| {
            layout.segment(&format!("head{head}"), row_bytes)
        })
        .build()
}

/// A layout whose pages are rounded up to a multiple of `rounding` bytes.
fn rounded(layout: PagedLayoutBuilder, rounding: u32) -> Result<PagedLayout, LayoutError> {
    let needed = layout.clone().build()?.page_bytes().get();
    let bytes = needed.checked_next_multiple_of(u64::from(rounding));
    layout.page_bytes(bytes.ok_or(LayoutError::Overflow { what: "the rounded page" })?).build()
}

impl RingLayout {
    /// QSA's ring of raw index keys: the smallest multiple of 4 slots that holds `4 + spec` and divides the block.
    ///
    /// ```
    /// use pagelift_planner::layout::RingLayout;
    /// assert_eq!(RingLayout::qsa(1600, 2, 256)?.slots().get(), 8);
    /// # Ok::<(), pagelift_planner::error::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::NoSlots`] where no such number divides `block_tokens`.
    pub fn qsa(block_tokens: u32, spec: u32, slot_bytes: u32) -> Result<Self, LayoutError> {
        let least = u64::from(spec).saturating_add(4).div_ceil(4);
        let fours = u64::from(block_tokens).checked_div(4).filter(|_| block_tokens.is_multiple_of(4));
        let slots = fours
            .and_then(|fours| least_divisor(fours, least))
            .and_then(|fours| u32::try_from(fours.saturating_mul(4)).ok())
            .ok_or(LayoutError::NoSlots)?;
        Self::builder(slots, slot_bytes).build()
    }
}

/// The least divisor of `number` that is not below `least`. Divisors come in pairs, the smaller of which is at most
/// the root: looking at those is quick for any `number` of 32 bits.
fn least_divisor(number: u64, least: u64) -> Option<u64> {
    let small = (1..=number.isqrt()).filter(|&small| number.is_multiple_of(small));
    small.flat_map(|small| [Some(small), number.checked_div(small)]).flatten().filter(|&d| d >= least).min()
}

/// The shape of one gated-delta-net layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GdnShape {
    /// Channels of the convolution, over all ranks.
    pub conv_dim: u32,
    /// Value heads, over all ranks.
    pub v_heads: u32,
    /// Values of a value head.
    pub v_dim: u32,
    /// Values of a key head.
    pub k_dim: u32,
    /// Speculative tokens: that many more convolution rows.
    pub spec: u32,
    /// Tensor-parallel ranks.
    pub tp: u32,
}

/// The shape of one Mamba2 layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SsmShape {
    /// Width of the convolution.
    pub kernel: u32,
    /// Inner channels, over all ranks.
    pub inner: u32,
    /// Groups of B and C, over all ranks.
    pub groups: u32,
    /// Values of the state.
    pub state: u32,
    /// Heads, over all ranks.
    pub heads: u32,
    /// Values of a head.
    pub head_dim: u32,
    /// Speculative tokens.
    pub spec: u32,
    /// Tensor-parallel ranks.
    pub tp: u32,
}

/// The shape of one PLE short convolution, kept whole on every rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PleShape {
    /// Width of the convolution.
    pub kernel: u32,
    /// Tokens of an n-gram.
    pub ngram: u32,
    /// Speculative tokens.
    pub spec: u32,
    /// Hidden size.
    pub hidden: u32,
    /// Channels of a hidden value.
    pub hc: u32,
}

/// The product of `factors`, or an overflow error that names `what`.
pub(super) fn product(what: &'static str, factors: &[u32]) -> Result<u32, LayoutError> {
    factors
        .iter()
        .try_fold(1_u32, |product, &factor| product.checked_mul(factor))
        .ok_or(LayoutError::Overflow { what })
}

/// `count / ranks`, which must be even.
fn share(what: &'static str, count: u32, ranks: u32) -> Result<u32, LayoutError> {
    match (count.checked_div(ranks), count.checked_rem(ranks)) {
        (Some(share), Some(0)) => Ok(share),
        _ => Err(LayoutError::UnevenRanks { what, count, ranks }),
    }
}

/// `a - 1 + b`, the rows of a convolution's window.
fn window(kernel: u32, spec: u32) -> Result<u32, LayoutError> {
    kernel
        .checked_sub(1)
        .and_then(|rows| rows.checked_add(spec))
        .ok_or(LayoutError::Overflow { what: "convolution window" })
}

impl StateLayout {
    /// Gated delta net: convolution window `(3 + spec, conv_dim / tp)` in bf16, then the temporal state
    /// `(v_heads / tp, v_dim, k_dim)` in f32.
    ///
    /// ```
    /// use pagelift_planner::layout::{GdnShape, StateLayout};
    /// let flash = GdnShape { conv_dim: 10_240, v_heads: 48, v_dim: 128, k_dim: 128, spec: 2, tp: 1 };
    /// assert_eq!(StateLayout::gdn(flash, None)?.state_bytes().get(), 3_248_128);
    /// # Ok::<(), pagelift_planner::error::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Where ranks do not divide evenly, or a size overflows.
    pub fn gdn(shape: GdnShape, page_bytes: Option<u64>) -> Result<Self, LayoutError> {
        let channels = share("conv_dim", shape.conv_dim, shape.tp)?;
        let heads = share("v_heads", shape.v_heads, shape.tp)?;
        let conv = product("conv state", &[window(4, shape.spec)?, channels, BF16])?;
        let temporal = product("temporal state", &[heads, shape.v_dim, shape.k_dim, F32])?;
        let parts = [StatePart::new("conv", conv), StatePart::new("temporal", temporal)];
        Ok(Self::new(&parts, page_bytes)?.with_conv_order(ConvOrder::Sd))
    }

    /// Mamba2: convolution window `(kernel - 1 + spec, (inner + 2·groups·state) / tp)` in bf16, then the SSM state
    /// `(heads / tp, head_dim, state)` in f32.
    ///
    /// # Errors
    /// Where ranks do not divide evenly, or a size overflows.
    pub fn ssm(shape: SsmShape, page_bytes: Option<u64>) -> Result<Self, LayoutError> {
        let wide = product("conv channels", &[2, shape.groups, shape.state])?
            .checked_add(shape.inner)
            .ok_or(LayoutError::Overflow { what: "conv channels" })?;
        let channels = share("conv channels", wide, shape.tp)?;
        let heads = share("heads", shape.heads, shape.tp)?;
        let conv = product("conv state", &[window(shape.kernel, shape.spec)?, channels, BF16])?;
        let ssm = product("ssm state", &[heads, shape.head_dim, shape.state, F32])?;
        let parts = [StatePart::new("conv", conv), StatePart::new("ssm", ssm)];
        Ok(Self::new(&parts, page_bytes)?.with_conv_order(ConvOrder::Sd))
    }

    /// PLE short convolution `((kernel - 1)·ngram + spec, hidden·hc)` in bf16, whole on every rank.
    ///
    /// # Errors
    /// Where a size overflows.
    pub fn ple(shape: PleShape, page_bytes: Option<u64>) -> Result<Self, LayoutError> {
        let rows = window(shape.kernel, 0)?
            .checked_mul(shape.ngram)
            .and_then(|rows| rows.checked_add(shape.spec))
            .ok_or(LayoutError::Overflow { what: "convolution window" })?;
        let conv = product("conv state", &[rows, shape.hidden, shape.hc, BF16])?;
        Ok(Self::new(&[StatePart::new("conv", conv)], page_bytes)?.with_conv_order(ConvOrder::Sd))
    }
}
