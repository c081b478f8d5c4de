//! What launches use, with the registry that it was bound to.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pagelift::memory::Registry;
use pagelift_bindings::Result;
use pagelift_bindings::boundary::is_in_graph;

use crate::memory::Shared;
use crate::status::Outcome;

/// A launcher, or several, with their registry.
pub struct Held<T: ?Sized> {
    /// Goes before the registry.
    value: Box<T>,
    memory: Arc<Shared>,
    recorded: bool,
}

impl<T: ?Sized> Held<T> {
    /// One that was bound to a registry.
    pub fn new(value: Box<T>, memory: Arc<Shared>) -> Self {
        Self { value, memory, recorded: false }
    }

    /// Looks at it.
    pub fn value(&self) -> &T {
        &self.value
    }

    /// Changes it, without the registry.
    pub fn value_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// Stages something, beside others who look at the registry.
    pub fn stage<R>(&mut self, stage: impl FnOnce(&mut T, &Registry) -> Outcome<R>) -> Outcome<R> {
        let memory = self.memory.read()?;
        stage(&mut self.value, &memory)
    }

    /// Launches something, alone with the registry.
    pub fn launch(&mut self, launch: impl FnOnce(&mut T, &mut Registry) -> Outcome) -> Outcome {
        let mut memory = self.memory.write()?;
        launch(&mut self.value, &mut memory)
    }

    /// Records something into a graph, which has it from then on.
    pub fn record(&mut self, record: impl FnOnce(&mut T, &mut Registry) -> Result) -> Outcome {
        let mut memory = self.memory.write()?;
        let recorded = record(&mut self.value, &mut memory);
        if is_in_graph(&recorded) && !self.recorded {
            self.recorded = true;
            self.memory.recorded.fetch_add(1, Ordering::Relaxed);
        }
        Ok(recorded?)
    }
}

impl<T: ?Sized> Drop for Held<T> {
    fn drop(&mut self) {
        if self.recorded {
            self.memory.recorded.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
