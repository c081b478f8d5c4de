//! A restore beside other work of the GPU: what it adds to that work, and when its bytes are there.
//!
//! The other work is computed by a [`StandIn`], which fills multiprocessors as a forward does and touches no memory.

use std::cell::Cell;
use std::rc::Rc;

use pagelift::Error;
use pagelift::backends::{
    Backend as _, CaptureMode, CopyCalls, Cuda, CudaEvent, CudaGraph, CudaStream, StandIn,
};
use pagelift::launcher::{Launcher, LauncherOptions};
use pagelift::memory::Registry;
use pagelift::plan::RestorePlan;

use super::BenchError;
use super::draft::USUAL;
use super::measure::Way;
use super::rig::Run;

/// The work that a restore is beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward {
    /// Four kernels of as many blocks and as much time as a product of two 8192 × 8192 matrices of bf16 has. The restore is
    /// asked for when the first begins.
    Products,
    /// A graph of 61 kernels of about 15 µs, each of many small blocks. The restore is asked for when it begins.
    Step,
}

/// The other work alone, and with a kernel's restore before the rest of it.
pub const ALONE: &str = "the work alone";
pub const IN_ORDER: &str = "kernel in order";
/// With a restore on another stream.
pub const BRANCH: &str = "kernel on a branch";
const BRANCH_GRAPH: &str = "memcpys on a branch";
const BRANCH_BATCH: &str = "a batch on a branch";

/// Layers of a step.
const LAYERS: u32 = 61;

/// Kernels of one size.
#[derive(Clone, Copy)]
struct Size {
    blocks: u32,
    threads: u32,
    rounds: u32,
}

/// Streams and events, and the other work in two parts.
struct Scene<'g> {
    gpu: &'g Cuda,
    main: CudaStream,
    branch: CudaStream,
    asked: CudaEvent,
    /// What comes after the restore was asked for, and after that.
    first: Part<'g>,
    rest: Part<'g>,
}

/// Enqueues a part of the other work.
type Part<'g> = Box<dyn Fn() -> Result<(), Error> + 'g>;

/// The ways of restoring what a plan says beside other work.
pub fn ways<'g>(
    gpu: &'g Cuda,
    forward: Forward,
    memory: &mut Registry,
    plan: impl Fn() -> Result<RestorePlan, BenchError>,
) -> Result<Vec<Way<'g>>, BenchError> {
    let scene = Rc::new(Scene::new(gpu, forward)?);
    let (first, rest) = (Rc::clone(&scene), Rc::clone(&scene));
    let alone = move |_: &mut Registry| (first.first)().and_then(|()| (rest.rest)());
    let mut ways = vec![Way::beside(ALONE, Box::new(alone))];

    for (name, stream) in [(IN_ORDER, &scene.main), (BRANCH, &scene.branch)] {
        let mut plan = plan()?;
        let options = LauncherOptions { workers: Some(USUAL), repeat: true, ..LauncherOptions::default() };
        let mut launcher = Launcher::bind(gpu, memory, &mut plan, options)?;
        launcher.set_stream(stream)?;
        launcher.stage(memory, &mut plan)?;
        let mut replay = gpu.record(launcher, memory)?;
        let way = scene.way(name, stream, Box::new(move |memory| replay.replay(memory)))?;
        ways.push(way.within(USUAL.get()));
    }
    let engine = || {
        let mut engine = gpu.copy_engine();
        engine.set_stream(&scene.branch).map(|()| engine)
    };
    let mut graph = engine()?.graph(memory, &plan()?)?;
    ways.push(scene.way(BRANCH_GRAPH, &scene.branch, Box::new(move |memory| graph.replay(memory)))?);
    if gpu.batches_copies() {
        let (mut engine, plan) = (engine()?, plan()?);
        let batch = move |memory: &mut Registry| engine.copy(memory, &plan, CopyCalls::Batch).map(drop);
        ways.push(scene.way(BRANCH_BATCH, &scene.branch, Box::new(batch))?);
    }
    Ok(ways)
}

