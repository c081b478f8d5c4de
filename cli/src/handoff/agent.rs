//! NIXL, with the pools registered for as long as it is used.

use pagelift_transport::nixl::{Agent, AgentOptions, Library};
use pagelift_transport::offer::Offer;

use super::error::HandoffError;
use crate::restore::World;

/// Opens the library, registers the memory that the offer lists, and lets `body` use it, for a result that has none of the agent's
/// lists and reads. Memory that CUDA has pinned was pinned when the world was made, and is released after this.
pub fn with<'m, T>(
    world: &mut World<'m>,
    offer: &Offer,
    options: AgentOptions<'_>,
    body: impl FnOnce(&mut World<'m>, &Agent, &Library) -> Result<T, HandoffError>,
) -> Result<T, HandoffError> {
    let library = Library::open()?;
    let mut agent = Agent::new(&library, options)?;
    for range in &offer.regions.memory {
        #[expect(unsafe_code, reason = "whose memory an address is only this program knows")]
        // SAFETY: 1. The ranges are the regions of the world's pools, by `Mapped`. They are released with the world's registry
        //    and nothing in this program releases one before; the world outlives this call, and the agent does not. Its
        //    lists and reads are the consumer's, which borrows the agent: so they go before it.
        // 2. P's pools are filled before this, and until all of these are gone nothing writes them. D's are written by reads that are
        //    in flight in `reads`, which looks at none of their bytes until the import has ended; nobody else can reach them,
        //    for D tells nobody how.
        unsafe { agent.register(*range) }?;
    }
    body(world, &agent, &library)
}
