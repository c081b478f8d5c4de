//! What holds in every state. The numbers are those of DESIGN.md.

use std::collections::BTreeMap;

use pagelift_planner::id::{HostBlockId, PageId};
use pagelift_planner::lifecycle::{Effect, Event, PageState, RequestId, Stage};

use crate::ghost::Row;
use crate::rank::Order;
use crate::world::{World, sender};

/// Checks all of it.
pub fn check(world: &World<'_>) {
    case_13_endpoints_are_held(world);
    case_14_what_is_visible_is_whole(world);
    nothing_leaks(world);
    case_16_sealed_rows_are_durable(world);
    nobody_is_awaited_for_ever(world);
    case_17_order_does_not_matter(world);
}

/// I1: what a copy or a read may touch belongs to the request that it was begun for.
fn case_13_endpoints_are_held(world: &World<'_>) {
    let held = |id: RequestId, page: PageId, block: HostBlockId| {
        let view = world.life.request(id);
        let view = view.unwrap_or_else(|| panic!("I1: a copy runs for {id}, which is over"));
        assert_eq!(world.life.holder(page), Some(id), "I1: {page} is another's, and a copy may run");
        assert!(view.blocks().contains(&block), "I1: {block} is another's, and a copy may run");
        assert!(view.pages().any(|(_, own, _)| own == page), "I1: {page} was given back");
    };
    for side in world.sides.iter().filter(|side| side.alive) {
        for flight in side.flights.values().flat_map(|(_, flights)| flights) {
            let id = flight.work.request();
            assert!(world.life.request(id).is_some(), "I1: {:?} of a request that is over", flight.work);
            flight.ends.iter().for_each(|(_, page, block)| held(id, *page, *block));
        }
    }
    for (id, ..) in &world.reads {
        let stage = world.life.request(*id).map(|view| view.stage());
        assert_eq!(stage, Some(Stage::Receiving), "I1: a read of {id} is in flight");
    }
}

/// I2: what others may find is complete, on every writer.
fn case_14_what_is_visible_is_whole(world: &World<'_>) {
    let writers = world.life.options().writers;
    for (block, rows) in world.visible() {
        for rank in writers.iter() {
            let found = world.memory.host.get(&(rank, block.get())).into_iter().flatten();
            let found: Vec<_> = found.copied().collect();
            let wanted: Vec<_> = rows.iter().copied().map(Some).collect();
            assert_eq!(found, wanted, "I2: {block} is visible, {rank} has not all of its rows");
        }
    }
}

/// I3: every block and page is free, cached, or held by those who say so.
fn nothing_leaks(world: &World<'_>) {
    let (life, options) = (&world.life, world.life.options());
    let (mut users, mut pages) = (BTreeMap::<u32, u32>::new(), BTreeMap::new());
    for id in life.requests() {
        let view = life.request(id).unwrap();
        view.blocks().iter().for_each(|block| *users.entry(block.get()).or_default() += 1);
        for (_, page, _) in view.pages() {
            assert_eq!(pages.insert(page, id), None, "I3: {page} is held twice");
        }
    }
    let (mut free, mut available) = (0, 0);
    for block in (0..options.blocks).map(HostBlockId::new) {
        let count = users.get(&block.get()).copied().unwrap_or(0);
        assert_eq!(life.users(block), count, "I3: users of {block}");
        available += usize::from(count == 0);
        free += usize::from(count == 0 && life.content(block).is_none());
    }
    assert_eq!((life.free_blocks(), life.available_blocks()), (free, available), "I3: free blocks");
    for page in (0..options.pages).map(PageId::new) {
        assert_eq!(life.holder(page), pages.get(&page).copied(), "I3: holder of {page}");
    }
    assert_eq!(life.free_pages(), options.pages as usize - pages.len(), "I3: free pages");
}

/// I4: a sealed page has no row that is not safe.
fn case_16_sealed_rows_are_durable(world: &World<'_>) {
    let options = world.life.options();
    for id in world.life.requests() {
        let view = world.life.request(id).unwrap();
        for (position, page, state) in view.pages() {
            if !matches!(state, PageState::Sealed | PageState::Droppable) {
                continue;
            }
            let block = view.blocks()[position as usize];
            for rank in options.writers.iter() {
                let rows = world.memory.host.get(&(rank, block.get()));
                let safe = |row: &Option<Row>| row.is_some_and(|row| row.settled);
                let all = rows.is_some_and(|rows| rows.iter().all(safe));
                assert!(all, "I4: {page} of {id} is sealed, and {rank} has not all of its rows in {block}");
            }
        }
    }
}

