//! Page-map changes.

use pagelift_abi::{MapArgs, MapChange};
use pagelift_device::emulation::{run, Shape};
use pagelift_kernels::pagelift_apply_map;
use proptest::prelude::*;

use crate::memory::address;
use crate::table::Table;

fn apply(table: &mut Table, maps: &mut [i32], entries: usize, shape: Shape, seed: u64) {
    let args = MapArgs { table: table.address(), maps: address(maps), entries: entries as u64 };
    // SAFETY: (1) the table has its changes, and the maps their entries.
    unsafe { run::<pagelift_apply_map>(shape, seed, args) };
}

proptest! {
    #[test]
    fn each_change_is_applied_and_no_other_entry_is_touched(
        entries in 1usize..40,
        // Entries past the maps too; each at most once, as a planner changes them.
        changes in prop::collection::btree_map(0u32..60, -1i32..1000, 0..50),
        (blocks, warps, lanes) in (1u32..4, 1u32..4, prop_oneof![Just(1u32), Just(32)]),
        seed in any::<u64>(),
    ) {
        // The last of these are not the maps' any more.
        let mut maps: Vec<i32> = (0..60).map(|entry| -2 - entry).collect();
        let mut want = maps.clone();
        for (&entry, &block) in changes.iter().filter(|(&entry, _)| (entry as usize) < entries) {
            want[entry as usize] = block;
        }
        let changes: Vec<MapChange> = changes.into_iter().map(|(entry, block)| MapChange { entry, block }).collect();
        let mut table = Table::new::<u64>(&[], 0, &[], &changes);
        apply(&mut table, &mut maps, entries, Shape { blocks, warps, lanes }, seed);
        prop_assert_eq!(maps, want);
    }
}

#[test]
fn another_version_changes_nothing() {
    let mut table = Table::new::<u64>(&[], 0, &[], &[MapChange { entry: 0, block: 5 }]);
    table.set(|header| header.version += 1);
    let mut maps = [-1];
    apply(&mut table, &mut maps, 1, Shape { blocks: 1, warps: 1, lanes: 32 }, 0);
    assert_eq!(maps, [-1]);
}
