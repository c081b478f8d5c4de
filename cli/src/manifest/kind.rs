//! How a layout is read: its kind, and the fields that go with it.

use super::error::{At, Located, Problem};
use super::fields::{Fields, Word};
use super::format::{LayoutSpec, PartSpec, SegmentSpec};
use super::json::Json;
use super::limits;

/// What decides the fields of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    MlaBf16,
    Fp8DsMla,
    IndexerFp8,
    IndexerMxfp4,
    DeepseekV4,
    DeepseekV41,
    QsaMainBf16,
    QsaMainFp8,
    QsaCompressedBf16,
    QsaCompressedFp8,
    Dense,
    Ring,
    Gdn,
    Ssm,
    Ple,
    Segments,
    State,
}

impl Word for Kind {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("mla-bf16", Self::MlaBf16),
        ("fp8-ds-mla", Self::Fp8DsMla),
        ("indexer-fp8", Self::IndexerFp8),
        ("indexer-mxfp4", Self::IndexerMxfp4),
        ("deepseek-v4", Self::DeepseekV4),
        ("deepseek-v4.1", Self::DeepseekV41),
        ("qsa-main-bf16", Self::QsaMainBf16),
        ("qsa-main-fp8", Self::QsaMainFp8),
        ("qsa-compressed-bf16", Self::QsaCompressedBf16),
        ("qsa-compressed-fp8", Self::QsaCompressedFp8),
        ("dense", Self::Dense),
        ("ring", Self::Ring),
        ("gdn", Self::Gdn),
        ("ssm", Self::Ssm),
        ("ple", Self::Ple),
        ("segments", Self::Segments),
        ("state", Self::State),
    ];
}

impl Kind {
    /// Names of the fields, `kind` first.
    const fn fields(self) -> &'static [&'static str] {
        match self {
            Self::MlaBf16
            | Self::Fp8DsMla
            | Self::IndexerFp8
            | Self::IndexerMxfp4
            | Self::DeepseekV41
            | Self::QsaCompressedBf16 => &["kind"],
            Self::DeepseekV4 => &["kind", "page_multiple"],
            Self::QsaMainBf16 | Self::QsaMainFp8 => &["kind", "kv_heads"],
            Self::QsaCompressedFp8 => &["kind", "width"],
            Self::Dense => &["kind", "kv_heads", "head_dim", "element_bytes", "scales"],
            Self::Ring => &["kind", "slot_bytes"],
            Self::Gdn => &["kind", "v_heads", "k_heads", "v_dim", "k_dim", "conv_kernel"],
            Self::Ssm => &["kind", "heads", "head_dim", "groups", "state", "conv_kernel"],
            Self::Ple => &["kind", "conv_kernel", "ngram", "hidden", "hc"],
            Self::Segments => &["kind", "tokens_per_row", "segments"],
            Self::State => &["kind", "recurrent", "parts"],
        }
    }
}

/// Every kind by name, and the names of its fields.
pub fn layout_kinds() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    Kind::WORDS.iter().map(|(name, kind)| (*name, kind.fields()))
}

/// Bytes of a ring's slot: one compressed key of 128 bf16 values.
const RING_SLOT_BYTES: u32 = 256;
/// Taps of a convolution, where nothing is said.
const CONV_KERNEL: u32 = 4;
/// Bytes of a compressed fp8 key, where nothing is said.
const COMPRESSED_FP8_WIDTH: u32 = 128;

