//! Imports that are reserved, lifted and released, beside a plan that is made from their lists.

use std::collections::HashMap;
use std::sync::Arc;

use pagelift_planner::error::PlanError;
use pagelift_planner::id::ImportId;
use pagelift_planner::lifecycle::Reservations;
use pagelift_planner::plan::{HostToDevice, PlanCapacity, RestorePlan};

use crate::draw::Draw;
use crate::effect::Use;
use crate::encoded;
use crate::ids::Free;
use crate::lift::LiftCall;
use crate::pages::Call;
use crate::world::World;

const CAPACITY: PlanCapacity = PlanCapacity { jobs: 256, list_entries: 1024 };
const IMPORTS: usize = 6;

/// Who holds a block, of which group, and how.
type Holder = (ImportId, usize, Use);

/// What is reserved, by the model.
#[derive(Default)]
struct Held {
    imports: Vec<(ImportId, LiftCall)>,
    /// By the pool's place and the block's number.
    blocks: HashMap<(usize, u32), Vec<Holder>>,
}

impl Held {
    /// Whether an import may hold what it needs beside those that are there.
    fn admits(&self, world: &World, call: &LiftCall) -> bool {
        let Ok(effect) = call.effect(world) else { return false };
        let apart = effect.blocks().iter().all(|(block, (group, usage))| {
            self.blocks
                .get(block)
                .into_iter()
                .flatten()
                .all(|(_, other, theirs)| other == group && *usage != Use::Write && *theirs != Use::Write)
        });
        apart && self.imports.len() < IMPORTS
    }

    fn add(&mut self, world: &World, id: ImportId, call: LiftCall) {
        for (block, (group, usage)) in call.effect(world).unwrap().blocks() {
            self.blocks.entry(block).or_default().push((id, group, usage));
        }
        self.imports.push((id, call));
    }

    /// A page of an import, of a group.
    fn page(&self, draw: &mut Draw, group: usize) -> Option<u32> {
        let lists = self.imports.iter().flat_map(|(_, call)| &call.lists);
        let pages = lists.filter(|lists| lists.group == group).flat_map(|lists| &lists.pages);
        let pages: Vec<u32> = pages.copied().collect();
        (!pages.is_empty()).then(|| draw.pick(&pages))
    }

    fn remove(&mut self, at: usize) -> (ImportId, LiftCall) {
        let (id, call) = self.imports.swap_remove(at);
        self.blocks.values_mut().for_each(|holders| holders.retain(|(holder, ..)| *holder != id));
        (id, call)
    }
}

/// Two plans of the same work: one of reserved imports, one from lists alone.
struct Plans {
    reserved: RestorePlan,
    listed: RestorePlan,
}

impl Plans {
    fn new(world: &World) -> Self {
        let plan = || RestorePlan::new(Arc::clone(&world.geometry), CAPACITY).unwrap();
        Self { reserved: plan(), listed: plan() }
    }

    /// Makes a call on both. Says whether the case goes on: the plan of lists also knows blocks that are only held, so it
    /// may find one of two groups where the other cannot.
    fn both(
        &mut self,
        reserved: impl FnOnce(&mut RestorePlan) -> Result<(), PlanError>,
        listed: impl FnOnce(&mut RestorePlan) -> Result<(), PlanError>,
    ) -> bool {
        let before = encoded(&self.reserved);
        let results = [reserved(&mut self.reserved), listed(&mut self.listed)];
        if results[0].is_err() {
            assert_eq!(encoded(&self.reserved), before, "a refused call changed the plan");
        }
        if let [Ok(()), Err(PlanError::BlockOfTwoGroups { .. })] = results {
            return false;
        }
        assert_eq!(results[0].is_ok(), results[1].is_ok(), "{results:?}");
        assert_eq!(encoded(&self.reserved), encoded(&self.listed));
        true
    }
}

