//! Row bindings: encoded as the device reads them, and refused where it could not.

use std::sync::Arc;

use pagelift_planner::error::PlanError;
use pagelift_planner::geometry::{PagedLift, Region};
use pagelift_planner::id::PageId;
use pagelift_planner::layout::PagedLayout;
use pagelift_planner::plan::{MirrorPlan, Plan, Queries, RowBinding, RowCapacity, SlotWidth};

use crate::fixed::{One, Three};
use pagelift_cases::decode::{HEADER_BYTES, ROW_JOB_BYTES, header, u32_at, u64_at};
use pagelift_cases::encoded;

fn all_arrays() -> RowBinding {
    RowBinding {
        slots: 0x10_0000,
        width: SlotWidth::I32,
        capacity: 48,
        count: Some(0x20_0000),
        queries: Some(Queries { starts: 0x30_0000, accepted: Some(0x40_0000), requests: 5 }),
        null_page: Some(PageId::new(0)),
    }
}

#[test]
fn bindings_are_encoded_as_documented() {
    let layout = PagedLayout::builder(8).tokens_per_row(4).segment("key", 32).build().unwrap();
    let one = One::new(&layout, 3, 4, 6, PagedLift::Tail);
    let mut plan = MirrorPlan::new(Arc::clone(&one.geometry), RowCapacity::default()).unwrap();
    plan.bind(one.group, all_arrays()).unwrap();
    let table = encoded(&plan);
    let head = header(&table);
    assert_eq!((head.jobs, head.units, head.changes, table.len()), (1, 0, 0, HEADER_BYTES + ROW_JOB_BYTES));
    let longs = [0, 8, 16, 24].map(|at| u64_at(&table, HEADER_BYTES + at));
    assert_eq!(longs, [0x10_0000, 0x20_0000, 0x30_0000, 0x40_0000]);
    let words: Vec<u32> = (0..12).map(|i| u32_at(&table, HEADER_BYTES + 32 + i * 4)).collect();
    let [route, capacity, requests, slot_bytes, page_slots, tokens_per_row, map, null_page, ..] = words[..]
    else {
        panic!("twelve words")
    };
    assert_eq!((capacity, requests, slot_bytes), (48, 5, 4));
    assert_eq!((page_slots, tokens_per_row, map, null_page), (8, 4, 0, 0));
    assert_eq!(words[8..], [2, 2, 0, 0], "rows of a map entry and of a block, flags, the reserved word");
    let route = one.geometry.routes()[route as usize];
    assert_eq!((route.source.blocks, route.destination.blocks, route.layers), (6, 4, 3));
    let arrays: Vec<Region> = plan.arrays().collect();
    let sizes = [(0x10_0000, 48 * 4), (0x20_0000, 4), (0x30_0000, 6 * 4), (0x40_0000, 5 * 4)];
    assert_eq!(arrays, sizes.map(|(at, bytes)| Region::new(at, bytes)));
}

#[test]
fn absent_arrays_are_zero_and_an_absent_null_page_is_none() {
    let three = Three::new();
    let mut plan = MirrorPlan::new(Arc::clone(&three.geometry), RowCapacity::default()).unwrap();
    plan.bind(three.tail, RowBinding::new(0x1000, 16)).unwrap();
    plan.bind(three.all, RowBinding::new(0x2000, 0)).unwrap();
    let table = encoded(&plan);
    let second = HEADER_BYTES + ROW_JOB_BYTES;
    assert_eq!(header(&table).jobs, 2);
    for (job, slots, capacity, map) in [(HEADER_BYTES, 0x1000, 16, 0), (second, 0x2000, 0, Three::BLOCKS)] {
        assert_eq!([0, 8, 16, 24].map(|at| u64_at(&table, job + at)), [slots, 0, 0, 0]);
        assert_eq!(u32_at(&table, job + 36), capacity);
        assert_eq!(u32_at(&table, job + 44), 8, "vLLM's slots are 64 bits");
        assert_eq!(u32_at(&table, job + 56), map, "each group has a page map of its own");
        assert_eq!(u32_at(&table, job + 60).cast_signed(), -1);
    }
    assert_eq!(plan.arrays().map(Region::bytes).collect::<Vec<_>>(), [128, 0]);
    plan.clear_bindings();
    assert_eq!((header(&encoded(&plan)).jobs, plan.jobs(), plan.arrays().count()), (0, 0, 0));
    plan.bind(three.tail, RowBinding::new(0x1000, 16)).unwrap();
}

