//! What pages look like.

use pagelift::geometry::GroupKind;
use pagelift::layout;

use crate::foreign::{In, Out, Text};
use crate::handle::{Handle, keep, object};
use crate::status::{Failure, Outcome, Status, answer, bad_value};

/// What a block or page of one layer looks like. Layouts do not change; they are copied into whatever uses them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Meaningless but to this library; 0 is none.
    pub value: u64,
}

impl Layout {
    /// What it stands for.
    pub const fn handle(self) -> Handle<AnyLayout> {
        Handle::new(self.value)
    }
}

/// A layout of any kind.
#[derive(Clone)]
pub enum AnyLayout {
    /// Rows of tokens.
    Paged(layout::PagedLayout),
    /// A ring.
    Ring(layout::RingLayout),
    /// A state.
    State(layout::StateLayout),
}

object!(AnyLayout, Layout);

impl From<layout::PagedLayout> for AnyLayout {
    fn from(layout: layout::PagedLayout) -> Self {
        Self::Paged(layout)
    }
}

impl From<layout::RingLayout> for AnyLayout {
    fn from(layout: layout::RingLayout) -> Self {
        Self::Ring(layout)
    }
}

impl From<layout::StateLayout> for AnyLayout {
    fn from(layout: layout::StateLayout) -> Self {
        Self::State(layout)
    }
}

/// Makes a layout and its handle.
fn made<L: Into<AnyLayout>>(out: Out<Layout>, make: impl FnOnce() -> Outcome<L>) -> Status {
    answer(|| {
        let out = out.ready("layout")?;
        let layout = make()?;
        out.put(Layout { value: keep(layout.into())? });
        Ok(())
    })
}

/// Which kind a layout or a group is of.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Pages of rows, one for each token or group of tokens.
    Paged = 0,
    /// One page for each request, overwritten in turn.
    Ring = 1,
    /// One page for each request, copied whole or not at all.
    State = 2,
}

impl From<GroupKind> for Kind {
    fn from(kind: GroupKind) -> Self {
        match kind {
            GroupKind::Paged => Self::Paged,
            GroupKind::Ring => Self::Ring,
            GroupKind::State => Self::State,
        }
    }
}

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

/// An offset that means: after the one before.
pub const PAGELIFT_AFTER: u64 = u64::MAX;

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

macro_rules! family {
    ($layout:ident = $made:expr) => {
        made($layout, || Ok($made?))
    };
}

/// MLA in bf16 (DeepSeek V3): 512 latent and 64 rope values a token, rows of 1152 bytes.
///
/// Errors: PAGELIFT_LAYOUT.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_paged_layout_mla_bf16(block_tokens: u32, layout: Out<Layout>) -> Status {
    family!(layout = layout::PagedLayout::mla_bf16(block_tokens))
}

/// `fp8_ds_mla` (DeepSeek V3.2): 512 e4m3 values, 4 f32 scales and 64 bf16 rope values in one row of 656 bytes.
///
/// Errors: PAGELIFT_LAYOUT.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_paged_layout_fp8_ds_mla(block_tokens: u32, layout: Out<Layout>) -> Status {
    family!(layout = layout::PagedLayout::fp8_ds_mla(block_tokens))
}

/// The fp8 indexer of DeepSeek V3.2: a segment of 128-byte keys, then one of 4-byte scales.
///
/// Errors: PAGELIFT_LAYOUT.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_paged_layout_indexer_fp8(block_tokens: u32, layout: Out<Layout>) -> Status {
    family!(layout = layout::PagedLayout::indexer_fp8(block_tokens))
}

/// The MXFP4 indexer: a segment of 64-byte keys, then one of 4-byte scales.
///
/// Errors: PAGELIFT_LAYOUT.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_paged_layout_indexer_mxfp4(block_tokens: u32, layout: Out<Layout>) -> Status {
    family!(layout = layout::PagedLayout::indexer_mxfp4(block_tokens))
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
    family!(layout = layout::PagedLayout::deepseek_v4(block_tokens, rounding))
}

