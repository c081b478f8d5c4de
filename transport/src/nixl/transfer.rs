//! NIXL as both ends use it.

use super::agent::Agent;
use super::error::NixlError;
use super::peer::{Prepared, Reading};
use crate::notice::Notice;
use crate::pairing::Peer;
use crate::plan::PlannedRead;
use crate::transfer::{Heard, ReadingState, Transfer};

/// NIXL has no call that ends a read and says when it has, so [`Transfer::stop`] is left as it is: reads end by themselves, or
/// with their agent.
impl Transfer for Agent {
    type Lists = Prepared;
    type Reading = Reading;
    type Error = NixlError;

    fn metadata(&self) -> Result<Vec<u8>, NixlError> {
        self.metadata()
    }

    fn add_peer(&self, metadata: &[u8]) -> Result<String, NixlError> {
        self.add_peer(metadata)
    }

    fn forget_peer(&self, name: &str) -> Result<(), NixlError> {
        self.forget_peer(name)
    }

    fn prepare(&self, name: &str, peer: &Peer) -> Result<Prepared, NixlError> {
        self.prepare(name, peer)
    }

    fn read(&self, lists: &Prepared, read: &PlannedRead) -> Result<Reading, NixlError> {
        self.read(lists, read)
    }

    fn state(&self, reading: &Reading) -> ReadingState {
        reading.state()
    }

    fn notify(&self, peer: &str, notice: &Notice) -> Result<(), NixlError> {
        self.notify(peer, notice)
    }

    fn heard(&self) -> Result<Vec<Heard>, NixlError> {
        self.heard()
    }
}
