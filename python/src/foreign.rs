//! Where Python's word is taken for memory, streams and graphs.
//!
//! The only unsafe code of this crate. Rust cannot see what an interpreter does with a tensor; what the package's
//! documentation asks of its callers is what is promised here. Everything that can be checked was checked before: a tensor is
//! contiguous, writable, and on the device that is asked for ([`crate::tensor`], [`crate::memory`]).
#![allow(unsafe_code, reason = "adopting what others made is a promise that the compiler cannot check")]

use std::sync::Arc;

use pagelift::Error;
use pagelift::backends::{
    Backend, Buffer, CopyCalls, CopyEngine, Cuda, CudaStream, HostPool, HostPoolSpec, Launchable,
    SharedMemory,
};
use pagelift::error::{BackendError, MemoryError};
use pagelift::geometry::Memory;
use pagelift::launcher::Launcher;
use pagelift::memory::Registry;
use pagelift::plan::{Direction, PagePlan};
use pagelift::runner::Runner;
use pagelift_bindings::{Adoption, Boundary, Engine, on_engine};
#[cfg(feature = "nixl")]
use pagelift_transport::{
    nixl::{Agent, NixlError},
    region::MemoryRange,
};
use pyo3::PyErr;

use crate::error::raised;
use crate::tensor::Tensor;

/// Takes a tensor's memory in, where it lies. The registry keeps the tensor until the buffer is gone.
pub fn adopt(engine: &Engine, place: Memory, tensor: &Tensor) -> Result<Buffer, Error> {
    let bytes = usize::try_from(tensor.bytes).map_err(|_| too_large(tensor))?;
    let start = || host_address(tensor);
    match engine.adoption(place, tensor.address, bytes)? {
        Adoption::Ordinary => {
            // SAFETY: (1) the tensor is kept while the buffer lives, and has so many bytes, which are initialised as far as
            // copies are concerned: what a pool holds is bytes to everybody. (2) The package asks its callers to leave what a
            // launch reads and writes alone until it is done, as they must with any call of NumPy or PyTorch that runs beside
            // them; no Rust reference is made of the bytes, for this package lends none.
            unsafe { Buffer::adopt(start()?, bytes) }.ok_or_else(|| MemoryError::Null.into())
        }
        Adoption::Pinned(gpu) => {
            // SAFETY: (1) as above. (2) Who registered it before (PyTorch's pinned memory) unregisters it when it is freed, and
            // the tensor is kept.
            unsafe { gpu.register(start()?, bytes) }
        }
        Adoption::OnGpu(gpu) => {
            // SAFETY: (1) the tensor is on this GPU, which reaches its memory whatever the object says, in the primary context, which
            // PyTorch and the runtime use, and is kept while the buffer lives. (2) As above, in the order of streams.
            Ok(unsafe { gpu.adopt(tensor.address, bytes) })
        }
    }
}

/// Registers a tensor as a host pool, chunk by chunk. The registry keeps the tensor as long as the pool.
pub fn register(engine: &Engine, spec: &HostPoolSpec, tensor: &Tensor) -> Result<HostPool, Error> {
    let start = host_address(tensor)?;
    // SAFETY: (1, 2, 3) as for `adopt`; that the tensor has all blocks was checked.
    unsafe { on_engine!(engine, backend => HostPool::register(backend, spec, start, |_| ())) }
}

/// Maps memory that several processes have as a host pool.
pub fn share(engine: &Engine, spec: &HostPoolSpec, memory: &SharedMemory) -> Result<HostPool, Error> {
    // SAFETY: (1) the package asks its callers to leave what a launch of any process reads and writes alone until it is done; no
    // Rust reference is made of the bytes, for this package lends none. (2) It asks that the size stays, too.
    unsafe { on_engine!(engine, backend => HostPool::share(backend, spec, memory, |_| ())) }
}

/// Where the host finds a tensor's first byte.
fn host_address(tensor: &Tensor) -> Result<*mut u8, Error> {
    let address = usize::try_from(tensor.address).map_err(|_| too_large(tensor))?;
    Ok(std::ptr::with_exposed_provenance_mut(address))
}

fn too_large(tensor: &Tensor) -> Error {
    MemoryError::OutOfMemory { bytes: tensor.bytes, place: "host" }.into()
}

/// Python, as what launchers and runners are called from.
pub enum Interpreter {}

impl Boundary for Interpreter {
    /// A number, as CUDA has it.
    type Stream = u64;
    type Failure = PyErr;

    fn failure(error: pagelift_bindings::Error) -> PyErr {
        raised(error)
    }

    fn stream(gpu: &Arc<Cuda>, handle: u64) -> Result<CudaStream, BackendError> {
        // SAFETY: (1) the package asks for a handle of this GPU's primary context, such as
        // `torch.cuda.current_stream().cuda_stream`, whose stream outlives the launchers and registries that use it; an object
        // that owns one is kept, and PyTorch destroys none of its own. (2) The package asks for that too.
        unsafe { gpu.adopt_stream(handle) }
    }

    fn record<B: Backend, P: Launchable>(
        launcher: &mut Launcher<B, P>,
        memory: &mut Registry,
    ) -> Result<(), Error> {
        // SAFETY: (1) a launcher that was recorded, its registry and all that is registered there are kept until its user closes
        // it, which the package asks to do after the last replay, and for ever where nobody does. (2, 3) The package asks for
        // replays in the order of the launcher's stream, and to leave alone what they touch.
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

/// Records a plan's copies into the graph that the engine's stream is being captured into.
pub fn record_copies<D: Direction>(
    engine: &mut CopyEngine<'_>,
    memory: &mut Registry,
    plan: &PagePlan<D>,
) -> Result<(), Error> {
    // SAFETY: as for `record` of a launcher.
    unsafe { engine.record(memory, plan, CopyCalls::Each) }
}

/// Lets peers of a transport read a range of registered memory, and its own reads write it. What keeps the agent keeps the registry,
/// and the registry the memory, until the agent is gone, and so are the lists and reads of its consumers.
#[cfg(feature = "nixl")]
pub fn lend(agent: &mut Agent, range: MemoryRange) -> Result<(), NixlError> {
    // SAFETY: (1) the range lies in one region, of the memory and at the address that the registry says; the region is noted as lent
    // before this, and whoever has the agent keeps that note until it has let go of the agent, and of its lists and reads before: so
    // the region is not released before these are gone. It was registered with CUDA, where that is, before.
    // (2) The package asks its callers to leave alone what peers read, until an export is free, and what reads write, until an import
    // has ended; no Rust reference is made of the bytes, for this package lends none.
    unsafe { agent.register(range) }
}
