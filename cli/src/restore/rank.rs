//! The one rank: its runner, the arrays that its steps write, and what a step of it does.

use std::time::Instant;

use pagelift::backends::Backend;
use pagelift::launcher::Counters;
use pagelift::lifecycle::{Lane, LifecycleOptions, Rank, StepOptions, StepPlans};
use pagelift::plan::{Plan as _, TailRows};
use pagelift::runner::{Runner, RunnerOptions};

use super::RestoreError;
use super::frames::Frames;
use super::step::StepArrays;
use super::world::{AnyKey, World};

/// The number of the one rank.
pub const RANK: Rank = Rank::new(0);

/// What the rank launched.
#[derive(Clone, Copy, Debug, Default)]
pub struct Launched {
    pub lift_launches: u64,
    pub bytes_lifted: u64,
    pub mirror_launches: u64,
    pub rows_mirrored: u64,
    pub rows_skipped: u64,
    pub bad_entries: u64,
    pub checkpoint_launches: u64,
    pub bytes_checkpointed: u64,
}

impl Launched {
    /// What a runner has launched, and what was before it.
    pub fn and<B: Backend>(self, runner: &Runner<B>) -> Self {
        let of = |lane| -> Counters { runner.counters(lane) };
        let (lifts, mirrors, states) = (of(Lane::Lift), of(Lane::Mirror), of(Lane::WriteBack));
        Self {
            lift_launches: self.lift_launches + lifts.launches,
            bytes_lifted: self.bytes_lifted + lifts.bytes.unwrap_or(0),
            mirror_launches: self.mirror_launches + mirrors.launches,
            rows_mirrored: self.rows_mirrored + mirrors.rows.unwrap_or(0),
            rows_skipped: self.rows_skipped + mirrors.skipped.unwrap_or(0),
            bad_entries: self.bad_entries + mirrors.bad,
            checkpoint_launches: self.checkpoint_launches + states.launches,
            bytes_checkpointed: self.bytes_checkpointed + states.bytes.unwrap_or(0),
        }
    }
}

/// The first lift: the jobs and units of its plan, and how long its launch took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lifted {
    pub jobs: usize,
    pub units: u32,
    pub seconds: f64,
}

/// A rank with nothing in its pages, which takes the orders of a lifecycle with these options.
pub fn runner<'b, B: Backend>(
    world: &World<'_>,
    backend: &'b B,
    (frames, arrays): (&Frames<'_>, &StepArrays),
    (lifecycle, mode): (LifecycleOptions, TailRows),
) -> Result<Runner<&'b B>, RestoreError> {
    let (pages, rows) = frames.room();
    let options = StepOptions { pages, rows, mode };
    let (geometry, own) = (world.geometry.clone(), frames.of_rank(&world.keys));
    let mut plans = StepPlans::new(RANK, geometry, own, lifecycle, options)?;
    for (frame, key) in frames.groups.iter().zip(&world.keys).filter(|(frame, _)| frame.group.mirror) {
        let null_page = frame.group.device.as_ref().and_then(|side| side.pool.null_block);
        let Some(binding) = arrays.binding(&world.memory, frame.group.index, null_page) else { continue };
        match key {
            AnyKey::Paged(key) => plans.mirror_plan().bind(*key, binding)?,
            AnyKey::Ring(key) => plans.mirror_plan().bind(*key, binding)?,
            AnyKey::State(_) => {}
        }
    }
    Ok(Runner::bind(backend, &world.memory, plans, RunnerOptions::default())?)
}

/// Launches what comes before a forward, and waits for it. Returns what the lift was, if there was one.
pub fn before_forward<B: Backend>(
    world: &mut World<'_>,
    runner: &mut Runner<B>,
    lifts: bool,
) -> Result<Option<Lifted>, RestoreError> {
    let started = Instant::now();
    runner.before_forward(&mut world.memory)?;
    runner.wait()?;
    let seconds = started.elapsed().as_secs_f64();
    let plan = runner.plans().lifts();
    Ok(lifts.then(|| Lifted { jobs: plan.jobs(), units: plan.units(), seconds }))
}
