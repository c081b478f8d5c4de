//! Layouts: what lies inside one page or block.

use std::fmt::Write;

use pagelift::layout::{self, DenseShape, GdnShape, PleShape, SsmShape, StatePart};
use pagelift::quantity::Tokens;
use pagelift_bindings::keys;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::error::OrRaise;
use crate::words::{List, Word};

/// One equally spaced run of rows inside a page: row `r` lies `offset + r * row_stride` bytes after the start of its region.
///
/// `row_bytes` are the bytes of a row, `row_stride` the bytes from one row to the next (`row_bytes` unless said). Engines
/// that keep K and V in two tensors give each a region, numbered from 0.
#[pyclass(frozen, eq, from_py_object, module = "pagelift")]
#[derive(Clone, PartialEq, Eq)]
pub struct Segment(layout::Segment);

#[pymethods]
impl Segment {
    #[new]
    #[pyo3(signature = (name, offset, row_bytes, row_stride=None, region=0))]
    fn new(name: &str, offset: u64, row_bytes: u32, row_stride: Option<u32>, region: u32) -> PyResult<Self> {
        let segment =
            layout::Segment::new(name, offset, row_bytes, row_stride.unwrap_or(row_bytes)).or_raise()?;
        Ok(Self(segment.in_region(region)))
    }

    /// The name that pairs it with the other side's segment.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// Bytes from the start of its region to row 0.
    #[getter]
    fn offset(&self) -> u64 {
        self.0.offset()
    }

    /// Bytes of a row.
    #[getter]
    fn row_bytes(&self) -> u32 {
        self.0.row_bytes()
    }

    /// Bytes from one row to the next.
    #[getter]
    fn row_stride(&self) -> u32 {
        self.0.row_stride()
    }

    /// The region that `offset` counts from the start of.
    #[getter]
    fn region(&self) -> u32 {
        self.0.region()
    }

    fn __repr__(&self) -> String {
        let (name, offset, bytes, stride) = (self.name(), self.offset(), self.row_bytes(), self.row_stride());
        format!(
            "Segment({name:?}, offset={offset}, row_bytes={bytes}, row_stride={stride}, region={})",
            self.region()
        )
    }
}

/// A segment at a place of its own, or `(name, row_bytes)` after the one before.
#[derive(FromPyObject)]
pub enum NextSegment {
    /// At its own place.
    Placed(Segment),
    /// After the one before.
    Next(String, u32),
}

/// Pages of rows, one for each token or group of `tokens_per_row` tokens.
///
/// `block_tokens` are the token slots of a page. `segments` are `Segment` objects, or pairs `(name, row_bytes)` that follow
/// one another. `row_padding` are unused bytes after each row of such pairs, `page_bytes` the bytes of a page where it is
/// padded beyond its last row (of each region, where it has several).
///
/// Raises `LayoutError` where rows do not divide the block, a size is 0 or overflows, or segments share bytes or names.
#[pyclass(frozen, eq, from_py_object, module = "pagelift")]
#[derive(Clone, PartialEq, Eq)]
pub struct PagedLayout(pub layout::PagedLayout);

#[pymethods]
impl PagedLayout {
    #[new]
    #[pyo3(signature = (block_tokens, segments, *, tokens_per_row=1, row_padding=0, page_bytes=None))]
    fn new(
        block_tokens: u32,
        segments: List<NextSegment>,
        tokens_per_row: u32,
        row_padding: u32,
        page_bytes: Option<u64>,
    ) -> PyResult<Self> {
        let builder = layout::PagedLayout::builder(block_tokens)
            .tokens_per_row(tokens_per_row)
            .row_padding(row_padding);
        let mut builder = page_bytes.into_iter().fold(builder, layout::PagedLayoutBuilder::page_bytes);
        for segment in segments.0 {
            builder = match segment {
                NextSegment::Placed(segment) => builder.segment_at(segment.0),
                NextSegment::Next(name, row_bytes) => builder.segment(&name, row_bytes),
            };
        }
        Ok(Self(builder.build().or_raise()?))
    }

    /// MLA in bf16 (DeepSeek V3): 512 latent and 64 rope values a token, rows of 1152 bytes.
    #[staticmethod]
    fn mla_bf16(block_tokens: u32) -> PyResult<Self> {
        Ok(Self(layout::PagedLayout::mla_bf16(block_tokens).or_raise()?))
    }

