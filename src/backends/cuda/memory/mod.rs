//! Memory of a GPU, and host memory that it reaches.

mod device;
mod host;
mod register;

pub(super) use device::{adopted, on_device};
pub(super) use host::on_host;
pub(super) use register::check_reach;

use crate::error::{BackendError, Error, MemoryError};

/// `CUDA_ERROR_OUT_OF_MEMORY`.
const OUT_OF_MEMORY: i32 = 2;

fn too_large(error: BackendError, bytes: u64, place: &'static str) -> Error {
    match error {
        BackendError::Driver { code: OUT_OF_MEMORY, .. } => MemoryError::OutOfMemory { bytes, place }.into(),
        other => other.into(),
    }
}
