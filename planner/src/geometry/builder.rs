//! Builds a geometry, and checks what does not change from step to step.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::group::{Group, GroupKey, GroupSpec, Kind, Landing, Lift};
use super::pool::{Memory, Pool, PoolSpec};
use super::route::{self, End};
use super::side::{Run, Side, SideSpec};
use super::{Geometry, Tables, overlap};
use crate::error::GeometryError;
use crate::id::{GroupId, PoolId};
use crate::layout::sealed::Lower;

/// Tells keys of one geometry from those of another.
static STAMPS: AtomicU64 = AtomicU64::new(1);

/// Collects pools and groups; [`GeometryBuilder::build`] makes a [`Geometry`] of them.
#[derive(Debug)]
pub struct GeometryBuilder {
    stamp: u64,
    pools: Vec<Pool>,
    groups: Vec<Group>,
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
        let stamp = STAMPS.fetch_add(1, Ordering::Relaxed);
        Self { stamp, pools: Vec::new(), groups: Vec::new(), tables: Tables::default(), map_entries: 0 }
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
        let overflow = GeometryError::Overflow { place: spec.name.clone(), what: "the number of pools" };
        let id = u32::try_from(self.pools.len()).map_err(|_| overflow)?;
        self.pools.push(Pool::new(spec)?);
        Ok(PoolId::new(id))
    }

    /// Adds a group.
    ///
    /// # Errors
    /// Where its name is taken, it has no layers, a side that its landing or lift needs is missing, a side's blocks
    /// do not lie in one region each, or its sides do not hold the same rows.
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
        let host = self.side::<K>(&name, spec.host.as_ref(), spec.layers, Memory::Host)?;
        let device = self.side::<K>(&name, spec.device.as_ref(), spec.layers, Memory::Device)?;

        let Some(any) = spec.host.as_ref().or(spec.device.as_ref()) else {
            return Err(GeometryError::MissingSide {
                group: name,
                needs: "needs memory",
                side: "host or device",
            });
        };
        let (rows, slots, slots_per_row) = {
            let shape = any.layout.shape();
            (shape.rows, shape.slots, shape.slots_per_row)
        };
        let (mut to_device, mut to_host) = (None, None);
        if let (Some(host_spec), Some(device_spec), Some(host), Some(device)) =
            (&spec.host, &spec.device, &host, &device)
        {
            let (host_shape, device_shape) = (host_spec.layout.shape(), device_spec.layout.shape());
            route::check_agree(&name, &host_shape, &device_shape)?;
            let Self { pools, tables, .. } = self;
            let host = End { side: host, pool: pool_of(pools, &name, host.pool)?, shape: host_shape };
            let device = End { side: device, pool: pool_of(pools, &name, device.pool)?, shape: device_shape };
            let down = route::encode(&name, spec.layers, &host, &device, tables)?;
            let up = route::encode(&name, spec.layers, &device, &host, tables)?;
            (to_device, to_host) = (Some(down), Some(up));
        }
        let map_first = self.map_entries;
        let map_entries = match (&device, to_host) {
            (Some(side), Some(_)) => pool_of(&self.pools, &name, side.pool)?.blocks(),
            _ => 0,
        };
        self.map_entries = map_first
            .checked_add(map_entries)
            .ok_or_else(|| GeometryError::Overflow { place: name.clone(), what: "the page map" })?;
        let overflow = GeometryError::Overflow { place: name.clone(), what: "the number of groups" };
        let id = GroupId::new(u32::try_from(self.groups.len()).map_err(|_| overflow)?);
        self.groups.push(Group {
            name,
            kind: K::KIND,
            layers: spec.layers,
            landing: spec.landing,
            lift,
            rows,
            slots,
            slots_per_row,
            host,
            device,
            to_device,
            to_host,
            map_first,
            map_entries,
        });
        Ok(GroupKey::new(id, self.stamp))
    }

    /// Checks that no two blocks share a byte, and finishes the geometry.
    ///
    /// # Errors
    /// [`GeometryError::SharedBytes`] where distinct blocks, layers or pools touch. Groups of one pool may alias the
    /// same block: which group a block belongs to is checked by each plan.
    pub fn build(self) -> Result<Geometry, GeometryError> {
        let mut runs: Vec<Run> = Vec::new();
        let mut sides = Vec::new();
        for group in &self.groups {
            for (side, word) in [(&group.host, "host"), (&group.device, "device")] {
                let Some(side) = side else { continue };
                let overflow = |what| GeometryError::Overflow { place: group.name.clone(), what };
                let number = u32::try_from(sides.len()).map_err(|_| overflow("the number of sides"))?;
                sides.push((group.name.clone(), word));
                for run in side.runs(number, pool_of(&self.pools, &group.name, side.pool)?) {
                    runs.push(run.map_err(overflow)?);
                }
            }
        }
        overlap::check_apart(runs, |run| {
            let side = usize::try_from(run.side).ok().and_then(|index| sides.get(index));
            let (group, word) = side.map_or(("?", "?"), |(group, word)| (&**group, *word));
            let Run { layer, first_block, .. } = run;
            Arc::from(format!("group `{group}` ({word} side, layer {layer}, blocks from {first_block})"))
        })?;
        let Self { stamp, pools, groups, tables, .. } = self;
        Ok(Geometry { stamp, pools, groups, tables })
    }

    /// Checks one side of a group.
    fn side<K: Kind>(
        &self,
        group: &Arc<str>,
        spec: Option<&SideSpec<K::Layout>>,
        layers: u32,
        memory: Memory,
    ) -> Result<Option<Side>, GeometryError> {
        let Some(spec) = spec else { return Ok(None) };
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
        let page_bytes = spec.layout.shape().page_bytes;
        Side::new::<K>(&place, spec, layers, pool, page_bytes).map(Some)
    }
}

/// The pool of that id.
fn pool_of<'a>(pools: &'a [Pool], place: &Arc<str>, pool: PoolId) -> Result<&'a Pool, GeometryError> {
    let index = usize::try_from(pool.get()).ok();
    index
        .and_then(|index| pools.get(index))
        .ok_or_else(|| GeometryError::UnknownPool { place: place.clone(), pool })
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
