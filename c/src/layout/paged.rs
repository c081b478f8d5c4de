//! Pages of rows: any, and those of the families of models that are known by name.

use pagelift::layout;

use super::{Layout, PAGELIFT_AFTER, made};
use crate::foreign::{In, Out, Text};
use crate::status::{Status, bad_value};

/// A run of rows at a place of its own in a page.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// The name that pairs it with the other side's segment: UTF-8 that ends with a 0.
    pub name: Text,
    /// Bytes from the start of its region to row 0; of PAGELIFT_AFTER, it follows the segment before.
    pub offset: u64,
    /// Bytes of a row.
    pub row_bytes: u32,
    /// Bytes from one row to the next. 0 means `row_bytes`. Of a segment that follows another: `row_bytes` and the layout's
    /// `row_padding`, and this is 0.
    pub row_stride: u32,
    /// The region that `offset` counts from the start of: 0 where K and V do not lie apart.
    pub region: u32,
    /// 0.
    pub reserved: u32,
}

/// Pages of rows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PagedLayoutSpec {
    /// sizeof(pagelift_paged_layout_spec).
    pub size: u32,
    /// Token slots of a page.
    pub block_tokens: u32,
    /// Tokens that share one row; 0 means 1.
    pub tokens_per_row: u32,
    /// Unused bytes after each row of segments that follow one another.
    pub row_padding: u32,
    /// Bytes of a page where it is padded beyond its last row (of each region, where it has several); 0 where it is not.
    pub page_bytes: u64,
    /// The segments of a page.
    pub segments: In<Segment>,
    /// How many.
    pub segments_count: usize,
}

/// Makes a layout of pages of rows.
///
/// Errors: PAGELIFT_LAYOUT where rows do not divide the block, a size is 0 or overflows, or segments share bytes or names.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_paged_layout_new(spec: In<PagedLayoutSpec>, layout: Out<Layout>) -> Status {
    made(layout, || {
        let spec = spec.sized("spec")?;
        let mut builder = layout::PagedLayout::builder(spec.block_tokens)
            .tokens_per_row(spec.tokens_per_row.max(1))
            .row_padding(spec.row_padding);
        if spec.page_bytes != 0 {
            builder = builder.page_bytes(spec.page_bytes);
        }
        for segment in spec.segments.list(spec.segments_count, "spec->segments")? {
            let name = segment.name.read("segment->name")?;
            if segment.reserved != 0 {
                return Err(bad_value("segment->reserved", segment.reserved, "0"));
            }
            builder = if segment.offset == PAGELIFT_AFTER {
                if segment.row_stride != 0 || segment.region != 0 {
                    let found = format!("row_stride {} and region {}", segment.row_stride, segment.region);
                    return Err(bad_value("segment", found, "0 for both where it follows another"));
                }
                builder.segment(&name, segment.row_bytes)
            } else {
                let stride = if segment.row_stride == 0 { segment.row_bytes } else { segment.row_stride };
                let placed = layout::Segment::new(&name, segment.offset, segment.row_bytes, stride)?;
                builder.segment_at(placed.in_region(segment.region))
            };
        }
        Ok(builder.build()?)
    })
}

/// MLA in bf16 (DeepSeek V3): 512 latent and 64 rope values a token, rows of 1152 bytes.
///
/// Errors: PAGELIFT_LAYOUT.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_paged_layout_mla_bf16(block_tokens: u32, layout: Out<Layout>) -> Status {
    made(layout, || Ok(layout::PagedLayout::mla_bf16(block_tokens)?))
}

/// `fp8_ds_mla` (DeepSeek V3.2): 512 e4m3 values, 4 f32 scales and 64 bf16 rope values in one row of 656 bytes.
///
/// Errors: PAGELIFT_LAYOUT.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_paged_layout_fp8_ds_mla(block_tokens: u32, layout: Out<Layout>) -> Status {
    made(layout, || Ok(layout::PagedLayout::fp8_ds_mla(block_tokens)?))
}

/// The fp8 indexer of DeepSeek V3.2: a segment of 128-byte keys, then one of 4-byte scales.
///
/// Errors: PAGELIFT_LAYOUT.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_paged_layout_indexer_fp8(block_tokens: u32, layout: Out<Layout>) -> Status {
    made(layout, || Ok(layout::PagedLayout::indexer_fp8(block_tokens)?))
}

/// The MXFP4 indexer: a segment of 64-byte keys, then one of 4-byte scales.
///
/// Errors: PAGELIFT_LAYOUT.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_paged_layout_indexer_mxfp4(block_tokens: u32, layout: Out<Layout>) -> Status {
    made(layout, || Ok(layout::PagedLayout::indexer_mxfp4(block_tokens)?))
}

