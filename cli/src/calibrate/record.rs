//! What is kept of a calibration, and of which GPU.

use std::num::{NonZeroU32, NonZeroU64};

use pagelift::backends::{Calibration, Cuda, Pace, Paces, Pieces};
use serde::{Deserialize, Serialize};

use super::works::WORKS;

/// Pieces, in words.
pub const PIECES: [(&str, Pieces); 2] = [("pages", Pieces::Pages), ("rows", Pieces::Rows)];

/// What a calibration is good for: where any of it is another, it is measured again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// The program's version.
    pub version: String,
    /// What tells its kernels from others.
    pub kernels: String,
    /// The GPU's name.
    pub device: String,
    /// What tells it from others.
    pub uuid: String,
    /// Its link; `None` where the system does not tell.
    pub link: Option<String>,
    /// The driver's version of CUDA.
    pub driver: String,
    /// Multiprocessors that it has.
    pub multiprocessors: u32,
}

impl Gpu {
    /// As it is now.
    pub fn of(gpu: &Cuda) -> Self {
        let (major, minor) = gpu.cuda_version();
        Self {
            version: env!("CARGO_PKG_VERSION").into(),
            kernels: format!("{:#018x}", gpu.kernel_fingerprint()),
            device: gpu.device_name().into(),
            uuid: gpu.uuid(),
            link: gpu.link().map(|link| link.to_string()),
            driver: format!("{major}.{minor}"),
            multiprocessors: gpu.multiprocessors(),
        }
    }
}

/// A calibration, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    #[serde(flatten)]
    pub gpu: Gpu,
    /// Seconds since 1970.
    pub measured_at: u64,
    pub host_to_device: Direction,
    pub device_to_host: Direction,
    pub device_to_device: Direction,
}

/// One direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Direction {
    pub pages: Speed,
    pub rows: Speed,
}

/// The fewest multiprocessors that are as good as more, and how fast they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Speed {
    pub workers: NonZeroU32,
    pub bytes_per_second: NonZeroU64,
}

impl Record {
    /// Of what was measured, in the order of the works.
    pub fn new(gpu: Gpu, measured_at: u64, paces: &[Pace; WORKS]) -> Self {
        let speed = |Pace { workers, bytes_per_second }| Speed { workers, bytes_per_second };
        let [to_pages, to_rows, back_pages, back_rows, on_pages, on_rows] = paces.map(speed);
        Self {
            gpu,
            measured_at,
            host_to_device: Direction { pages: to_pages, rows: to_rows },
            device_to_host: Direction { pages: back_pages, rows: back_rows },
            device_to_device: Direction { pages: on_pages, rows: on_rows },
        }
    }

    /// As the library takes it.
    pub fn calibration(&self) -> Calibration {
        let pace = |speed: Speed| Pace { workers: speed.workers, bytes_per_second: speed.bytes_per_second };
        let paces =
            |direction: &Direction| Paces { pages: pace(direction.pages), rows: pace(direction.rows) };
        Calibration {
            host_to_device: paces(&self.host_to_device),
            device_to_host: paces(&self.device_to_host),
            device_to_device: paces(&self.device_to_device),
        }
    }
}
