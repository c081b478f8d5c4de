//! What becomes of staged plans: each takes effect in exactly one launch, or was superseded, and its ticket says so.

use pagelift::Error;
use pagelift::error::LaunchError;
use pagelift::id::Ticket;
use pagelift::launcher::{Launcher, LauncherOptions, Report, TicketState};
use pagelift::plan::{Plan as _, RestorePlan, TailRows};
use pagelift_cases::draw::Draw;
use pagelift_cases::lift::LiftCall;
use pagelift_cases::memory::Image;

use crate::backends::Subject;
use crate::lifts::{ROOM, simple};
use crate::mirror;
use crate::page_map::Fixture;
use crate::world::World;

const DONE: TicketState = TicketState::Done(Report { bad: 0, rows: 0, skipped: 0 });

/// A small world and a launcher of lifts.
pub struct Lifts<S: Subject> {
    pub world: World,
    pub plan: RestorePlan,
    pub launcher: Launcher<S::Backend, RestorePlan>,
}

impl<S: Subject> Lifts<S> {
    pub fn new(options: LauncherOptions) -> Self {
        Self::with(&mut Draw::seeded(5), options)
    }

    fn with(draw: &mut Draw, options: LauncherOptions) -> Self {
        let backend = S::backend(draw.number());
        let world = World::small(&backend);
        let mut plan = RestorePlan::new(world.geometry(), ROOM).unwrap();
        let launcher = Launcher::bind(backend, &world.pools.memory, &mut plan, options).unwrap();
        Self { world, plan, launcher }
    }

    pub fn try_stage(&mut self, prompts: &[LiftCall]) -> Result<Ticket, Error> {
        self.plan.clear();
        prompts.iter().for_each(|prompt| self.world.lift(&mut self.plan, prompt));
        self.launcher.stage(&self.world.pools.memory, &mut self.plan)
    }

    pub fn stage(&mut self, prompts: &[LiftCall]) -> Ticket {
        self.try_stage(prompts).unwrap()
    }

    /// Launches over new bytes, and expects the effect of these prompts and no other.
    pub fn launch(&mut self, prompts: &[LiftCall]) {
        let seed = self.launcher.counters().launches;
        self.world.fill(&mut Draw::seeded(seed));
        let expected = self.expected(prompts);
        self.launcher.launch(&mut self.world.pools.memory).unwrap();
        self.world.assert_is(&expected);
    }

    fn expected(&self, prompts: &[LiftCall]) -> Image {
        let mut expected = self.world.image();
        prompts.iter().for_each(|prompt| {
            self.world.expect(&mut expected, prompt);
        });
        expected
    }

    fn states<const N: usize>(&self, tickets: [Ticket; N]) -> [TicketState; N] {
        tickets.map(|ticket| self.launcher.state(ticket))
    }
}

pub fn slots(slots: u32) -> LauncherOptions {
    LauncherOptions { slots, ..LauncherOptions::default() }
}

/// Some rows of block 1 to page 0.
pub fn one() -> LiftCall {
    simple(3, &[1], 0, TailRows::Exact)
}

/// Block 2 to page 2.
pub fn two() -> LiftCall {
    simple(6, &[0, 2], 2, TailRows::Whole)
}

pub fn an_empty_plan_completes<S: Subject>() {
    let mut it = Lifts::<S>::new(slots(2));
    let ticket = it.stage(&[]);
    assert_eq!(it.launcher.state(ticket), TicketState::Pending);
    it.launch(&[]);
    assert_eq!(it.launcher.state(ticket), DONE);
}

pub fn a_plan_runs_in_exactly_one_launch<S: Subject>() {
    let mut it = Lifts::<S>::new(slots(2));
    let ticket = it.stage(&[one(), two()]);
    it.launch(&[one(), two()]);
    for _ in 0..3 {
        // The source has changed since, and nobody copies it.
        it.launch(&[]);
    }
    assert_eq!(it.launcher.state(ticket), DONE);
    assert_eq!((it.launcher.counters().launches, it.launcher.counters().done), (4, 1));
}

pub fn a_repeated_plan_runs_every_time<S: Subject>() {
    let mut it = Lifts::<S>::new(LauncherOptions { repeat: true, ..slots(1) });
    let first = it.stage(&[one()]);
    for _ in 0..3 {
        it.launch(&[one()]);
        assert_eq!(it.launcher.state(first), DONE);
    }
    let second = it.stage(&[two()]);
    assert_eq!(it.states([first, second]), [DONE, TicketState::Pending]);
    it.launch(&[two()]);
    it.launch(&[two()]);
    assert_eq!(it.states([first, second]), [DONE, DONE]);
}

