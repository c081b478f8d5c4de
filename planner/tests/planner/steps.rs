//! A rank's steps: a launch for each kind of work, nothing twice, nothing lost.

use std::sync::Arc;

use pagelift_planner::error::PlanError;
use pagelift_planner::geometry::*;
use pagelift_planner::id::{HostBlockId, PageId};
use pagelift_planner::import::{Policy, Recurrence};
use pagelift_planner::layout::PagedLayout;
use pagelift_planner::lifecycle::*;
use pagelift_planner::plan::{Plan, PlanCapacity, RowBinding, RowCapacity, TailRows};
use pagelift_planner::quantity::{Bytes, Tokens};

/// Blocks of 4 tokens, rows of 64 bytes. The group's blocks and pages are numbered from the end.
struct Engine {
    lifecycle: Lifecycle,
    plans: StepPlans,
    group: GroupKey<Paged>,
}

const BLOCKS: u32 = 32;
const PAGES: u32 = 8;
const PAGE: u64 = 4 * 64;

const OPTIONS: LifecycleOptions = LifecycleOptions {
    ranks: 1,
    writers: Ranks::first(1),
    block_tokens: 4,
    recurrence: Recurrence::None,
    requests: 8,
    blocks: BLOCKS,
    pages: PAGES,
    keep: 0,
    draft_lag: 0,
    retries: 0,
    limits: FrameLimits::NONE,
};

fn engine(jobs: u32) -> Engine {
    let layout = PagedLayout::builder(4).segment("row", 64).build().unwrap();
    let mut builder = GeometryBuilder::new();
    let mut side = |memory: Memory, count: u32, base: u64| {
        let pool = PoolSpec::new(memory.name(), memory, count, &[Region::new(base, u64::from(count) * PAGE)]);
        let pool = builder.pool(pool).unwrap();
        Some(SideSpec::packed(pool, &[base], &[0], PAGE, layout.clone()))
    };
    let (host, device) = (side(Memory::Host, BLOCKS, 0x10000), side(Memory::Device, PAGES, 0x90000));
    let (name, lift) = ("main".into(), PagedLift::Tail);
    let group = builder
        .group(GroupSpec::<Paged> { name, layers: 1, landing: Landing::Host, lift, host, device })
        .unwrap();
    let frames = GroupFrames::Paged {
        group,
        blocks: (0..BLOCKS).rev().map(HostBlockId::new).collect(),
        pages: (0..PAGES).rev().map(PageId::new).collect(),
    };
    let room = StepOptions {
        pages: PlanCapacity { jobs, list_entries: 64 },
        rows: RowCapacity::default(),
        mode: TailRows::Whole,
    };
    let geometry = Arc::new(builder.build().unwrap());
    let mut plans = StepPlans::new(Rank::new(0), geometry, vec![frames], OPTIONS, room).unwrap();
    plans.mirror_plan().bind(group, RowBinding::new(0x1000, 1)).unwrap();
    Engine { lifecycle: Lifecycle::new(OPTIONS).unwrap(), plans, group }
}

impl Engine {
    fn tell(&mut self, event: &Event<'_>) -> Vec<Effect> {
        let effects = self.lifecycle.apply(event).unwrap().to_vec();
        self.lifecycle.orders().for_each(|order| self.plans.hear(order).unwrap());
        effects
    }

    /// A request of 6 tokens that has landed: its second block is lifted.
    fn landed(&mut self) -> RequestId {
        let admission = Admission {
            prompt: Tokens::new(6),
            policy: Policy::LiftTail,
            producer: true,
            hashes: vec![].into(),
        };
        let effects = self.tell(&Event::Admit(admission));
        let Some(Effect::Admitted { request, .. }) = effects.first().copied() else { panic!("{effects:?}") };
        self.tell(&Event::Posted { request, ranks: Ranks::NONE, each: 0 });
        request
    }

    fn report(&mut self) {
        let said: Vec<_> = self.plans.say().collect();
        said.iter().for_each(|event| drop(self.tell(event)));
    }

    fn lift(&mut self, ticket: u64) {
        self.plans.plan_lifts(Bytes::new(u64::MAX));
        self.plans.staged(Lane::Lift, ticket);
        self.plans.settle(Lane::Lift, ticket, Settled::Done);
        self.report();
    }

    fn stage(&self, request: RequestId) -> Option<Stage> {
        self.lifecycle.request(request).map(|view| view.stage())
    }

