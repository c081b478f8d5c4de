//! Copies by the GPU's copy engines, which need no multiprocessor.
//!
//! The same checked plans as the kernels', spelled out run by run. Measured on one H200 over PCIe Gen5: a kernel reaches
//! 51 GB/s with two to four multiprocessors where pieces have 4 KiB or more, and a copy engine 55 GB/s; but each piece costs
//! it about 1.2 µs more in a batch, and 2.9 µs by itself. So a batch wins where pieces are larger than about a megabyte
//! (whole states), single copies where they are larger than two, and either saves multiprocessors. Rows at equal distances go
//! by one call each, but no faster: 122 of 96 short rows took eight times as long as the kernel. Under capture only single
//! copies are possible, and a plan in a graph of copies is fixed.

use std::sync::Arc;

use super::calls::RowsCopy;
use super::{CaptureMode, Cuda, CudaEvent, CudaGraph, CudaStream};
use crate::backends::bound_pools::Pools;
use crate::backends::{Backend, NoCapture, refuse_capture};
use crate::error::{BackendError, Error};
use crate::geometry::Geometry;
use crate::memory::{RegionId, Registry};
use crate::plan::{CopyRun, Direction, PagePlan, Plan};

/// What carries out a page plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyMethod {
    /// A kernel, by a [`Launcher`](crate::launcher::Launcher).
    Kernel,
    /// Copy engines, by a [`CopyEngine`].
    Copies(CopyCalls),
    /// One of them, as [`CopyMethod::resolve`] says.
    #[default]
    Auto,
}

/// How copy engines are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyCalls {
    /// By one call for each run of bytes, or of rows at equal distances.
    Each,
    /// By one call for all: `cuMemcpyBatchAsync`, of drivers for CUDA 12.8 and later, on streams other than the default one.
    Batch,
}

impl CopyCalls {
    /// Pieces of at least so many bytes, on average, are copied faster by these calls than by a kernel: on an H200 it is as fast
    /// at 0.7 and at 2.0 MiB.
    const fn pays_from(self) -> u64 {
        match self {
            Self::Each => 2 << 20,
            Self::Batch => 1 << 20,
        }
    }
}

impl CopyMethod {
    /// What carries out this plan on this stream: `Auto` becomes the kernel while the stream is being captured, for copies
    /// on the device, and for pieces that are too small on average; else copy engines, by one call where the driver has it.
    /// The others stay what they are.
    ///
    /// A piece is what lies together on both sides, as far as it does in the plan's order; of rows at equal distances each is
    /// one. One call for all pays from 1 MiB on, a call for each from 2 MiB.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn resolve<D: Direction>(
        self,
        gpu: &Cuda,
        stream: &CudaStream,
        plan: &PagePlan<D>,
    ) -> Result<Self, BackendError> {
        if self != Self::Auto {
            return Ok(self);
        }
        let batch = gpu.batches_copies() && !stream.is_default();
        let calls = if batch { CopyCalls::Batch } else { CopyCalls::Each };
        if D::SOURCE == D::DESTINATION || !pays(plan, calls) || stream.is_capturing()? {
            return Ok(Self::Kernel);
        }
        Ok(Self::Copies(calls))
    }
}

/// Whether a plan's pieces are large enough for copy engines.
fn pays<D: Direction>(plan: &PagePlan<D>, calls: CopyCalls) -> bool {
    let most = plan.bytes().map_or(0, |bytes| bytes.get()) / calls.pays_from();
    let mut left = most;
    // Counting ends where there are too many.
    let mut runs = CopyRun::joined(plan.copies());
    most > 0 && runs.all(|run| left.checked_sub(run.rows.into()).map(|rest| left = rest).is_some())
}

/// Carries out page plans by copy engines, on one stream.
///
/// It has no table and no tickets: a plan is enqueued when it is copied, once, and an event says when it is done.
///
/// ```no_run
/// # use pagelift::backends::{CopyCalls, Cuda};
/// # use pagelift::memory::Registry;
/// # use pagelift::plan::RestorePlan;
/// # fn engine(gpu: &Cuda, mut memory: Registry, plan: RestorePlan) -> Result<(), pagelift::Error> {
/// let mut engine = gpu.copy_engine();
/// let done = engine.copy(&mut memory, &plan, CopyCalls::Each)?;
/// // … and when the host asks:
/// if done.is_passed()? { /* all bytes have arrived */ }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct CopyEngine<'g> {
    gpu: &'g Cuda,
    stream: CudaStream,
    pools: Option<Pools>,
    /// The plan's runs, and the same for the driver: kept for their room.
    runs: Vec<CopyRun>,
    lists: Lists,
}