    /// `fp8_ds_mla` (DeepSeek V3.2): 512 e4m3 values, 4 f32 scales and 64 bf16 rope values in one row of 656 bytes.
    #[staticmethod]
    fn fp8_ds_mla(block_tokens: u32) -> PyResult<Self> {
        Ok(Self(layout::PagedLayout::fp8_ds_mla(block_tokens).or_raise()?))
    }

    /// The fp8 indexer of DeepSeek V3.2: a segment of 128-byte keys, then one of 4-byte scales.
    #[staticmethod]
    fn indexer_fp8(block_tokens: u32) -> PyResult<Self> {
        Ok(Self(layout::PagedLayout::indexer_fp8(block_tokens).or_raise()?))
    }

    /// The MXFP4 indexer: a segment of 64-byte keys, then one of 4-byte scales.
    #[staticmethod]
    fn indexer_mxfp4(block_tokens: u32) -> PyResult<Self> {
        Ok(Self(layout::PagedLayout::indexer_mxfp4(block_tokens).or_raise()?))
    }

    /// DeepSeek V4 in fp8: a segment of 576-byte rows, then one of 8 bytes; pages are a multiple of `rounding` bytes (576 or
    /// 512, as the engine has it).
    #[staticmethod]
    fn deepseek_v4(block_tokens: u32, rounding: u32) -> PyResult<Self> {
        Ok(Self(layout::PagedLayout::deepseek_v4(block_tokens, rounding).or_raise()?))
    }

    /// DeepSeek V4.1: a segment of 512-byte rows, then one of 16 bytes; pages are a multiple of 512 bytes.
    #[staticmethod]
    fn deepseek_v4_1(block_tokens: u32) -> PyResult<Self> {
        Ok(Self(layout::PagedLayout::deepseek_v4_1(block_tokens).or_raise()?))
    }

    /// QSA's main cache in bf16: a segment for each KV head, its rows K of 256 values, then V of 256.
    #[staticmethod]
    fn qsa_main_bf16(block_tokens: u32, kv_heads: u32) -> PyResult<Self> {
        Ok(Self(layout::PagedLayout::qsa_main_bf16(block_tokens, kv_heads).or_raise()?))
    }

    /// QSA's main cache in fp8: the same with one byte a value.
    #[staticmethod]
    fn qsa_main_fp8(block_tokens: u32, kv_heads: u32) -> PyResult<Self> {
        Ok(Self(layout::PagedLayout::qsa_main_fp8(block_tokens, kv_heads).or_raise()?))
    }

    /// QSA's compressed index keys in bf16: 128 values for each group of 4 tokens.
    #[staticmethod]
    fn qsa_compressed_bf16(block_tokens: u32) -> PyResult<Self> {
        Ok(Self(layout::PagedLayout::qsa_compressed_bf16(block_tokens).or_raise()?))
    }

    /// QSA's compressed index keys in fp8: `width` bytes for each group of 4 tokens.
    #[staticmethod]
    fn qsa_compressed_fp8(block_tokens: u32, width: u32) -> PyResult<Self> {
        Ok(Self(layout::PagedLayout::qsa_compressed_fp8(block_tokens, width).or_raise()?))
    }

    /// Dense K and V (MHA, GQA) of one rank: `heads` KV heads of `dim` values of `value_bytes` bytes.
    ///
    /// `order` is `"nhd"` (heads inside rows) or `"hnd"` (heads outside), `regions` is `"packed"` (K, then V, in one page) or
    /// `"separate"` (two regions with bases of their own), `scales` is `"outside"` or `"per-token-head"` (an f32 for each token
    /// and head at the end of the page). None of it is ever guessed from sizes.
    #[staticmethod]
    #[pyo3(signature = (block_tokens, *, heads, dim, value_bytes, order, regions, scales=Word(layout::KvScales::Outside)))]
    fn dense(
        block_tokens: u32,
        heads: u32,
        dim: u32,
        value_bytes: u32,
        order: Word<layout::HeadOrder>,
        regions: Word<layout::KvRegions>,
        scales: Word<layout::KvScales>,
    ) -> PyResult<Self> {
        let (order, regions, scales) = (order.0, regions.0, scales.0);
        let shape = DenseShape { heads, dim, value_bytes, order, regions, scales };
        Ok(Self(layout::PagedLayout::dense(block_tokens, shape).or_raise()?))
    }

    /// Token slots of a page.
    #[getter]
    fn block_tokens(&self) -> u64 {
        self.0.block_tokens().get()
    }

    /// Tokens that share one row.
    #[getter]
    fn tokens_per_row(&self) -> u64 {
        self.0.tokens_per_row().get()
    }

    /// Rows of a page.
    #[getter]
    fn rows_per_block(&self) -> u32 {
        self.0.rows_per_block().get()
    }

