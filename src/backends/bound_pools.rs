//! Whether a geometry's pools are registered: looked for once, and again when the registry has lost a region since.

use std::sync::Arc;

use pagelift_planner::geometry::Geometry;

use super::Reach;
use crate::error::{Error, LaunchError, MemoryError};
use crate::memory::Registry;

/// Pools of a geometry that were found in a registry, where a backend's kernels reach them.
#[derive(Clone, Debug)]
pub(crate) struct Pools {
    geometry: Arc<Geometry>,
    by: Reach,
    /// Which registry that was, and its version when they were last looked for.
    registry: (u64, u64),
}

impl Pools {
    /// Looks for them.
    pub fn find(memory: &Registry, geometry: &Arc<Geometry>, by: Reach) -> Result<Self, MemoryError> {
        memory.check_pools(geometry, by)?;
        Ok(Self { geometry: Arc::clone(geometry), by, registry: memory.stamp() })
    }

    /// The geometry.
    pub const fn geometry(&self) -> &Arc<Geometry> {
        &self.geometry
    }

    /// Whether they are those of this geometry, and were found in this registry.
    pub fn are_of(&self, memory: &Registry, geometry: &Arc<Geometry>) -> bool {
        Arc::ptr_eq(&self.geometry, geometry) && self.registry.0 == memory.stamp().0
    }

    /// Refuses another registry, and one that has lost a pool.
    pub fn check(&mut self, memory: &Registry) -> Result<(), Error> {
        let (id, version) = memory.stamp();
        if id != self.registry.0 {
            return Err(LaunchError::OtherRegistry.into());
        }
        if version != self.registry.1 {
            memory.check_pools(&self.geometry, self.by)?;
            self.registry.1 = version;
        }
        Ok(())
    }
}
