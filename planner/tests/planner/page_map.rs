//! The page map against a plain map, over random maps, unmaps and stagings.

use std::sync::Arc;

use pagelift_planner::error::PlanError;
use pagelift_planner::id::{HostBlockId, PageId};
use pagelift_planner::plan::{DeviceToHost, MirrorPlan, Plan, RowCapacity};
use proptest::prelude::*;

use crate::fixed::Three;
use pagelift_cases::decode::{changes, header};
use pagelift_cases::draw::Draw;
use pagelift_cases::shape::{Scale, Shape};
use pagelift_cases::{encoded, plans};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn agrees_with_a_plain_map_of_parts(seed: u64, size in 1_u32..6) {
        let mut draw = Draw::seeded(seed);
        let shape = Shape::draw(&mut draw, &Scale::planned(size));
        let addresses = shape.nowhere();
        plans::rows::<DeviceToHost>(&mut draw, &shape.build(&addresses), &shape.build(&addresses));
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
