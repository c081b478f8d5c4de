//! A geometry of groups whose kinds are known when they are added.

use std::sync::Arc;

use pagelift::geometry::{
    Geometry, GeometryBuilder, GroupKey, GroupKind, GroupSpec, Kind, Landing, Lift, Memory, Paged, PagedLift,
    Ring, SideKey, SideSpec, State, StateLift,
};
use pagelift::plan::{DeviceToHost, Direction, HostToDevice};
use pagelift::quantity::Tokens;

use crate::keys::{
    AnyCompactRoute, AnyDigest, AnyGroup, AnyLayout, AnyRoute, AnySide, ByKind, ByRows, ByWay, CompactRoutes,
    Routes, Way, map_kind, of_kind,
};
use crate::{Mismatch, Result};

/// Where a group's blocks lie in one pool, and what one of them looks like there.
#[derive(Clone, Debug)]
pub struct AnySideSpec {
    /// Where, with a layout of any kind.
    pub spec: SideSpec<AnyLayout>,
    /// The memory of its pool.
    pub memory: Memory,
}

/// Says what a group is. Its layouts say of which kind.
#[derive(Clone, Debug)]
pub struct AnyGroupSpec {
    /// Its name: groups pair by name across engines.
    pub name: Arc<str>,
    /// Layers.
    pub layers: u32,
    /// Where its imported blocks arrive.
    pub landing: Landing,
    /// What of it is lifted.
    pub lift: Lift,
    /// Its side in a host pool.
    pub host: Option<AnySideSpec>,
    /// Its side in a device pool.
    pub device: Option<AnySideSpec>,
}

/// A kind as a type, with what is of it among all kinds.
trait Known: Kind + Sized {
    fn layout(layout: AnyLayout) -> Option<Self::Layout>;
    fn lift(lift: Lift) -> Option<Self::Lift>;
}

macro_rules! known {
    ($($kind:ident, $lift:ident: $($own:ident),+;)+) => { $(
        impl Known for $kind {
            fn layout(layout: AnyLayout) -> Option<Self::Layout> {
                match layout {
                    ByKind::$kind(own) => Some(own),
                    _ => None,
                }
            }

            fn lift(lift: Lift) -> Option<Self::Lift> {
                match lift {
                    $(Lift::$own => Some($lift::$own),)+
                    _ => None,
                }
            }
        }
    )+ };
}

known! {
    Paged, PagedLift: Tail, All, None;
    Ring, StateLift: State, None;
    State, StateLift: State, None;
}

/// Adds a group with its main sides.
///
/// # Errors
/// [`Mismatch::Layout`] where its sides are of different kinds, [`Mismatch::Lift`] where its kind has no such lift, and as
/// [`GeometryBuilder::group`].
pub fn group(builder: &mut GeometryBuilder, spec: AnyGroupSpec) -> Result<AnyGroup> {
    let kind = spec.host.as_ref().or(spec.device.as_ref()).map(|side| side.spec.layout.kind());
    Ok(match kind {
        // One without any side is refused by the builder.
        None | Some(GroupKind::Paged) => ByKind::Paged(group_of(builder, spec)?),
        Some(GroupKind::Ring) => ByKind::Ring(group_of(builder, spec)?),
        Some(GroupKind::State) => ByKind::State(group_of(builder, spec)?),
    })
}

fn group_of<K: Known>(builder: &mut GeometryBuilder, spec: AnyGroupSpec) -> Result<GroupKey<K>> {
    let AnyGroupSpec { name, layers, landing, lift, host, device } = spec;
    let lift = K::lift(lift).ok_or(Mismatch::Lift { group: K::KIND, found: lift })?;
    let side = |side: Option<AnySideSpec>| side.map(laid_out::<K>).transpose();
    let (host, device) = (side(host)?, side(device)?);
    Ok(builder.group(GroupSpec { name, layers, landing, lift, host, device })?)
}

/// With a layout of a group's kind.
fn laid_out<K: Known>(side: AnySideSpec) -> Result<SideSpec<K::Layout>> {
    let SideSpec { pool, bases, block_stride, layout } = side.spec;
    let mismatch = Mismatch::Layout { group: K::KIND, layout: layout.kind() };
    Ok(SideSpec { pool, bases, block_stride, layout: K::layout(layout).ok_or(mismatch)? })
}

