//! P's engine and D's, each with its end of the hand-off, and all that may be done to them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use pagelift_planner::geometry::Memory;
use pagelift_planner::lifecycle::RequestId;
use pagelift_transport::consumer::{Consumer, ConsumerEvent, ConsumerOptions};
use pagelift_transport::control::{Message, Role};
use pagelift_transport::lease::{Moment, RankEnd};
use pagelift_transport::notice::ExportId;
use pagelift_transport::offer::Offer;
use pagelift_transport::producer::{Producer, ProducerEvent, ProducerOptions};

use super::fabric::{Agent, Fabric, Node};
use super::wires::{Door, Tap, Tapped, link};
use super::{arranged, groups, terms};
use crate::engines::{Decoder, Layout, Prefiller};
use crate::world::{BASE, Engine};

/// When P has last heard of each export that it holds, by its own clock.
type Heard = Rc<RefCell<BTreeMap<ExportId, u64>>>;

/// P's process.
pub struct P {
    pub agent: Agent,
    pub producer: Producer<Agent, Door, Vec<u32>>,
    pub engine: Prefiller<Rc<Node>>,
}

pub struct Pair {
    pub fabric: Rc<Fabric>,
    pub door: Door,
    pub p: Option<P>,
    pub d: Agent,
    /// What D says, and hears.
    pub tap: Tap,
    pub consumer: Option<Consumer<Agent, Tapped, RequestId>>,
    pub decoder: Decoder,
    pub events: Vec<ConsumerEvent<RequestId>>,
    pub seen: Vec<ProducerEvent>,
    pub freed: Vec<(u64, RankEnd)>,
    heard: Heard,
    processes: u64,
}

/// Reads that take longer than a lease are given up.
fn options() -> ConsumerOptions {
    let milliseconds = Duration::from_millis;
    ConsumerOptions { read_timeout: milliseconds(1200), stop_timeout: milliseconds(600), ..super::options() }
}

fn engine(memory: Memory, producer: bool, seed: u64) -> Engine {
    Engine::new(memory, &groups(), &arranged(producer), seed)
}

fn layout(agent: &Agent) -> Layout {
    Layout { groups: groups(), placed: agent.node.engine.borrow().groups.clone() }
}

impl Pair {
    /// Both are there, and D has connected.
    pub fn new() -> Self {
        let fabric = Rc::new(Fabric::default());
        let d = Agent::new(&fabric, "decode", engine(Memory::Device, false, 2));
        let decoder = Decoder::new(layout(&d), &d.node);
        let mut own = Self {
            fabric,
            door: Door::default(),
            p: None,
            d,
            tap: Tap::default(),
            consumer: None,
            decoder,
            events: Vec::new(),
            seen: Vec::new(),
            freed: Vec::new(),
            heard: Heard::default(),
            processes: 0,
        };
        own.listen();
        own.start_p();
        own.connect();
        own
    }

    /// P hears heartbeats.
    fn listen(&self) {
        let (fabric, heard) = (self.fabric.clone(), self.heard.clone());
        *self.door.tap.hears.borrow_mut() = Box::new(move |message| {
            if let Message::Heartbeat { export, .. } = message
                && let Some(last) = heard.borrow_mut().get_mut(export)
                && fabric.now.get() < *last + terms().lease.as_millis() as u64
            {
                *last = fabric.now.get();
            }
        });
    }

    /// A process under P's name, whether there was one or not.
    pub fn start_p(&mut self) {
        self.kill_p();
        self.processes += 1;
        let agent = Agent::new(&self.fabric, "prefill", engine(Memory::Host, true, self.processes));
        let offer = agent.node.engine.borrow().offer(BASE);
        let own = ProducerOptions { terms: terms(), ..ProducerOptions::new(self.processes) };
        let producer = Producer::new(agent.clone(), self.door.clone(), offer, own).unwrap();
        let engine = Prefiller::new(layout(&agent), agent.node.clone());
        self.p = Some(P { agent, producer, engine });
    }

    /// P is gone, with whatever it held.
    pub fn kill_p(&mut self) {
        if let Some(p) = self.p.take() {
            p.agent.kill();
        }
        self.heard.borrow_mut().clear();
    }

