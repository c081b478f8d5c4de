//! The memory that kernels may touch, and the tensors that it belongs to.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use pagelift::backends;
use pagelift::error::MemoryError;
use pagelift::geometry::{self, Memory};
use pagelift::memory;
use pagelift::memory::RegionId;
use pagelift_bindings::recorded::RecordedCount;
use pagelift_bindings::{Engine, on_engine};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::backend::{Backend, gpu_of};
use crate::error::{OrRaise, RegistryError, bad_tensor, of_kind};
use crate::foreign;
use crate::locks::{lock, read, without_interpreter, write};
use crate::pool::{HostPool, HostPoolSpec, SharedMemory};
use crate::tensor::{Device, Tensor};
use crate::words::Word;

/// A registry and what it keeps, as launchers share it.
pub struct Shared {
    pub memory: RwLock<memory::Registry>,
    /// The registered regions, each with the tensor that keeps its memory where it is.
    owners: Mutex<HashMap<RegionId, Option<Py<PyAny>>>>,
    /// Streams of Python's that launches are on, by handle and type: a registry waits for them before it lets memory go.
    streams: Mutex<HashMap<(u64, usize), Py<PyAny>>>,
    /// Regions that transports have, once for each. Added to with the registry locked.
    pub lent: Mutex<Vec<RegionId>>,
    /// Launchers that were recorded into graphs and not closed.
    pub recorded: RecordedCount,
}

impl Shared {
    /// The regions that are here.
    pub fn ids(&self, py: Python<'_>) -> PyResult<Vec<RegionId>> {
        Ok(lock(py, &self.owners)?.keys().copied().collect())
    }

    /// Keeps the object that stands for a stream. Its caller has no locks: what it replaces may run code of Python's.
    ///
    /// An engine that says its stream in every step may make an object each time: the last one is enough. A number, or what only
    /// names a stream of somebody's, is of another type than what owns it, and takes nobody's place.
    pub fn keep_stream(&self, handle: Option<u64>, stream: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let Some((handle, stream)) = handle.zip(stream) else { return Ok(()) };
        // A type lives as long as what is kept of it, so that no other has its address.
        let of_type = stream.get_type_ptr().addr();
        let before = lock(stream.py(), &self.streams)?.insert((handle, of_type), stream.clone().unbind());
        drop(before);
        Ok(())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let memory = self.memory.get_mut().unwrap_or_else(PoisonError::into_inner);
        let owners = self.owners.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut freed = Vec::new();
        without_interpreter(|| {
            for (id, owner) in owners.drain() {
                match memory.release(id) {
                    Ok(()) => freed.push(owner),
                    // A launch may still use what cannot be released: then its owner is never freed.
                    Err(_) => mem::forget(owner),
                }
            }
        });
        let streams = mem::take(self.streams.get_mut().unwrap_or_else(PoisonError::into_inner));
        // With the interpreter. Otherwise they go in whichever thread takes it next, which may have locks that their own code needs.
        Python::try_attach(|_| drop((freed, streams)));
    }
}

/// One registered range of memory. `int(region)` is its address.
#[pyclass(frozen, from_py_object, module = "pagelift")]
#[derive(Clone)]
pub struct Region {
    /// Where kernels reach its first byte.
    #[pyo3(get)]
    pub address: u64,
    /// Its size.
    #[pyo3(get)]
    pub bytes: u64,
    /// `"host"` or `"device"`.
    #[pyo3(get)]
    place: &'static str,
    /// The dtype of the tensor that was adopted, as `"int64"`; `None` for memory of the registry's own.
    #[pyo3(get)]
    pub dtype: Option<String>,
    /// The items of the tensor that was adopted; `None` for memory of the registry's own.
    #[pyo3(get)]
    pub items: Option<u64>,
    id: RegionId,
}

#[pymethods]
impl Region {
    fn __int__(&self) -> u64 {
        self.address
    }

    fn __repr__(&self) -> String {
        let Self { address, bytes, place, .. } = self;
        let dtype = self.dtype.as_ref().map(|dtype| format!(", {dtype}")).unwrap_or_default();
        format!("Region({address:#x}, {bytes} B, {place}{dtype})")
    }
}

impl Region {
    /// As a geometry wants it.
    pub fn region(&self) -> geometry::Region {
        geometry::Region::new(self.address, self.bytes)
    }
}

/// A region, or the address of something inside one.
#[derive(FromPyObject)]
pub enum Address {
    /// A region's first byte.
    Region(Region),
    /// A number.
    Number(u64),
}

impl Address {
    /// The address.
    pub fn get(&self) -> u64 {
        match self {
            Self::Region(region) => region.address,
            Self::Number(address) => *address,
        }
    }
}

/// Knows every region of memory that kernels may touch, and keeps the tensors that these belong to.
///
/// Memory is registered before anything is bound to it. While a launch that reads or writes a region may run, leave the bytes
/// that it touches alone, as with any call of NumPy or PyTorch that runs beside yours; do not resize a tensor's storage.
/// A tensor that refers to its registry keeps both: release its region.
#[pyclass(frozen, module = "pagelift")]
pub struct Registry(pub Arc<Shared>);

