//! A geometry that is finished, and what can be asked of it.

use std::mem;
use std::sync::Arc;

use pagelift::geometry;
use pagelift::quantity::Tokens;
use pagelift_bindings::geometry as erased;

use crate::foreign::Out;
use crate::handle::{Handle, object};
use crate::keys::{GroupKey, Keys, RouteKey};
use crate::memory::place;
use crate::status::{Failure, Status, answer};

/// Pools, groups, sides and routes, checked, with the tables that kernels read. Plans are made for one, and keep it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    /// Meaningless but to this library; 0 is none.
    pub value: u64,
}

impl Geometry {
    /// What it stands for.
    pub const fn handle(self) -> Handle<Built> {
        Handle::new(self.value)
    }
}

/// What a handle of a geometry stands for.
pub struct Built {
    /// The geometry.
    pub geometry: Arc<geometry::Geometry>,
    /// What its keys are of.
    pub keys: Arc<Keys>,
    /// The ways to lift and to write back, group by group in the order of their keys.
    pub(super) ways: Vec<(GroupKey, Option<RouteKey>, Option<RouteKey>)>,
}

object!(Built, Geometry);

/// Gives the way by which a group's imported blocks are lifted.
///
/// Errors: PAGELIFT_GEOMETRY where it lacks a main side, those of handles and keys.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_geometry_lift_route(
    geometry: Geometry,
    group: GroupKey,
    route: Out<RouteKey>,
) -> Status {
    way_of(geometry, group, route, |(_, lift, _)| *lift)
}

/// Gives the way by which a group's pages are written back.
///
/// Errors: as `pagelift_geometry_lift_route`.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_geometry_spill_route(
    geometry: Geometry,
    group: GroupKey,
    route: Out<RouteKey>,
) -> Status {
    way_of(geometry, group, route, |(_, _, spill)| *spill)
}

fn way_of(
    geometry: Geometry,
    group: GroupKey,
    route: Out<RouteKey>,
    which: impl FnOnce(&(GroupKey, Option<RouteKey>, Option<RouteKey>)) -> Option<RouteKey>,
) -> Status {
    answer(|| {
        let route = route.ready("route")?;
        route.put(geometry.handle().look(|own| {
            own.keys.group(group)?;
            let found = own.ways.iter().find(|(name, ..)| name.value == group.value).and_then(which);
            found.ok_or_else(|| Failure::new(Status::Geometry, "the group lacks a main side"))
        })?);
        Ok(())
    })
}

/// Tells the token slots of a block of a group's main side in `memory`: of a ring its slots, of a state 1.
///
/// Errors: PAGELIFT_GEOMETRY where it has no side there; PAGELIFT_BAD_VALUE, those of handles and keys.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_geometry_block_slots(
    geometry: Geometry,
    group: GroupKey,
    memory: u32,
    slots: Out<u64>,
) -> Status {
    answer(|| {
        let slots = slots.ready("slots")?;
        let memory = place(memory, "memory")?;
        slots.put(geometry.handle().look(|own| {
            let found = erased::block_slots(&own.geometry, *own.keys.group(group)?, memory).map(Tokens::get);
            found.ok_or_else(|| {
                Failure::new(Status::Geometry, format!("the group has no side on the {}", memory.name()))
            })
        })?);
        Ok(())
    })
}

/// Frees a handle of a geometry. Plans that were made for it keep it, and its keys.
///
/// Errors: those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_geometry_free(geometry: Geometry) -> Status {
    answer(|| geometry.handle().take().map(mem::drop))
}
