//! The page map against a plain map, over random maps, unmaps and stagings.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use pagelift_planner::error::PlanError;
use pagelift_planner::geometry::{GroupKey, Paged};
use pagelift_planner::id::{HostBlockId, PageId};
use pagelift_planner::plan::{MirrorPlan, Plan, RowCapacity};
use proptest::prelude::*;

use crate::support::decode::{changes, header};
use crate::support::encoded;
use crate::support::fixed::Three;

/// One call.
#[derive(Clone, Copy, Debug)]
enum Step {
    Map { group: usize, page: u32, block: u32 },
    Unmap { group: usize, page: u32 },
    Stage,
}

fn step() -> impl Strategy<Value = Step> {
    // Ids reach one past the pools' ends.
    let (page, block) = (0..=Three::BLOCKS, 0..=Three::BLOCKS);
    prop_oneof![
        4 => (0_usize..2, page.clone(), block).prop_map(|(group, page, block)| Step::Map { group, page, block }),
        3 => (0_usize..2, page).prop_map(|(group, page)| Step::Unmap { group, page }),
        1 => Just(Step::Stage),
    ]
}

/// The plain model: which block each (group, page) has, what the device was told, and which entries changed since.
#[derive(Default)]
struct Model {
    map: HashMap<(usize, u32), u32>,
    device: BTreeMap<u32, i32>,
    changed: BTreeMap<u32, i32>,
}

impl Model {
    fn entry(group: usize, page: u32) -> u32 {
        group as u32 * Three::BLOCKS + page
    }

    /// Whether there is room to note a change of the entry.
    fn note(&mut self, entry: u32, block: i32, capacity: u32) -> bool {
        let room = self.changed.contains_key(&entry) || self.changed.len() < capacity as usize;
        if room {
            self.changed.insert(entry, block);
        }
        room
    }

    fn map(&mut self, group: usize, page: u32, block: u32, capacity: u32) -> bool {
        let inside = page < Three::BLOCKS && block < Three::BLOCKS;
        let taken =
            self.map.keys().any(|&(_, other)| other == page) || self.map.values().any(|&b| b == block);
        let fits = inside && !taken && self.note(Self::entry(group, page), block as i32, capacity);
        if fits {
            self.map.insert((group, page), block);
        }
        fits
    }

    fn unmap(&mut self, group: usize, page: u32, capacity: u32) -> bool {
        if page >= Three::BLOCKS {
            return false;
        }
        if !self.map.contains_key(&(group, page)) {
            return true;
        }
        let fits = self.note(Self::entry(group, page), -1, capacity);
        if fits {
            self.map.remove(&(group, page));
        }
        fits
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn agrees_with_a_plain_map(steps in prop::collection::vec(step(), 0..60), capacity in 0_u32..8) {
        let three = Three::new();
        let groups: [GroupKey<Paged>; 2] = [three.tail, three.all];
        let mut plan = MirrorPlan::new(Arc::clone(&three.geometry), RowCapacity { jobs: 2, changes: capacity }).unwrap();
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Map { group, page, block } => {
                    let found = plan.page_map_mut().map(groups[group], PageId::new(page), HostBlockId::new(block));
                    prop_assert_eq!(found.is_ok(), model.map(group, page, block, capacity), "{:?}", found);
                }
                Step::Unmap { group, page } => {
                    let found = plan.page_map_mut().unmap(groups[group], PageId::new(page));
                    prop_assert_eq!(found.is_ok(), model.unmap(group, page, capacity), "{:?}", found);
                }
                Step::Stage => {
                    model.device.append(&mut model.changed);
                    for (entry, block) in changes(&encoded(&plan)) {
                        // Changes are applied in parallel: one for each entry, and all of them in the map.
                        prop_assert!(entry < three.geometry.map_entries());
                        prop_assert_eq!(model.device.get(&entry), Some(&block));
                    }
                    plan.staged();
                }
            }
            let pending: BTreeMap<u32, i32> = changes(&encoded(&plan)).into_iter().collect();
            prop_assert_eq!(pending.len(), plan.page_map().pending().len(), "an entry twice");
            prop_assert_eq!(&pending, &model.changed);
            for (group, key) in groups.into_iter().enumerate() {
                for page in 0..=Three::BLOCKS {
                    let block = plan.page_map().block_of(key, PageId::new(page)).map(HostBlockId::get);
                    prop_assert_eq!(block, model.map.get(&(group, page)).copied());
                }
            }
        }
        // What the device holds after the last staging is injective over all groups.
        plan.staged();
        model.device.append(&mut model.changed);
        let mut blocks: Vec<i32> = model.device.values().copied().filter(|&block| block >= 0).collect();
        let mapped = blocks.len();
        blocks.sort_unstable();
        blocks.dedup();
        prop_assert_eq!(blocks.len(), mapped);
        prop_assert_eq!(mapped, model.map.len());
    }
}