pub fn nothing_staged_is_nothing_done<S: Subject>() {
    let mut it = Lifts::<S>::new(LauncherOptions { repeat: true, ..slots(2) });
    it.launch(&[]);
    it.launch(&[]);
    for ticket in [0, 1, 2, 64, u64::MAX] {
        assert_eq!(it.launcher.state(Ticket::new(it.launcher.id(), ticket)), TicketState::Unknown);
    }
    let counters = it.launcher.counters();
    assert_eq!((counters.staged, counters.launches, counters.done, counters.bytes), (0, 2, 0, Some(0)));
    let ticket = it.stage(&[one()]);
    it.launch(&[one()]);
    assert_eq!(it.launcher.state(ticket), DONE);
}

pub fn the_last_plan_staged_supersedes<S: Subject>() {
    let mut it = Lifts::<S>::new(slots(4));
    let tickets = [it.stage(&[one()]), it.stage(&[one(), two()]), it.stage(&[two()])];
    assert_eq!(it.states(tickets), [TicketState::Pending; 3]);
    it.launch(&[two()]);
    assert_eq!(it.states(tickets), [TicketState::Superseded, TicketState::Superseded, DONE]);
    // What was superseded is planned again.
    let again = it.stage(&[one()]);
    it.launch(&[one()]);
    assert_eq!(it.launcher.state(again), DONE);
    let counters = it.launcher.counters();
    assert_eq!((counters.staged, counters.done, counters.superseded), (4, 2, 2));
}

pub fn a_full_ring_is_an_error_and_no_more<S: Subject>() {
    for count in [1, 2, 64] {
        let mut it = Lifts::<S>::new(slots(count));
        let tickets: Vec<Ticket> = (0..count).map(|_| it.stage(&[one()])).collect();
        let before = (it.world.image(), it.launcher.counters());
        for _ in 0..2 {
            let error = it.try_stage(&[two()]).unwrap_err();
            let Error::Launch(LaunchError::RingFull { slots, oldest }) = error else { panic!("{error:?}") };
            assert_eq!((slots, oldest), (count, tickets[0]));
        }
        it.world.assert_is(&before.0);
        assert_eq!(it.launcher.counters(), before.1);
        assert!(tickets.iter().all(|&ticket| it.launcher.state(ticket) == TicketState::Pending));
        // What was staged last is still what runs.
        it.launch(&[one()]);
        for (index, &ticket) in tickets.iter().enumerate() {
            let last = index + 1 == tickets.len();
            assert_eq!(it.launcher.state(ticket), if last { DONE } else { TicketState::Superseded });
        }
        for _ in 0..3 {
            let ticket = it.stage(&[two()]);
            it.launch(&[two()]);
            assert_eq!(it.launcher.state(ticket), DONE);
        }
    }
}

pub fn a_smaller_plan_leaves_the_larger_one_behind<S: Subject>() {
    for repeat in [false, true] {
        let mut it = Lifts::<S>::new(LauncherOptions { repeat, ..slots(1) });
        let zeroed = || simple(2, &[1], 0, TailRows::ExactZeroed);
        it.stage(&[zeroed(), two()]);
        it.launch(&[zeroed(), two()]);
        // Jobs of the larger plan still lie in the table, past the count.
        it.stage(&[two()]);
        it.launch(&[two()]);
        it.stage(&[]);
        it.launch(&[]);
        it.stage(&[one()]);
        it.launch(&[one()]);
    }
}

pub fn old_tickets_are_unknown<S: Subject>() {
    let mut it = Lifts::<S>::new(slots(3));
    let tickets: Vec<Ticket> = (0..150)
        .map(|_| {
            let ticket = it.stage(&[]);
            it.launcher.launch(&mut it.world.pools.memory).unwrap();
            ticket
        })
        .collect();
    let states: Vec<TicketState> = tickets.iter().map(|&ticket| it.launcher.state(ticket)).collect();
    let forgotten = 150 - 64 - 3;
    assert!(states[..forgotten].iter().all(|&state| state == TicketState::Unknown));
    assert!(states[forgotten..].iter().all(|&state| state == DONE));
    assert_eq!(it.launcher.state(Ticket::new(it.launcher.id(), 151)), TicketState::Unknown);
    assert_eq!(it.launcher.counters().done, 150);
}

