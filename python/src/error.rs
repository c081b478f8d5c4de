//! Which Python exception each error of pagelift is.
//!
//! The tree follows the domains of [`pagelift::Error`]; errors that engines tell apart have classes of their own, with
//! fields. Every instance has `kind`, the name of the Rust variant.

use std::fmt::Display;

use pagelift::error as rust;
use pagelift_bindings::error::Trouble;
pub use pagelift_bindings::error::variant as kind;
use pagelift_bindings::{Error, Mismatch};
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::ticket::Ticket;

create_exception!(
    pagelift,
    PageliftError,
    PyException,
    "Anything that pagelift refuses. `kind` names the case: the variant of the Rust error."
);
create_exception!(
    pagelift,
    TensorError,
    PageliftError,
    "An object that cannot be a pool or an array: it has no memory (fake and meta tensors), is not contiguous, is read-only, \
     lies on another device, or has another dtype."
);
create_exception!(pagelift, LayoutError, PageliftError, "A layout that cannot be.");
create_exception!(pagelift, SpanError, PageliftError, "Prompt arithmetic that cannot be.");
create_exception!(pagelift, GeometryError, PageliftError, "Pools, sides or groups that do not fit together.");
create_exception!(pagelift, PlanError, PageliftError, "A plan that may not be. The plan is as it was.");
create_exception!(
    pagelift,
    CapacityError,
    PlanError,
    "More than a plan has room for. Fields: `what` (str), `needed` (int), `capacity` (int)."
);
create_exception!(
    pagelift,
    LifecycleError,
    PageliftError,
    "An event that a lifecycle does not take. Nothing has changed."
);
create_exception!(
    pagelift,
    RegistryError,
    PageliftError,
    "Memory that is not registered, was released, or overlaps other memory: Rust's `MemoryError`, which is another thing in \
     Python."
);
create_exception!(
    pagelift,
    LaunchError,
    PageliftError,
    "A launcher that cannot take a plan. Nothing was enqueued."
);
create_exception!(
    pagelift,
    RingFullError,
    LaunchError,
    "Every staging slot holds a plan that may still run: launch, or wait. Fields: `slots` (int), `oldest` (Ticket)."
);
create_exception!(pagelift, BackendError, PageliftError, "A backend that cannot run.");
create_exception!(
    pagelift,
    NoDriverError,
    BackendError,
    "There is no NVIDIA driver, or one that is too old: use `Cpu`."
);
create_exception!(
    pagelift,
    CaptureError,
    BackendError,
    "A call that is not allowed while a stream is being captured, or that needs a capture where there is none."
);
create_exception!(
    pagelift,
    DriverError,
    BackendError,
    "The driver refused a call. Fields: `call` (str), `code` (int), `name` (str)."
);
create_exception!(
    pagelift,
    ContextLostError,
    BackendError,
    "A fault took the GPU's context and all memory of it: restart the process."
);

/// All classes, by name.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let classes = [
        ("PageliftError", py.get_type::<PageliftError>()),
        ("TensorError", py.get_type::<TensorError>()),
        ("LayoutError", py.get_type::<LayoutError>()),
        ("SpanError", py.get_type::<SpanError>()),
        ("GeometryError", py.get_type::<GeometryError>()),
        ("PlanError", py.get_type::<PlanError>()),
        ("CapacityError", py.get_type::<CapacityError>()),
        ("LifecycleError", py.get_type::<LifecycleError>()),
        ("RegistryError", py.get_type::<RegistryError>()),
        ("LaunchError", py.get_type::<LaunchError>()),
        ("RingFullError", py.get_type::<RingFullError>()),
        ("BackendError", py.get_type::<BackendError>()),
        ("NoDriverError", py.get_type::<NoDriverError>()),
        ("CaptureError", py.get_type::<CaptureError>()),
        ("DriverError", py.get_type::<DriverError>()),
        ("ContextLostError", py.get_type::<ContextLostError>()),
    ];
    classes.into_iter().try_for_each(|(name, class)| module.add(name, class))
}

/// Turns errors of pagelift into exceptions.
pub trait OrRaise<T> {
    /// The value, or the exception.
    fn or_raise(self) -> PyResult<T>;
}

impl<T, E: Into<Error>> OrRaise<T> for Result<T, E> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(|error| raised(error.into()))
    }
}

