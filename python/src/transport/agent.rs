//! This process's end of NIXL, and the memory that it lends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use pagelift::error::MemoryError;
use pagelift::memory::RegionId;
use pagelift_transport::nixl::{self, AgentOptions};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::error::{NixlError, OrRaise as _, closed};
use super::mapped::Mapped;
use super::offer::Offer;
use crate::error::{OrRaise as _, of_kind};
use crate::foreign;
use crate::locks::{read, take, turn, without_interpreter};
use crate::memory::Shared;

/// NIXL's library, opened. `open` does what an `Agent` does first: with it a program sees at its start whether the library is there.
#[pyclass(frozen, module = "pagelift.transport")]
pub struct Library(nixl::Library);

#[pymethods]
impl Library {
    /// Opens the library that the environment variable `PAGELIFT_NIXL` names, or the one that the system finds. Raises `NixlError`, with
    /// what to do, where there is none, or it lacks calls. The first answer stands.
    #[staticmethod]
    fn open(py: Python<'_>) -> PyResult<Self> {
        py.detach(nixl::Library::open).or_raise().map(Self)
    }

    /// Its file, where the system says.
    #[getter]
    fn path(&self) -> Option<String> {
        self.0.path().map(|path| path.display().to_string())
    }

    /// The version of the package that it came in, where that says one.
    #[getter]
    fn version(&self) -> Option<&str> {
        self.0.version()
    }

