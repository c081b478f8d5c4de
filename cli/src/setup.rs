//! What every job begins with: a manifest that fits this machine, and what runs its kernels.

use std::path::Path;

use pagelift::backends::{AnyBackend, Opened, open};

use crate::manifest::{Draft, Footprint, Manifest};
use crate::restore::RestoreError;
use crate::{args, calibrate};

/// A checked manifest, and a backend.
#[derive(Debug)]
pub struct Setup {
    pub manifest: Manifest,
    pub backend: AnyBackend,
    /// Why that one.
    pub backend_reason: String,
}

impl Setup {
    /// Reads a manifest, refuses one that this machine has no memory for, and opens the backend that is asked for.
    pub fn new(manifest: &Path, backend: args::Backend) -> Result<Self, RestoreError> {
        let draft = Draft::load(manifest)?;
        // Before anything is drawn or allocated, which may take a while.
        check_memory(draft.footprint())?;
        let Opened { backend, reason: backend_reason } = calibrate::apply(open(backend.into())?);
        Ok(Self { manifest: draft.assign()?, backend, backend_reason })
    }
}

/// Opens a backend, on this GPU where it is one, and says why that one.
#[cfg(feature = "nixl")]
pub fn opened(backend: args::Backend, gpu: u32) -> Result<(AnyBackend, String), pagelift::Error> {
    use pagelift::backends::{Choice, Cuda};
    let opened = match Choice::from(backend) {
        // The best one is GPU 0, if there is one.
        Choice::Cuda | Choice::Auto if gpu > 0 => {
            let cuda = Cuda::open(gpu)?;
            let reason = format!("GPU {gpu} is an {}", cuda.device_name());
            Opened { backend: AnyBackend::Cuda(cuda), reason }
        }
        choice => open(choice)?,
    };
    let Opened { backend, reason } = calibrate::apply(opened);
    Ok((backend, reason))
}

/// Refuses a manifest that this machine has no memory for, before the system kills the process.
pub fn check_memory(footprint: Footprint) -> Result<(), RestoreError> {
    let needed = needed_memory(footprint);
    match available_memory() {
        Some(available) if needed > available => Err(RestoreError::TooLittleMemory { needed, available }),
        _ => Ok(()),
    }
}

/// What a run takes on this machine.
pub fn needed_memory(footprint: Footprint) -> u64 {
    // Each thread compares a page at a time with one of its own.
    let images = footprint.largest_page.saturating_mul(rayon::current_num_threads() as u64);
    footprint.total().saturating_add(images)
}

/// What the system says is available, where it says so.
pub fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}
