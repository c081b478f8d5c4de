//! A whole case of planning: a geometry and a sequence of calls, each of which is compared with the model.

use pagelift_planner::plan::{DeviceToDevice, DeviceToHost, HostToDevice, PlanCapacity, RowCapacity};

use crate::digests::{DigestCall, DigestSession};
use crate::draw::Draw;
use crate::ids::Free;
use crate::lift::LiftCall;
use crate::pages::{Call, Calls, Session, lift_in_parts};
use crate::reserved;
use crate::rows::{Binds, RowCall, RowSession};
use crate::shape::{Scale, Shape};
use crate::world::World;

/// The most calls of a case.
const MOST_CALLS: u32 = 40;

/// Plays a case, and panics where a plan does what the model does not.
pub fn run(draw: &mut Draw) {
    let kind = draw.below(9);
    let size = 1 + draw.small(5);
    let shape = Shape::draw(draw, &Scale::planned(size));
    let addresses = shape.nowhere();
    let (world, stranger) = (shape.build(&addresses), shape.build(&addresses));
    match kind {
        0 | 1 => pages::<HostToDevice>(draw, &world, &stranger),
        2 => pages::<DeviceToHost>(draw, &world, &stranger),
        3 => pages::<DeviceToDevice>(draw, &world, &stranger),
        4 => rows::<DeviceToHost>(draw, &world, &stranger),
        5 if draw.once_in(2) => rows::<HostToDevice>(draw, &world, &stranger),
        5 => rows::<DeviceToDevice>(draw, &world, &stranger),
        6 => digests(draw, &world, &stranger),
        7 => reserved::run(draw, &world),
        _ => parts(draw, &world),
    }
}

/// How many calls follow: as many as there are choices left for, where these end.
fn more(draw: &Draw, calls: u32) -> bool {
    calls < MOST_CALLS && !draw.is_exhausted()
}

/// Calls to a page plan, which is cleared once in a while.
pub fn pages<D: Calls>(draw: &mut Draw, world: &World, stranger: &World) {
    let capacity = match draw.once_in(2) {
        true => PlanCapacity { jobs: draw.small(12), list_entries: draw.small(24) },
        false => PlanCapacity { jobs: 64, list_entries: 96 },
    };
    let mut session = Session::<D>::new(world, capacity);
    let mut free = Free::all(draw, world);
    let mut calls = 0;
    while more(draw, calls) {
        let call = Call::draw::<D>(draw, world, &mut free);
        match draw.below(16) {
            14 => session.call_foreign(stranger, &call),
            15 => {
                session.clear();
                free = Free::all(draw, world);
            }
            _ => drop(session.call(call)),
        }
        calls += 1;
    }
}

/// Calls to a row plan, which is staged, and whose bindings are cleared, once in a while.
pub fn rows<D: Binds>(draw: &mut Draw, world: &World, stranger: &World) {
    let capacity = RowCapacity { jobs: draw.small(6), changes: draw.small(12) };
    let mut session = RowSession::<D>::new(world, capacity);
    let mut calls = 0;
    while more(draw, calls) {
        let Some(call) = RowCall::draw::<D>(draw, world) else { break };
        match draw.below(16) {
            12 => session.call_foreign(stranger, &call),
            13 => session.clear_bindings(),
            14 | 15 => session.staged(),
            _ => drop(session.call(&call)),
        }
        calls += 1;
    }
}

/// Calls to a digest plan.
pub fn digests(draw: &mut Draw, world: &World, stranger: &World) {
    let capacity = PlanCapacity { jobs: draw.small(12), list_entries: draw.small(24) };
    let mut session = DigestSession::new(world, capacity);
    let mut calls = 0;
    while more(draw, calls) {
        let call = DigestCall::draw(draw, world);
        match draw.once_in(16) {
            true => session.call_foreign(stranger, &call),
            false => drop(session.call(&call)),
        }
        calls += 1;
    }
}

/// Imports that are lifted over several plans.
pub fn parts(draw: &mut Draw, world: &World) {
    let mut free = Free::all(draw, world);
    for _ in 0..3 {
        let Some(mut call) = LiftCall::fitting(draw, world, &mut free) else { break };
        if draw.once_in(4) {
            call.spoil(draw, world);
        }
        lift_in_parts(draw, world, &call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_cases_are_as_the_model_says() {
        for seed in 0..400 {
            run(&mut Draw::seeded(seed));
        }
    }

    #[test]
    fn a_case_without_choices_ends() {
        for kind in 0..9 {
            run(&mut Draw::from_bytes(&[kind]));
        }
    }
}
