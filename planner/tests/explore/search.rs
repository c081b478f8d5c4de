//! Visits every state that can be reached, each once.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use crate::actions::Action;
use crate::laws;
use crate::world::World;

/// How a state was reached.
struct Trail {
    action: Action,
    before: Option<Rc<Trail>>,
}

/// Visits all states from `start` on, and returns how many there are, and of these how many are at rest: nothing can
/// happen there any more. Panics where a law is broken, and says how that state is reached.
pub fn all_states(name: &str, start: World<'_>, most: usize) -> (usize, usize) {
    let mut seen = HashSet::from([start.fingerprint()]);
    let mut rests = 0;
    let mut open = vec![(start, None::<Rc<Trail>>)];
    while let Some((world, trail)) = open.pop() {
        let mut at_rest = true;
        for action in world.actions() {
            let mut next = world.clone();
            let trail = Rc::new(Trail { action, before: trail.clone() });
            let tried = catch_unwind(AssertUnwindSafe(|| {
                let possible = next.act(action);
                let fresh = possible && seen.insert(next.fingerprint());
                if fresh {
                    laws::check(&next);
                }
                (possible, fresh)
            }));
            match tried {
                Ok((possible, fresh)) => {
                    at_rest &= !possible;
                    if fresh {
                        assert!(seen.len() <= most, "`{name}` has more than {most} states");
                        open.push((next, Some(trail)));
                    }
                }
                Err(panic) => {
                    explain(name, &trail);
                    resume_unwind(panic);
                }
            }
        }
        if at_rest {
            rests += 1;
            at_the_end(&world);
        }
    }
    println!("{name}: {} states, {rests} of them at rest", seen.len());
    (seen.len(), rests)
}

/// Where nothing can happen any more, nobody is left, and everything is free.
fn at_the_end(world: &World<'_>) {
    let options = world.life.options();
    assert_eq!(world.life.requests().count(), 0, "a request is left, and nothing can happen: {world:#?}");
    assert_eq!(world.life.free_pages(), options.pages as usize, "I3: pages at the end");
    assert_eq!(world.life.available_blocks(), options.blocks as usize, "I3: blocks at the end");
}

fn explain(name: &str, trail: &Rc<Trail>) {
    let mut actions = Vec::new();
    let mut at = Some(trail);
    while let Some(step) = at {
        actions.push(step.action);
        at = step.before.as_ref();
    }
    eprintln!("`{name}` breaks a law after:");
    actions.iter().rev().for_each(|action| eprintln!("    {action:?}"));
}
