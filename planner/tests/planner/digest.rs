//! Digests: which bytes are read, and what each of them is called, wherever it lies.

use std::sync::Arc;

use pagelift_planner::error::PlanError;
use pagelift_planner::geometry::{DigestKey, Geometry, GeometryBuilder, Memory, Paged, PagedLift, SideSpec};
use pagelift_planner::layout::PagedLayout;
use pagelift_planner::plan::{DigestPlan, Plan, PlanCapacity};
use proptest::prelude::*;

use crate::fixed::{DEVICE, HOST, paged, pool};
use pagelift_cases::decode::{header, reads};
use pagelift_cases::draw::Draw;
use pagelift_cases::shape::{Scale, Shape};
use pagelift_cases::{bytes, encoded, hosts, pages, plans};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn reads_every_row_once_under_its_logical_name(seed: u64, size in 1_u32..6) {
        let mut draw = Draw::seeded(seed);
        let shape = Shape::draw(&mut draw, &Scale::planned(size));
        let addresses = shape.nowhere();
        plans::digests(&mut draw, &shape.build(&addresses), &shape.build(&addresses));
    }
}

/// A group of 4 rows a block on both sides, one layer, and its digest keys.
fn both_sides() -> (Arc<Geometry>, DigestKey<Paged>, DigestKey<Paged>) {
    let layout = PagedLayout::builder(4).segment("key", 16).segment("scale", 4).build().unwrap();
    let mut builder = GeometryBuilder::new();
    let [host, device] = [Memory::Host, Memory::Device].map(|memory| pool(&mut builder, memory, 4, 4 * 80));
    let at = |pool, base| SideSpec::packed(pool, &[base], &[0], 80, layout.clone());
    let group = builder.group(paged("main", 1, PagedLift::Tail, at(host, HOST), at(device, DEVICE))).unwrap();
    let [host, device] = [Memory::Host, Memory::Device].map(|memory| {
        let side = builder.main_side(group, memory).unwrap();
        builder.digest(side).unwrap()
    });
    (Arc::new(builder.build().unwrap()), host, device)
}

#[test]
fn jobs_say_which_rows_of_the_whole_they_are() {
    let (geometry, host, device) = both_sides();
    let mut plan = DigestPlan::new(Arc::clone(&geometry), PlanCapacity::default()).unwrap();
    let on_host = plan.host(host, &hosts(&[3, 0, 2]), 10).unwrap();
    let one = plan.device(device, &pages(&[1]), 4).unwrap();
    let part = plan.device(device, &pages(&[1, 0]), 3).unwrap();
    let none = plan.device(device, &[], 0).unwrap();
    assert_eq!((plan.jobs(), bytes(&plan)), (4, (10 + 4 + 3) * 20));
    let jobs = reads(&geometry, &encoded(&plan));
    let rows = |job: usize| -> Vec<(u32, u64)> {
        jobs[job].iter().filter(|read| read.segment == 0).map(|read| (read.row, read.address)).collect()
    };
    let block = |base: u64, block: u64, first: u32, rows: u32| -> Vec<(u32, u64)> {
        (0..rows).map(|row| (first + row, base + block * 80 + u64::from(row) * 16)).collect()
    };
    // The third block goes on counting: its rows are rows 8 and 9 of the whole.
    assert_eq!(rows(0), [block(HOST, 3, 0, 4), block(HOST, 0, 4, 4)].concat());
    assert_eq!(rows(1), block(HOST, 2, 8, 2));
    assert_eq!(rows(2), block(DEVICE, 1, 0, 4));
    assert_eq!(rows(3), block(DEVICE, 1, 0, 3));
    // The digests of a call are the sum of its jobs'.
    let digests = [1, u64::MAX, 30, 400];
    assert_eq!([on_host, one, part, none].map(|number| number.of(&digests)), [0, 30, 400, 0].map(Some));
    assert_eq!(part.of(&digests[..3]), None, "the digests of another plan");
    let text = "digest: 4 jobs, 10 units, 340 B";
    assert!(plan.to_string().starts_with(text), "{plan}");
    plan.clear();
    assert_eq!((plan.jobs(), bytes(&plan), header(&encoded(&plan)).units), (0, 0, 0));
    assert_eq!(plan.device(device, &pages(&[1]), 4).unwrap().of(&[7]), Some(7));
}

