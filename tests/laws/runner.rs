//! Engines in simulation, over every backend: imports are lifted, decoded, mirrored, sealed and published while everything
//! goes wrong that may, and every row is compared.

use std::sync::Arc;

use pagelift::Error;
use pagelift::backends::{Backend, CaptureMode, Cuda, SharedMemory};
use pagelift::error::BackendError;
use pagelift::memory::Registry;
use pagelift::runner::Runner;
use pagelift_cases::draw::Draw;
use pagelift_simulation::engine::Engine;
use pagelift_simulation::faulty::Faulty;
use pagelift_simulation::lockstep::{self, Local, Prepare};
use pagelift_simulation::rank::{Rank, Replay};
use pagelift_simulation::shape::Shape;

use crate::backends::Subject;
use crate::device::{Device, on_devices};

on_devices! { launches_that_run_later, steps_that_are_replayed }

pub fn engines_of_two_ranks<S: Subject>() {
    for seed in 0..6 {
        run(&&S::backend(seed), seed, |_, _| Ok(()));
    }
}

/// On streams whose work may run when the call has long returned.
fn launches_that_run_later(device: &Device) {
    for seed in 0..6 {
        run(&device.gpu, seed, |_, _| Ok(()));
    }
}

/// By graphs into which the engine has recorded what a step launches.
fn steps_that_are_replayed(device: &Device) {
    let stateless = (0..).filter(|seed| !Shape::draw(&mut Draw::seeded(*seed), 2).has_states());
    for seed in stateless.take(6) {
        run(&device.gpu, seed, recorded);
    }
}

fn recorded(gpu: &Arc<Cuda>, rank: &mut Rank<Arc<Cuda>>) -> Result<(), Error> {
    rank.replay_by(|runner, memory| {
        let stream = gpu.stream();
        let record = || record(runner, memory);
        let (mut graph, ()) = gpu.capture(&stream, CaptureMode::ThreadLocal, record)?;
        let replay: Replay<Arc<Cuda>> = Box::new(move |runner, memory, fails| {
            runner.replay(memory, || match fails {
                true => Err(BackendError::NotCapturing.into()),
                false => graph.replay(&stream).map_err(Error::from),
            })
        });
        Ok(replay)
    })
}

fn record(runner: &mut Runner<Faulty<Arc<Cuda>>>, memory: &mut Registry) -> Result<(), Error> {
    // SAFETY: (1) the rank lets its graph go before its runner and its memory; (2, 3) the runner replays it on its own stream.
    unsafe {
        runner.record_before_forward(memory)?;
        runner.record_after_forward(memory)
    }
}

/// An engine of two ranks and twelve imports.
fn run<B: Backend + Clone>(backend: &B, seed: u64, prepare: Prepare<B>) {
    let mut draw = Draw::seeded(seed);
    let shape = Shape::draw(&mut draw, 2);
    let pool = SharedMemory::create("host pool", shape.host_pool().bytes().unwrap()).unwrap();
    let engine = Engine::new(shape, &pool, draw.fork(), 12, None).unwrap();
    let mut ranks = Local::new(shape, backend.clone(), &pool).prepared_by(prepare);
    let tally = lockstep::run(engine, &mut ranks, 2, draw.number(), |_| ());
    let tally = tally.unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}\n{shape:?}"));
    assert!(tally.lifecycle.published > 0 && tally.compared > 0, "{tally:?}");
}
