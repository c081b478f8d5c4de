//! A rank's steps over groups of every kind: what lies where is worked out here by itself, from numbers alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use pagelift_planner::error::{OptionsError, PlanError};
use pagelift_planner::geometry::*;
use pagelift_planner::id::{HostBlockId, PageId};
use pagelift_planner::import::{Policy, Recurrence};
use pagelift_planner::layout::{PagedLayout, RingLayout, StateLayout, StatePart};
use pagelift_planner::lifecycle::*;
use pagelift_planner::plan::{
    Direction, MirrorPlan, PagePlan, PlanCapacity, RowBinding, RowCapacity, TailRows,
};
use pagelift_planner::quantity::{Bytes, Tokens};

const BLOCKS: u32 = 32;
const PAGES: u32 = 8;
const REQUESTS: u32 = 4;
/// Pages of a request in the group that is whole on the device.
const EACH: u32 = 5;

/// Blocks of 4 tokens in four groups: one lifts its tail, one all of its pages, one is a ring and one a state.
struct Groups {
    geometry: Arc<Geometry>,
    tail: GroupKey<Paged>,
    whole: GroupKey<Paged>,
    ring: GroupKey<Ring>,
    state: GroupKey<State>,
}

fn groups() -> Groups {
    let mut builder = GeometryBuilder::new();
    let mut at = 0x10000;
    let mut pool = |builder: &mut GeometryBuilder, memory: Memory, count: u32, bytes: u64| {
        let (base, name) = (at, format!("pool {at}"));
        at += u64::from(count) * bytes;
        let region = [Region::new(base, u64::from(count) * bytes)];
        (builder.pool(PoolSpec::new(&name, memory, count, &region)).unwrap(), base)
    };
    let layout = PagedLayout::builder(4).segment("row", 64).build().unwrap();
    let mut paged = |builder: &mut GeometryBuilder, name: &str, lift: PagedLift, pages: u32| {
        let [host, device] = [(Memory::Host, BLOCKS), (Memory::Device, pages)].map(|(memory, count)| {
            let (pool, base) = pool(builder, memory, count, 256);
            Some(SideSpec::packed(pool, &[base], &[0], 256, layout.clone()))
        });
        let (name, landing) = (name.into(), Landing::Host);
        builder.group(GroupSpec::<Paged> { name, layers: 1, landing, lift, host, device }).unwrap()
    };
    let tail = paged(&mut builder, "tail", PagedLift::Tail, PAGES);
    let whole = paged(&mut builder, "whole", PagedLift::All, REQUESTS * EACH);
    let layout = RingLayout::builder(4, 64).build().unwrap();
    let [host, device] = [Memory::Host, Memory::Device].map(|memory| {
        let (pool, base) = pool(&mut builder, memory, REQUESTS, 256);
        Some(SideSpec::packed(pool, &[base], &[0], 256, layout.clone()))
    });
    let (landing, lift) = (Landing::Host, StateLift::State);
    let spec = GroupSpec::<Ring> { name: "ring".into(), layers: 1, landing, lift, host, device };
    let ring = builder.group(spec).unwrap();
    let layout = StateLayout::new(&[StatePart::new("state", 128)], None).unwrap();
    let [host, device] = [(Memory::Host, BLOCKS), (Memory::Device, REQUESTS)].map(|(memory, count)| {
        let (pool, base) = pool(&mut builder, memory, count, 128);
        Some(SideSpec::packed(pool, &[base], &[0], 128, layout.clone()))
    });
    let spec = GroupSpec::<State> { name: "state".into(), layers: 1, landing, lift, host, device };
    let state = builder.group(spec).unwrap();
    Groups { geometry: Arc::new(builder.build().unwrap()), tail, whole, ring, state }
}

/// Every list runs backwards, so that no number stands for itself.
impl Groups {
    fn frames(&self) -> Vec<GroupFrames> {
        let blocks = |count: u32| (0..count).rev().map(HostBlockId::new).collect();
        let pages = |count: u32| (0..count).rev().map(PageId::new).collect();
        vec![
            GroupFrames::Paged { group: self.tail, blocks: blocks(BLOCKS), pages: pages(PAGES) },
            GroupFrames::Whole {
                group: self.whole,
                blocks: blocks(BLOCKS),
                pages: pages(REQUESTS * EACH),
                each: EACH,
            },
            GroupFrames::Ring { group: self.ring, blocks: blocks(REQUESTS), pages: pages(REQUESTS) },
            GroupFrames::State { group: self.state, blocks: blocks(BLOCKS), pages: pages(REQUESTS) },
        ]
    }

