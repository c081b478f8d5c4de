//! What stands for NIXL: engines that copy from each other's bytes, in a time of the test's own.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use pagelift_transport::descriptors::{Descriptor, ListSide};
use pagelift_transport::notice::Notice;
use pagelift_transport::pairing::Peer;
use pagelift_transport::plan::PlannedRead;
use pagelift_transport::transfer::{Destination, Heard, ReadingState, Transfer};

use crate::engines::Bytes;
use crate::world::Engine;

/// All engines that can reach each other.
#[derive(Default)]
pub struct Fabric {
    pub now: Cell<u64>,
    nodes: RefCell<BTreeMap<String, Rc<Node>>>,
}

/// One engine's memory, and how its reads go.
pub struct Node {
    name: String,
    pub engine: RefCell<Engine>,
    inbox: RefCell<Vec<Heard>>,
    /// How long reads that begin now will take; none: until they are told to stop.
    pub lasts: Cell<Option<u64>>,
    pub fails: Cell<bool>,
    /// Whether reads end when they are told to stop.
    pub stoppable: Cell<bool>,
    pub in_flight: Cell<u32>,
    /// Whether lists can be made ready.
    pub prepares: Cell<bool>,
    /// How often peers were added and not forgotten.
    pub peers: Cell<u32>,
    /// Notices that are lost, or come twice.
    pub notices: Cell<u32>,
    /// GPUs whose writes were made visible, and reads that were in flight then.
    pub settled: RefCell<Vec<(u64, u32)>>,
}

#[derive(Clone)]
pub struct Agent {
    fabric: Rc<Fabric>,
    pub node: Rc<Node>,
}

impl Agent {
    pub fn new(fabric: &Rc<Fabric>, name: &str, engine: Engine) -> Self {
        let node = Rc::new(Node {
            name: name.into(),
            engine: RefCell::new(engine),
            inbox: RefCell::default(),
            lasts: Cell::new(Some(3)),
            fails: Cell::new(false),
            stoppable: Cell::new(true),
            in_flight: Cell::new(0),
            prepares: Cell::new(true),
            peers: Cell::new(0),
            notices: Cell::new(1),
            settled: RefCell::default(),
        });
        fabric.nodes.borrow_mut().insert(name.into(), node.clone());
        Self { fabric: fabric.clone(), node }
    }

    /// Its process is gone.
    pub fn kill(&self) {
        self.fabric.nodes.borrow_mut().remove(&self.node.name);
    }

    fn peer(&self, name: &str) -> Result<Rc<Node>, NoPeer> {
        self.fabric.nodes.borrow().get(name).cloned().ok_or(NoPeer)
    }

    /// Whether that process is there still.
    fn lives(&self, node: &Rc<Node>) -> Result<(), NoPeer> {
        self.peer(&node.name).and_then(|own| if Rc::ptr_eq(&own, node) { Ok(()) } else { Err(NoPeer) })
    }
}

#[derive(Debug, thiserror::Error)]
#[error("there is no such peer")]
pub struct NoPeer;

/// Pairs of lists, remote and local, of one process: who takes its place under its name has other memory.
pub struct Lists {
    peer: Rc<Node>,
    pairs: Vec<[Vec<Descriptor>; 2]>,
}

pub struct Reading {
    peer: Rc<Node>,
    copies: Vec<(Descriptor, Descriptor)>,
    ends: Cell<Option<u64>>,
    fails: Cell<bool>,
    state: RefCell<ReadingState>,
    node: Rc<Node>,
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.node.in_flight.set(self.node.in_flight.get() - 1);
    }
}

impl Transfer for Agent {
    type Lists = Lists;
    type Reading = Reading;
    type Error = NoPeer;

    fn metadata(&self) -> Result<Vec<u8>, NoPeer> {
        Ok(self.node.name.clone().into_bytes())
    }

