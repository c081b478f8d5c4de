//! Builds a geometry: pools, groups, sides, and the ways between these.

use std::mem;
use std::sync::Arc;

use pagelift::geometry;
use pagelift_bindings::geometry as erased;
use pagelift_bindings::keys::AnyRoute;

use super::sides::{GroupSpec, SideSpec};
use super::{Built, Geometry};
use crate::foreign::{In, Out, Text};
use crate::handle::{Handle, Vacancy, keep, object};
use crate::keys::{CompactRouteKey, DigestKey, GroupKey, Keys, PoolId, RouteKey, SideKey};
use crate::memory::{Region, place};
use crate::status::{Failure, Outcome, Status, answer};

/// Collects pools, groups, sides and routes. A call that fails leaves it as it was.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GeometryBuilder {
    /// Meaningless but to this library; 0 is none.
    pub value: u64,
}

impl GeometryBuilder {
    const fn handle(self) -> Handle<Building> {
        Handle::new(self.value)
    }

    /// Adds something that gets a key, where there is one left.
    fn add<R>(self, add: impl FnOnce(&mut Building) -> Outcome<R>) -> Outcome<R> {
        self.handle().change(|own| {
            own.keys.room()?;
            add(own)
        })
    }
}

/// What a handle of a builder stands for.
struct Building {
    builder: geometry::GeometryBuilder,
    keys: Keys,
}

object!(Building, GeometryBuilder);

/// Makes a builder of a geometry. It is freed by `pagelift_geometry_builder_build`, or by `pagelift_geometry_builder_free`.
///
/// Errors: PAGELIFT_NULL_POINTER, PAGELIFT_MISALIGNED.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_geometry_builder_new(builder: Out<GeometryBuilder>) -> Status {
    answer(|| {
        let builder = builder.ready("builder")?;
        let own = Building { builder: geometry::GeometryBuilder::new(), keys: Keys::new() };
        builder.put(GeometryBuilder { value: keep(own)? });
        Ok(())
    })
}

/// Memory whose blocks share one numbering.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PoolSpec {
    /// sizeof(pagelift_pool_spec).
    pub size: u32,
    /// A pagelift_memory.
    pub memory: u32,
    /// Its name, for messages.
    pub name: Text,
    /// Blocks: ids are 0 to `blocks - 1`; at most 2^31.
    pub blocks: u32,
    /// Blocks of one region, where there is a region for each extent; 0 means all.
    pub blocks_per_extent: u32,
    /// The regions that its blocks lie in.
    pub regions: In<Region>,
    /// How many.
    pub regions_count: usize,
}

/// Adds a pool. Groups that alias one slab name one pool; groups with memory of their own have a pool each.
///
/// Errors: PAGELIFT_GEOMETRY, PAGELIFT_BAD_VALUE, PAGELIFT_WRONG_SIZE, those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_geometry_builder_pool(
    builder: GeometryBuilder,
    spec: In<PoolSpec>,
    pool: Out<PoolId>,
) -> Status {
    answer(|| {
        let pool = pool.ready("pool")?;
        let PoolSpec { memory, name, blocks, blocks_per_extent, regions, regions_count, .. } =
            spec.sized("spec")?;
        let (memory, name) = (place(memory, "spec->memory")?, name.read("spec->name")?);
        let regions: Vec<_> =
            regions.list(regions_count, "spec->regions")?.into_iter().map(Region::region).collect();
        let each = if blocks_per_extent == 0 { blocks } else { blocks_per_extent };
        let spec = geometry::PoolSpec::new(&name, memory, blocks, &regions).extents_of(each);
        pool.put(builder.add(|own| own.keys.add_pool((own.builder.pool(spec)?, memory)))?);
        Ok(())
    })
}

/// Adds a group with its main sides, whose layouts say of which kind it is.
///
/// Errors: PAGELIFT_GEOMETRY; PAGELIFT_WRONG_PLAN where the two sides' layouts are of different kinds; PAGELIFT_BAD_VALUE,
/// PAGELIFT_WRONG_SIZE, those of handles and keys.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_geometry_builder_group(
    builder: GeometryBuilder,
    spec: In<GroupSpec>,
    group: Out<GroupKey>,
) -> Status {
    answer(|| {
        let group = group.ready("group")?;
        let spec = spec.sized("spec")?;
        group.put(builder.add(|own| {
            let spec = spec.read(&own.keys)?;
            own.keys.add_group(erased::group(&mut own.builder, spec)?)
        })?);
        Ok(())
    })
}

