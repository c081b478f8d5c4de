//! What there is to know of a GPU: where it is, what host memory it reaches, how long it takes until kernels run, and whether
//! it was calibrated.

use std::time::{Duration, Instant};

use pagelift::Error;
use pagelift::backends::{Backend, Cuda, HostPoolSpec};
use pagelift::error::MemoryError;
use pagelift::geometry::{GeometryBuilder, GroupSpec, Landing, Memory, Paged, PagedLift, PoolSpec, SideSpec};
use pagelift::launcher::{Launcher, LauncherOptions, TicketState};
use pagelift::layout::PagedLayout;
use pagelift::memory::Registry;
use pagelift::plan::{PlanCapacity, RestorePlan};
use serde::Serialize;

use super::Finding;
use crate::{calibrate, say};

/// A GPU that kernels can run on.
#[derive(Debug, Serialize)]
pub struct Gpu {
    device: String,
    uuid: String,
    /// Where it is on the PCI bus.
    bus: String,
    /// `None` where the system does not tell.
    link: Option<String>,
    /// The NUMA node that host pools lie on; `None` where there is one node only, or the system does not tell.
    numa_node: Option<u32>,
    /// From the program's first question to the driver until the kernels were loaded.
    open_seconds: f64,
    /// How much of it the driver took to compile and load the kernels.
    load_seconds: f64,
    /// What the driver's compiler said of them, if anything.
    load_log: String,
    /// From the first question until a first launch had run, with all that is made for it; `None` where it failed.
    first_launch_seconds: Option<f64>,
    /// Whether `pagelift calibrate` has measured it.
    calibrated: bool,
    #[serde(skip)]
    words: String,
    #[serde(skip)]
    launch: String,
}

impl Gpu {
    /// Of a GPU that took so long to open.
    pub fn look(gpu: &Cuda, opened: Duration) -> Self {
        let begun = Instant::now();
        let launched = launch(gpu);
        let first = opened + begun.elapsed();
        let (first_launch_seconds, launch) = match launched {
            Ok(TicketState::Done(_)) => {
                let (seconds, loading) = (first.as_secs_f64(), gpu.load_time());
                let words = format!(
                    "{first:.0?} after the driver was asked for; {opened:.0?} until the kernels were loaded, {loading:.0?} of \
                     it to load them"
                );
                (Some(seconds), words)
            }
            Ok(state) => (None, format!("failed: its plan is {state:?}")),
            Err(error) => (None, format!("failed: {error}")),
        };
        Self {
            device: gpu.device_name().into(),
            uuid: gpu.uuid(),
            bus: gpu.bus().into(),
            link: gpu.link().map(|link| link.to_string()),
            numa_node: gpu.numa_node(),
            open_seconds: opened.as_secs_f64(),
            load_seconds: gpu.load_time().as_secs_f64(),
            load_log: gpu.load_log().into(),
            first_launch_seconds,
            calibrated: calibrate::known(gpu).is_some(),
            words: format!("{gpu:?}"),
            launch,
        }
    }

    /// In words.
    pub fn findings(&self) -> Vec<Finding> {
        let finding = |what, found| Finding { what, found };
        let link = self.link.as_deref().unwrap_or("a link that the system does not tell");
        let node = self.numa_node.map_or_else(
            || "no NUMA node to choose".to_owned(),
            |node| format!("host pools on NUMA node {node}"),
        );
        let calibrated = if self.calibrated {
            "measured for this GPU and link"
        } else {
            "not measured: launches use four multiprocessors unless told; run `pagelift calibrate`"
        };
        vec![
            finding("CUDA", self.words.clone()),
            finding("GPU", format!("{} at {}, {link}; {node}", self.uuid, self.bus)),
            finding("first launch", self.launch.clone()),
            finding("calibration", calibrated.into()),
        ]
    }
}

/// What is registered how, and what limits it.
pub fn registration() -> Finding {
    let gib = |bytes: u64| bytes >> 30;
    let (usual, most) = (gib(HostPoolSpec::CHUNK_BYTES), gib(HostPoolSpec::MOST_CHUNK_BYTES));
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let locked = locked_memory(&limits).map_or_else(String::new, |limit| format!("; locked memory: {limit}"));
    Finding {
        what: "registration",
        found: format!("host pools in chunks of {usual} GiB, {most} GiB at most{locked}"),
    }
}

/// How much memory the system lets this process lock, in words: transports ask for it, and some systems count what a GPU
/// pins.
fn locked_memory(limits: &str) -> Option<String> {
    let soft =
        limits.lines().find_map(|line| line.strip_prefix("Max locked memory"))?.split_whitespace().next()?;
    Some(soft.parse().map_or_else(|_| soft.to_owned(), |bytes| say::bytes(bytes) + " at most"))
}

/// Launches a plan of nothing, and all that it takes from nothing.
fn launch(backend: &impl Backend) -> Result<TicketState, Error> {
    let layout = PagedLayout::mla_bf16(16)?;
    let bytes = layout.page_bytes().get();
    let mut memory = Registry::new();
    let mut builder = GeometryBuilder::new();
    let mut side = |name, place| {
        let region = memory.allocate(backend, place, bytes)?;
        let at = memory.region(region).ok_or(MemoryError::Released)?;
        let pool = builder.pool(PoolSpec::new(name, place, 1, &[at]))?;
        Ok::<_, Error>(SideSpec::packed(pool, &[at.address()], &[0], bytes, layout.clone()))
    };
    let (host, device) = (side("block", Memory::Host)?, side("page", Memory::Device)?);
    builder.group(GroupSpec::<Paged> {
        name: "main".into(),
        layers: 1,
        landing: Landing::Host,
        lift: PagedLift::Tail,
        host: Some(host),
        device: Some(device),
    })?;
    let mut plan = RestorePlan::new(builder.build()?.into(), PlanCapacity { jobs: 1, list_entries: 1 })?;
    let mut launcher = Launcher::bind(backend, &memory, &mut plan, LauncherOptions::default())?;
    let ticket = launcher.stage(&memory, &mut plan)?;
    launcher.launch(&mut memory)?;
    launcher.wait()?;
    Ok(launcher.state(ticket))
}

#[cfg(test)]
mod tests {
    use pagelift::backends::Cpu;

    use super::*;

    #[test]
    fn a_first_launch_runs() {
        let state = launch(&Cpu::with_threads(1).unwrap()).unwrap();
        assert!(matches!(state, TicketState::Done(_)), "{state:?}");
    }

    #[test]
    fn the_limit_of_locked_memory_is_read() {
        let limits = |soft| {
            format!(
                "Limit    Soft Limit  Hard Limit  Units\nMax locked memory    {soft}   unlimited   bytes\nMax processes 1 1 x\n"
            )
        };
        assert_eq!(locked_memory(&limits("8388608")).unwrap(), "8.00 MiB at most");
        assert_eq!(locked_memory(&limits("unlimited")).unwrap(), "unlimited");
        assert_eq!(locked_memory(""), None);
    }
}
