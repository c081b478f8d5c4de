//! Manifests that must load, and manifests that must not.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::span::Span;
use super::{Draft, Group, Manifest, ManifestError, Memory};

/// Every manifest that comes with the program.
pub fn shipped() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests");
    let folders = [root.clone(), root.join("small")];
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let mut paths: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    assert!(paths.len() >= 8, "{paths:?}");
    paths
}

/// A shipped manifest by its path below `manifests/`.
pub fn shipped_file(name: &str) -> PathBuf {
    shipped().into_iter().find(|path| path.ends_with(name)).unwrap()
}

fn load(name: &str) -> Manifest {
    Manifest::load(shipped_file(name)).unwrap()
}

fn group<'m>(manifest: &'m Manifest, name: &str) -> &'m Group {
    manifest.groups().iter().find(|group| group.name == name).unwrap()
}

/// Imported rows of the writable page, which is as large as a block.
fn tail_rows(group: &Group, span: &Span) -> u64 {
    group.imported_rows(span).saturating_sub(span.tail_page() * u64::from(group.shape.rows))
}

fn parse(text: &[u8]) -> Result<Manifest, ManifestError> {
    Manifest::parse(text, Path::new("m.json"))
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
    assert_eq!((span.tail_page(), span.tail_rows()), (250, 19));
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
        text.contains("expected 2 ids (the last block's pages, up to the writable one), found 1"),
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

#[test]
fn no_block_has_two_owners_and_scattered_lists_are_reproducible() {
    for path in shipped() {
        let (manifest, again) = (Manifest::load(&path).unwrap(), Manifest::load(&path).unwrap());
        assert_eq!(manifest.groups(), again.groups());
        for pool in manifest.pools() {
            assert_eq!(manifest.spare_blocks(pool), again.spare_blocks(pool));
            let mut ids: Vec<u32> = manifest.spare_blocks(pool).to_vec();
            for group in manifest.groups() {
                for side in [Memory::Host, Memory::Device].into_iter().filter_map(|memory| group.side(memory))
                {
                    ids.extend(side.blocks.iter().filter(|_| side.pool.index == pool.index));
                }
            }
            ids.extend(pool.null_block);
            ids.sort_unstable();
            assert!(ids.into_iter().eq(0..pool.blocks), "{}: {}", path.display(), pool.name);
        }
    }
}

fn read(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(shipped_file(name)).unwrap()).unwrap()
}

