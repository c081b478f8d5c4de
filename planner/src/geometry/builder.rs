//! Builds a geometry, and checks what does not change from step to step.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::group::{Group, GroupKey, GroupSpec, Kind, Landing, Lift};
use super::pool::{Memory, Pool, PoolSpec};
use super::route::{self, Blocks, CompactRouteKey, End, RouteKey};
use super::side::{Run, Side, SideKey, SideSpec};
use super::{DigestKey, Geometry, HasRows, Tables, overlap};
use crate::error::GeometryError;
use crate::id::{GroupId, PoolId};
use crate::plan::Direction;

/// Tells keys of one geometry from those of another.
static STAMPS: AtomicU64 = AtomicU64::new(1);

/// The most entries of all page maps of a geometry together: launchers keep and upload all of them.
const MOST_MAP_ENTRIES: u32 = 1 << 26;

/// Collects pools, groups, sides and routes; [`GeometryBuilder::build`] makes a [`Geometry`] of them.
#[derive(Debug)]
pub struct GeometryBuilder {
    stamp: u64,
    pools: Vec<Pool>,
    groups: Vec<Group>,
    sides: Vec<Side>,
    tables: Tables,
    map_entries: u32,
}

impl Default for GeometryBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl GeometryBuilder {
    /// An empty geometry.
    #[must_use]
    pub fn new() -> Self {
        Self {
            stamp: STAMPS.fetch_add(1, Ordering::Relaxed),
            pools: Vec::new(),
            groups: Vec::new(),
            sides: Vec::new(),
            tables: Tables::default(),
            map_entries: 0,
        }
    }

    /// Adds a pool.
    ///
    /// # Errors
    /// Where its name is taken, it has no blocks or more than 2³¹, or a region is empty, ends past 64 bits or shares
    /// bytes with another of the pool.
    pub fn pool(&mut self, spec: PoolSpec) -> Result<PoolId, GeometryError> {
        if self.pools.iter().any(|pool| pool.spec.name == spec.name) {
            return Err(GeometryError::NameTwice { name: spec.name });
        }
        let id = number(self.pools.len(), &spec.name, "the number of pools")?;
        self.pools.push(Pool::new(spec, self.stamp)?);
        Ok(PoolId::new(id, self.stamp))
    }

    /// Adds a group with its main sides, and the routes between them.
    ///
    /// # Errors
    /// Where its name is taken, it has no layers, a side that its landing or lift needs is missing, a side's blocks
    /// do not lie in one region each, its sides do not hold the same rows, or the page maps of all groups have more than
    /// 2²⁶ entries.
    pub fn group<K: Kind>(&mut self, spec: GroupSpec<K>) -> Result<GroupKey<K>, GeometryError> {
        let name = spec.name.clone();
        if self.groups.iter().any(|group| group.name == name) {
            return Err(GeometryError::NameTwice { name });
        }
        if spec.layers == 0 {
            return Err(GeometryError::Zero { place: name, what: "the number of layers" });
        }
        let lift: Lift = spec.lift.into();
        check_sides(&spec, lift)?;
        let id = GroupId::new(number(self.groups.len(), &name, "the number of groups")?);
        let group = Group {
            name: name.clone(),
            kind: K::KIND,
            layers: spec.layers,
            landing: spec.landing,
            lift,
            host: None,
            device: None,
            to_device: None,
            to_host: None,
            map_first: self.map_entries,
            map_entries: 0,
        };
        // A group that fails leaves sides behind that nothing names: they are taken back.
        let (sides, tables) = (self.sides.len(), self.tables.lengths());
        let added = self.add_main(group, id, &spec).and_then(|group| {
            let entries =
                group.map_first.checked_add(group.map_entries).filter(|all| *all <= MOST_MAP_ENTRIES);
            Ok((group, entries.ok_or(GeometryError::Overflow { place: name, what: "the page map" })?))
        });
        let (group, map_entries) = added.inspect_err(|_| {
            self.sides.truncate(sides);
            self.tables.truncate(tables);
        })?;
        self.map_entries = map_entries;
        self.groups.push(group);
        Ok(GroupKey::new(id, self.stamp))
    }

    /// Adds another side of a group: a second arrangement of the same rows, for gathers.
    ///
    /// # Errors
    /// Where the key is of another geometry, or the side's blocks do not lie in one region each.
    pub fn side<K: Kind>(
        &mut self,
        group: GroupKey<K>,
        spec: &SideSpec<K::Layout>,
    ) -> Result<SideKey<K>, GeometryError> {
        let own = self.group_of(group.id, group.geometry)?;
        let (name, layers) = (own.name.clone(), own.layers);
        let memory = pool_of(&self.pools, &name, spec.pool)?.memory();
        let index = self.add_side::<K>(&name, group.id, layers, spec, memory)?;
        Ok(SideKey::new(index, self.stamp))
    }

