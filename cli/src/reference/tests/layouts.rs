//! Every layout by hand-written numbers: where its rows lie in a page, and how many bytes that takes.

use serde_json::{Value, json};

use super::parse;
use crate::manifest::{Group, Manifest, Side};
use crate::reference::address::{RowAt, row_place, rows_in_order};

/// A page of a layout, alone in its pool.
struct Page(Manifest);

impl Page {
    /// The layout's fields and the side's, in blocks of so many tokens.
    fn new(block_tokens: u32, layout: Value, side: Value) -> Self {
        // As many bytes as any of the layouts needs, and room for a second region.
        let (pool, host) = (1 << 24, json!({ "pool": "p", "blocks": { "scattered": { "seed": 1 } } }));
        let mut manifest = json!({
            "version": 1, "model": "m", "prompt_tokens": 2, "block_tokens": block_tokens, "tensor_parallel": 2,
            "speculative_tokens": 2,
            "pools": [{ "name": "p", "memory": "host", "order": "layers-outermost", "layers": 2, "blocks": 1,
                        "page_bytes": pool }],
            "groups": [{ "name": "g", "layers": 1, "landing": "host", "lift": "none", "layout": layout,
                         "host": host }]
        });
        for (field, value) in side.as_object().unwrap() {
            manifest["groups"][0]["host"][field] = value.clone();
        }
        Self(parse(&manifest))
    }

    fn group(&self) -> (&Group, &Side) {
        let group = &self.0.groups()[0];
        (group, group.host.as_ref().unwrap())
    }

    /// Where a row of a segment begins: its region, and bytes from the region's beginning.
    fn row(&self, segment: &str, row: u32) -> (u64, u64) {
        let (group, side) = self.group();
        let index = group.shape.segments.iter().position(|named| named.name == segment).unwrap();
        let place = row_place(group, side, 0, 0, index, row);
        // The pool has layers outermost and one block, so a region is a page's bytes.
        (place.offset / side.pool.page_bytes, place.offset % side.pool.page_bytes)
    }

    /// Bytes that a page of this layout needs in a pool.
    fn bytes(&self) -> u64 {
        let (group, side) = self.group();
        group.shape.page_bytes(side.rows, side.row_padding, side.kv_regions)
    }
}

fn plain(block_tokens: u32, layout: Value) -> Page {
    Page::new(block_tokens, layout, json!({}))
}

#[test]
fn latent_rows() {
    let mla = plain(128, json!({ "kind": "mla-bf16" }));
    assert_eq!((mla.row("latent", 19), mla.bytes()), ((0, 21_888), 147_456));
    let v32 = plain(64, json!({ "kind": "fp8-ds-mla" }));
    assert_eq!((v32.row("latent", 63), v32.bytes()), ((0, 41_328), 41_984));
}

#[test]
fn indexer_scales_follow_all_keys() {
    let fp8 = plain(64, json!({ "kind": "indexer-fp8" }));
    assert_eq!([fp8.row("key", 5), fp8.row("scale", 5)], [(0, 640), (0, 64 * 128 + 4 * 5)]);
    assert_eq!(fp8.bytes(), 8_448);
    let mxfp4 = plain(64, json!({ "kind": "indexer-mxfp4" }));
    assert_eq!([mxfp4.row("key", 5), mxfp4.row("scale", 5)], [(0, 320), (0, 64 * 64 + 4 * 5)]);
    assert_eq!(mxfp4.bytes(), 4_352);
}

#[test]
fn deepseek_v4_pages_are_rounded_up() {
    for (multiple, bytes) in [(576, 37_440), (512, 37_376)] {
        let page = plain(64, json!({ "kind": "deepseek-v4", "page_multiple": multiple }));
        assert_eq!([page.row("latent", 1), page.row("exponent", 1)], [(0, 576), (0, 64 * 576 + 8)]);
        assert_eq!(page.bytes(), bytes);
    }
    let page = plain(16, json!({ "kind": "deepseek-v4.1" }));
    assert_eq!([page.row("latent", 1), page.row("exponent", 1)], [(0, 512), (0, 16 * 512 + 16)]);
    // 16 · 528 = 8,448 is no multiple of 512.
    assert_eq!(page.bytes(), 8_704);
}

#[test]
fn sparse_attention_keeps_heads_apart_and_one_key_for_four_tokens() {
    let bf16 = plain(1600, json!({ "kind": "qsa-main-bf16", "kv_heads": 4 }));
    assert_eq!((bf16.row("head1", 7), bf16.bytes()), ((0, 1600 * 1024 + 7 * 1024), 2 * 1_638_400));
    let fp8 = plain(1600, json!({ "kind": "qsa-main-fp8", "kv_heads": 4 }));
    assert_eq!((fp8.row("head1", 7), fp8.bytes()), ((0, 1600 * 512 + 7 * 512), 1_638_400));
    for (layout, row_bytes) in [
        (json!({ "kind": "qsa-compressed-bf16" }), 256),
        (json!({ "kind": "qsa-compressed-fp8" }), 128),
        (json!({ "kind": "qsa-compressed-fp8", "width": 96 }), 96),
    ] {
        let keys = plain(1600, layout);
        assert_eq!((keys.row("key", 399), keys.bytes()), ((0, 399 * row_bytes), 400 * row_bytes));
    }
    // For two drafts, eight slots; with M-RoPE positions, 280 bytes each.
    let ring = plain(1600, json!({ "kind": "ring", "slot_bytes": 280 }));
    assert_eq!((ring.row("slot", 7), ring.bytes()), ((0, 1_960), 2_240));
}

