//! Engines in simulation, over every backend: imports are lifted, decoded, mirrored, sealed and published while everything
//! goes wrong that may, and every row is compared.

use std::sync::Arc;

use pagelift::Error;
use pagelift::backends::{Backend, CaptureMode, Cuda, SharedMemory};
use pagelift::error::BackendError;
use pagelift::import::Policy;
use pagelift::lifecycle::{Admission, Answer, Event, Lifecycle, Order};
use pagelift::memory::Registry;
use pagelift::quantity::Tokens;
use pagelift::runner::Runner;
use pagelift_cases::draw::Draw;
use pagelift_fake_driver::Machine;
use pagelift_simulation::engine::Engine;
use pagelift_simulation::faulty::Faulty;
use pagelift_simulation::lockstep::{self, Local, Prepare};
use pagelift_simulation::message::{Command, Fault};
use pagelift_simulation::rank::{Rank, Replay};
use pagelift_simulation::shape::Shape;

use crate::backends::{Subject, software};
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

#[test]
fn a_rank_that_has_lost_its_gpu_says_so_once_and_nothing_more() {
    let shape = Shape::draw(&mut Draw::seeded(1), 1);
    let pool = SharedMemory::create("host pool", shape.host_pool().bytes().unwrap()).unwrap();
    let mut lifecycle = Lifecycle::new(shape.options).unwrap();
    let (prompt, policy) = (Tokens::new(3), Policy::LiftTail);
    let admission = Admission { prompt, policy, producer: false, hashes: vec![].into() };
    lifecycle.apply(&Event::Admit(admission)).unwrap();
    let orders: Vec<Order> = lifecycle.orders().collect();
    let step = |orders| {
        let (computes, lift_bytes, fault) = (Vec::new(), u64::MAX, Fault::None);
        Command::Step { orders, computes, lift_bytes, fault }
    };
    let mut lost = 0;
    for after in 0.. {
        let machine = Machine::new(1);
        let gpu = Arc::new(Cuda::open_with(&software(&machine).unwrap(), 0).unwrap());
        let mut rank = Rank::new(shape, 0, Arc::clone(&gpu), &pool).unwrap();
        // `CUDA_ERROR_ILLEGAL_ADDRESS`, from each of the calls in turn.
        machine.fail(after, 700);
        let mut events = rank.obey(&step(orders.clone())).events;
        for _ in 0..3 {
            events.append(&mut rank.obey(&step(Vec::new())).events);
        }
        if machine.spare() {
            assert!(events.iter().any(|event| matches!(event, Event::Answer { answer: Answer::Done, .. })));
            break;
        }
        if gpu.is_lost() {
            lost += 1;
            let told = events.iter().position(|event| matches!(event, Event::RankLost { .. }));
            assert_eq!(told, Some(events.len() - 1), "call {after}: {events:?}");
        }
    }
    assert!(lost > 5, "only {lost} calls");
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
