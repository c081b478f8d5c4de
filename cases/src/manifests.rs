//! Texts that may be manifests: any bytes, and real manifests with something changed.

use pagelift_cli::rehearse::{Rehearsal, rehearse};
use serde_json::Value;

use crate::draw::Draw;
use crate::json::change_somewhere;

/// Manifests that are changed.
const BASES: [&str; 5] = [
    include_str!("../../manifests/small/aligned.json"),
    include_str!("../../manifests/small/hybrid-boundary.json"),
    include_str!("../../manifests/small/hybrid.json"),
    include_str!("../../manifests/small/sub-block.json"),
    include_str!("../../manifests/small/unaligned.json"),
];

/// Words that mean something somewhere, or look as if they did.
const WORDS: [&str; 40] = [
    "host",
    "device",
    "gpu",
    "tail",
    "all",
    "state",
    "none",
    "layers-outermost",
    "blocks-outermost",
    "forward",
    "reversed",
    "mla-bf16",
    "fp8-ds-mla",
    "indexer-fp8",
    "qsa-main-bf16",
    "qsa-compressed-bf16",
    "ring",
    "gdn",
    "ssm",
    "ple",
    "segments",
    "list",
    "scattered",
    "seed",
    "kind",
    "blocks",
    "pool",
    "slab",
    "main",
    "name",
    "row_padding",
    "first_layer",
    "layer_order",
    "null_block",
    "block_padding",
    "blocks_per_extent",
    "speculative_tokens",
    "tokens_per_row",
    "",
    "\u{202e}",
];

/// A run of a manifest whose pools are larger takes too long.
const MOST_BYTES: u64 = 4 << 20;

/// Plays a case, and panics where a manifest is accepted whose run fails, or where the same manifest in other words has
/// another fate.
pub fn run(draw: &mut Draw) {
    let seed = draw.below(0x100);
    let text = match draw.below(4) {
        3 => draw.rest().to_vec(),
        _ => changed(draw).to_string().into_bytes(),
    };
    check(&text, seed);
}

/// Plays one text.
///
/// # Panics
/// As [`run`].
pub fn check(text: &[u8], seed: u64) {
    let fate = |text: &[u8]| rehearse(text, MOST_BYTES, seed).unwrap_or_else(|error| panic!("{error}"));
    let found = fate(text);
    if matches!(found, Rehearsal::Refused(_)) {
        return;
    }
    let value: Value = serde_json::from_slice(text).expect("a manifest is JSON");
    let pretty = serde_json::to_string_pretty(&value).expect("JSON is text");
    assert_eq!(fate(pretty.as_bytes()), found, "with other white space and order of fields");
}

/// A real manifest with a few changes.
fn changed(draw: &mut Draw) -> Value {
    let mut manifest: Value = serde_json::from_str(draw.pick(&BASES)).expect("manifests are JSON");
    for _ in 0..draw.below(7) {
        change_somewhere(draw, &mut manifest, &WORDS);
    }
    manifest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_manifests_are_refused_or_play_well() {
        for seed in 0..200 {
            run(&mut Draw::seeded(seed));
        }
    }

    #[test]
    fn any_text_is_refused_or_played() {
        for text in ["", "{", "null", "[[[[", "{\"version\": 1e999}", "\u{feff}{}"] {
            check(text.as_bytes(), 0);
        }
        BASES.iter().for_each(|text| check(text.as_bytes(), 7));
    }
}
