//! Which Python exception each error of the transport is.

use std::fmt::{Debug, Display};

use pagelift_transport::consumer::Failure;
use pagelift_transport::error as rust;
use pagelift_transport::nixl::NixlError as RustNixl;
use pyo3::create_exception;
use pyo3::prelude::*;
use pyo3::type_object::PyTypeInfo;

use crate::error::{PageliftError, field, kind, of_kind, with_fields};

create_exception!(
    pagelift.transport,
    TransportError,
    PageliftError,
    "Anything that a hand-off refuses, or that ends one. `kind` names the case: the variant of the Rust error."
);
create_exception!(
    pagelift.transport,
    ControlError,
    TransportError,
    "The control channel cannot be used, or not any more: nobody is there, or somebody without the secret."
);
create_exception!(
    pagelift.transport,
    NixlError,
    TransportError,
    "NIXL's library is not there, or refuses something."
);
create_exception!(
    pagelift.transport,
    SchemaError,
    TransportError,
    "A description of blocks that cannot be, or is not the other side's. Field: `mismatches`, a list of `(field, ours, theirs)` with \
     every field in which both sides differ, as text; empty where one side alone is wrong."
);

/// All classes, by name.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("TransportError", py.get_type::<TransportError>())?;
    module.add("ControlError", py.get_type::<ControlError>())?;
    module.add("NixlError", py.get_type::<NixlError>())?;
    module.add("SchemaError", py.get_type::<SchemaError>())
}

/// Errors of the transport.
pub trait Raised {
    /// The exception.
    fn raised(&self) -> PyErr;
}

/// Turns errors of the transport into exceptions.
pub trait OrRaise<T> {
    /// The value, or the exception.
    fn or_raise(self) -> PyResult<T>;
}

impl<T, E: Raised> OrRaise<T> for Result<T, E> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(|error| error.raised())
    }
}

/// Something that was closed.
pub fn closed() -> PyErr {
    of_kind::<TransportError>("Closed", "it was closed; make another")
}

/// An error that wraps no other.
fn own<C: PyTypeInfo>(error: &(impl Debug + Display)) -> PyErr {
    of_kind::<C>(&kind(error), error)
}

fn mismatched(error: &(impl Debug + Display), mismatches: Vec<(String, String, String)>) -> PyErr {
    with_fields::<SchemaError>(&kind(error), error, vec![("mismatches", field(mismatches))])
}

impl Raised for rust::SchemaError {
    fn raised(&self) -> PyErr {
        let mismatches: Vec<_> = match self {
            Self::Differs { mismatches } => mismatches
                .iter()
                .map(|own| (own.field.clone(), own.ours.clone(), own.theirs.clone()))
                .collect(),
            Self::Version { ours, theirs } => vec![("version".into(), ours.to_string(), theirs.to_string())],
            _ => Vec::new(),
        };
        mismatched(self, mismatches)
    }
}

impl Raised for rust::RegionError {
    fn raised(&self) -> PyErr {
        match self {
            Self::Schema(inner) => inner.raised(),
            _ => mismatched(self, Vec::new()),
        }
    }
}

impl Raised for rust::OfferError {
    fn raised(&self) -> PyErr {
        match self {
            Self::Schema(inner) => inner.raised(),
            Self::Region(inner) => inner.raised(),
            _ => own::<TransportError>(self),
        }
    }
}

impl Raised for rust::PairError {
    fn raised(&self) -> PyErr {
        match self {
            Self::Schema(inner) => inner.raised(),
            Self::Region(inner) => inner.raised(),
            Self::Ranks { ours, theirs } => {
                mismatched(self, vec![("rank".into(), ours.to_string(), theirs.to_string())])
            }
            _ => mismatched(self, Vec::new()),
        }
    }
}

impl Raised for rust::LeaseError {
    fn raised(&self) -> PyErr {
        own::<TransportError>(self)
    }
}

impl Raised for rust::WantedError {
    fn raised(&self) -> PyErr {
        own::<TransportError>(self)
    }
}

impl Raised for rust::ControlError {
    fn raised(&self) -> PyErr {
        own::<ControlError>(self)
    }
}

impl Raised for RustNixl {
    fn raised(&self) -> PyErr {
        own::<NixlError>(self)
    }
}

impl Raised for rust::ProducerError {
    fn raised(&self) -> PyErr {
        match self {
            Self::Control(inner) => inner.raised(),
            Self::Offer(inner) => inner.raised(),
            Self::Pair(inner) => inner.raised(),
            Self::Lease(inner) => inner.raised(),
            _ => own::<TransportError>(self),
        }
    }
}

impl Raised for rust::ConsumerError {
    fn raised(&self) -> PyErr {
        match self {
            Self::Control(inner) => inner.raised(),
            Self::Offer(inner) => inner.raised(),
            Self::Pair(inner) => inner.raised(),
            _ => own::<TransportError>(self),
        }
    }
}

impl Raised for Failure {
    fn raised(&self) -> PyErr {
        match self {
            Self::Lost(inner) => inner.raised(),
            Self::Plan(inner) => own::<TransportError>(inner),
            Self::Reads { why, .. } => of_kind::<TransportError>(&kind(why), self),
            _ => own::<TransportError>(self),
        }
    }
}
