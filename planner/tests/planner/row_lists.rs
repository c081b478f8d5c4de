//! Rows gathered by an index list: encoded as the device reads them, and refused where two of them would race.

use std::sync::Arc;

use pagelift_planner::error::{GeometryError, PlanError};
use pagelift_planner::geometry::*;
use pagelift_planner::layout::{PagedLayout, RingLayout};
use pagelift_planner::plan::{
    DeviceToDevice, DeviceToHost, HostToDevice, MirrorPlan, Plan, RowBinding, RowCapacity, RowPlan, SlotWidth,
};

use crate::fixed::{BUFFER, DEVICE, HOST, paged, pool};
use pagelift_cases::decode::{HEADER_BYTES, ROW_JOB_BYTES, header, u32_at, u64_at};
use pagelift_cases::encoded;

/// Pages of 8 rows for groups of 4 tokens, and compact buffers of 16 and 12 rows, on either side.
struct Compact {
    geometry: Arc<Geometry>,
    group: GroupKey<Paged>,
    across: CompactRouteKey<DeviceToDevice, Paged>,
    /// To another buffer.
    second: CompactRouteKey<DeviceToDevice, Paged>,
    /// To the same buffer, once more.
    same: CompactRouteKey<DeviceToDevice, Paged>,
    /// From that buffer to the other.
    chain: CompactRouteKey<DeviceToDevice, Paged>,
    /// From a buffer to itself.
    onto_itself: CompactRouteKey<DeviceToDevice, Paged>,
    down: CompactRouteKey<HostToDevice, Paged>,
    up: CompactRouteKey<DeviceToHost, Paged>,
}

fn layout(rows: u32) -> PagedLayout {
    PagedLayout::builder(rows * 4).tokens_per_row(4).segment("row", 16).build().unwrap()
}

impl Compact {
    fn new() -> Self {
        let mut builder = GeometryBuilder::new();
        let [host, device] =
            [Memory::Host, Memory::Device].map(|memory| pool(&mut builder, memory, 6, 6 * 128));
        let at =
            |pool, base, rows: u32| SideSpec::packed(pool, &[base], &[0], u64::from(rows) * 16, layout(rows));
        let spec = paged("main", 1, PagedLift::Tail, at(host, HOST, 8), at(device, DEVICE, 8));
        let group = builder.group(spec).unwrap();
        let mut buffer = |name: &str, memory, base: u64, rows: u32| {
            let spec = PoolSpec::new(name, memory, 1, &[Region::new(base, u64::from(rows) * 16)]);
            let pool = builder.pool(spec).unwrap();
            builder.side(group, &at(pool, base, rows)).unwrap()
        };
        let one = buffer("one", Memory::Device, BUFFER, 16);
        let two = buffer("two", Memory::Device, BUFFER + 4096, 12);
        let back = buffer("back", Memory::Host, HOST + 4096, 16);
        let host = builder.main_side(group, Memory::Host).unwrap();
        let pages = builder.main_side(group, Memory::Device).unwrap();
        Self {
            across: builder.compact_route(pages, one).unwrap(),
            second: builder.compact_route(pages, two).unwrap(),
            same: builder.compact_route(pages, one).unwrap(),
            chain: builder.compact_route(one, two).unwrap(),
            onto_itself: builder.compact_route(one, one).unwrap(),
            down: builder.compact_route(host, one).unwrap(),
            up: builder.compact_route(pages, back).unwrap(),
            geometry: Arc::new(builder.build().unwrap()),
            group,
        }
    }

    fn plan<D: pagelift_planner::plan::Direction>(&self) -> RowPlan<D> {
        RowPlan::new(Arc::clone(&self.geometry), RowCapacity::default()).unwrap()
    }
}

#[test]
fn lists_are_encoded_as_documented() {
    let compact = Compact::new();
    let mut plan = compact.plan();
    let list = RowBinding { count: Some(0x2000), width: SlotWidth::I32, ..RowBinding::new(0x1000, 16) };
    plan.gather_rows(compact.across, list).unwrap();
    plan.gather_rows(compact.second, RowBinding::new(0x3000, 7)).unwrap();
    let table = encoded(&plan);
    assert_eq!((header(&table).jobs, table.len()), (2, HEADER_BYTES + 2 * ROW_JOB_BYTES));
    let second = HEADER_BYTES + ROW_JOB_BYTES;
    for (job, longs, capacity, width, rows) in
        [(HEADER_BYTES, [0x1000, 0x2000, 0, 0], 16, 4, 16), (second, [0x3000, 0, 0, 0], 7, 8, 12)]
    {
        assert_eq!([0, 8, 16, 24].map(|at| u64_at(&table, job + at)), longs);
        let words: Vec<u32> = (0..12).map(|i| u32_at(&table, job + 32 + i * 4)).collect();
        let [route, rest @ ..] = &words[..] else { panic!("twelve words") };
        // Indices name rows, not tokens: 8 of them a page. No map is read.
        let (map, null) = (0, u32::MAX);
        assert_eq!(rest[..7], [capacity, 0, width, 8, 1, map, null]);
        let flags = pagelift_abi::row_job::COMPACT;
        assert_eq!(rest[8..], [rows, flags, 0], "rows of the buffer, flags, the reserved word");
        let route = compact.geometry.routes()[*route as usize];
        assert_eq!((route.source.blocks, route.destination.blocks), (6, 1));
    }
    let arrays: Vec<u64> = plan.arrays().map(Region::bytes).collect();
    assert_eq!(arrays, [16 * 4, 4, 7 * 8]);
}