/// Four heads over two ranks, of 128 values of two bytes: 256 bytes a head, 512 a row of K.
fn dense(side: Value) -> Page {
    Page::new(16, json!({ "kind": "dense", "kv_heads": 4, "head_dim": 128, "element_bytes": 2 }), side)
}

#[test]
fn dense_heads_lie_inside_or_outside_rows() {
    let nhd = dense(json!({}));
    assert_eq!([nhd.row("k.0", 3), nhd.row("k.1", 3)], [(0, 1_536), (0, 1_536 + 256)]);
    assert_eq!([nhd.row("v.0", 3), nhd.row("v.1", 3)], [(0, 8_192 + 1_536), (0, 8_192 + 1_792)]);
    let hnd = dense(json!({ "head_order": "hnd" }));
    assert_eq!([hnd.row("k.0", 3), hnd.row("k.1", 3)], [(0, 768), (0, 16 * 256 + 768)]);
    assert_eq!([hnd.row("v.0", 3), hnd.row("v.1", 3)], [(0, 8_192 + 768), (0, 8_192 + 4_864)]);
    assert_eq!((nhd.bytes(), hnd.bytes()), (16_384, 16_384));
}

#[test]
fn dense_keys_and_values_may_lie_apart() {
    let nhd = dense(json!({ "kv_regions": "two" }));
    assert_eq!([nhd.row("k.1", 3), nhd.row("v.1", 3)], [(0, 1_792), (1, 1_792)]);
    let hnd = dense(json!({ "kv_regions": "two", "head_order": "hnd" }));
    assert_eq!([hnd.row("k.1", 3), hnd.row("v.1", 3)], [(0, 4_864), (1, 4_864)]);
    assert_eq!((nhd.bytes(), hnd.bytes()), (8_192, 8_192));
}

#[test]
fn dense_scales_end_the_page() {
    let layout = || {
        json!({ "kind": "dense", "kv_heads": 4, "head_dim": 128, "element_bytes": 1,
                "scales": "per-token-head" })
    };
    for order in ["nhd", "hnd"] {
        // Two heads of 128 bytes: 4,096 bytes of K, as many of V, then 8 bytes of scales a token of each.
        let one = Page::new(16, layout(), json!({ "head_order": order }));
        assert_eq!([one.row("k.scale", 3), one.row("v.scale", 3)], [(0, 8_192 + 24), (0, 8_192 + 128 + 24)]);
        assert_eq!(one.bytes(), 2 * 16 * 2 * 128 + 2 * 16 * 2 * 4);
        let two = Page::new(16, layout(), json!({ "head_order": order, "kv_regions": "two" }));
        assert_eq!([two.row("k.scale", 3), two.row("v.scale", 3)], [(0, 4_096 + 24), (1, 4_096 + 24)]);
        assert_eq!(two.bytes(), 4_224);
    }
}

#[test]
fn rows_in_order_are_all_rows_and_never_go_back() {
    let dense = || json!({ "kind": "dense", "kv_heads": 6, "head_dim": 5, "element_bytes": 1, "scales": "per-token-head" });
    let pages = [
        plain(16, json!({ "kind": "deepseek-v4", "page_multiple": 576 })),
        Page::new(16, json!({ "kind": "indexer-fp8" }), json!({ "row_padding": 3 })),
        Page::new(16, dense(), json!({ "head_order": "nhd", "kv_regions": "one" })),
        Page::new(16, dense(), json!({ "head_order": "nhd", "kv_regions": "two" })),
        Page::new(16, dense(), json!({ "head_order": "hnd", "kv_regions": "one" })),
        Page::new(16, dense(), json!({ "head_order": "hnd", "kv_regions": "two" })),
    ];
    for page in pages {
        let (group, side) = page.group();
        let mut rows = 0;
        for region in 0..side.kv_regions.count() {
            let mut last = 0;
            for RowAt { segment, row, start, end } in rows_in_order(group, side, region) {
                let place = row_place(group, side, 0, 0, segment, row);
                assert_eq!(place.offset, u64::from(region) * side.pool.page_bytes + start as u64);
                assert!(last <= start && end as u64 <= page.bytes(), "{:?}", group.layout);
                (last, rows) = (end, rows + 1);
            }
        }
        assert_eq!(rows, group.shape.rows as usize * group.shape.segments.len());
    }
}
