//! What runs kernels: the CPU, or a GPU of NVIDIA's.

use std::ffi::c_char;
use std::sync::Arc;

use pagelift::backends;
use pagelift_bindings::Engine;

use crate::foreign::{Out, TextOut};
use crate::handle::{Handle, keep, object};
use crate::status::{Failure, Outcome, Status, answer};

/// What runs kernels. Several registries, launchers and threads may share one; it lives as long as they do, whenever its
/// handle is freed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Backend {
    /// Meaningless but to this library; 0 is none.
    pub value: u64,
}

impl Backend {
    /// What it stands for.
    pub const fn handle(self) -> Handle<Engine> {
        Handle::new(self.value)
    }
}

object!(Engine, Backend);

fn gpu(engine: &Engine) -> Outcome<&backends::Cuda> {
    match engine {
        Engine::Cuda(gpu) => Ok(gpu),
        Engine::Cpu(_) => Err(Failure::new(Status::Backend, "the backend is the CPU, which is no GPU")),
    }
}

/// Opens the CPU as a backend: kernels run on `threads` worker threads (at most 1024; 0 means one for each processor),
/// and a launch is complete when the call returns. 'Device' memory is ordinary memory. Threads do not survive fork():
/// open it in the process that uses it. Free it by `pagelift_backend_free`.
///
/// Errors: PAGELIFT_BACKEND where the threads cannot be started.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_cpu_open(threads: u32, backend: Out<Backend>) -> Status {
    answer(|| {
        let backend = backend.ready("backend")?;
        let engine = Engine::Cpu(Arc::new(backends::Cpu::with_threads(threads as usize)?));
        backend.put(Backend { value: keep(engine)? });
        Ok(())
    })
}

/// Opens the GPU number `ordinal`, as the driver counts, as a backend, in its primary context: that of the CUDA runtime
/// and of PyTorch, which `cuDevicePrimaryCtxRetain` gives. Streams and device memory that are handed over belong to that
/// context; it need not be current in the calling thread. The driver's library is opened here: programs start without
/// one. Loading the kernels may take a second. Free it by `pagelift_backend_free`.
///
/// Errors: PAGELIFT_NO_DRIVER; PAGELIFT_BACKEND where there is no such GPU, or one that cannot run the kernels (compute
/// capability below 8.0); PAGELIFT_DRIVER. Not while any stream of this GPU is being captured.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_cuda_open(ordinal: u32, backend: Out<Backend>) -> Status {
    answer(|| {
        let backend = backend.ready("backend")?;
        let engine = Engine::Cuda(Arc::new(backends::Cuda::open(ordinal)?));
        backend.put(Backend { value: keep(engine)? });
        Ok(())
    })
}

/// Frees a handle of a backend. What uses the backend keeps it.
///
/// Errors: those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_backend_free(backend: Backend) -> Status {
    answer(|| backend.handle().take().map(drop))
}

/// Tells the name of a backend, "cpu" or "cuda", as `pagelift_last_error` tells a message.
///
/// Errors: those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_backend_name(
    backend: Backend,
    buffer: Out<c_char>,
    room: usize,
    needed: Out<usize>,
) -> Status {
    answer(|| {
        let out = TextOut::new(buffer, room, needed)?;
        out.put(backend.handle().look(|engine| Ok(engine.name()))?)
    })
}

/// Tells the name of a GPU, such as "NVIDIA H200", as `pagelift_last_error` tells a message.
///
/// Errors: PAGELIFT_BACKEND for the CPU, those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_backend_device(
    backend: Backend,
    buffer: Out<c_char>,
    room: usize,
    needed: Out<usize>,
) -> Status {
    answer(|| {
        let out = TextOut::new(buffer, room, needed)?;
        out.put(&backend.handle().look(|engine| Ok(gpu(engine)?.device_name().to_owned()))?)
    })
}

/// Facts of a GPU.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GpuFacts {
    /// sizeof(pagelift_gpu_facts).
    pub size: u32,
    /// Multiprocessors: the most workers that a launch can use.
    pub multiprocessors: u32,
    /// Bytes of its memory.
    pub memory_bytes: u64,
    /// The driver's version of CUDA: major.
    pub driver_major: u32,
    /// Minor.
    pub driver_minor: u32,
}

/// Tells facts of a GPU. Set `info->size` before.
///
/// Errors: PAGELIFT_BACKEND for the CPU, PAGELIFT_WRONG_SIZE, those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_backend_info(backend: Backend, info: Out<GpuFacts>) -> Status {
    answer(|| {
        let info = info.sized("info")?;
        info.put_sized(backend.handle().look(|engine| {
            let gpu = gpu(engine)?;
            let (driver_major, driver_minor) = gpu.cuda_version();
            let (multiprocessors, memory_bytes) = (gpu.multiprocessors(), gpu.memory_bytes());
            Ok(GpuFacts { size: 0, multiprocessors, memory_bytes, driver_major, driver_minor })
        })?);
        Ok(())
    })
}
