//! Copies by the GPU's copy engines.

use super::{Cuda, CudaStream};
use crate::backends::Backend;
use crate::error::{BackendError, Error};
use crate::memory::{RegionId, Registry};

impl Cuda {
    /// Copies bytes between registered memory, as one transfer by a copy engine: `bytes` bytes from an offset of one region
    /// to an offset of another. It returns before they have arrived.
    ///
    /// # Errors
    /// Where the bytes are not inside the regions, these are out of reach, or the stream is being captured: a replay of that
    /// graph would not know whether they are still there.
    pub fn copy(
        &self,
        stream: &CudaStream,
        memory: &mut Registry,
        from: (RegionId, u64),
        to: (RegionId, u64),
        bytes: u64,
    ) -> Result<(), Error> {
        if stream.is_capturing()? {
            return Err(BackendError::Capturing { what: "a copy" }.into());
        }
        let [from, to] = [from, to].map(|(region, at)| memory.part(region, at, bytes, Backend::reach(self)));
        let (from, to) = (from?.address(), to?.address());
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        // SAFETY: both ends are registered and within reach, and stay: the registry is told, and waits.
        self.context.within(|calls| unsafe { calls.copy(to, from, length, stream.raw()) })?;
        memory.launched(stream.launches());
        Ok(())
    }
}
