//! Lengths of time, as Python's `time` has them.

use std::time::Duration;

use pyo3::Borrowed;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A number of seconds, 0 or more.
pub struct Seconds(pub Duration);

impl<'py> FromPyObject<'_, 'py> for Seconds {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let seconds: f64 = object.extract()?;
        let time = Duration::try_from_secs_f64(seconds);
        time.map(Self).map_err(|error| PyValueError::new_err(format!("{seconds} seconds: {error}")))
    }
}
