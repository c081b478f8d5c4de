//! Manifests that contradict themselves or the format, and what is said of each.

use serde_json::{Value, json};

use super::{parse, read};

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
        &["groups[0].host.blocks", "6250 blocks are needed", "only 48 are free: give it more `blocks`"],
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
    (
        "aligned",
        "/pools/0/page_bytes",
        "18431",
        &["groups[0].host", "needs 18432 bytes", "18431", "raise its `page_bytes`"],
    ),
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
    ("unaligned", "/groups/0/host/blocks/list", "[1, 2]", &["ids in the list: expected 5", "found 2"]),
    (
        "unaligned",
        "/groups/0/device/blocks/list",
        "[1, 2]",
        &["ids in the list: expected 1 (the writable page), found 2"],
    ),
    ("unaligned", "/groups/0/device/blocks/list", "[]", &["ids in the list: expected 1", "found 0"]),
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
        &[
            "groups[0].device.first_layer: 8 layers (K's and V's, for `kv_regions` is `two`) from layer 2 on do not fit",
            "into the 9 layers of pool `slab`: give it more `layers`",
        ],
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
    (
        "kernel-pages",
        "/groups/0/device/page_tokens",
        "65536",
        &["groups[0].device.page_tokens", "256 times at most"],
    ),
    ("kernel-pages", "/groups/2/device/page_tokens", "2", &["groups[2].device.page_tokens", "whole rows"]),
    ("kernel-pages", "/groups/0/host/page_tokens", "64", &["groups[0].host.page_tokens: only token rows on"]),
    ("hybrid", "/groups/2/device/page_tokens", "8", &["groups[2].device.page_tokens: only token rows on"]),
    (
        "kernel-pages",
        "/groups/0/device/blocks",
        "{\"list\": [1, 2]}",
        &["groups[0].device.blocks.list: ids in the list: expected 1 (the writable page), found 2"],
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
