//! The comparison itself: one wrong byte, wherever it is, is noticed.

use pagelift::launcher::{Launcher, LauncherOptions};
use pagelift::plan::{RestorePlan, TailRows};
use pagelift_cases::draw::Draw;
use pagelift_cases::lift::LiftCall;

use crate::backends::Subject;
use crate::lifts::{ROOM, simple};
use crate::world::World;

pub fn a_wrong_byte_is_noticed<S: Subject>(seed: u64, size: u32) {
    let mut draw = Draw::seeded(seed);
    let backend = S::backend(draw.number());
    let mut world = World::random(&mut draw, size, &backend);
    let mut plan = RestorePlan::new(world.geometry(), ROOM).unwrap();
    let mut launcher =
        Launcher::bind(backend, &world.pools.memory, &mut plan, LauncherOptions::default()).unwrap();
    let mut expected = world.image();
    let mut free = world.free(&mut draw);
    if let Some(prompt) = LiftCall::fitting(&mut draw, &world.model, &mut free) {
        world.lift(&mut plan, &prompt);
        world.expect(&mut expected, &prompt);
    }
    launcher.stage(&world.pools.memory, &mut plan).unwrap();
    launcher.launch(&mut world.pools.memory).unwrap();
    world.assert_is(&expected);

    let last = expected.bytes() - 1;
    let inside: Vec<usize> = (0..6).map(|_| draw.below(last as u64) as usize).collect();
    for index in inside.into_iter().chain([0, last]) {
        let bit = 1 << draw.small(8);
        *expected.byte(index) ^= bit;
        assert!(
            expected.difference(&world.pools.memory, &world.pools.regions).is_some(),
            "byte {index} of the expectation"
        );
        *expected.byte(index) ^= bit;
    }
    for id in world.pools.regions.clone() {
        let bytes = world.pools.memory.region(id).unwrap().bytes() as usize;
        for index in [0, draw.below(bytes as u64) as usize, bytes - 1] {
            let at = world.pools.memory.region(id).unwrap().address() + index as u64;
            world.edit(at, 1, |byte| byte[0] ^= 1);
            assert!(
                expected.difference(&world.pools.memory, &world.pools.regions).is_some(),
                "byte {index} of {id:?}"
            );
            world.edit(at, 1, |byte| byte[0] ^= 1);
        }
    }
    world.assert_is(&expected);
}

/// A reference that is wrong in one number is noticed too: the wrong block, page, row count or mode.
pub fn a_wrong_reference_is_noticed<S: Subject>() {
    let backend = S::backend(3);
    let mut world = World::small(&backend);
    let mut plan = RestorePlan::new(world.geometry(), ROOM).unwrap();
    let mut launcher =
        Launcher::bind(backend, &world.pools.memory, &mut plan, LauncherOptions::default()).unwrap();
    let right = || simple(6, &[2, 1], 0, TailRows::Exact);
    let wrong = [
        simple(6, &[2, 0], 0, TailRows::Exact),
        simple(6, &[1, 2], 0, TailRows::Exact),
        simple(6, &[2, 1], 1, TailRows::Exact),
        simple(5, &[2, 1], 0, TailRows::Exact),
        simple(7, &[2, 1], 0, TailRows::Exact),
        simple(6, &[2, 1], 0, TailRows::Whole),
        simple(6, &[2, 1], 0, TailRows::ExactZeroed),
    ];
    let mut expected = world.image();
    let mut others = wrong.map(|prompt| {
        let mut image = world.image();
        world.expect(&mut image, &prompt);
        image
    });
    world.expect(&mut expected, &right());
    world.lift(&mut plan, &right());
    launcher.stage(&world.pools.memory, &mut plan).unwrap();
    launcher.launch(&mut world.pools.memory).unwrap();
    world.assert_is(&expected);
    for (number, other) in others.iter_mut().enumerate() {
        assert!(
            other.difference(&world.pools.memory, &world.pools.regions).is_some(),
            "wrong reference {number}"
        );
    }
}
