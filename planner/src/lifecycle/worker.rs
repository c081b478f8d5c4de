//! One rank: what it was told to do, what of it is in which launch, and what it answers.
//!
//! A rank answers each question once, and says it again when it is asked again. It concludes nothing: what becomes of an
//! import it is told.

use super::agenda::Agenda;
use super::event::{Effect, Event};
use super::rank::Rank;
use super::request::RequestId;
use super::round::Answer;
use crate::error::PlanError;
use crate::room::with_room;

/// The plans of a step, one launch each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Host to device: lifts.
    Lift,
    /// Device to host, whole pages: checkpoints and spills.
    WriteBack,
    /// Device to host, rows that a step wrote.
    Mirror,
}

/// Work of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Work {
    /// Lift the request's pages.
    Lift {
        /// The request.
        request: RequestId,
    },
    /// Write its states to the block at a position, in which they belong.
    Checkpoint {
        /// The request.
        request: RequestId,
        /// The position.
        position: u32,
        /// One past the last step that the states have seen.
        steps: u32,
    },
    /// Write its states to the block at a position, to be lifted from there again.
    Save {
        /// The request.
        request: RequestId,
        /// The position.
        position: u32,
        /// One past the last step that the states have seen.
        steps: u32,
    },
    /// Write a page to its block.
    Spill {
        /// The request.
        request: RequestId,
        /// The position.
        position: u32,
        /// Whether it is the request's first: a ring has no positions, and is written with it.
        first: bool,
    },
    /// Write the pages at positions `first..=last` to their blocks: a step's rows that were not mirrored.
    Rewrite {
        /// The request.
        request: RequestId,
        /// The step.
        step: u32,
        /// The first position.
        first: u32,
        /// The last position.
        last: u32,
    },
    /// Mirror what a step wrote, to pages at positions `first..=last`.
    Mirror {
        /// The request.
        request: RequestId,
        /// The step.
        step: u32,
        /// The first position.
        first: u32,
        /// The last position.
        last: u32,
    },
}

impl Work {
    /// Whose it is.
    #[must_use]
    pub const fn request(self) -> RequestId {
        match self {
            Self::Lift { request }
            | Self::Checkpoint { request, .. }
            | Self::Save { request, .. }
            | Self::Spill { request, .. }
            | Self::Rewrite { request, .. }
            | Self::Mirror { request, .. } => request,
        }
    }
}

/// What became of a staged plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Settled {
    /// Its copies are complete and visible.
    Done,
    /// It was overwritten before it ran: its work is planned again.
    Superseded,
    /// It was not carried out, and will not be.
    Failed,
}

/// Numbers that become done in some order, of which one is told how far all are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Run {
    open: Vec<u32>,
    end: u32,
    told: u32,
}

impl Run {
    fn open(&mut self, number: u32) {
        self.open.push(number);
        self.end = self.end.max(number.saturating_add(1));
    }

    /// All before this number are done, if that is news.
    fn close(&mut self, number: u32) -> Option<u32> {
        self.open.retain(|open| *open != number);
        let reached = self.open.iter().copied().min().unwrap_or(self.end);
        let news = reached > self.told;
        self.told = self.told.max(reached);
        news.then_some(reached)
    }

    fn clear(&mut self) {
        self.open.clear();
        (self.end, self.told) = (0, 0);
    }
}

/// What a rank knows of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Entry {
    request: Option<RequestId>,
    /// The question it was asked last, and its answer.
    round: u32,
    answer: Option<Answer>,
    stopping: bool,
    cancelled: bool,
    /// Something of it failed that cannot be done again: that was said.
    broken: bool,
    /// Checkpoints and saves that are not done.
    states: u32,
    steps: Run,
    checkpoints: Run,
    spills: Run,
}

/// One rank's part in the lifecycle.
///
/// It is told what [`Effect`]s ask of ranks, and which steps begin; its plans are made of [`Worker::next`], and what became
/// of them makes it say [`Event`]s.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Worker {
    rank: Rank,
    entries: Vec<Entry>,
    lifts: Agenda<Work>,
    writes: Agenda<Work>,
    mirrors: Agenda<Work>,
    said: Vec<Event<'static>>,
}

