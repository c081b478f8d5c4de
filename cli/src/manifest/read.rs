//! How JSON becomes what `format` describes: types and bounds of every field.

use super::error::{At, Located, Problem};
use super::fields::{Fields, Word};
use super::format::{
    BlocksSpec, GroupSpec, LayoutSpec, ManifestSpec, PartSpec, PoolSpec, SegmentSpec, SideSpec, VERSION,
};
use super::json::Json;
use super::limits;

impl ManifestSpec {
    /// Reads the root object, whose version has been read.
    pub fn read(json: &Json) -> Result<Self, Located> {
        let known = [
            "version",
            "model",
            "prompt_tokens",
            "block_tokens",
            "tensor_parallel",
            "speculative_tokens",
            "pools",
            "groups",
        ];
        let fields = Fields::of(json, "", &known)?;
        let drafts = fields.optional_number("speculative_tokens", 0..=limits::SPECULATIVE_TOKENS)?;
        Ok(Self {
            model: fields.text("model")?,
            prompt_tokens: fields.number("prompt_tokens", 1..=limits::PROMPT_TOKENS)?,
            block_tokens: fields.number("block_tokens", 1..=limits::BLOCK_TOKENS)?,
            tensor_parallel: fields
                .optional_number("tensor_parallel", 1..=limits::TENSOR_PARALLEL)?
                .unwrap_or(1),
            speculative_tokens: drafts.unwrap_or(0),
            pools: fields.list("pools", ("pools", 1..=limits::ITEMS), PoolSpec::read)?,
            groups: fields.list("groups", ("groups", 1..=limits::ITEMS), GroupSpec::read)?,
        })
    }
}

/// The version of a file, of whichever version it is.
pub fn version(json: &Json) -> Result<u64, Located> {
    let expected = || VERSION.to_string();
    match json {
        Json::Object(fields) => match fields.get("version") {
            Some(Json::Whole(version)) => Ok(*version),
            Some(other) => {
                Err(Problem::Unexpected { expected: expected(), found: other.to_string() }).at("version")
            }
            None => Err(Problem::Missing { field: "version", expected: expected() }).at(""),
        },
        other => {
            let expected = "an object with the fields of a manifest".into();
            Err(Problem::Unexpected { expected, found: other.to_string() }).at("")
        }
    }
}

impl PoolSpec {
    fn read(json: &Json, place: String) -> Result<Self, Located> {
        let known = [
            "name",
            "memory",
            "order",
            "layers",
            "blocks",
            "blocks_per_extent",
            "page_bytes",
            "block_padding",
            "null_block",
        ];
        let fields = Fields::of(json, place, &known)?;
        Ok(Self {
            name: fields.text("name")?,
            memory: fields.word("memory")?,
            order: fields.word("order")?,
            layers: fields.number("layers", 1..=limits::LAYERS)?,
            blocks: fields.number("blocks", 1..=limits::BLOCKS)?,
            blocks_per_extent: fields.optional_number("blocks_per_extent", 1..=limits::BLOCKS)?,
            page_bytes: fields.number("page_bytes", 1..=limits::PAGE_BYTES)?,
            block_padding: fields.optional_number("block_padding", 0..=limits::BLOCK_PADDING)?.unwrap_or(0),
            null_block: fields.optional_number("null_block", 0..=limits::BLOCKS - 1)?,
        })
    }
}

impl GroupSpec {
    fn read(json: &Json, place: String) -> Result<Self, Located> {
        let known = ["name", "layers", "layout", "landing", "lift", "mirror", "host", "device"];
        let fields = Fields::of(json, place, &known)?;
        let side =
            |name| fields.optional(name).map(|json| SideSpec::read(json, fields.place(name))).transpose();
        let layout = fields.required("layout", || "an object with a `kind`".into())?;
        Ok(Self {
            name: fields.text("name")?,
            layers: fields.number("layers", 1..=limits::LAYERS)?,
            layout: LayoutSpec::read(layout, fields.place("layout"))?,
            landing: fields.word("landing")?,
            lift: fields.word("lift")?,
            mirror: fields.optional_flag("mirror")?,
            host: side("host")?,
            device: side("device")?,
        })
    }
}