/// DeepSeek V4 in fp8: a segment of 576-byte rows, then one of 8 bytes; pages are a multiple of `rounding` bytes (576 or
/// 512, as the engine has it).
///
/// Errors: PAGELIFT_LAYOUT.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_paged_layout_deepseek_v4(
    block_tokens: u32,
    rounding: u32,
    layout: Out<Layout>,
) -> Status {
    made(layout, || Ok(layout::PagedLayout::deepseek_v4(block_tokens, rounding)?))
}

/// DeepSeek V4.1: a segment of 512-byte rows, then one of 16 bytes; pages are a multiple of 512 bytes.
///
/// Errors: PAGELIFT_LAYOUT.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_paged_layout_deepseek_v4_1(block_tokens: u32, layout: Out<Layout>) -> Status {
    made(layout, || Ok(layout::PagedLayout::deepseek_v4_1(block_tokens)?))
}

/// QSA's main cache in bf16: a segment for each KV head, its rows K of 256 values, then V of 256.
///
/// Errors: PAGELIFT_LAYOUT.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_paged_layout_qsa_main_bf16(
    block_tokens: u32,
    kv_heads: u32,
    layout: Out<Layout>,
) -> Status {
    made(layout, || Ok(layout::PagedLayout::qsa_main_bf16(block_tokens, kv_heads)?))
}

/// QSA's main cache in fp8: the same with one byte a value.
///
/// Errors: PAGELIFT_LAYOUT.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_paged_layout_qsa_main_fp8(
    block_tokens: u32,
    kv_heads: u32,
    layout: Out<Layout>,
) -> Status {
    made(layout, || Ok(layout::PagedLayout::qsa_main_fp8(block_tokens, kv_heads)?))
}

/// QSA's compressed index keys in bf16: 128 values for each group of 4 tokens.
///
/// Errors: PAGELIFT_LAYOUT.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_paged_layout_qsa_compressed_bf16(
    block_tokens: u32,
    layout: Out<Layout>,
) -> Status {
    made(layout, || Ok(layout::PagedLayout::qsa_compressed_bf16(block_tokens)?))
}

/// QSA's compressed index keys in fp8: `width` bytes for each group of 4 tokens.
///
/// Errors: PAGELIFT_LAYOUT.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_paged_layout_qsa_compressed_fp8(
    block_tokens: u32,
    width: u32,
    layout: Out<Layout>,
) -> Status {
    made(layout, || Ok(layout::PagedLayout::qsa_compressed_fp8(block_tokens, width)?))
}

/// Where heads are in a page of dense K and V.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadOrder {
    /// Inside rows.
    Nhd = 0,
    /// Outside.
    Hnd = 1,
}

/// Whether K and V lie together.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvRegions {
    /// K, then V, in one page.
    Packed = 0,
    /// Two regions with bases of their own.
    Separate = 1,
}

/// Where scales of quantised K and V are.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvScales {
    /// Not in pages.
    Outside = 0,
    /// An f32 for each token and head at the end of the page.
    PerTokenHead = 1,
}

/// Dense K and V (MHA, GQA) of one rank. None of it is ever guessed from sizes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DenseShape {
    /// sizeof(pagelift_dense_shape).
    pub size: u32,
    /// KV heads.
    pub heads: u32,
    /// Values of a head.
    pub dim: u32,
    /// Bytes of a value.
    pub value_bytes: u32,
    /// A pagelift_head_order.
    pub order: u32,
    /// A pagelift_kv_regions.
    pub regions: u32,
    /// A pagelift_kv_scales.
    pub scales: u32,
}

/// Dense K and V.
///
/// Errors: PAGELIFT_LAYOUT, PAGELIFT_BAD_VALUE.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_paged_layout_dense(
    block_tokens: u32,
    shape: In<DenseShape>,
    layout: Out<Layout>,
) -> Status {
    made(layout, || {
        let DenseShape { heads, dim, value_bytes, order, regions, scales, .. } = shape.sized("shape")?;
        let order = match order {
            0 => layout::HeadOrder::Nhd,
            1 => layout::HeadOrder::Hnd,
            _ => return Err(bad_value("shape->order", order, "a pagelift_head_order")),
        };
        let regions = match regions {
            0 => layout::KvRegions::Packed,
            1 => layout::KvRegions::Separate,
            _ => return Err(bad_value("shape->regions", regions, "a pagelift_kv_regions")),
        };
        let scales = match scales {
            0 => layout::KvScales::Outside,
            1 => layout::KvScales::PerTokenHead,
            _ => return Err(bad_value("shape->scales", scales, "a pagelift_kv_scales")),
        };
        let shape = layout::DenseShape { heads, dim, value_bytes, order, regions, scales };
        Ok(layout::PagedLayout::dense(block_tokens, shape)?)
    })
}