impl<'g> Scene<'g> {
    fn new(gpu: &'g Cuda, forward: Forward) -> Result<Self, BenchError> {
        let (main, branch) = (gpu.stream(), gpu.new_stream()?);
        let work = Rc::new(gpu.stand_in()?);
        let (first, rest): (Part<'g>, Part<'g>) = match forward {
            Forward::Products => {
                // Tiles of 256 × 128, one to a multiprocessor; 1.6 ms, as of 700 TFLOPS.
                let size = Size { blocks: (8192 / 256) * (8192 / 128), threads: 512, rounds: 1 };
                let size = taking(gpu, &work, &main, size, 1600.0)?;
                let one = product(&work, &main, size);
                let another = product(&work, &main, size);
                (Box::new(one), Box::new(move || (0..3).try_for_each(|_| another())))
            }
            Forward::Step => {
                let size = Size { blocks: 64 * gpu.multiprocessors(), threads: 128, rounds: 1 };
                let size = taking(gpu, &work, &main, size, 15.0)?;
                let layers = || (0..LAYERS).try_for_each(|_| product(&work, &main, size)());
                let (graph, ()) = gpu.capture(&main, CaptureMode::ThreadLocal, layers)?;
                let (graph, stream) = (Cell::new(Some(graph)), main.clone());
                (Box::new(|| Ok(())), Box::new(move || replay(&graph, &stream)))
            }
        };
        Ok(Self { gpu, main, branch, asked: gpu.event()?, first, rest })
    }

    /// A way of restoring on a stream: the main one, between the parts of the other work, or the branch, beside them.
    fn way(
        self: &Rc<Self>,
        name: &'static str,
        on: &CudaStream,
        restore: Run<'g>,
    ) -> Result<Way<'g>, BenchError> {
        let done = Rc::new(self.gpu.event()?);
        let (scene, restored, on, mut restore) = (Rc::clone(self), Rc::clone(&done), on.clone(), restore);
        let run = move |memory: &mut Registry| {
            scene.asked.record(&scene.main)?;
            on.wait_for(&scene.asked)?;
            (scene.first)()?;
            restore(memory)?;
            restored.record(&on)?;
            (scene.rest)()?;
            Ok(scene.main.wait_for(&restored)?)
        };
        let scene = Rc::clone(self);
        let restored = move || Ok(done.elapsed_since(&scene.asked)?);
        Ok(Way { restored: Some(Box::new(restored)), ..Way::new(name, Box::new(run)) })
    }
}

/// Enqueues one kernel.
fn product(work: &Rc<StandIn>, stream: &CudaStream, size: Size) -> impl Fn() -> Result<(), Error> + use<> {
    let (work, stream) = (Rc::clone(work), stream.clone());
    move || Ok(work.enqueue(&stream, size.blocks, size.threads, size.rounds)?)
}

/// Replays a graph that is behind a shared reference.
fn replay(graph: &Cell<Option<CudaGraph>>, stream: &CudaStream) -> Result<(), Error> {
    let Some(mut own) = graph.take() else { return Ok(()) };
    let replayed = own.replay(stream);
    graph.set(Some(own));
    Ok(replayed?)
}

/// As many rounds as take about so many microseconds.
fn taking(
    gpu: &Cuda,
    work: &StandIn,
    stream: &CudaStream,
    size: Size,
    microseconds: f64,
) -> Result<Size, BenchError> {
    let (begun, done) = (gpu.event()?, gpu.event()?);
    let time = |rounds: u32| -> Result<f64, Error> {
        begun.record(stream)?;
        work.enqueue(stream, size.blocks, size.threads, rounds)?;
        done.record(stream)?;
        Ok(done.elapsed_since(&begun)?.as_secs_f64() * 1e6)
    };
    // The first launch loads the kernel.
    time(1)?;
    let (few, many) = (time(10)?, time(110)?);
    let each = (many - few) / 100.0;
    // Where no time passes, one round does.
    let rounds = if each > 0.0 { ((microseconds - few).max(0.0) / each) as u32 + 10 } else { 1 };
    Ok(Size { rounds: rounds.max(1), ..size })
}
