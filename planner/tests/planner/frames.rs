//! Frames of groups whose blocks and pages are smaller than the lifecycle's, and of groups that are only read.

use std::sync::Arc;

use pagelift_planner::error::PlanError;
use pagelift_planner::geometry::*;
use pagelift_planner::id::{HostBlockId, PageId};
use pagelift_planner::import::{Policy, Recurrence};
use pagelift_planner::layout::{PagedLayout, RingLayout};
use pagelift_planner::lifecycle::*;
use pagelift_planner::plan::{
    Plan, PlanCapacity, RestorePlan, RowBinding, RowCapacity, TailRows, WriteBackPlan,
};
use pagelift_planner::quantity::{Bytes, Tokens};

const ROW: u64 = 64;
/// Tokens of the lifecycle's blocks, and of host blocks: two of these are one of those.
const BLOCK: u32 = 16;
const HOST: u32 = 8;

/// Three groups in host blocks of 8 tokens, with pages of 4, of 16, and of 8 that are only read.
struct Engine {
    lifecycle: Lifecycle,
    plans: StepPlans,
    small: GroupKey<Paged>,
    large: GroupKey<Paged>,
}

fn group(builder: &mut GeometryBuilder, name: &'static str, page: u32, base: u64) -> GroupKey<Paged> {
    group_that(builder, (name, Landing::Host, PagedLift::Tail), page, base)
}

