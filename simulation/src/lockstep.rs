//! A run whose every turn a seed decides: the same seed does the same again.

use std::collections::VecDeque;

use pagelift::Error;
use pagelift::backends::{Backend, SharedMemory};
use pagelift::lifecycle::Event;
use pagelift_cases::draw::Draw;

use crate::engine::{Engine, Tally};
use crate::message::{Command, Reply};
use crate::rank::Rank;
use crate::shape::Shape;

/// Turns without any request's end after which somebody is awaited for ever.
const STUCK: u64 = 200_000;

/// How the ranks are reached: each command is answered before the next one is given.
pub trait Ranks {
    /// Makes a rank, with nothing in its pages.
    ///
    /// # Errors
    /// Where it cannot be made.
    fn start(&mut self, rank: u8) -> Result<(), String>;

    /// Ends a rank, whatever it was about to do.
    fn kill(&mut self, rank: u8);

    /// Gives a command to a rank, and waits for its answer.
    ///
    /// # Errors
    /// Where it does not answer.
    fn call(&mut self, rank: u8, command: Command) -> Result<Reply, String>;
}

/// Ranks that run on the calling thread, in turn.
pub struct Local<'a, B: Backend> {
    shape: Shape,
    backend: B,
    pool: &'a SharedMemory,
    prepare: Prepare<B>,
    ranks: Vec<Option<Rank<B>>>,
}

/// What is done to a rank before its first step.
pub type Prepare<B> = fn(&B, &mut Rank<B>) -> Result<(), Error>;

impl<'a, B: Backend + Clone> Local<'a, B> {
    /// No ranks yet.
    pub fn new(shape: Shape, backend: B, pool: &'a SharedMemory) -> Self {
        let ranks = (0..shape.options.ranks).map(|_| None).collect();
        Self { shape, backend, pool, prepare: |_, _| Ok(()), ranks }
    }

    /// The same, whose ranks are prepared.
    #[must_use]
    pub fn prepared_by(self, prepare: Prepare<B>) -> Self {
        Self { prepare, ..self }
    }
}

impl<B: Backend + Clone> Ranks for Local<'_, B> {
    fn start(&mut self, rank: u8) -> Result<(), String> {
        let words = |error: Error| error.to_string();
        let mut made = Rank::new(self.shape, rank, self.backend.clone(), self.pool).map_err(words)?;
        (self.prepare)(&self.backend, &mut made).map_err(words)?;
        self.ranks[usize::from(rank)] = Some(made);
        Ok(())
    }

    fn kill(&mut self, rank: u8) {
        self.ranks[usize::from(rank)] = None;
    }

    fn call(&mut self, rank: u8, command: Command) -> Result<Reply, String> {
        let rank = self.ranks[usize::from(rank)].as_mut().ok_or("a command for nobody")?;
        Ok(rank.obey(&command))
    }
}

/// A rank, as the driver sees it.
#[derive(Debug, Default)]
struct Side {
    alive: bool,
    /// Whether the scheduler knows that it is not.
    lost: bool,
    idle: bool,
    /// Commands on the way, with the step's number.
    inbox: VecDeque<(Option<u64>, Command)>,
}

/// Everything that is on the way.
struct Run<'r, R> {
    engine: Engine,
    draw: Draw<'static>,
    ranks: &'r mut R,
    sides: Vec<Side>,
    net: Vec<Event<'static>>,
}

/// Runs an engine until all of its requests have ended. `progress` hears how many have.
///
/// # Errors
/// What was not as it must be.
pub fn run(
    engine: Engine,
    ranks: &mut impl Ranks,
    count: u8,
    seed: u64,
    mut progress: impl FnMut(u64),
) -> Result<Tally, String> {
    let sides = (0..count).map(|_| Side { alive: true, idle: true, ..Side::default() }).collect();
    let mut run = Run { engine, draw: Draw::seeded(seed), ranks, sides, net: Vec::new() };
    (0..count).try_for_each(|rank| run.ranks.start(rank))?;
    let (mut ended, mut turns) = (0, 0);
    while !run.is_over() {
        run.turn()?;
        if run.is_quiet() {
            run.engine.check_quiet()?;
        }
        turns += 1;
        if run.engine.ended() > ended {
            (ended, turns) = (run.engine.ended(), 0);
            progress(ended);
        }
        if turns > STUCK {
            return Err("somebody is awaited for ever".into());
        }
        if turns > 0 && turns % (STUCK / 40) == 0 {
            run.engine.make_room()?;
        }
    }
    run.engine.finish()
}

