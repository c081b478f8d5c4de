//! Memory that is wrong in one place is said to be wrong there.

use super::{DEVICE, HOST, MODES, Pools, SMALL, run, small};
use crate::manifest::{Manifest, SplitMix64};
use crate::reference::address::{Place, page_place, row_place};
use crate::reference::error::{ReferenceError, Region};
use crate::reference::model::Model;

#[test]
fn every_flipped_byte_is_found_where_it_is() {
    for name in SMALL {
        let manifest = small(name);
        let (mut pools, model) = run(&manifest, 5, MODES[0]);
        let mut random = SplitMix64::new(3);
        for pool in manifest.pools() {
            for _ in 0..60 {
                let extent = random.below(pool.extents() as usize);
                let offset = random.below(pool.extent_bytes() as usize);
                let bit = 1 << random.below(8);
                pools.0[pool.index][extent][offset] ^= bit;
                let error = model.verify(pool, extent as u32, &pools.0[pool.index][extent], |_| ());
                let Err(ReferenceError::Mismatch(mismatch)) = error else { panic!("{name}: {error:?}") };
                assert_eq!((mismatch.extent as usize, mismatch.offset as usize), (extent, offset));
                assert_eq!(mismatch.expected ^ mismatch.found, bit);
                pools.0[pool.index][extent][offset] ^= bit;
            }
        }
    }
}

/// What verification says after one byte was changed.
fn region_after_flip(
    manifest: &Manifest,
    pools: &mut Pools,
    model: &Model<'_>,
    pool: usize,
    at: Place,
) -> Region {
    pools.0[pool][at.extent as usize][at.offset as usize] ^= 0x10;
    let error = pools.verify(manifest, model).unwrap_err();
    pools.0[pool][at.extent as usize][at.offset as usize] ^= 0x10;
    match error {
        ReferenceError::Mismatch(mismatch) => mismatch.region,
        other => panic!("{other}"),
    }
}

#[test]
fn a_mismatch_names_rows_holes_and_every_kind_of_padding() {
    let manifest = small("unaligned");
    let (mut pools, model) = run(&manifest, 3, MODES[0]);
    let main = &manifest.groups()[0];
    let device = main.device.as_ref().unwrap();
    let (pool, page) = (device.pool.index, main.device_pages()[0]);
    let holds = |region| match region {
        Region::Row { group, layer: 3, segment, byte: 7, holds, .. } => {
            assert_eq!((group.as_str(), segment.as_str()), ("main", "latent"));
            holds
        }
        other => panic!("{other:?}"),
    };
    let row = |row| {
        let place = row_place(main, device, 3, page, 0, row);
        Place { offset: place.offset + 7, ..place }
    };
    let mut region = |at| region_after_flip(&manifest, &mut pools, &model, pool, at);
    // 69 tokens in blocks of 16: rows 64 to 67 as imported, 68 to 70 computed (68 again), and holes behind.
    assert_eq!(holds(region(row(3))), "row 67 of the producer");
    assert_eq!(holds(region(row(4))), "the row of token 68, computed in step 0");
    assert_eq!(holds(region(row(6))), "the row of token 70, computed in step 2");
    assert_eq!(holds(region(row(7))), "row 71 of the producer");
    let begin = page_place(main, device, (3, 0), page);
    let after = |bytes| Place { offset: begin.offset + bytes, ..begin };
    let padding = Region::Padding { group: "main".into(), layer: 12, block: page };
    assert_eq!(region(after(656)), padding, "after a row");
    assert_eq!(region(after(10_751)), padding, "after the last row");
    assert_eq!(region(after(10_752)).to_string(), holds_first_byte_of_next_layer(page));
    let block = 17 * 10_752 + 256;
    let at = |offset| Place { extent: 0, offset };
    assert_eq!(region(at(block * 5 - 1)), Region::BlockPadding { block: 4 });
    assert_eq!(region(at(block * 5)), Region::Unused { layer: 0, block: 5 });
    assert_eq!(
        region(at(block * 31)),
        Region::Unused { layer: 0, block: 31 },
        "a layer below the group's first"
    );
}

fn holds_first_byte_of_next_layer(page: u32) -> String {
    format!(
        "group `main`, layer 4, block {page}, segment `latent`, row 0, byte 0, which must hold row 64 of the producer"
    )
}

#[test]
fn misplaced_rows_are_found() {
    let manifest = small("hybrid");
    let (mut pools, model) = run(&manifest, 3, MODES[0]);
    for group in manifest.groups() {
        for memory in [HOST, DEVICE] {
            let Some(&[first, ..]) = group.side(memory).map(|side| side.blocks.as_slice()) else { continue };
            // Two rows of a block, two layers of a row.
            let swaps = [((0, 0), (0, 1)), ((0, 0), (1, 0))];
            for ((layer, row), (other_layer, other_row)) in swaps {
                if other_row >= group.side(memory).unwrap().rows || other_layer >= group.layers {
                    continue;
                }
                let one = ((memory, first, row), layer);
                let other = ((memory, first, other_row), other_layer);
                pools.swap(group, one, other);
                assert!(pools.verify(&manifest, &model).is_err(), "{} in {memory} memory", group.name);
                pools.swap(group, one, other);
            }
        }
    }
    pools.verify(&manifest, &model).unwrap();
}

#[test]
fn a_copy_that_was_left_out_is_found() {
    for name in SMALL {
        let manifest = small(name);
        let (pools, mut model) = run(&manifest, 2, MODES[0]);
        let group = &manifest.groups()[0];
        let (block, page) = (group.host_blocks()[0], group.device_pages()[0]);
        // The model hears of a mirror that the memory has not seen.
        let row = group.device.as_ref().unwrap().rows - 1;
        let other = manifest.spare_blocks(&group.host.as_ref().unwrap().pool)[0];
        model.mirror(group, (page, row), (other, row)).unwrap();
        assert!(pools.verify(&manifest, &model).is_err(), "{name}");
        let (pools, mut model) = run(&manifest, 2, MODES[0]);
        let spare = manifest.spare_blocks(&group.device.as_ref().unwrap().pool)[0];
        model.lift(group, (block, 0), (spare, 0)).unwrap();
        assert!(pools.verify(&manifest, &model).is_err(), "{name}");
    }
}