#[test]
fn what_a_kernel_could_not_read_is_refused_and_changes_nothing() {
    let three = Three::new();
    let mut plan = MirrorPlan::new(Arc::clone(&three.geometry), RowCapacity::default()).unwrap();
    plan.bind(three.all, RowBinding::new(0x1000, 16)).unwrap();
    let before = encoded(&plan);
    let good = all_arrays();
    let queries = |starts, accepted, requests| Some(Queries { starts, accepted, requests });
    let cases = [
        ("slots, found 0", RowBinding { slots: 0, ..good }),
        ("slots aligned to 4 bytes, found 0x100002", RowBinding { slots: 0x10_0002, ..good }),
        (
            "slots aligned to 8 bytes, found 0x100004",
            RowBinding { slots: 0x10_0004, width: SlotWidth::I64, ..good },
        ),
        ("count, found 0", RowBinding { count: Some(0), ..good }),
        ("count aligned", RowBinding { count: Some(0x2001), ..good }),
        ("query starts, found 0", RowBinding { queries: queries(0, None, 1), ..good }),
        ("query starts aligned", RowBinding { queries: queries(2, None, 1), ..good }),
        ("accepted counts, found 0", RowBinding { queries: queries(4, Some(0), 1), ..good }),
        ("accepted counts aligned", RowBinding { queries: queries(4, Some(6), 1), ..good }),
        ("ends past 64 bits", RowBinding { slots: u64::MAX - 3, ..good }),
        ("ends past 64 bits", RowBinding { queries: queries(u64::MAX - 7, None, 1), ..good }),
        ("capacity below 2^31, found 2147483648", RowBinding { capacity: 1 << 31, ..good }),
        ("fewer than 2^31 requests", RowBinding { queries: queries(4, None, 1 << 31), ..good }),
        ("null page below 2^31", RowBinding { null_page: Some(PageId::new(1 << 31)), ..good }),
    ];
    for (words, binding) in cases {
        let error = plan.bind(three.tail, binding).unwrap_err();
        assert!(matches!(error, PlanError::Binding { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.starts_with("row binding of group `tail`: ") && text.contains(words), "{text}");
        assert_eq!(encoded(&plan), before);
    }
    assert_eq!(
        plan.bind(three.all, good),
        Err(PlanError::BoundTwice { group: "all".into() }),
        "its rows would be written twice"
    );
    let other = Three::new();
    let foreign = PlanError::ForeignGroup { group: other.tail.id() };
    assert_eq!(plan.bind(other.tail, good), Err(foreign));
    assert_eq!(encoded(&plan), before);
    plan.bind(three.tail, good).unwrap();
    assert_eq!(plan.jobs(), 2);
}

#[test]
fn bindings_past_the_capacity_are_refused() {
    let three = Three::new();
    let mut plan = MirrorPlan::new(Arc::clone(&three.geometry), RowCapacity { jobs: 1, changes: 0 }).unwrap();
    plan.bind(three.tail, all_arrays()).unwrap();
    let full = PlanError::Capacity { what: "row bindings", needed: 2, capacity: 1 };
    assert_eq!(plan.bind(three.all, all_arrays()), Err(full));
    assert_eq!(encoded(&plan).len(), plan.table_bytes());
}

#[test]
fn case_01_slots_and_rows_that_need_more_than_32_bits_are_refused() {
    // 2²⁰ pages of 4,096 tokens are 2³² slots, the most; one page more is too many.
    let layout = PagedLayout::builder(4096).segment("row", 1).build().unwrap();
    for (pages, fits) in [(1 << 20, true), ((1 << 20) + 1, false)] {
        let one = One::new(&layout, 1, 1, pages, PagedLift::Tail);
        let mut plan = MirrorPlan::new(one.geometry, RowCapacity::default()).unwrap();
        let bound = plan.bind(one.group, RowBinding::new(8, 16));
        assert_eq!(bound.is_ok(), fits, "{bound:?}");
    }
    // 64 layers of one segment: 2²⁶ entries are 2³² rows, one too many to number.
    let layout = PagedLayout::builder(1).segment("row", 16).build().unwrap();
    let one = One::new(&layout, 64, 1, 1, PagedLift::Tail);
    for (capacity, fits) in [((1 << 26) - 1, true), (1 << 26, false)] {
        let mut plan = MirrorPlan::new(Arc::clone(&one.geometry), RowCapacity::default()).unwrap();
        let bound = plan.bind(one.group, RowBinding::new(8, capacity));
        assert_eq!(bound.is_ok(), fits, "{bound:?}");
        assert_eq!(plan.jobs(), usize::from(fits));
    }
}

#[test]
fn a_group_without_a_host_side_cannot_be_mirrored() {
    let One { geometry, group } = One::on_the_device();
    let mut plan = MirrorPlan::new(geometry, RowCapacity::default()).unwrap();
    let error = plan.bind(group, RowBinding::new(8, 16)).unwrap_err();
    assert_eq!(error.to_string(), "group `main` has no host side to copy device to host");
    let page = PageId::new(0);
    let error = plan.page_map_mut().map(group, page, pagelift_planner::id::HostBlockId::new(0)).unwrap_err();
    assert_eq!(error.to_string(), "group `main` has no host side to copy device to host");
}