    fn plans(&self, frames: Vec<GroupFrames>, lifecycle: LifecycleOptions) -> Result<StepPlans, PlanError> {
        let room = StepOptions {
            pages: PlanCapacity { jobs: 32, list_entries: 64 },
            rows: RowCapacity::default(),
            mode: TailRows::Whole,
        };
        StepPlans::new(RANK, Arc::clone(&self.geometry), frames, lifecycle, room)
    }
}

const RANK: Rank = Rank::new(0);

/// The rank writes, or another one beside it.
fn options(writes: bool) -> LifecycleOptions {
    let ranks = if writes { 1 } else { 2 };
    LifecycleOptions {
        ranks,
        writers: Ranks::one(Rank::new(ranks - 1)),
        block_tokens: 4,
        recurrence: Recurrence::State,
        requests: REQUESTS,
        blocks: BLOCKS,
        pages: PAGES,
        keep: 0,
        draft_lag: 0,
        retries: 0,
        limits: FrameLimits::NONE,
    }
}

const fn block(number: HostBlockId) -> u32 {
    BLOCKS - 1 - number.get()
}

const fn page(number: PageId) -> u32 {
    PAGES - 1 - number.get()
}

const fn page_of_whole(slot: u32, position: u32) -> u32 {
    REQUESTS * EACH - 1 - (slot * EACH + position)
}

const fn own(slot: u32) -> u32 {
    REQUESTS - 1 - slot
}

/// What goes where, group by group.
type Moves = BTreeMap<String, Vec<(u32, u32)>>;

fn moves<D: Direction>(plan: &PagePlan<D>) -> Moves {
    let mut moves = Moves::new();
    for (job, summary) in plan.summary().jobs.into_iter().enumerate() {
        moves.entry(summary.group).or_default().extend(plan.blocks_of(job));
    }
    moves
}

fn expected(of: &[(&str, &[(u32, u32)])]) -> Moves {
    of.iter().map(|(name, pairs)| ((*name).into(), pairs.to_vec())).collect()
}

