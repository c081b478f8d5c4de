//! How JSON becomes what `format` describes: types and bounds of every field.

use super::error::{At, Located, Problem};
use super::fields::Fields;
use super::format::{BlocksSpec, GroupSpec, LayoutSpec, ManifestSpec, PoolSpec, SideSpec, VERSION};
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
        let known = [
            "pool",
            "first_layer",
            "layer_order",
            "row_padding",
            "head_order",
            "kv_regions",
            "page_tokens",
            "blocks",
        ];
        let fields = Fields::of(json, place, &known)?;
        let blocks = fields.required("blocks", || BlocksSpec::EXPECTED.into())?;
        Ok(Self {
            pool: fields.text("pool")?,
            first_layer: fields.optional_number("first_layer", 0..=limits::LAYERS - 1)?.unwrap_or(0),
            layer_order: fields.optional_word("layer_order")?.unwrap_or_default(),
            row_padding: fields.optional_number("row_padding", 0..=limits::ROW_PADDING)?.unwrap_or(0),
            head_order: fields.optional_word("head_order")?,
            kv_regions: fields.optional_word("kv_regions")?,
            page_tokens: fields.optional_number("page_tokens", 1..=limits::BLOCK_TOKENS)?,
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
