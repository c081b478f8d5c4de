//! Which Python exception each error of pagelift is.
//!
//! The tree follows the domains of [`pagelift::Error`]; errors that engines tell apart have classes of their own, with
//! fields. Every instance has `kind`, the name of the Rust variant.

use std::fmt::Display;

use pagelift::error as rust;
use pagelift_bindings::error::Trouble;
pub use pagelift_bindings::error::variant as kind;
use pagelift_bindings::{Error, Mismatch};
use pyo3::exceptions::{PyException, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::type_object::PyTypeInfo;
use pyo3::types::{PyString, PyType};
use pyo3::{IntoPyObjectExt, PyErrArguments, create_exception};

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
    let error = match error.into() {
        Error::Library(error) => error,
        Error::Mismatch(mismatch) => return mismatched(&mismatch),
        other => return of_kind::<PageliftError>(&kind(&other), other),
    };
    let text = error.to_string();
    match error {
        Domain::Layout(inner) => of_kind::<LayoutError>(&kind(&inner), text),
        Domain::Span(inner) => of_kind::<SpanError>(&kind(&inner), text),
        Domain::Geometry(inner) => of_kind::<GeometryError>(&kind(&inner), text),
        Domain::Plan(inner) => plan(&inner),
        Domain::Lifecycle(inner) => of_kind::<LifecycleError>(&kind(&inner), text),
        Domain::Memory(inner) => of_kind::<RegistryError>(&kind(&inner), text),
        Domain::Launch(inner) => launch(&inner),
        Domain::Backend(inner) => backend(&inner),
        other => of_kind::<PageliftError>(&kind(&other), text),
    }
}

/// What Python's own types do not rule out.
fn mismatched(mismatch: &Mismatch) -> PyErr {
    let text = mismatch.to_string();
    match mismatch {
        Mismatch::Lift { .. } => PyValueError::new_err(text),
        Mismatch::NoStreams => of_kind::<LaunchError>(&kind(mismatch), text),
        _ => PyTypeError::new_err(text),
    }
}

/// An exception of some class and kind.
pub fn of_kind<C: PyTypeInfo>(kind: &str, text: impl Display) -> PyErr {
    with_fields::<C>(kind, text, Vec::new())
}

/// An exception with more fields than its kind.
pub fn with_fields<C: PyTypeInfo>(
    kind: &str,
    text: impl Display,
    fields: Vec<(&'static str, Field)>,
) -> PyErr {
    let arguments = Unmade { class: C::type_object, kind: kind.to_owned(), text: text.to_string(), fields };
    PyErr::new::<C, _>(arguments)
}

/// What a field of an exception will be.
pub type Field = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send + Sync>;

/// A field of some value.
pub fn field<T: for<'py> IntoPyObject<'py> + Send + Sync + 'static>(value: T) -> Field {
    Box::new(|py| value.into_py_any(py))
}

/// An exception that is made when it is raised, and not where it is returned. Python may collect garbage whenever an object is made,
/// and garbage may have finalizers that use pagelift: nobody makes one with a lock.
struct Unmade {
    class: for<'py> fn(Python<'py>) -> Bound<'py, PyType>,
    kind: String,
    text: String,
    fields: Vec<(&'static str, Field)>,
}

impl PyErrArguments for Unmade {
    /// The exception itself: Python takes one in place of its arguments.
    fn arguments(self, py: Python<'_>) -> Py<PyAny> {
        let Self { class, kind, text, fields } = self;
        let made = class(py).call1((&text,)).and_then(|made| {
            made.setattr("kind", kind)?;
            fields.into_iter().try_for_each(|(name, value)| made.setattr(name, value(py)?))?;
            Ok(made.unbind())
        });
        // There is no memory for it, hardly anything else: the class, with the text, says as much as can be said.
        made.unwrap_or_else(|_| PyString::new(py, &text).into_any().unbind())
    }
}

fn plan(error: &rust::PlanError) -> PyErr {
    let kind = kind(error);
    match error {
        rust::PlanError::Capacity { what, needed, capacity } => {
            let fields =
                vec![("what", field(*what)), ("needed", field(*needed)), ("capacity", field(*capacity))];
            with_fields::<CapacityError>(&kind, error, fields)
        }
        _ => of_kind::<PlanError>(&kind, error),
    }
}

fn launch(error: &rust::LaunchError) -> PyErr {
    let kind = kind(error);
    match error {
        rust::LaunchError::RingFull { slots, oldest } => {
            let fields = vec![("slots", field(*slots)), ("oldest", field(Ticket(*oldest)))];
            with_fields::<RingFullError>(&kind, error, fields)
        }
        _ => of_kind::<LaunchError>(&kind, error),
    }
}

fn backend(error: &rust::BackendError) -> PyErr {
    let kind = kind(error);
    match (Trouble::of(error), error) {
        (_, rust::BackendError::Driver { call, code, name, .. }) => {
            let fields = vec![("call", field(*call)), ("code", field(*code)), ("name", field(name.clone()))];
            with_fields::<DriverError>(&kind, error, fields)
        }
        (Trouble::NoDriver, _) => of_kind::<NoDriverError>(&kind, error),
        (Trouble::Capture, _) => of_kind::<CaptureError>(&kind, error),
        (Trouble::Driver, _) => of_kind::<DriverError>(&kind, error),
        (Trouble::ContextLost, _) => of_kind::<ContextLostError>(&kind, error),
        (Trouble::Other, _) => of_kind::<BackendError>(&kind, error),
    }
}

/// A [`TensorError`] for what an object's own code has raised. What is no error, such as an interrupt, stays what it is.
pub fn bad_tensor_by(py: Python<'_>, kind: &str, text: impl Display, cause: PyErr) -> PyErr {
    if !cause.is_instance_of::<PyException>(py) {
        return cause;
    }
    let error = bad_tensor(kind, format!("{text}: {cause}"));
    error.set_cause(py, Some(cause));
    error
}

/// A [`TensorError`] of some kind.
pub fn bad_tensor(kind: &str, text: impl Display) -> PyErr {
    of_kind::<TensorError>(kind, text)
}

/// A word that is none of those expected.
pub fn bad_word(what: &str, found: &str, expected: &[&str]) -> PyErr {
    PyValueError::new_err(format!("{what} is {found:?}; expected one of {}", expected.join(", ")))
}