fn group_that(
    builder: &mut GeometryBuilder,
    (name, landing, lift): (&'static str, Landing, PagedLift),
    page: u32,
    base: u64,
) -> GroupKey<Paged> {
    let mut side = |memory: Memory, tokens: u32, count: u32, base: u64| {
        let bytes = u64::from(tokens) * ROW;
        let region = Region::new(base, u64::from(count) * bytes);
        let pool = PoolSpec::new(&format!("{name}-{}", memory.name()), memory, count, &[region]);
        let layout = PagedLayout::builder(tokens).segment("row", 64).build().unwrap();
        Some(SideSpec::packed(builder.pool(pool).unwrap(), &[base], &[0], bytes, layout))
    };
    let host = side(Memory::Host, HOST, 32, base);
    let device = side(Memory::Device, page, 16, base + 0x8000);
    builder.group(GroupSpec::<Paged> { name: name.into(), layers: 1, landing, lift, host, device }).unwrap()
}

fn numbers<T>(of: fn(u32) -> T, count: u32) -> Vec<T> {
    (0..count).map(of).collect()
}

/// The geometry, and frames of its groups; the last group has pages from position 2 on.
fn frames() -> (Arc<Geometry>, Vec<GroupFrames>, [GroupKey<Paged>; 2]) {
    let mut builder = GeometryBuilder::new();
    let small = group(&mut builder, "small", 4, 0x10000);
    let large = group(&mut builder, "large", 16, 0x30000);
    let read = group(&mut builder, "read", 8, 0x50000);
    let blocks = || numbers(HostBlockId::new, 8);
    let pages = [GroupFrames::NONE, GroupFrames::NONE, 7, 6, 5].map(PageId::new).to_vec();
    let frames = vec![
        GroupFrames::Paged { group: small, blocks: blocks(), pages: numbers(PageId::new, 8) },
        GroupFrames::Paged { group: large, blocks: blocks(), pages: numbers(PageId::new, 2) },
        GroupFrames::ReadOnly(Box::new(GroupFrames::Whole { group: read, blocks: blocks(), pages, each: 5 })),
    ];
    (Arc::new(builder.build().unwrap()), frames, [small, large])
}

const LIFECYCLE: LifecycleOptions = LifecycleOptions {
    ranks: 1,
    writers: Ranks::first(1),
    block_tokens: BLOCK,
    recurrence: Recurrence::None,
    requests: 1,
    blocks: 4,
    pages: 2,
    keep: 0,
    draft_lag: 0,
    retries: 0,
    limits: FrameLimits::NONE,
};

const OPTIONS: StepOptions = StepOptions {
    pages: PlanCapacity { jobs: 64, list_entries: 64 },
    rows: RowCapacity { jobs: 8, changes: 64 },
    mode: TailRows::Exact,
};

impl Engine {
    fn new() -> Self {
        Self::with(OPTIONS)
    }

    fn with(options: StepOptions) -> Self {
        let (geometry, frames, [small, large]) = frames();
        let mut plans = StepPlans::new(Rank::new(0), geometry, frames, LIFECYCLE, options).unwrap();
        // What is only read has no rows to bind.
        for group in [small, large] {
            plans.mirror_plan().bind(group, RowBinding::new(0x1000, 1)).unwrap();
        }
        Self { lifecycle: Lifecycle::new(LIFECYCLE).unwrap(), plans, small, large }
    }

    fn tell(&mut self, event: Event<'_>) -> Vec<Effect> {
        let effects = self.lifecycle.apply(&event).unwrap().to_vec();
        self.lifecycle.orders().for_each(|order| self.plans.hear(order).unwrap());
        effects
    }

    /// A request of 21 tokens has landed, in three host blocks.
    fn landed(&mut self) -> RequestId {
        let (prompt, policy) = (Tokens::new(21), Policy::LiftTail);
        let effects =
            self.tell(Event::Admit(Admission { prompt, policy, producer: true, hashes: vec![].into() }));
        let Some(Effect::Admitted { request, .. }) = effects.first().copied() else { panic!("{effects:?}") };
        self.tell(Event::Posted { request, ranks: Ranks::NONE, each: 0 });
        request
    }

    fn settle(&mut self, lane: Lane, settled: Settled) {
        self.plans.staged(lane, 1);
        self.plans.settle(lane, 1, settled);
        let said: Vec<_> = self.plans.say().collect();
        said.into_iter().for_each(|event| drop(self.tell(event)));
    }

    fn lifted(&mut self) -> Vec<Move> {
        let plan: &RestorePlan = self.plans.plan_lifts(Bytes::new(u64::MAX));
        let blocks = (0..plan.jobs()).map(|job| plan.blocks_of(job).collect());
        moves(plan.summary(), blocks)
    }

    fn written_back(&mut self) -> Vec<Move> {
        let plan: &WriteBackPlan = self.plans.plan_write_backs();
        let blocks = (0..plan.jobs()).map(|job| plan.blocks_of(job).collect());
        moves(plan.summary(), blocks)
    }
}

/// A job's group, its blocks, and how many rows of each.
type Move = (String, Vec<(u32, u32)>, u32);

fn moves(
    summary: pagelift_planner::plan::PlanSummary,
    blocks: impl Iterator<Item = Vec<(u32, u32)>>,
) -> Vec<Move> {
    summary.jobs.into_iter().zip(blocks).map(|(job, blocks)| (job.group, blocks, job.rows)).collect()
}

fn job(group: &str, blocks: &[(u32, u32)], rows: u32) -> Move {
    (group.into(), blocks.into(), rows)
}

/// Each admission changes six entries of the page maps, and an entry waits for a mirror's staging once at most.
#[test]
fn pages_come_and_go_for_as_long_as_nothing_is_mirrored() {
    for changes in [0, 6] {
        let mut engine = Engine::with(StepOptions { rows: RowCapacity { jobs: 8, changes }, ..OPTIONS });
        let entries = engine.plans.mirror_plan().geometry().map_entries() as usize;
        for _ in 0..200 {
            let request = engine.landed();
            engine.tell(Event::Abort { request });
            let said: Vec<_> = engine.plans.say().collect();
            said.into_iter().for_each(|event| drop(engine.tell(event)));
            assert!(engine.lifecycle.request(request).is_none(), "it is over");
            let pending = engine.plans.mirror_plan().page_map().pending().len();
            assert!(pending >= 6 && pending <= entries, "{pending} of {entries}");
        }
    }
}

#[test]
fn case_07_a_number_stands_for_all_blocks_and_pages_of_its_tokens() {
    let mut engine = Engine::new();
    let request = engine.landed();
    // Tokens 16 to 20 are in the third host block: five rows of it.
    let lifted = engine.lifted();
    assert_eq!(
        lifted,
        [
            job("small", &[(2, 0)], 4),
            job("small", &[(2, 1)], 1),
            job("large", &[(2, 0)], 5),
            job("read", &[(2, 7)], 5)
        ]
    );
    engine.settle(Lane::Lift, Settled::Done);
    let (small, large) = (engine.small, engine.large);
    let map = engine.plans.mirror_plan().page_map_mut();
    let mirrors = (0..8).map(|page| map.block_of(small, PageId::new(page)).map(HostBlockId::get));
    let expected = [Some(2), Some(2), Some(3), Some(3), None, None, None, None];
    assert_eq!(mirrors.collect::<Vec<_>>(), expected);
    assert_eq!(map.block_of(large, PageId::new(0)), Some(HostBlockId::new(2)));

    // A step's rows that were not mirrored are written back in whole pages, and not those of what is only read.
    engine.tell(Event::Begin { request, tokens: 1 });
    engine.plans.plan_mirrors().unwrap();
    engine.tell(Event::Accept { request, step: 1, tokens: 1 });
    engine.settle(Lane::Mirror, Settled::Superseded);
    let mut written = engine.written_back();
    written.sort();
    let expected = [
        job("large", &[(0, 2)], 8),
        job("large", &[(0, 3)], 8),
        job("small", &[(0, 2), (2, 3)], 4),
        job("small", &[(1, 2), (3, 3)], 4),
    ];
    assert_eq!(written, expected);
    engine.settle(Lane::WriteBack, Settled::Done);

    // Preempted, and lifted again: blocks and pages as far as there are tokens, 5 of them.
    engine.tell(Event::Preempt { request });
    engine.settle(Lane::Mirror, Settled::Done);
    let map = engine.plans.mirror_plan().page_map_mut();
    assert!((0..8).all(|page| map.block_of(small, PageId::new(page)).is_none()));
    engine.tell(Event::Resume { request, behind: 0 });
    let lifted = engine.lifted();
    assert_eq!(lifted, [job("small", &[(2, 0)], 4), job("small", &[(2, 1)], 4), job("large", &[(2, 0)], 8)]);
}

#[test]
fn frames_that_do_not_fit_are_refused() {
    let ((_, foreign, _), (geometry, frames, _)) = (frames(), frames());
    let foreign =
        StepPlans::new(Rank::new(0), Arc::clone(&geometry), foreign, LIFECYCLE, OPTIONS).unwrap_err();
    assert!(matches!(foreign, PlanError::ForeignGroup { .. }), "{foreign}");
    let refused = |frames: Vec<GroupFrames>, block_tokens| {
        let lifecycle = LifecycleOptions { block_tokens, ..LIFECYCLE };
        let refused = StepPlans::new(Rank::new(0), Arc::clone(&geometry), frames, lifecycle, OPTIONS);
        let refused = refused.unwrap_err();
        assert!(matches!(refused, PlanError::Frames { .. }), "{refused}");
        refused.to_string()
    };
    assert!(refused(frames.clone(), 8).contains("divide"), "pages of 16 tokens");
    let mut read = frames;
    let dealt = read.remove(0);
    read.push(GroupFrames::ReadOnly(Box::new(dealt)));
    assert!(
        refused(read, BLOCK).contains("stay with their request"),
        "pages are given away when they are sealed"
    );
}

/// Two pages may not mirror to one block, nor a page to two: what was mapped before stays, and nothing is new.
#[test]
fn a_mapping_that_is_refused_leaves_what_was_mapped_before() {
    let mut engine = Engine::new();
    let request = engine.landed();
    let (small, large) = (engine.small, engine.large);
    let mapped = |engine: &mut Engine| {
        let map = engine.plans.mirror_plan().page_map_mut();
        let small: Vec<_> = (0..8).map(|page| map.block_of(small, PageId::new(page))).collect();
        (small, [0, 1].map(|page| map.block_of(large, PageId::new(page))))
    };
    let before = mapped(&mut engine);
    assert!(before.0.iter().any(Option::is_some) && before.1[0].is_some());
    let ([page, other], block) = ([0, 1].map(PageId::new), HostBlockId::new(3));
    let again = Order::Map { request, position: 1, page, block };
    let refused = engine.plans.hear(again.clone()).unwrap_err();
    assert!(matches!(refused, PlanError::PageMapped { .. }), "{refused}");
    assert_eq!(mapped(&mut engine), before);

    // Of another page only the last part is taken: those before it are not mapped, and it stays as it was.
    let row = pagelift_planner::quantity::Rows::new(8);
    let taken = HostBlockId::new(0);
    let map = engine.plans.mirror_plan().page_map_mut();
    map.map_rows(large, (other, row), (taken, Default::default())).unwrap();
    let refused = engine.plans.hear(Order::Map { request, position: 1, page: other, block }).unwrap_err();
    assert!(matches!(refused, PlanError::PageMapped { .. }), "{refused}");
    assert_eq!(mapped(&mut engine), before);
    let map = engine.plans.mirror_plan().page_map_mut();
    let refused = map.map_rows(large, (other, row), (HostBlockId::new(1), Default::default())).unwrap_err();
    assert!(matches!(refused, PlanError::PageMapped { .. }), "{refused}");
    map.map_rows(large, (other, Default::default()), (HostBlockId::new(7), Default::default())).unwrap();
}

/// Frames of one group that lands, or is lifted, like this: pages of 4 or 32 tokens, in host blocks of 8.
fn alone(
    (landing, lift): (Landing, PagedLift),
    page: u32,
    frames: impl Fn(GroupKey<Paged>, Vec<HostBlockId>, Vec<PageId>) -> GroupFrames,
) -> Result<StepPlans, String> {
    let mut builder = GeometryBuilder::new();
    let group = group_that(&mut builder, ("own", landing, lift), page, 0x10000);
    let frames = vec![frames(group, numbers(HostBlockId::new, 8), numbers(PageId::new, 8))];
    let geometry = Arc::new(builder.build().unwrap());
    StepPlans::new(Rank::new(0), geometry, frames, LIFECYCLE, OPTIONS).map_err(|error| error.to_string())
}

const fn dealt(group: GroupKey<Paged>, blocks: Vec<HostBlockId>, pages: Vec<PageId>) -> GroupFrames {
    GroupFrames::Paged { group, blocks, pages }
}

const fn own(group: GroupKey<Paged>, blocks: Vec<HostBlockId>, pages: Vec<PageId>) -> GroupFrames {
    GroupFrames::Whole { group, blocks, pages, each: 8 }
}

fn read(group: GroupKey<Paged>, blocks: Vec<HostBlockId>, pages: Vec<PageId>) -> GroupFrames {
    GroupFrames::ReadOnly(Box::new(own(group, blocks, pages)))
}

/// What landed on the device is in no host block: a preempted request would be given a block that nobody wrote.
#[test]
fn rows_that_land_on_the_device_are_not_written_back() {
    let landed = (Landing::Device, PagedLift::None);
    let error = alone(landed, 4, own).unwrap_err();
    assert!(error.contains("only read, as it lands on the device"), "{error}");
    alone(landed, 4, read).unwrap();
    alone((Landing::Host, PagedLift::All), 4, own).unwrap();
    let mut builder = GeometryBuilder::new();
    let layout = RingLayout::builder(4, 64).build().unwrap();
    let [host, device] = [(Memory::Host, 0x10000), (Memory::Device, 0x20000)].map(|(memory, base)| {
        let pool = PoolSpec::new(memory.name(), memory, 1, &[Region::new(base, 256)]);
        Some(SideSpec::packed(builder.pool(pool).unwrap(), &[base], &[0], 256, layout.clone()))
    });
    let (landing, lift) = (Landing::Device, StateLift::None);
    let group =
        builder.group(GroupSpec::<Ring> { name: "ring".into(), layers: 1, landing, lift, host, device });
    let (blocks, pages) = (numbers(HostBlockId::new, 1), numbers(PageId::new, 1));
    let ring = GroupFrames::Ring { group: group.unwrap(), blocks, pages };
    let geometry = Arc::new(builder.build().unwrap());
    let plans =
        |frames| StepPlans::new(Rank::new(0), Arc::clone(&geometry), vec![frames], LIFECYCLE, OPTIONS);
    let error = plans(ring.clone()).unwrap_err().to_string();
    assert!(error.contains("only read, as it lands on the device"), "{error}");
    plans(GroupFrames::ReadOnly(Box::new(ring))).unwrap();
}

/// What lands on the device and has no frames is there alone; what is neither there nor lifted is nobody's.
#[test]
fn a_group_without_frames_restores_nothing_where_it_lands_on_the_device() {
    for (landing, restores) in [(Landing::Host, Restores::Prefixes), (Landing::Device, Restores::Nothing)] {
        let mut builder = GeometryBuilder::new();
        group_that(&mut builder, ("own", landing, PagedLift::None), 4, 0x10000);
        let limits = GroupFrames::limits(&builder.build().unwrap(), BLOCK, &[]);
        assert_eq!(limits, FrameLimits { restores, ..FrameLimits::default() });
    }
}

#[test]
fn pages_are_dealt_out_to_what_lifts_its_tail_alone() {
    for (landing, lift) in [(Landing::Host, PagedLift::None), (Landing::Device, PagedLift::None)] {
        let error = alone((landing, lift), 4, dealt).unwrap_err();
        assert!(error.contains("its tail is not lifted"), "{landing:?}, {lift:?}: {error}");
    }
    alone((Landing::Host, PagedLift::Tail), 4, dealt).unwrap();
}

#[test]
fn pages_divide_the_lifecycles_blocks_wherever_they_land() {
    for landing in [Landing::Host, Landing::Device] {
        let error = alone((landing, PagedLift::None), 32, read).unwrap_err();
        assert!(error.contains("divide"), "{landing:?}: {error}");
        alone((landing, PagedLift::None), 4, read).unwrap();
    }
}
