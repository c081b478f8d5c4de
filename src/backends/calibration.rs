//! How many multiprocessors suit a launch, and how many bytes suit a step, on one GPU and its link.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use pagelift_planner::geometry::Memory;
use pagelift_planner::quantity::Bytes;

/// What a launch is going to do, as far as the host knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchWork {
    /// From which memory to which; `None` where it only reads, as digests do.
    pub way: Option<(Memory, Memory)>,
    /// In what pieces.
    pub pieces: Pieces,
    /// How many bytes, where the host knows it.
    pub bytes: Option<Bytes>,
}

/// In what pieces a launch copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pieces {
    /// Pages, states, and runs of rows: what page plans copy.
    Pages,
    /// Single rows that are named on the device: what row plans copy.
    Rows,
}

/// What was measured on one GPU and its link: for each direction, the fewest multiprocessors that are as good as more.
///
/// A launch stalls what comes after it on its stream, and takes multiprocessors from what runs beside it. So it should use
/// few, and a step should move no more than it has time for. `pagelift calibrate` measures this in seconds; an engine hands
/// it to [`Cuda::with_calibration`](super::Cuda::with_calibration), and asks for the bytes of a step:
///
/// ```
/// use std::num::{NonZeroU32, NonZeroU64};
/// use std::time::Duration;
/// use pagelift::backends::{Calibration, Pace, Paces, Pieces};
/// use pagelift::geometry::Memory;
/// # let pace = |workers, speed| Pace {
/// #     workers: NonZeroU32::new(workers).expect("not 0"),
/// #     bytes_per_second: NonZeroU64::new(speed).expect("not 0"),
/// # };
/// # let link = Paces { pages: pace(2, 50_000_000_000), rows: pace(4, 48_000_000_000) };
/// let calibration = Calibration { host_to_device: link, device_to_host: link, device_to_device: link };
/// let way = (Memory::Host, Memory::Device);
/// let pace = calibration.pace(way, Pieces::Pages).expect("it was measured");
/// assert_eq!(pace.workers.get(), 2);
/// assert_eq!(pace.bytes_within(Duration::from_micros(200)).get(), 10_000_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calibration {
    /// Lifts and loads.
    pub host_to_device: Paces,
    /// Mirrors, checkpoints and spills.
    pub device_to_host: Paces,
    /// Copies on the GPU.
    pub device_to_device: Paces,
}

/// What was measured of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paces {
    /// Of page plans.
    pub pages: Pace,
    /// Of row plans.
    pub rows: Pace,
}

/// How fast so many multiprocessors copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Multiprocessors.
    pub workers: NonZeroU32,
    /// Bytes a second, by a launch of a few megabytes.
    pub bytes_per_second: NonZeroU64,
}

impl Calibration {
    /// What was measured of a direction; `None` from host to host, where no GPU copies.
    #[must_use]
    pub const fn pace(&self, way: (Memory, Memory), pieces: Pieces) -> Option<Pace> {
        let paces = match way {
            (Memory::Host, Memory::Device) => &self.host_to_device,
            (Memory::Device, Memory::Host) => &self.device_to_host,
            (Memory::Device, Memory::Device) => &self.device_to_device,
            (Memory::Host, Memory::Host) => return None,
        };
        Some(match pieces {
            Pieces::Pages => paces.pages,
            Pieces::Rows => paces.rows,
        })
    }
}

impl Pace {
    /// Bytes that it copies in so much time: what a step may move whose time that is, the budget of
    /// [`lift_within`](crate::plan::PagePlan::lift_within).
    #[must_use]
    pub fn bytes_within(self, time: Duration) -> Bytes {
        let bytes = u128::from(self.bytes_per_second.get()).saturating_mul(time.as_nanos()) / 1_000_000_000;
        Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_has_its_pace() {
        let pace = |workers| Pace {
            workers: NonZeroU32::new(workers).unwrap(),
            bytes_per_second: NonZeroU64::new(u64::from(workers) * 1_000_000).unwrap(),
        };
        let paces = |workers| Paces { pages: pace(workers), rows: pace(workers + 1) };
        let calibration =
            Calibration { host_to_device: paces(1), device_to_host: paces(3), device_to_device: paces(5) };
        let (host, device) = (Memory::Host, Memory::Device);
        let workers = |way, pieces| calibration.pace(way, pieces).map(|pace| pace.workers.get());
        let found = [(host, device), (device, host), (device, device), (host, host)]
            .map(|way| [workers(way, Pieces::Pages), workers(way, Pieces::Rows)]);
        assert_eq!(found, [[Some(1), Some(2)], [Some(3), Some(4)], [Some(5), Some(6)], [None, None]]);
        assert_eq!(pace(2).bytes_within(Duration::from_micros(3)).get(), 6);
        assert_eq!(pace(2).bytes_within(Duration::MAX).get(), u64::MAX);
    }
}
