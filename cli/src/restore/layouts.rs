//! Which of the library's layouts a manifest's layout is.
//!
//! A layout that the library knows by name is made by that name, and one of any shape segment by segment: what
//! `restore` proves is then the library's arithmetic against the manifest's own.

use pagelift::error::LayoutError;
use pagelift::layout::{
    DenseShape, GdnShape, HeadOrder, KvRegions, KvScales, PagedLayout, PleShape, RingLayout, SsmShape,
    StateLayout, StatePart,
};

use crate::manifest::{self, Group, LayoutSpec, Manifest, Scales, Side};

/// A side of a group whose layout is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'m> {
    pub manifest: &'m Manifest,
    pub group: &'m Group,
    pub side: &'m Side,
}

impl Asked<'_> {
    /// The layout of rows of tokens.
    pub fn paged(self, tokens_per_row: u32) -> Result<PagedLayout, LayoutError> {
        let block = self.side.page_tokens;
        // The ranks divide the heads, or the manifest would have been refused.
        let on_rank = |heads: u32| heads.checked_div(self.manifest.tensor_parallel()).unwrap_or(heads);
        let padded = [&self.group.host, &self.group.device].into_iter().flatten().any(|s| s.row_padding > 0);
        match self.group.layout {
            // The named layouts know no padding of rows. Both sides name their segments alike.
            _ if padded => self.rows(tokens_per_row),
            LayoutSpec::MlaBf16 => PagedLayout::mla_bf16(block),
            LayoutSpec::Fp8DsMla => PagedLayout::fp8_ds_mla(block),
            LayoutSpec::IndexerFp8 => PagedLayout::indexer_fp8(block),
            LayoutSpec::IndexerMxfp4 => PagedLayout::indexer_mxfp4(block),
            LayoutSpec::DeepseekV4 { page_multiple } => PagedLayout::deepseek_v4(block, page_multiple),
            LayoutSpec::DeepseekV41 => PagedLayout::deepseek_v4_1(block),
            LayoutSpec::QsaMainBf16 { kv_heads } => PagedLayout::qsa_main_bf16(block, on_rank(kv_heads)),
            LayoutSpec::QsaMainFp8 { kv_heads } => PagedLayout::qsa_main_fp8(block, on_rank(kv_heads)),
            LayoutSpec::QsaCompressedBf16 => PagedLayout::qsa_compressed_bf16(block),
            LayoutSpec::QsaCompressedFp8 { width } => PagedLayout::qsa_compressed_fp8(block, width),
            LayoutSpec::Dense { kv_heads, head_dim, element_bytes, scales } => {
                let shape = DenseShape {
                    heads: on_rank(kv_heads),
                    dim: head_dim,
                    value_bytes: element_bytes,
                    order: match self.side.head_order {
                        manifest::HeadOrder::Nhd => HeadOrder::Nhd,
                        manifest::HeadOrder::Hnd => HeadOrder::Hnd,
                    },
                    regions: match self.side.kv_regions {
                        manifest::KvRegions::One => KvRegions::Packed,
                        manifest::KvRegions::Two => KvRegions::Separate,
                    },
                    scales: match scales {
                        Scales::None => KvScales::Outside,
                        Scales::PerTokenHead => KvScales::PerTokenHead,
                    },
                };
                PagedLayout::dense(block, shape)
            }
            _ => self.rows(tokens_per_row),
        }
    }

    /// The layout of a ring's slots.
    pub fn ring(self) -> Result<RingLayout, LayoutError> {
        let slot_bytes = self.group.shape.segments.iter().map(|segment| segment.row_bytes).sum();
        match self.side.row_padding {
            0 => {
                let (block, drafts) = (self.manifest.span().block_tokens, self.manifest.speculative_tokens());
                RingLayout::qsa(block, drafts, slot_bytes)
            }
            padding => RingLayout::builder(self.group.shape.rows, slot_bytes).slot_padding(padding).build(),
        }
    }

    /// The layout of a state.
    pub fn state(self) -> Result<StateLayout, LayoutError> {
        let (spec, tp) = (self.manifest.speculative_tokens(), self.manifest.tensor_parallel());
        let overflow = LayoutError::Overflow { what: "the convolution's channels" };
        match self.group.layout {
            // The named layout has a convolution of four taps.
            LayoutSpec::Gdn { v_heads, k_heads, v_dim, k_dim, conv_kernel: 4 } => {
                let keys = k_heads.checked_mul(k_dim).and_then(|keys| keys.checked_mul(2));
                let channels = v_heads.checked_mul(v_dim).and_then(|values| values.checked_add(keys?));
                let conv_dim = channels.ok_or(overflow)?;
                StateLayout::gdn(GdnShape { conv_dim, v_heads, v_dim, k_dim, spec, tp }, None)
            }
            LayoutSpec::Ssm { heads, head_dim, groups, state, conv_kernel: kernel } => {
                let inner = heads.checked_mul(head_dim).ok_or(overflow)?;
                let shape = SsmShape { kernel, inner, groups, state, heads, head_dim, spec, tp };
                StateLayout::ssm(shape, None)
            }
            LayoutSpec::Ple { conv_kernel: kernel, ngram, hidden, hc } => {
                StateLayout::ple(PleShape { kernel, ngram, spec, hidden, hc }, None)
            }
            _ => {
                let parts = self.group.shape.segments.iter();
                let parts: Vec<_> = parts.map(|s| StatePart::new(&s.name, s.row_bytes)).collect();
                StateLayout::new(&parts, None)
            }
        }
    }

    /// Segments that follow one another.
    fn rows(self, tokens_per_row: u32) -> Result<PagedLayout, LayoutError> {
        let page = PagedLayout::builder(self.side.page_tokens).tokens_per_row(tokens_per_row);
        let page = page.row_padding(self.side.row_padding);
        let segments = self.group.shape.segments.iter();
        segments.fold(page, |page, segment| page.segment(&segment.name, segment.row_bytes)).build()
    }
}