/// The exception of an error.
pub fn raised(error: impl Into<Error>) -> PyErr {
    use pagelift::Error as Domain;
    Python::attach(|py| {
        let error = match error.into() {
            Error::Library(error) => error,
            Error::Mismatch(mismatch) => return mismatched(py, mismatch),
        };
        let (exception, kind) = match &error {
            Domain::Layout(inner) => (LayoutError::new_err(error.to_string()), kind(inner)),
            Domain::Span(inner) => (SpanError::new_err(error.to_string()), kind(inner)),
            Domain::Geometry(inner) => (GeometryError::new_err(error.to_string()), kind(inner)),
            Domain::Plan(inner) => (plan(py, inner), kind(inner)),
            Domain::Lifecycle(inner) => (LifecycleError::new_err(error.to_string()), kind(inner)),
            Domain::Memory(inner) => (RegistryError::new_err(error.to_string()), kind(inner)),
            Domain::Launch(inner) => (launch(py, inner), kind(inner)),
            Domain::Backend(inner) => (backend(py, inner), kind(inner)),
            other => (PageliftError::new_err(other.to_string()), kind(other)),
        };
        with(py, exception, &[("kind", &kind)])
    })
}

/// What Python's own types do not rule out.
fn mismatched(py: Python<'_>, mismatch: Mismatch) -> PyErr {
    let text = mismatch.to_string();
    match mismatch {
        Mismatch::Lift { .. } => PyValueError::new_err(text),
        Mismatch::NoStreams => with(py, LaunchError::new_err(text), &[("kind", &kind(&mismatch))]),
        _ => PyTypeError::new_err(text),
    }
}

/// A field of an exception.
pub trait Field {
    /// Sets it.
    ///
    /// # Errors
    /// Where the exception takes none.
    fn set(&self, exception: &Bound<'_, PyAny>, name: &str) -> PyResult<()>;
}

impl<T: Clone + for<'py> IntoPyObject<'py>> Field for T {
    fn set(&self, exception: &Bound<'_, PyAny>, name: &str) -> PyResult<()> {
        exception.setattr(name, self.clone())
    }
}

/// The same exception with fields. One that takes none is raised as it is.
pub fn with(py: Python<'_>, exception: PyErr, fields: &[(&str, &dyn Field)]) -> PyErr {
    for (name, field) in fields {
        let _ = field.set(exception.value(py), name);
    }
    exception
}

fn plan(py: Python<'_>, error: &rust::PlanError) -> PyErr {
    let text = error.to_string();
    match error {
        rust::PlanError::Capacity { what, needed, capacity } => with(
            py,
            CapacityError::new_err(text),
            &[("what", what), ("needed", needed), ("capacity", capacity)],
        ),
        _ => PlanError::new_err(text),
    }
}

fn launch(py: Python<'_>, error: &rust::LaunchError) -> PyErr {
    let text = error.to_string();
    match error {
        rust::LaunchError::RingFull { slots, oldest } => {
            with(py, RingFullError::new_err(text), &[("slots", slots), ("oldest", &Ticket(*oldest))])
        }
        _ => LaunchError::new_err(text),
    }
}

fn backend(py: Python<'_>, error: &rust::BackendError) -> PyErr {
    let text = error.to_string();
    let exception = match Trouble::of(error) {
        Trouble::NoDriver => NoDriverError::new_err(text),
        Trouble::Capture => CaptureError::new_err(text),
        Trouble::Driver => DriverError::new_err(text),
        Trouble::ContextLost => ContextLostError::new_err(text),
        Trouble::Other => BackendError::new_err(text),
    };
    match error {
        rust::BackendError::Driver { call, code, name, .. } => {
            with(py, exception, &[("call", call), ("code", code), ("name", name)])
        }
        _ => exception,
    }
}

/// A [`TensorError`] of some kind.
pub fn bad_tensor(py: Python<'_>, kind: &str, text: impl Display) -> PyErr {
    with(py, TensorError::new_err(text.to_string()), &[("kind", &kind.to_owned())])
}

/// A word that is none of those expected.
pub fn bad_word(what: &str, found: &str, expected: &[&str]) -> PyErr {
    PyValueError::new_err(format!("{what} is {found:?}; expected one of {}", expected.join(", ")))
}
