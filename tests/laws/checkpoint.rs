//! The checkpoint law: state pages go to their host blocks whole, and nothing else changes.

use std::sync::Arc;

use pagelift::id::{HostBlockId, PageId};
use pagelift::launcher::{Launcher, Report, TicketState};
use pagelift::plan::{Plan as _, WriteBackPlan};
use pagelift::quantity::Bytes;

use crate::backends::Subject;
use crate::restore::{ROOM, options};
use crate::rng::Rng;
use crate::world::{Key, World};

pub fn law<S: Subject>(seed: u64, size: u32) {
    let mut rng = Rng(seed);
    let backend = S::backend(rng.next());
    // A world without a state has nothing to checkpoint.
    let mut world = loop {
        let world = World::random(&mut rng, size, &backend);
        if world.groups.iter().any(|group| matches!(group.key, Key::State(_))) {
            break world;
        }
    };
    let mut plan = WriteBackPlan::new(Arc::clone(&world.geometry), ROOM).unwrap();
    let mut launcher = Launcher::bind(backend, &world.memory, &mut plan, options(&mut rng)).unwrap();
    for _ in 0..2 {
        plan.clear();
        let mut expected = world.image();
        let mut free = world.free_ids(&mut rng);
        let mut bytes = 0;
        for _ in 0..rng.below(6) {
            let group = &world.groups[rng.below(world.groups.len() as u64) as usize];
            let Key::State(key) = group.key else { continue };
            let page = free[group.device.pool.get() as usize].pop();
            let Some((page, block)) = page.zip(free[group.host.pool.get() as usize].pop()) else { break };
            plan.checkpoint(key, PageId::new(page), HostBlockId::new(block)).unwrap();
            bytes += group.copy_row(&mut expected, true, block, page, 0);
        }
        assert_eq!(plan.bytes(), Some(Bytes::new(bytes)));
        let ticket = launcher.stage(&world.memory, &mut plan).unwrap();
        launcher.launch(&mut world.memory).unwrap();
        assert_eq!(launcher.state(ticket), TicketState::Done(Report::default()));
        world.assert_is(&expected);
        world.fill(&mut rng);
    }
}
