//! What laws of mirrors are told with, and one that random cases leave out.

use pagelift::id::{HostBlockId, PageId};
use pagelift::launcher::{Launcher, TicketState};
use pagelift::plan::{MirrorPlan, Queries, RowBinding, RowCapacity};
use pagelift_cases::arrays::Scratch;
use pagelift_cases::draw::Draw;
use pagelift_cases::tables::options;

use crate::backends::Subject;
use crate::world::World;

pub const ROOM: RowCapacity = RowCapacity { jobs: 4, changes: 64 };

/// Where query starts fall, an entry may belong to any request that claims it, or be bad: but whatever is written is
/// the entry's own row, at its own place.
pub fn falling_starts<S: Subject>(seed: u64) {
    let mut draw = Draw::seeded(seed);
    let backend = S::backend(draw.number());
    let mut world = World::small(&backend);
    let mut scratch = Scratch::new(&mut world.pools, &backend);
    let group = world.paged();
    let (capacity, requests) = (10, 5);
    let slots = scratch.array(capacity, 8);
    let starts = scratch.array(requests + 1, 4);
    let accepted = scratch.array(requests, 4);
    let queries = Some(Queries { starts, accepted: Some(accepted), requests });
    let mut plan = MirrorPlan::new(world.geometry(), ROOM).unwrap();
    plan.bind(group, RowBinding { queries, ..RowBinding::new(slots, capacity) }).unwrap();
    let pages = world.model.groups[0].device.blocks.min(world.model.groups[0].host.blocks);
    for page in 0..pages {
        plan.page_map_mut().map(group, PageId::new(page), HostBlockId::new(pages - 1 - page)).unwrap();
    }
    let mut launcher = Launcher::bind(backend, &world.pools.memory, &mut plan, options(&mut draw)).unwrap();
    let wild = |count: u32, draw: &mut Draw| -> Vec<i64> {
        (0..count).map(|_| i64::from(draw.small(14)) - draw.pick(&[0, 0, 2, 1 << 30])).collect()
    };
    let (start_values, accepted_values) = (wild(requests + 1, &mut draw), wild(requests, &mut draw));
    let slot_values: Vec<i64> = draw.order(pages * 4).iter().take(10).map(|&slot| i64::from(slot)).collect();
    scratch.write(&mut world.pools, slots, 8, &slot_values);
    scratch.write(&mut world.pools, starts, 4, &start_values);
    scratch.write(&mut world.pools, accepted, 4, &accepted_values);

    let mut before = world.image();
    let ticket = launcher.stage(&world.pools.memory, &mut plan).unwrap();
    launcher.launch(&mut world.pools.memory).unwrap();
    let TicketState::Done(report) = launcher.state(ticket) else { panic!("it ran") };
    let mut left = world.image();
    let mut rows = 0;
    for (token, &slot) in slot_values.iter().enumerate() {
        let (page, row) = (slot as u32 / 4, slot as u32 % 4);
        let moves = world.row(page, pages - 1 - page, row);
        let mut copied = world.image();
        copied.apply(&moves);
        let claims = start_values.windows(2).zip(&accepted_values).any(|(pair, &accepted)| {
            (pair[0]..pair[1]).contains(&(token as i64)) && token as i64 - pair[0] < accepted
        });
        if copied.difference(&world.pools.memory, &world.pools.regions).is_none() {
            // Random rows are equal only where they were copied.
            assert!(claims, "token {token} belongs to no request");
            rows += 1;
            moves.iter().for_each(|row| left.restore(&mut before, row.to, row.bytes));
        }
    }
    assert_eq!(left.differs_from(&before), None, "nothing but rows of tokens was written");
    assert_eq!(report.rows, rows);
    let entries = start_values[requests as usize].clamp(0, i64::from(capacity)).min(slot_values.len() as i64);
    let clamped = u32::from(!(0..=i64::from(capacity)).contains(&start_values[requests as usize]));
    if slot_values.len() == capacity as usize {
        assert_eq!(i64::from(report.rows + report.skipped + report.bad - clamped), entries);
    }
}
