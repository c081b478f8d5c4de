//! Where blocks lie: pools, groups with their sides, and the ways between these.

use std::mem;
use std::sync::Arc;

use pagelift::geometry::{
    self, GroupSpec as RustGroup, HasRows, Kind as RustKind, Landing as RustLanding, Memory as RustMemory,
    Paged, PagedLift, Ring, SideKey as RustSide, State, StateLift,
};
use pagelift::plan::{DeviceToDevice, DeviceToHost, HostToDevice};

use crate::foreign::{In, Out, Text};
use crate::handle::{Handle, keep, object};
use crate::keys::{
    AnyRoute, ByKind, CompactRouteKey, DigestKey, GroupKey, Keys, PoolId, RouteKey, SideKey, of_kind,
};
use crate::layout::{AnyLayout, Layout};
use crate::memory::{Region, place};
use crate::status::{Failure, Outcome, Status, answer, bad_value};

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
}

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

/// What a handle of a builder stands for.
struct Building {
    builder: geometry::GeometryBuilder,
    keys: Keys,
}

object!(Building, GeometryBuilder);

/// What a handle of a geometry stands for.
pub struct Built {
    /// The geometry.
    pub geometry: Arc<geometry::Geometry>,
    /// What its keys are of.
    pub keys: Arc<Keys>,
    /// The ways to lift and to write back, group by group in the order of their keys.
    ways: Vec<(GroupKey, Option<RouteKey>, Option<RouteKey>)>,
}

object!(Built, Geometry);

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
        pool.put(builder.handle().change(|own| own.keys.add_pool((own.builder.pool(spec)?, memory)))?);
        Ok(())
    })
}

/// Where a group's blocks lie in one pool, and what one of them looks like there.
///
/// Region `r` of block `b` of layer `l` begins at the base of layer `l`, region `r` and extent `b / blocks_per_extent`, plus
/// `(b % blocks_per_extent) * block_stride`. Bases are said in one of two ways:
/// packed: `extents` (and `layer_offsets`), a base is their sum; or layer by layer: `layers`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SideSpec {
    /// sizeof(pagelift_side_spec).
    pub size: u32,
    /// 0.
    pub reserved: u32,
    /// The pool.
    pub pool: PoolId,
    /// The layout of a layer's block.
    pub layout: Layout,
    /// Bytes from one block of a layer to the next.
    pub block_stride: u64,
    /// Packed: the address of each extent of the pool.
    pub extents: In<u64>,
    /// How many; 0 where layers are listed.
    pub extents_count: usize,
    /// Packed: bytes from an extent's start to block 0 of each layer (of each region of each layer, layers outermost).
    pub layer_offsets: In<u64>,
    /// How many.
    pub layer_offsets_count: usize,
    /// Layer by layer: the address of block 0 of each layer (of each region of each layer, layers outermost).
    pub layers: In<u64>,
    /// How many; 0 where extents are listed.
    pub layers_count: usize,
}

/// A side as it was read: its layout goes to a place of its own.
struct ReadSide {
    spec: geometry::SideSpec<()>,
    layout: AnyLayout,
    memory: RustMemory,
}

impl SideSpec {
    fn read(self, keys: &Keys) -> Outcome<ReadSide> {
        let (pool, memory) = *keys.pool(self.pool)?;
        if self.reserved != 0 {
            return Err(bad_value("side->reserved", self.reserved, "0"));
        }
        let extents = self.extents.list(self.extents_count, "side->extents")?;
        let offsets = self.layer_offsets.list(self.layer_offsets_count, "side->layer_offsets")?;
        let layers = self.layers.list(self.layers_count, "side->layers")?;
        let stride = self.block_stride;
        let spec = if layers.is_empty() {
            // A sum that does not fit 64 bits is caught when the geometry is built.
            geometry::SideSpec::packed(pool, &extents, &offsets, stride, ())
        } else if extents.is_empty() && offsets.is_empty() {
            geometry::SideSpec::layer_separate(pool, &layers, stride, ())
        } else {
            let text = "the side lists extents and layers; list one of them";
            return Err(Failure::new(Status::BadValue, text));
        };
        Ok(ReadSide { spec, layout: self.layout.handle().look(|layout| Ok(layout.clone()))?, memory })
    }
}

impl ReadSide {
    fn with<L>(self, layout: L) -> geometry::SideSpec<L> {
        let geometry::SideSpec { pool, bases, block_stride, .. } = self.spec;
        geometry::SideSpec { pool, bases, block_stride, layout }
    }
}

/// Where a group's imported blocks arrive.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landing {
    /// In host blocks.
    Host = 0,
    /// In pages.
    Device = 1,
}