impl SideSpec {
    fn read(json: &Json, place: String) -> Result<Self, Located> {
        let known = ["pool", "first_layer", "layer_order", "row_padding", "blocks"];
        let fields = Fields::of(json, place, &known)?;
        let blocks = fields.required("blocks", || BlocksSpec::EXPECTED.into())?;
        Ok(Self {
            pool: fields.text("pool")?,
            first_layer: fields.optional_number("first_layer", 0..=limits::LAYERS - 1)?.unwrap_or(0),
            layer_order: fields.optional_word("layer_order")?.unwrap_or_default(),
            row_padding: fields.optional_number("row_padding", 0..=limits::ROW_PADDING)?.unwrap_or(0),
            blocks: BlocksSpec::read(blocks, fields.place("blocks"))?,
        })
    }
}

impl BlocksSpec {
    const EXPECTED: &str = "either `{\"list\": [ids]}` or `{\"scattered\": {\"seed\": number}}`";

    fn read(json: &Json, place: String) -> Result<Self, Located> {
        let unexpected = |found: String| Problem::Unexpected { expected: Self::EXPECTED.into(), found };
        if !matches!(json, Json::Object(_)) {
            return Err(unexpected(json.to_string())).at(place);
        }
        let fields = Fields::of(json, place.clone(), &["list", "scattered"])?;
        match (fields.optional("list"), fields.optional("scattered")) {
            (Some(_), None) => Ok(Self::List(fields.numbers("list", 0..=limits::BLOCKS - 1)?)),
            (None, Some(json)) => {
                let scattered = Fields::of(json, fields.place("scattered"), &["seed"])?;
                Ok(Self::Scattered { seed: scattered.number("seed", 0..=u64::MAX)? })
            }
            (Some(_), Some(_)) => Err(unexpected("both".into())).at(place),
            (None, None) => Err(unexpected("neither".into())).at(place),
        }
    }
}

/// What decides the fields of a layout.
#[derive(Debug, Clone, Copy)]
enum Kind {
    MlaBf16,
    Fp8DsMla,
    IndexerFp8,
    QsaMainBf16,
    QsaCompressedBf16,
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
        ("qsa-main-bf16", Self::QsaMainBf16),
        ("qsa-compressed-bf16", Self::QsaCompressedBf16),
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
            Self::MlaBf16 | Self::Fp8DsMla | Self::IndexerFp8 | Self::QsaCompressedBf16 => &["kind"],
            Self::QsaMainBf16 => &["kind", "kv_heads"],
            Self::Ring => &["kind", "slot_bytes"],
            Self::Gdn => &["kind", "v_heads", "k_heads", "v_dim", "k_dim", "conv_kernel"],
            Self::Ssm => &["kind", "heads", "head_dim", "groups", "state", "conv_kernel"],
            Self::Ple => &["kind", "conv_kernel", "ngram", "hidden", "hc"],
            Self::Segments => &["kind", "tokens_per_row", "segments"],
            Self::State => &["kind", "recurrent", "parts"],
        }
    }
}

/// Bytes of a ring's slot: one compressed key of 128 bf16 values.
const RING_SLOT_BYTES: u32 = 256;
/// Taps of a convolution, where nothing is said.
const CONV_KERNEL: u32 = 4;

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
        Ok(match kind {
            Kind::MlaBf16 => Self::MlaBf16,
            Kind::Fp8DsMla => Self::Fp8DsMla,
            Kind::IndexerFp8 => Self::IndexerFp8,
            Kind::QsaMainBf16 => {
                Self::QsaMainBf16 { kv_heads: fields.number("kv_heads", 1..=limits::SEGMENTS)? }
            }
            Kind::QsaCompressedBf16 => Self::QsaCompressedBf16,
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
