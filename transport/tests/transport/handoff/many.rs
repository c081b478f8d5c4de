//! Imports by the thousand, with every fault there is at random moments.

use std::cell::Cell;
use std::rc::Rc;

use pagelift_transport::consumer::ConsumerEvent;
use pagelift_transport::control::Message;

use super::pair::Pair;
use crate::engines::Outcomes;

/// What happens, from a seed.
#[derive(Clone)]
struct Random(Rc<Cell<u64>>);

impl Random {
    fn below(&self, limit: u64) -> u64 {
        let next =
            self.0.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0.set(next);
        (next >> 33) % limit
    }

    fn once_in(&self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// Messages are lost and doubled, each by its kind: an offer and a goodbye arrive, or nothing would.
fn faulty(random: &Random, on: &Rc<Cell<bool>>) -> Box<dyn FnMut(&Message) -> u32> {
    let (random, on) = (random.clone(), on.clone());
    Box::new(move |message| {
        let safe = matches!(message, Message::Offer { .. } | Message::Bye);
        match random.below(20) {
            0 if on.get() && !safe => 0,
            1 if on.get() && !safe => 2,
            _ => 1,
        }
    })
}

#[derive(Default, Debug)]
struct Happened {
    kills_of_p: u32,
    kills_of_d: u32,
    cuts: u32,
    cancels: u32,
    transports: u32,
}

/// So many imports, and then rest.
fn run(seed: u64, imports: u64) -> (Outcomes, Happened) {
    let (random, on) = (Random(Rc::new(Cell::new(seed))), Rc::new(Cell::new(true)));
    let mut pair = Pair::new();
    *pair.tap.copies.borrow_mut() = faulty(&random, &on);
    *pair.door.tap.copies.borrow_mut() = faulty(&random, &on);
    let (mut begun, mut happened, mut outcomes) = (0, Happened::default(), Outcomes::default());
    while begun < imports {
        if pair.p.is_none() && random.once_in(40) {
            pair.start_p();
        }
        // A lost connection is drained before there is another.
        let consumer = pair.consumer.as_ref().unwrap();
        let lost = consumer.over().is_some();
        if lost && consumer.in_flight() == 0 && pair.p.is_some() {
            pair.connect();
        } else if !lost && random.once_in(10) && pair.request(begun * 7 + random.below(3)).is_some() {
            begun += 1;
        }
        let node = &pair.d.node;
        let longest = if random.once_in(9) { 1500 } else { 30 };
        node.lasts.set((!random.once_in(20)).then(|| random.below(longest)));
        node.fails.set(random.once_in(40));
        node.stoppable.set(!random.once_in(2));
        node.notices.set(match random.below(20) {
            0 => 0,
            1 => 2,
            _ => 1,
        });
        match random.below(5000) {
            0 => {
                pair.kill_p();
                happened.kills_of_p += 1;
            }
            1 => {
                sum(&mut outcomes, &pair.decoder.outcomes);
                pair.restart_d();
                happened.kills_of_d += 1;
            }
            2 | 3 => {
                pair.tap.cut.set(true);
                happened.cuts += 1;
            }
            4..50 => {
                let reading = pair.decoder.reading();
                if let Some(id) = reading.get(random.below(4) as usize) {
                    pair.cancel(*id);
                    happened.cancels += 1;
                }
            }
            _ => {}
        }
        pair.pass(1);
        let stuck = pair.events.iter().any(|event| matches!(event, ConsumerEvent::Stuck { .. }));
        pair.events.clear();
        if stuck {
            pair.drop_transport();
            happened.transports += 1;
        }
    }
    on.set(false);
    pair.d.node.notices.set(1);
    if pair.p.is_none() {
        pair.start_p();
    }
    // All that is in flight ends, or is given up.
    pair.pass(4000);
    if pair.events.iter().any(|event| matches!(event, ConsumerEvent::Stuck { .. })) {
        pair.drop_transport();
        pair.pass(2000);
    }
    pair.assert_idle();
    // Both go on as if nothing had been.
    pair.connect();
    let node = &pair.d.node;
    node.lasts.set(Some(3));
    node.fails.set(false);
    let before = pair.decoder.outcomes.finished;
    for number in 0..20 {
        assert!(pair.request(1_000_000 + number).is_some());
        pair.pass(50);
    }
    assert_eq!(pair.decoder.outcomes.finished, before + 20);
    pair.assert_idle();
    sum(&mut outcomes, &pair.decoder.outcomes);
    (outcomes, happened)
}

fn sum(all: &mut Outcomes, own: &Outcomes) {
    all.finished += own.finished;
    all.failed += own.failed;
    all.aborted += own.aborted;
    all.published += own.published;
}

#[test]
fn case_23_a_thousand_imports_with_random_faults_leave_nothing_behind() {
    for seed in 1..4 {
        let (outcomes, happened) = run(seed, 1000);
        let Outcomes { finished, failed, aborted, published } = outcomes;
        assert!(finished > 300 && failed > 40 && aborted > 40 && published > 50, "{outcomes:?} {happened:?}");
        let Happened { kills_of_p, kills_of_d, cuts, cancels, transports } = happened;
        assert!(kills_of_p.min(kills_of_d).min(cuts) > 2 && cancels > 20 && transports > 0, "{happened:?}");
    }
}