impl Worker {
    /// A rank that was told nothing yet.
    ///
    /// # Errors
    /// Where there is no memory for so many requests.
    pub fn new(rank: Rank, requests: u32) -> Result<Self, PlanError> {
        let mut entries = with_room("requests of a rank", requests.into())?;
        for _ in 0..requests {
            entries.push(Entry::default());
        }
        let (lifts, writes, mirrors) = (Agenda::default(), Agenda::default(), Agenda::default());
        Ok(Self { rank, entries, lifts, writes, mirrors, said: Vec::new() })
    }

    /// Its number.
    #[must_use]
    pub const fn rank(&self) -> Rank {
        self.rank
    }

    /// Does what an effect asks of ranks; others are none of its business. Effects come in their order, each once. Only a
    /// question may come again ([`Effect::Lift`], [`Effect::Cancel`], [`Effect::Stop`]), for its round tells that; whatever
    /// else comes again is done again, and a page or a state that is written again later may find its block published.
    pub fn hear(&mut self, effect: &Effect) {
        match *effect {
            Effect::Lift { request, round } => self.lift(request, round),
            Effect::Cancel { request, round } => self.cancel(request, round),
            Effect::Stop { request, round } => self.stop(request, round),
            Effect::Checkpoint { request, position } => {
                self.write(request, |entry| {
                    entry.states = entry.states.saturating_add(1);
                    entry.checkpoints.open(position);
                    Work::Checkpoint { request, position, steps: entry.steps.end }
                });
            }
            Effect::Save { request, position } => {
                self.write(request, |entry| {
                    entry.states = entry.states.saturating_add(1);
                    Work::Save { request, position, steps: entry.steps.end }
                });
            }
            Effect::Spill { request, position } => {
                self.write(request, |entry| {
                    let first = entry.spills.end == 0;
                    entry.spills.open(position);
                    Work::Spill { request, position, first }
                });
            }
            _ => {}
        }
    }

    /// A step begins, which writes to pages at positions `first..=last`.
    pub fn begin(&mut self, request: RequestId, step: u32, first: u32, last: u32) {
        let Some(entry) = entry_of(&mut self.entries, request) else { return };
        entry.steps.open(step);
        self.mirrors.push(Work::Mirror { request, step, first, last });
    }

    /// The next work for a plan, in order: put it in, and say [`Worker::draft`]; or leave it for a later one.
    #[must_use]
    pub fn next(&self, lane: Lane) -> Option<Work> {
        match lane {
            Lane::Lift => self.lifts.next(),
            Lane::WriteBack => self.writes.next().filter(|work| !self.is_too_early(*work)),
            Lane::Mirror => self.mirrors.next(),
        }
    }

    /// Whether a state is to be written that is not computed yet: write-backs are launched before the step that computes it.
    fn is_too_early(&self, work: Work) -> bool {
        let (Work::Checkpoint { request, steps, .. } | Work::Save { request, steps, .. }) = work else {
            return false;
        };
        let before =
            |work| matches!(work, Work::Mirror { request: own, step, .. } if own == request && step < steps);
        self.mirrors.waiting().any(before)
    }

    /// The next work is in the plan.
    pub fn draft(&mut self, lane: Lane) {
        self.agenda(lane).draft();
    }

    /// The next work cannot be put in any plan: it has failed.
    pub fn refuse(&mut self, lane: Lane) {
        if let Some(work) = self.next(lane)
            && self.agenda(lane).withdraw(work)
        {
            self.settle_work(work, false);
        }
    }

    /// Whether it has to lift a request still.
    #[must_use]
    pub fn lifts(&self, request: RequestId) -> bool {
        self.lifts.has(Work::Lift { request })
    }

    /// How much work is in the plan.
    #[must_use]
    pub const fn drafted(&self, lane: Lane) -> usize {
        match lane {
            Lane::Lift => self.lifts.drafted(),
            Lane::WriteBack => self.writes.drafted(),
            Lane::Mirror => self.mirrors.drafted(),
        }
    }