/// What of a group that landed on the host is lifted.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lift {
    /// Nothing.
    None = 0,
    /// Of paged groups: the writable page.
    Tail = 1,
    /// Of paged groups: all pages.
    All = 2,
    /// Of rings and states: the page.
    State = 3,
}

/// Layers that share one layout and one block table.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GroupSpec {
    /// sizeof(pagelift_group_spec).
    pub size: u32,
    /// Layers.
    pub layers: u32,
    /// The name by which it pairs with the other engine's group.
    pub name: Text,
    /// A pagelift_landing.
    pub landing: u32,
    /// A pagelift_lift.
    pub lift: u32,
    /// Its side on the host, or null.
    pub host: In<SideSpec>,
    /// Its side on the device, or null.
    pub device: In<SideSpec>,
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
        let GroupSpec { layers, name, landing, lift, host, device, .. } = spec.sized("spec")?;
        let name = name.read("spec->name")?;
        let landing = match landing {
            0 => RustLanding::Host,
            1 => RustLanding::Device,
            _ => return Err(bad_value("spec->landing", landing, "a pagelift_landing")),
        };
        let (host, device) = (host.sized_or_null("spec->host")?, device.sized_or_null("spec->device")?);
        group.put(builder.handle().change(|own| {
            let read = |side: Option<SideSpec>| side.map(|side| side.read(&own.keys)).transpose();
            let (host, device) = (read(host)?, read(device)?);
            let name: Arc<str> = name.as_str().into();
            macro_rules! group {
                ($kind:ident, $lift:expr) => {{
                    let side = |side: Option<ReadSide>| match side {
                        None => Ok(None),
                        Some(side) => match side.layout.clone() {
                            AnyLayout::$kind(layout) => Ok(Some(side.with(layout))),
                            _ => Err(other_kind("the two sides have layouts of different kinds")),
                        },
                    };
                    let (lift, host, device) = ($lift, side(host)?, side(device)?);
                    let spec = RustGroup::<$kind> { name, layers, landing, lift, host, device };
                    ByKind::$kind(own.builder.group(spec)?)
                }};
            }
            let kind = host.as_ref().or(device.as_ref()).map(|side| &side.layout);
            let key = match kind {
                Some(AnyLayout::Ring(_)) => group!(Ring, whole_page(lift)?),
                Some(AnyLayout::State(_)) => group!(State, whole_page(lift)?),
                // One without any side is refused by the builder.
                Some(AnyLayout::Paged(_)) | None => group!(Paged, of_pages(lift)?),
            };
            own.keys.add_group(key)
        })?);
        Ok(())
    })
}

fn of_pages(lift: u32) -> Outcome<PagedLift> {
    match lift {
        0 => Ok(PagedLift::None),
        1 => Ok(PagedLift::Tail),
        2 => Ok(PagedLift::All),
        _ => Err(bad_value("spec->lift", lift, "PAGELIFT_LIFT_NONE, _TAIL or _ALL for a paged group")),
    }
}

fn whole_page(lift: u32) -> Outcome<StateLift> {
    match lift {
        0 => Ok(StateLift::None),
        3 => Ok(StateLift::State),
        _ => Err(bad_value("spec->lift", lift, "PAGELIFT_LIFT_NONE or _STATE for a ring or a state")),
    }
}

fn other_kind(text: &'static str) -> Failure {
    Failure::new(Status::WrongPlan, text)
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
        side.put(builder.handle().change(|own| {
            let spec = spec.read(&own.keys)?;
            let (memory, layout) = (spec.memory, spec.layout.clone());
            let key = match (*own.keys.group(group)?, layout) {
                (ByKind::Paged(group), AnyLayout::Paged(layout)) => {
                    ByKind::Paged(own.builder.side(group, &spec.with(layout))?)
                }
                (ByKind::Ring(group), AnyLayout::Ring(layout)) => {
                    ByKind::Ring(own.builder.side(group, &spec.with(layout))?)
                }
                (ByKind::State(group), AnyLayout::State(layout)) => {
                    ByKind::State(own.builder.side(group, &spec.with(layout))?)
                }
                _ => return Err(other_kind("the layout is of another kind than the group's")),
            };
            own.keys.add_side((key, memory))
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
        side.put(builder.handle().change(|own| {
            let key = match *own.keys.group(group)? {
                ByKind::Paged(group) => own.builder.main_side(group, memory).map(ByKind::Paged),
                ByKind::Ring(group) => own.builder.main_side(group, memory).map(ByKind::Ring),
                ByKind::State(group) => own.builder.main_side(group, memory).map(ByKind::State),
            };
            let none =
                || Failure::new(Status::Geometry, format!("the group has no side on the {}", memory.name()));
            own.keys.add_side((key.ok_or_else(none)?, memory))
        })?);
        Ok(())
    })
}

/// Which way something copies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Down,
    Up,
    Across,
}