/// A manifest, where in it something is replaced (`null` removes it), and what the error must say.
const WRONG: &[(&str, &str, &str, &[&str])] = &[
    ("aligned", "/version", "2", &["version 2 is not supported"]),
    ("aligned", "/version", "\"1\"", &["at version: expected 1, found the text `1`"]),
    ("aligned", "/version", "null", &["the field `version` is missing: expected 1"]),
    ("aligned", "/prompt_tokens", "0", &["at prompt_tokens", "from 1"]),
    (
        "aligned",
        "/prompt_tokens",
        "-1",
        &["at prompt_tokens: expected a whole number from 1 to 1099511627776, found -1"],
    ),
    ("aligned", "/prompt_tokens", "1.5", &["at prompt_tokens", "from 1 to 1099511627776, found 1.5"]),
    (
        "aligned",
        "/prompt_tokens",
        "18446744073709551615",
        &["at prompt_tokens", "expected a whole number from 1 to"],
    ),
    (
        "aligned",
        "/prompt_tokens",
        "100000",
        &["groups[0].host.blocks", "6250 blocks are needed", "only 48 are"],
    ),
    ("aligned", "/block_tokens", "0", &["at block_tokens", "from 1"]),
    ("aligned", "/tensor_parallel", "0", &["at tensor_parallel"]),
    ("aligned", "/speculative_tokens", "99999", &["at speculative_tokens"]),
    ("aligned", "/colour", "1", &["unknown field `colour`", "prompt_tokens"]),
    ("aligned", "/pools", "[]", &["at pools: expected a list of 1 to 1024 pools, found a list of 0"]),
    ("aligned", "/groups", "[]", &["at groups: expected a list of 1 to 1024 groups"]),
    ("aligned", "/groups", "{}", &["at groups", "expected a list of 1 to 1024 groups, found an object"]),
    ("aligned", "/pools/0/colour", "1", &["pools[0]", "unknown field `colour`"]),
    (
        "aligned",
        "/pools/0/memory",
        "\"disk\"",
        &["pools[0].memory: expected `host` or `device`, found the text `disk`"],
    ),
    ("aligned", "/pools/0/order", "\"rows\"", &["pools[0].order", "layers-outermost"]),
    ("aligned", "/pools/0/layers", "0", &["pools[0].layers", "from 1"]),
    ("aligned", "/pools/0/layers", "4294967296", &["pools[0].layers", "from 1 to 65536"]),
    ("aligned", "/pools/0/blocks", "0", &["pools[0].blocks", "from 1"]),
    ("aligned", "/pools/0/blocks", "4294967295", &["pools[0].blocks", "from 1 to"]),
    ("aligned", "/pools/0/blocks_per_extent", "0", &["pools[0].blocks_per_extent", "from 1"]),
    (
        "aligned",
        "/pools/0/blocks_per_extent",
        "13",
        &["`blocks` = 48 is not a multiple of `blocks_per_extent` = 13"],
    ),
    ("aligned", "/pools/0/page_bytes", "18446744073709551615", &["pools[0].page_bytes", "from 1 to"]),
    ("aligned", "/pools/0/page_bytes", "18431", &["groups[0].host", "needs 18432 bytes", "18431"]),
    ("aligned", "/pools/0/block_padding", "16", &["pools[0].block_padding", "blocks-outermost"]),
    ("aligned", "/pools/0/null_block", "48", &["pools[0].null_block", "from 0 to 47"]),
    ("aligned", "/pools/1/name", "\"main-host\"", &["pools[1].name", "already used at pools[0].name"]),
    (
        "aligned",
        "/pools/1/name",
        "\"\"",
        &["pools[1].name", "text of 1 to 256 characters, found 0 characters"],
    ),
    ("aligned", "/groups/0/layers", "9", &["groups[0].host.first_layer", "9 layers", "8 layers of pool"]),
    ("aligned", "/groups/0/layers", "0", &["groups[0].layers"]),
    ("aligned", "/groups/0/host/first_layer", "4294967295", &["groups[0].host.first_layer"]),
    (
        "aligned",
        "/groups/0/host/pool",
        "\"nowhere\"",
        &["groups[0].host.pool", "no pool `nowhere`", "`main-host`, `slab`"],
    ),
    ("aligned", "/groups/0/host/pool", "\"slab\"", &["groups[0].host.pool", "lies in `device` memory"]),
    ("aligned", "/groups/0/device/row_padding", "1073741824", &["groups[0].device", "needs"]),
    (
        "aligned",
        "/groups/0/layout/kind",
        "\"mla\"",
        &["groups[0].layout.kind", "expected `mla-bf16`, `fp8-ds-mla`", "found the text `mla`"],
    ),
    (
        "aligned",
        "/groups/0/layout/heads",
        "2",
        &["groups[0].layout", "unknown field `heads`; the fields here are `kind`"],
    ),
    (
        "aligned",
        "/groups/0/lift",
        "\"state\"",
        &["groups[0].lift", "`tail`, `all` or `none`, not as `state`"],
    ),
    ("aligned", "/groups/0/landing", "\"gpu\"", &["groups[0].lift", "expected lift `none`, found `tail`"]),
    ("aligned", "/groups/0/lift", "\"none\"", &["groups[0].mirror", "landing `host` and a lift"]),
    ("aligned", "/groups/0/host", "null", &["groups[0]", "landing `host` needs the side `host`"]),
    ("aligned", "/groups/0/device", "null", &["groups[0]", "a lift needs the side `device`"]),
    (
        "unaligned",
        "/groups/0/host/blocks/list/4",
        "48",
        &["blocks.list[4]", "48 is not one of the 48 blocks"],
    ),
    (
        "unaligned",
        "/groups/0/host/blocks/list/4",
        "40",
        &["list[4]", "already used at groups[0].host.blocks.list[0]"],
    ),
    (
        "unaligned",
        "/groups/0/host/blocks/list/4",
        "-1",
        &["groups[0].host.blocks.list[4]: expected a whole number from 0 to 1048575, found -1"],
    ),
    ("unaligned", "/groups/0/host/blocks/list", "[1, 2]", &["expected 5 ids", "found 2"]),
    ("unaligned", "/groups/0/device/blocks/list", "[1, 2]", &["expected 1 ids (the writable page), found 2"]),
    ("unaligned", "/groups/0/device/blocks/list", "[]", &["expected 1 ids", "found 0"]),
    (
        "unaligned",
        "/groups/0/device/blocks",
        "{}",
        &["groups[0].device.blocks: expected either `{\"list\": [ids]}` or", "found neither"],
    ),
    (
        "unaligned",
        "/pools/2/null_block",
        "31",
        &["groups[0].device.blocks.list[0]", "null block of pool `slab`"],
    ),
    ("unaligned", "/groups/0/name", "\"indexer\"", &["groups[1].name", "already used at groups[0].name"]),
    (
        "sub-block",
        "/groups/0/layout/segments",
        "[]",
        &["groups[0].layout.segments", "a list of 1 to 1024 segments"],
    ),
    (
        "sub-block",
        "/groups/0/layout/segments/0/row_bytes",
        "0",
        &["groups[0].layout.segments[0].row_bytes: expected a whole number from 1"],
    ),
    (
        "sub-block",
        "/groups/1/layout/tokens_per_row",
        "3",
        &["groups[1].layout.tokens_per_row", "`block_tokens` = 16 is not a multiple of `tokens_per_row` = 3"],
    ),
    (
        "sub-block",
        "/groups/1/layout/tokens_per_row",
        "0",
        &["groups[1].layout.tokens_per_row: expected a whole number from 1"],
    ),
    ("hybrid", "/block_tokens", "14", &["groups[1].layout", "`block_tokens` = 14 is not a multiple"]),
    (
        "hybrid",
        "/speculative_tokens",
        "14",
        &["groups[2].layout", "no multiple of 4 from 18 on divides a block of 16"],
    ),
    (
        "hybrid",
        "/tensor_parallel",
        "3",
        &["groups[0].layout.kv_heads", "`kv_heads` = 2 is not a multiple of `tensor_parallel` = 3"],
    ),
    ("hybrid", "/groups/3/lift", "\"tail\"", &["groups[3].lift", "`state` or `none`, not as `tail`"]),
    ("hybrid", "/groups/2/lift", "\"all\"", &["groups[2].lift", "`state` or `none`, not as `all`"]),
    ("hybrid", "/groups/3/lift", "\"none\"", &["groups[3].mirror", "nothing of this group is ever there"]),
    ("hybrid", "/groups/3/host/row_padding", "16", &["groups[3].host.row_padding", "copied whole"]),
    ("hybrid", "/groups/4/host", "null", &["groups[4]", "a mirror needs the side `host`"]),
    ("hybrid", "/groups/6/device", "null", &["groups[6]", "landing `gpu` needs the side `device`"]),
    // Heads of dense layouts, and pages that are rounded up.
    (
        "aligned",
        "/groups/0/host/head_order",
        "\"hnd\"",
        &["groups[0].host.head_order: only the heads of a `dense` layout have a `head_order`"],
    ),
    ("hybrid", "/groups/3/device/kv_regions", "\"two\"", &["groups[3].device.kv_regions: only the heads"]),
    ("gqa", "/groups/0/host/row_padding", "16", &["groups[0].host.row_padding", "without a gap"]),
    (
        "gqa",
        "/groups/0/device/head_order",
        "\"nhdc\"",
        &["groups[0].device.head_order: expected `nhd` or `hnd`, found the text `nhdc`"],
    ),
    (
        "gqa",
        "/groups/0/device/first_layer",
        "2",
        &["groups[0].device.first_layer: 8 layers from layer 2 on do not fit into the 9 layers"],
    ),
    ("gqa", "/pools/1/page_bytes", "16383", &["groups[0].device", "needs 16384 bytes a page"]),
    ("gqa", "/pools/0/page_bytes", "32767", &["groups[0].host", "needs 32768 bytes a page"]),
    ("gqa", "/tensor_parallel", "3", &["groups[0].layout.kv_heads", "`kv_heads` = 4 is not a multiple"]),
    ("gqa", "/groups/0/layout/element_bytes", "3", &["groups[0].layout.element_bytes", "from 1 to 2"]),
    (
        "gqa",
        "/groups/0/layout/scales",
        "\"tensor\"",
        &["groups[0].layout.scales: expected `none` or `per-token-head`"],
    ),
    (
        "kernel-pages",
        "/groups/0/device/page_tokens",
        "48",
        &["groups[0].device.page_tokens: pages of 48 tokens do not pair with blocks of 128", "power of two"],
    ),
    ("kernel-pages", "/groups/2/device/page_tokens", "2", &["groups[2].device.page_tokens", "whole rows"]),
    ("kernel-pages", "/groups/0/host/page_tokens", "64", &["groups[0].host.page_tokens: only token rows on"]),
    ("hybrid", "/groups/2/device/page_tokens", "8", &["groups[2].device.page_tokens: only token rows on"]),
    (
        "kernel-pages",
        "/groups/0/device/blocks",
        "{\"list\": [1, 2]}",
        &["groups[0].device.blocks.list: expected 1 ids (the writable page), found 2"],
    ),
    (
        "split-pages",
        "/groups/0/layout/page_multiple",
        "584",
        &["groups[0].layout.page_multiple: expected 512 or 576, found 584"],
    ),
    ("split-pages", "/pools/0/page_bytes", "9344", &["groups[0].host", "needs 9792 bytes a page"]),
    ("split-pages", "/pools/1/page_bytes", "8448", &["groups[2].host", "needs 8704 bytes a page"]),
    ("qsa-fp8", "/groups/1/layout/width", "0", &["groups[1].layout.width: expected a whole number from 1"]),
    // Numbers where words belong, and words where numbers do.
    (
        "hybrid",
        "/pools/0/order",
        "1",
        &["pools[0].order: expected `layers-outermost` or `blocks-outermost`, found 1"],
    ),
    (
        "hybrid",
        "/pools/0/memory",
        "null",
        &["at pools[0]: the field `memory` is missing: expected `host` or `device`"],
    ),
    (
        "hybrid",
        "/pools/0",
        "7",
        &["at pools[0]: expected an object with the fields `name`, `memory`", "found 7"],
    ),
    (
        "hybrid",
        "/groups/0/lift",
        "[1]",
        &["groups[0].lift: expected `tail`, `all`, `state` or `none`, found a list of 1"],
    ),
    ("hybrid", "/groups/0/landing", "true", &["groups[0].landing: expected `host` or `gpu`, found true"]),
    (
        "hybrid",
        "/groups/0/mirror",
        "\"yes\"",
        &["groups[0].mirror: expected `true` or `false`, found the text `yes`"],
    ),
    (
        "hybrid",
        "/groups/0/layout",
        "null",
        &["at groups[0]: the field `layout` is missing: expected an object with a `kind`"],
    ),
    (
        "hybrid",
        "/groups/0/layout",
        "{}",
        &["at groups[0].layout: the field `kind` is missing: expected `mla-bf16`, "],
    ),
    (
        "hybrid",
        "/groups/0/layout",
        "\"mla-bf16\"",
        &["groups[0].layout: expected an object with a `kind`, found the text"],
    ),
    ("hybrid", "/groups/0/layout/kind", "1", &["groups[0].layout.kind: expected `mla-bf16`, ", "found 1"]),
    (
        "hybrid",
        "/groups/0/layout/kv_heads",
        "null",
        &["at groups[0].layout: the field `kv_heads` is missing"],
    ),
    (
        "hybrid",
        "/groups/0/layout/kv_heads",
        "\"2\"",
        &["groups[0].layout.kv_heads: expected a whole number", "found the text `2`"],
    ),
    (
        "hybrid",
        "/groups/0/host/layer_order",
        "2",
        &["groups[0].host.layer_order: expected `forward` or `reversed`, found 2"],
    ),
    ("hybrid", "/groups/0/host/blocks", "3", &["groups[0].host.blocks: expected either", "found 3"]),
    (
        "hybrid",
        "/groups/0/host/blocks/list",
        "[1]",
        &[
            "groups[0].host.blocks: expected either `{\"list\": [ids]}` or `{\"scattered\": {\"seed\": number}}`, found both",
        ],
    ),
    (
        "hybrid",
        "/groups/0/host/blocks/scattered",
        "{}",
        &["groups[0].host.blocks.scattered: the field `seed` is missing"],
    ),
    (
        "hybrid",
        "/groups/0/host/blocks/scattered/seed",
        "-1",
        &["groups[0].host.blocks.scattered.seed: expected", "found -1"],
    ),
    (
        "sub-block",
        "/groups/0/layout/segments/1/row_bytes",
        "\"68\"",
        &["groups[0].layout.segments[1].row_bytes"],
    ),
    (
        "sub-block",
        "/groups/0/layout/segments/1/bytes",
        "68",
        &["groups[0].layout.segments[1]: unknown field `bytes`"],
    ),
    (
        "sub-block",
        "/groups/0/layout/segments/1",
        "null",
        &["groups[0].layout.segments[1]: expected an object", "found null"],
    ),
    // Text that a terminal would obey.
    (
        "hybrid",
        "/model",
        "\"a\\u001b[31mb\"",
        &["at model: expected text without control characters", "a\\u{1b}[31mb"],
    ),
    ("hybrid", "/model", "7", &["at model: expected text of 1 to 256 characters, found 7"]),
    ("hybrid", "/pools/0/name", "\"a\\nb\"", &["at pools[0].name: expected text without control characters"]),
    (
        "hybrid",
        "/groups/0/name",
        "\"a\\u202eb\"",
        &["at groups[0].name: expected text without control characters"],
    ),
    (
        "hybrid",
        "/groups/0/host/pool",
        "\"a\\u0007b\"",
        &["at groups[0].host.pool: expected text without control"],
    ),
    ("hybrid", "/a\u{1b}[31mb", "7", &["unknown field `a\\u{1b}[31mb`"]),
    (
        "sub-block",
        "/groups/0/layout/segments/1/name",
        "\"\\u001b\"",
        &["groups[0].layout.segments[1].name: expected text"],
    ),
    ("hybrid", "/groups/3/layout/v_heads", "4294967295", &["groups[3].layout.v_heads", "from 1 to 1048576"]),
    (
        "hybrid",
        "/groups/3/device/blocks",
        "{\"list\": [0]}",
        &["groups[3].device.blocks.list[0]", "null block"],
    ),
];

