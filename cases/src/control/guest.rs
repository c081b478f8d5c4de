//! Whoever knows the secret, and says nonsense to P, beside a D with sense.

use pagelift_planner::quantity::Tokens;
use pagelift_transport::consumer::{Consumer, ConsumerEvent, ConsumerOptions, End, Notices, Wanted};
use pagelift_transport::control::{Link, Message, Role};
use pagelift_transport::producer::{Producer, ProducerEvent, ProducerOptions};

use super::forged::Forged;
use super::pipe::{Door, Pipe, link};
use super::said::{content, message};
use super::world::{Carrier, Engine, IMPORTED, INCARNATION, Within, at, offers, tables, terms};
use crate::draw::Draw;

struct World {
    now: u64,
    producer: Producer<Carrier, Door, u64>,
    engine: Engine,
    consumer: Consumer<Carrier, Link<Pipe>, u32>,
    seen: Vec<ProducerEvent>,
    ends: Vec<(u32, End)>,
}

impl World {
    fn pass(&mut self, milliseconds: u64) {
        let [_, ours] = offers();
        for _ in 0..milliseconds {
            self.now += 1;
            let polled = self.producer.poll(|| at(self.now), &mut self.engine);
            self.seen.extend(polled.expect("a guest breaks neither the listener nor the transport"));
            for event in self.consumer.poll(|| at(self.now), &mut Within(ours)) {
                match event {
                    ConsumerEvent::Ended { id, end } => self.ends.push((id, end)),
                    ConsumerEvent::Lost { why } => panic!("D has lost P: {why}"),
                    _ => {}
                }
            }
            assert_eq!(self.producer.held(), self.engine.held.len());
        }
    }

    fn import(&mut self, id: u32) {
        let imported = Tokens::new(IMPORTED);
        let wanted = Wanted { request: 0x100 * u64::from(id), imported, blocks: tables(), awaited: true };
        self.consumer.begin(id, wanted).expect("it is connected");
    }
}

pub(super) fn run(draw: &mut Draw) {
    let [theirs, ours] = offers();
    let (door, carrier_of_p, carrier) = (Door::default(), Carrier::default(), Carrier::default());
    carrier.takes(1 + draw.small(60));
    let options = ProducerOptions { terms: terms(), most_asked: 4, ..ProducerOptions::new(INCARNATION) };
    let options_of_d = ConsumerOptions {
        presence_interval: terms().heartbeat,
        notices: Notices::Control,
        ..ConsumerOptions::default()
    };
    let wire = link(door.connect(), Role::Consumer, [0; 32]);
    let consumer =
        Consumer::new(carrier.clone(), wire, ours.clone(), options_of_d, at(0)).expect("it is new");
    let producer =
        Producer::new(carrier_of_p.clone(), door.clone(), theirs.clone(), options).expect("it is sound");
    let mut world =
        World { now: 0, producer, engine: Engine::default(), consumer, seen: Vec::new(), ends: Vec::new() };
    world.pass(3);
    world.import(1);

    let mut guest = Forged::new(door.connect(), Role::Consumer);
    world.pass(1);
    let with_sense = |message: &Message| serde_json::to_vec(message).expect("messages are JSON");
    if !draw.once_in(8) {
        guest.say(&with_sense(&Message::Hello));
        if !draw.once_in(8) {
            guest.say(&with_sense(&Message::Offer { offer: Box::new(ours.clone()), metadata: Vec::new() }));
        }
    }
    // Noise may be the beginning of a large frame, of which what follows is a part.
    let (mut nonsense, mut noisy) = (false, false);
    for _ in 0..draw.below(10) {
        match draw.below(12) {
            0 => {
                let mut noise = vec![0; 1 + draw.below(90) as usize];
                draw.fill(&mut noise);
                guest.raw(&noise);
                noisy = true;
            }
            1 => carrier_of_p.deliver(&content(draw, &Message::Here)),
            _ => {
                let said = message(draw, ours);
                let content = content(draw, &said);
                nonsense |= !noisy && serde_json::from_slice::<Message>(&content).is_err();
                guest.say(&content);
            }
        }
        if draw.once_in(3) {
            world.pass(1 + draw.below(40));
            let _: Vec<Message> = guest.hear();
        }
    }
    world.pass(2);
    let closed = world.seen.iter().any(|event| matches!(event, ProducerEvent::Closed { .. }));
    assert!(closed || !nonsense, "nonsense was listened to");
    if closed {
        // What comes after is not heard.
        let before = world.producer.counters();
        guest.say(&with_sense(&Message::Ask {
            request: 1,
            imported: Tokens::new(1),
            sent: std::time::Duration::ZERO,
        }));
        world.pass(1);
        assert_eq!(world.producer.counters().0.granted, before.0.granted);
    }
    // D's import ends, unless the guest has given notice in its name; and the next one lands.
    drop(guest);
    world.pass(200);
    world.import(2);
    world.pass(200);
    let [(1, _), (2, End::Landed { awaited: true, filled: true })] = world.ends[..] else {
        panic!("{:?}", world.ends)
    };
    assert_eq!((world.consumer.in_flight(), carrier.in_flight()), (0, 0));
    // Leases are over, and so is the guest's connection.
    assert_eq!((world.producer.held(), world.producer.connections()), (0, 1));
    let (counters, _) = world.producer.counters();
    assert_eq!(counters.granted, counters.freed);
}
