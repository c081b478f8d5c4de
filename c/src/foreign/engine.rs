//! Memory, streams and graphs of the engine's.
//!
//! The functions of the header that hand these over ask for what is promised here, by number.

use std::ffi::c_void;
use std::sync::Arc;

use pagelift::Error;
use pagelift::backends::{Backend, Buffer, Cuda, CudaStream, HostPool, HostPoolSpec, Launchable};
use pagelift::error::{BackendError, MemoryError};
use pagelift::geometry::Memory;
use pagelift::launcher::Launcher;
use pagelift::memory::Registry;
use pagelift::runner::Runner;
use pagelift_bindings::{Adoption, Boundary, Engine, on_engine};

use super::Out;
use crate::status::Failure;

/// Takes memory in, where it lies, for `pagelift_registry_adopt`.
pub fn adopt(engine: &Engine, place: Memory, start: Out<c_void>, bytes: usize) -> Result<Buffer, Error> {
    let address = start.raw().expose_provenance() as u64;
    match engine.adoption(place, address, bytes)? {
        Adoption::Ordinary => {
            // SAFETY: (1, 2) are asked for by 1 and 2 of `pagelift_registry_adopt`.
            unsafe { Buffer::adopt(start.raw().cast(), bytes) }.ok_or_else(|| MemoryError::Null.into())
        }
        Adoption::Pinned(gpu) => {
            // SAFETY: (1, 2) are asked for by 1 to 3 of `pagelift_registry_adopt`.
            unsafe { gpu.register(start.raw().cast(), bytes) }
        }
        Adoption::OnGpu(gpu) => {
            // SAFETY: (1, 2) are asked for by 1, 2 and 4 of `pagelift_registry_adopt`.
            Ok(unsafe { gpu.adopt(address, bytes) })
        }
    }
}

/// Registers memory as a host pool, chunk by chunk, for `pagelift_registry_adopt_pool`.
pub fn adopt_pool(engine: &Engine, spec: &HostPoolSpec, start: Out<c_void>) -> Result<HostPool, Error> {
    // SAFETY: (1, 2, 3) are asked for by 1 and 2 of `pagelift_registry_adopt_pool`.
    unsafe { on_engine!(engine, backend => HostPool::register(backend, spec, start.raw().cast(), |_| ())) }
}

/// C, as what launchers and runners are called from.
pub enum C {}

impl Boundary for C {
    type Stream = Out<c_void>;
    type Failure = Failure;

    fn failure(error: pagelift_bindings::Error) -> Failure {
        error.into()
    }

    fn stream(gpu: &Arc<Cuda>, stream: Out<c_void>) -> Result<CudaStream, BackendError> {
        // SAFETY: (1, 2) are asked for by 1 and 2 of `pagelift_launcher_set_stream`.
        unsafe { gpu.adopt_stream(stream.raw().addr() as u64) }
    }

    fn record<B: Backend, P: Launchable>(
        launcher: &mut Launcher<B, P>,
        memory: &mut Registry,
    ) -> Result<(), Error> {
        // SAFETY: (1) the launcher lives until it is freed, which 1 of `pagelift_launcher_record` asks to do after the last replay;
        // while it lives its registry cannot be freed, nor anything be released there. (2, 3) are asked for by 2 and 3 there.
        unsafe { launcher.record(memory) }
    }

    fn record_before_forward<B: Backend>(runner: &mut Runner<B>, memory: &mut Registry) -> Result<(), Error> {
        // SAFETY: as for `record`.
        unsafe { runner.record_before_forward(memory) }
    }

    fn record_after_forward<B: Backend>(runner: &mut Runner<B>, memory: &mut Registry) -> Result<(), Error> {
        // SAFETY: as for `record`.
        unsafe { runner.record_after_forward(memory) }
    }
}
