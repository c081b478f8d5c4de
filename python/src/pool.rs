//! Host pools of many gigabytes, and memory that several processes have.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::PathBuf;

use pagelift::backends::{HostPoolSpec as RustSpec, SharedMemory as RustShared};
use pyo3::prelude::*;

use crate::error::OrRaise;
use crate::memory::Region;

/// A pool's blocks, and how many of them are registered at a time.
///
/// `blocks` blocks of `block_bytes` bytes, all layers of a block together, in chunks of at most `chunk_bytes` bytes (256 GiB at
/// most), each of which is registered alone. A chunk never cuts a block, and is what a geometry calls an extent. `threads` threads
/// prepare it, at most 256; 0 stands for one a processor, and no more than 16. `huge_pages` asks the system for huge pages, where the
/// pool's memory is its own.
#[pyclass(frozen, module = "pagelift")]
pub struct HostPoolSpec {
    /// The library's.
    pub spec: RustSpec,
    /// Its blocks.
    #[pyo3(get)]
    pub blocks: u32,
    /// Bytes of a block.
    #[pyo3(get)]
    pub block_bytes: u64,
}

#[pymethods]
impl HostPoolSpec {
    #[new]
    #[pyo3(signature = (blocks, block_bytes, *, chunk_bytes=RustSpec::CHUNK_BYTES, threads=0, huge_pages=true))]
    fn new(blocks: u32, block_bytes: u64, chunk_bytes: u64, threads: usize, huge_pages: bool) -> Self {
        let spec = RustSpec::new(blocks, block_bytes).chunks_of(chunk_bytes);
        Self { spec: spec.threads(threads).huge_pages(huge_pages), blocks, block_bytes }
    }

    /// Blocks of an extent of memory that is allocated for the pool, or shared; the last may have fewer. Raises `RegistryError` for a
    /// pool that cannot be.
    #[getter]
    fn blocks_per_extent(&self) -> PyResult<u32> {
        self.spec.blocks_per_extent().or_raise()
    }

    /// Bytes of memory that is allocated for the pool, or shared: whole pages. Raises as `blocks_per_extent` does.
    #[getter]
    fn bytes(&self) -> PyResult<u64> {
        self.spec.bytes().or_raise()
    }

    fn __repr__(&self) -> String {
        format!("HostPoolSpec({} blocks of {} B)", self.blocks, self.block_bytes)
    }
}

/// A host pool whose memory was registered chunk by chunk.
#[pyclass(frozen, get_all, module = "pagelift")]
pub struct HostPool {
    /// Its blocks.
    pub blocks: u32,
    /// Blocks of an extent; the last may have fewer.
    pub blocks_per_extent: u32,
    /// A region for each extent.
    pub regions: Vec<Region>,
}

#[pymethods]
impl HostPool {
    fn __repr__(&self) -> String {
        format!("HostPool({} blocks in {} extents)", self.blocks, self.regions.len())
    }
}

/// Memory that several processes map: a memfd whose descriptor they hand on, or a file in `/dev/shm` or `hugetlbfs`.
///
/// One process makes it, with the bytes that a `HostPoolSpec` says; all of them map it by `Registry.share_pool` with the same spec.
/// Its size must not change meanwhile.
#[pyclass(frozen, module = "pagelift")]
pub struct SharedMemory(pub RustShared);

#[pymethods]
impl SharedMemory {
    /// Makes zeroed memory without a path, which lives as long as a process has a descriptor or a mapping of it. Its size is sealed.
    /// `name` is what `/proc/PID/maps` shows. Raises `RegistryError` where the system refuses it.
    #[staticmethod]
    fn create(name: &str, bytes: u64) -> PyResult<Self> {
        RustShared::create(name, bytes).map(Self).or_raise()
    }

    /// Makes a file of so many zeros, which must not exist yet. Whoever made it removes it. Raises `RegistryError` where the system
    /// refuses it.
    #[staticmethod]
    fn create_file(path: PathBuf, bytes: u64) -> PyResult<Self> {
        RustShared::create_file(path, bytes).map(Self).or_raise()
    }

    /// Opens a file that another process has made. Raises `RegistryError` where the system refuses it.
    #[staticmethod]
    fn open(path: PathBuf) -> PyResult<Self> {
        RustShared::open(path).map(Self).or_raise()
    }

    /// Opens what a descriptor of this process stands for, which another one has handed on; the descriptor stays yours. Raises
    /// `RegistryError` where it stands for nothing that can be opened.
    #[staticmethod]
    fn from_descriptor(descriptor: RawFd) -> PyResult<Self> {
        RustShared::open(format!("/proc/self/fd/{descriptor}")).map(Self).or_raise()
    }

    /// Its descriptor, to be handed on. It is closed with this object.
    fn fileno(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }

    /// Its size. Raises `RegistryError` where the system does not say it.
    #[getter]
    fn bytes(&self) -> PyResult<u64> {
        self.0.bytes().or_raise()
    }

    fn __repr__(&self) -> String {
        format!("SharedMemory(descriptor {})", self.fileno())
    }
}