impl<R: Ranks> Run<'_, R> {
    fn is_over(&self) -> bool {
        let quiet = |side: &Side| !side.alive || (side.inbox.is_empty() && side.idle);
        self.engine.is_over() && self.net.is_empty() && self.sides.iter().all(quiet)
    }

    /// Whether nothing is on its way, and no rank has anything to do.
    fn is_quiet(&self) -> bool {
        let quiet = |side: &Side| side.alive && side.inbox.is_empty() && side.idle;
        self.net.is_empty() && !self.engine.has_orders() && self.sides.iter().all(quiet)
    }

    /// Something happens.
    fn turn(&mut self) -> Result<(), String> {
        match self.draw.below(16) {
            0 => self.engine.admit().map(drop),
            1 => {
                for (rank, command) in self.engine.post()? {
                    let side = &mut self.sides[usize::from(rank)];
                    if side.alive {
                        side.inbox.push_back((None, command));
                    }
                }
                Ok(())
            }
            2..=5 => self.engine.advance(),
            6 => {
                self.send();
                Ok(())
            }
            7 => self.live_and_die(),
            8..=11 => self.obey(),
            _ => self.deliver(),
        }
    }

    /// The next step goes to all ranks.
    fn send(&mut self) {
        if !self.engine.has_orders() && self.sides.iter().all(|side| side.idle) {
            return;
        }
        let (number, command) = self.engine.step();
        for side in self.sides.iter_mut().filter(|side| side.alive) {
            let mut command = command.clone();
            if let Command::Step { fault, .. } = &mut command {
                *fault = self.engine.fault();
            }
            side.inbox.push_back((Some(number), command));
        }
    }

    /// Some rank carries out what comes next.
    fn obey(&mut self) -> Result<(), String> {
        let rank = self.draw.below(self.sides.len() as u64) as usize;
        let side = &mut self.sides[rank];
        let Some((step, command)) = side.inbox.pop_front().filter(|_| side.alive) else { return Ok(()) };
        let mut reply = self.ranks.call(rank as u8, command)?;
        side.idle = reply.idle;
        self.engine.take(&mut reply)?;
        if let Some(step) = step.filter(|_| rank == 0) {
            self.engine.ran(step);
        }
        self.net.append(&mut reply.events);
        Ok(())
    }

    /// A message arrives: any of those on the way, and maybe not for the last time.
    fn deliver(&mut self) -> Result<(), String> {
        if self.net.is_empty() {
            return Ok(());
        }
        let at = self.draw.below(self.net.len() as u64) as usize;
        let again = self.engine.goes_wrong();
        let event = if again { self.net[at].clone() } else { self.net.swap_remove(at) };
        self.engine.deliver(&event)
    }

    /// Once in a long while a rank dies; the scheduler hears of it later, and of the one that takes its place.
    fn live_and_die(&mut self) -> Result<(), String> {
        let rank = self.draw.below(self.sides.len() as u64) as usize;
        let (number, side) = (rank as u8, &mut self.sides[rank]);
        match (side.alive, side.lost) {
            (true, _) => {
                if self.draw.once_in(400) && self.engine.goes_wrong() {
                    self.ranks.kill(number);
                    *side = Side::default();
                }
                Ok(())
            }
            (false, false) => {
                side.lost = true;
                self.engine.lose(number)
            }
            (false, true) => {
                // What was ordered before is none of its business.
                self.send_before_joining();
                self.ranks.start(number)?;
                self.sides[rank] = Side { alive: true, idle: true, ..Side::default() };
                self.engine.join(number)
            }
        }
    }

    fn send_before_joining(&mut self) {
        if self.engine.has_orders() {
            self.send();
        }
    }
}