/// DeepSeek V4.1: a segment of 512-byte rows, then one of 16 bytes; pages are a multiple of 512 bytes.
///
/// Errors: PAGELIFT_LAYOUT.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_paged_layout_deepseek_v4_1(block_tokens: u32, layout: Out<Layout>) -> Status {
    family!(layout = layout::PagedLayout::deepseek_v4_1(block_tokens))
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
    family!(layout = layout::PagedLayout::qsa_main_bf16(block_tokens, kv_heads))
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
    family!(layout = layout::PagedLayout::qsa_main_fp8(block_tokens, kv_heads))
}

/// QSA's compressed index keys in bf16: 128 values for each group of 4 tokens.
///
/// Errors: PAGELIFT_LAYOUT.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_paged_layout_qsa_compressed_bf16(
    block_tokens: u32,
    layout: Out<Layout>,
) -> Status {
    family!(layout = layout::PagedLayout::qsa_compressed_bf16(block_tokens))
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
    family!(layout = layout::PagedLayout::qsa_compressed_fp8(block_tokens, width))
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

/// A ring.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RingLayoutSpec {
    /// sizeof(pagelift_ring_layout_spec).
    pub size: u32,
    /// Slots.
    pub slots: u32,
    /// Bytes of a slot's row.
    pub slot_bytes: u32,
    /// Unused bytes after each.
    pub slot_padding: u32,
    /// Bytes of a page where it is padded; 0 where it is not.
    pub page_bytes: u64,
}

/// One page for each request, overwritten in turn: the row of position `p` lies in slot `p % slots`. It is lifted whole,
/// and mirrored slot by slot.
///
/// Errors: PAGELIFT_LAYOUT where a size is 0 or overflows, or the page is too small.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_ring_layout_new(spec: In<RingLayoutSpec>, layout: Out<Layout>) -> Status {
    made(layout, || {
        let RingLayoutSpec { slots, slot_bytes, slot_padding, page_bytes, .. } = spec.sized("spec")?;
        let builder = layout::RingLayout::builder(slots, slot_bytes).slot_padding(slot_padding);
        let builder = if page_bytes == 0 { builder } else { builder.page_bytes(page_bytes) };
        Ok(builder.build()?)
    })
}

/// QSA's ring of raw index keys: the smallest multiple of 4 slots that holds `4 + spec` and divides the block.
///
/// Errors: PAGELIFT_LAYOUT.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_ring_layout_qsa(
    block_tokens: u32,
    spec: u32,
    slot_bytes: u32,
    layout: Out<Layout>,
) -> Status {
    family!(layout = layout::RingLayout::qsa(block_tokens, spec, slot_bytes))
}

/// In which order the window of a convolution lies.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConvOrder {
    /// Nobody said.
    Unsaid = 0,
    /// (state_len, dim): all channels of a token together. The usual one.
    Sd = 1,
    /// (dim, state_len): all tokens of a channel together.
    Ds = 2,
}

/// A part of a state.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StatePart {
    /// The name that pairs it with the other side's part.
    pub name: Text,
    /// Bytes from the page's start; of PAGELIFT_AFTER, it follows the part before. Either all parts follow one another,
    /// or none.
    pub offset: u64,
    /// Its size.
    pub bytes: u32,
    /// 0.
    pub reserved: u32,
}

/// A recurrent state.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StateLayoutSpec {
    /// sizeof(pagelift_state_layout_spec).
    pub size: u32,
    /// A pagelift_conv_order.
    pub conv_order: u32,
    /// Bytes of a page where it is padded; 0 where it is not.
    pub page_bytes: u64,
    /// The parts.
    pub parts: In<StatePart>,
    /// How many.
    pub parts_count: usize,
}