/// Adds another side of a group: a second arrangement of the same rows, for gathers.
///
/// Errors: as `pagelift_geometry_builder_group`.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_geometry_builder_side(
    builder: GeometryBuilder,
    group: GroupKey,
    spec: In<SideSpec>,
    side: Out<SideKey>,
) -> Status {
    answer(|| {
        let side = side.ready("side")?;
        let spec = spec.sized("spec")?;
        side.put(builder.add(|own| {
            let spec = spec.read(&own.keys)?;
            let side = erased::side(&mut own.builder, *own.keys.group(group)?, spec)?;
            own.keys.add_side(side)
        })?);
        Ok(())
    })
}

/// Gives the main side of a group in `memory`.
///
/// Errors: PAGELIFT_GEOMETRY where it has none there; PAGELIFT_BAD_VALUE, those of handles and keys.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_geometry_builder_main_side(
    builder: GeometryBuilder,
    group: GroupKey,
    memory: u32,
    side: Out<SideKey>,
) -> Status {
    answer(|| {
        let side = side.ready("side")?;
        let memory = place(memory, "memory")?;
        side.put(builder.add(|own| {
            let side = erased::main_side(&own.builder, *own.keys.group(group)?, memory);
            let none =
                || Failure::new(Status::Geometry, format!("the group has no side on the {}", memory.name()));
            own.keys.add_side(side.ok_or_else(none)?)
        })?);
        Ok(())
    })
}

/// Adds a way from one side of a group to another, or to itself for copies inside one pool. Its direction follows from
/// the sides' memories.
///
/// Errors: PAGELIFT_GEOMETRY; PAGELIFT_WRONG_PLAN where the sides are of different kinds; those of handles and keys.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_geometry_builder_route(
    builder: GeometryBuilder,
    source: SideKey,
    destination: SideKey,
    route: Out<RouteKey>,
) -> Status {
    answer(|| {
        let out = route.ready("route")?;
        out.put(builder.add(|own| {
            let (from, to) = (*own.keys.side(source)?, *own.keys.side(destination)?);
            own.keys.add_route(erased::route(&mut own.builder, from, to)?)
        })?);
        Ok(())
    })
}

/// Adds a way into a compact buffer: a side whose pool has one block, of as many rows as are gathered at most.
///
/// Errors: as `pagelift_geometry_builder_route`; PAGELIFT_WRONG_PLAN for states, which have no rows.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_geometry_builder_compact_route(
    builder: GeometryBuilder,
    source: SideKey,
    destination: SideKey,
    route: Out<CompactRouteKey>,
) -> Status {
    answer(|| {
        let out = route.ready("route")?;
        out.put(builder.add(|own| {
            let (from, to) = (*own.keys.side(source)?, *own.keys.side(destination)?);
            own.keys.add_compact(erased::compact_route(&mut own.builder, from, to)?)
        })?);
        Ok(())
    })
}

/// Lets digests read a side.
///
/// Errors: PAGELIFT_GEOMETRY, those of handles and keys.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_geometry_builder_digest(
    builder: GeometryBuilder,
    side: SideKey,
    digest: Out<DigestKey>,
) -> Status {
    answer(|| {
        let digest = digest.ready("digest")?;
        digest.put(builder.add(|own| {
            let side = *own.keys.side(side)?;
            own.keys.add_digest(erased::digest(&mut own.builder, side)?)
        })?);
        Ok(())
    })
}

/// Checks that no two blocks share a byte, and finishes the geometry, which takes over the builder's keys. The builder
/// is freed, also where the geometry cannot be (PAGELIFT_GEOMETRY); of other errors it is left. Free the geometry by
/// `pagelift_geometry_free`.
///
/// Errors: PAGELIFT_GEOMETRY, PAGELIFT_NULL_POINTER, PAGELIFT_MISALIGNED, those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_geometry_builder_build(
    builder: GeometryBuilder,
    geometry: Out<Geometry>,
) -> Status {
    answer(|| {
        let geometry = geometry.ready("geometry")?;
        let place = Vacancy::new()?;
        let Building { builder, mut keys } = builder.handle().take()?;
        let built = builder.build()?;
        let mut ways = Vec::new();
        for (name, group) in keys.groups()? {
            let way = |key: Option<AnyRoute>, keys: &mut Keys| key.map(|key| keys.add_route(key)).transpose();
            let (lift, spill) = (erased::lift_route(&built, group), erased::spill_route(&built, group));
            ways.push((name, way(lift, &mut keys)?, way(spill, &mut keys)?));
        }
        let own = Built { geometry: Arc::new(built), keys: Arc::new(keys), ways };
        geometry.put(Geometry { value: place.keep(own) });
        Ok(())
    })
}

/// Frees a builder that is not built.
///
/// Errors: those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_geometry_builder_free(builder: GeometryBuilder) -> Status {
    answer(|| builder.handle().take().map(mem::drop))
}
