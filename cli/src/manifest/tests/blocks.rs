//! Who gets which blocks.

use serde_json::json;

use super::{group, parse, read, shipped};
use crate::manifest::{Manifest, Memory};

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
