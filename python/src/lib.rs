//! The Python package `pagelift`, as its interpreter loads it.
//!
//! Each file binds what its namesake in the library is: names, arguments and errors are Rust's. Python's part, in `pagelift/`, is
//! the list of names and their types. What Rust cannot know of tensors and streams is promised in `foreign.rs`, and of DLPack's structs
//! in `dlpack.rs`.
//!
//! Objects are shared by threads: each has a lock, and the interpreter is released while a call waits or copies (`locks.rs`).
#![deny(unsafe_code)]

mod backend;
mod calibration;
mod copies;
mod data;
mod dlpack;
mod error;
mod foreign;
mod geometry;
mod held;
mod import;
mod keys;
mod launcher;
mod layout;
mod lifecycle;
mod locks;
mod memory;
mod plan;
mod pool;
mod reservations;
mod rows;
mod runner;
mod stream;
mod tensor;
mod ticket;
#[cfg(feature = "nixl")]
mod transport;
mod words;

use pyo3::prelude::*;

/// What `pagelift/__init__.py` takes its names from.
#[pymodule]
fn _pagelift(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<backend::Backend>()?;
    module.add_class::<backend::Cpu>()?;
    module.add_class::<backend::Cuda>()?;
    module.add_class::<calibration::Calibration>()?;
    module.add_class::<calibration::Pace>()?;
    module.add_class::<calibration::Paces>()?;
    module.add_class::<copies::CopyEngine>()?;
    module.add_class::<copies::CudaEvent>()?;
    module.add_class::<keys::CompactRouteKey>()?;
    module.add_class::<keys::DigestKey>()?;
    module.add_class::<geometry::Geometry>()?;
    module.add_class::<geometry::GeometryBuilder>()?;
    module.add_class::<keys::GroupKey>()?;
    module.add_class::<keys::PoolId>()?;
    module.add_class::<keys::RouteKey>()?;
    module.add_class::<keys::SideKey>()?;
    module.add_class::<keys::SideSpec>()?;
    module.add_class::<import::BlockSpan>()?;
    module.add_class::<import::Decision>()?;
    module.add_class::<import::Import>()?;
    module.add_class::<import::ImportGroup>()?;
    module.add_class::<import::PromptSpan>()?;
    module.add_function(wrap_pyfunction!(import::decide, module)?)?;
    module.add_class::<launcher::Launcher>()?;
    module.add_class::<layout::PagedLayout>()?;
    module.add_class::<layout::RingLayout>()?;
    module.add_class::<layout::Segment>()?;
    module.add_class::<layout::StateLayout>()?;
    module.add_class::<lifecycle::Lifecycle>()?;
    module.add_class::<memory::Region>()?;
    module.add_class::<memory::Registry>()?;
    module.add_class::<plan::DigestNumber>()?;
    module.add_class::<plan::DigestPlan>()?;
    module.add_class::<plan::LiftProgress>()?;
    module.add_class::<plan::PagePlan>()?;
    module.add_class::<plan::Plan>()?;
    module.add_class::<plan::RestorePlan>()?;
    module.add_class::<plan::WriteBackPlan>()?;
    module.add_class::<pool::HostPool>()?;
    module.add_class::<pool::HostPoolSpec>()?;
    module.add_class::<pool::SharedMemory>()?;
    module.add_class::<reservations::ImportId>()?;
    module.add_class::<reservations::Reservations>()?;
    module.add_class::<rows::MirrorPlan>()?;
    module.add_class::<rows::PageMap>()?;
    module.add_class::<rows::RowBinding>()?;
    module.add_class::<rows::RowPlan>()?;
    module.add_class::<runner::GroupFrames>()?;
    module.add_class::<runner::Runner>()?;
    module.add_class::<runner::Staged>()?;
    module.add_class::<ticket::Counters>()?;
    module.add_class::<ticket::Report>()?;
    module.add_class::<ticket::Ticket>()?;
    error::add_to(module)?;
    #[cfg(feature = "nixl")]
    transport::add_to(module)?;
    Ok(())
}