/// What another rank says that has done the same.
fn said_by(rank: Rank, event: &Event<'static>) -> Event<'static> {
    match *event {
        Event::Answer { request, round, answer, .. } => Event::Answer { request, round, rank, answer },
        Event::Mirrored { request, step, .. } => Event::Mirrored { request, rank, step },
        Event::Checkpointed { request, pages, .. } => Event::Checkpointed { request, rank, pages },
        Event::Spilled { request, pages, .. } => Event::Spilled { request, rank, pages },
        _ => panic!("a rank does not say {event:?}"),
    }
}

/// One rank, and the scheduler. A rank beside it does the same, and says so.
struct Engine {
    groups: Groups,
    lifecycle: Lifecycle,
    plans: StepPlans,
    ticket: u64,
}

impl Engine {
    fn new(writes: bool) -> Self {
        let groups = groups();
        let mut plans = groups.plans(groups.frames(), options(writes)).unwrap();
        let binding = RowBinding::new(0x1000, 1);
        plans.mirror_plan().bind(groups.tail, binding).unwrap();
        plans.mirror_plan().bind(groups.whole, binding).unwrap();
        plans.mirror_plan().bind(groups.ring, binding).unwrap();
        Self { lifecycle: Lifecycle::new(options(writes)).unwrap(), groups, plans, ticket: 0 }
    }

    fn tell(&mut self, event: &Event<'_>) {
        self.lifecycle.apply(event).unwrap();
        self.lifecycle.orders().for_each(|order| self.plans.hear(order).unwrap());
    }

    fn report(&mut self) {
        let said: Vec<_> = self.plans.say().collect();
        for event in said {
            self.tell(&event);
            (1..self.lifecycle.options().ranks)
                .for_each(|other| self.tell(&said_by(Rank::new(other), &event)));
        }
    }

    /// The plan of a lane is launched.
    fn launch(&mut self, lane: Lane, settled: Settled) {
        self.ticket += 1;
        self.plans.staged(lane, self.ticket);
        self.plans.settle(lane, self.ticket, settled);
        self.report();
    }

    /// A request of 10 tokens whose blocks have landed: 9 of them were imported, and the state after them.
    fn landed(&mut self) -> RequestId {
        self.landed_by(Policy::LiftTail)
    }

    fn landed_by(&mut self, policy: Policy) -> RequestId {
        let prompt = Tokens::new(10);
        self.tell(&Event::Admit(Admission { prompt, policy, producer: true, hashes: vec![].into() }));
        let request = self.lifecycle.requests().last().unwrap();
        self.tell(&Event::Posted { request, ranks: Ranks::NONE, each: 0 });
        request
    }

    fn lift(&mut self) -> Moves {
        let moves = moves(self.plans.plan_lifts(Bytes::new(u64::MAX)));
        self.launch(Lane::Lift, Settled::Done);
        moves
    }

    fn write_back(&mut self) -> Moves {
        let moves = moves(self.plans.plan_write_backs());
        self.launch(Lane::WriteBack, Settled::Done);
        moves
    }

    fn step(&mut self, request: RequestId, settled: Settled) {
        self.tell(&Event::Begin { request, tokens: 1 });
        let step = self.lifecycle.request(request).unwrap().begun();
        self.plans.plan_mirrors().unwrap();
        self.launch(Lane::Mirror, settled);
        self.tell(&Event::Accept { request, step, tokens: 1 });
    }

    fn blocks(&self, request: RequestId) -> Vec<HostBlockId> {
        self.lifecycle.request(request).unwrap().blocks().to_vec()
    }

    fn pages(&self, request: RequestId) -> Vec<(u32, PageId)> {
        self.lifecycle.request(request).unwrap().pages().map(|(at, page, _)| (at, page)).collect()
    }

    /// Which blocks mirror the page of a position, and the ring.
    fn mirrored(&mut self, request: RequestId, position: u32) -> [Option<u32>; 3] {
        let pages = self.pages(request);
        let number = pages.iter().find(|(at, _)| *at == position).map(|(_, page)| page);
        let slot = request.slot();
        let Groups { tail, whole, ring, .. } = self.groups;
        let map = MirrorPlan::page_map_mut(self.plans.mirror_plan());
        let tail = number.and_then(|number| map.block_of(tail, PageId::new(page(*number))));
        let whole = map.block_of(whole, PageId::new(page_of_whole(slot, position)));
        [tail, whole, map.block_of(ring, PageId::new(own(slot)))].map(|block| block.map(HostBlockId::get))
    }
}

#[test]
fn imports_are_lifted_into_the_places_of_their_groups() {
    let mut engine = Engine::new(true);
    let requests = [(); 2].map(|()| engine.landed());
    let lifted = engine.lift();
    let mut wanted = Moves::new();
    for request in requests {
        let (blocks, slot) = (engine.blocks(request), request.slot());
        let [(2, number)] = engine.pages(request)[..] else { panic!("the writable page") };
        let all = (0..3).map(|at| (block(blocks[at as usize]), page_of_whole(slot, at)));
        wanted.entry("tail".into()).or_default().push((block(blocks[2]), page(number)));
        wanted.entry("whole".into()).or_default().extend(all);
        wanted.entry("ring".into()).or_default().push((own(slot), own(slot)));
        wanted.entry("state".into()).or_default().push((block(blocks[2]), own(slot)));
        assert_eq!(engine.lifecycle.request(request).unwrap().stage(), Stage::Lifted);
    }
    assert_eq!(lifted, wanted);
}

#[test]
fn pages_and_rings_are_mirrored_and_written_back_where_a_mirror_never_ran() {
    let mut engine = Engine::new(true);
    let request = engine.landed();
    engine.lift();
    let (to, slot) = (block(engine.blocks(request)[2]), request.slot());
    assert_eq!(engine.mirrored(request, 2), [Some(to), Some(to), Some(own(slot))]);
    engine.step(request, Settled::Superseded);
    let [(_, number)] = engine.pages(request)[..] else { panic!("one page") };
    let wanted: [(&str, &[_]); 3] = [
        ("tail", &[(page(number), to)]),
        ("whole", &[(page_of_whole(slot, 2), to)]),
        ("ring", &[(own(slot), own(slot))]),
    ];
    assert_eq!(engine.write_back(), expected(&wanted));
    assert_eq!(engine.lifecycle.request(request).unwrap().durable(), Tokens::new(10));
    // The page is full, checkpointed and sealed, and not mirrored any more; the ring is.
    (0..2).for_each(|_| engine.step(request, Settled::Done));
    assert_eq!(engine.write_back(), expected(&[("state", &[(own(slot), to)])]));
    engine.step(request, Settled::Done);
    assert_eq!(engine.lifecycle.request(request).unwrap().sealed(), 3);
    assert_eq!(engine.mirrored(request, 2), [None, None, Some(own(slot))]);
    let to = block(engine.blocks(request)[3]);
    assert_eq!(engine.mirrored(request, 3), [Some(to), Some(to), Some(own(slot))]);
}

#[test]
fn ranks_that_do_not_write_host_blocks_write_states_alone() {
    let mut engine = Engine::new(false);
    let request = engine.landed();
    assert_eq!(engine.lift().len(), 4, "it lifts as others do");
    assert_eq!(engine.mirrored(request, 2), [None; 3]);
    engine.step(request, Settled::Superseded);
    assert_eq!(engine.write_back(), Moves::new());
    let [done, ends] = [10, 12].map(Tokens::new);
    assert_eq!(
        engine.lifecycle.request(request).unwrap().durable(),
        done,
        "it says that it is past the step"
    );
    (0..2).for_each(|_| engine.step(request, Settled::Done));
    let (to, slot) = (block(engine.blocks(request)[2]), request.slot());
    assert_eq!(engine.write_back(), expected(&[("state", &[(own(slot), to)])]));
    assert_eq!(engine.lifecycle.request(request).unwrap().durable(), ends);
}

#[test]
fn what_was_preempted_is_lifted_again_with_all_of_its_groups() {
    let mut engine = Engine::new(true);
    let request = engine.landed();
    engine.lift();
    (0..3).for_each(|_| engine.step(request, Settled::Done));
    engine.write_back();
    engine.step(request, Settled::Done);
    engine.tell(&Event::Preempt { request });
    let (blocks, slot) = (engine.blocks(request), request.slot());
    assert_eq!(engine.write_back(), expected(&[("state", &[(own(slot), block(blocks[3]))])]));
    assert_eq!(engine.lifecycle.request(request).unwrap().stage(), Stage::Preempted);
    assert_eq!(engine.mirrored(request, 3)[1], None, "its page is another's");
    engine.tell(&Event::Resume { request, behind: 1 });
    let [(2, behind), (3, tail)] = engine.pages(request)[..] else { panic!("two pages") };
    let all: Vec<_> = (0..4).map(|at| (block(blocks[at as usize]), page_of_whole(slot, at))).collect();
    let wanted: [(&str, &[_]); 4] = [
        ("tail", &[(block(blocks[2]), page(behind)), (block(blocks[3]), page(tail))]),
        ("whole", &all),
        ("ring", &[(own(slot), own(slot))]),
        ("state", &[(block(blocks[3]), own(slot))]),
    ];
    assert_eq!(engine.lift(), expected(&wanted));
    assert_eq!(engine.mirrored(request, 2)[0], None, "what is sealed is read only");
}

/// A group's states may have landed on the device, where the lifecycle knows of none: they are in no host block.
#[test]
fn what_was_preempted_before_any_step_has_its_states_written_back() {
    let mut engine = Engine::new(true);
    let request = engine.landed();
    engine.lift();
    for _ in 0..2 {
        engine.tell(&Event::Preempt { request });
        let (blocks, slot) = (engine.blocks(request), request.slot());
        assert_eq!(engine.write_back(), expected(&[("state", &[(own(slot), block(blocks[2]))])]));
        assert_eq!(engine.lifecycle.request(request).unwrap().stage(), Stage::Preempted);
        engine.tell(&Event::Resume { request, behind: 0 });
        assert_eq!(engine.lift()["state"], [(block(blocks[2]), own(slot))]);
    }
    // One that has computed a step since has another state.
    engine.step(request, Settled::Done);
    engine.tell(&Event::Preempt { request });
    assert_eq!(engine.write_back().into_keys().collect::<Vec<_>>(), ["state"]);
}

#[test]
fn what_landed_on_the_device_is_written_back_once_and_a_ring_with_its_first_page() {
    let mut engine = Engine::new(true);
    let request = engine.landed_by(Policy::LandOnDevice);
    assert_eq!(engine.lift(), Moves::new());
    let (blocks, slot) = (engine.blocks(request), request.slot());
    let pages = engine.pages(request);
    let own_pages = |at: usize| page(pages[at].1);
    let wanted: [(&str, &[_]); 3] = [
        ("tail", &[0, 1, 2].map(|at| (own_pages(at), block(blocks[at])))),
        ("whole", &[0, 1, 2].map(|at| (page_of_whole(slot, at as u32), block(blocks[at])))),
        // Of its rows only those that steps write are mirrored: the others would be lost when the request is preempted.
        ("ring", &[(own(slot), own(slot))]),
    ];
    assert_eq!(engine.write_back(), expected(&wanted));
    assert_eq!(engine.write_back(), Moves::new());
}

#[test]
fn a_state_is_written_after_the_step_that_computes_it() {
    let mut engine = Engine::new(true);
    let request = engine.landed();
    engine.lift();
    (0..2).for_each(|_| engine.step(request, Settled::Done));
    engine.tell(&Event::Begin { request, tokens: 1 });
    // Another rank has run the step, and its token was accepted, which ends the page.
    engine.tell(&Event::Accept { request, step: 3, tokens: 1 });
    assert_eq!(engine.write_back(), Moves::new(), "it would be launched before the step");
    engine.plans.plan_mirrors().unwrap();
    engine.launch(Lane::Mirror, Settled::Done);
    assert_eq!(engine.write_back().into_keys().collect::<Vec<_>>(), ["state"]);
}

#[test]
fn a_request_longer_than_its_pages_is_refused_in_all_groups() {
    let mut engine = Engine::new(true);
    let (prompt, policy) = (Tokens::new(u64::from(EACH) * 4 + 1), Policy::LiftTail);
    let admission = Admission { prompt, policy, producer: true, hashes: vec![].into() };
    engine.lifecycle.apply(&Event::Admit(admission)).unwrap();
    let [Order::Map { page: number, .. }] = engine.lifecycle.orders().collect::<Vec<_>>()[..] else {
        panic!("one page")
    };
    let orders: Vec<_> = engine.lifecycle.orders().collect();
    let group = "whole".into();
    let long = PlanError::ListLength { group, list: "pages", expected: EACH as u64 + 1, found: EACH.into() };
    assert_eq!(orders.into_iter().map(|order| engine.plans.hear(order)).collect::<Vec<_>>(), [Err(long)]);
    let map = engine.plans.mirror_plan().page_map_mut();
    assert_eq!(map.block_of(engine.groups.tail, PageId::new(page(number))), None, "nor in the first group");
}

/// What groups allow, by what is left of them: the least of each.
#[test]
fn groups_allow_what_the_least_of_them_does() {
    let groups = groups();
    let limits = |frames: &[GroupFrames]| GroupFrames::limits(&groups.geometry, 4, frames);
    let [tail, whole, ring, state] = groups.frames().try_into().unwrap();
    let none = FrameLimits::default();
    assert_eq!(limits(&[tail.clone(), state.clone()]), none);
    let requests = FrameLimits { restores: Restores::Requests, ..none };
    assert_eq!(limits(&[tail.clone(), ring.clone(), state]), requests, "a ring is its request's");
    assert_eq!(limits(&[tail.clone(), whole.clone()]), FrameLimits { positions: EACH, ..none });
    let read = GroupFrames::ReadOnly(Box::new(whole));
    let nothing = FrameLimits { restores: Restores::Nothing, positions: EACH };
    assert_eq!(limits(&[tail, ring, read]), nothing);
    // Blocks of twice as many tokens stand for two pages each, the last for one.
    assert_eq!(GroupFrames::limits(&groups.geometry, 8, &groups.frames()[1..2]).positions, EACH.div_ceil(2));
}

/// A request that found everything would be given the ring of the one that had its slot before.
#[test]
fn what_is_found_has_no_ring_so_nothing_is() {
    // All but the block that the state comes with, which the producer brings.
    for (limited, found) in [(false, 1), (true, 0)] {
        let mut engine = Engine::new(true);
        let options = engine.lifecycle.options();
        let limits = GroupFrames::limits(&engine.groups.geometry, 4, &engine.groups.frames());
        let limits = if limited { limits } else { FrameLimits::default() };
        engine.lifecycle = Lifecycle::new(LifecycleOptions { limits, ..options }).unwrap();
        let hashes = [7, 8].map(ContentHash::new);
        let admit = |engine: &mut Engine| {
            let (prompt, policy) = (Tokens::new(10), Policy::LiftTail);
            engine.tell(&Event::Admit(Admission {
                prompt,
                policy,
                producer: true,
                hashes: hashes[..].into(),
            }));
            engine.lifecycle.requests().last().unwrap()
        };
        let request = admit(&mut engine);
        engine.tell(&Event::Posted { request, ranks: Ranks::NONE, each: 0 });
        engine.lift();
        let other = admit(&mut engine);
        assert_eq!(engine.lifecycle.request(other).unwrap().found(), found);
    }
}

#[test]
fn frames_are_those_of_the_groups() {
    let groups = groups();
    let error = |frames| groups.plans(frames, options(true)).map(drop).unwrap_err().to_string();
    let mut frames = groups.frames();
    frames.remove(2);
    assert_eq!(error(frames), "group `ring`: expected frames, as it is lifted, found none");
    let (blocks, pages) = (vec![], vec![]);
    let mut frames = groups.frames();
    frames[1] = GroupFrames::Paged { group: groups.whole, blocks, pages };
    assert_eq!(error(frames), "group `whole`: expected frames of all pages, found frames of its tail");
    let (blocks, pages) = (vec![], vec![]);
    let mut frames = groups.frames();
    frames[0] = GroupFrames::Whole { group: groups.tail, blocks, pages, each: 1 };
    assert_eq!(error(frames), "group `tail`: expected frames of its tail, found frames of all pages");
}

#[test]
fn every_group_that_is_mirrored_is_bound_before_a_step() {
    let mut engine = Engine::new(true);
    let request = engine.landed();
    engine.lift();
    engine.tell(&Event::Begin { request, tokens: 1 });
    engine.plans.mirror_plan().clear_bindings();
    let Groups { tail, whole, ring, .. } = engine.groups;
    let binding = RowBinding::new(0x1000, 1);
    let missing = |plans: &mut StepPlans| plans.plan_mirrors().map(drop).unwrap_err();
    assert_eq!(missing(&mut engine.plans), PlanError::Unbound { group: "tail".into() });
    engine.plans.mirror_plan().bind(tail, binding).unwrap();
    assert_eq!(missing(&mut engine.plans), PlanError::Unbound { group: "whole".into() });
    engine.plans.mirror_plan().bind(whole, binding).unwrap();
    assert_eq!(missing(&mut engine.plans), PlanError::Unbound { group: "ring".into() });
    engine.plans.mirror_plan().bind(ring, binding).unwrap();
    engine.plans.plan_mirrors().unwrap();
    // Whoever does not write mirrors nothing.
    let mut engine = Engine::new(false);
    let request = engine.landed();
    engine.lift();
    engine.tell(&Event::Begin { request, tokens: 1 });
    engine.plans.mirror_plan().clear_bindings();
    engine.plans.plan_mirrors().unwrap();
    assert_eq!(engine.plans.drafted(Lane::Mirror), 1);
}

#[test]
fn a_rank_is_one_of_the_lifecycle_s() {
    let groups = groups();
    let error = |options| groups.plans(groups.frames(), options).map(drop).unwrap_err();
    let options = options(true);
    let nobody = LifecycleOptions { writers: Ranks::NONE, ..options };
    let wrong = OptionsError::Writers { writers: Ranks::NONE, ranks: 1 };
    assert_eq!(error(nobody), PlanError::Options(wrong));
    let empty = LifecycleOptions { block_tokens: 0, ..options };
    assert!(matches!(error(empty), PlanError::Options(OptionsError::Number { found: 0, .. })));
    let (pages, rows, mode) = (PlanCapacity::default(), RowCapacity::default(), TailRows::Whole);
    let (geometry, room) = (Arc::clone(&groups.geometry), StepOptions { pages, rows, mode });
    let other = StepPlans::new(Rank::new(1), geometry, groups.frames(), options, room).unwrap_err();
    assert_eq!(other.to_string(), "rank 1 is none of the lifecycle's; expected one of the ranks 0 to 0");
}