    fn add_peer(&self, metadata: &[u8]) -> Result<String, NoPeer> {
        let name = String::from_utf8(metadata.to_vec()).map_err(|_| NoPeer)?;
        self.peer(&name)?;
        self.node.peers.set(self.node.peers.get() + 1);
        Ok(name)
    }

    fn forget_peer(&self, _: &str) -> Result<(), NoPeer> {
        self.node.peers.set(self.node.peers.get().checked_sub(1).ok_or(NoPeer)?);
        Ok(())
    }

    fn prepare(&self, name: &str, peer: &Peer) -> Result<Lists, NoPeer> {
        if !self.node.prepares.get() {
            return Err(NoPeer);
        }
        let lists = peer.lists().iter();
        let pairs = lists
            .map(|list| [ListSide::Remote, ListSide::Local].map(|side| list.descriptors(side).collect()));
        Ok(Lists { peer: self.peer(name)?, pairs: pairs.collect() })
    }

    fn read(&self, lists: &Lists, read: &PlannedRead) -> Result<Reading, NoPeer> {
        self.lives(&lists.peer)?;
        assert!(self.node.peers.get() > 0, "a peer was forgotten of which somebody reads");
        let [remote, local] = &lists.pairs[read.list()];
        let copies = read.remote().iter().zip(read.local());
        self.node.in_flight.set(self.node.in_flight.get() + 1);
        Ok(Reading {
            peer: lists.peer.clone(),
            copies: copies.map(|(from, to)| (remote[*from as usize], local[*to as usize])).collect(),
            ends: Cell::new(self.node.lasts.get().map(|lasts| self.fabric.now.get() + lasts)),
            fails: Cell::new(self.node.fails.get()),
            state: RefCell::new(ReadingState::InFlight),
            node: self.node.clone(),
        })
    }

    fn state(&self, reading: &Reading) -> ReadingState {
        let mut state = reading.state.borrow_mut();
        let due = reading.ends.get().is_some_and(|ends| ends <= self.fabric.now.get());
        if *state == ReadingState::InFlight && due {
            *state = match self.lives(&reading.peer) {
                Ok(()) if !reading.fails.get() => {
                    for (from, to) in &reading.copies {
                        let bytes = reading.peer.engine.borrow_mut().at(from.address, from.bytes).to_vec();
                        self.node.engine.borrow_mut().at(to.address, to.bytes).copy_from_slice(&bytes);
                    }
                    ReadingState::Landed
                }
                _ => ReadingState::Failed { reason: "the wire was cut".into() },
            };
        }
        state.clone()
    }

    fn stop(&self, reading: &Reading) {
        if self.node.stoppable.get() {
            reading.ends.set(Some(self.fabric.now.get() + 2));
            reading.fails.set(true);
        }
    }

    fn notify(&self, peer: &str, notice: &Notice) -> Result<(), NoPeer> {
        let peer = self.peer(peer)?;
        let heard = Heard { peer: self.node.name.clone(), notice: Ok(*notice) };
        peer.inbox.borrow_mut().extend(std::iter::repeat_n(heard, self.node.notices.get() as usize));
        Ok(())
    }

    fn heard(&self) -> Result<Vec<Heard>, NoPeer> {
        Ok(self.node.inbox.take())
    }
}

impl Bytes for Rc<Node> {
    fn read(&self, address: u64, bytes: usize) -> Vec<u8> {
        self.engine.borrow_mut().at(address, bytes as u64).to_vec()
    }

    fn write(&self, address: u64, from: &[u8]) {
        self.engine.borrow_mut().at(address, from.len() as u64).copy_from_slice(from);
    }
}

impl Destination for &Node {
    type Error = NoPeer;

    fn zero(&mut self, range: Descriptor) -> Result<(), NoPeer> {
        self.engine.borrow_mut().at(range.address, range.bytes).fill(0);
        Ok(())
    }

    fn settle(&mut self, device: u64) -> Result<(), NoPeer> {
        self.settled.borrow_mut().push((device, self.in_flight.get()));
        Ok(())
    }
}