    /// The plugins that it has. Raises `NixlError` where it does not say.
    fn plugins(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        py.detach(|| nixl::Agent::plugins(&self.0)).or_raise()
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// A region of a registry that is lent: noted there for as long as this lives.
struct Loan {
    memory: Arc<Shared>,
    id: RegionId,
}

impl Loan {
    fn new(memory: &Arc<Shared>, id: RegionId) -> Self {
        memory.lent.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        Self { memory: Arc::clone(memory), id }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let mut lent = self.memory.lent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = lent.iter().position(|own| *own == self.id) {
            lent.swap_remove(at);
        }
    }
}

/// An agent, and what keeps its memory: whoever has it lets go of the agent, and of all lists and reads of it, first.
#[derive(Clone)]
pub struct Held {
    pub agent: Arc<nixl::Agent>,
    /// What NIXL has registered.
    loans: Arc<Vec<Loan>>,
}

impl Held {
    /// Whether all memory of an offer is registered.
    fn has(&self, mapped: &Mapped, offer: &Offer) -> bool {
        let lent =
            |id| self.loans.iter().any(|loan| Arc::ptr_eq(&loan.memory, &mapped.memory) && loan.id == id);
        offer.offer.regions.memory.iter().all(|range| mapped.region(range).is_some_and(lent))
    }
}

/// This process's end of all transfers: one a process, over NIXL. One producer and any number of consumers share it: whichever producer
/// asks takes what peers say of any export.
///
/// `name` is what peers know it by: one that no other process has, nor had before. `plugin` is what carries bytes, and `parameters` are
/// the plugin's, by name, in place of those that suit imports (for UCX segments of 512 KiB over TCP, which it takes between a GPU and the
/// host where there is no RDMA). Raises `NixlError`, with what to do, where NIXL's library is not there, or lacks calls or the plugin.
/// Threads of the library do not survive `fork`: make it in the process that uses it.
#[pyclass(frozen, module = "pagelift.transport")]
pub struct Agent {
    /// Its name.
    #[pyo3(get)]
    name: String,
    /// Whoever has it may wait for a registry.
    held: Mutex<Option<Held>>,
}

#[pymethods]
impl Agent {
    #[new]
    #[pyo3(signature = (name, *, plugin="UCX", parameters=None))]
    fn new(
        py: Python<'_>,
        name: String,
        plugin: &str,
        parameters: Option<BTreeMap<String, String>>,
    ) -> PyResult<Self> {
        let given = parameters.as_ref().map(|parameters| {
            parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect::<Vec<_>>()
        });
        let mut options = AgentOptions::over(&name, plugin);
        options.parameters = given.as_deref().unwrap_or(options.parameters);
        let made = py.detach(|| nixl::Agent::new(&nixl::Library::open()?, options)).or_raise()?;
        let held = Held { agent: Arc::new(made), loans: Arc::default() };
        Ok(Self { name, held: Mutex::new(Some(held)) })
    }

    /// Lets peers read the memory of an offer, and this process's own reads write it, from now on. It comes before the first producer or
    /// consumer.
    ///
    /// The memory's regions cannot be released until the agent, and all producers and consumers that have it, are closed. Until then leave
    /// alone what is exported, and what imports are being read into, as with any call that runs beside yours.
    ///
    /// Raises `NixlError` where memory is registered already, a producer or consumer has the agent, or NIXL refuses it, and
    /// `RegistryError` where a region was released. Regions that were registered before the one that is refused stay so.
    fn register(&self, py: Python<'_>, offer: &Offer) -> PyResult<()> {
        let mapped = offer.mapped()?;
        let mut held = turn(py, &self.held)?;
        let held = held.as_mut().ok_or_else(closed)?;
        let (Some(agent), Some(loans)) = (Arc::get_mut(&mut held.agent), Arc::get_mut(&mut held.loans))
        else {
            let text = "a producer or a consumer has the agent; register all memory before that";
            return Err(of_kind::<NixlError>("InUse", text));
        };
        let ranges = &offer.offer.regions.memory;
        let registry = read(py, &mapped.memory.memory)?;
        let ids = ranges.iter().filter_map(|range| mapped.region(range));
        let ids: Vec<_> = ids.filter(|id| registry.region(*id).is_some()).collect();
        if ids.len() != ranges.len() {
            return Err(MemoryError::Released).or_raise();
        }
        let mut register = |(range, id)| {
            // It is noted before peers may read it, and no more where NIXL refuses it.
            let loan = Loan::new(&mapped.memory, id);
            foreign::lend(agent, range).map(|()| loans.push(loan))
        };
        py.detach(|| ranges.iter().copied().zip(ids).try_for_each(&mut register)).or_raise()
    }

    /// What peers need to reach this agent and its memory, for those who bring it there themselves: a `Producer` sends it. Raises
    /// `NixlError` where NIXL does not say.
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let held = self.held(py)?;
        Ok(PyBytes::new(py, &py.detach(|| held.agent.metadata()).or_raise()?))
    }

    /// Lets it go, with the registration of its memory, once no producer and no consumer has it any more. Later calls are errors.
    ///
    /// Raises `LaunchError` inside of a function that `replay` calls, as all of its calls.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let held = take(py, &self.held)?;
        py.detach(|| drop(held));
        Ok(())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let Self { name, held } = self;
        Ok(match &*turn(py, held)? {
            Some(held) => format!("Agent({name:?}, {} regions)", held.loans.len()),
            None => format!("Agent({name:?}, closed)"),
        })
    }
}

impl Agent {
    fn held(&self, py: Python<'_>) -> PyResult<Held> {
        turn(py, &self.held)?.clone().ok_or_else(closed)
    }

    /// The agent and the memory of an offer, for a producer or a consumer.
    ///
    /// # Errors
    /// Where it was closed, or the memory is not registered.
    pub fn with(&self, py: Python<'_>, offer: &Offer) -> PyResult<(Held, Arc<Mapped>)> {
        let (held, mapped) = (self.held(py)?, Arc::clone(offer.mapped()?));
        if !held.has(&mapped, offer) {
            let text = "the offer's memory is not registered with the agent; `Agent.register` does that";
            return Err(of_kind::<NixlError>("NotRegistered", text));
        }
        Ok((held, mapped))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let held = self.held.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // Its threads end with it.
        without_interpreter(|| drop(held));
    }
}
