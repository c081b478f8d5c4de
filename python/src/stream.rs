//! Which stream an object of Python stands for.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// The handle of a stream.
pub fn handle_of(stream: &Bound<'_, PyAny>) -> PyResult<u64> {
    if stream.hasattr("cuda_stream")? {
        return stream.getattr("cuda_stream")?.extract();
    }
    if stream.hasattr("__cuda_stream__")? {
        let (_version, handle): (u64, u64) = stream.call_method0("__cuda_stream__")?.extract()?;
        return Ok(handle);
    }
    stream.extract().map_err(|_| {
        PyTypeError::new_err(
            "a stream is an integer, a torch.cuda.Stream, or an object with `__cuda_stream__`",
        )
    })
}
