//! What runs kernels: the CPU, or a GPU of NVIDIA's.

use std::sync::Arc;

use pagelift::backends::{self, Backend as _, Reach};
use pagelift_bindings::{Engine, on_engine};
use pyo3::prelude::*;

use crate::calibration::Calibration;
use crate::error::OrRaise;

/// The GPU that a backend's kernels run on.
pub fn gpu_of(engine: &Engine) -> Option<u32> {
    match on_engine!(engine, backend => backend.reach()) {
        Reach::Gpu(ordinal) => Some(ordinal),
        Reach::Process | Reach::Mapped => None,
    }
}

/// What runs kernels: `Cpu` or `Cuda`. Several launchers and threads may share one.
#[pyclass(frozen, subclass, module = "pagelift")]
pub struct Backend(pub Engine);

#[pymethods]
impl Backend {
    /// `"cpu"` or `"cuda"`.
    #[getter]
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn __repr__(&self) -> String {
        on_engine!(&self.0, backend => format!("{backend:?}"))
    }
}

/// Runs kernels on worker threads; a launch is complete when the call returns. 'Device' memory is ordinary memory.
///
/// `threads` are the threads to use, at most 1024; 0 means one for each processor. Threads do not survive `fork`: open it in
/// the process that uses it; in one that was forked off later, whoever launches copies alone. Raises `BackendError` where they cannot
/// be started.
#[pyclass(frozen, extends = Backend, module = "pagelift")]
pub struct Cpu;

#[pymethods]
impl Cpu {
    #[new]
    #[pyo3(signature = (threads=0))]
    fn new(threads: usize) -> PyResult<PyClassInitializer<Self>> {
        let engine = Engine::Cpu(Arc::new(backends::Cpu::with_threads(threads).or_raise()?));
        Ok(PyClassInitializer::from(Backend(engine)).add_subclass(Self))
    }
}

/// Runs kernels on one NVIDIA GPU, in its primary context, which PyTorch and the CUDA runtime use too.
///
/// `ordinal` is the GPU's number as the driver counts, which is PyTorch's where `CUDA_VISIBLE_DEVICES` is the same. The driver
/// is opened here: importing pagelift needs none. Raises `NoDriverError` where there is no driver, `BackendError` where there is
/// no such GPU, or one that cannot run the kernels (compute capability below 8.0). With a `calibration`, launches whose `workers` is
/// `None` use as many multiprocessors as it says.
#[pyclass(frozen, extends = Backend, module = "pagelift")]
pub struct Cuda {
    /// The library's.
    pub gpu: Arc<backends::Cuda>,
}

#[pymethods]
impl Cuda {
    #[new]
    #[pyo3(signature = (ordinal=0, *, calibration=None))]
    fn new(
        py: Python<'_>,
        ordinal: u32,
        calibration: Option<Calibration>,
    ) -> PyResult<PyClassInitializer<Self>> {
        // The driver may compile the kernels.
        let gpu = py.detach(|| backends::Cuda::open(ordinal)).or_raise()?;
        let gpu = Arc::new(match calibration {
            Some(calibration) => gpu.with_calibration(calibration.0),
            None => gpu,
        });
        Ok(PyClassInitializer::from(Backend(Engine::Cuda(Arc::clone(&gpu)))).add_subclass(Self { gpu }))
    }

    /// The GPU's name.
    #[getter]
    fn device(&self) -> &str {
        self.gpu.device_name()
    }

    /// Where the GPU is on the PCI bus: `0000:1B:00.0`.
    #[getter]
    fn bus(&self) -> &str {
        self.gpu.bus()
    }

    /// What tells the GPU from every other one, as `nvidia-smi -L` writes it.
    #[getter]
    fn uuid(&self) -> String {
        self.gpu.uuid()
    }

    /// What was measured on it, where anybody has said it.
    #[getter]
    fn calibration(&self) -> Option<Calibration> {
        self.gpu.calibration().map(Calibration)
    }

    /// Whether its driver takes many copies in one call: `CopyEngine.copy` with `"batch"`.
    #[getter]
    fn batches_copies(&self) -> bool {
        self.gpu.batches_copies()
    }

    /// Its multiprocessors: the most `workers` that a launch can use.
    #[getter]
    fn multiprocessors(&self) -> u32 {
        self.gpu.multiprocessors()
    }

    /// Bytes of memory that it has.
    #[getter]
    fn memory_bytes(&self) -> u64 {
        self.gpu.memory_bytes()
    }

    /// The driver's version of CUDA, major and minor.
    #[getter]
    fn driver(&self) -> (u32, u32) {
        self.gpu.cuda_version()
    }
}
