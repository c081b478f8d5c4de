//! Small runs of the simulation, and that it would notice if something were wrong.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what it expects by panicking")]

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use pagelift::backends::{Cpu, SharedMemory};
use pagelift::lifecycle::{Answer, Event, Lifecycle, LogEntry, LogHeader, Order, Rank};
use pagelift_cases::draw::Draw;
use pagelift_simulation::engine::{Engine, Tally};
use pagelift_simulation::lockstep::{self, Local, Ranks};
use pagelift_simulation::message::{Command, Fault, Reply};
use pagelift_simulation::run::{Mode, Plan};
use pagelift_simulation::shape::Shape;

/// What was written, kept.
#[derive(Clone, Debug, Default)]
struct Text(Arc<Mutex<Vec<u8>>>);

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Text {
    fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut self.0.lock().unwrap())).unwrap()
    }
}

/// One engine's run, and its log.
fn run(mode: Mode, seed: u64, imports: u64) -> (Tally, String) {
    let log = Text::default();
    let program = Path::new(env!("CARGO_BIN_EXE_simulation"));
    let tally = Plan { seed, mode, imports }.run(program, Some(Box::new(log.clone())), |_| ());
    (tally.unwrap_or_else(|wrong| panic!("{wrong}")), log.take())
}

fn engines(mode: Mode, seeds: std::ops::Range<u64>, imports: u64) {
    for seed in seeds.clone() {
        let (tally, _) = run(mode, seed, imports);
        let counters = tally.lifecycle;
        assert_eq!(counters.admitted, imports);
        assert_eq!(counters.finished + counters.aborted + counters.failed, imports, "all have ended");
        assert!(counters.published > 0 && tally.compared > 1000, "{tally:?}");
    }
}

#[test]
fn case_13_case_14_case_16_case_17_threads_that_take_turns() {
    engines(Mode::Threads, 0..6, 100);
}

#[test]
fn case_13_case_14_case_16_case_17_processes_that_take_turns() {
    engines(Mode::Processes, 20..22, 100);
}

#[test]
fn case_13_case_14_case_16_case_17_threads_as_fast_as_they_can() {
    engines(Mode::FreeThreads, 40..43, 200);
}

#[test]
fn case_13_case_14_case_16_case_17_processes_as_fast_as_they_can() {
    engines(Mode::FreeProcesses, 60..62, 200);
}

#[test]
fn a_seed_does_the_same_again() {
    let (_, first) = run(Mode::Threads, 7, 60);
    let (_, again) = run(Mode::Threads, 7, 60);
    assert!(first.lines().count() > 500 && first == again);
}

#[test]
fn a_log_of_any_run_is_played_again() {
    let (tally, log) = run(Mode::FreeThreads, 8, 60);
    let mut lines = log.lines();
    let header: LogHeader = serde_json::from_str(lines.next().unwrap()).unwrap();
    let mut lifecycle = Lifecycle::new(header.options).unwrap();
    for line in lines {
        let entry: LogEntry<'_> = serde_json::from_str(line).unwrap();
        assert_eq!(lifecycle.record(entry.event.clone()), entry);
    }
    assert_eq!(lifecycle.counters(), tally.lifecycle);
}

/// A rank that does otherwise than it says, once in a while.
struct Liar<'a> {
    ranks: Local<'a, &'a Cpu>,
    lie: fn(&mut Command) -> Vec<Event<'static>>,
    calls: u32,
}

impl Ranks for Liar<'_> {
    fn start(&mut self, rank: u8) -> Result<(), String> {
        self.ranks.start(rank)
    }

    fn kill(&mut self, rank: u8) {
        self.ranks.kill(rank);
    }

    fn call(&mut self, rank: u8, mut command: Command) -> Result<Reply, String> {
        self.calls += 1;
        let lies = if self.calls > 40 && rank == 0 { (self.lie)(&mut command) } else { Vec::new() };
        let mut reply = self.ranks.call(rank, command)?;
        reply.events.extend(lies);
        Ok(reply)
    }
}

/// A run in which a rank is given other commands than it should be, and says more than it should.
fn misled(lie: fn(&mut Command) -> Vec<Event<'static>>) -> Result<Tally, String> {
    let mut draw = Draw::seeded(3);
    let shape = Shape::draw(&mut draw, 1);
    let pool = SharedMemory::create("host pool", shape.host_pool().bytes().unwrap()).unwrap();
    let engine = Engine::new(shape, &pool, draw.fork(), 100, None).unwrap();
    let cpu = Cpu::with_threads(1).unwrap();
    let mut ranks = Liar { ranks: Local::new(shape, &cpu, &pool), lie, calls: 0 };
    lockstep::run(engine, &mut ranks, 1, draw.number(), |_| ())
}

/// What a run says in which a rank lies.
fn noticed(lie: fn(&mut Command) -> Vec<Event<'static>>) -> String {
    misled(lie).unwrap_err()
}

#[test]
fn case_16_mirrors_that_are_not_launched_or_cannot_be_staged_in_turn_are_made_good() {
    let tally = misled(|command| {
        if let Command::Step { computes, fault, .. } = command
            && let Some(compute) = computes.first()
        {
            *fault = if compute.from % 2 == 0 { Fault::NoMirror } else { Fault::Uploads };
        }
        Vec::new()
    });
    assert!(tally.unwrap().lifecycle.published > 50);
}

#[test]
fn other_rows_than_were_asked_for_are_noticed() {
    let wrong = noticed(|command| {
        if let Command::Read { landings, .. } = command {
            landings.iter_mut().for_each(|landing| landing.first = landing.end);
        }
        Vec::new()
    });
    assert!(wrong.contains("does not hold the row of token"), "{wrong}");
}

#[test]
fn a_lift_that_was_only_said_to_be_done_is_noticed() {
    let wrong = noticed(|command| {
        let Command::Step { orders, .. } = command else { return Vec::new() };
        let answers = orders.iter().filter_map(|order| match order {
            Order::Lift { request, round, .. } => {
                let (request, round, rank) = (*request, *round, Rank::new(0));
                Some(Event::Answer { request, round, rank, answer: Answer::Done })
            }
            _ => None,
        });
        let answers = answers.collect();
        orders.retain(|order| !matches!(order, Order::Lift { .. }));
        answers
    });
    assert!(wrong.contains("does not hold the row of token"), "{wrong}");
}

#[test]
fn rows_that_are_not_mirrored_are_noticed() {
    let wrong = noticed(|command| {
        if let Command::Step { orders, .. } = command {
            orders.retain(|order| !matches!(order, Order::Map { .. }));
        }
        Vec::new()
    });
    assert!(wrong.contains("published") && wrong.contains("does not hold the row of token"), "{wrong}");
}
