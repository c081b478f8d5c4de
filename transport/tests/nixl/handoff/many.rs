//! Imports by the thousand, with faults at random moments.

use std::time::{Duration, Instant};

use pagelift_transport::consumer::ConsumerEvent;
use pagelift_transport::control::Message;

use super::Process;
use super::decode::{Decode, Prefill};
use crate::engines::Outcomes;

const IMPORTS: u64 = 1000;

/// When P is killed, and another takes its place.
const KILLS: [u64; 4] = [50, 150, 400, 600];

struct Random(u64);

impl Random {
    const fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

#[test]
fn case_23_a_thousand_imports_with_random_faults_leave_nothing_behind() {
    let mut prefill = Prefill::start();
    let mut decode = Decode::new(&prefill, Duration::from_millis(1500));
    let mut of_messages = Random(7);
    *decode.knobs.copies.borrow_mut() = Box::new(move |message| {
        match (of_messages.below(40), matches!(message, Message::Offer { .. } | Message::Bye)) {
            (0, false) => 0,
            (1, false) => 2,
            _ => 1,
        }
    });
    let (mut random, mut begun) = (Random(11), 0);
    let (mut kills, mut early) = (KILLS.iter().peekable(), None);
    let (mut held_until, start) = (Instant::now(), Instant::now());
    while begun < IMPORTS {
        if kills.next_if(|at| begun >= **at).is_some() {
            // It is gone in the middle of whatever is in flight.
            prefill.child.kill().unwrap();
            prefill.child.wait().unwrap();
            prefill = Prefill::start();
        }
        if begun >= IMPORTS / 5 && early.is_none() {
            early = Some(Process::own());
        }
        let consumer = decode.consumer.as_ref().unwrap();
        match (consumer.over().is_some(), consumer.in_flight()) {
            (true, 0) => decode.connect(&prefill),
            (true, _) => {}
            (false, _) => {
                begun += u64::from(decode.request(begun * 5 + random.below(3)).is_some());
            }
        }
        if random.below(400) == 0 {
            held_until = Instant::now() + Duration::from_millis(random.below(60));
        }
        decode.knobs.hold.set(Instant::now() < held_until);
        decode.knobs.notices.set(match random.below(200) {
            0 => 0,
            1..5 => 2,
            _ => 1,
        });
        if random.below(500) == 0
            && let Some(id) = decode.decoder.reading().first()
        {
            decode.cancel(*id);
        }
        decode.poll();
        if decode.events.iter().any(|event| matches!(event, ConsumerEvent::Stuck { .. })) {
            decode.drop_transport();
            decode.connect(&prefill);
        }
        decode.events.clear();
        std::thread::sleep(Duration::from_micros(100));
    }
    decode.knobs.hold.set(false);
    decode.knobs.notices.set(1);
    *decode.knobs.copies.borrow_mut() = Box::new(|_| 1);
    let report = decode.rest(&mut prefill);
    let (early, late) = (early.unwrap(), Process::own());
    let Outcomes { finished, failed, aborted, .. } = decode.decoder.outcomes;
    eprintln!(
        "{:?}, {:?}, {early:?} {late:?}, P: {:?}",
        start.elapsed(),
        decode.decoder.outcomes,
        report.process
    );
    assert_eq!(u64::from(finished + failed + aborted), IMPORTS);
    assert!(finished > 300 && failed > 0 && aborted > 10, "{:?}", decode.decoder.outcomes);
    assert!(late.files <= early.files + 4, "{early:?} {late:?}");
    assert!(late.kib <= early.kib + (8 << 10), "{early:?} {late:?}");
    drop(decode);
    prefill.finish();
}