fn way_between(from: RustMemory, to: RustMemory) -> Outcome<Way> {
    match (from, to) {
        (RustMemory::Host, RustMemory::Device) => Ok(Way::Down),
        (RustMemory::Device, RustMemory::Host) => Ok(Way::Up),
        (RustMemory::Device, RustMemory::Device) => Ok(Way::Across),
        (RustMemory::Host, RustMemory::Host) => {
            Err(Failure::new(Status::Geometry, "no route goes from host memory to host memory"))
        }
    }
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
        out.put(builder.handle().change(|own| {
            let (from, to) = (*own.keys.side(source)?, *own.keys.side(destination)?);
            let way = way_between(from.1, to.1)?;
            let key = match (from.0, to.0) {
                (ByKind::Paged(from), ByKind::Paged(to)) => route_of(&mut own.builder, way, from, to)?,
                (ByKind::Ring(from), ByKind::Ring(to)) => route_of(&mut own.builder, way, from, to)?,
                (ByKind::State(from), ByKind::State(to)) => route_of(&mut own.builder, way, from, to)?,
                _ => return Err(other_kind("the sides are of different kinds")),
            };
            own.keys.add_route(key)
        })?);
        Ok(())
    })
}

fn route_of<K: RustKind>(
    builder: &mut geometry::GeometryBuilder,
    way: Way,
    from: RustSide<K>,
    to: RustSide<K>,
) -> Outcome<AnyRoute> {
    Ok(match way {
        Way::Down => Box::new(builder.route::<HostToDevice, K>(from, to)?),
        Way::Up => Box::new(builder.route::<DeviceToHost, K>(from, to)?),
        Way::Across => Box::new(builder.route::<DeviceToDevice, K>(from, to)?),
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
        out.put(builder.handle().change(|own| {
            let (from, to) = (*own.keys.side(source)?, *own.keys.side(destination)?);
            let way = way_between(from.1, to.1)?;
            let key = match (from.0, to.0) {
                (ByKind::Paged(from), ByKind::Paged(to)) => compact_of(&mut own.builder, way, from, to)?,
                (ByKind::Ring(from), ByKind::Ring(to)) => compact_of(&mut own.builder, way, from, to)?,
                _ => {
                    return Err(other_kind(
                        "rows are gathered between two paged sides, or between two rings",
                    ));
                }
            };
            own.keys.add_compact(key)
        })?);
        Ok(())
    })
}

fn compact_of<K: HasRows>(
    builder: &mut geometry::GeometryBuilder,
    way: Way,
    from: RustSide<K>,
    to: RustSide<K>,
) -> Outcome<AnyRoute> {
    Ok(match way {
        Way::Down => Box::new(builder.compact_route::<HostToDevice, K>(from, to)?),
        Way::Up => Box::new(builder.compact_route::<DeviceToHost, K>(from, to)?),
        Way::Across => Box::new(builder.compact_route::<DeviceToDevice, K>(from, to)?),
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
        digest.put(builder.handle().change(|own| {
            let key = match own.keys.side(side)?.0 {
                ByKind::Paged(side) => ByKind::Paged(own.builder.digest(side)?),
                ByKind::Ring(side) => ByKind::Ring(own.builder.digest(side)?),
                ByKind::State(side) => ByKind::State(own.builder.digest(side)?),
            };
            own.keys.add_digest(key)
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
        let Building { builder, mut keys } = builder.handle().take()?;
        let built = builder.build()?;
        let mut ways = Vec::new();
        for (name, group) in keys.groups()? {
            let way = |key: Option<AnyRoute>, keys: &mut Keys| key.map(|key| keys.add_route(key)).transpose();
            let lift = of_kind!(group, group => built.lift_route(group).map(|key| Box::new(key) as AnyRoute));
            let spill =
                of_kind!(group, group => built.spill_route(group).map(|key| Box::new(key) as AnyRoute));
            ways.push((name, way(lift, &mut keys)?, way(spill, &mut keys)?));
        }
        let own = Built { geometry: Arc::new(built), keys: Arc::new(keys), ways };
        geometry.put(Geometry { value: keep(own)? });
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
            let id = of_kind!(*own.keys.group(group)?, group => group.id());
            let found = own.geometry.block_slots(id, memory).map(pagelift::quantity::Tokens::get);
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
