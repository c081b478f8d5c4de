//! What is too much is refused, and refused at once.

use std::path::Path;

use serde_json::{Value, json};

use super::{parse, read};
use crate::manifest::Draft;

#[test]
fn pools_beyond_any_machine_are_refused() {
    let mut json = read("small/aligned.json");
    json["pools"][0]["page_bytes"] = json!(1 << 30);
    json["pools"][0]["blocks"] = json!(1 << 20);
    json["pools"][0]["blocks_per_extent"] = json!(1 << 20);
    let text = parse(json.to_string().as_bytes()).unwrap_err().to_string();
    assert!(text.contains("at pools: the bytes of all pools come to"), "{text}");
    assert!(text.contains("more than 1099511627776"), "{text}");
}

/// A manifest of one group, all of whose pages and rows are as small as can be.
fn tiny(blocks: u64, blocks_per_extent: u64, layers: u64, prompt: u64, rows: u64) -> Value {
    json!({
        "version": 1, "model": "m", "prompt_tokens": prompt, "block_tokens": rows,
        "pools": [{ "name": "h", "memory": "host", "order": "layers-outermost", "layers": layers, "blocks": blocks,
                    "blocks_per_extent": blocks_per_extent, "page_bytes": rows }],
        "groups": [{ "name": "g", "layers": layers, "landing": "host", "lift": "none",
                     "layout": { "kind": "segments", "tokens_per_row": 1,
                                 "segments": [{ "name": "s", "row_bytes": 1 }] },
                     "host": { "pool": "h", "blocks": { "scattered": { "seed": 1 } } } }]
    })
}

#[test]
fn work_beyond_reason_is_refused_at_once() {
    let cases = [
        (
            tiny(1 << 18, 1, 1, 1, 1),
            "at pools: the extents of all pools come to 262144, which is more than 16384",
        ),
        (tiny(1 << 20, 1 << 20, 32, 1, 1), "at pools: layers × blocks of all pools come to 33554432"),
        (tiny(1 << 10, 1 << 10, 1 << 7, 1 << 20, 1 << 10), "at groups: rows × segments × layers × blocks"),
        (tiny(1 << 9, 1, 1 << 13, 1, 1), "at groups: layers × extents of all groups come to 4194304"),
    ];
    for (json, expected) in cases {
        let started = std::time::Instant::now();
        let text = parse(json.to_string().as_bytes()).unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
        assert!(started.elapsed().as_secs() < 5, "{text}");
    }
}

#[test]
fn a_footprint_counts_what_small_allocations_take() {
    let draft = |json: Value| Draft::parse(json.to_string().as_bytes(), Path::new("m.json")).unwrap();
    let (one, many) = (draft(tiny(1 << 14, 1 << 14, 1, 1, 1)), draft(tiny(1 << 14, 1, 1, 1, 1)));
    assert_eq!((one.footprint().host, many.footprint().host), (1 << 14, 1 << 14));
    assert!(one.footprint().total() < 1 << 20 && many.footprint().total() >= 1 << 26);
    // Ids are drawn later: this is said at once, of however many blocks.
    assert!(draft(tiny(1 << 20, 1 << 20, 4, 1 << 20, 1)).footprint().total() > 1 << 25);
}