    /// Bytes of one layer's page: all regions, and the padding inside them.
    #[getter]
    fn page_bytes(&self) -> u64 {
        self.0.page_bytes().get()
    }

    /// Bytes of each region of one layer's page.
    #[getter]
    fn region_bytes(&self) -> Vec<u64> {
        self.0.region_bytes().to_vec()
    }

    /// The runs of rows, in the order they were given.
    #[getter]
    fn segments(&self) -> Vec<Segment> {
        self.0.segments().iter().cloned().map(Segment).collect()
    }

    /// The same page, padded to `page_bytes` bytes (each of its regions, where it has several).
    fn padded_to(&self, page_bytes: u64) -> PyResult<Self> {
        Ok(Self(self.0.clone().padded_to(page_bytes).or_raise()?))
    }

    /// Rows that are complete when a page holds its first `tokens` tokens.
    fn complete_rows(&self, tokens: u64) -> u32 {
        self.0.complete_rows(Tokens::new(tokens)).get()
    }

    fn __repr__(&self) -> String {
        let mut words = format!("PagedLayout(block_tokens={}", self.block_tokens());
        if self.tokens_per_row() != 1 {
            // Writing to a string does not fail.
            let _ = write!(words, ", tokens_per_row={}", self.tokens_per_row());
        }
        let segments =
            self.0.segments().iter().map(|segment| format!("{} x {} B", segment.name(), segment.row_bytes()));
        let segments: Vec<String> = segments.collect();
        format!("{words}, segments [{}], {} B a page)", segments.join(", "), self.page_bytes())
    }
}

/// One page for each request with `slots` slots, overwritten in turn: the row of position `p` lies in slot `p % slots`.
///
/// `slot_bytes` are the bytes of a slot's row, `slot_padding` unused bytes after each. It is lifted whole, and mirrored slot
/// by slot. Raises `LayoutError` where a size is 0 or overflows, or the page is too small.
#[pyclass(frozen, eq, from_py_object, module = "pagelift")]
#[derive(Clone, PartialEq, Eq)]
pub struct RingLayout(pub layout::RingLayout);

#[pymethods]
impl RingLayout {
    #[new]
    #[pyo3(signature = (slots, slot_bytes, *, slot_padding=0, page_bytes=None))]
    fn new(slots: u32, slot_bytes: u32, slot_padding: u32, page_bytes: Option<u64>) -> PyResult<Self> {
        let builder = layout::RingLayout::builder(slots, slot_bytes).slot_padding(slot_padding);
        let builder = match page_bytes {
            Some(bytes) => builder.page_bytes(bytes),
            None => builder,
        };
        Ok(Self(builder.build().or_raise()?))
    }

    /// QSA's ring of raw index keys: the smallest multiple of 4 slots that holds `4 + spec` and divides the block.
    #[staticmethod]
    fn qsa(block_tokens: u32, spec: u32, slot_bytes: u32) -> PyResult<Self> {
        Ok(Self(layout::RingLayout::qsa(block_tokens, spec, slot_bytes).or_raise()?))
    }

    /// Slots of the ring.
    #[getter]
    fn slots(&self) -> u32 {
        self.0.slots().get()
    }

    /// Bytes of one layer's page.
    #[getter]
    fn page_bytes(&self) -> u64 {
        self.0.page_bytes().get()
    }

    fn __repr__(&self) -> String {
        format!("RingLayout(slots={}, {} B a page)", self.slots(), self.page_bytes())
    }
}

/// A part of a state: `(name, bytes)` after the one before, or `(name, offset, bytes)`.
#[derive(FromPyObject)]
pub enum NextPart {
    /// At its own place.
    At(String, u64, u32),
    /// After the one before.
    Next(String, u32),
}

/// One page for each request, copied whole or not at all: recurrent state.
///
/// `parts` are `(name, bytes)` pairs that follow one another, or `(name, offset, bytes)` each. `page_bytes` are the bytes of a
/// page where it is padded. `conv_order` says how a convolution's window lies: `"sd"` (state_len, dim), the usual one, or
/// `"ds"` (dim, state_len). Raises `LayoutError` where a part is empty, or parts share bytes or names.
#[pyclass(frozen, eq, from_py_object, module = "pagelift")]
#[derive(Clone, PartialEq, Eq)]
pub struct StateLayout(pub layout::StateLayout);

