//! What both ends need of whatever carries bytes: NIXL, or what stands for it in tests.

use std::sync::Arc;

use crate::descriptors::Descriptor;
use crate::error::NoticeError;
use crate::notice::Notice;
use crate::pairing::Peer;
use crate::plan::PlannedRead;

/// One-sided reads, and notices.
///
/// With the feature `nixl`, `nixl::Agent` is one.
pub trait Transfer {
    /// A peer's descriptor lists, made ready once.
    type Lists;
    /// A read in flight. It may write until its state says that it has ended.
    type Reading;
    /// What can go wrong.
    type Error: std::error::Error;

    /// What peers need to reach this process and its registered memory.
    ///
    /// # Errors
    /// As the transport says.
    fn metadata(&self) -> Result<Vec<u8>, Self::Error>;

    /// Takes what a peer sent as its [`Transfer::metadata`], and says its name. Each connection to a peer adds it once.
    ///
    /// # Errors
    /// Where it means nothing to the transport.
    fn add_peer(&self, metadata: &[u8]) -> Result<String, Self::Error>;

    /// Forgets a peer of which one connection reads nothing any more; others that have added it read on.
    ///
    /// # Errors
    /// Where there is none of that name.
    fn forget_peer(&self, name: &str) -> Result<(), Self::Error>;

    /// Makes a peer's lists ready.
    ///
    /// # Errors
    /// Where memory of either side is not registered.
    fn prepare(&self, name: &str, peer: &Peer) -> Result<Self::Lists, Self::Error>;

    /// Begins a read.
    ///
    /// # Errors
    /// Where it cannot. Then nothing is in flight.
    fn read(&self, lists: &Self::Lists, read: &PlannedRead) -> Result<Self::Reading, Self::Error>;

    /// How far a read is. Once it has ended, that stays so.
    fn state(&self, reading: &Self::Reading) -> ReadingState;

    /// Asks a read to end soon. It may write until its state says that it has.
    fn stop(&self, _reading: &Self::Reading) {}

    /// Tells a peer that a rank reads its export no more.
    ///
    /// # Errors
    /// Where it cannot be said.
    fn notify(&self, peer: &str, notice: &Notice) -> Result<(), Self::Error>;

    /// What peers have said since this was last asked. Who asks takes it from all others: where notices come over the transport, one
    /// producer has it, and any number of consumers.
    ///
    /// # Errors
    /// As the transport says.
    fn heard(&self) -> Result<Vec<Heard>, Self::Error>;
}

/// How far a read is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadingState {
    /// It may write.
    InFlight,
    /// All bytes are here.
    Landed,
    /// It has ended otherwise. Of a transfer in many pieces NIXL answers so when the first has failed, and as far as the source of its
    /// UCX plugin 1.5.1 says without waiting for those beside it: one that still arrives would write blocks that may be another
    /// request's by then.
    Failed {
        /// The transport's reason.
        reason: String,
    },
}

/// What a peer has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The peer's name.
    pub peer: String,
    /// A notice, or something else.
    pub notice: Result<Notice, NoticeError>,
}

/// The memory of D's engine, as far as an import needs more of it than reads do.
pub trait Destination {
    /// What can go wrong.
    type Error: std::fmt::Display;

    /// Fills a range with zeros: rows of D's blocks that no block of P has. Nothing reads into it.
    ///
    /// # Errors
    /// Where it cannot be written. The import fails then.
    fn zero(&mut self, range: Descriptor) -> Result<(), Self::Error>;

    /// All reads of an import have landed, some of them in the memory of this GPU: makes them visible to whatever is launched
    /// from now on. What wrote them is no stream of the GPU, so a stream's order says nothing of them. Of memory of the host alone
    /// nobody asks.
    ///
    /// # Errors
    /// Where that cannot be said. The import fails then.
    fn settle(&mut self, device: u64) -> Result<(), Self::Error>;
}

/// Several connections may share what carries bytes.
macro_rules! shared {
    ($shared:ty) => {
        impl<T: Transfer> Transfer for $shared {
            type Lists = T::Lists;
            type Reading = T::Reading;
            type Error = T::Error;

            fn metadata(&self) -> Result<Vec<u8>, T::Error> {
                (**self).metadata()
            }

            fn add_peer(&self, metadata: &[u8]) -> Result<String, T::Error> {
                (**self).add_peer(metadata)
            }

            fn forget_peer(&self, name: &str) -> Result<(), T::Error> {
                (**self).forget_peer(name)
            }

            fn prepare(&self, name: &str, peer: &Peer) -> Result<T::Lists, T::Error> {
                (**self).prepare(name, peer)
            }

            fn read(&self, lists: &T::Lists, read: &PlannedRead) -> Result<T::Reading, T::Error> {
                (**self).read(lists, read)
            }

            fn state(&self, reading: &T::Reading) -> ReadingState {
                (**self).state(reading)
            }

            fn stop(&self, reading: &T::Reading) {
                (**self).stop(reading);
            }

            fn notify(&self, peer: &str, notice: &Notice) -> Result<(), T::Error> {
                (**self).notify(peer, notice)
            }

            fn heard(&self) -> Result<Vec<Heard>, T::Error> {
                (**self).heard()
            }
        }
    };
}

shared!(Arc<T>);
shared!(&T);