/// One page for each request, copied whole or not at all.
///
/// Errors: PAGELIFT_LAYOUT where a part is empty, or parts share bytes or names; PAGELIFT_BAD_VALUE.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_state_layout_new(spec: In<StateLayoutSpec>, layout: Out<Layout>) -> Status {
    made(layout, || {
        let StateLayoutSpec { conv_order, page_bytes, parts, parts_count, .. } = spec.sized("spec")?;
        let page_bytes = some(page_bytes);
        let order = match conv_order {
            0 => None,
            1 => Some(layout::ConvOrder::Sd),
            2 => Some(layout::ConvOrder::Ds),
            _ => return Err(bad_value("spec->conv_order", conv_order, "a pagelift_conv_order")),
        };
        let (mut next, mut placed) = (Vec::new(), Vec::new());
        for part in parts.list(parts_count, "spec->parts")? {
            let name = part.name.read("part->name")?;
            if part.reserved != 0 {
                return Err(bad_value("part->reserved", part.reserved, "0"));
            }
            if part.offset == PAGELIFT_AFTER {
                next.push(layout::StatePart::new(&name, part.bytes));
            } else {
                placed.push((name, part.offset, part.bytes));
            }
        }
        let state = match (next.is_empty(), placed.is_empty()) {
            (false, false) => {
                let text =
                    "some of the parts follow one another, and others do not; place all of them, or none";
                return Err(Failure::new(Status::BadValue, text));
            }
            (true, false) => {
                let placed: Vec<_> =
                    placed.iter().map(|(name, at, bytes)| (name.as_str(), *at, *bytes)).collect();
                layout::StateLayout::at(&placed, page_bytes)?
            }
            _ => layout::StateLayout::new(&next, page_bytes)?,
        };
        Ok(match order {
            Some(order) => state.with_conv_order(order),
            None => state,
        })
    })
}

/// A number of bytes that may be left out.
fn some(bytes: u64) -> Option<u64> {
    (bytes != 0).then_some(bytes)
}

/// The shape of a gated-delta-net layer.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GdnShape {
    /// sizeof(pagelift_gdn_shape).
    pub size: u32,
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
    /// Tensor-parallel ranks: at least 1.
    pub tp: u32,
}

/// A gated delta net: convolution window (3 + spec, conv_dim / tp) in bf16, then the temporal state (v_heads / tp,
/// v_dim, k_dim) in f32. `page_bytes` is 0 where the page is not padded.
///
/// Errors: PAGELIFT_LAYOUT where ranks do not divide evenly, or a size overflows.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_state_layout_gdn(
    shape: In<GdnShape>,
    page_bytes: u64,
    layout: Out<Layout>,
) -> Status {
    made(layout, || {
        let GdnShape { conv_dim, v_heads, v_dim, k_dim, spec, tp, .. } = shape.sized("shape")?;
        let shape = layout::GdnShape { conv_dim, v_heads, v_dim, k_dim, spec, tp };
        Ok(layout::StateLayout::gdn(shape, some(page_bytes))?)
    })
}

/// The shape of a Mamba2 layer.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SsmShape {
    /// sizeof(pagelift_ssm_shape).
    pub size: u32,
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
    /// Tensor-parallel ranks: at least 1.
    pub tp: u32,
}

/// Mamba2: convolution window (kernel - 1 + spec, (inner + 2 * groups * state) / tp) in bf16, then the SSM state (heads
/// / tp, head_dim, state) in f32. `page_bytes` is 0 where the page is not padded.
///
/// Errors: PAGELIFT_LAYOUT.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_state_layout_ssm(
    shape: In<SsmShape>,
    page_bytes: u64,
    layout: Out<Layout>,
) -> Status {
    made(layout, || {
        let SsmShape { kernel, inner, groups, state, heads, head_dim, spec, tp, .. } =
            shape.sized("shape")?;
        let shape = layout::SsmShape { kernel, inner, groups, state, heads, head_dim, spec, tp };
        Ok(layout::StateLayout::ssm(shape, some(page_bytes))?)
    })
}

