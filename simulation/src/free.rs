//! A run in which everybody goes as fast as he can: what is told to ranks, and what they say, crosses on the way.
//!
//! It does not do the same again. What the lifecycle heard and said does, from its log.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use pagelift_cases::draw::Draw;

use crate::engine::{Engine, Tally};
use crate::links::Links;
use crate::lockstep::Ranks;
use crate::message::{Command, Reply};

/// Commands that a rank is given before it has answered the first.
const MOST_OPEN: usize = 3;

/// How long nothing may end before somebody is awaited for ever.
const STUCK: Duration = Duration::from_secs(60);

/// A rank, as the scheduler sees it.
#[derive(Debug)]
struct Side {
    /// Whether the scheduler knows it to be gone.
    lost: bool,
    idle: bool,
    /// Commands that it has not answered, steps with their numbers.
    open: VecDeque<Option<u64>>,
    /// What waits, because too many are open.
    waiting: VecDeque<(Option<u64>, Command)>,
}

impl Side {
    const fn new() -> Self {
        Self { lost: false, idle: true, open: VecDeque::new(), waiting: VecDeque::new() }
    }
}

struct Run<'r, 'p> {
    engine: Engine,
    draw: Draw<'static>,
    links: &'r mut Links<'p>,
    sides: Vec<Side>,
}

/// Runs an engine until all of its requests have ended. `progress` hears how many have.
///
/// # Errors
/// What was not as it must be.
pub fn run(
    engine: Engine,
    links: &mut Links<'_>,
    count: u8,
    seed: u64,
    mut progress: impl FnMut(u64),
) -> Result<Tally, String> {
    let sides = (0..count).map(|_| Side::new()).collect();
    let mut run = Run { engine, draw: Draw::seeded(seed), links, sides };
    (0..count).try_for_each(|rank| run.links.start(rank))?;
    let (mut ended, mut since, mut room) = (0, Instant::now(), Instant::now());
    while !run.is_over() {
        run.turn()?;
        if run.engine.ended() > ended {
            (ended, since, room) = (run.engine.ended(), Instant::now(), Instant::now());
            progress(ended);
        }
        if since.elapsed() > STUCK {
            return Err("somebody is awaited for ever".into());
        }
        if room.elapsed() > Duration::from_millis(50) {
            run.engine.make_room()?;
            room = Instant::now();
        }
    }
    run.engine.finish()
}

impl Run<'_, '_> {
    fn is_over(&self) -> bool {
        let quiet = |side: &Side| side.lost || (side.idle && side.open.is_empty() && side.waiting.is_empty());
        self.engine.is_over() && self.sides.iter().all(quiet)
    }

    /// Takes what has come, does something, and tells the ranks.
    fn turn(&mut self) -> Result<(), String> {
        let busy = self.sides.iter().all(|side| side.lost || side.open.len() >= MOST_OPEN);
        let mut within = if busy { Duration::from_millis(1) } else { Duration::ZERO };
        while let Some((rank, reply)) = self.links.receive(within)? {
            self.hear(rank, reply)?;
            within = Duration::ZERO;
        }
        self.engine.admit()?;
        for (rank, command) in self.engine.post()? {
            self.give(rank, None, command);
        }
        for _ in 0..8 {
            self.engine.advance()?;
        }
        self.live_and_die()?;
        let ready = |side: &Side| side.lost || side.waiting.is_empty();
        if self.sides.iter().all(ready) {
            self.step();
        }
        self.send()
    }

    fn hear(&mut self, rank: u8, mut reply: Reply) -> Result<(), String> {
        let side = &mut self.sides[usize::from(rank)];
        side.idle = reply.idle;
        let step = side.open.pop_front().flatten().filter(|_| rank == 0);
        self.engine.take(&mut reply)?;
        reply.events.iter().try_for_each(|event| self.engine.deliver(event))?;
        if let Some(step) = step {
            self.engine.ran(step);
        }
        Ok(())
    }

    fn give(&mut self, rank: u8, step: Option<u64>, command: Command) {
        let side = &mut self.sides[usize::from(rank)];
        if !side.lost {
            side.waiting.push_back((step, command));
        }
    }

    /// The next step for all ranks.
    fn step(&mut self) {
        let left = |side: &Side| !side.lost && !side.idle && side.open.is_empty();
        if !self.engine.has_orders() && !self.sides.iter().any(left) {
            return;
        }
        let (number, command) = self.engine.step();
        for rank in 0..self.sides.len() {
            let mut command = command.clone();
            if let Command::Step { fault, .. } = &mut command {
                *fault = self.engine.fault();
            }
            self.give(rank as u8, Some(number), command);
        }
    }

    /// Sends what ranks have room for.
    fn send(&mut self) -> Result<(), String> {
        for (rank, side) in (0..).zip(&mut self.sides).filter(|(_, side)| !side.lost) {
            while side.open.len() < MOST_OPEN
                && let Some((step, command)) = side.waiting.pop_front()
            {
                side.open.push_back(step);
                self.links.send(rank, command)?;
            }
        }
        Ok(())
    }

    /// Once in a long while a rank is killed, whatever it does, and another one takes its place.
    fn live_and_die(&mut self) -> Result<(), String> {
        let rank = self.draw.below(self.sides.len() as u64) as usize;
        let number = rank as u8;
        if !self.sides[rank].lost {
            if self.draw.once_in(1000) && self.engine.goes_wrong() {
                self.links.kill(number);
                self.sides[rank] = Side { lost: true, ..Side::new() };
                self.engine.lose(number)?;
            }
        } else if self.draw.once_in(20) {
            // What was ordered before is none of its business.
            if self.engine.has_orders() {
                self.step();
            }
            self.links.start(number)?;
            self.sides[rank] = Side::new();
            self.engine.join(number)?;
        }
        Ok(())
    }
}