pub fn counters_add_up<S: Subject>() {
    // Before anything is staged they tell what kind of plan it is.
    let counters = Lifts::<S>::new(slots(2)).launcher.counters();
    assert_eq!((counters.bytes, counters.rows, counters.skipped), (Some(0), None, None));
    let rows = Fixture::new(S::backend(1), mirror::ROOM, false).0.launcher.counters();
    assert_eq!((rows.bytes, rows.rows, rows.skipped), (None, Some(0), Some(0)));
    let mut it = Lifts::<S>::new(slots(4));
    let row: u64 = 2 * (16 + 4);
    it.stage(&[one(), two()]);
    it.stage(&[one()]);
    it.launch(&[one()]);
    it.launch(&[]);
    let counters = it.launcher.counters();
    assert_eq!((counters.staged, counters.launches, counters.jobs), (2, 2, 3));
    assert_eq!(counters.bytes, Some((3 + 4 + 3) * row));
    assert_eq!((counters.done, counters.superseded), (1, 1));

    let (mut it, mut plan) = Fixture::new(S::backend(11), crate::mirror::ROOM, false);
    it.map(&mut plan, 0, 1).unwrap();
    for _ in 0..7 {
        it.stage(&mut plan).unwrap();
        it.launch(&[(0, 1)]);
    }
    it.unmap(&mut plan, 0);
    it.stage(&mut plan).unwrap();
    it.launch(&[]);
    let counters = it.launcher.counters();
    assert_eq!((counters.rows, counters.skipped, counters.bad), (Some(7 * 4), Some(7 * 8 + 12), 0));
    assert_eq!((counters.staged, counters.jobs, counters.bytes, counters.done), (8, 8, None, 8));
}

/// Any order of stagings and launches, against a model.
pub fn any_order<S: Subject>(seed: u64) {
    let mut draw = Draw::seeded(seed);
    let options = LauncherOptions { repeat: draw.once_in(3), ..slots(draw.pick(&[1, 2, 3, 5])) };
    let mut it = Lifts::<S>::with(&mut draw, options);
    let ring = u64::from(options.slots);
    // Of each ticket, whether it ran; and the prompts of the last one.
    let mut ran = vec![false];
    let mut table: Vec<LiftCall> = Vec::new();
    let (mut bytes, mut jobs, mut launches) = (0, 0, 0);
    for _ in 0..draw.pick(&[20, 120]) {
        let last = ran.len() as u64 - 1;
        let state = |ran: &[bool], ticket: u64| match ran.get(ticket as usize) {
            None => TicketState::Unknown,
            Some(true) => DONE,
            Some(false) if ran[ticket as usize..].contains(&true) => TicketState::Superseded,
            Some(false) => TicketState::Pending,
        };
        if draw.once_in(2) {
            let prompts: Vec<LiftCall> = [one(), two()].into_iter().filter(|_| !draw.once_in(3)).collect();
            let oldest = (last + 1).checked_sub(ring).filter(|&ticket| ticket > 0);
            let full = oldest.is_some_and(|ticket| state(&ran, ticket) == TicketState::Pending);
            let staged = it.try_stage(&prompts);
            match staged {
                Ok(ticket) => {
                    assert!(!full);
                    assert_eq!(ticket, Ticket::new(it.launcher.id(), last + 1));
                    ran.push(false);
                    jobs += it.plan.jobs() as u64;
                    bytes += it.plan.bytes().unwrap().get();
                    table = prompts;
                }
                Err(error) => {
                    assert!(full && matches!(error, Error::Launch(LaunchError::RingFull { .. })), "{error}");
                }
            }
        } else {
            it.world.fill(&mut draw);
            let runs = last > 0 && (!ran[last as usize] || options.repeat);
            let expected = it.expected(if runs { &table } else { &[] });
            it.launcher.launch(&mut it.world.pools.memory).unwrap();
            launches += 1;
            ran[last as usize] |= runs;
            it.world.assert_is(&expected);
        }
        let last = ran.len() as u64 - 1;
        for ticket in 1..=last + 1 {
            let forgotten = last >= ticket + 64 + ring;
            let expected = if forgotten { TicketState::Unknown } else { state(&ran, ticket) };
            assert_eq!(
                it.launcher.state(Ticket::new(it.launcher.id(), ticket)),
                expected,
                "ticket {ticket} of {last}"
            );
        }
        let counters = it.launcher.counters();
        let done = ran.iter().filter(|ran| **ran).count() as u64;
        let pending = ran.iter().skip(1).rev().take_while(|ran| !**ran).count() as u64;
        assert_eq!((counters.staged, counters.launches, counters.jobs), (last, launches, jobs));
        assert_eq!((counters.bytes, counters.done), (Some(bytes), done));
        assert_eq!(counters.superseded, last - done - pending);
    }
}
