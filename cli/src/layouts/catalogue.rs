//! The layouts that a manifest may name: whose they are, what their fields mean, and an example.

use crate::manifest::layout_kinds;

/// A layout that a manifest may name.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its `kind`.
    pub name: &'static str,
    /// Whose it is.
    pub from: &'static str,
    /// What a page holds.
    pub about: &'static str,
    /// Its fields besides `kind`, and what they mean.
    pub fields: &'static [(&'static str, &'static str)],
    /// An example, as a manifest has it.
    pub example: &'static str,
}

/// Tokens of a block in the examples, and draft tokens of a step.
pub const BLOCK_TOKENS: u32 = 64;
pub const SPECULATIVE_TOKENS: u32 = 2;

const KV_HEADS: (&str, &str) = ("kv_heads", "1 to 1024: KV heads of all ranks");
const CONV_KERNEL: (&str, &str) = ("conv_kernel", "1 to 1024, default 4: taps of the convolution");

/// All entries, in the order in which errors list them.
pub fn all() -> impl Iterator<Item = Entry> {
    layout_kinds().filter_map(|(name, _)| find(name))
}

/// The entry of a kind.
pub fn find(name: &str) -> Option<Entry> {
    let entry = |from, about, fields, example| {
        let name = layout_kinds().map(|(known, _)| known).find(|known| *known == name)?;
        Some(Entry { name, from, about, fields, example })
    };
    match name {
        "mla-bf16" => entry(
            "DeepSeek V3",
            "Latent attention in bf16: 512 latent and 64 rope values a token.",
            &[],
            r#"{ "kind": "mla-bf16" }"#,
        ),
        "fp8-ds-mla" => entry(
            "DeepSeek V3.2",
            "Latent attention in fp8: 512 e4m3 values, 4 fp32 scales and 64 bf16 rope values a token, side by side.",
            &[],
            r#"{ "kind": "fp8-ds-mla" }"#,
        ),
        "indexer-fp8" => entry(
            "DeepSeek V3.2",
            "Keys of the sparse indexer: all rows' 128 e4m3 values, then all rows' fp32 scales.",
            &[],
            r#"{ "kind": "indexer-fp8" }"#,
        ),
        "indexer-mxfp4" => entry(
            "DeepSeek V4",
            "Keys of the sparse indexer in MXFP4: all rows' 64 bytes of values, then all rows' 4 bytes of scales.",
            &[],
            r#"{ "kind": "indexer-mxfp4" }"#,
        ),
        "deepseek-v4" => entry(
            "DeepSeek V4",
            "All rows' 448 e4m3 and 64 bf16 rope values, then all rows' 7 UE8M0 exponents and a pad byte.",
            &[("page_multiple", "512 or 576: pages are rounded up to a multiple of so many bytes")],
            r#"{ "kind": "deepseek-v4", "page_multiple": 576 }"#,
        ),
        "deepseek-v4.1" => entry(
            "DeepSeek V4.1",
            "All rows' 512 bytes of values, then all rows' 16 UE8M0 exponents; pages are a multiple of 512 bytes.",
            &[],
            r#"{ "kind": "deepseek-v4.1" }"#,
        ),
        "qsa-main-bf16" => entry(
            "Qwen3.x sparse attention",
            "K then V of one head in a row, a segment for each head of this rank.",
            &[KV_HEADS],
            r#"{ "kind": "qsa-main-bf16", "kv_heads": 2 }"#,
        ),
        "qsa-main-fp8" => entry(
            "Qwen3.x sparse attention",
            "The same in fp8; its scale for a whole tensor lies outside the cache.",
            &[KV_HEADS],
            r#"{ "kind": "qsa-main-fp8", "kv_heads": 2 }"#,
        ),
        "qsa-compressed-bf16" => entry(
            "Qwen3.x sparse attention",
            "Compressed index keys: 128 bf16 values for 4 tokens, written with the last of them.",
            &[],
            r#"{ "kind": "qsa-compressed-bf16" }"#,
        ),
        "qsa-compressed-fp8" => entry(
            "Qwen3.x sparse attention",
            "The same in fp8, without a scale.",
            &[("width", "1 to 1,048,576, default 128: bytes of a key")],
            r#"{ "kind": "qsa-compressed-fp8" }"#,
        ),
        "dense" => entry(
            "MHA and GQA models",
            "K and V of each head. Each side says whether heads lie inside rows or outside, and whether K and V share a \
             page.",
            &[
                KV_HEADS,
                ("head_dim", "1 to 1,048,576: values of a head"),
                ("element_bytes", "1 or 2: bytes of a value"),
                ("scales", "`none` (default) or `per-token-head`: fp32 scales after the values"),
            ],
            r#"{ "kind": "dense", "kv_heads": 2, "head_dim": 128, "element_bytes": 1, "scales": "per-token-head" }"#,
        ),
        "ring" => entry(
            "Qwen3.x sparse attention",
            "Raw keys of the last tokens, one page a request: token p at slot p % slots. As many slots as hold 4 tokens \
             and the drafts after them.",
            &[("slot_bytes", "1 to 1,073,741,824, default 256: bytes of a slot")],
            r#"{ "kind": "ring" }"#,
        ),
        "gdn" => entry(
            "gated delta net",
            "A bf16 convolution state, then an fp32 temporal state; one page a request, copied whole.",
            &[
                ("v_heads", "1 to 1,048,576: value heads of all ranks"),
                ("k_heads", "1 to 1,048,576: key heads of all ranks"),
                ("v_dim", "1 to 1,048,576: values of a value head"),
                ("k_dim", "1 to 1,048,576: values of a key head"),
                CONV_KERNEL,
            ],
            r#"{ "kind": "gdn", "v_heads": 48, "k_heads": 16, "v_dim": 128, "k_dim": 128 }"#,
        ),
        "ssm" => entry(
            "Mamba2",
            "A bf16 convolution state, then an fp32 state; one page a request, copied whole.",
            &[
                ("heads", "1 to 1,048,576: heads of all ranks"),
                ("head_dim", "1 to 1,048,576: values of a head"),
                ("groups", "1 to 1,048,576: groups of all ranks"),
                ("state", "1 to 1,048,576: size of the state"),
                CONV_KERNEL,
            ],
            r#"{ "kind": "ssm", "heads": 128, "head_dim": 64, "groups": 8, "state": 128 }"#,
        ),
        "ple" => entry(
            "per-layer embeddings",
            "The state of a short bf16 convolution, whole on every rank; one page a request, copied whole.",
            &[
                ("conv_kernel", "1 to 1024: taps of the convolution"),
                ("ngram", "1 to 1,048,576: tokens of an n-gram"),
                ("hidden", "1 to 1,048,576: width of the model"),
                ("hc", "1 to 1,048,576: channels a value"),
            ],
            r#"{ "kind": "ple", "conv_kernel": 4, "ngram": 3, "hidden": 2048, "hc": 4 }"#,
        ),
        "segments" => entry(
            "any",
            "Rows of any shape: segments that follow one another, all rows of each.",
            &[
                ("tokens_per_row", "1 to 1,048,576: divides the block"),
                ("segments", "1 to 1024 objects with `name` and `row_bytes`"),
            ],
            r#"{ "kind": "segments", "tokens_per_row": 1, "segments": [{ "name": "k", "row_bytes": 512 }, { "name": "v", "row_bytes": 512 }] }"#,
        ),
        "state" => entry(
            "any",
            "A state of any shape; one page a request, copied whole.",
            &[
                ("recurrent", "`true` where it must not absorb a token twice, else `false`"),
                ("parts", "1 to 1024 objects with `name` and `bytes`"),
            ],
            r#"{ "kind": "state", "recurrent": true, "parts": [{ "name": "conv", "bytes": 4096 }, { "name": "state", "bytes": 65536 }] }"#,
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{all, find};
    use crate::manifest::layout_kinds;

    #[test]
    fn every_layout_of_a_manifest_is_described_with_all_its_fields() {
        for (name, fields) in layout_kinds() {
            let entry = find(name).unwrap_or_else(|| panic!("`{name}` is not described"));
            let described: BTreeSet<&str> = entry.fields.iter().map(|(field, _)| *field).collect();
            let known: BTreeSet<&str> = fields.iter().copied().filter(|field| *field != "kind").collect();
            assert_eq!((entry.name, described), (name, known));
        }
        assert_eq!(all().count(), layout_kinds().count());
        assert!(find("nothing").is_none());
    }
}
