//! What has one page for each request: rings and states.

use pagelift::layout;

use super::{Layout, PAGELIFT_AFTER, made};
use crate::foreign::{In, Out, Text};
use crate::status::{Failure, Status, bad_value};

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
    made(layout, || Ok(layout::RingLayout::qsa(block_tokens, spec, slot_bytes)?))
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
