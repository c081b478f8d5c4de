//! D, which is the test: its end of the hand-off, with faults between it and the library, and P's process.

use std::cell::{Cell, RefCell};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pagelift_planner::lifecycle::RequestId;
use pagelift_transport::consumer::{Consumer, ConsumerEvent, ConsumerOptions, End, Failure, Notices};
use pagelift_transport::control::{Link, Message, Wire, connect};
use pagelift_transport::error::ControlError;
use pagelift_transport::lease::Moment;
use pagelift_transport::nixl::{Agent, AgentOptions, Library, NixlError, Prepared, Reading};
use pagelift_transport::notice::Notice;
use pagelift_transport::offer::Offer;
use pagelift_transport::pairing::Peer;
use pagelift_transport::plan::{PlannedRead, ReadLimits};
use pagelift_transport::transfer::{Heard, ReadingState, Transfer};

use super::prefill::PREFILL;
use super::{Raw, Report, engine, register, secret};
use crate::ROLE;
use crate::engines::{Decoder, Layout};
use crate::prefill::LINE;

/// Longer than anything takes on a machine that is busy.
const LIMIT: Duration = Duration::from_secs(40);

/// P's process.
pub struct Prefill {
    pub child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
    pub address: SocketAddr,
}

impl Prefill {
    pub fn start() -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "handoff::prefill::producer", "--nocapture", "--test-threads=1"]);
        command.env(ROLE, PREFILL).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut own = Self { child, lines, address: ([127, 0, 0, 1], 0).into() };
        own.address = serde_json::from_str(&own.line()).unwrap();
        own
    }

    fn line(&mut self) -> String {
        let own = self.lines.find_map(|line| line.unwrap().strip_prefix(LINE).map(str::to_owned));
        own.expect("P has ended before its time")
    }

    pub fn report(&mut self) -> Report {
        writeln!(self.child.stdin.as_mut().unwrap(), "report").unwrap();
        serde_json::from_str(&self.line()).unwrap()
    }

    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// It ends by itself, and well.
    pub fn finish(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Prefill {
    fn drop(&mut self) {
        // It may have ended.
        let _: std::io::Result<()> = self.child.kill();
        let _: std::io::Result<std::process::ExitStatus> = self.child.wait();
    }
}

/// What is done to D's messages, and how often each is said.
type Copies = Box<dyn FnMut(&Message) -> u32>;

/// What goes wrong between D and the library.
pub struct Knobs {
    /// Reads are said to be in flight until they are told to stop.
    pub hold: Cell<bool>,
    /// How often a notice is sent.
    pub notices: Cell<u32>,
    /// How often a message is said or, of those that come, heard.
    pub copies: RefCell<Copies>,
}

impl Default for Knobs {
    fn default() -> Self {
        Self { hold: Cell::new(false), notices: Cell::new(1), copies: RefCell::new(Box::new(|_| 1)) }
    }
}

/// The library, with faults.
pub struct Carrier {
    agent: Arc<Agent>,
    knobs: Rc<Knobs>,
}

pub struct Held {
    reading: Reading,
    stopped: Cell<bool>,
}

impl Transfer for Carrier {
    type Lists = Prepared;
    type Reading = Held;
    type Error = NixlError;

    fn metadata(&self) -> Result<Vec<u8>, NixlError> {
        self.agent.metadata()
    }

    fn add_peer(&self, metadata: &[u8]) -> Result<String, NixlError> {
        self.agent.add_peer(metadata)
    }

    fn forget_peer(&self, name: &str) -> Result<(), NixlError> {
        self.agent.forget_peer(name)
    }

    fn prepare(&self, name: &str, peer: &Peer) -> Result<Prepared, NixlError> {
        self.agent.prepare(name, peer)
    }

    fn read(&self, lists: &Prepared, read: &PlannedRead) -> Result<Held, NixlError> {
        Ok(Held { reading: self.agent.read(lists, read)?, stopped: Cell::new(false) })
    }

    fn state(&self, held: &Held) -> ReadingState {
        if self.knobs.hold.get() && !held.stopped.get() {
            return ReadingState::InFlight;
        }
        held.reading.state()
    }

    fn stop(&self, held: &Held) {
        held.stopped.set(true);
    }

    fn notify(&self, peer: &str, notice: &Notice) -> Result<(), NixlError> {
        (0..self.knobs.notices.get()).try_for_each(|_| self.agent.notify(peer, notice))
    }

    fn heard(&self) -> Result<Vec<Heard>, NixlError> {
        self.agent.heard()
    }
}

/// A connection whose messages are lost or doubled, in both directions.
pub struct Faulty {
    link: Link<TcpStream>,
    knobs: Rc<Knobs>,
    again: Option<Message>,
}

impl Wire for Faulty {
    fn send(&mut self, message: &Message) -> Result<(), ControlError> {
        let copies = (self.knobs.copies.borrow_mut())(message);
        (0..copies).try_for_each(|_| self.link.send(message))
    }

    fn receive(&mut self) -> Result<Option<Message>, ControlError> {
        if let Some(message) = self.again.take() {
            return Ok(Some(message));
        }
        while let Some(message) = self.link.receive()? {
            match (self.knobs.copies.borrow_mut())(&message) {
                0 => {}
                copies => {
                    self.again = (copies > 1).then(|| message.clone());
                    return Ok(Some(message));
                }
            }
        }
        Ok(None)
    }

    fn is_flushed(&self) -> bool {
        self.link.is_flushed()
    }
}

pub struct Decode {
    // Dropped in this order: a consumer's readings name the agent.
    pub consumer: Option<Consumer<Carrier, Faulty, RequestId>>,
    agent: Arc<Agent>,
    pub knobs: Rc<Knobs>,
    pub decoder: Decoder,
    pub memory: Raw,
    offer: Offer,
    pub events: Vec<ConsumerEvent<RequestId>>,
    start: Instant,
    options: ConsumerOptions,
}

fn agent(offer: &Offer) -> Arc<Agent> {
    let mut agent = Agent::new(&Library::open().unwrap(), AgentOptions::new("decode")).unwrap();
    register(&mut agent, offer);
    Arc::new(agent)
}

impl Decode {
    /// D, connected to P. Its reads may take so long.
    pub fn new(prefill: &Prefill, read_timeout: Duration) -> Self {
        Self::connected(prefill.address, read_timeout)
    }

    pub fn connected(prefill: SocketAddr, read_timeout: Duration) -> Self {
        let (memory, layout, offer): (Raw, Layout, Offer) = engine(false);
        // Leases are short here, and machines may be busy: a turn is to take but a part of one.
        let turn = ReadLimits { most_bytes: 16 << 20, most_entries: 4096 };
        let options = ConsumerOptions {
            read_limits: turn,
            turn_limits: turn,
            read_timeout,
            grant_timeout: Duration::from_secs(5),
            stop_timeout: Duration::from_secs(3),
            presence_interval: Duration::from_millis(200),
            // Those are lost and doubled here.
            notices: Notices::Transfer,
            ..ConsumerOptions::default()
        };
        let mut own = Self {
            consumer: None,
            agent: agent(&offer),
            knobs: Rc::default(),
            decoder: Decoder::new(layout, &memory),
            memory,
            offer,
            events: Vec::new(),
            start: Instant::now(),
            options,
        };
        own.connect_to(prefill);
        own
    }

    fn now(&self) -> Moment {
        Moment::now(self.start)
    }

    /// Connects, once more if it had before.
    pub fn connect(&mut self, prefill: &Prefill) {
        self.connect_to(prefill.address);
    }

    fn connect_to(&mut self, prefill: SocketAddr) {
        self.consumer = None;
        let link = connect(prefill, &secret(), LIMIT).unwrap();
        let wire = Faulty { link, knobs: self.knobs.clone(), again: None };
        let carrier = Carrier { agent: self.agent.clone(), knobs: self.knobs.clone() };
        let offer = self.offer.clone();
        self.consumer = Some(Consumer::new(carrier, wire, offer, self.options, self.now()).unwrap());
    }

    /// Gives up the transport, and so whatever it may still write.
    pub fn drop_transport(&mut self) {
        self.consumer = None;
        let old = std::mem::replace(&mut self.agent, agent(&self.offer));
        assert_eq!(Arc::strong_count(&old), 1);
        drop(old);
        self.decoder.lose_rank(&self.memory);
    }

    /// A request comes.
    pub fn request(&mut self, number: u64) -> Option<RequestId> {
        let (id, wanted) = self.decoder.admit(number, &self.memory)?;
        self.consumer.as_mut().unwrap().begin(id, wanted).unwrap();
        Some(id)
    }

    /// Its client goes away.
    pub fn cancel(&mut self, id: RequestId) {
        self.consumer.as_mut().unwrap().cancel(id);
        self.decoder.abort(id, &self.memory);
    }

    pub fn poll(&mut self) {
        let now = self.now();
        let events = self.consumer.as_mut().unwrap().poll(|| now, &mut self.memory.clone());
        for event in &events {
            self.decoder.told(event, &self.memory);
        }
        self.events.extend(events);
    }

    /// Goes on until something is so.
    pub fn until(&mut self, what: &str, mut so: impl FnMut(&Self) -> bool) {
        let begun = Instant::now();
        while !so(self) {
            assert!(begun.elapsed() < LIMIT, "{what}: {:?} {:?}", self.events, self.decoder.ended);
            self.poll();
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Goes on for so long.
    pub fn pass(&mut self, time: Duration) {
        let begun = Instant::now();
        self.until("time passes", |_| begun.elapsed() >= time);
    }

    /// A request whose reads are in flight, and are said to be so.
    pub fn reading(&mut self, number: u64) -> RequestId {
        self.knobs.hold.set(true);
        let id = self.request(number).unwrap();
        self.until("reads begin", |own| {
            own.events.iter().any(|event| matches!(event, ConsumerEvent::Begun { .. }))
        });
        id
    }

    /// Why its only import has failed.
    pub fn why(&self) -> Failure {
        let ends = self.events.iter().filter_map(|event| match event {
            ConsumerEvent::Ended { end: End::Failed { why, .. }, .. } => Some(why.clone()),
            _ => None,
        });
        let ends: Vec<_> = ends.collect();
        assert_eq!(ends.len(), 1, "{:?}", self.events);
        ends.into_iter().next().unwrap()
    }

    /// Neither side holds anything; in the end P ends by itself. Reports what P has freed meanwhile.
    pub fn rest(&mut self, prefill: &mut Prefill) -> Report {
        let (mut report, mut freed) = (Report::default(), Vec::new());
        let begun = Instant::now();
        while !report.idle || self.consumer.as_ref().unwrap().in_flight() > 0 {
            assert!(begun.elapsed() < LIMIT, "{report:?}");
            self.pass(Duration::from_millis(20));
            report = prefill.report();
            freed.append(&mut report.freed);
        }
        assert_eq!(report.held, 0);
        assert!(self.decoder.is_idle(&self.memory), "D holds something, or a free block was written");
        Report { freed, ..report }
    }
}
