//! What launches use, with the registry that it was bound to.

use std::sync::Arc;

use pagelift::memory::Registry;
use pagelift_bindings::Result;
use pagelift_bindings::recorded::Recordable;

use crate::memory::Shared;
use crate::status::Outcome;

/// A launcher, or several, with their registry.
pub struct Held<T: ?Sized> {
    /// Goes before the registry.
    value: Recordable<Box<T>>,
    memory: Arc<Shared>,
}

impl<T: ?Sized> Held<T> {
    /// One that was bound to a registry.
    pub fn new(value: Box<T>, memory: Arc<Shared>) -> Self {
        Self { value: Recordable::new(value), memory }
    }

    /// Looks at it.
    pub fn value(&self) -> &T {
        self.value.value()
    }

    /// Changes it, without the registry.
    pub fn value_mut(&mut self) -> &mut T {
        self.value.value_mut()
    }

    /// Stages something, beside others who look at the registry.
    pub fn stage<R>(&mut self, stage: impl FnOnce(&mut T, &Registry) -> Outcome<R>) -> Outcome<R> {
        let memory = self.memory.read()?;
        stage(self.value.value_mut(), &memory)
    }

    /// Launches something, alone with the registry.
    pub fn launch(&mut self, launch: impl FnOnce(&mut T, &mut Registry) -> Outcome) -> Outcome {
        let mut memory = self.memory.write()?;
        launch(self.value.value_mut(), &mut memory)
    }

    /// Records something into a graph, which has it from then on.
    pub fn record(&mut self, record: impl FnOnce(&mut T, &mut Registry) -> Result) -> Outcome {
        let mut memory = self.memory.write()?;
        Ok(self.value.record(&self.memory.recorded, |value| record(value, &mut memory))?)
    }
}
