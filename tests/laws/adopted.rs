//! The law of adopted memory: kernels work in an engine's own memory, no byte of which is registered twice, and leave it
//! to the engine.

use std::sync::Arc;

use pagelift::Error;
use pagelift::backends::Buffer;
use pagelift::error::MemoryError;
use pagelift::geometry::Memory;
use pagelift::launcher::{Launcher, Report, TicketState};
use pagelift::plan::RestorePlan;

use crate::backends::Subject;
use crate::image::Image;
use crate::restore::{Prompt, ROOM, options};
use crate::rng::Rng;
use crate::world::World;

pub fn law<S: Subject>(seed: u64, size: u32) {
    let mut rng = Rng(seed);
    let backend = S::backend(rng.next());
    let mut world = World::adopted(&mut rng, size, &backend);
    assert_eq!(world.own.len(), world.regions.len());
    let mut plan = RestorePlan::new(Arc::clone(&world.geometry), ROOM).unwrap();
    let mut launcher = Launcher::bind(backend, &world.memory, &mut plan, options(&mut rng)).unwrap();
    let mut expected = world.image();
    let mut free = world.free_ids(&mut rng);
    for _ in 0..2 {
        let Some(prompt) = Prompt::random(&mut rng, &world, &mut free) else { break };
        prompt.lift(&world, &mut plan);
        prompt.expect(&world, &mut expected);
    }
    let ticket = launcher.stage(&world.memory, &mut plan).unwrap();
    overlaps_are_refused(&mut rng, &mut world);
    launcher.launch(&mut world.memory).unwrap();
    assert_eq!(launcher.state(ticket), TicketState::Done(Report::default()));
    world.assert_is(&expected);

    // A region that is released is still the engine's; the launcher has lost a pool.
    let id = world.regions[rng.below(world.regions.len() as u64) as usize];
    world.memory.release(id).unwrap();
    let lost = launcher.launch(&mut world.memory).unwrap_err();
    assert!(matches!(lost, Error::Memory(MemoryError::Unregistered { .. })), "{lost}");
    let (own, gone) = world.take_back();
    let found = Image::from_parts(own.iter().map(|own| own.read(&gone)).collect());
    assert_eq!(expected.differs_from(&found), None);
}

/// Memory that shares a byte with what is registered is refused, wherever it begins and ends; its neighbours are not.
fn overlaps_are_refused(rng: &mut Rng, world: &mut World) {
    for &id in &world.regions {
        let region = world.memory.region(id).unwrap();
        let (start, end) = (region.address(), region.end().unwrap());
        let inside = start + rng.below(region.bytes());
        let ranges = [
            (start, end),
            (start - 9, start + 1),
            (end - 1, end + 9),
            (start - 9, end + 9),
            (inside, inside + 1),
        ];
        for (from, to) in ranges {
            let start = std::ptr::without_provenance_mut(from as usize);
            // SAFETY: (1, 2) it is refused, and nobody looks into it.
            let buffer = unsafe { Buffer::adopt(start, (to - from) as usize) }.unwrap();
            let memory = [Memory::Host, Memory::Device][rng.below(2) as usize];
            let error = world.memory.adopt(memory, buffer).unwrap_err();
            assert!(matches!(error, Error::Memory(MemoryError::Overlaps { .. })), "{error}");
        }
        for at in [start, end] {
            let start = std::ptr::without_provenance_mut(at as usize);
            // SAFETY: (1, 2) there is no byte in it.
            let beside = unsafe { Buffer::adopt(start, 0) }.unwrap();
            let beside = world.memory.adopt(Memory::Host, beside).unwrap();
            world.memory.release(beside).unwrap();
        }
    }
}