#[test]
fn refusals() {
    let (geometry, host, device) = both_sides();
    let mut plan = DigestPlan::new(geometry, PlanCapacity { jobs: 3, list_entries: 3 }).unwrap();
    plan.host(host, &hosts(&[0, 1]), 8).unwrap();
    let before = (encoded(&plan), plan.to_string());
    let group = || "main".into();
    let length =
        |expected, found| PlanError::ListLength { group: group(), list: "blocks to digest", expected, found };
    let range = |pool: &str, block: &str| PlanError::OutOfRange {
        group: group(),
        pool: pool.into(),
        block: block.into(),
        blocks: 4,
    };
    let full = |what, needed, capacity| PlanError::Capacity { what, needed, capacity };
    assert_eq!(plan.host(host, &hosts(&[0, 1]), 9), Err(length(3, 2)));
    assert_eq!(plan.host(host, &[], 1), Err(length(1, 0)));
    assert_eq!(plan.host(host, &hosts(&[0]), u64::MAX), Err(length(u64::MAX / 4 + 1, 1)));
    assert_eq!(plan.host(host, &hosts(&[0, 4]), 5), Err(range("host", "host block 4")));
    assert_eq!(plan.device(device, &pages(&[u32::MAX]), 1), Err(range("device", "page 4294967295")));
    let error = plan.host(device, &hosts(&[0]), 1).unwrap_err();
    assert_eq!(error.to_string(), "group `main` has no host side to copy into a digest");
    assert!(matches!(plan.device(host, &pages(&[0]), 1), Err(PlanError::NoRoute { side: "device", .. })));
    let (_, foreign, _) = both_sides();
    assert_eq!(plan.host(foreign, &hosts(&[0]), 1), Err(PlanError::ForeignKey));
    assert_eq!(plan.host(host, &hosts(&[0, 1]), 8), Err(full("block list entries", 4, 3)));
    // The first of two jobs fits, the second does not: neither is left.
    plan.host(host, &hosts(&[3]), 2).unwrap();
    let two = (encoded(&plan), plan.to_string());
    assert_eq!(plan.host(host, &hosts(&[3, 2]), 6), Err(full("jobs", 4, 3)));
    assert_eq!((encoded(&plan), plan.to_string()), two);
    plan.clear();
    plan.host(host, &hosts(&[0, 1]), 8).unwrap();
    assert_eq!((encoded(&plan), plan.to_string()), before);
    // A block past those that the rows need is not looked at.
    plan.host(host, &hosts(&[0, 9]), 4).unwrap();
}

#[test]
fn case_01_rows_past_32_bits_are_refused() {
    let layout = PagedLayout::builder(1 << 31).segment("row", 1).build().unwrap();
    let mut builder = GeometryBuilder::new();
    let [host, device] = [Memory::Host, Memory::Device].map(|memory| pool(&mut builder, memory, 1, 1 << 31));
    let at = |pool, base| SideSpec::packed(pool, &[base], &[0], 1 << 31, layout.clone());
    let group = builder.group(paged("main", 1, PagedLift::Tail, at(host, HOST), at(device, DEVICE))).unwrap();
    let side = builder.main_side(group, Memory::Host).unwrap();
    let key = builder.digest(side).unwrap();
    let mut plan = DigestPlan::new(Arc::new(builder.build().unwrap()), PlanCapacity::default()).unwrap();
    let full =
        PlanError::Capacity { what: "rows of one digest", needed: 1 << 32, capacity: u64::from(u32::MAX) };
    assert_eq!(plan.host(key, &hosts(&[0, 0]), 1 << 32), Err(full));
    plan.host(key, &hosts(&[0, 0]), (1 << 32) - 1).unwrap();
}