/// What one batch copies.
#[derive(Debug, Default)]
struct Lists {
    to: Vec<u64>,
    from: Vec<u64>,
    bytes: Vec<usize>,
}

/// Page plans' copies in a graph of their own. The plan is fixed: each replay copies the same blocks again.
#[derive(Debug)]
pub struct CopyGraph {
    graph: CudaGraph,
    stream: CudaStream,
    pools: Pools,
}

impl Cuda {
    /// A copy engine on the backend's stream.
    #[must_use]
    pub fn copy_engine(&self) -> CopyEngine<'_> {
        self.copy_engine_on(&Backend::stream(self))
    }

    /// A copy engine on a stream of this GPU. What it copies there comes after nothing that is on others.
    #[must_use]
    pub fn copy_engine_on(&self, stream: &CudaStream) -> CopyEngine<'_> {
        CopyEngine {
            gpu: self,
            stream: stream.clone(),
            pools: None,
            runs: Vec::new(),
            lists: Lists::default(),
        }
    }

    /// Whether the driver takes many copies in one call.
    #[must_use]
    pub fn batches_copies(&self) -> bool {
        self.context().batch().is_some()
    }

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
        let _uncaptured = refuse_capture(self, stream, "a copy")?;
        let [from, to] = [from, to].map(|(region, at)| memory.part(region, at, bytes, Backend::reach(self)));
        let (from, to) = (from?.address(), to?.address());
        memory.launched(stream.launches());
        // SAFETY: both ends are registered and within reach, and stay: the registry was told, and waits.
        self.context()
            .within(|calls| unsafe { calls.copy(to, from, length(bytes), stream.raw()) })
            .map_err(Error::from)
    }
}

impl CopyEngine<'_> {
    /// Uses another stream from now on. What is copied there comes after what is on the one before.
    ///
    /// # Errors
    /// As [`Launcher::set_stream`](crate::launcher::Launcher::set_stream).
    pub fn set_stream(&mut self, stream: &CudaStream) -> Result<(), Error> {
        self.gpu.chain(&self.stream, stream)?;
        self.stream = stream.clone();
        Ok(())
    }

    /// Copies what a plan says, after what is on the stream, and returns before that has finished: the stream passes the
    /// event then, which has no [time](CudaEvent::elapsed_since).
    ///
    /// # Errors
    /// Where a pool is not registered or out of reach, the stream is being captured, or there are no
    /// [batches](CopyCalls::Batch), or none on this stream: nothing was enqueued then. Where the driver fails, some of it may have been.
    pub fn copy<D: Direction>(
        &mut self,
        memory: &mut Registry,
        plan: &PagePlan<D>,
        calls: CopyCalls,
    ) -> Result<CudaEvent, Error> {
        let _uncaptured = refuse_capture(self.gpu, &self.stream, "a plan of copies")?;
        let done = self.gpu.untimed_event()?;
        self.enqueue(memory, plan, calls)?;
        done.record(&self.stream)?;
        Ok(done)
    }

    /// Records a plan's copies into the graph that the stream is being captured into, each by itself. Each replay copies the
    /// same blocks again.
    ///
    /// # Safety
    /// 1. The registry and what is registered live as long as that graph may be replayed.
    /// 2. While a replay may run, nobody else touches what the plan reads and writes; [`Registry::bytes`] does not know of
    ///    it.
    ///
    /// # Errors
    /// [`BackendError::NotCapturing`], and as [`CopyEngine::copy`]. A batch is refused: the driver cannot capture it, and the
    /// graph would lack the copies.
    pub unsafe fn record<D: Direction>(
        &mut self,
        memory: &mut Registry,
        plan: &PagePlan<D>,
        calls: CopyCalls,
    ) -> Result<(), Error> {
        if !Backend::is_capturing(self.gpu, &self.stream)? {
            return Err(BackendError::NotCapturing.into());
        }
        if calls == CopyCalls::Batch {
            return Err(BackendError::BatchInCapture.into());
        }
        self.enqueue(memory, plan, calls)?;
        Ok(())
    }

    /// Records a plan's copies into a graph of their own, each by itself.
    ///
    /// # Errors
    /// As [`CopyEngine::record`], and those of the driver.
    pub fn graph<D: Direction>(
        &mut self,
        memory: &mut Registry,
        plan: &PagePlan<D>,
    ) -> Result<CopyGraph, Error> {
        let (gpu, stream) = (self.gpu, self.stream.clone());
        let body = || {
            // SAFETY: (1) each replay sees to it that the pools are still registered, and (2) tells the registry, which
            // waits before it lends a byte.
            unsafe { self.record(memory, plan, CopyCalls::Each) }?;
            Ok(self.check(memory, plan.geometry())?.clone())
        };
        let (graph, pools) = gpu.capture(&stream, CaptureMode::ThreadLocal, body)?;
        Ok(CopyGraph { graph, stream, pools })
    }

    /// Finds the geometry's pools in the registry, if that was not done before.
    fn check(&mut self, memory: &Registry, geometry: &Arc<Geometry>) -> Result<&Pools, Error> {
        let pools = match self.pools.take().filter(|pools| pools.are_of(memory, geometry)) {
            Some(mut pools) => pools.check(memory).map(|()| pools)?,
            None => Pools::find(memory, geometry, Backend::reach(self.gpu))?,
        };
        Ok(self.pools.insert(pools))
    }

    fn enqueue<D: Direction>(
        &mut self,
        memory: &mut Registry,
        plan: &PagePlan<D>,
        calls: CopyCalls,
    ) -> Result<(), Error> {
        self.check(memory, plan.geometry())?;
        let batch = match calls {
            CopyCalls::Each => None,
            CopyCalls::Batch if self.stream.is_default() => {
                return Err(BackendError::BatchOnDefaultStream.into());
            }
            CopyCalls::Batch => Some(self.gpu.context().batch().ok_or(BackendError::NoBatches)?),
        };
        self.runs.clear();
        self.runs.extend(plan.copies());
        CopyRun::join(&mut self.runs);
        memory.launched(self.stream.launches());
        let Self { gpu, stream, runs, lists, .. } = self;
        lists.clear();
        for run in &*runs {
            match (batch, run.source) {
                (Some(_), Some(_)) => lists.push(run),
                // SAFETY: (1) a plan's runs lie in pools of its geometry, which are registered and within reach, and write
                // no byte twice nor one that is read; they stay, for the registry was told, or by what `record` asks for.
                _ => unsafe { one(gpu, stream, run) }?,
            }
        }
        if let Some(batch) = batch.filter(|_| !lists.bytes.is_empty()) {
            let Lists { to, from, bytes } = lists;
            gpu.context().within(|calls| {
                // SAFETY: as above; the three lists have one length, and the driver reads them before it returns.
                unsafe { calls.copy_batch(batch, to, from, bytes, stream.raw()) }
            })?;
        }
        Ok(())
    }
}

