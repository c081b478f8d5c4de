//! The manifests that come with the program: what their numbers must be.

use serde_json::json;

use super::{group, parse, read, shipped, shipped_file};
use crate::manifest::span::Span;
use crate::manifest::{Group, Manifest};

fn load(name: &str) -> Manifest {
    Manifest::load(shipped_file(name)).unwrap()
}

/// Imported rows of the writable page, which is as large as a block.
fn tail_rows(group: &Group, span: &Span) -> u64 {
    group.imported_rows(span).saturating_sub(span.tail_page() * u64::from(group.shape.rows))
}

#[test]
fn every_shipped_manifest_loads_and_fits_a_small_machine() {
    for path in shipped() {
        let manifest = Manifest::load(&path).unwrap();
        assert!(manifest.footprint().total() < 4 << 30, "{}: {:?}", path.display(), manifest.footprint());
        for pool in manifest.pools() {
            assert!(!manifest.spare_blocks(pool).is_empty(), "{}: {}", path.display(), pool.name);
        }
    }
}

#[test]
fn deepseek_v3() {
    let manifest = load("manifests/deepseek-v3-bf16.json");
    let (span, main) = (manifest.span(), group(&manifest, "main"));
    assert_eq!((span.imported_tokens, span.resume_at), (32_019, 32_018));
    assert_eq!((span.received_blocks(), span.capacity(), span.holes()), (251, 32_128, 109));
    assert_eq!((span.tail_page(), span.tail_tokens()), (250, 19));
    assert_eq!((main.host_blocks().len(), main.device_pages().len(), tail_rows(main, span)), (251, 1, 19));
    assert_eq!(main.shape.content_bytes(128), 147_456);
}

#[test]
fn deepseek_v32() {
    let manifest = load("manifests/deepseek-v3.2.json");
    let (span, main, indexer) = (manifest.span(), group(&manifest, "main"), group(&manifest, "indexer"));
    assert_eq!((span.received_blocks(), span.capacity(), span.holes()), (501, 32_064, 45));
    assert_eq!((main.host_blocks().len(), main.device_pages().len()), (501, 1));
    assert_eq!((indexer.host_blocks().len(), indexer.device_pages().len()), (501, 501));
}

#[test]
fn deepseek_v4() {
    let manifest = load("manifests/deepseek-v4.json");
    let main = group(&manifest, "main");
    // 64 rows of 584 bytes are 37,376; the next multiple of 576 is 65 of them.
    assert_eq!(
        (main.shape.content_bytes(64), main.device.as_ref().unwrap().pool.page_bytes),
        (37_376, 37_440)
    );
}

#[test]
fn llama_70b_on_one_rank_of_four() {
    let manifest = load("manifests/llama-3-70b-fp8-tp4.json");
    let (span, kv) = (manifest.span(), group(&manifest, "kv"));
    assert_eq!((span.received_blocks(), span.holes(), span.tail_tokens()), (2_002, 13, 3));
    // Two heads of 128 bytes and a scale each, of K and of V: 528 bytes a token.
    assert_eq!((kv.shape.content_bytes(16), kv.shape.segments.len()), (16 * 528, 2 * 2 + 2));
    let (host, device) = (kv.host.as_ref().unwrap(), kv.device.as_ref().unwrap());
    assert_eq!((host.pool.layers, device.pool.layers), (80, 160));
}

#[test]
fn nemotron_h_on_one_rank_of_four() {
    let manifest = load("manifests/nemotron-h-8b-tp4.json");
    let (span, kv, ssm) = (manifest.span(), group(&manifest, "kv"), group(&manifest, "ssm.5"));
    assert_eq!((span.imported_tokens, span.resume_at, span.tail_tokens()), (32_018, 32_018, 818));
    let parts: Vec<u32> = ssm.shape.segments.iter().map(|part| part.row_bytes).collect();
    assert_eq!(parts, [15_360, 1_048_576]);
    assert_eq!(kv.shape.content_bytes(1_040), 1_064_960, "the page that holds a state too");
}

