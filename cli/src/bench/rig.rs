//! How a backend's launches are repeated and timed: as replays of a graph by events of a stream, or as calls by a clock.

use std::rc::Rc;
use std::time::{Duration, Instant};

use pagelift::Error;
use pagelift::backends::{Backend, CopyCalls, Cpu, Cuda, Launchable};
use pagelift::launcher::Launcher;
use pagelift::memory::{RegionId, Registry};
use pagelift::plan::{Direction, PagePlan, RestorePlan};
use serde::Serialize;

use super::BenchError;
use super::beside::{self, Forward};
use super::measure::{BATCH, EACH, GRAPH, Way};

/// Something that is run again and again. It may return before it has run.
pub type Run<'r> = Box<dyn FnMut(&mut Registry) -> Result<(), Error> + 'r>;

/// What one run took.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// From when the stream began until it had finished.
    pub stream: Duration,
    /// Until the call had returned.
    pub host: Duration,
}

/// What figures depend on besides this program.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The GPU or the processor.
    pub device: String,
    /// The driver's version of CUDA; `None` without one.
    pub driver: Option<String>,
    /// Multiprocessors of a GPU, threads of a CPU.
    pub workers: u32,
}

/// A backend that figures are measured on.
pub trait Rig: Backend + Sized {
    /// Whether launches are repeated by graphs, so that those by calls are another way.
    const GRAPHS: bool;

    /// What it is.
    fn machine(&self) -> Machine;

    /// A launcher's staged plan, to be run again and again.
    fn repeated<'r, P: Launchable + 'r>(
        &'r self,
        launcher: Launcher<&'r Self, P>,
        memory: &mut Registry,
    ) -> Result<Run<'r>, Error>;

    /// A launcher whose plan is made and staged anew for each launch.
    fn steps<'r, P: Launchable + 'r>(
        &'r self,
        launcher: Launcher<&'r Self, P>,
        memory: &mut Registry,
        plan: P,
        fill: impl FnMut(&mut P) -> Result<(), Error> + 'r,
    ) -> Result<Run<'r>, Error>;

    /// What one would do without the kernel.
    fn plain<D: Direction>(&self, plan: PagePlan<D>, memory: &mut Registry) -> Result<Vec<Way<'_>>, Error>;

    /// One contiguous copy from region to region.
    fn contiguous(&self, from: RegionId, to: RegionId, bytes: u64) -> Run<'_>;

    /// The ways of restoring beside other work, where there is any.
    fn beside(
        &self,
        forward: Forward,
        memory: &mut Registry,
        plan: impl Fn() -> Result<RestorePlan, BenchError>,
    ) -> Result<Vec<Way<'_>>, BenchError>;

    /// A launch that does nothing.
    fn empty(&self) -> Result<Run<'_>, Error>;

    /// Runs something on an idle stream, waits until it has finished, and says what that took.
    fn time(&self, memory: &mut Registry, run: &mut Run<'_>) -> Result<Sample, Error>;
}

impl Rig for Cuda {
    const GRAPHS: bool = true;

    fn machine(&self) -> Machine {
        let (major, minor) = self.cuda_version();
        Machine {
            device: self.device_name().to_owned(),
            driver: Some(format!("CUDA {major}.{minor}")),
            workers: self.multiprocessors(),
        }
    }

    fn repeated<'r, P: Launchable + 'r>(
        &'r self,
        launcher: Launcher<&'r Self, P>,
        memory: &mut Registry,
    ) -> Result<Run<'r>, Error> {
        let mut replay = self.record(launcher, memory)?;
        Ok(Box::new(move |memory| replay.replay(memory)))
    }