#[test]
fn wrong_manifests_are_refused_with_place_and_reason() {
    for (name, pointer, replacement, expected) in WRONG {
        let mut json = read(&format!("small/{name}.json"));
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        match (json.pointer_mut(parent).unwrap(), serde_json::from_str(replacement).unwrap()) {
            (Value::Object(object), Value::Null) => drop(object.remove(key).unwrap()),
            (Value::Object(object), value) => drop(object.insert(key.to_owned(), value)),
            (Value::Array(array), value) => array[key.parse::<usize>().unwrap()] = value,
            _ => unreachable!(),
        }
        let error = parse(json.to_string().as_bytes()).expect_err(&format!("{name} {pointer} {replacement}"));
        let text = error.to_string();
        for part in *expected {
            assert!(text.contains(part), "{name} {pointer} = {replacement}: {part:?} is not in {text:?}");
        }
        assert!(text.starts_with("m.json: at ") && !text.contains('\n'), "{text}");
    }
}

#[test]
fn two_groups_cannot_list_one_block() {
    let mut json = read("small/hybrid.json");
    json["groups"][0]["device"]["blocks"] = json!({ "list": [5] });
    json["groups"][3]["device"]["blocks"] = json!({ "list": [5] });
    let text = parse(json.to_string().as_bytes()).unwrap_err().to_string();
    assert!(
        text.contains("groups[3].device.blocks.list[0]: block 5 of pool `slab` is already used at groups[0]")
    );
}