    pub fn offer(&self) -> Offer {
        self.d.node.engine.borrow().offer(BASE)
    }

    /// D connects, once more if it had before.
    pub fn connect(&mut self) {
        let offer = self.offer();
        self.connect_with(offer);
    }

    pub fn connect_with(&mut self, offer: Offer) {
        self.tap.cut.set(false);
        self.consumer = None;
        let wire = Tapped::new(link(self.door.waiting.connect(), Role::Consumer), self.tap.clone());
        self.consumer = Some(Consumer::new(self.d.clone(), wire, offer, options(), self.now()).unwrap());
    }

    /// D is gone, and another takes its place.
    pub fn restart_d(&mut self) {
        self.consumer = None;
        self.d.kill();
        self.d = Agent::new(&self.fabric, "decode", engine(Memory::Device, false, 3));
        self.decoder = Decoder::new(layout(&self.d), &self.d.node);
        self.connect();
    }

    /// D gives up its transport, and so all reads; its memory stays.
    pub fn drop_transport(&mut self) {
        self.consumer = None;
        self.d.kill();
        assert_eq!(self.d.node.in_flight.get(), 0);
        let bytes = self.d.node.engine.borrow().bytes.clone();
        self.d = Agent::new(&self.fabric, "decode", engine(Memory::Device, false, 3));
        self.d.node.engine.borrow_mut().bytes = bytes;
        self.decoder.lose_rank(&self.d.node);
        self.connect();
    }

    fn now(&self) -> Moment {
        Moment::new(Duration::from_millis(self.fabric.now.get()))
    }

    /// A request comes to D. Whether it has room.
    pub fn request(&mut self, number: u64) -> Option<RequestId> {
        let (id, wanted) = self.decoder.admit(number, &self.d.node)?;
        self.consumer.as_mut().unwrap().begin(id, wanted).unwrap();
        Some(id)
    }

    /// Its client goes away.
    pub fn cancel(&mut self, id: RequestId) {
        self.consumer.as_mut().unwrap().cancel(id);
        self.decoder.abort(id, &self.d.node);
    }

    /// So many milliseconds pass.
    pub fn pass(&mut self, milliseconds: u64) {
        for _ in 0..milliseconds {
            self.fabric.now.set(self.fabric.now.get() + 1);
            let now = self.now();
            self.poll_p(now);
            if let Some(consumer) = &mut self.consumer {
                let events = consumer.poll(|| now, &mut &*self.d.node);
                for event in &events {
                    self.decoder.told(event, &self.d.node);
                }
                self.events.extend(events);
            }
        }
    }

    /// P goes on. It frees nothing before a lease is over.
    fn poll_p(&mut self, now: Moment) {
        let Some(p) = &mut self.p else { return };
        let events = p.producer.poll(|| now, &mut p.engine).unwrap();
        for event in &events {
            if let ProducerEvent::Granted { export, .. } = event {
                self.heard.borrow_mut().insert(*export, self.fabric.now.get());
            }
        }
        self.seen.extend(events);
        let lease = terms().lease.as_millis() as u64;
        for (export, request, end) in p.engine.freed.drain(..) {
            let last = self.heard.borrow_mut().remove(&export).expect("what is freed was granted");
            let over = last + lease <= self.fabric.now.get();
            assert!(end != RankEnd::Expired || over, "freed before a lease was over");
            self.freed.push((request, end));
        }
        assert_eq!(p.producer.held(), self.heard.borrow().len());
    }

    /// Exports that P holds.
    pub fn held(&self) -> usize {
        self.p.as_ref().map_or(0, |p| p.producer.held())
    }

    /// Neither side holds anything, and no free block was written.
    pub fn assert_idle(&self) {
        let p = self.p.as_ref().unwrap();
        assert!(p.engine.is_idle() && p.producer.held() == 0, "P holds something");
        assert!(self.decoder.is_idle(&self.d.node), "D holds something, or a free block was written");
        assert_eq!(self.consumer.as_ref().unwrap().in_flight(), 0);
        assert_eq!(self.d.node.in_flight.get(), 0);
    }
}