#[test]
fn every_direction_has_gathers() {
    let compact = Compact::new();
    let mut down = compact.plan();
    down.gather_rows(compact.down, RowBinding::new(8, 16)).unwrap();
    let mut up: MirrorPlan = compact.plan();
    up.gather_rows(compact.up, RowBinding::new(8, 16)).unwrap();
    // Beside the mirror of the same group.
    up.bind(compact.group, RowBinding::new(8, 16)).unwrap();
    assert_eq!((down.jobs(), up.jobs()), (1, 2));
    let table = encoded(&up);
    let flags = |job: usize| u32_at(&table, HEADER_BYTES + job * ROW_JOB_BYTES + 72);
    assert_eq!((flags(0), flags(1)), (pagelift_abi::row_job::COMPACT, 0));
}

#[test]
fn lists_longer_than_the_buffer_are_refused() {
    let compact = Compact::new();
    let mut plan = compact.plan();
    plan.gather_rows(compact.across, RowBinding::new(8, 0)).unwrap();
    let before = encoded(&plan);
    let error = plan.gather_rows(compact.second, RowBinding::new(8, 13)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "row binding of group `main`: expected a list of at most 12 entries, the rows of the compact buffer, found 13"
    );
    let error = plan.gather_rows(compact.second, RowBinding::new(0, 12)).unwrap_err();
    assert_eq!(error.to_string(), "row binding of group `main`: expected the address of the slots, found 0");
    assert_eq!(encoded(&plan), before);
    plan.gather_rows(compact.second, RowBinding::new(8, 12)).unwrap();
}

#[test]
fn case_10_a_buffer_has_one_writer_and_no_reader_in_one_launch() {
    let compact = Compact::new();
    let list = RowBinding::new(8, 4);
    let mut plan = compact.plan();
    plan.gather_rows(compact.across, list).unwrap();
    let before = encoded(&plan);
    let twice = PlanError::WrittenTwice { group: "main".into(), block: "page 0".into(), first: 0, end: 16 };
    let overlap = PlanError::Overlap { group: "main".into(), block: "page 0".into() };
    assert_eq!(plan.gather_rows(compact.across, list), Err(PlanError::BoundTwice { group: "main".into() }));
    assert_eq!(plan.gather_rows(compact.same, list), Err(twice));
    assert_eq!(plan.gather_rows(compact.chain, list), Err(overlap.clone()), "reads what the first writes");
    assert_eq!(encoded(&plan), before);
    let mut plan = compact.plan();
    assert_eq!(plan.gather_rows(compact.onto_itself, list), Err(overlap.clone()));
    plan.gather_rows(compact.chain, list).unwrap();
    assert_eq!(plan.gather_rows(compact.across, list), Err(overlap), "writes what the first reads");
    assert_eq!(plan.jobs(), 1);
}

#[test]
fn case_10_no_buffer_is_a_mirrored_block_too() {
    // A host pool of one block is the mirror of pages, and a buffer.
    let mut builder = GeometryBuilder::new();
    let host = pool(&mut builder, Memory::Host, 1, 128);
    let device = pool(&mut builder, Memory::Device, 6, 6 * 128);
    let at = |pool, base| SideSpec::packed(pool, &[base], &[0], 128, layout(8));
    let group = builder.group(paged("main", 1, PagedLift::Tail, at(host, HOST), at(device, DEVICE))).unwrap();
    let side = |memory| builder.main_side(group, memory).unwrap();
    let (host, pages) = (side(Memory::Host), side(Memory::Device));
    let route = builder.compact_route::<DeviceToHost, _>(pages, host).unwrap();
    let geometry = Arc::new(builder.build().unwrap());
    let list = RowBinding::new(8, 4);
    let twice =
        PlanError::WrittenTwice { group: "main".into(), block: "host block 0".into(), first: 0, end: 8 };
    let plan = || MirrorPlan::new(Arc::clone(&geometry), RowCapacity::default()).unwrap();
    let mut first = plan();
    first.bind(group, list).unwrap();
    assert_eq!(first.gather_rows(route, list), Err(twice.clone()));
    let mut second = plan();
    second.gather_rows(route, list).unwrap();
    assert_eq!(second.bind(group, list), Err(twice));
}