#[test]
fn scattered_groups_leave_listed_blocks_alone() {
    let mut json = read("small/hybrid.json");
    // The last group lists what the first would otherwise be free to draw.
    json["groups"][6]["device"]["blocks"] = json!({ "list": [5] });
    json["pools"][4]["blocks"] = json!(8);
    let manifest = parse(json.to_string().as_bytes()).unwrap();
    assert_eq!(group(&manifest, "ple").device_pages(), [5]);
    assert!(
        manifest.groups()[..6]
            .iter()
            .all(|group| !group.device_pages().contains(&5) || group.name == "index")
    );
}

#[test]
fn unreadable_and_oversized_files() {
    let text = Manifest::load("/no/such/manifest.json").unwrap_err().to_string();
    assert!(text.starts_with("cannot read the manifest /no/such/manifest.json: "), "{text}");
    let text = Manifest::load(env!("CARGO_MANIFEST_DIR")).unwrap_err().to_string();
    assert!(text.ends_with("it is a folder, not a regular file"), "{text}");
    let path = std::env::temp_dir().join(format!("pagelift-oversized-{}.json", std::process::id()));
    std::fs::write(&path, vec![b' '; (16 << 20) + 1]).unwrap();
    let result = Manifest::load(&path);
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(result, Err(ManifestError::TooLarge { .. })));
}

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