/// I6: whoever is awaited will answer: something of it is on its way.
fn nobody_is_awaited_for_ever(world: &World<'_>) {
    for id in world.life.requests() {
        let view = world.life.request(id).unwrap();
        let about = |event: &Event<'_>| match event {
            Event::Answer { request, rank, .. } if *request == id => Some(*rank),
            Event::Read { request, rank, .. } if *request == id => Some(*rank),
            _ => None,
        };
        match view.stage() {
            Stage::Reserved => assert!(world.to_post.contains(&id), "I6: {id} waits for its reads"),
            Stage::Receiving => {
                let reads = world.reads.iter().any(|(reader, ..)| *reader == id);
                let messages = world.net.iter().any(|event| about(event).is_some());
                let dead = world.sides.iter().any(|side| !side.alive);
                assert!(reads || messages || dead, "I6: {id} waits for reads that nobody has");
            }
            Stage::Lifting | Stage::Stopping => {
                for rank in view.awaited().iter() {
                    let side = &world.sides[rank.get() as usize];
                    let orders = side.inbox.iter().any(|order| asks(order, id));
                    let mut works = side.worker.waiting().chain(side.worker.in_flight());
                    let work = works.any(|work| work.request() == id);
                    let message = world.net.iter().any(|event| about(event) == Some(rank));
                    let noticed = side.alive || !world.life.lost().contains(rank);
                    assert!(noticed, "I6: {id} waits for {rank}, which is lost");
                    let coming = !side.alive || orders || work || message;
                    assert!(coming, "I6: {id} is {:?} and waits for {rank} for ever", view.stage());
                }
                assert!(!view.awaited().is_empty(), "I6: {id} waits for nobody");
            }
            // What a rank was to write is on its way to being safe, or the rank says that it never will be.
            Stage::Lifted => {
                for rank in view.unsettled().iter() {
                    let side = &world.sides[rank.get() as usize];
                    let orders = side.inbox.iter().any(|order| writes(order, id));
                    let mut works = side.worker.waiting().chain(side.worker.in_flight());
                    let work = works.any(|work| work.request() == id);
                    let message =
                        world.net.iter().any(|event| sender(event) == Some(rank) && speaks_of(event, id));
                    let coming = !side.alive || orders || work || message;
                    assert!(
                        coming,
                        "I6: what {rank} was to write of {id} will never be safe, and nobody says so"
                    );
                }
            }
            Stage::Preempted | Stage::Ended => {}
        }
    }
}

/// Whether it says how far a rank is with what it was to write.
fn speaks_of(event: &Event<'_>, id: RequestId) -> bool {
    match event {
        Event::Mirrored { request, .. }
        | Event::Checkpointed { request, .. }
        | Event::Spilled { request, .. }
        | Event::Broken { request, .. } => *request == id,
        _ => false,
    }
}

fn writes(order: &Order, id: RequestId) -> bool {
    match order {
        Order::Begin(request, ..) => *request == id,
        Order::Do(Effect::Checkpoint { request, .. } | Effect::Spill { request, .. }) => *request == id,
        Order::Do(_) | Order::Lift(..) => false,
    }
}

fn asks(order: &Order, id: RequestId) -> bool {
    let effect = match order {
        Order::Do(effect) | Order::Lift(effect, ..) => effect,
        Order::Begin(..) => return false,
    };
    matches!(
        effect,
        Effect::Lift { request, .. } | Effect::Cancel { request, .. } | Effect::Stop { request, .. }
            if *request == id
    )
}

/// I7: two who hear the same of ranks, in another order, conclude the same.
fn case_17_order_does_not_matter(world: &World<'_>) {
    // The two messages of each rank that come first, and the first of different ranks.
    let (mut firsts, mut pairs) = (Vec::<&Event<'_>>::new(), Vec::new());
    for side in &world.sides {
        let mut own = world.net.iter().filter(|event| sender(event) == Some(side.worker.rank()));
        let Some(first) = own.next() else { continue };
        pairs.extend(own.next().map(|second| (first, second)));
        pairs.extend(firsts.iter().map(|other| (*other, first)));
        firsts.push(first);
    }
    for (first, second) in pairs {
        // What is broken ends its request, whatever else is on its way: what had come before stays published.
        let ends = [first, second].iter().any(|event| matches!(event, Event::Broken { .. }));
        let [one, other] = [[first, second], [second, first]].map(|events| {
            let mut life = world.life.clone();
            for event in events {
                // One of them may have been the end of the request.
                let _ = life.apply(event);
            }
            let request = |id| {
                let view = life.request(id)?;
                Some((view.stage(), view.is_ending(), (!ends).then(|| view.sealed())))
            };
            let requests: Vec<_> = life.requests().map(|id| (id, request(id))).collect();
            let blocks = (0..life.options().blocks).map(HostBlockId::new);
            let contents: Vec<_> = blocks.filter_map(|block| life.content(block)).collect();
            let mut contents: Vec<_> = contents.into_iter().map(|hash| hash.get()).collect();
            contents.sort_unstable();
            let memory = (contents, life.free_pages(), life.available_blocks());
            (requests, (!ends).then_some(memory))
        });
        assert_eq!(one, other, "I7: {first:?} and {second:?} in another order");
    }
}
