//! NIXL, and how long its calls have taken: what is left of a turn is this library's own.

use std::cell::Cell;
use std::time::{Duration, Instant};

use pagelift_transport::nixl::{Agent, NixlError, Prepared, Reading};
use pagelift_transport::notice::Notice;
use pagelift_transport::pairing::Peer;
use pagelift_transport::plan::PlannedRead;
use pagelift_transport::transfer::{Heard, ReadingState, Transfer};

/// An agent whose calls are timed.
pub struct Timed {
    pub agent: Agent,
    spent: Cell<Duration>,
}

impl Timed {
    pub const fn new(agent: Agent) -> Self {
        Self { agent, spent: Cell::new(Duration::ZERO) }
    }

    /// What its calls have taken so far.
    pub const fn spent(&self) -> Duration {
        self.spent.get()
    }

    fn timed<T>(&self, call: impl FnOnce(&Agent) -> T) -> T {
        let begun = Instant::now();
        let done = call(&self.agent);
        self.spent.set(self.spent.get().saturating_add(begun.elapsed()));
        done
    }
}

impl Transfer for Timed {
    type Lists = Prepared;
    type Reading = Reading;
    type Error = NixlError;

    fn metadata(&self) -> Result<Vec<u8>, NixlError> {
        self.timed(Agent::metadata)
    }

    fn add_peer(&self, metadata: &[u8]) -> Result<String, NixlError> {
        self.timed(|agent| agent.add_peer(metadata))
    }

    fn forget_peer(&self, name: &str) -> Result<(), NixlError> {
        self.timed(|agent| agent.forget_peer(name))
    }

    fn prepare(&self, name: &str, peer: &Peer) -> Result<Prepared, NixlError> {
        self.timed(|agent| agent.prepare(name, peer))
    }

    fn read(&self, lists: &Prepared, read: &PlannedRead) -> Result<Reading, NixlError> {
        self.timed(|agent| agent.read(lists, read))
    }

    fn state(&self, reading: &Reading) -> ReadingState {
        self.timed(|_| reading.state())
    }

    fn notify(&self, peer: &str, notice: &Notice) -> Result<(), NixlError> {
        self.timed(|agent| agent.notify(peer, notice))
    }

    fn heard(&self) -> Result<Vec<Heard>, NixlError> {
        self.timed(Agent::heard)
    }
}
