//! Which stream an object of Python stands for.

use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyBool;

/// The handle of a stream.
///
/// # Errors
/// `TypeError` for what stands for none, with what was found, and by what it failed. What is no error, such as an interrupt, stays what
/// it is.
pub fn handle_of(stream: &Bound<'_, PyAny>) -> PyResult<u64> {
    let py = stream.py();
    asked(stream).map_err(|cause| {
        if !cause.is_instance_of::<PyException>(py) {
            return cause;
        }
        let found = stream.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string());
        let error = PyTypeError::new_err(format!(
            "a stream is an integer of 64 bits that is not negative, a torch.cuda.Stream, or an object with \
             `__cuda_stream__`; found {found}: {cause}"
        ));
        error.set_cause(py, Some(cause));
        error
    })
}

fn asked(stream: &Bound<'_, PyAny>) -> PyResult<u64> {
    if stream.hasattr("cuda_stream")? {
        return number(&stream.getattr("cuda_stream")?);
    }
    if stream.hasattr("__cuda_stream__")? {
        let (_version, handle): (Bound<'_, PyAny>, Bound<'_, PyAny>) =
            stream.call_method0("__cuda_stream__")?.extract()?;
        return number(&handle);
    }
    number(stream)
}

/// A handle. `True` is an integer too, and would be the default stream.
fn number(handle: &Bound<'_, PyAny>) -> PyResult<u64> {
    if handle.is_instance_of::<PyBool>() {
        return Err(PyTypeError::new_err("a bool is no handle"));
    }
    handle.extract()
}
