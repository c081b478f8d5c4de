//! One engine's run: what its seed says, and how its ranks run.

use std::fmt;
use std::io::Write;
use std::path::Path;

use pagelift::backends::SharedMemory;
use pagelift_cases::draw::Draw;

use crate::engine::{Engine, Tally};
use crate::links::{Home, Links};
use crate::shape::Shape;
use crate::{free, lockstep};

/// How ranks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// Four threads, each waiting for its turn: the same seed does the same again.
    Threads,
    /// Two processes, in the same way.
    Processes,
    /// Four threads that run as fast as they can.
    FreeThreads,
    /// Two processes that run as fast as they can.
    FreeProcesses,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Threads => "threads",
            Self::Processes => "processes",
            Self::FreeThreads => "free-threads",
            Self::FreeProcesses => "free-processes",
        })
    }
}

/// One engine.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// What decides everything that may be decided.
    pub seed: u64,
    /// How its ranks run.
    pub mode: Mode,
    /// Requests.
    pub imports: u64,
}

impl Plan {
    /// Runs it; ranks that are processes run `program`.
    ///
    /// # Errors
    /// What was not as it must be, and in which engine.
    pub fn run(
        self,
        program: &Path,
        log: Option<Box<dyn Write + Send>>,
        progress: impl FnMut(u64),
    ) -> Result<Tally, String> {
        let Self { seed, mode, imports } = self;
        let (ranks, home) = match mode {
            Mode::Threads | Mode::FreeThreads => (4, Home::Threads),
            Mode::Processes | Mode::FreeProcesses => (2, Home::Processes(program.into())),
        };
        let mut draw = Draw::seeded(seed);
        let shape = Shape::draw(&mut draw, ranks);
        let wrong = |wrong: String| format!("seed {seed}, {mode}: {wrong}\n{shape:?}");
        let bytes = shape.host_pool().bytes().map_err(|error| wrong(error.to_string()))?;
        let pool = SharedMemory::create("host pool", bytes).map_err(|error| wrong(error.to_string()))?;
        let engine = Engine::new(shape, &pool, draw.fork(), imports, log).map_err(wrong)?;
        let mut links = Links::new(shape, &pool, home);
        let turns = draw.number();
        match mode {
            Mode::Threads | Mode::Processes => lockstep::run(engine, &mut links, ranks, turns, progress),
            _ => free::run(engine, &mut links, ranks, turns, progress),
        }
        .map_err(wrong)
    }
}