#[test]
fn qwen_flash_on_one_rank_of_two() {
    let manifest = load("manifests/qwen3.8-flash-tp2.json");
    let span = manifest.span();
    assert_eq!((span.imported_tokens, span.resume_at), (33_499, 33_499));
    assert_eq!(tail_rows(group(&manifest, "main"), span), 1_499);
    let (index, gdn) = (group(&manifest, "index"), group(&manifest, "gdn.1"));
    assert_eq!((index.shape.rows, tail_rows(index, span)), (400, 374));
    assert_eq!(
        (gdn.shape.content_bytes(1), gdn.device.as_ref().unwrap().pool.page_bytes),
        (1_624_064, 1_638_400)
    );
    assert_eq!(group(&manifest, "ring").shape.rows, 8);
    let layers: u32 =
        ["main", "gdn.0", "gdn.1", "gdn.2"].map(|name| group(&manifest, name).layers).iter().sum();
    assert_eq!(layers, 48);
}

#[test]
fn an_import_that_ends_on_a_block_still_reserves_the_writable_page() {
    let manifest = load("small/hybrid-boundary.json");
    let (span, main, index) = (manifest.span(), group(&manifest, "main"), group(&manifest, "index"));
    assert_eq!((span.received_blocks(), span.tail_page()), (4, 4));
    assert_eq!((main.host_blocks().len(), main.device_pages().len(), tail_rows(main, span)), (5, 1, 0));
    assert_eq!((index.host_blocks().len(), index.device_pages().len()), (5, 5));
}

#[test]
fn case_07_blocks_over_smaller_pages() {
    let lists = |prompt: u64, name: &str| {
        let mut json = read("small/kernel-pages.json");
        json["prompt_tokens"] = json!(prompt);
        let manifest = parse(json.to_string().as_bytes()).unwrap();
        let group = group(&manifest, name);
        (group.host_blocks().len(), group.first_page(manifest.span()), group.device_pages().len())
    };
    // 160 tokens are two blocks of 128, but three pages of 64, the last of them the writable one.
    assert_eq!([lists(160, "kv"), lists(160, "kv-all")], [(2, 2, 1), (2, 0, 3)]);
    // The last block's pages up to the writable one, at both sides of each seam.
    assert_eq!(
        [128, 129, 192, 193].map(|prompt| lists(prompt, "kv")),
        [(1, 0, 2), (2, 2, 1), (2, 2, 1), (2, 2, 2)]
    );
    // Pages of 256 begin before the last block.
    assert_eq!(
        [128, 160, 256, 257].map(|prompt| lists(prompt, "long")),
        [(1, 0, 1), (2, 0, 1), (2, 0, 1), (3, 1, 1)]
    );
    // Four rows of a page of 16: 160 tokens end one.
    assert_eq!([160, 161].map(|prompt| lists(prompt, "index")), [(2, 0, 10), (2, 0, 11)]);
    assert_eq!([160, 161].map(|prompt| lists(prompt, "landed")), [(0, 0, 5), (0, 0, 6)]);
}

#[test]
fn a_tail_of_several_pages_lists_all_of_them() {
    let mut json = read("small/kernel-pages.json");
    json["prompt_tokens"] = json!(250);
    json["groups"][0]["device"]["blocks"] = json!({ "list": [1] });
    let text = parse(json.to_string().as_bytes()).unwrap_err().to_string();
    assert!(
        text.contains(
            "ids in the list: expected 2 (the last block's pages, up to the writable one), found 1"
        ),
        "{text}"
    );
}

#[test]
fn compressed_rows_count_only_when_their_tokens_are_complete() {
    for prompt in 1_602..=1_604 {
        let mut json = read("manifests/qwen3.8-flash-tp2.json");
        json["prompt_tokens"] = json!(prompt);
        let manifest = parse(json.to_string().as_bytes()).unwrap();
        assert_eq!(tail_rows(group(&manifest, "index"), manifest.span()), 0);
        assert_eq!(tail_rows(group(&manifest, "main"), manifest.span()), prompt - 1_601);
    }
}