/// The shape of a PLE short convolution.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PleShape {
    /// sizeof(pagelift_ple_shape).
    pub size: u32,
    /// Width of the convolution.
    pub kernel: u32,
    /// Tokens of an n-gram.
    pub ngram: u32,
    /// Hidden size.
    pub hidden: u32,
    /// Channels of a hidden value.
    pub hc: u32,
    /// Speculative tokens.
    pub spec: u32,
}

/// A PLE short convolution ((kernel - 1) * ngram + spec, hidden * hc) in bf16, whole on every rank. `page_bytes` is 0
/// where the page is not padded.
///
/// Errors: PAGELIFT_LAYOUT.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_state_layout_ple(
    shape: In<PleShape>,
    page_bytes: u64,
    layout: Out<Layout>,
) -> Status {
    made(layout, || {
        let PleShape { kernel, ngram, hidden, hc, spec, .. } = shape.sized("shape")?;
        let shape = layout::PleShape { kernel, ngram, spec, hidden, hc };
        Ok(layout::StateLayout::ple(shape, some(page_bytes))?)
    })
}

/// Sizes of a layout.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LayoutFacts {
    /// sizeof(pagelift_layout_facts).
    pub size: u32,
    /// A pagelift_kind.
    pub kind: u32,
    /// Bytes of one layer's page: all regions, and the padding inside them.
    pub page_bytes: u64,
    /// Token slots of a page; of a ring its slots, of a state 1.
    pub block_tokens: u64,
    /// Tokens that share one row; 1 of rings and states.
    pub tokens_per_row: u64,
    /// Rows of a page; of a ring its slots, of a state 0, which has none.
    pub rows_per_block: u32,
    /// Regions of a page that have bases of their own.
    pub regions: u32,
    /// Bytes of the first region.
    pub region_bytes: u64,
}

/// Tells the sizes of a layout. Set `info->size` before.
///
/// Errors: PAGELIFT_WRONG_SIZE, those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_layout_info(layout: Layout, info: Out<LayoutFacts>) -> Status {
    answer(|| {
        let info = info.sized("info")?;
        info.put_sized(layout.handle().look(|layout| Ok(layout.info()))?);
        Ok(())
    })
}

impl AnyLayout {
    fn info(&self) -> LayoutFacts {
        let one = |kind: Kind, page_bytes, block_tokens, rows_per_block| LayoutFacts {
            size: 0,
            kind: kind as u32,
            page_bytes,
            block_tokens,
            tokens_per_row: 1,
            rows_per_block,
            regions: 1,
            region_bytes: page_bytes,
        };
        match self {
            Self::Paged(layout) => LayoutFacts {
                tokens_per_row: layout.tokens_per_row().get(),
                regions: u32::try_from(layout.region_bytes().len()).unwrap_or(u32::MAX),
                region_bytes: layout.region_bytes().first().copied().unwrap_or_default(),
                ..one(
                    Kind::Paged,
                    layout.page_bytes().get(),
                    layout.block_tokens().get(),
                    layout.rows_per_block().get(),
                )
            },
            Self::Ring(layout) => {
                let slots = layout.slots().get();
                one(Kind::Ring, layout.page_bytes().get(), slots.into(), slots)
            }
            Self::State(layout) => one(Kind::State, layout.page_bytes().get(), 1, 0),
        }
    }
}

/// Makes the same page, padded to `page_bytes` bytes (each of its regions, where it has several): a layout of its own.
///
/// Errors: PAGELIFT_LAYOUT where that is too small, PAGELIFT_WRONG_PLAN for a layout that is not paged, those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_paged_layout_padded_to(
    layout: Layout,
    page_bytes: u64,
    padded: Out<Layout>,
) -> Status {
    made(padded, || {
        layout.handle().look(|layout| match layout {
            AnyLayout::Paged(layout) => Ok(layout.clone().padded_to(page_bytes)?),
            _ => Err(Failure::new(
                Status::WrongPlan,
                "the layout is a ring's or a state's; expected a paged one",
            )),
        })
    })
}

/// Frees a layout.
///
/// Errors: those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_layout_free(layout: Layout) -> Status {
    answer(|| layout.handle().take().map(drop))
}