#[test]
fn full_plans_and_keys_of_another_geometry() {
    let (compact, other) = (Compact::new(), Compact::new());
    let mut plan = RowPlan::new(Arc::clone(&compact.geometry), RowCapacity { jobs: 1, changes: 0 }).unwrap();
    assert_eq!(plan.gather_rows(other.across, RowBinding::new(8, 1)), Err(PlanError::ForeignKey));
    plan.gather_rows(compact.across, RowBinding::new(8, 1)).unwrap();
    let full = PlanError::Capacity { what: "row bindings", needed: 2, capacity: 1 };
    assert_eq!(plan.gather_rows(compact.second, RowBinding::new(8, 1)), Err(full));
    assert_eq!(encoded(&plan).len(), plan.table_bytes());
    plan.clear_bindings();
    plan.gather_rows(compact.second, RowBinding::new(8, 1)).unwrap();
}

#[test]
fn a_compact_buffer_is_one_block() {
    let mut builder = GeometryBuilder::new();
    let [host, device] = [Memory::Host, Memory::Device].map(|memory| pool(&mut builder, memory, 6, 6 * 128));
    let at = |pool, base| SideSpec::packed(pool, &[base], &[0], 128, layout(8));
    let group = builder.group(paged("main", 1, PagedLift::Tail, at(host, HOST), at(device, DEVICE))).unwrap();
    let side = |memory| builder.main_side(group, memory).unwrap();
    let (host, pages) = (side(Memory::Host), side(Memory::Device));
    let error = builder.compact_route::<DeviceToHost, _>(pages, host).unwrap_err();
    let GeometryError::SidesDiffer { what, to, .. } = &error else { panic!("{error}") };
    assert_eq!((*what, to.as_str()), ("blocks of a compact buffer", "6"));
    // Nor may its rows be others than the source's, though it may have any number of them.
    let mut buffer = |layout: PagedLayout| {
        let name = format!("buffer of {} rows", layout.rows_per_block().get());
        let bytes = layout.page_bytes().get();
        let spec = PoolSpec::new(&name, Memory::Host, 1, &[Region::new(HOST + 4096 + bytes * 16, bytes)]);
        let pool = builder.pool(spec).unwrap();
        let side = SideSpec::packed(pool, &[HOST + 4096 + bytes * 16], &[0], bytes, layout);
        let side = builder.side(group, &side).unwrap();
        builder.compact_route::<DeviceToHost, _>(pages, side)
    };
    assert!(buffer(layout(5)).is_ok(), "5 rows from pages of 8");
    let wider = PagedLayout::builder(4 * 9).tokens_per_row(4).segment("row", 32).build().unwrap();
    assert!(matches!(buffer(wider), Err(GeometryError::SidesDiffer { what: "the list of segments", .. })));
    let tokens = PagedLayout::builder(11).segment("row", 16).build().unwrap();
    assert!(matches!(buffer(tokens), Err(GeometryError::SidesDiffer { what: "tokens_per_row", .. })));
}

#[test]
fn slots_of_rings_can_be_gathered() {
    let mut builder = GeometryBuilder::new();
    let ring = |slots| RingLayout::builder(slots, 16).build().unwrap();
    let [host, device] = [Memory::Host, Memory::Device].map(|memory| pool(&mut builder, memory, 2, 2 * 128));
    let side = |pool, base| Some(SideSpec::packed(pool, &[base], &[0], 128, ring(8)));
    let spec = GroupSpec::<Ring> {
        name: "ring".into(),
        layers: 1,
        landing: Landing::Host,
        lift: StateLift::State,
        host: side(host, HOST),
        device: side(device, DEVICE),
    };
    let group = builder.group(spec).unwrap();
    let buffer = PoolSpec::new("buffer", Memory::Device, 1, &[Region::new(BUFFER, 48)]);
    let buffer = builder.pool(buffer).unwrap();
    let buffer = builder.side(group, &SideSpec::packed(buffer, &[BUFFER], &[0], 48, ring(3))).unwrap();
    let pages = builder.main_side(group, Memory::Device).unwrap();
    let route = builder.compact_route::<DeviceToDevice, _>(pages, buffer).unwrap();
    // Whole rings go between rings of as many slots alone: the slot of a token depends on their number.
    let error = builder.route::<DeviceToDevice, _>(pages, buffer).unwrap_err();
    assert!(matches!(error, GeometryError::SidesDiffer { what: "rows per block", .. }), "{error}");
    let mut plan = RowPlan::new(Arc::new(builder.build().unwrap()), RowCapacity::default()).unwrap();
    plan.gather_rows(route, RowBinding::new(8, 3)).unwrap();
}
