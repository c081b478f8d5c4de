//! Engines poll in every step, and in most of them nothing comes: such a poll allocates nothing.

use allocation_counter::measure;

use super::*;

/// What so many polls of both ends allocate, while no time passes and nothing comes.
fn allocated(world: &mut World) -> u64 {
    let (seen, heard) = (world.seen.len(), world.events.len());
    let now = world.now();
    let (producer, consumer) = (world.producer.as_mut().unwrap(), world.consumer.as_mut().unwrap());
    let allocated = measure(|| {
        for _ in 0..100 {
            world.seen.extend(producer.poll(|| now, &mut world.engine).unwrap());
            world.events.extend(consumer.poll(|| now, &mut &*world.d.node));
        }
    });
    assert_eq!((world.seen.len(), world.events.len()), (seen, heard));
    allocated.count_total
}

#[test]
fn polls_of_which_nothing_comes_allocate_nothing() {
    let mut world = World::new();
    world.pass(20);
    assert!(world.consumer.as_ref().unwrap().is_paired());
    assert_eq!(allocated(&mut world), 0, "with nothing to do");

    world.engine.answers.extend(std::iter::repeat_with(|| Answer::NotYet).take(300));
    world.begin(1);
    world.pass(20);
    assert!(world.engine.answers.len() < 300);
    assert_eq!(allocated(&mut world), 0, "while the prompt is computed");

    world.engine.answers.clear();
    world.d.node.lasts.set(None);
    world.pass(20);
    assert!(world.held() == 1 && world.d.node.in_flight.get() > 0);
    assert_eq!(allocated(&mut world), 0, "while reads are in flight");
}