    /// One token, mirrored as `settled` says.
    fn step(&mut self, request: RequestId, ticket: u64, settled: Settled) {
        let view = self.lifecycle.request(request).unwrap();
        let step = view.begun() + 1;
        self.tell(&Event::Begin { request, tokens: 1 });
        self.plans.plan_mirrors().unwrap();
        assert_eq!(self.plans.drafted(Lane::Mirror), 1);
        self.plans.staged(Lane::Mirror, ticket);
        self.tell(&Event::Accept { request, step, tokens: 1 });
        self.plans.settle(Lane::Mirror, ticket, settled);
        self.report();
    }
}

#[test]
fn imports_of_a_step_are_lifted_in_one_launch() {
    let mut engine = engine(8);
    let requests = [(); 3].map(|()| engine.landed());
    let plan = engine.plans.plan_lifts(Bytes::new(u64::MAX));
    assert_eq!((plan.jobs(), plan.bytes()), (3, Some(Bytes::new(3 * PAGE))));
    let view = engine.lifecycle.request(requests[0]).unwrap();
    let (_, page, _) = view.pages().next().unwrap();
    let pair = (BLOCKS - 1 - view.blocks()[1].get(), PAGES - 1 - page.get());
    let plan = engine.plans.plan_lifts(Bytes::new(u64::MAX));
    assert_eq!(plan.blocks_of(0).collect::<Vec<_>>(), [pair], "in the group's own numbers");
    assert_eq!(engine.plans.drafted(Lane::Lift), 3, "made again, and none twice");
    engine.plans.staged(Lane::Lift, 1);
    engine.plans.settle(Lane::Lift, 1, Settled::Done);
    engine.report();
    assert!(requests.iter().all(|request| engine.stage(*request) == Some(Stage::Lifted)));
    assert_eq!(engine.plans.plan_lifts(Bytes::new(u64::MAX)).jobs(), 0);
}

#[test]
fn what_is_left_out_for_want_of_bytes_or_room_is_lifted_later() {
    for (jobs, most) in [(8, 2 * PAGE), (8, 2 * PAGE + 1), (2, u64::MAX)] {
        let mut engine = engine(jobs);
        for _ in 0..5 {
            engine.landed();
        }
        let lifted: Vec<usize> = (1..=4)
            .map(|ticket| {
                let jobs = engine.plans.plan_lifts(Bytes::new(most)).jobs();
                engine.plans.staged(Lane::Lift, ticket);
                jobs
            })
            .collect();
        assert_eq!(lifted, [2, 2, 1, 0], "{jobs} jobs, {most} bytes");
    }
    let mut engine = engine(8);
    engine.landed();
    assert_eq!(engine.plans.plan_lifts(Bytes::ZERO).jobs(), 1, "every plan gets ahead");
}

#[test]
fn superseded_lifts_are_planned_again_in_order() {
    let mut engine = engine(2);
    let requests = [(); 3].map(|()| engine.landed());
    let first: Vec<_> = engine.plans.plan_lifts(Bytes::new(u64::MAX)).blocks_of(0).collect();
    engine.plans.staged(Lane::Lift, 1);
    engine.plans.plan_lifts(Bytes::new(u64::MAX));
    engine.plans.staged(Lane::Lift, 2);
    engine.plans.settle(Lane::Lift, 1, Settled::Superseded);
    engine.plans.settle(Lane::Lift, 2, Settled::Done);
    engine.report();
    let stages = requests.map(|request| engine.stage(request));
    assert_eq!(stages, [Stage::Lifting, Stage::Lifting, Stage::Lifted].map(Some));
    let plan = engine.plans.plan_lifts(Bytes::new(u64::MAX));
    assert_eq!((plan.jobs(), plan.blocks_of(0).collect::<Vec<_>>()), (2, first));
}

#[test]
fn an_aborted_lift_is_not_planned_and_one_in_flight_is_awaited() {
    let mut engine = engine(8);
    let [waits, flies] = [(); 2].map(|()| engine.landed());
    engine.tell(&Event::Abort { request: waits });
    engine.report();
    assert_eq!(engine.stage(waits), None, "it is over");
    assert_eq!(engine.plans.plan_lifts(Bytes::new(u64::MAX)).jobs(), 1);
    engine.plans.staged(Lane::Lift, 1);
    engine.tell(&Event::Abort { request: flies });
    engine.report();
    assert_eq!(engine.stage(flies), Some(Stage::Lifting), "its page is written to still");
    engine.plans.settle(Lane::Lift, 1, Settled::Done);
    engine.report();
    assert_eq!((engine.stage(flies), engine.lifecycle.free_pages()), (None, PAGES as usize));
}

