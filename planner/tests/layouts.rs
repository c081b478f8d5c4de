//! The layouts of well-known models, byte by byte as their engines' sources have them.
#![allow(clippy::unwrap_used, reason = "a test says what it expects by panicking")]

use std::collections::BTreeMap;

use pagelift_planner::error::LayoutError;
use pagelift_planner::layout::{DenseShape, HeadOrder, KvRegions, KvScales, PagedLayout};

/// `(name, region, offset, row bytes, row stride)` of each segment.
fn segments(layout: &PagedLayout) -> Vec<(&str, u32, u64, u32, u32)> {
    let all = layout.segments().iter();
    all.map(|s| (s.name(), s.region(), s.offset(), s.row_bytes(), s.row_stride())).collect()
}

#[test]
fn rows_and_pages_of_the_token_paged_layouts() {
    // Bytes a row of all segments, and bytes of a page of 64 tokens.
    let cases = [
        (PagedLayout::mla_bf16(64), 1152, 64 * 1152),
        (PagedLayout::fp8_ds_mla(64), 656, 64 * 656),
        (PagedLayout::indexer_fp8(64), 132, 64 * 132),
        (PagedLayout::indexer_mxfp4(64), 68, 64 * 68),
        (PagedLayout::deepseek_v4(64, 576), 584, 37_440),
        (PagedLayout::deepseek_v4(64, 512), 584, 37_376),
        (PagedLayout::deepseek_v4_1(64), 528, 33_792),
        (PagedLayout::qsa_main_bf16(64, 2), 2048, 64 * 2048),
        (PagedLayout::qsa_main_fp8(64, 2), 1024, 64 * 1024),
        (PagedLayout::qsa_compressed_bf16(64), 256, 16 * 256),
        (PagedLayout::qsa_compressed_fp8(64, 128), 128, 16 * 128),
    ];
    for (layout, row, page) in cases {
        let layout = layout.unwrap();
        let found: u32 = layout.segments().iter().map(|segment| segment.row_bytes()).sum();
        assert_eq!((found, layout.page_bytes().get()), (row, page), "{layout:?}");
    }
}

#[test]
fn scales_follow_all_rows_of_a_page() {
    assert_eq!(
        segments(&PagedLayout::indexer_fp8(64).unwrap()),
        [("key", 0, 0, 128, 128), ("scale", 0, 64 * 128, 4, 4)]
    );
    assert_eq!(
        segments(&PagedLayout::deepseek_v4(64, 576).unwrap()),
        [("latent", 0, 0, 576, 576), ("exponent", 0, 64 * 576, 8, 8)]
    );
    assert_eq!(
        segments(&PagedLayout::deepseek_v4_1(32).unwrap()),
        [("latent", 0, 0, 512, 512), ("exponent", 0, 32 * 512, 16, 16)]
    );
}

fn dense(order: HeadOrder, regions: KvRegions, scales: KvScales) -> PagedLayout {
    PagedLayout::dense(16, DenseShape { heads: 2, dim: 64, value_bytes: 1, order, regions, scales }).unwrap()
}

#[test]
fn dense_heads_lie_where_their_order_says() {
    let (nhd, hnd) = (HeadOrder::Nhd, HeadOrder::Hnd);
    let outside = KvScales::Outside;
    assert_eq!(
        segments(&dense(nhd, KvRegions::Packed, outside)),
        [
            ("k.0", 0, 0, 64, 128),
            ("k.1", 0, 64, 64, 128),
            ("v.0", 0, 2048, 64, 128),
            ("v.1", 0, 2112, 64, 128)
        ]
    );
    assert_eq!(
        segments(&dense(hnd, KvRegions::Packed, outside)),
        [("k.0", 0, 0, 64, 64), ("k.1", 0, 1024, 64, 64), ("v.0", 0, 2048, 64, 64), ("v.1", 0, 3072, 64, 64)]
    );
    assert_eq!(
        segments(&dense(nhd, KvRegions::Separate, outside)),
        [("k.0", 0, 0, 64, 128), ("k.1", 0, 64, 64, 128), ("v.0", 1, 0, 64, 128), ("v.1", 1, 64, 64, 128)]
    );
}

#[test]
fn dense_scales_lie_at_the_end_of_the_page() {
    let packed = dense(HeadOrder::Nhd, KvRegions::Packed, KvScales::PerTokenHead);
    let scales = |layout: &PagedLayout| -> BTreeMap<String, (u32, u64, u32)> {
        let all = layout.segments().iter().filter(|segment| segment.name().ends_with("scale"));
        all.map(|s| (s.name().to_owned(), (s.region(), s.offset(), s.row_bytes()))).collect()
    };
    // Values, then 2 · R · heads · 4 bytes.
    let values = 2 * 16 * 2 * 64;
    assert_eq!(packed.page_bytes().get(), values + 2 * 16 * 2 * 4);
    assert_eq!(scales(&packed)["k.scale"], (0, values, 8));
    assert_eq!(scales(&packed)["v.scale"], (0, values + 16 * 8, 8));
    let apart = dense(HeadOrder::Hnd, KvRegions::Separate, KvScales::PerTokenHead);
    assert_eq!(apart.region_bytes(), [values / 2 + 16 * 8, values / 2 + 16 * 8]);
    assert_eq!(
        (scales(&apart)["k.scale"], scales(&apart)["v.scale"]),
        ((0, values / 2, 8), (1, values / 2, 8))
    );
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    let shape = |heads, dim, value_bytes| DenseShape {
        heads,
        dim,
        value_bytes,
        order: HeadOrder::Hnd,
        regions: KvRegions::Packed,
        scales: KvScales::PerTokenHead,
    };
    for (block, shape) in [
        (0, shape(1, 64, 2)),
        (16, shape(0, 64, 2)),
        (16, shape(1, 0, 2)),
        (16, shape(u32::MAX, 1, 1)),
        (16, shape(8, u32::MAX, 2)),
        (u32::MAX, shape(8, 1 << 28, 1)),
    ] {
        assert!(PagedLayout::dense(block, shape).is_err(), "{block} {shape:?}");
    }
    assert!(PagedLayout::deepseek_v4(64, 0).is_err());
    assert!(PagedLayout::qsa_compressed_fp8(64, 0).is_err());
    assert!(PagedLayout::qsa_main_fp8(64, u32::MAX).is_err());
    let error = PagedLayout::mla_bf16(128).unwrap().padded_to(1000).unwrap_err();
    assert_eq!(error, LayoutError::PageTooSmall { needed: 147_456, page_bytes: 1000 });
}