#[test]
fn case_10_refusals_say_who_has_the_page_or_block() {
    let three = Three::new();
    let mut plan = MirrorPlan::new(Arc::clone(&three.geometry), RowCapacity::default()).unwrap();
    let map = plan.page_map_mut();
    let (page, block) = (PageId::new, HostBlockId::new);
    map.map(three.tail, page(3), block(5)).unwrap();
    assert_eq!(
        map.map(three.tail, page(3), block(6)).unwrap_err().to_string(),
        "group `tail`: page 3 is mapped to host block 5 already; unmap it before it is given to host block 6"
    );
    assert_eq!(
        map.map(three.tail, page(4), block(5)).unwrap_err().to_string(),
        "group `tail`: host block 5 is the mirror of page 3 of group `tail` already; it cannot mirror page 4 too"
    );
    assert_eq!(
        map.map(three.all, page(4), block(5)).unwrap_err().to_string(),
        "group `all`: host block 5 is the mirror of page 3 of group `tail` already; it cannot mirror page 4 too"
    );
    assert_eq!(
        map.map(three.all, page(3), block(6)).unwrap_err(),
        PlanError::BlockOfTwoGroups {
            block: "page 3".into(),
            pool: "device".into(),
            first: "tail".into(),
            second: "all".into()
        }
    );
    assert_eq!(
        map.map(three.tail, page(8), block(6)).unwrap_err().to_string(),
        "group `tail`: page 8 is out of range: expected one of 0..8 of pool `device`"
    );
    assert_eq!(
        map.map(three.tail, page(4), block(u32::MAX)).unwrap_err().to_string(),
        "group `tail`: host block 4294967295 is out of range: expected one of 0..8 of pool `host`"
    );
    let other = Three::new();
    let foreign = PlanError::ForeignGroup { group: other.tail.id() };
    assert_eq!(map.map(other.tail, page(4), block(6)), Err(foreign.clone()));
    assert_eq!(map.unmap(other.tail, page(3)), Err(foreign));
    assert_eq!(map.block_of(other.tail, page(3)), None);
    assert_eq!(map.pending().len(), 1);
}

#[test]
fn a_page_given_away_and_taken_back_in_one_staging_is_one_change() {
    let three = Three::new();
    let mut plan = MirrorPlan::new(Arc::clone(&three.geometry), RowCapacity { jobs: 0, changes: 1 }).unwrap();
    let (page, block) = (PageId::new(2), HostBlockId::new);
    let map = plan.page_map_mut();
    map.map(three.tail, page, block(1)).unwrap();
    map.unmap(three.tail, page).unwrap();
    map.map(three.tail, page, block(4)).unwrap();
    // There is room for one entry, and the block that was let go is free again, but for another page.
    let full = PlanError::Capacity { what: "page-map changes", needed: 2, capacity: 1 };
    assert_eq!(map.map(three.all, PageId::new(3), block(1)), Err(full));
    assert_eq!(map.block_of(three.all, PageId::new(3)), None);
    assert_eq!(changes(&encoded(&plan)), [(2, 4)]);
    plan.staged();
    assert_eq!(header(&encoded(&plan)).changes, 0);
    plan.page_map_mut().map(three.all, PageId::new(3), block(1)).unwrap();
    assert_eq!(changes(&encoded(&plan)), [(Three::BLOCKS + 3, 1)]);
}
