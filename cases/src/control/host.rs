//! Whoever knows the secret, and says nonsense to D in P's place.

use std::time::Duration;

use pagelift_planner::quantity::Tokens;
use pagelift_transport::consumer::{Consumer, ConsumerEvent, ConsumerOptions, End, Wanted};
use pagelift_transport::control::{Message, Role};
use pagelift_transport::notice::ExportId;
use pagelift_transport::plan::{BlockTables, ReadLimits};

use super::forged::Forged;
use super::pipe::{link, pipe};
use super::said::{content, granted, message};
use super::world::{Carrier, IMPORTED, INCARNATION, Within, at, offers, tables};
use crate::draw::Draw;

pub(super) fn run(draw: &mut Draw) {
    let [theirs, ours] = offers();
    let milliseconds = Duration::from_millis;
    let options = ConsumerOptions {
        read_limits: ReadLimits { most_bytes: 1 + draw.below(0x100), ..ReadLimits::default() },
        greeting_timeout: milliseconds(50),
        grant_timeout: milliseconds(200),
        read_timeout: milliseconds(150),
        stop_timeout: milliseconds(50),
        presence_interval: milliseconds(20),
        ..ConsumerOptions::default()
    };
    let carrier = Carrier::default();
    carrier.takes(1 + draw.small(0x100));
    let [end, other] = pipe();
    let mut forged = Forged::new(other, Role::Producer);
    let wire = link(end, Role::Consumer, [0; 32]);
    let mut consumer: Consumer<Carrier, _, u32> =
        Consumer::new(carrier.clone(), wire, ours.clone(), options, at(0)).expect("it is new");
    let (mut now, mut begun, mut ended) = (0, 0, Vec::new());
    let mut pass = |consumer: &mut Consumer<_, _, u32>, milliseconds: u64| {
        for _ in 0..milliseconds {
            now += 1;
            for event in consumer.poll(|| at(now), &mut Within(ours)) {
                if let ConsumerEvent::Ended { id, end } = event {
                    ended.push((id, end));
                }
            }
        }
    };
    pass(&mut consumer, 1);
    let with_sense = |message: &Message| serde_json::to_vec(message).expect("messages are JSON");
    if !draw.once_in(8) {
        forged.say(&with_sense(&Message::Hello));
    }
    let offer = Message::Offer { offer: Box::new(theirs.clone()), metadata: b"peer".to_vec() };
    let first = if draw.once_in(3) { content(draw, &offer) } else { with_sense(&offer) };
    forged.say(&first);
    let mut exports = 0;
    for _ in 0..draw.below(10) {
        if draw.once_in(2) && begun < 4 {
            let blocks = if draw.once_in(6) { BlockTables::new() } else { tables() };
            let wanted =
                Wanted { request: begun.into(), imported: Tokens::new(IMPORTED), blocks, awaited: true };
            begun += u32::from(consumer.begin(begun, wanted).is_ok());
        }
        pass(&mut consumer, 1 + draw.below(30));
        for heard in forged.hear() {
            match heard {
                Message::Ask { request, sent, .. } if !draw.once_in(8) => {
                    exports += 1;
                    let export = ExportId { incarnation: INCARNATION, number: exports };
                    let answer = granted(draw, request, sent, export);
                    let content = if draw.once_in(4) { content(draw, &answer) } else { with_sense(&answer) };
                    forged.say(&content);
                }
                Message::Heartbeat { export, rank, sent } if !draw.once_in(4) => {
                    forged.say(&with_sense(&Message::Held { export, rank, sent }));
                }
                _ => {}
            }
        }
        if draw.once_in(3) {
            let said = message(draw, theirs);
            let content = content(draw, &said);
            forged.say(&content);
        }
        if draw.once_in(8) {
            consumer.cancel(draw.small(4));
        }
    }
    // Whatever was said, each import ends, and its reads before it.
    pass(&mut consumer, 600);
    drop(forged);
    pass(&mut consumer, 2);
    assert_eq!((consumer.in_flight(), carrier.in_flight()), (0, 0));
    ended.sort_by_key(|(id, _)| *id);
    let ids: Vec<u32> = ended.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, (0..begun).collect::<Vec<_>>(), "each ends once");
    let landed = ended.iter().filter(|(_, end)| matches!(end, End::Landed { .. })).count() as u64;
    let counters = consumer.counters();
    assert_eq!((counters.landed, counters.failed), (landed, u64::from(begun) - landed));
}