/// Plays a case.
pub fn run(draw: &mut Draw, world: &World) {
    let mut reservations = Reservations::new(Arc::clone(&world.geometry), IMPORTS as u32, CAPACITY).unwrap();
    let mut others = Reservations::new(Arc::clone(&world.geometry), 1, CAPACITY).unwrap();
    let (mut held, mut plans) = (Held::default(), Plans::new(world));
    let mut free = Free::all(draw, world);
    for _ in 0..24 {
        if draw.is_exhausted() {
            break;
        }
        let goes_on = match draw.below(12) {
            0..4 => {
                reserve(draw, world, &mut reservations, &mut held, &mut free);
                true
            }
            4..8 if !held.imports.is_empty() => {
                let (id, call) = &held.imports[draw.below(held.imports.len() as u64) as usize];
                plans.both(
                    |plan| plan.lift_reserved(&reservations, *id),
                    |plan| call.with(world, |import| plan.lift(import, call.mode)),
                )
            }
            8 if !held.imports.is_empty() => {
                let (id, call) = held.remove(draw.below(held.imports.len() as u64) as usize);
                reservations.release(id).unwrap();
                // Other imports get its blocks, while the plan may still lift it.
                for lists in &call.lists {
                    let group = &world.groups[lists.group];
                    free.give_back(&group.host, &lists.blocks);
                    free.give_back(&group.device, &lists.pages);
                }
                assert_eq!(reservations.release(id), Err(PlanError::UnknownImport { import: id }));
                true
            }
            9 => {
                plans.reserved.clear();
                plans.listed.clear();
                true
            }
            10 => {
                let mut call = Call::draw::<HostToDevice>(draw, world, &mut free);
                if let Call::Zero { way, block, .. } = &mut call
                    && let Some(page) = held.page(draw, world.down.whole[*way].to.group)
                {
                    *block = page;
                }
                plans.both(|plan| call.make(world, plan), |plan| call.make(world, plan))
            }
            _ => match partly_held(draw, world, &held, &mut free) {
                Some(call) => foreign(draw, world, &mut others, &mut plans, &held, &call),
                None => true,
            },
        };
        assert_eq!(reservations.len(), held.imports.len());
        if !goes_on {
            break;
        }
    }
    // Whatever happened, nothing is held once all are released.
    let imports: Vec<ImportId> = held.imports.iter().map(|(id, _)| *id).collect();
    imports.into_iter().for_each(|id| reservations.release(id).unwrap());
    assert!(reservations.is_empty());
    let mut all = Free::all(draw, world);
    if let Some(call) = LiftCall::fitting(draw, world, &mut all) {
        call.with(world, |import| reservations.reserve(import, call.mode)).expect("all blocks are free");
    }
}

fn reserve(
    draw: &mut Draw,
    world: &World,
    reservations: &mut Reservations,
    held: &mut Held,
    free: &mut Free,
) {
    let again = held.imports.first().filter(|_| draw.once_in(4)).map(|(_, call)| call.clone());
    let Some(mut call) = again.or_else(|| LiftCall::fitting(draw, world, free)) else { return };
    if draw.once_in(3) {
        call.spoil(draw, world);
    }
    // That its own lists fit each other is a plan's affair, and tested there.
    let mut alone = RestorePlan::new(Arc::clone(&world.geometry), CAPACITY).unwrap();
    let sound = call.with(world, |import| alone.lift(import, call.mode)).is_ok();
    let expected = sound && held.admits(world, &call);
    let result = call.with(world, |import| reservations.reserve(import, call.mode));
    assert_eq!(result.is_ok(), expected, "{result:?}: {call:?}");
    if let Ok(id) = result {
        assert!(reservations.contains(id));
        held.add(world, id, call);
    }
}

/// An import that shares blocks and pages of some groups with one that is reserved.
fn partly_held(draw: &mut Draw, world: &World, held: &Held, free: &mut Free) -> Option<LiftCall> {
    let (_, mut call) = held.imports.first()?.clone();
    for lists in &mut call.lists {
        let group = &world.groups[lists.group];
        if draw.once_in(2) {
            lists.blocks = free.take(&group.host, lists.blocks.len()).unwrap_or(lists.blocks.clone());
            lists.pages = free.take(&group.device, lists.pages.len()).unwrap_or(lists.pages.clone());
        }
    }
    Some(call)
}

/// An import that the reservations do not know: lifted from its lists, or reserved elsewhere.
fn foreign(
    draw: &mut Draw,
    world: &World,
    others: &mut Reservations,
    plans: &mut Plans,
    held: &Held,
    call: &LiftCall,
) -> bool {
    let lift = |plan: &mut RestorePlan| call.with(world, |import| plan.lift(import, call.mode));
    if draw.once_in(2) {
        return plans.both(lift, lift);
    }
    let Ok(id) = call.with(world, |import| others.reserve(import, call.mode)) else { return true };
    for (import, _) in &held.imports {
        assert!(!others.contains(*import), "another's import is known");
    }
    let goes_on = plans.both(|plan| plan.lift_reserved(others, id), lift);
    others.release(id).unwrap();
    goes_on
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::{Scale, Shape};

    #[test]
    fn reserved_imports_plan_what_their_lists_plan() {
        for seed in 0..600 {
            let mut draw = Draw::seeded(seed);
            let size = 1 + draw.small(5);
            let shape = Shape::draw(&mut draw, &Scale::planned(size));
            run(&mut draw, &shape.build(&shape.nowhere()));
        }
    }
}
