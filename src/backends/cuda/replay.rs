//! A launcher in a graph of its own.

use super::{CaptureMode, Cuda, CudaGraph};
use crate::backends::{Launchable, refuse_capture};
use crate::error::Error;
use crate::id::Ticket;
use crate::launcher::Launcher;
use crate::memory::Registry;

/// A launcher that was recorded into a graph of its own, and nothing else with it.
///
/// An engine records launchers into the graphs of its steps, by [`Launcher::record`], and promises to replay these in
/// order. This one keeps that promise by itself: it owns its launcher, replays on that launcher's stream, and borrows the
/// registry for each replay.
///
/// ```no_run
/// # use pagelift::backends::Cuda;
/// # use pagelift::launcher::{Launcher, LauncherOptions};
/// # use pagelift::memory::Registry;
/// # use pagelift::plan::RestorePlan;
/// # fn engine(gpu: &Cuda, mut memory: Registry, mut plan: RestorePlan) -> Result<(), pagelift::Error> {
/// let launcher = Launcher::bind(gpu, &memory, &mut plan, LauncherOptions::default())?;
/// let mut replay = gpu.record(launcher, &mut memory)?;
/// // For each step: fill the plan, and then
/// let ticket = replay.stage(&memory, &mut plan)?;
/// replay.replay(&mut memory)?;
/// replay.launcher().wait()?;
/// println!("{:?}", replay.launcher().state(ticket));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct CudaReplay<'g, P> {
    // The graph goes first: it may not outlive the launcher's tables.
    graph: CudaGraph,
    launcher: Launcher<&'g Cuda, P>,
}

impl Cuda {
    /// Records a launcher into a graph of its own.
    ///
    /// # Errors
    /// As [`Launcher::launch`], and those of the driver.
    pub fn record<'g, P: Launchable>(
        &self,
        mut launcher: Launcher<&'g Cuda, P>,
        memory: &mut Registry,
    ) -> Result<CudaReplay<'g, P>, Error> {
        let stream = launcher.stream().clone();
        // SAFETY: (1) the graph goes before the launcher, whose tables live that long; each replay sees to it that memory
        // is still registered. (2) All go to the launcher's one stream, and nobody else has the launcher. (3) Each borrows
        // the registry and tells it of the replay, so that it waits before it lends a byte.
        let record = || unsafe { launcher.record(memory) };
        let (graph, ()) = self.capture(&stream, CaptureMode::ThreadLocal, record)?;
        Ok(CudaReplay { graph, launcher })
    }
}

impl<'g, P: Launchable> CudaReplay<'g, P> {
    /// Stages a plan for the next replay, as [`Launcher::stage`].
    ///
    /// # Errors
    /// Those of [`Launcher::stage`].
    pub fn stage(&mut self, memory: &Registry, plan: &mut P) -> Result<Ticket, Error> {
        self.launcher.stage(memory, plan)
    }

    /// Runs the graph once, after what is on the launcher's stream. It returns before that has finished.
    ///
    /// # Errors
    /// As [`Launcher::launch`]; the graph of a capture would not know of this one's end.
    pub fn replay(&mut self, memory: &mut Registry) -> Result<(), Error> {
        let _uncaptured = refuse_capture(self.launcher.backend(), self.launcher.stream(), "a replay")?;
        self.launcher.replays(memory)?;
        Ok(self.graph.replay(self.launcher.stream())?)
    }

    /// The launcher: what became of its tickets, what its launches have found, and its stream.
    #[must_use]
    pub const fn launcher(&self) -> &Launcher<&'g Cuda, P> {
        &self.launcher
    }
}
