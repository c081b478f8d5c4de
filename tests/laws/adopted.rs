//! The law of adopted memory: kernels work in an engine's own memory, no byte of which is registered twice, and leave it
//! to the engine.

use pagelift::Error;
use pagelift::backends::Buffer;
use pagelift::error::MemoryError;
use pagelift::geometry::Memory;
use pagelift::launcher::{Launcher, Report, TicketState};
use pagelift::plan::RestorePlan;
use pagelift_cases::draw::Draw;
use pagelift_cases::lift::LiftCall;
use pagelift_cases::memory::{Image, Pools};
use pagelift_cases::shape::{Scale, Shape};
use pagelift_cases::tables::options;

use crate::backends::Subject;
use crate::lifts::ROOM;
use crate::world::World;

/// An engine's own memory, which a registry has adopted.
struct Own(*mut [u8]);

impl Own {
    fn new(bytes: u64) -> Self {
        Self(Box::into_raw(vec![0; bytes as usize].into_boxed_slice()))
    }

    /// Lends it to a registry.
    fn buffer(&self) -> Buffer {
        // SAFETY: (1) an engine drops its registry before what that adopted, and (2) nobody reads it before.
        unsafe { Buffer::adopt(self.0.cast(), self.0.len()) }.unwrap()
    }

    /// Its address and bytes, when no registry has it any more.
    fn read(&self, _gone: &Gone) -> (u64, Vec<u8>) {
        // SAFETY: it is ours again.
        (self.0.addr() as u64, unsafe { &*self.0 }.to_vec())
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // SAFETY: it came from a box, and goes once.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

/// Says that an engine's registry was dropped.
struct Gone(());

/// An engine that has its pools in memory of its own.
struct Engine {
    world: World,
    /// Dropped after the registry.
    own: Vec<Own>,
}

impl Engine {
    fn random(draw: &mut Draw, size: u32) -> Self {
        let shape = Shape::draw(draw, &Scale::in_memory(size));
        let mut own = Vec::new();
        let (model, pools) = Pools::placed(draw, &shape, |memory, arena| {
            own.push(Own::new(arena.bytes));
            memory.adopt(arena.memory, own.last().unwrap().buffer()).unwrap()
        });
        Self { world: World { pools, model }, own }
    }

    /// Drops the registry: what it had adopted is the engine's alone again.
    fn take_back(self) -> (Vec<Own>, Gone) {
        drop(self.world);
        (self.own, Gone(()))
    }
}

pub fn law<S: Subject>(seed: u64, size: u32) {
    let mut draw = Draw::seeded(seed);
    let backend = S::backend(draw.number());
    let mut engine = Engine::random(&mut draw, size);
    let world = &mut engine.world;
    let mut plan = RestorePlan::new(world.geometry(), ROOM).unwrap();
    let mut launcher = Launcher::bind(backend, &world.pools.memory, &mut plan, options(&mut draw)).unwrap();
    let mut expected = world.image();
    let mut free = world.free(&mut draw);
    for _ in 0..2 {
        let Some(prompt) = LiftCall::fitting(&mut draw, &world.model, &mut free) else { break };
        world.lift(&mut plan, &prompt);
        world.expect(&mut expected, &prompt);
    }
    let ticket = launcher.stage(&world.pools.memory, &mut plan).unwrap();
    overlaps_are_refused(&mut draw, world);
    launcher.launch(&mut world.pools.memory).unwrap();
    assert_eq!(launcher.state(ticket), TicketState::Done(Report::default()));
    world.assert_is(&expected);

    // A region that is released is still the engine's; the launcher has lost a pool.
    let id = world.pools.regions[draw.below(world.pools.regions.len() as u64) as usize];
    world.pools.memory.release(id).unwrap();
    let lost = launcher.launch(&mut world.pools.memory).unwrap_err();
    assert!(matches!(lost, Error::Memory(MemoryError::Unregistered { .. })), "{lost}");
    let (own, gone) = engine.take_back();
    let found = Image::from_parts(own.iter().map(|own| own.read(&gone)).collect());
    assert_eq!(expected.differs_from(&found), None);
}

/// Memory that shares a byte with what is registered is refused, wherever it begins and ends; its neighbours are not.
fn overlaps_are_refused(draw: &mut Draw, world: &mut World) {
    for &id in &world.pools.regions {
        let region = world.pools.memory.region(id).unwrap();
        let (start, end) = (region.address(), region.end().unwrap());
        let inside = start + draw.below(region.bytes());
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
            let memory = [Memory::Host, Memory::Device][draw.below(2) as usize];
            let error = world.pools.memory.adopt(memory, buffer).unwrap_err();
            assert!(matches!(error, Error::Memory(MemoryError::Overlaps { .. })), "{error}");
        }
        for at in [start, end] {
            let start = std::ptr::without_provenance_mut(at as usize);
            // SAFETY: (1, 2) there is no byte in it.
            let beside = unsafe { Buffer::adopt(start, 0) }.unwrap();
            let beside = world.pools.memory.adopt(Memory::Host, beside).unwrap();
            world.pools.memory.release(beside).unwrap();
        }
    }
}
