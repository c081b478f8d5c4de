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
use pagelift_planner::import::Policy;
use pagelift_planner::import::{Import, ImportGroup, PromptSpan, Recurrence};
use pagelift_planner::layout::PagedLayout;
use pagelift_planner::lifecycle::{
    Admission, Answer, ContentHash, Effect, Event, FrameLimits, GroupFrames, Lane, Lifecycle,
    LifecycleOptions, Order, Rank, Ranks, Read, Reservations, Settled, StepOptions, StepPlans,
};
use pagelift_planner::plan::{
    DeviceToDevice, DeviceToHost, DigestPlan, HostToDevice, LiftProgress, MirrorPlan, PagePlan, Plan,
    PlanCapacity, RestorePlan, RowBinding, RowCapacity, RowPlan, Staging, TailRows,
};
use pagelift_planner::quantity::{Bytes, Rows, Tokens};

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
fn reserving_again_and_lifting_what_is_reserved_allocate_nothing() {
    let (geometry, [tail, all]) = geometry(PagedLift::All);
    let each = PlanCapacity { jobs: 2, list_entries: 100 };
    let mut reservations = Reservations::new(Arc::clone(&geometry), 2, each).unwrap();
    let mut plan = RestorePlan::new(geometry, PlanCapacity { jobs: 4, list_entries: 200 }).unwrap();
    let mut table = vec![0; plan.table_bytes()];
    let blocks: Vec<HostBlockId> = (0..BLOCKS).map(HostBlockId::new).collect();
    let pages: Vec<PageId> = (0..BLOCKS).map(PageId::new).collect();
    let span = PromptSpan::new(Tokens::new(1590), Recurrence::None).unwrap();
    let staging = Staging { ticket: Ticket::new(1, 1), completion: 8, repeat: false };
    let mut step = || {
        let imports = [0, 1_usize].map(|import| {
            let groups = [
                ImportGroup::new(tail, &blocks[import * 100..][..100], &pages[import..=import]),
                ImportGroup::new(all, &blocks[import * 100..][..100], &pages[import * 100..][..100]),
            ];
            reservations.reserve(&Import { span, groups: &groups }, TailRows::Whole).unwrap()
        });
        plan.clear();
        imports.iter().for_each(|import| plan.lift_reserved(&reservations, *import).unwrap());
        plan.encode(staging, &mut table).unwrap();
        imports.into_iter().for_each(|import| reservations.release(import).unwrap());
    };
    // Each slot grows to its first import's size.
    assert!(allocations(&mut step) > 0);
    assert_eq!(allocations(&mut step), 0);
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

/// A group with host blocks of 16 rows and pages of 8, routes each way, a digest of either side, and a compact buffer.
struct Unequal {
    geometry: Arc<Geometry>,
    group: GroupKey<Paged>,
    down: RouteKey<HostToDevice, Paged>,
    up: RouteKey<DeviceToHost, Paged>,
    across: RouteKey<DeviceToDevice, Paged>,
    compact: CompactRouteKey<DeviceToDevice, Paged>,
    digest: DigestKey<Paged>,
}

impl Unequal {
    fn new() -> Self {
        let layout = |rows| PagedLayout::builder(rows).segment("row", 64).build().unwrap();
        let mut builder = GeometryBuilder::new();
        let mut side = |name: &str, memory, blocks: u32, base: u64, rows: u32| {
            let region = [Region::new(base, u64::from(blocks) * 1024)];
            let pool = builder.pool(PoolSpec::new(name, memory, blocks, &region)).unwrap();
            SideSpec::packed(pool, &[base], &[0], 1024, layout(rows))
        };
        let host = side("host", Memory::Host, BLOCKS, 0x1000, 16);
        let device = side("device", Memory::Device, BLOCKS, 0x1000_0000, 8);
        let buffer = side("buffer", Memory::Device, 1, 0x4000_0000, 16);
        let (name, landing, lift) = ("main".into(), Landing::Host, PagedLift::All);
        let (host, device) = (Some(host), Some(device));
        let spec = GroupSpec::<Paged> { name, layers: 1, landing, lift, host, device };
        let group = builder.group(spec).unwrap();
        let buffer = builder.side(group, &buffer).unwrap();
        let [host, pages] =
            [Memory::Host, Memory::Device].map(|memory| builder.main_side(group, memory).unwrap());
        Self {
            group,
            down: builder.route(host, pages).unwrap(),
            up: builder.route(pages, host).unwrap(),
            across: builder.route(pages, pages).unwrap(),
            compact: builder.compact_route(pages, buffer).unwrap(),
            digest: builder.digest(pages).unwrap(),
            geometry: Arc::new(builder.build().unwrap()),
        }
    }
}

const STAGING: Staging = Staging { ticket: Ticket::new(1, 1), completion: 8, repeat: false };

#[test]
fn gathers_and_zeros_allocate_nothing() {
    let it = Unequal::new();
    let blocks: Vec<HostBlockId> = (0..BLOCKS).map(HostBlockId::new).collect();
    let pages: Vec<PageId> = (0..BLOCKS).map(PageId::new).collect();
    let capacity = PlanCapacity { jobs: 40, list_entries: 200 };
    let mut down = PagePlan::<HostToDevice>::new(Arc::clone(&it.geometry), capacity).unwrap();
    let mut up = PagePlan::<DeviceToHost>::new(Arc::clone(&it.geometry), capacity).unwrap();
    let mut across = PagePlan::<DeviceToDevice>::new(Arc::clone(&it.geometry), capacity).unwrap();
    let mut table = vec![0; down.table_bytes()];
    let count = allocations(|| {
        for _ in 0..3 {
            down.clear();
            up.clear();
            across.clear();
            for list in 0..2_usize {
                // 50 blocks of 16 rows are 100 pages of 8.
                let (blocks, pages) = (&blocks[list * 50..][..50], &pages[list * 100..][..100]);
                down.gather(it.down, blocks, pages).unwrap();
                up.spill(it.group, pages, blocks).unwrap();
                let (from, to) = pages.split_at(50);
                across.gather(it.across, from, to).unwrap();
                // One source, many times.
                across.gather(it.across, &from[..1], &[PageId::new(1000 + list as u32)]).unwrap();
            }
            for page in 0..20 {
                down.zero(it.down, PageId::new(500 + page), Rows::new(page % 8), Rows::new(1)).unwrap();
                // Zeros of no rows take no room, however many there are.
                for _ in 0..1000 {
                    down.zero(it.down, PageId::new(500 + page), Rows::ZERO, Rows::ZERO).unwrap();
                }
            }
            down.encode(STAGING, &mut table).unwrap();
            up.encode(STAGING, &mut table).unwrap();
            across.encode(STAGING, &mut table).unwrap();
        }
        up.clear();
        up.gather(it.up, &pages[..4], &blocks[..2]).unwrap();
    });
    assert_eq!(count, 0);
}

#[test]
fn lifting_within_budgets_allocates_nothing() {
    let it = Unequal::new();
    let blocks: Vec<HostBlockId> = (0..BLOCKS / 2).map(HostBlockId::new).collect();
    let pages: Vec<PageId> = (0..BLOCKS).map(PageId::new).collect();
    let capacity = PlanCapacity { jobs: 4, list_entries: 40 };
    let mut plan = RestorePlan::new(Arc::clone(&it.geometry), capacity).unwrap();
    let mut table = vec![0; plan.table_bytes()];
    // All blocks of the pool in steps of 30 pages.
    let groups = [ImportGroup::new(it.group, &blocks, &pages)];
    let span = PromptSpan::new(Tokens::new(u64::from(BLOCKS) * 8 - 3), Recurrence::None).unwrap();
    let mut plans = 0;
    let count = allocations(|| {
        let mut progress = LiftProgress::default();
        while !progress.is_finished() {
            plan.clear();
            let import = Import { span, groups: &groups };
            plan.lift_within(&import, TailRows::ExactZeroed, &mut progress, &mut Bytes::new(30 * 512))
                .unwrap();
            plan.encode(STAGING, &mut table).unwrap();
            plans += 1;
        }
    });
    assert_eq!((count, plans), (0, BLOCKS.div_ceil(30)));
}

#[test]
fn imports_that_landed_allocate_nothing_however_many_share_a_prefix() {
    let (geometry, [tail, all]) = geometry(PagedLift::All);
    let mut plan = RestorePlan::new(geometry, PlanCapacity { jobs: 1, list_entries: 0 }).unwrap();
    let pages: Vec<PageId> = (0..BLOCKS).map(PageId::new).collect();
    let span = PromptSpan::new(Tokens::new(100), Recurrence::None).unwrap();
    let groups = [ImportGroup::landed(tail, &pages), ImportGroup::landed(all, &pages)];
    let count = allocations(|| {
        for _ in 0..10 {
            plan.lift(&Import { span, groups: &groups }, TailRows::Whole).unwrap();
        }
    });
    assert_eq!((count, plan.jobs()), (0, 0));
}

#[test]
fn row_lists_and_maps_of_parts_allocate_nothing() {
    let it = Unequal::new();
    let capacity = RowCapacity { jobs: 2, changes: 64 };
    let mut lists = RowPlan::<DeviceToDevice>::new(Arc::clone(&it.geometry), capacity).unwrap();
    let mut mirror = MirrorPlan::new(Arc::clone(&it.geometry), capacity).unwrap();
    let mut table = vec![0; mirror.table_bytes()];
    let count = allocations(|| {
        for round in 0..20 {
            lists.clear_bindings();
            lists.gather_rows(it.compact, RowBinding::new(0x1000, 16)).unwrap();
            lists.encode(STAGING, &mut table).unwrap();
            mirror.clear_bindings();
            mirror.bind(it.group, RowBinding::new(0x1000, 16)).unwrap();
            for id in 0..32 {
                let page = (PageId::new(id), Rows::ZERO);
                let block = (HostBlockId::new(id / 2 + round), Rows::new(id % 2 * 8));
                mirror.page_map_mut().map_rows(it.group, page, block).unwrap();
            }
            mirror.encode(STAGING, &mut table).unwrap();
            mirror.staged();
            for id in 0..32 {
                mirror.page_map_mut().unmap(it.group, PageId::new(id)).unwrap();
            }
        }
    });
    assert_eq!(count, 0);
}

#[test]
fn digests_allocate_nothing() {
    let it = Unequal::new();
    let capacity = PlanCapacity { jobs: 4, list_entries: 100 };
    let mut plan = DigestPlan::new(Arc::clone(&it.geometry), capacity).unwrap();
    let mut table = vec![0; plan.table_bytes()];
    let pages: Vec<PageId> = (0..100).map(PageId::new).collect();
    let count = allocations(|| {
        for _ in 0..10 {
            plan.clear();
            plan.device(it.digest, &pages, 795).unwrap();
            plan.encode(STAGING, &mut table).unwrap();
        }
    });
    assert_eq!(count, 0);
}

/// A small engine, of which one rank writes.
fn options(ranks: u8) -> LifecycleOptions {
    LifecycleOptions {
        ranks,
        writers: Ranks::first(1),
        block_tokens: 16,
        recurrence: Recurrence::None,
        requests: 4,
        blocks: 64,
        pages: 8,
        keep: 1,
        draft_lag: 0,
        retries: 0,
        limits: FrameLimits::default(),
    }
}

#[test]
fn a_request_in_a_slot_that_was_used_allocates_nothing() {
    let mut lifecycle = Lifecycle::new(options(2)).unwrap();
    // Each prompt is new, so that blocks are published, cached and evicted.
    let mut serve = |number: u128| {
        let hashes: [ContentHash; 3] = std::array::from_fn(|n| ContentHash::new(number * 8 + n as u128));
        let (prompt, policy) = (Tokens::new(50), Policy::LiftTail);
        let hashes = hashes.as_slice().into();
        let effects =
            lifecycle.apply(&Event::Admit(Admission { prompt, policy, producer: true, hashes })).unwrap();
        let Some(Effect::Admitted { request, .. }) = effects.first().copied() else { panic!("{effects:?}") };
        let mut apply = |event| {
            lifecycle.apply(&event).unwrap();
        };
        apply(Event::Posted { request, ranks: Ranks::first(1), each: 1 });
        apply(Event::Read { request, rank: Rank::new(0), part: 0, read: Read::Landed });
        let answer = Answer::Done;
        let ranks = [0, 1].map(Rank::new);
        ranks.iter().for_each(|rank| apply(Event::Answer { request, round: 1, rank: *rank, answer }));
        for step in 1..=20 {
            apply(Event::Begin { request, tokens: 1 });
            apply(Event::Accept { request, step, tokens: 1 });
            ranks.iter().for_each(|rank| apply(Event::Mirrored { request, rank: *rank, step }));
        }
        apply(Event::Name { request, hash: ContentHash::new(number * 8 + 7) });
        apply(Event::Finish { request });
        ranks.iter().for_each(|rank| apply(Event::Answer { request, round: 2, rank: *rank, answer }));
    };
    // The slot grows to its request's size, and all blocks are published once.
    (0..20).for_each(&mut serve);
    assert_eq!(allocations(|| (20..40).for_each(&mut serve)), 0);
}

/// Requests of a rank: admitted, lifted, some steps, one of whose mirrors never ran, preempted, lifted again, and over.
struct RankSteps {
    lifecycle: Lifecycle,
    plans: StepPlans,
    ticket: u64,
}

impl RankSteps {
    fn new() -> Self {
        let (geometry, [tail, other]) = geometry(PagedLift::All);
        let blocks = || (0..BLOCKS).map(HostBlockId::new).collect();
        let pages: Vec<PageId> = (0..BLOCKS).map(PageId::new).collect();
        let frames = vec![
            GroupFrames::Paged { group: tail, blocks: blocks(), pages: pages.clone() },
            GroupFrames::Whole { group: other, blocks: blocks(), pages, each: 100 },
        ];
        let room = StepOptions {
            pages: PlanCapacity { jobs: 16, list_entries: 64 },
            rows: RowCapacity { jobs: 2, changes: 64 },
            mode: TailRows::Whole,
        };
        let mut plans = StepPlans::new(Rank::new(0), geometry, frames, options(1), room).unwrap();
        for group in [tail, other] {
            plans.mirror_plan().bind(group, RowBinding::new(0x1000, 1)).unwrap();
        }
        Self { lifecycle: Lifecycle::new(options(1)).unwrap(), plans, ticket: 0 }
    }

    /// What the rank allocates for the orders of an event. Orders are messages, and their memory the sender's.
    fn tell(&mut self, event: &Event<'_>) -> u64 {
        self.lifecycle.apply(event).unwrap();
        let orders: Vec<Order> = self.lifecycle.orders().collect();
        allocations(|| orders.into_iter().for_each(|order| self.plans.hear(order).unwrap()))
    }

    /// What it allocates to plan its launches, and to say what became of them.
    fn launch(&mut self, settled: Settled) -> u64 {
        let mut said = Vec::with_capacity(16);
        let count = allocations(|| {
            self.plans.plan_write_backs();
            self.plans.plan_lifts(Bytes::new(u64::MAX));
            self.plans.plan_mirrors().unwrap();
            for lane in [Lane::WriteBack, Lane::Lift, Lane::Mirror] {
                self.ticket += 1;
                self.plans.staged(lane, self.ticket);
                let lost = if lane == Lane::Mirror { settled } else { Settled::Done };
                self.plans.settle(lane, self.ticket, lost);
            }
            said.extend(self.plans.say());
            // A launcher would have staged them with the mirror.
            let mut table = [0; 4096];
            self.plans.mirror_plan().encode(STAGING, &mut table).unwrap();
            self.plans.mirror_plan().staged();
        });
        said.iter().fold(count, |count, event| count + self.tell(event))
    }

    fn serve(&mut self) -> u64 {
        let admission = Admission {
            prompt: Tokens::new(50),
            policy: Policy::LiftTail,
            producer: true,
            hashes: vec![].into(),
        };
        let mut count = self.tell(&Event::Admit(admission));
        let request = self.lifecycle.requests().next().unwrap();
        count += self.tell(&Event::Posted { request, ranks: Ranks::NONE, each: 0 });
        count += self.launch(Settled::Done);
        for step in 1..=20 {
            count += self.tell(&Event::Begin { request, tokens: 1 });
            count += self.launch(if step == 3 { Settled::Superseded } else { Settled::Done });
            count += self.tell(&Event::Accept { request, step, tokens: 1 });
        }
        count += self.tell(&Event::Preempt { request }) + self.launch(Settled::Done);
        count += self.tell(&Event::Resume { request, behind: 1 }) + self.launch(Settled::Done);
        count += self.tell(&Event::Finish { request }) + self.launch(Settled::Done);
        assert_eq!(self.lifecycle.requests().count(), 0);
        count
    }
}

#[test]
fn a_ranks_steps_allocate_nothing_in_a_slot_that_was_used() {
    let mut rank = RankSteps::new();
    assert!(rank.serve() > 0, "the slot grows to its request's size");
    rank.serve();
    assert_eq!((0..10).map(|_| rank.serve()).sum::<u64>(), 0);
}

#[test]
fn an_import_takes_as_much_memory_among_many() {
    let bytes_each = |imports: u32| {
        let mut kept = None;
        let measured = measure(|| {
            let options = LifecycleOptions {
                ranks: 2,
                writers: Ranks::first(1),
                block_tokens: 16,
                recurrence: Recurrence::None,
                requests: imports,
                blocks: imports * 4,
                pages: imports,
                keep: 0,
                draft_lag: 0,
                retries: 0,
                limits: FrameLimits::default(),
            };
            let mut lifecycle = Lifecycle::new(options).unwrap();
            for _ in 0..imports {
                let (prompt, policy) = (Tokens::new(50), Policy::LiftTail);
                let admission = Admission { prompt, policy, producer: true, hashes: vec![].into() };
                lifecycle.apply(&Event::Admit(admission)).unwrap();
            }
            kept = Some(lifecycle);
        });
        drop(kept);
        measured.bytes_current / i64::from(imports)
    };
    let [few, many] = [64, 4096].map(bytes_each);
    assert!(many <= few && few < 2 * many, "{few} B among few, {many} B among many");
}
