//! What was measured on one GPU and its link.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use pagelift::backends::{self, Pieces};
use pagelift::geometry::Memory;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::words::Word;

/// How fast so many multiprocessors copy: `workers` multiprocessors, `bytes_per_second` by a launch of a few megabytes.
#[pyclass(frozen, from_py_object, module = "pagelift")]
#[derive(Clone, Copy)]
pub struct Pace(backends::Pace);

#[pymethods]
impl Pace {
    #[new]
    fn new(workers: NonZeroU32, bytes_per_second: NonZeroU64) -> Self {
        Self(backends::Pace { workers, bytes_per_second })
    }

    /// Multiprocessors.
    #[getter]
    fn workers(&self) -> u32 {
        self.0.workers.get()
    }

    /// Bytes a second.
    #[getter]
    fn bytes_per_second(&self) -> u64 {
        self.0.bytes_per_second.get()
    }

    /// Bytes that it copies in so many seconds: the budget of `RestorePlan.lift_within` for a step that has that time. Raises
    /// `ValueError` for a time that is negative or no number.
    fn bytes_within(&self, seconds: f64) -> PyResult<u64> {
        let time = Duration::try_from_secs_f64(seconds);
        let time = time.map_err(|error| PyValueError::new_err(format!("seconds is {seconds}: {error}")))?;
        Ok(self.0.bytes_within(time).get())
    }

    fn __repr__(&self) -> String {
        let Self(backends::Pace { workers, bytes_per_second }) = self;
        format!("Pace({workers}, {bytes_per_second})")
    }
}

/// What was measured of one direction: of page plans, and of row plans.
#[pyclass(frozen, from_py_object, module = "pagelift")]
#[derive(Clone, Copy)]
pub struct Paces(backends::Paces);

#[pymethods]
impl Paces {
    #[new]
    fn new(pages: Pace, rows: Pace) -> Self {
        Self(backends::Paces { pages: pages.0, rows: rows.0 })
    }

    /// Of page plans.
    #[getter]
    fn pages(&self) -> Pace {
        Pace(self.0.pages)
    }

    /// Of row plans.
    #[getter]
    fn rows(&self) -> Pace {
        Pace(self.0.rows)
    }

    fn __repr__(&self) -> String {
        format!("Paces({}, {})", self.pages().__repr__(), self.rows().__repr__())
    }
}

/// What was measured on one GPU and its link: for each direction, the fewest multiprocessors that are as good as more.
///
/// The program's `pagelift calibrate --json` measures it in seconds. A `Cuda` that has it lets launches use as many as it says where
/// `workers` is `None`.
#[pyclass(frozen, from_py_object, module = "pagelift")]
#[derive(Clone, Copy)]
pub struct Calibration(pub backends::Calibration);

#[pymethods]
impl Calibration {
    #[new]
    #[pyo3(signature = (*, host_to_device, device_to_host, device_to_device))]
    fn new(host_to_device: Paces, device_to_host: Paces, device_to_device: Paces) -> Self {
        Self(backends::Calibration {
            host_to_device: host_to_device.0,
            device_to_host: device_to_host.0,
            device_to_device: device_to_device.0,
        })
    }

    /// What was measured from one memory to another, of `"pages"` or `"rows"`; `None` from host to host, where no GPU copies.
    fn pace(&self, source: Word<Memory>, destination: Word<Memory>, pieces: Word<Pieces>) -> Option<Pace> {
        self.0.pace((source.0, destination.0), pieces.0).map(Pace)
    }

    fn __repr__(&self) -> String {
        let [down, up, across] = [self.0.host_to_device, self.0.device_to_host, self.0.device_to_device]
            .map(|paces| Paces(paces).__repr__());
        format!("Calibration(host_to_device={down}, device_to_host={up}, device_to_device={across})")
    }
}