    fn steps<'r, P: Launchable + 'r>(
        &'r self,
        launcher: Launcher<&'r Self, P>,
        memory: &mut Registry,
        mut plan: P,
        mut fill: impl FnMut(&mut P) -> Result<(), Error> + 'r,
    ) -> Result<Run<'r>, Error> {
        let mut replay = self.record(launcher, memory)?;
        Ok(Box::new(move |memory| {
            fill(&mut plan)?;
            replay.stage(memory, &mut plan)?;
            replay.replay(memory)
        }))
    }

    fn plain<D: Direction>(&self, plan: PagePlan<D>, memory: &mut Registry) -> Result<Vec<Way<'_>>, Error> {
        let mut graph = self.copy_engine().graph(memory, &plan)?;
        let mut ways = vec![Way::new(GRAPH, Box::new(move |memory| graph.replay(memory)))];
        let plan = Rc::new(plan);
        let mut add = |name, calls| {
            let (mut engine, plan) = (self.copy_engine(), Rc::clone(&plan));
            ways.push(Way::new(name, Box::new(move |memory| engine.copy(memory, &plan, calls).map(drop))));
        };
        add(EACH, CopyCalls::Each);
        if self.batches_copies() {
            add(BATCH, CopyCalls::Batch);
        }
        Ok(ways)
    }

    fn contiguous(&self, from: RegionId, to: RegionId, bytes: u64) -> Run<'_> {
        Box::new(move |memory| self.copy(&self.stream(), memory, (from, 0), (to, 0), bytes))
    }

    fn beside(
        &self,
        forward: Forward,
        memory: &mut Registry,
        plan: impl Fn() -> Result<RestorePlan, BenchError>,
    ) -> Result<Vec<Way<'_>>, BenchError> {
        beside::ways(self, forward, memory, plan)
    }

    fn empty(&self) -> Result<Run<'_>, Error> {
        let mut graph = self.empty_graph(&self.stream())?;
        Ok(Box::new(move |_| Ok(graph.replay(&self.stream())?)))
    }

    fn time(&self, memory: &mut Registry, run: &mut Run<'_>) -> Result<Sample, Error> {
        let (begun, done, stream) = (self.event()?, self.event()?, self.stream());
        self.wait(&stream)?;
        begun.record(&stream)?;
        let called = Instant::now();
        run(memory)?;
        let host = called.elapsed();
        done.record(&stream)?;
        Ok(Sample { stream: done.elapsed_since(&begun)?, host })
    }
}

impl Rig for Cpu {
    const GRAPHS: bool = false;

    fn machine(&self) -> Machine {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        Machine {
            device: "this machine's processor".into(),
            driver: None,
            workers: u32::try_from(workers).unwrap_or(u32::MAX),
        }
    }

    fn repeated<'r, P: Launchable + 'r>(
        &'r self,
        mut launcher: Launcher<&'r Self, P>,
        _memory: &mut Registry,
    ) -> Result<Run<'r>, Error> {
        Ok(Box::new(move |memory| launcher.launch(memory)))
    }

    fn steps<'r, P: Launchable + 'r>(
        &'r self,
        mut launcher: Launcher<&'r Self, P>,
        _memory: &mut Registry,
        mut plan: P,
        mut fill: impl FnMut(&mut P) -> Result<(), Error> + 'r,
    ) -> Result<Run<'r>, Error> {
        Ok(Box::new(move |memory| {
            fill(&mut plan)?;
            launcher.stage(memory, &mut plan)?;
            launcher.launch(memory)
        }))
    }

    fn plain<D: Direction>(&self, _: PagePlan<D>, _: &mut Registry) -> Result<Vec<Way<'_>>, Error> {
        Ok(Vec::new())
    }

    fn contiguous(&self, from: RegionId, _to: RegionId, bytes: u64) -> Run<'_> {
        // A registry lends one region at a time: the copy goes to memory of its own.
        let mut to = vec![0; usize::try_from(bytes).unwrap_or(0)];
        Box::new(move |memory| memory.read(from, 0, &mut to))
    }

    fn beside(
        &self,
        _: Forward,
        _: &mut Registry,
        _: impl Fn() -> Result<RestorePlan, BenchError>,
    ) -> Result<Vec<Way<'_>>, BenchError> {
        Ok(Vec::new())
    }

    fn empty(&self) -> Result<Run<'_>, Error> {
        Ok(Box::new(|_| Ok(())))
    }

    fn time(&self, memory: &mut Registry, run: &mut Run<'_>) -> Result<Sample, Error> {
        let called = Instant::now();
        run(memory)?;
        let host = called.elapsed();
        Ok(Sample { stream: host, host })
    }
}