impl LayoutSpec {
    /// Reads a layout, which stands at `place`.
    pub fn read(json: &Json, place: String) -> Result<Self, Located> {
        let Json::Object(all) = json else {
            let (expected, found) = ("an object with a `kind`".into(), json.to_string());
            return Err(Problem::Unexpected { expected, found }).at(place);
        };
        // Which fields are known depends on the kind.
        let names: Vec<&str> = all.keys().map(String::as_str).collect();
        let kind: Kind = Fields::of(json, place.clone(), &names)?.word("kind")?;
        let fields = Fields::of(json, place, kind.fields())?;
        let dimension = |name| fields.number(name, 1..=limits::DIMENSION);
        let conv_kernel = || fields.optional_number("conv_kernel", 1..=limits::CONV_KERNEL);
        let kv_heads = || fields.number("kv_heads", 1..=limits::SEGMENTS);
        Ok(match kind {
            Kind::MlaBf16 => Self::MlaBf16,
            Kind::Fp8DsMla => Self::Fp8DsMla,
            Kind::IndexerFp8 => Self::IndexerFp8,
            Kind::IndexerMxfp4 => Self::IndexerMxfp4,
            Kind::DeepseekV4 => {
                Self::DeepseekV4 { page_multiple: fields.one_of("page_multiple", &[512, 576])? }
            }
            Kind::DeepseekV41 => Self::DeepseekV41,
            Kind::QsaMainBf16 => Self::QsaMainBf16 { kv_heads: kv_heads()? },
            Kind::QsaMainFp8 => Self::QsaMainFp8 { kv_heads: kv_heads()? },
            Kind::QsaCompressedBf16 => Self::QsaCompressedBf16,
            Kind::QsaCompressedFp8 => Self::QsaCompressedFp8 {
                width: fields
                    .optional_number("width", 1..=limits::DIMENSION)?
                    .unwrap_or(COMPRESSED_FP8_WIDTH),
            },
            Kind::Dense => Self::Dense {
                kv_heads: kv_heads()?,
                head_dim: dimension("head_dim")?,
                element_bytes: fields.number("element_bytes", 1..=2)?,
                scales: fields.optional_word("scales")?.unwrap_or_default(),
            },
            Kind::Ring => Self::Ring {
                slot_bytes: fields
                    .optional_number("slot_bytes", 1..=limits::PAGE_BYTES)?
                    .unwrap_or(RING_SLOT_BYTES),
            },
            Kind::Gdn => Self::Gdn {
                v_heads: dimension("v_heads")?,
                k_heads: dimension("k_heads")?,
                v_dim: dimension("v_dim")?,
                k_dim: dimension("k_dim")?,
                conv_kernel: conv_kernel()?.unwrap_or(CONV_KERNEL),
            },
            Kind::Ssm => Self::Ssm {
                heads: dimension("heads")?,
                head_dim: dimension("head_dim")?,
                groups: dimension("groups")?,
                state: dimension("state")?,
                conv_kernel: conv_kernel()?.unwrap_or(CONV_KERNEL),
            },
            Kind::Ple => Self::Ple {
                conv_kernel: fields.number("conv_kernel", 1..=limits::CONV_KERNEL)?,
                ngram: dimension("ngram")?,
                hidden: dimension("hidden")?,
                hc: dimension("hc")?,
            },
            Kind::Segments => Self::Segments {
                tokens_per_row: fields.number("tokens_per_row", 1..=limits::BLOCK_TOKENS)?,
                segments: fields.list("segments", ("segments", 1..=limits::SEGMENTS), SegmentSpec::read)?,
            },
            Kind::State => Self::State {
                recurrent: fields.flag("recurrent")?,
                parts: fields.list("parts", ("parts", 1..=limits::SEGMENTS), PartSpec::read)?,
            },
        })
    }
}

impl SegmentSpec {
    fn read(json: &Json, place: String) -> Result<Self, Located> {
        let fields = Fields::of(json, place, &["name", "row_bytes"])?;
        Ok(Self {
            name: fields.text("name")?,
            row_bytes: fields.number("row_bytes", 1..=limits::PAGE_BYTES)?,
        })
    }
}

impl PartSpec {
    fn read(json: &Json, place: String) -> Result<Self, Located> {
        let fields = Fields::of(json, place, &["name", "bytes"])?;
        Ok(Self { name: fields.text("name")?, bytes: fields.number("bytes", 1..=limits::PAGE_BYTES)? })
    }
}