#[test]
fn case_16_a_mirror_that_never_ran_is_made_good_by_writing_its_page_back() {
    let mut engine = engine(8);
    let request = engine.landed();
    engine.lift(1);
    engine.step(request, 1, Settled::Done);
    engine.step(request, 2, Settled::Superseded);
    engine.step(request, 3, Settled::Done);
    let durable = |engine: &Engine| engine.lifecycle.request(request).unwrap().durable().get();
    // Token 5 is replayed; 6 was not mirrored; 7 was, but rows are safe in order.
    assert_eq!(durable(&engine), 6);
    let plan = engine.plans.plan_write_backs();
    assert_eq!((plan.jobs(), plan.bytes()), (1, Some(Bytes::new(PAGE))));
    engine.plans.staged(Lane::WriteBack, 1);
    assert_eq!(durable(&engine), 6, "it is in flight");
    engine.plans.settle(Lane::WriteBack, 1, Settled::Done);
    engine.report();
    assert_eq!(durable(&engine), 8);
    assert_eq!(engine.lifecycle.request(request).unwrap().sealed(), 2);
}

#[test]
fn a_preempted_request_is_lifted_again_from_its_own_blocks() {
    let mut engine = engine(8);
    let request = engine.landed();
    engine.lift(1);
    (1..=5).for_each(|ticket| engine.step(request, ticket, Settled::Done));
    engine.tell(&Event::Preempt { request });
    engine.report();
    assert_eq!(
        (engine.stage(request), engine.lifecycle.free_pages()),
        (Some(Stage::Preempted), PAGES as usize)
    );
    assert!((0..PAGES).all(|page| {
        engine.plans.mirror_plan().page_map_mut().block_of(engine.group, PageId::new(page)).is_none()
    }));
    engine.tell(&Event::Resume { request, behind: 1 });
    // 10 tokens: the page that is written has two, the one behind it is sealed.
    let plan = engine.plans.plan_lifts(Bytes::new(u64::MAX));
    assert_eq!((plan.jobs(), plan.bytes()), (1, Some(Bytes::new(2 * PAGE))));
    engine.plans.staged(Lane::Lift, 9);
    engine.plans.settle(Lane::Lift, 9, Settled::Done);
    engine.report();
    assert_eq!(engine.stage(request), Some(Stage::Lifted));
}

/// It would be planned for nobody: the rank would never answer.
#[test]
fn an_order_of_a_request_without_a_place_is_refused() {
    let mut engine = engine(8);
    let known = engine.landed();
    let lists = LiftLists::of(engine.lifecycle.request(known).unwrap());
    let asked: Vec<_> = engine.plans.worker().waiting().collect();
    let (page, block, round) = (PageId::new(0), HostBlockId::new(0), 1);
    let request: RequestId = serde_json::from_str(r#"{"slot":8,"generation":1}"#).unwrap();
    let orders = [
        Order::Map { request, position: 0, page, block },
        Order::Lift { request, round, lists },
        Order::Cancel { request, round },
        Order::Begin { request, step: 1, from: 0, to: 1 },
        Order::Checkpoint { request, position: 0 },
        Order::Spill { request, position: 0 },
        Order::Save { request, position: 0 },
        Order::Stop { request, round },
        Order::ReleasePage { request, page },
    ];
    for order in orders {
        let refused = engine.plans.hear(order.clone());
        assert_eq!(refused, Err(PlanError::ForeignRequest { request, requests: 8 }), "{order:?}");
    }
    assert_eq!(engine.plans.worker().waiting().collect::<Vec<_>>(), asked);
    let map = engine.plans.mirror_plan().page_map_mut();
    assert_eq!(map.block_of(engine.group, PageId::new(PAGES - 1)), Some(HostBlockId::new(BLOCKS - 2)));
}

/// Its ticket would be done, and its pages given away with rows that are nowhere else.
#[test]
fn a_mirror_is_planned_when_its_rows_are_bound() {
    let mut engine = engine(8);
    let request = engine.landed();
    engine.lift(1);
    engine.plans.mirror_plan().clear_bindings();
    engine.plans.plan_mirrors().unwrap();
    engine.tell(&Event::Begin { request, tokens: 1 });
    let before: Vec<_> = engine.plans.worker().waiting().collect();
    let unbound = PlanError::Unbound { group: "main".into() };
    assert_eq!(engine.plans.plan_mirrors().map(drop), Err(unbound));
    assert_eq!(engine.plans.drafted(Lane::Mirror), 0);
    assert_eq!(engine.plans.worker().waiting().collect::<Vec<_>>(), before);
    engine.plans.mirror_plan().bind(engine.group, RowBinding::new(0x1000, 1)).unwrap();
    assert!(engine.plans.mirror_plan().is_bound(engine.group));
    engine.plans.plan_mirrors().unwrap();
    assert_eq!(engine.plans.drafted(Lane::Mirror), 1);
}
