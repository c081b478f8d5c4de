//! The backends that the laws are held against.

use std::num::NonZeroU32;
use std::sync::{Arc, OnceLock};

use pagelift::Error;
use pagelift::backends::{
    Backend, Buffer, Cpu, Cuda, CudaDriver, CudaStream, Emulated, Kernel, Reach, Registrar, Shape,
};
use pagelift::error::BackendError;
use pagelift::geometry::Memory;

use pagelift_cases::draw::Draw;
use pagelift_fake_driver::{Machine, Pace};

/// One way to run kernels; a seed decides what may vary.
pub trait Subject {
    type Backend: Backend;
    fn backend(seed: u64) -> Self::Backend;
}

/// The engine, on the calling thread.
pub enum OneThread {}
/// The engine, on two threads.
pub enum TwoThreads {}
/// 32 lanes a warp.
pub enum Warps {}
/// One lane a warp: warps of the engine, in any order.
pub enum SingleLanes {}

impl Subject for OneThread {
    type Backend = &'static Cpu;
    fn backend(_: u64) -> &'static Cpu {
        static CPU: OnceLock<Cpu> = OnceLock::new();
        CPU.get_or_init(|| Cpu::with_threads(1).unwrap())
    }
}

impl Subject for TwoThreads {
    type Backend = &'static Cpu;
    fn backend(_: u64) -> &'static Cpu {
        static CPU: OnceLock<Cpu> = OnceLock::new();
        CPU.get_or_init(|| Cpu::with_threads(2).unwrap())
    }
}

impl Subject for Warps {
    type Backend = Emulated;
    fn backend(seed: u64) -> Emulated {
        emulated(seed, 32)
    }
}

impl Subject for SingleLanes {
    type Backend = Emulated;
    fn backend(seed: u64) -> Emulated {
        emulated(seed, 1)
    }
}

fn emulated(seed: u64, lanes: u32) -> Emulated {
    let mut draw = Draw::seeded(seed);
    let shape = Shape { blocks: draw.pick(&[1, 1, 2, 5]), warps: draw.pick(&[1, 4]), lanes };
    Emulated { shape, seed: draw.number() }
}

/// A GPU whose launches have finished when the call returns: so the laws need not know that it has streams.
pub enum Gpu {}
/// The CUDA backend over a driver in software.
pub enum Software {}

/// The first GPU. Tests that need one are ignored, unless somebody who has one asks for them.
pub fn shared_gpu() -> &'static Arc<Cuda> {
    static GPU: OnceLock<Arc<Cuda>> = OnceLock::new();
    GPU.get_or_init(|| Arc::new(Cuda::open(0).unwrap()))
}

impl Subject for Gpu {
    type Backend = Waiting;
    fn backend(_: u64) -> Waiting {
        Waiting(Arc::clone(shared_gpu()))
    }
}

impl Subject for Software {
    type Backend = Waiting;
    fn backend(seed: u64) -> Waiting {
        thread_local! {
            static GPU: (Machine, Arc<Cuda>) = {
                let machine = Machine::new(1);
                let driver = software(&machine).unwrap();
                (machine, Arc::new(Cuda::open_with(&driver, 0).unwrap()))
            };
        }
        GPU.with(|(machine, gpu)| {
            machine.seed(seed);
            machine.pace(Draw::seeded(seed).pick(&[Pace::Late, Pace::Early, Pace::Random]));
            Waiting(Arc::clone(gpu))
        })
    }
}

/// The driver of a machine in software.
pub fn software(machine: &Machine) -> Result<CudaDriver, BackendError> {
    // SAFETY: (1) the machine's calls have the driver's signatures and keep its promises, and are functions of this program.
    unsafe { CudaDriver::from_symbols(|name| machine.symbol(name)) }
}

/// Waits for each launch.
#[derive(Clone, Debug)]
pub struct Waiting(Arc<Cuda>);

impl Waiting {
    fn settle(&self, enqueued: Result<(), BackendError>) -> Result<(), BackendError> {
        enqueued?;
        self.0.synchronize().unwrap();
        Ok(())
    }
}

// SAFETY: (1, 2, 5, 7) those of `Cuda`; (3, 4, 6) what is enqueued has run when the call returns.
unsafe impl Backend for Waiting {
    type Stream = CudaStream;

    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn stream(&self) -> CudaStream {
        self.0.stream()
    }

    fn reach(&self) -> Reach {
        self.0.reach()
    }

    fn registrar(&self) -> Arc<dyn Registrar> {
        self.0.registrar()
    }

    fn allocate(&self, place: Memory, bytes: u64) -> Result<Buffer, Error> {
        self.0.allocate(place, bytes)
    }

    unsafe fn upload(
        &self,
        stream: &CudaStream,
        from: &Buffer,
        to: &mut Buffer,
        bytes: usize,
    ) -> Result<(), BackendError> {
        // SAFETY: (1) is ours.
        self.settle(unsafe { self.0.upload(stream, from, to, bytes) })
    }

    unsafe fn clear(&self, stream: &CudaStream, buffer: &mut Buffer) -> Result<(), BackendError> {
        // SAFETY: (1) is ours.
        self.settle(unsafe { self.0.clear(stream, buffer) })
    }

    unsafe fn launch(
        &self,
        stream: &CudaStream,
        workers: Option<NonZeroU32>,
        kernel: Kernel,
    ) -> Result<(), BackendError> {
        // SAFETY: (1) is ours.
        self.settle(unsafe { self.0.launch(stream, workers, kernel) })
    }
}
