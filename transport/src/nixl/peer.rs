//! A peer's blocks: lists that are prepared once, and reads by numbers.

use std::fmt;

use nixl_sys::{OptArgs, XferDescList, XferDlistHandle, XferOp, XferRequest};

use super::agent::Agent;
use super::error::NixlError;
use super::memory::kind;
use crate::descriptors::{Descriptor, ListPair, ListSide};
use crate::pairing::Peer;
use crate::plan::PlannedRead;
use crate::transfer::ReadingState;

/// What NIXL calls this agent's own lists: it needs no name.
const OWN: &str = "";

/// The descriptor lists of a peer, known to NIXL.
pub struct Prepared {
    // Dropped in this order: a handle names its agent by a bare address.
    lists: Vec<Lists>,
    _agent: nixl_sys::Agent,
}

/// Says nothing of what is the library's.
impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries: Vec<[u64; 2]> = self.lists.iter().map(|own| own.entries).collect();
        f.debug_struct("Prepared").field("entries", &entries).finish_non_exhaustive()
    }
}

struct Lists {
    remote: XferDlistHandle,
    local: XferDlistHandle,
    entries: [u64; 2],
}

#[expect(unsafe_code, reason = "the bindings say nothing of these handles")]
// SAFETY: both handles are of an agent that locks itself (`ThreadSync::Strict`), so that any thread may use them and release them; nothing
// in them belongs to the thread that made them, and `Prepared` keeps the agent for as long.
unsafe impl Send for Lists {}

/// A read in flight. It is asked until it has ended: until then it may write. Dropping it asks NIXL to stop it, and NIXL does
/// not say whether it has; what ends it for sure is to drop the agent, and its memory's registration with it, and every list and
/// read of it, of which each keeps the plugin.
pub struct Reading {
    request: XferRequest,
    agent: nixl_sys::Agent,
    at_once: bool,
}

/// Says nothing of what is the library's: it is not even asked how far it is.
impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading").field("at_once", &self.at_once).finish_non_exhaustive()
    }
}

impl Agent {
    /// Prepares the lists of a peer that was [added](Agent::add_peer) under `name`.
    ///
    /// # Errors
    /// Where there is no such peer, memory of either side is not registered, or NIXL refuses.
    pub fn prepare(&self, name: &str, peer: &Peer) -> Result<Prepared, NixlError> {
        if !self.inner().check_remote_metadata(name, None) {
            return Err(NixlError::NoPeer { name: name.to_owned() });
        }
        let list = |who: &str, pair: &ListPair, side| {
            let what = match side {
                ListSide::Remote => "prepare a peer's list; is all of its memory registered?",
                ListSide::Local => "prepare this side's list; is all of its memory registered?",
            };
            let failed = NixlError::call(what);
            let (memory, _) = pair.memory(side);
            let mut list = XferDescList::new(kind(memory)).map_err(&failed)?;
            for Descriptor { address, bytes, device, .. } in pair.descriptors(side) {
                let fit = usize::try_from(address).ok().zip(usize::try_from(bytes).ok());
                let (address, bytes) = fit.ok_or_else(|| failed(nixl_sys::NixlError::InvalidParam))?;
                list.add_desc(address, bytes, device);
            }
            let options = self.options().map_err(&failed)?;
            self.inner().prepare_xfer_dlist(who, &list, Some(&options)).map_err(&failed)
        };
        let mut lists = Vec::with_capacity(peer.lists().len());
        for pair in peer.lists() {
            lists.push(Lists {
                remote: list(name, pair, ListSide::Remote)?,
                local: list(OWN, pair, ListSide::Local)?,
                entries: [ListSide::Remote, ListSide::Local].map(|side| pair.entries(side)),
            });
        }
        Ok(Prepared { lists, _agent: self.inner().clone() })
    }

    /// Begins a read of a plan that was made for the peer of these lists.
    ///
    /// # Errors
    /// Where the lists are another peer's, or NIXL refuses. Then nothing is in flight.
    pub fn read(&self, lists: &Prepared, read: &PlannedRead) -> Result<Reading, NixlError> {
        let failed = NixlError::call("begin a read");
        let own = lists.lists.get(read.list());
        let own = own.ok_or(NixlError::NoList { list: read.list(), lists: lists.lists.len() })?;
        // NIXL does not look at numbers; a plan of this peer has none past the end, and one of another might.
        for (numbers, entries) in [read.remote(), read.local()].into_iter().zip(own.entries) {
            if !numbers.iter().all(|number| u64::try_from(*number).is_ok_and(|number| number < entries)) {
                return Err(failed(nixl_sys::NixlError::IndexOutOfBounds));
            }
        }
        let options = self.options().map_err(&failed)?;
        let (remote, local) = (read.remote(), read.local());
        let request = self
            .inner()
            .make_xfer_req(XferOp::Read, &own.local, local, &own.remote, remote, Some(&options))
            .map_err(&failed)?;
        let in_flight = self.inner().post_xfer_req(&request, None).map_err(&failed)?;
        Ok(Reading { request, agent: self.inner().clone(), at_once: !in_flight })
    }

    fn options(&self) -> Result<OptArgs, nixl_sys::NixlError> {
        let mut options = OptArgs::new()?;
        options.add_backend(self.backend())?;
        Ok(options)
    }
}

impl Reading {
    /// How far it is. Landed bytes of host memory can be read by this process's threads; those of a GPU by what is launched
    /// after this.
    #[must_use]
    pub fn state(&self) -> ReadingState {
        if self.at_once {
            return ReadingState::Landed;
        }
        match self.agent.get_xfer_status(&self.request) {
            Ok(status) if status.is_success() => ReadingState::Landed,
            Ok(_) => ReadingState::InFlight,
            Err(error) => ReadingState::Failed { reason: error.to_string() },
        }
    }
}
