//! Texts that may be manifests: any bytes, and real manifests with something changed.

use pagelift_cli::rehearse::{Rehearsal, rehearse};
use serde_json::{Map, Value};

use crate::draw::Draw;

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
        change_somewhere(draw, &mut manifest);
    }
    manifest
}

/// Changes a value, or one inside it.
fn change_somewhere(draw: &mut Draw, value: &mut Value) {
    let count = children(value) as u64;
    if count == 0 || draw.once_in(6) {
        return change(draw, value);
    }
    let at = draw.below(count) as usize;
    let inside = match value {
        Value::Array(list) => list.get_mut(at),
        Value::Object(fields) => fields.values_mut().nth(at),
        _ => None,
    };
    if let Some(inside) = inside {
        change_somewhere(draw, inside);
    }
}

fn children(value: &Value) -> usize {
    match value {
        Value::Array(list) => list.len(),
        Value::Object(fields) => fields.len(),
        _ => 0,
    }
}

/// Changes a value.
fn change(draw: &mut Draw, value: &mut Value) {
    let count = children(value) as u64;
    match value {
        Value::Number(number) if !draw.once_in(4) => {
            let old = number.as_u64().unwrap_or(0);
            let new = match draw.below(8) {
                0 => old.wrapping_add(1),
                1 => old.wrapping_sub(1),
                2 => old.wrapping_mul(2),
                3 => old / 2,
                4 => draw.below(0x100),
                5 => draw.below(0x1_0000),
                6 => 1 << draw.below(64),
                _ => draw.number(),
            };
            *value = new.into();
        }
        Value::String(_) if !draw.once_in(4) => *value = draw.pick(&WORDS).into(),
        Value::Bool(flag) if !draw.once_in(4) => *flag = !*flag,
        Value::Array(list) if count > 0 && !draw.once_in(4) => {
            let at = draw.below(count) as usize;
            match draw.below(4) {
                0 => drop(list.remove(at)),
                1 => list.push(list[at].clone()),
                2 => list.swap(0, at),
                _ => list.clear(),
            }
        }
        Value::Object(fields) if count > 0 && !draw.once_in(4) => change_field(draw, fields),
        _ => *value = any_value(draw),
    }
}

/// Takes a field away, gives it another name, or adds one.
fn change_field(draw: &mut Draw, fields: &mut Map<String, Value>) {
    let at = draw.below(fields.len() as u64) as usize;
    let Some((name, value)) = fields.iter().nth(at).map(|(name, value)| (name.clone(), value.clone())) else {
        return;
    };
    match draw.below(3) {
        0 => drop(fields.remove(&name)),
        1 => drop(fields.insert(draw.pick(&WORDS).into(), value)),
        _ => drop(fields.insert(draw.pick(&WORDS).into(), any_value(draw))),
    }
}

/// A small value of any type.
fn any_value(draw: &mut Draw) -> Value {
    match draw.below(8) {
        0 => Value::Null,
        1 => true.into(),
        2 => draw.number().into(),
        3 => (draw.below(0x100) as i64 - 128).into(),
        4 => (draw.below(0x100) as f64 / 8.0).into(),
        5 => draw.pick(&WORDS).into(),
        6 => Value::Array((0..draw.below(4)).map(|_| draw.below(50).into()).collect()),
        _ => Value::Object([(draw.pick(&WORDS).to_owned(), draw.below(50).into())].into_iter().collect()),
    }
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