    /// The plan was thrown away, and will be made again: nothing of it was staged.
    pub const fn undraft(&mut self, lane: Lane) {
        match lane {
            Lane::Lift => self.lifts.undraft(),
            Lane::WriteBack => self.writes.undraft(),
            Lane::Mirror => self.mirrors.undraft(),
        }
    }

    /// The plan was staged as a ticket with this number.
    pub fn staged(&mut self, lane: Lane, ticket: u64) {
        self.agenda(lane).staged(ticket);
    }

    /// Tickets that are not settled.
    pub fn tickets(&self, lane: Lane) -> impl Iterator<Item = u64> {
        match lane {
            Lane::Lift => self.lifts.tickets(),
            Lane::WriteBack => self.writes.tickets(),
            Lane::Mirror => self.mirrors.tickets(),
        }
    }

    /// Requests that a launch of this ticket may be lifting.
    pub fn lifted_by(&self, ticket: u64) -> impl Iterator<Item = RequestId> {
        self.lifts.of(ticket).map(Work::request)
    }

    /// Work that a launch may be doing.
    pub fn in_flight(&self) -> impl Iterator<Item = Work> {
        self.lifts.in_flight().chain(self.writes.in_flight()).chain(self.mirrors.in_flight())
    }

    /// Work that no launch is doing: it waits for a plan, or for the plan that it is in to be staged.
    pub fn waiting(&self) -> impl Iterator<Item = Work> {
        self.lifts.waiting().chain(self.writes.waiting()).chain(self.mirrors.waiting())
    }

