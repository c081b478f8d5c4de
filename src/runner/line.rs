//! One kind of plan of a rank's steps: staged, launched, and asked what became of it.

use pagelift_planner::id::Ticket;
use pagelift_planner::lifecycle::{Lane, Settled, StepPlans};
use pagelift_planner::plan::{MirrorPlan, RestorePlan, WriteBackPlan};

use crate::backends::{Backend, Launchable};
use crate::error::{Error, LaunchError};
use crate::launcher::{Launcher, LauncherOptions, TicketState};
use crate::memory::Registry;

/// A plan of a rank's steps.
pub(super) trait StepPlan: Launchable {
    const LANE: Lane;

    /// What becomes of work that cannot be launched. Rows that are not mirrored lie in their pages, which are written back
    /// whole; but not before a forward has written them.
    const UNDONE: Settled;

    fn of(plans: &mut StepPlans) -> &mut Self;

    /// Calls `stage` with a plan that does nothing.
    fn idle<T>(plans: &mut StepPlans, stage: impl FnOnce(&mut Self) -> T) -> T;
}

impl StepPlan for RestorePlan {
    const LANE: Lane = Lane::Lift;
    const UNDONE: Settled = Settled::Failed;

    fn of(plans: &mut StepPlans) -> &mut Self {
        plans.lift_plan()
    }

    fn idle<T>(plans: &mut StepPlans, stage: impl FnOnce(&mut Self) -> T) -> T {
        // Each step makes it anew.
        plans.lift_plan().clear();
        stage(plans.lift_plan())
    }
}

impl StepPlan for WriteBackPlan {
    const LANE: Lane = Lane::WriteBack;
    const UNDONE: Settled = Settled::Failed;

    fn of(plans: &mut StepPlans) -> &mut Self {
        plans.write_back_plan()
    }

    fn idle<T>(plans: &mut StepPlans, stage: impl FnOnce(&mut Self) -> T) -> T {
        plans.write_back_plan().clear();
        stage(plans.write_back_plan())
    }
}

impl StepPlan for MirrorPlan {
    const LANE: Lane = Lane::Mirror;
    const UNDONE: Settled = Settled::Superseded;

    fn of(plans: &mut StepPlans) -> &mut Self {
        plans.mirror_plan()
    }

    fn idle<T>(plans: &mut StepPlans, stage: impl FnOnce(&mut Self) -> T) -> T {
        // Its bindings stay from step to step.
        plans.mirror_plan().unbound(stage)
    }
}

/// The ticket of what could not be staged.
const UNSTAGED: u64 = 0;

/// A launcher of such plans.
#[derive(Debug)]
pub(super) struct Line<B: Backend, P> {
    pub launcher: Launcher<B, P>,
    /// The last ticket, and the last one whose plan was launched here.
    staged: u64,
    launched: u64,
    /// Whether a plan lies in the table that was given up: a replay would carry it out.
    failed: bool,
}

impl<B: Backend, P: StepPlan> Line<B, P> {
    pub fn bind(
        backend: B,
        memory: &Registry,
        plans: &mut StepPlans,
        options: LauncherOptions,
    ) -> Result<Self, Error> {
        let launcher = Launcher::bind(backend, memory, P::of(plans), options)?;
        Ok(Self { launcher, staged: 0, launched: 0, failed: false })
    }

    /// Stages the plan, if there is work in it; `Ok` with the error where that has failed for good.
    ///
    /// # Errors
    /// Where it can be staged later: its work waits then.
    pub fn stage(&mut self, memory: &Registry, plans: &mut StepPlans) -> Result<Option<Error>, Error> {
        if plans.drafted(P::LANE) == 0 {
            return Ok(None);
        }
        match self.put(memory, P::of(plans)) {
            Ok(ticket) => {
                plans.staged(P::LANE, ticket);
                Ok(None)
            }
            Err(error) if error.is_transient() => {
                plans.retry(P::LANE);
                Err(error)
            }
            Err(error) => {
                plans.staged(P::LANE, UNSTAGED);
                // The table may have it all the same; what was there before may have been replayed by a call that failed. And a
                // mirror that was staged before would find this step's slots.
                if self.launcher.wait().is_ok() {
                    self.poll(plans);
                }
                self.undo(plans, Settled::Superseded);
                self.failed = true;
                if P::LANE != Lane::Mirror {
                    self.settle_unstaged(plans);
                }
                Ok(Some(error))
            }
        }
    }