/// Adds another side of a group.
///
/// # Errors
/// [`Mismatch::Layout`] where it is of another kind than the group, and as [`GeometryBuilder::side`].
pub fn side(builder: &mut GeometryBuilder, group: AnyGroup, spec: AnySideSpec) -> Result<AnySide> {
    fn of<K: Known>(
        builder: &mut GeometryBuilder,
        group: GroupKey<K>,
        spec: AnySideSpec,
    ) -> Result<SideKey<K>> {
        Ok(builder.side(group, &laid_out::<K>(spec)?)?)
    }
    let memory = spec.memory;
    Ok(AnySide { key: map_kind!(group, group => of(builder, group, spec)?), memory })
}

/// The main side of a group in one memory, if it has one.
#[must_use]
pub fn main_side(builder: &GeometryBuilder, group: AnyGroup, memory: Memory) -> Option<AnySide> {
    Some(AnySide { key: map_kind!(group, group => builder.main_side(group, memory)?), memory })
}

/// Which way goes from one side to another. None goes from host to host: the builder says so of any.
const fn way(from: AnySide, to: AnySide) -> Way {
    match (from.memory, to.memory) {
        (Memory::Host, _) => Way::Down,
        (Memory::Device, Memory::Host) => Way::Up,
        (Memory::Device, Memory::Device) => Way::Across,
    }
}

/// Adds a way between two sides of one group. Its direction follows from their memories.
///
/// # Errors
/// [`Mismatch::Sides`] where they are of different kinds, and as [`GeometryBuilder::route`].
pub fn route(builder: &mut GeometryBuilder, from: AnySide, to: AnySide) -> Result<AnyRoute> {
    fn of<D: Direction>(builder: &mut GeometryBuilder, from: AnySide, to: AnySide) -> Result<Routes<D>> {
        Ok(map_kind!(from.key.with(to.key)?, [from, to] => builder.route(from, to)?))
    }
    Ok(match way(from, to) {
        Way::Down => ByWay::Down(of(builder, from, to)?),
        Way::Up => ByWay::Up(of(builder, from, to)?),
        Way::Across => ByWay::Across(of(builder, from, to)?),
    })
}

/// Adds a way into a compact buffer. Its direction follows from the sides' memories.
///
/// # Errors
/// [`Mismatch::Sides`] where they are of different kinds, [`Mismatch::Group`] for states, and as
/// [`GeometryBuilder::compact_route`].
pub fn compact_route(builder: &mut GeometryBuilder, from: AnySide, to: AnySide) -> Result<AnyCompactRoute> {
    fn of<D: Direction>(
        builder: &mut GeometryBuilder,
        from: AnySide,
        to: AnySide,
    ) -> Result<CompactRoutes<D>> {
        Ok(match from.key.with(to.key)?.with_rows()? {
            ByRows::Paged([from, to]) => ByRows::Paged(builder.compact_route(from, to)?),
            ByRows::Ring([from, to]) => ByRows::Ring(builder.compact_route(from, to)?),
        })
    }
    Ok(match way(from, to) {
        Way::Down => ByWay::Down(of(builder, from, to)?),
        Way::Up => ByWay::Up(of(builder, from, to)?),
        Way::Across => ByWay::Across(of(builder, from, to)?),
    })
}

/// Lets digests read a side.
///
/// # Errors
/// As [`GeometryBuilder::digest`].
pub fn digest(builder: &mut GeometryBuilder, side: AnySide) -> Result<AnyDigest> {
    Ok(map_kind!(side.key, side => builder.digest(side)?))
}

/// The way by which a group's imported blocks are lifted, if it has both main sides.
#[must_use]
pub fn lift_route(geometry: &Geometry, group: AnyGroup) -> Option<AnyRoute> {
    let routes: Routes<HostToDevice> = map_kind!(group, group => geometry.lift_route(group)?);
    Some(ByWay::Down(routes))
}

/// The way by which a group's pages are written back, if it has both main sides.
#[must_use]
pub fn spill_route(geometry: &Geometry, group: AnyGroup) -> Option<AnyRoute> {
    let routes: Routes<DeviceToHost> = map_kind!(group, group => geometry.spill_route(group)?);
    Some(ByWay::Up(routes))
}

/// Token slots of a block of a group's main side in one memory (a ring's slots; 1 for states), if it has one there.
#[must_use]
pub fn block_slots(geometry: &Geometry, group: AnyGroup, memory: Memory) -> Option<Tokens> {
    let own = of_kind!(group, group => geometry.has(group).then(|| group.id()))?;
    geometry.block_slots(own, memory)
}