    /// Whether it has nothing to do.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.lifts.is_idle() && self.writes.is_idle() && self.mirrors.is_idle()
    }

    /// What became of a ticket.
    pub fn settle(&mut self, lane: Lane, ticket: u64, settled: Settled) {
        if settled == Settled::Superseded {
            // The last one first, as each is put in front.
            while let Some(work) = self.agenda(lane).settle_last(ticket) {
                self.again(lane, work);
            }
            return;
        }
        while let Some(work) = self.agenda(lane).settle(ticket) {
            self.settle_work(work, settled == Settled::Done);
        }
    }

    /// What it has to say to the scheduler, the earliest first.
    pub fn say(&mut self) -> impl Iterator<Item = Event<'static>> {
        self.said.drain(..)
    }

    const fn agenda(&mut self, lane: Lane) -> &mut Agenda<Work> {
        match lane {
            Lane::Lift => &mut self.lifts,
            Lane::WriteBack => &mut self.writes,
            Lane::Mirror => &mut self.mirrors,
        }
    }

    fn lift(&mut self, request: RequestId, round: u32) {
        let Some(entry) = slot_of(&mut self.entries, request) else { return };
        match entry.request {
            // It was told again, too late.
            Some(newer) if newer > request => return,
            Some(same) if same == request => {}
            // Whoever had the slot before has ended, so nothing of it is left.
            _ => entry.renew(request),
        }
        if !entry.ask(round) {
            return self.repeat(request, round);
        }
        (entry.stopping, entry.cancelled) = (false, false);
        self.lifts.push(Work::Lift { request });
    }

    fn cancel(&mut self, request: RequestId, round: u32) {
        let Some(entry) = entry_of(&mut self.entries, request) else { return };
        if entry.round != round || entry.answer.is_some() {
            return self.repeat(request, round);
        }
        entry.cancelled = true;
        if self.lifts.withdraw(Work::Lift { request }) {
            self.answer(request, Answer::Acknowledged);
        }
    }

    fn stop(&mut self, request: RequestId, round: u32) {
        let Some(entry) = entry_of(&mut self.entries, request) else { return };
        if !entry.ask(round) {
            return self.repeat(request, round);
        }
        entry.stopping = true;
        self.rest(request);
    }

    fn write(&mut self, request: RequestId, work: impl FnOnce(&mut Entry) -> Work) {
        let Some(entry) = entry_of(&mut self.entries, request) else { return };
        self.writes.push(work(entry));
    }

    /// Says again what it answered.
    fn repeat(&mut self, request: RequestId, round: u32) {
        let Some(entry) = entry_of(&mut self.entries, request) else { return };
        if let Some(answer) = entry.answer.filter(|_| entry.round == round) {
            self.said.push(Event::Answer { request, round, rank: self.rank, answer });
        }
    }

    fn answer(&mut self, request: RequestId, answer: Answer) {
        let Some(entry) = entry_of(&mut self.entries, request) else { return };
        entry.answer = Some(answer);
        let round = entry.round;
        self.said.push(Event::Answer { request, round, rank: self.rank, answer });
    }

    /// Answers a stop, if nothing of the request is left to do.
    fn rest(&mut self, request: RequestId) {
        let Some(entry) = entry_of(&mut self.entries, request) else { return };
        let busy = entry.states > 0 || !entry.steps.open.is_empty() || !entry.spills.open.is_empty();
        if entry.stopping && entry.answer.is_none() && !busy {
            let answer = if entry.broken { Answer::Failed } else { Answer::Done };
            self.answer(request, answer);
        }
    }

    /// Work of a plan that was overwritten before it ran.
    fn again(&mut self, lane: Lane, work: Work) {
        let request = work.request();
        let Some(entry) = entry_of(&mut self.entries, request) else { return };
        match work {
            // Nobody wants it any more, and it has not begun.
            Work::Lift { .. } if entry.cancelled => self.answer(request, Answer::Acknowledged),
            // The step's slot mapping is gone, but its rows are in their pages.
            Work::Mirror { request, step, first, last } => {
                self.writes.put_back(Work::Rewrite { request, step, first, last });
            }
            // Later steps have changed the state: what it was cannot be had any more.
            Work::Checkpoint { steps, .. } if entry.steps.end > steps => self.settle_work(work, false),
            _ => self.agenda(lane).put_back(work),
        }
    }

    fn settle_work(&mut self, work: Work, done: bool) {
        let (request, rank) = (work.request(), self.rank);
        let Some(entry) = entry_of(&mut self.entries, request) else { return };
        if let Work::Lift { .. } = work {
            return self.answer(request, if done { Answer::Done } else { Answer::Failed });
        }
        // After something is missing, nothing is said to be reached: it would speak for what is missing too.
        let breaks = !done && !std::mem::replace(&mut entry.broken, true);
        let broken = entry.broken;
        let news = match work {
            Work::Lift { .. } => None,
            Work::Save { .. } => {
                entry.states = entry.states.saturating_sub(1);
                None
            }
            Work::Checkpoint { position, .. } => {
                entry.states = entry.states.saturating_sub(1);
                let pages = entry.checkpoints.close(position);
                pages.map(|pages| Event::Checkpointed { request, rank, pages })
            }
            Work::Spill { position, .. } => {
                entry.spills.close(position).map(|pages| Event::Spilled { request, rank, pages })
            }
            Work::Rewrite { step, .. } | Work::Mirror { step, .. } => {
                let end = entry.steps.close(step);
                end.map(|end| Event::Mirrored { request, rank, step: end.saturating_sub(1) })
            }
        };
        self.said.extend(news.filter(|_| !broken));
        self.said.extend(Some(Event::Broken { request, rank }).filter(|_| breaks));
        self.rest(request);
    }
}

impl Entry {
    fn renew(&mut self, request: RequestId) {
        let Self { mut steps, mut checkpoints, mut spills, .. } = std::mem::take(self);
        steps.clear();
        checkpoints.clear();
        spills.clear();
        *self = Self { request: Some(request), steps, checkpoints, spills, ..Self::default() };
    }

    /// Takes a new question; `false` for one that was asked before.
    fn ask(&mut self, round: u32) -> bool {
        let new = round > self.round;
        if new {
            (self.round, self.answer) = (round, None);
        }
        new
    }
}

fn slot_of(entries: &mut [Entry], request: RequestId) -> Option<&mut Entry> {
    entries.get_mut(usize::try_from(request.slot()).ok()?)
}

fn entry_of(entries: &mut [Entry], request: RequestId) -> Option<&mut Entry> {
    slot_of(entries, request).filter(|entry| entry.request == Some(request))
}