    /// Puts a plan into the table, and returns the number of its ticket.
    fn put(&mut self, memory: &Registry, plan: &mut P) -> Result<u64, Error> {
        let staged = match self.launcher.stage(memory, plan) {
            // All that was staged was launched or given up: what has not run would be in its slots for good.
            Err(Error::Launch(LaunchError::RingFull { .. })) if self.failed => {
                self.launcher.give_up()?;
                self.launcher.stage(memory, plan)
            }
            staged => staged,
        };
        (self.staged, self.failed) = (staged?.number(), false);
        Ok(self.staged)
    }

    /// What could not be staged will not be done.
    pub fn settle_unstaged(&self, plans: &mut StepPlans) {
        plans.settle(P::LANE, UNSTAGED, P::UNDONE);
    }

    /// Launches what was staged and not launched yet. What cannot be launched has failed.
    pub fn launch(&mut self, memory: &mut Registry, plans: &mut StepPlans) -> Result<(), Error> {
        if self.staged == self.launched {
            return Ok(());
        }
        let launched = self.launcher.launch(memory);
        if launched.is_err() {
            // It may have been launched all the same: what came of it is known when the stream was waited for. Where it cannot
            // be, nothing is known yet, and all stays as it is.
            if self.launcher.wait().is_err() {
                return launched;
            }
            self.poll(plans);
            self.undo(plans, P::UNDONE);
        }
        self.note_launch();
        launched
    }

    /// Checks before a replay what a launch would check, and overwrites what was given up by a plan that does nothing.
    pub fn replays(&mut self, memory: &mut Registry, plans: &mut StepPlans) -> Result<(), Error> {
        if self.failed {
            P::idle(plans, |plan| self.put(memory, plan))?;
        }
        self.launcher.replays(memory)
    }

    /// Whether none of its launches touches memory any more, as far as can be told without waiting.
    pub fn has_finished(&self) -> bool {
        let launches = self.launcher.backend().in_flight(self.launcher.stream());
        launches.is_none_or(|launches| launches.is_finished())
    }

    /// Notes that what was staged was launched.
    pub const fn note_launch(&mut self) {
        self.launched = self.staged;
    }

    /// Gives up what was staged and not launched: whatever becomes of the table, its tickets are not asked for any more.
    pub fn undo(&mut self, plans: &mut StepPlans, settled: Settled) {
        // The last first: work that is planned again is put in front.
        while let Some(ticket) = plans.tickets(P::LANE).filter(|ticket| *ticket > self.launched).last() {
            plans.settle(P::LANE, ticket, settled);
            self.failed = true;
        }
        self.launched = self.staged;
    }

    /// Takes note of tickets that are settled.
    pub fn poll(&self, plans: &mut StepPlans) {
        while let Some((ticket, settled)) = self.next_settled(plans) {
            plans.settle(P::LANE, ticket, settled);
        }
    }

    /// The earliest ticket that is done or has failed; then the last one that is superseded, for its work is put in front.
    fn next_settled(&self, plans: &StepPlans) -> Option<(u64, Settled)> {
        let mut superseded = None;
        for ticket in plans.tickets(P::LANE).filter(|ticket| *ticket != UNSTAGED) {
            let settled = match self.launcher.state(Ticket::new(self.launcher.id(), ticket)) {
                TicketState::Pending => continue,
                TicketState::Superseded => {
                    superseded = Some((ticket, Settled::Superseded));
                    continue;
                }
                TicketState::Done(_) => Settled::Done,
                TicketState::Refused | TicketState::Lost | TicketState::Unknown => Settled::Failed,
            };
            return Some((ticket, settled));
        }
        superseded
    }
}
