//! Hand-offs between two engines: `pagelift.transport`, in packages that are built with NIXL.
//!
//! Each file binds what its namesake in the transport is. Time is this process's own; what goes to a lifecycle, and tables of
//! blocks, are plain data: dictionaries.

mod agent;
mod consumer;
mod counted;
mod error;
mod facts;
mod mapped;
mod offer;
mod producer;
mod seconds;
mod tables;
mod wanted;

use pyo3::prelude::*;

/// Adds the submodule, of which `pagelift/transport.py` takes its names.
pub fn add_to(package: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = PyModule::new(package.py(), "transport")?;
    module.add_class::<agent::Agent>()?;
    module.add_class::<agent::Library>()?;
    module.add_class::<consumer::Consumer>()?;
    module.add_class::<facts::Exchange>()?;
    module.add_class::<facts::GroupFacts>()?;
    module.add_class::<offer::Offer>()?;
    module.add_class::<producer::Ask>()?;
    module.add_class::<producer::Producer>()?;
    module.add_class::<wanted::WantedBy>()?;
    module.add_function(wrap_pyfunction!(wanted::posted, &module)?)?;
    error::add_to(&module)?;
    package.add_submodule(&module)
}