impl CopyGraph {
    /// Copies the plan once more, after what is on the stream that it was recorded from. It returns before that has finished.
    ///
    /// # Errors
    /// Where the registry is another one than the plan was recorded for, a pool is not registered any more or the stream is being
    /// captured, and those of the driver.
    pub fn replay(&mut self, memory: &mut Registry) -> Result<(), Error> {
        let _uncaptured = NoCapture::where_none(|| self.stream.is_capturing(), "a replay")?;
        self.pools.check(memory)?;
        memory.launched(self.stream.launches());
        Ok(self.graph.replay(&self.stream)?)
    }
}

impl Lists {
    fn clear(&mut self) {
        self.to.clear();
        self.from.clear();
        self.bytes.clear();
    }

    /// Adds each row of a run that has a source.
    fn push(&mut self, run: &CopyRun) {
        for row in run.each() {
            self.to.push(row.destination);
            self.from.push(row.source.unwrap_or(0));
            self.bytes.push(length(row.bytes));
        }
    }
}

/// Enqueues one run.
///
/// # Safety
/// 1. Both ends are memory that the GPU reaches, and stay until the stream has got there; nobody else writes them, or reads
///    the destination.
unsafe fn one(gpu: &Cuda, stream: &CudaStream, run: &CopyRun) -> Result<(), BackendError> {
    let (to, stream) = (run.destination, stream.raw());
    let (bytes, rows) = (length(run.bytes), run.rows as usize);
    let [from_pitch, to_pitch] = [run.source_stride, run.destination_stride].map(length);
    gpu.context().within(|calls| {
        // SAFETY: (1) is ours.
        unsafe {
            match (run.source, rows) {
                (Some(from), 1) => calls.copy(to, from, bytes, stream),
                (Some(from), _) => {
                    let copy = RowsCopy::new((from, from_pitch), (to, to_pitch), bytes, rows);
                    calls.copy_rows(&raw const copy, stream)
                }
                (None, 1) => calls.fill(to, 0, bytes, stream),
                (None, _) => calls.fill_rows(to, to_pitch, 0, bytes, rows, stream),
            }
        }
    })
}

/// Bytes, as the driver counts them.
fn length(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
