//! Plans and geometries in words for a person, and as data for a program.

use pagelift_planner::id::{GroupId, HostBlockId, PageId, Ticket};
use pagelift_planner::layout::PagedLayout;
use pagelift_planner::plan::{MirrorPlan, PlanCapacity, RowBinding, RowCapacity, TailRows};
use pagelift_planner::quantity::{Bytes, Rows, Tokens};
use serde_json::json;

use crate::fixed::{Three, hybrid, import, prompt};
use pagelift_cases::{hosts, pages};

#[test]
fn a_restore_plan_reads_well_and_serialises() {
    let three = Three::new();
    let mut plan = three.plan();
    assert_eq!(plan.to_string(), "host to device: 0 jobs, 0 units, 0 B");
    let (blocks, page) = (hosts(&[0, 1, 2, 3, 4, 5, 6]), pages(&[0, 1, 2, 3, 4]));
    let lists =
        three.lists((&blocks[..3], &page[..1]), (&blocks[3..6], &page[1..4]), (&blocks[6..], &page[4..]));
    plan.lift(&import(hybrid(10), &lists), TailRows::ExactZeroed).unwrap();
    let expected = "host to device: 6 jobs, 14 units, 1216 B
  copy `tail`: 1 block, rows 0..1, 2 layers
  zero `tail`: 1 block, rows 1..4, 2 layers
  copy `all`: 2 blocks, rows 0..4, 2 layers
  copy `all`: 1 block, rows 0..1, 2 layers
  zero `all`: 1 block, rows 1..4, 2 layers
  copy `state`: 1 block, rows 0..1, 2 layers";
    assert_eq!(plan.to_string(), expected);
    let summary = serde_json::to_value(plan.summary()).unwrap();
    assert_eq!(
        (&summary["direction"], &summary["units"], &summary["bytes"]),
        (&json!("host to device"), &json!(14), &json!(1216))
    );
    assert_eq!(
        summary["jobs"][2],
        json!({"group": "all", "layers": 2, "blocks": 2, "first_row": 0, "source_row": 0, "rows": 4, "zero": false,
            "units": 4, "bytes": 768, "widths": [16]})
    );
    let summary = plan.summary();
    let copied = summary.jobs.iter().filter(|job| !job.zero).filter_map(|job| job.bytes);
    assert_eq!(Some(copied.sum()), summary.bytes);
    assert_eq!(summary.jobs.iter().filter_map(|job| job.units).sum::<u32>(), summary.units);
    let blocks: Vec<Vec<_>> = (0..7).map(|job| plan.blocks_of(job).collect()).collect();
    assert_eq!([&blocks[0], &blocks[2], &blocks[3]], [&[(2, 0)][..], &[(3, 1), (4, 2)], &[(5, 3)]]);
    assert_eq!((blocks[4][0].1, &blocks[5], &blocks[6]), (3, &vec![(6, 4)], &vec![]));
}

#[test]
fn a_mirror_plan_says_what_it_may_copy_and_not_how_much() {
    let three = Three::new();
    let mut plan = MirrorPlan::new(three.geometry.clone(), RowCapacity::default()).unwrap();
    plan.bind(three.tail, RowBinding::new(0x1000, 256)).unwrap();
    let expected = "device to host: 1 job\n  mirror `tail`: up to 256 tokens a step, 2 layers";
    assert_eq!(plan.to_string(), expected);
    let summary = serde_json::to_value(plan.summary()).unwrap();
    // Uncollected is absent, never 0.
    assert_eq!(summary["bytes"], json!(null));
    assert_eq!(summary["jobs"][0]["blocks"], json!(null));
}

#[test]
fn a_geometry_lists_pools_and_groups() {
    let text = Three::new().geometry.to_string();
    for line in [
        "pool `host`: 8 blocks in host memory, 1 extents",
        "pool `device`: 8 blocks in device memory, 1 extents",
        "group `tail`: Paged, 2 layers, lands Host, lifts Tail, blocks of 4 rows, pages of 4 rows",
        "group `state`: State, 2 layers, lands Host, lifts State, blocks of 1 rows, pages of 1 rows",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
}

#[test]
fn ids_and_quantities_say_what_they_are_and_serialise_as_numbers() {
    assert_eq!(HostBlockId::new(3).to_string(), "host block 3");
    assert_eq!(PageId::new(3).to_string(), "page 3");
    assert_eq!(GroupId::new(3).to_string(), "group 3");
    assert_eq!(Ticket::new(1, 3).to_string(), "ticket 3");
    assert_eq!((Tokens::new(3).to_string(), Rows::new(3).to_string()), ("3 tokens".into(), "3 rows".into()));
    assert_eq!(Bytes::new(3).to_string(), "3 B");
    assert_eq!(serde_json::to_value(HostBlockId::new(3)).unwrap(), json!(3));
    assert_eq!(serde_json::from_str::<PageId>("4294967295").unwrap(), PageId::new(u32::MAX));
    assert!(serde_json::from_str::<PageId>("-1").is_err());
    assert!(serde_json::from_str::<Tokens>("1.5").is_err());
    assert_eq!(Tokens::new(u64::MAX).checked_add(Tokens::new(1)), None);
    assert_eq!(Rows::new(1).saturating_sub(Rows::new(2)), Rows::ZERO);
}

#[test]
fn modes_and_capacities_come_from_data() {
    assert_eq!(serde_json::from_str::<TailRows>("\"exact-zeroed\"").unwrap(), TailRows::ExactZeroed);
    assert!(serde_json::from_str::<TailRows>("\"partial\"").is_err());
    let capacity: PlanCapacity = serde_json::from_value(json!({"jobs": 3, "list_entries": 5})).unwrap();
    assert_eq!(capacity, PlanCapacity { jobs: 3, list_entries: 5 });
}

#[test]
fn spans_and_layouts_read_well_and_serialise() {
    let span = prompt(32_019);
    assert_eq!(span.to_string(), "32019 tokens, 32019 imported, resume at 32018");
    let blocks = span.in_blocks_of(Tokens::new(128)).unwrap();
    assert_eq!(blocks.to_string(), "251 blocks of 128 slots, 109 holes, tail page 250 with 19 tokens");
    let data = serde_json::to_value(blocks).unwrap();
    assert_eq!((&data["tail_page"], &data["holes"]), (&json!(250), &json!(109)));
    let layout = serde_json::to_value(PagedLayout::indexer_fp8(64).unwrap()).unwrap();
    assert_eq!(
        layout["segments"][1],
        json!({"name": "scale", "region": 0, "offset": 8192, "row_bytes": 4, "row_stride": 4})
    );
}