#[pymethods]
impl Registry {
    #[new]
    fn new() -> Self {
        let memory = RwLock::new(memory::Registry::new());
        let (owners, streams, lent) = Default::default();
        Self(Arc::new(Shared { memory, owners, streams, lent, recorded: RecordedCount::default() }))
    }

    /// Takes in a tensor's memory, where it lies, and keeps the tensor until the region is released.
    ///
    /// `place` is `"host"` or `"device"`: on a `Cuda` backend a host tensor, which is pinned and mapped here unless it is already,
    /// or one of that GPU; on the `Cpu` backend both are the host's. `tensor` is a PyTorch tensor, an array with
    /// `__cuda_array_interface__`, a NumPy array, or one with `__dlpack__`: contiguous, writable, of any shape and dtype, not empty.
    /// What is enqueued for it on other streams is not waited for.
    ///
    /// Raises `TensorError` for a tensor that cannot serve, `RegistryError` where it shares bytes with a region that is here, and
    /// what the driver says.
    fn adopt(&self, backend: &Backend, place: Word<Memory>, tensor: &Bound<'_, PyAny>) -> PyResult<Region> {
        let (py, place) = (tensor.py(), place.0);
        let (engine, (found, owner)) = (&backend.0, Tensor::of(tensor)?);
        check_device(engine, place, &found)?;
        let mut memory = write(py, &self.0.memory)?;
        let own = &mut *memory;
        let adopted = py.detach(|| own.adopt(place, foreign::adopt(engine, place, &found)?));
        let (items, dtype) = (found.items(), found.dtype);
        self.keep(py, &memory, adopted.or_raise()?, place, Some((dtype, items)), Some(owner))
    }

    /// Allocates `bytes` zeroed bytes, page-aligned: pinned and mapped memory of the host, or memory of the device.
    ///
    /// Raises `RegistryError` where there is no room for it.
    fn allocate(
        &self,
        py: Python<'_>,
        backend: &Backend,
        place: Word<Memory>,
        bytes: u64,
    ) -> PyResult<Region> {
        let place = place.0;
        let mut memory = write(py, &self.0.memory)?;
        let own = &mut *memory;
        let allocated = py.detach(|| on_engine!(&backend.0, backend => own.allocate(backend, place, bytes)));
        self.keep(py, &memory, allocated.or_raise()?, place, None, None)
    }

    /// Takes in a host tensor as a pool, registered in chunks by several threads: for pools of many gigabytes.
    ///
    /// A geometry has an extent for each chunk: give `GeometryBuilder.pool` the pool's `blocks`, `regions` and `blocks_per_extent`,
    /// and `SideSpec.packed` its `regions`. Raises `TensorError` as `adopt` does, and where the tensor is too small;
    /// `RegistryError` where chunks of that size would cut blocks or pages of memory, or a chunk is registered in part already. Then
    /// nothing stays registered.
    fn adopt_pool(
        &self,
        backend: &Backend,
        tensor: &Bound<'_, PyAny>,
        spec: &HostPoolSpec,
    ) -> PyResult<HostPool> {
        let py = tensor.py();
        let (engine, (found, owner)) = (&backend.0, Tensor::of(tensor)?);
        check_device(engine, Memory::Host, &found)?;
        let HostPoolSpec { blocks, block_bytes, .. } = *spec;
        if u64::from(blocks).saturating_mul(block_bytes) > found.bytes {
            let text = format!(
                "{blocks} blocks of {block_bytes} bytes do not fit a tensor of {} bytes",
                found.bytes
            );
            return Err(bad_tensor("TooSmall", text));
        }
        let pool = py.detach(|| foreign::register(engine, &spec.spec, &found)).or_raise()?;
        self.keep_pool(py, pool, blocks, Some(&owner))
    }

    /// Allocates a host pool of zeroed memory: pinned and mapped, on the GPU's NUMA node where there are several, in huge pages where
    /// the system has them. It is read and written through its regions.
    ///
    /// Raises `RegistryError` where there is no room for it, or the spec is one that cannot be. Then nothing stays allocated.
    fn allocate_pool(&self, py: Python<'_>, backend: &Backend, spec: &HostPoolSpec) -> PyResult<HostPool> {
        let engine = &backend.0;
        let pool = py.detach(
            || on_engine!(engine, backend => backends::HostPool::allocate(backend, &spec.spec, |_| ())),
        );
        self.keep_pool(py, pool.or_raise()?, spec.blocks, None)
    }

    /// Maps memory that several processes have as a host pool, and registers this process' mapping of it. All of them give the same
    /// spec. What a launch of one process reads and writes, the others leave alone until it is done.
    ///
    /// Raises `RegistryError` where the memory has not the spec's `bytes`, and as `allocate_pool` does.
    fn share_pool(
        &self,
        py: Python<'_>,
        backend: &Backend,
        spec: &HostPoolSpec,
        memory: &SharedMemory,
    ) -> PyResult<HostPool> {
        let engine = &backend.0;
        let pool = py.detach(|| foreign::share(engine, &spec.spec, &memory.0)).or_raise()?;
        self.keep_pool(py, pool, spec.blocks, None)
    }

