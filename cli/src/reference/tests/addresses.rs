//! Where rows lie, by hand-written numbers.

use serde_json::json;

use super::{parse, small};
use crate::reference::address::{Place, page_place, row_place, slot};

#[test]
fn addresses_by_hand() {
    let manifest = parse(&json!({
        "version": 1, "model": "m", "prompt_tokens": 20, "block_tokens": 8,
        "pools": [
            { "name": "h", "memory": "host", "order": "layers-outermost", "layers": 5, "blocks": 12,
              "blocks_per_extent": 4, "page_bytes": 1000 },
            { "name": "d", "memory": "device", "order": "blocks-outermost", "layers": 5, "blocks": 12,
              "blocks_per_extent": 6, "page_bytes": 2000, "block_padding": 300 }
        ],
        "groups": [{
            "name": "g", "layers": 3, "landing": "host", "lift": "tail", "mirror": true,
            "layout": { "kind": "segments", "tokens_per_row": 1,
                        "segments": [{ "name": "a", "row_bytes": 100 }, { "name": "b", "row_bytes": 10 }] },
            "host": { "pool": "h", "first_layer": 1, "blocks": { "list": [0, 1, 6] } },
            "device": { "pool": "d", "first_layer": 2, "layer_order": "reversed", "row_padding": 6,
                        "blocks": { "list": [8] } }
        }]
    }));
    let group = &manifest.groups()[0];
    let (host, device) = (group.host.as_ref().unwrap(), group.device.as_ref().unwrap());
    // Block 6 is number 2 of extent 1; layer 2 is the pool's layer 3.
    assert_eq!(page_place(group, host, (2, 0), 6), Place { extent: 1, offset: 3 * 4_000 + 2_000 });
    assert_eq!(row_place(group, host, 2, 6, 0, 3), Place { extent: 1, offset: 14_000 + 300 });
    assert_eq!(row_place(group, host, 2, 6, 1, 3), Place { extent: 1, offset: 14_000 + 800 + 30 });
    // Block 8 is number 2 of extent 1; layers 2, 1, 0 are the pool's 2, 3, 4.
    let block = 2 * (5 * 2_000 + 300);
    assert_eq!(page_place(group, device, (2, 0), 8), Place { extent: 1, offset: block + 2 * 2_000 });
    assert_eq!(page_place(group, device, (0, 0), 8), Place { extent: 1, offset: block + 4 * 2_000 });
    assert_eq!(row_place(group, device, 0, 8, 0, 3), Place { extent: 1, offset: block + 8_000 + 3 * 106 });
    assert_eq!(
        row_place(group, device, 0, 8, 1, 3),
        Place { extent: 1, offset: block + 8_000 + 8 * 106 + 3 * 16 }
    );
}

#[test]
fn addresses_above_32_bits() {
    let manifest = parse(&json!({
        "version": 1, "model": "m", "prompt_tokens": 1, "block_tokens": 1,
        "pools": [{ "name": "h", "memory": "host", "order": "layers-outermost", "layers": 1, "blocks": 1_000_000,
                    "page_bytes": 9216 }],
        "groups": [{ "name": "g", "layers": 1, "landing": "host", "lift": "none", "layout": { "kind": "mla-bf16" },
                     "host": { "pool": "h", "blocks": { "list": [999_999] } } }]
    }));
    let group = &manifest.groups()[0];
    let place = page_place(group, group.host.as_ref().unwrap(), (0, 0), 999_999);
    assert_eq!(place, Place { extent: 0, offset: 9_215_990_784 });
}

#[test]
fn slots_of_tokens() {
    let manifest = small("hybrid");
    let slots = |name: &str, position| {
        let group = manifest.groups().iter().find(|group| group.name == name).unwrap();
        slot(group, group.device.as_ref().unwrap(), position).map(|slot| (slot.page, slot.row))
    };
    assert_eq!(slots("main", 70), Some((4, 6)));
    assert_eq!([70, 71, 72].map(|position| slots("index", position)), [None, Some((4, 1)), None]);
    assert_eq!(slots("index", 79), Some((4, 3)));
    // A ring for two drafts: eight slots.
    assert_eq!(
        [70, 71, 72].map(|position| slots("ring", position)),
        [Some((0, 6)), Some((0, 7)), Some((0, 0))]
    );
    assert_eq!(slots("gdn.0", 70), Some((0, 0)));
}
