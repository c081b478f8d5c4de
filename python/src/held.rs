//! What launches use until it is closed, and for ever where a graph may have it.

use std::mem;
use std::sync::{Arc, PoisonError, RwLock};

use pagelift::memory::Registry as RustRegistry;
use pagelift_bindings::error::Trouble;
use pagelift_bindings::recorded::Recordable;
use pagelift_bindings::{Error, Result};
use pyo3::prelude::*;

use crate::error::{LaunchError, OrRaise, of_kind};
use crate::locks::{closing, read, replaying, without_interpreter, write};
use crate::memory::Shared;

/// A launcher, or several, with the registry that they were bound to.
pub struct Held<T: Send + Sync> {
    value: RwLock<Option<Recordable<T>>>,
    memory: Arc<Shared>,
}

impl<T: Send + Sync> Held<T> {
    /// One that was bound to a registry.
    pub fn new(value: T, memory: &Arc<Shared>) -> Self {
        Self { value: RwLock::new(Some(Recordable::new(value))), memory: Arc::clone(memory) }
    }

    /// The registry.
    pub fn memory(&self) -> &Shared {
        &self.memory
    }

    /// Looks at it, beside others who do, with the interpreter.
    pub fn look<R>(&self, py: Python<'_>, look: impl FnOnce(&T) -> R) -> PyResult<R> {
        self.glance(py, look)?.ok_or_else(closed)
    }

    /// The same, and nothing where it was closed.
    pub fn glance<R>(&self, py: Python<'_>, look: impl FnOnce(&T) -> R) -> PyResult<Option<R>> {
        Ok(read(py, &self.value)?.as_ref().map(|own| look(own.value())))
    }

    /// Waits for something of it, beside others who look at it, without the interpreter.
    pub fn wait<R: Send>(&self, py: Python<'_>, wait: impl FnOnce(&T) -> R + Send) -> PyResult<R> {
        let value = read(py, &self.value)?;
        let value = value.as_ref().ok_or_else(closed)?.value();
        Ok(py.detach(|| wait(value)))
    }

    /// Changes it, with the interpreter.
    pub fn change<R>(&self, py: Python<'_>, change: impl FnOnce(&mut T) -> PyResult<R>) -> PyResult<R> {
        self.open(py, |own| change(own.value_mut()))
    }

    /// Stages something, while nobody launches. That is short: the interpreter stays.
    pub fn stage<R>(
        &self,
        py: Python<'_>,
        stage: impl FnOnce(&mut T, &RustRegistry) -> PyResult<R>,
    ) -> PyResult<R> {
        self.change(py, |value| stage(value, &*read(py, &self.memory.memory)?))
    }

    /// Launches something, without the interpreter.
    pub fn launch(
        &self,
        py: Python<'_>,
        launch: impl FnOnce(&mut T, &mut RustRegistry) -> Result + Send,
    ) -> PyResult<()> {
        self.change(py, |value| {
            let mut memory = write(py, &self.memory.memory)?;
            let memory = &mut *memory;
            py.detach(|| launch(value, memory)).or_raise()
        })
    }

    /// Records something into a graph, which has it from then on.
    pub fn record(
        &self,
        py: Python<'_>,
        record: impl FnOnce(&mut T, &mut RustRegistry) -> Result + Send,
    ) -> PyResult<()> {
        self.open(py, |own| {
            let mut memory = write(py, &self.memory.memory)?;
            let (memory, count) = (&mut *memory, &self.memory.recorded);
            py.detach(|| own.record(count, |value| record(value, memory))).or_raise()
        })
    }

    /// Lets a function of Python's replay a graph that has it.
    pub fn replay(
        &self,
        py: Python<'_>,
        replay: impl FnOnce(&mut T, &mut RustRegistry) -> PyResult<()>,
    ) -> PyResult<()> {
        self.change(py, |value| {
            let mut memory = write(py, &self.memory.memory)?;
            replaying(|| replay(value, &mut memory))
        })
    }

    /// Lets it go, once what it has launched is done. Later calls are errors.
    ///
    /// # Errors
    /// Inside of a replay, and where a capture forbids to wait: it is open still. Whatever else goes wrong, it is closed.
    pub fn close(&self, py: Python<'_>, wait: impl FnOnce(&T) -> Result + Send) -> PyResult<()> {
        let mut own = closing(py, &self.value)?;
        let waited = own.as_ref().map_or(Ok(()), |own| py.detach(|| wait(own.value())));
        if waited.as_ref().is_err_and(is_forbidden) {
            return waited.or_raise();
        }
        let value = own.take();
        self.value.clear_poison();
        drop(own);
        py.detach(|| drop(value));
        Ok(())
    }

    /// Changes it, and whether a graph may have it, with the interpreter.
    fn open<R>(&self, py: Python<'_>, change: impl FnOnce(&mut Recordable<T>) -> PyResult<R>) -> PyResult<R> {
        change(write(py, &self.value)?.as_mut().ok_or_else(closed)?)
    }
}

impl<T: Send + Sync> Drop for Held<T> {
    fn drop(&mut self) {
        let value = self.value.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        match value {
            // Graphs may be replayed still: tables, registry and tensors stay for ever.
            Some(value) if value.is_recorded() => {
                mem::forget(value);
                mem::forget(Arc::clone(&self.memory));
            }
            Some(value) => without_interpreter(|| drop(value)),
            None => {}
        }
    }
}

/// Whether a capture forbids it.
fn is_forbidden(error: &Error) -> bool {
    matches!(error, Error::Library(pagelift::Error::Backend(error)) if Trouble::of(error) == Trouble::Capture)
}

fn closed() -> PyErr {
    of_kind::<LaunchError>("Closed", "it was closed; bind another")
}