#[test]
fn text_that_is_not_plain_utf_8_is_named() {
    let text = std::fs::read_to_string(shipped_file("small/aligned.json")).unwrap();
    let error = |bytes: &[u8]| parse(bytes).unwrap_err().to_string();
    assert!(error(format!("\u{feff}{text}").as_bytes()).contains("byte-order mark"));
    let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert!(error(&[&[0xff, 0xfe], wide.as_slice()].concat()).contains("expected UTF-8, but byte 0 is none"));
    let long = error(format!("{{\"version\": 1, \"{}\": 1}}", "x".repeat(1000)).as_bytes());
    assert!(long.len() < 400, "{long}");
}

#[test]
fn few_of_many_pools_are_named() {
    let mut json = read("small/hybrid.json");
    let pool = json["pools"][0].clone();
    for index in 0..20 {
        let mut pool = pool.clone();
        pool["name"] = json!(format!("more-{index}"));
        json["pools"].as_array_mut().unwrap().push(pool);
    }
    json["groups"][0]["host"]["pool"] = json!("nowhere");
    let text = parse(json.to_string().as_bytes()).unwrap_err().to_string();
    assert!(text.ends_with("`more-0` and 19 more"), "{text}");
}

#[test]
fn trailing_and_repeated_text_is_refused() {
    let text = std::fs::read_to_string(shipped_file("small/aligned.json")).unwrap();
    assert!(
        parse(format!("{text} {{}}").as_bytes()).unwrap_err().to_string().contains("trailing characters")
    );
    let twice = text.replacen("\"version\": 1,", "\"version\": 1, \"version\": 1,", 1);
    assert!(
        parse(twice.as_bytes()).unwrap_err().to_string().contains("the field `version` is written twice")
    );
    let inner = text.replacen("\"memory\": ", "\"name\": \"x\", \"memory\": ", 1);
    let error = parse(inner.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("at pools[0]") && error.contains("the field `name` is written twice"), "{error}");
    let deep = "[".repeat(1 << 20);
    assert!(parse(deep.as_bytes()).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn truncations_are_refused(part in 0.0..1.0_f64) {
        let text = std::fs::read(shipped_file("small/hybrid.json")).unwrap();
        // All but the final newline is needed.
        let end = ((text.len() - 1) as f64 * part) as usize;
        prop_assert!(parse(&text[..end]).is_err());
    }

    #[test]
    fn random_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
        prop_assert!(parse(&bytes).is_err());
    }

    #[test]
    fn damaged_manifests_never_panic(at in any::<proptest::sample::Index>(), byte in any::<u8>()) {
        let mut text = std::fs::read(shipped_file("small/hybrid.json")).unwrap();
        let at = at.index(text.len());
        text[at] = byte;
        let _ = parse(&text);
    }

    #[test]
    fn random_numbers_never_panic(
        at in any::<proptest::sample::Index>(),
        number in prop_oneof![0..40_u64, any::<u32>().prop_map(u64::from), any::<u64>()],
    ) {
        let mut json = read("small/hybrid.json");
        let mut numbers = Vec::new();
        collect_numbers(&mut json, &mut numbers);
        let at = at.index(numbers.len());
        *numbers.swap_remove(at) = json!(number);
        drop(numbers);
        let _ = parse(json.to_string().as_bytes());
    }
}

fn collect_numbers<'v>(value: &'v mut Value, numbers: &mut Vec<&'v mut Value>) {
    match value {
        Value::Number(_) => numbers.push(value),
        Value::Array(items) => items.iter_mut().for_each(|item| collect_numbers(item, numbers)),
        Value::Object(fields) => fields.iter_mut().for_each(|(_, item)| collect_numbers(item, numbers)),
        _ => {}
    }
}
