//! The comparison itself: one wrong byte, wherever it is, is noticed.

use std::sync::Arc;

use pagelift::launcher::{Launcher, LauncherOptions};
use pagelift::plan::{RestorePlan, TailRows};

use crate::backends::Subject;
use crate::restore::{Prompt, ROOM};
use crate::rng::Rng;
use crate::world::World;

pub fn a_wrong_byte_is_noticed<S: Subject>(seed: u64, size: u32) {
    let mut rng = Rng(seed);
    let backend = S::backend(rng.next());
    let mut world = World::random(&mut rng, size, &backend);
    let mut plan = RestorePlan::new(Arc::clone(&world.geometry), ROOM).unwrap();
    let mut launcher = Launcher::bind(backend, &world.memory, &mut plan, LauncherOptions::default()).unwrap();
    let mut expected = world.image();
    let mut free = world.free_ids(&mut rng);
    if let Some(prompt) = Prompt::random(&mut rng, &world, &mut free) {
        prompt.lift(&world, &mut plan);
        prompt.expect(&world, &mut expected);
    }
    launcher.stage(&world.memory, &mut plan).unwrap();
    launcher.launch(&mut world.memory).unwrap();
    world.assert_is(&expected);

    let last = expected.len() - 1;
    let inside: Vec<usize> = (0..6).map(|_| rng.below(last as u64) as usize).collect();
    for index in inside.into_iter().chain([0, last]) {
        let bit = 1 << rng.small(8);
        *expected.byte(index) ^= bit;
        assert!(
            expected.difference(&world.memory, &world.regions).is_some(),
            "byte {index} of the expectation"
        );
        *expected.byte(index) ^= bit;
    }
    for id in world.regions.clone() {
        let bytes = world.memory.region(id).unwrap().bytes() as usize;
        for index in [0, rng.below(bytes as u64) as usize, bytes - 1] {
            let at = world.memory.region(id).unwrap().address() + index as u64;
            world.edit(at, 1, |byte| byte[0] ^= 1);
            assert!(expected.difference(&world.memory, &world.regions).is_some(), "byte {index} of {id:?}");
            world.edit(at, 1, |byte| byte[0] ^= 1);
        }
    }
    world.assert_is(&expected);
}

/// A reference that is wrong in one number is noticed too: the wrong block, page, row count or mode.
pub fn a_wrong_reference_is_noticed<S: Subject>() {
    let backend = S::backend(3);
    let mut world = World::small(&backend);
    let mut plan = RestorePlan::new(Arc::clone(&world.geometry), ROOM).unwrap();
    let mut launcher = Launcher::bind(backend, &world.memory, &mut plan, LauncherOptions::default()).unwrap();
    let right = || Prompt::simple(6, &[2, 1], 0, TailRows::Exact);
    let wrong = [
        Prompt::simple(6, &[2, 0], 0, TailRows::Exact),
        Prompt::simple(6, &[1, 2], 0, TailRows::Exact),
        Prompt::simple(6, &[2, 1], 1, TailRows::Exact),
        Prompt::simple(5, &[2, 1], 0, TailRows::Exact),
        Prompt::simple(7, &[2, 1], 0, TailRows::Exact),
        Prompt::simple(6, &[2, 1], 0, TailRows::Whole),
        Prompt::simple(6, &[2, 1], 0, TailRows::ExactZeroed),
    ];
    let mut expected = world.image();
    let mut others = wrong.map(|prompt| {
        let mut image = world.image();
        prompt.expect(&world, &mut image);
        image
    });
    right().expect(&world, &mut expected);
    right().lift(&world, &mut plan);
    launcher.stage(&world.memory, &mut plan).unwrap();
    launcher.launch(&mut world.memory).unwrap();
    world.assert_is(&expected);
    for (number, other) in others.iter_mut().enumerate() {
        assert!(other.difference(&world.memory, &world.regions).is_some(), "wrong reference {number}");
    }
}