    /// The main side of a group in one memory, if it has one.
    #[must_use]
    pub fn main_side<K: Kind>(&self, group: GroupKey<K>, memory: Memory) -> Option<SideKey<K>> {
        let own = self.group_of(group.id, group.geometry).ok()?;
        let index = match memory {
            Memory::Host => own.host,
            Memory::Device => own.device,
        };
        Some(SideKey::new(index?, self.stamp))
    }

    /// Adds a way between two sides of one group; from a side to itself, for copies inside one pool.
    ///
    /// # Errors
    /// Where the sides belong to different groups, do not lie in the memory that `D` says, or do not hold the same rows.
    pub fn route<D: Direction, K: Kind>(
        &mut self,
        from: SideKey<K>,
        to: SideKey<K>,
    ) -> Result<RouteKey<D, K>, GeometryError> {
        let index =
            self.add_route::<D>((from.index, from.geometry), (to.index, to.geometry), Blocks::of(K::KIND))?;
        Ok(RouteKey::new(index, self.stamp))
    }

    /// Adds a way into a compact buffer: a side whose pool has one block, of as many rows as are gathered at most.
    ///
    /// # Errors
    /// As [`GeometryBuilder::route`], and where the destination's pool has more than one block.
    pub fn compact_route<D: Direction, K: HasRows>(
        &mut self,
        from: SideKey<K>,
        to: SideKey<K>,
    ) -> Result<CompactRouteKey<D, K>, GeometryError> {
        let index =
            self.add_route::<D>((from.index, from.geometry), (to.index, to.geometry), Blocks::Compact)?;
        Ok(CompactRouteKey(RouteKey::new(index, self.stamp)))
    }

    /// Lets digests read a side.
    ///
    /// # Errors
    /// Where the key is of another geometry, or tables overflow.
    pub fn digest<K: Kind>(&mut self, side: SideKey<K>) -> Result<DigestKey<K>, GeometryError> {
        let Self { sides, pools, groups, tables, .. } = self;
        let own = side_of(sides, side.index, side.geometry == self.stamp)?;
        let group = group_at(groups, own.group)?;
        let end = End { index: side.index, side: own, pool: pool_of(pools, &group.name, own.pool)? };
        let index = route::encode_digest(&group.name, group.layers, &end, tables)?;
        Ok(DigestKey(RouteKey::new(index, self.stamp)))
    }

    /// Checks that no two blocks share a byte, and finishes the geometry.
    ///
    /// # Errors
    /// [`GeometryError::SharedBytes`] where distinct blocks, layers or pools touch. Groups of one pool may alias the
    /// same block: which group a block belongs to is checked by each plan.
    pub fn build(self) -> Result<Geometry, GeometryError> {
        let mut runs: Vec<Run> = Vec::new();
        for (index, side) in (0..).zip(&self.sides) {
            let name = &group_at(&self.groups, side.group)?.name;
            let overflow = |what| GeometryError::Overflow { place: name.clone(), what };
            for run in side.runs(index, pool_of(&self.pools, name, side.pool)?) {
                runs.push(run.map_err(overflow)?);
            }
        }
        overlap::check_apart(runs, |run| {
            let side = usize::try_from(run.side).ok().and_then(|index| self.sides.get(index));
            let group = side.and_then(|side| Some((group_at(&self.groups, side.group).ok()?, side)));
            let (group, word) = group.map_or(("?", "?"), |(group, side)| (&*group.name, side.memory.name()));
            let Run { layer, first_block, .. } = run;
            Arc::from(format!("group `{group}` ({word} side, layer {layer}, blocks from {first_block})"))
        })?;
        let Self { stamp, pools, groups, sides, tables, .. } = self;
        Ok(Geometry { stamp, pools, groups, sides, tables })
    }

    /// Adds the main sides and routes of a group.
    fn add_main<K: Kind>(
        &mut self,
        mut group: Group,
        id: GroupId,
        spec: &GroupSpec<K>,
    ) -> Result<Group, GeometryError> {
        let (name, layers) = (group.name.clone(), group.layers);
        let mut add = |spec: &Option<SideSpec<K::Layout>>, memory| {
            spec.as_ref().map(|spec| self.add_side::<K>(&name, id, layers, spec, memory)).transpose()
        };
        group.host = add(&spec.host, Memory::Host)?;
        group.device = add(&spec.device, Memory::Device)?;
        match (group.host, group.device) {
            (None, None) => {
                let (needs, side) = ("needs memory", "host or device");
                return Err(GeometryError::MissingSide { group: name, needs, side });
            }
            (Some(host), Some(device)) => {
                let Self { sides, pools, tables, .. } = self;
                let end = |index| {
                    let side = side_of(sides, index, true)?;
                    Ok::<_, GeometryError>(End { index, side, pool: pool_of(pools, &name, side.pool)? })
                };
                let (host, device) = (end(host)?, end(device)?);
                let blocks = Blocks::of(K::KIND);
                let down = route::encode(&name, layers, &host, &device, blocks, tables)?;
                let up = route::encode(&name, layers, &device, &host, blocks, tables)?;
                (group.to_device, group.to_host) = (Some(down), Some(up));
                // An entry for each page, or for each part of it that has a block of its own.
                let parts = device.side.rows.checked_div(device.side.rows.min(host.side.rows)).unwrap_or(1);
                let entries = device.pool.blocks().checked_mul(parts);
                group.map_entries =
                    entries.ok_or(GeometryError::Overflow { place: name, what: "the page map" })?;
            }
            _ => {}
        }
        Ok(group)
    }