    /// Releases a region once no launch uses it any more: this waits. Launchers that need it refuse work from then on.
    ///
    /// Raises `RegistryError` where it was released before, a launcher that was recorded into a graph is not closed yet, for graphs
    /// may be replayed without pagelift's knowledge, or a transport's agent that has it is not: peers may read it.
    fn release(&self, py: Python<'_>, region: &Region) -> PyResult<()> {
        let owner = {
            let mut memory = write(py, &self.0.memory)?;
            let recorded = self.0.recorded.get();
            if recorded > 0 {
                let text = format!(
                    "{recorded} launchers were recorded into graphs and may use it; close them first"
                );
                return Err(of_kind::<RegistryError>("Recorded", text));
            }
            if lock(py, &self.0.lent)?.contains(&region.id) {
                let text =
                    "an agent has lent it to peers; close the agent, and its producers and consumers, first";
                return Err(of_kind::<RegistryError>("Lent", text));
            }
            let own = &mut *memory;
            py.detach(|| own.release(region.id)).or_raise()?;
            lock(py, &self.0.owners)?.remove(&region.id)
        };
        // What it runs in Python may use the registry.
        drop(owner);
        Ok(())
    }

    /// A copy of `length` bytes from offset `at` of a region on, once no launch that this registry knows of touches it.
    ///
    /// Raises `RegistryError` where the region was released, or has no such bytes, and `MemoryError` where there is no room for them.
    fn read<'py>(
        &self,
        py: Python<'py>,
        region: &Region,
        at: u64,
        length: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let memory = read(py, &self.0.memory)?;
        let bytes = memory.region(region.id).ok_or(MemoryError::Released).or_raise()?.bytes();
        let size =
            usize::try_from(length).ok().filter(|_| at.checked_add(length).is_some_and(|end| end <= bytes));
        let size = size.ok_or(MemoryError::Outside { at, length, bytes }).or_raise()?;
        let memory = &*memory;
        PyBytes::new_with(py, size, |into| py.detach(|| memory.read(region.id, at, into)).or_raise())
    }

    /// Copies `data` to offset `at` of a region, once no launch that this registry knows of touches it.
    ///
    /// Raises `RegistryError` where the region was released, or has no such bytes.
    fn write(&self, py: Python<'_>, region: &Region, at: u64, data: &[u8]) -> PyResult<()> {
        let mut memory = write(py, &self.0.memory)?;
        let own = &mut *memory;
        py.detach(|| own.write(region.id, at, data)).or_raise()
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(lock(py, &self.0.owners)?.len())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("Registry({} regions)", self.__len__(py)?))
    }
}

impl Registry {
    /// Takes a pool in, extent by extent.
    fn keep_pool(
        &self,
        py: Python<'_>,
        pool: backends::HostPool,
        blocks: u32,
        owner: Option<&Py<PyAny>>,
    ) -> PyResult<HostPool> {
        let blocks_per_extent = pool.blocks_per_extent();
        let mut memory = write(py, &self.0.memory)?;
        let own = &mut *memory;
        let ids = py.detach(|| own.adopt_pool(pool)).or_raise()?;
        let owner = || owner.map(|owner| owner.clone_ref(py));
        let region = |id| self.keep(py, &memory, id, Memory::Host, None, owner());
        let regions = ids.into_iter().map(region).collect::<PyResult<Vec<_>>>()?;
        Ok(HostPool { blocks, blocks_per_extent, regions })
    }

    /// Keeps what a region belongs to.
    fn keep(
        &self,
        py: Python<'_>,
        memory: &memory::Registry,
        id: RegionId,
        place: Memory,
        tensor: Option<(String, u64)>,
        owner: Option<Py<PyAny>>,
    ) -> PyResult<Region> {
        let region = memory.region(id).ok_or(MemoryError::Released).or_raise()?;
        lock(py, &self.0.owners)?.insert(id, owner);
        let (dtype, items) = tensor.unzip();
        Ok(Region { address: region.address(), bytes: region.bytes(), place: place.name(), dtype, items, id })
    }
}

/// Refuses a tensor that does not lie where it is asked for.
fn check_device(engine: &Engine, place: Memory, tensor: &Tensor) -> PyResult<()> {
    let (expected, fits) = match (gpu_of(engine), place) {
        (Some(gpu), Memory::Device) => {
            let fits = matches!(tensor.device, Device::Gpu(found) if found.is_none_or(|found| found == gpu));
            (Device::Gpu(Some(gpu)), fits)
        }
        _ => (Device::Host, tensor.device == Device::Host),
    };
    if fits {
        return Ok(());
    }
    let (backend, place, found) = (engine.name(), place.name(), tensor.device);
    let text =
        format!("{place} memory of the backend `{backend}` is {expected}'s; found a tensor on {found}");
    Err(bad_tensor("WrongDevice", text))
}
