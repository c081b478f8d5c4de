//! Planning into an existing plan allocates nothing: not after it was cleared, and not the first time either.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what it expects by panicking"
)]

use std::sync::Arc;

use allocation_counter::measure;
use pagelift_planner::geometry::*;
use pagelift_planner::id::{HostBlockId, PageId, Ticket};
use pagelift_planner::import::{Import, ImportGroup, PromptSpan, Recurrence};
use pagelift_planner::layout::PagedLayout;
use pagelift_planner::plan::{
    MirrorPlan, Plan, PlanCapacity, RestorePlan, RowBinding, RowCapacity, Staging, TailRows,
};
use pagelift_planner::quantity::Tokens;

const BLOCKS: u32 = 2000;

/// Two groups in pools of their own: one lifts its tail, the other what is said.
fn geometry(other: PagedLift) -> (Arc<Geometry>, [GroupKey<Paged>; 2]) {
    let layout = PagedLayout::builder(16).segment("row", 64).build().unwrap();
    let mut builder = GeometryBuilder::new();
    let mut group = |name: &str, lift, at: u64| {
        let mut side = |memory: Memory, base: u64| {
            let bytes = u64::from(BLOCKS) * 1024;
            let name = format!("{name} {}", memory.name());
            let pool = PoolSpec::new(&name, memory, BLOCKS, &[Region::new(base, bytes)]);
            let pool = builder.pool(pool).unwrap();
            Some(SideSpec::packed(pool, &[base], &[0], 1024, layout.clone()))
        };
        let (host, device) = (side(Memory::Host, at), side(Memory::Device, at + 0x1000_0000));
        let (name, landing) = (name.into(), Landing::Host);
        builder.group(GroupSpec::<Paged> { name, layers: 1, landing, lift, host, device }).unwrap()
    };
    let keys = [group("tail", PagedLift::Tail, 0x1000), group("other", other, 0x4000_0000)];
    (Arc::new(builder.build().unwrap()), keys)
}

fn allocations(run: impl FnOnce()) -> u64 {
    measure(run).count_total
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(1)))), 1);
}

#[test]
fn lifting_encoding_and_clearing_allocate_nothing() {
    let (geometry, [tail, all]) = geometry(PagedLift::All);
    let mut plan = RestorePlan::new(geometry, PlanCapacity { jobs: 10, list_entries: 200 }).unwrap();
    let mut table = vec![0; plan.table_bytes()];
    let blocks: Vec<HostBlockId> = (0..BLOCKS).map(HostBlockId::new).collect();
    let pages: Vec<PageId> = (0..BLOCKS).map(PageId::new).collect();
    let staging = Staging { ticket: Ticket::new(1, 1), completion: 8, repeat: false };
    for mode in [TailRows::Whole, TailRows::Exact, TailRows::ExactZeroed] {
        let count = allocations(|| {
            plan.clear();
            for import in 0..2_usize {
                let groups = [
                    ImportGroup::new(tail, &blocks[import * 100..][..100], &pages[import..=import]),
                    ImportGroup::new(all, &blocks[import * 100..][..100], &pages[import * 100..][..100]),
                ];
                let span = PromptSpan::new(Tokens::new(1590), Recurrence::None).unwrap();
                plan.lift(&Import { span, groups: &groups }, mode).unwrap();
            }
            plan.encode(staging, &mut table).unwrap();
        });
        assert_eq!(count, 0, "{mode:?}");
    }
}

#[test]
fn holding_every_block_of_a_pool_many_times_allocates_nothing() {
    let (geometry, [tail, _]) = geometry(PagedLift::None);
    let mut plan = RestorePlan::new(geometry, PlanCapacity { jobs: 8, list_entries: 0 }).unwrap();
    let blocks: Vec<HostBlockId> = (0..BLOCKS).map(HostBlockId::new).collect();
    let pages: Vec<PageId> = (0..BLOCKS).map(PageId::new).collect();
    let span = PromptSpan::new(Tokens::new(u64::from(BLOCKS) * 16), Recurrence::None).unwrap();
    // Requests that share all of their prompt: each holds all of its blocks.
    let count = allocations(|| {
        for import in 0..8_usize {
            let groups = [ImportGroup::new(tail, &blocks, &pages[import..=import])];
            plan.lift(&Import { span, groups: &groups }, TailRows::Whole).unwrap();
        }
    });
    assert_eq!((count, plan.jobs()), (0, 8));
}

#[test]
fn page_map_changes_allocate_nothing() {
    let (geometry, [tail, _]) = geometry(PagedLift::None);
    let mut plan = MirrorPlan::new(geometry, RowCapacity { jobs: 1, changes: 64 }).unwrap();
    let mut table = vec![0; plan.table_bytes()];
    let staging = Staging { ticket: Ticket::new(1, 1), completion: 8, repeat: true };
    let count = allocations(|| {
        plan.bind(tail, RowBinding::new(0x1000, 256)).unwrap();
        for round in 0..20 {
            for id in 0..32 {
                plan.page_map_mut().map(tail, PageId::new(id), HostBlockId::new(id + round)).unwrap();
            }
            plan.encode(staging, &mut table).unwrap();
            plan.staged();
            for id in 0..32 {
                plan.page_map_mut().unmap(tail, PageId::new(id)).unwrap();
            }
        }
    });
    assert_eq!(count, 0);
}