#[pymethods]
impl StateLayout {
    #[new]
    #[pyo3(signature = (parts, *, page_bytes=None, conv_order=None))]
    fn new(
        parts: List<NextPart>,
        page_bytes: Option<u64>,
        conv_order: Option<Word<layout::ConvOrder>>,
    ) -> PyResult<Self> {
        let mut next = Vec::new();
        let mut placed = Vec::new();
        for part in &parts.0 {
            match part {
                NextPart::At(name, offset, bytes) => placed.push((name.as_str(), *offset, *bytes)),
                NextPart::Next(name, bytes) => next.push(StatePart::new(name, *bytes)),
            }
        }
        let state = match (next.is_empty(), placed.is_empty()) {
            (false, false) => {
                return Err(PyTypeError::new_err("parts are pairs or triples, and not some of each"));
            }
            (true, false) => layout::StateLayout::at(&placed, page_bytes),
            _ => layout::StateLayout::new(&next, page_bytes),
        };
        let state = state.or_raise()?;
        Ok(Self(conv_order.map(|order| state.clone().with_conv_order(order.0)).unwrap_or(state)))
    }

    /// A gated delta net: convolution window `(3 + spec, conv_dim / tp)` in bf16, then the temporal state
    /// `(v_heads / tp, v_dim, k_dim)` in f32.
    #[staticmethod]
    #[pyo3(signature = (*, conv_dim, v_heads, v_dim, k_dim, spec=0, tp=1, page_bytes=None))]
    fn gdn(
        conv_dim: u32,
        v_heads: u32,
        v_dim: u32,
        k_dim: u32,
        spec: u32,
        tp: u32,
        page_bytes: Option<u64>,
    ) -> PyResult<Self> {
        let shape = GdnShape { conv_dim, v_heads, v_dim, k_dim, spec, tp };
        Ok(Self(layout::StateLayout::gdn(shape, page_bytes).or_raise()?))
    }

    /// Mamba2: convolution window `(kernel - 1 + spec, (inner + 2 * groups * state) / tp)` in bf16, then the SSM state
    /// `(heads / tp, head_dim, state)` in f32.
    #[staticmethod]
    #[pyo3(signature = (*, kernel, inner, groups, state, heads, head_dim, spec=0, tp=1, page_bytes=None))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn ssm(
        kernel: u32,
        inner: u32,
        groups: u32,
        state: u32,
        heads: u32,
        head_dim: u32,
        spec: u32,
        tp: u32,
        page_bytes: Option<u64>,
    ) -> PyResult<Self> {
        let shape = SsmShape { kernel, inner, groups, state, heads, head_dim, spec, tp };
        Ok(Self(layout::StateLayout::ssm(shape, page_bytes).or_raise()?))
    }

    /// A PLE short convolution `((kernel - 1) * ngram + spec, hidden * hc)` in bf16, whole on every rank.
    #[staticmethod]
    #[pyo3(signature = (*, kernel, ngram, hidden, hc, spec=0, page_bytes=None))]
    fn ple(
        kernel: u32,
        ngram: u32,
        hidden: u32,
        hc: u32,
        spec: u32,
        page_bytes: Option<u64>,
    ) -> PyResult<Self> {
        let shape = PleShape { kernel, ngram, spec, hidden, hc };
        Ok(Self(layout::StateLayout::ple(shape, page_bytes).or_raise()?))
    }

    /// Bytes of the parts together.
    #[getter]
    fn state_bytes(&self) -> u64 {
        self.0.state_bytes().get()
    }

    /// Bytes of one layer's page.
    #[getter]
    fn page_bytes(&self) -> u64 {
        self.0.page_bytes().get()
    }

    /// `"sd"`, `"ds"`, or `None` where it was not said.
    #[getter]
    fn conv_order(&self) -> Option<&'static str> {
        self.0.conv_order().map(|order| match order {
            layout::ConvOrder::Sd => "sd",
            layout::ConvOrder::Ds => "ds",
        })
    }

    fn __repr__(&self) -> String {
        format!("StateLayout({} B of state, {} B a page)", self.state_bytes(), self.page_bytes())
    }
}

/// A layout of any kind.
#[derive(Clone, FromPyObject)]
pub enum AnyLayout {
    /// Rows of tokens.
    Paged(PagedLayout),
    /// A ring.
    Ring(RingLayout),
    /// A state.
    State(StateLayout),
}

impl From<AnyLayout> for keys::AnyLayout {
    fn from(layout: AnyLayout) -> Self {
        match layout {
            AnyLayout::Paged(own) => own.0.into(),
            AnyLayout::Ring(own) => own.0.into(),
            AnyLayout::State(own) => own.0.into(),
        }
    }
}