    /// Checks one side of a group, and adds it.
    fn add_side<K: Kind>(
        &mut self,
        group: &Arc<str>,
        id: GroupId,
        layers: u32,
        spec: &SideSpec<K::Layout>,
        memory: Memory,
    ) -> Result<u32, GeometryError> {
        let place: Arc<str> = Arc::from(format!("group `{group}`, {} side", memory.name()));
        let pool = pool_of(&self.pools, &place, spec.pool)?;
        if pool.memory() != memory {
            return Err(GeometryError::WrongMemory {
                place,
                pool: pool.spec.name.clone(),
                expected: memory.name(),
                found: pool.memory().name(),
            });
        }
        let index = number(self.sides.len(), group, "the number of sides")?;
        let side = Side::new(&place, id, spec, layers, pool)?;
        self.sides.push(side);
        Ok(index)
    }

    /// Adds a route between sides of one group.
    fn add_route<D: Direction>(
        &mut self,
        from: (u32, u64),
        to: (u32, u64),
        blocks: Blocks,
    ) -> Result<u32, GeometryError> {
        let Self { sides, pools, groups, tables, stamp, .. } = self;
        let end = |(index, geometry): (u32, u64)| {
            let side = side_of(sides, index, geometry == *stamp)?;
            let group = group_at(groups, side.group)?;
            Ok::<_, GeometryError>((
                End { index, side, pool: pool_of(pools, &group.name, side.pool)? },
                group,
            ))
        };
        let ((source, group), (destination, other)) = (end(from)?, end(to)?);
        let memories = (source.side.memory, destination.side.memory);
        if source.side.group != destination.side.group || memories != (D::SOURCE, D::DESTINATION) {
            return Err(GeometryError::NoSuchRoute {
                group: group.name.clone(),
                other: other.name.clone(),
                direction: D::NAME,
                from: memories.0.name(),
                to: memories.1.name(),
            });
        }
        route::encode(&group.name, group.layers, &source, &destination, blocks, tables)
    }

    fn group_of(&self, id: GroupId, stamp: u64) -> Result<&Group, GeometryError> {
        if stamp == self.stamp { group_at(&self.groups, id) } else { Err(GeometryError::ForeignKey) }
    }
}

/// A length as the number of the next entry.
fn number(length: usize, place: &Arc<str>, what: &'static str) -> Result<u32, GeometryError> {
    u32::try_from(length).map_err(|_| GeometryError::Overflow { place: place.clone(), what })
}

/// The pool of that id.
fn pool_of<'a>(pools: &'a [Pool], place: &Arc<str>, pool: PoolId) -> Result<&'a Pool, GeometryError> {
    let index = usize::try_from(pool.get()).ok();
    index
        .and_then(|index| pools.get(index))
        .filter(|own| own.geometry == pool.geometry())
        .ok_or_else(|| GeometryError::UnknownPool { place: place.clone(), pool })
}

/// The side of that number, of this geometry or not.
fn side_of(sides: &[Side], index: u32, own: bool) -> Result<&Side, GeometryError> {
    let index = usize::try_from(index).ok().filter(|_| own);
    index.and_then(|index| sides.get(index)).ok_or(GeometryError::ForeignKey)
}

/// The group of that id.
fn group_at(groups: &[Group], id: GroupId) -> Result<&Group, GeometryError> {
    let index = usize::try_from(id.get()).ok();
    index.and_then(|index| groups.get(index)).ok_or(GeometryError::ForeignKey)
}

/// Refuses a landing or lift without the sides that it needs.
fn check_sides<K: Kind>(spec: &GroupSpec<K>, lift: Lift) -> Result<(), GeometryError> {
    let missing = |needs, side| Err(GeometryError::MissingSide { group: spec.name.clone(), needs, side });
    match spec.landing {
        Landing::Host if spec.host.is_none() => missing("lands on the host", "host"),
        Landing::Device if spec.device.is_none() => missing("lands on the device", "device"),
        Landing::Host if lift != Lift::None && spec.device.is_none() => missing("is lifted", "device"),
        Landing::Device if lift != Lift::None => {
            Err(GeometryError::LiftWithoutHost { group: spec.name.clone() })
        }
        _ => Ok(()),
    }
}
