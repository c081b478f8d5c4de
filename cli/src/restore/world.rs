//! Pools in memory, and the geometry over them.

use std::borrow::Cow;
use std::sync::Arc;

use pagelift::Error;
use pagelift::backends::{Backend, HostPool, HostPoolSpec};
use pagelift::error::MemoryError;
use pagelift::geometry::{
    Geometry, GeometryBuilder, GroupKey, GroupSpec, Kind, Landing, Memory, Paged, PagedLift, PoolSpec,
    Region, Ring, SideSpec, State, StateLift,
};
use pagelift::id::{GroupId, PoolId};
use pagelift::memory::{RegionId, Registry};

use super::RestoreError;
use super::layouts::Asked;
use crate::manifest::{self, Family, Group, LayerOrder, Lift, Manifest, Pool, PoolOrder, Side};
use crate::progress::Progress;
use crate::reference::{Model, Piece, Place};

/// The key of a group, of whichever kind.
#[derive(Clone, Copy, Debug)]
pub enum AnyKey {
    /// Rows of tokens.
    Paged(GroupKey<Paged>),
    /// Ring slots.
    Ring(GroupKey<Ring>),
    /// A state.
    State(GroupKey<State>),
}

impl AnyKey {
    /// The group's id.
    pub const fn id(self) -> GroupId {
        match self {
            Self::Paged(key) => key.id(),
            Self::Ring(key) => key.id(),
            Self::State(key) => key.id(),
        }
    }

    /// Rows of a block of the group's side in one memory, if it has one; a state is one row.
    pub fn block_rows(self, geometry: &Geometry, memory: Memory) -> Option<u32> {
        match self {
            Self::Paged(key) => geometry.block_rows(key, memory).map(|rows| rows.get()),
            Self::Ring(key) => geometry.block_rows(key, memory).map(|rows| rows.get()),
            Self::State(key) => geometry.block_slots(key.id(), memory).map(|_| 1),
        }
    }

    /// Tokens of a row, where rows stand for tokens.
    pub fn tokens_per_row(self, geometry: &Geometry) -> Option<u32> {
        let Self::Paged(key) = self else { return None };
        let of_side = |memory| {
            let rows = u64::from(geometry.block_rows(key, memory)?.get());
            u32::try_from(geometry.block_slots(key.id(), memory)?.get().checked_div(rows)?).ok()
        };
        [Memory::Host, Memory::Device].into_iter().find_map(of_side)
    }
}

/// Pools, and what knows where things lie in them.
#[derive(Debug)]
pub struct World<'m> {
    pub manifest: &'m Manifest,
    pub memory: Registry,
    pub geometry: Arc<Geometry>,
    /// By group.
    pub keys: Vec<AnyKey>,
    /// By pool, then by extent.
    extents: Vec<Vec<RegionId>>,
}

impl<'m> World<'m> {
    /// Allocates the manifest's pools, and builds their geometry.
    pub fn new(
        manifest: &'m Manifest,
        backend: &impl Backend,
        progress: Progress,
    ) -> Result<Self, RestoreError> {
        Ok(Self::with(manifest, backend, progress, |_, _, _| Ok(()))?.0)
    }

    /// The same, with what `extend` adds to the geometry before it is built.
    pub fn with<T>(
        manifest: &'m Manifest,
        backend: &impl Backend,
        progress: Progress,
        extend: impl FnOnce(&mut GeometryBuilder, &[AnyKey], &mut Registry) -> Result<T, RestoreError>,
    ) -> Result<(Self, T), RestoreError> {
        let bar = progress.bytes("allocate", manifest.pools().iter().map(|pool| pool.bytes()).sum());
        let mut memory = Registry::new();
        let (mut extents, mut regions) = (Vec::new(), Vec::new());
        for pool in manifest.pools() {
            let ids = allocate(&mut memory, backend, pool)?;
            bar.advance(pool.bytes());
            regions.push(ids.iter().filter_map(|id| memory.region(*id)).collect::<Vec<_>>());
            extents.push(ids);
        }
        let (mut builder, keys) = describe(manifest, &regions)?;
        let added = extend(&mut builder, &keys, &mut memory)?;
        let geometry = Arc::new(builder.build()?);
        Ok((Self { manifest, memory, geometry, keys, extents }, added))
    }

    /// Fills all pools with what was there before the run: bytes that are random too, so that a stray write shows.
    pub fn fill(&mut self, model: &Model<'_>, progress: Progress) -> Result<(), RestoreError> {
        [manifest::Memory::Host, manifest::Memory::Device]
            .into_iter()
            .try_for_each(|memory| self.fill_memory(model, memory, progress))
    }

    /// The same, of the pools of one memory.
    pub fn fill_memory(
        &mut self,
        model: &Model<'_>,
        memory: manifest::Memory,
        progress: Progress,
    ) -> Result<(), RestoreError> {
        let pools = || self.manifest.pools().iter().filter(|pool| pool.memory == memory);
        let bar = progress.bytes("fill", pools().map(|pool| pool.bytes()).sum());
        for pool in pools() {
            for (extent, id) in (0..).zip(self.extents.get(pool.index).into_iter().flatten()) {
                if let Some(bytes) = self.memory.bytes_mut(*id) {
                    model.fill_untouched(pool, extent, bytes)?;
                } else {
                    // The host does not reach it.
                    let mut bytes = vec![0; usize::try_from(pool.extent_bytes()).unwrap_or(0)];
                    model.fill_untouched(pool, extent, &mut bytes)?;
                    self.memory.write(*id, 0, &bytes)?;
                }
                bar.advance(pool.extent_bytes());
            }
        }
        Ok(())
    }

    /// The bytes of an extent of a pool, once no launch touches them; none where there is no such extent.
    pub fn bytes(&self, pool: &Pool, extent: u32) -> Result<Cow<'_, [u8]>, Error> {
        let id = self.extents.get(pool.index).and_then(|ids| ids.get(extent as usize));
        let Some(id) = id else { return Ok(Cow::Borrowed(&[])) };
        if let Some(bytes) = self.memory.bytes(*id) {
            return Ok(Cow::Borrowed(bytes));
        }
        let mut bytes = vec![0; usize::try_from(pool.extent_bytes()).unwrap_or(0)];
        self.memory.read(*id, 0, &mut bytes)?;
        Ok(Cow::Owned(bytes))
    }

    /// Reads bytes from where the reference says.
    pub fn read(&self, pool: &Pool, from: Place, into: &mut [u8]) -> Result<(), Error> {
        let id = self.extents.get(pool.index).and_then(|ids| ids.get(from.extent as usize));
        self.memory.read(*id.ok_or(MemoryError::Released)?, from.offset, into)
    }

    /// Puts bytes where the reference says.
    pub fn put(&mut self, piece: Piece<'_>) -> Result<(), Error> {
        let id = self.extents.get(piece.pool.index).and_then(|ids| ids.get(piece.extent as usize));
        let id = *id.ok_or(MemoryError::Released)?;
        self.memory.write(id, piece.offset, piece.bytes)
    }

    /// Asks the model about every byte of every pool, and returns how many these were.
    pub fn verify(
        &self,
        model: &Model<'_>,
        what: &'static str,
        progress: Progress,
    ) -> Result<u64, RestoreError> {
        let bar = progress.bytes(what, self.pool_bytes());
        let mut verified = 0;
        for pool in self.manifest.pools() {
            for extent in 0..pool.extents() {
                let bytes = self.bytes(pool, extent)?;
                verified += model.verify(pool, extent, &bytes, |bytes| bar.advance(bytes))?;
            }
        }
        Ok(verified)
    }

    /// The extents of all pools, each with the number of its pool.
    #[cfg(feature = "nixl")]
    pub fn extents(&self) -> impl Iterator<Item = (usize, RegionId)> {
        self.extents.iter().enumerate().flat_map(|(pool, ids)| ids.iter().map(move |id| (pool, *id)))
    }

    /// The region of one extent, for tests that spoil a byte.
    #[cfg(test)]
    pub fn extent(&self, pool: usize, extent: usize) -> RegionId {
        self.extents[pool][extent]
    }

    fn pool_bytes(&self) -> u64 {
        self.manifest.pools().iter().map(|pool| pool.bytes()).sum()
    }
}

/// Allocates a pool, a region for each of its extents.
fn allocate(
    memory: &mut Registry,
    backend: &impl Backend,
    pool: &Pool,
) -> Result<Vec<RegionId>, pagelift::Error> {
    let extent = pool.extent_bytes();
    if pool.memory == manifest::Memory::Device {
        return (0..pool.extents()).map(|_| memory.allocate(backend, Memory::Device, extent)).collect();
    }
    let block = extent / u64::from(pool.blocks_per_extent.max(1));
    let spec = HostPoolSpec::new(pool.blocks, block).chunks_of(extent);
    memory.adopt_pool(HostPool::allocate(backend, &spec, |_| ())?)
}

/// Describes a manifest's pools, whose extents lie in these regions, and its groups.
pub fn describe(
    manifest: &Manifest,
    regions: &[Vec<Region>],
) -> Result<(GeometryBuilder, Vec<AnyKey>), RestoreError> {
    let mut builder = GeometryBuilder::new();
    let mut pools = Vec::new();
    for (pool, regions) in manifest.pools().iter().zip(regions) {
        let spec = PoolSpec::new(&pool.name, pool.memory.into(), pool.blocks, regions);
        let id = builder.pool(spec.extents_of(pool.blocks_per_extent))?;
        pools.push(Placed { id, extents: regions.iter().map(|region| region.address()).collect() });
    }
    let keys = manifest
        .groups()
        .iter()
        .map(|group| add_group(&mut builder, manifest, group, &pools))
        .collect::<Result<Vec<_>, _>>()?;
    Ok((builder, keys))
}

/// A pool of the geometry, and where its extents begin.
struct Placed {
    id: PoolId,
    extents: Vec<u64>,
}

impl From<manifest::Memory> for Memory {
    fn from(memory: manifest::Memory) -> Self {
        match memory {
            manifest::Memory::Host => Self::Host,
            manifest::Memory::Device => Self::Device,
        }
    }
}

/// Adds a group of its kind.
fn add_group(
    builder: &mut GeometryBuilder,
    manifest: &Manifest,
    group: &Group,
    pools: &[Placed],
) -> Result<AnyKey, RestoreError> {
    let asked = |side| Asked { manifest, group, side };
    let key = match group.shape.family {
        Family::Tokens { tokens_per_row } => {
            let lift = match group.lift {
                Lift::Tail => PagedLift::Tail,
                Lift::All => PagedLift::All,
                Lift::State | Lift::None => PagedLift::None,
            };
            let layout = |side| asked(side).paged(tokens_per_row);
            AnyKey::Paged(builder.group(spec::<Paged>(group, pools, lift, layout)?)?)
        }
        Family::Ring => {
            let layout = |side| asked(side).ring();
            AnyKey::Ring(builder.group(spec::<Ring>(group, pools, state_lift(group), layout)?)?)
        }
        Family::State => {
            let layout = |side| asked(side).state();
            AnyKey::State(builder.group(spec::<State>(group, pools, state_lift(group), layout)?)?)
        }
    };
    Ok(key)
}

fn state_lift(group: &Group) -> StateLift {
    if group.lift == Lift::State { StateLift::State } else { StateLift::None }
}

/// A group's specification, its sides placed in the pools.
fn spec<'m, K: Kind>(
    group: &'m Group,
    pools: &[Placed],
    lift: K::Lift,
    layout: impl Fn(&'m Side) -> Result<K::Layout, pagelift::error::LayoutError>,
) -> Result<GroupSpec<K>, RestoreError> {
    let place = |side: &'m Option<Side>| -> Result<Option<SideSpec<K::Layout>>, RestoreError> {
        let Some(side) = side else { return Ok(None) };
        let Some(pool) = pools.get(side.pool.index) else { return Ok(None) };
        let layout = layout(side).map_err(pagelift::Error::from)?;
        let offsets = layer_offsets(group, side);
        Ok(Some(SideSpec::packed(pool.id, &pool.extents, &offsets, block_stride(&side.pool), layout)))
    };
    let landing = match group.landing {
        manifest::Landing::Host => Landing::Host,
        manifest::Landing::Gpu => Landing::Device,
    };
    let (host, device) = (place(&group.host)?, place(&group.device)?);
    Ok(GroupSpec { name: group.name.as_str().into(), layers: group.layers, landing, lift, host, device })
}

/// Bytes from an extent's start to block 0 of each region of each of the group's layers: a region is a layer of the
/// pool.
fn layer_offsets(group: &Group, side: &Side) -> Vec<u64> {
    let pool = &side.pool;
    let between = match pool.order {
        PoolOrder::LayersOutermost => u64::from(pool.blocks_per_extent).saturating_mul(pool.page_bytes),
        PoolOrder::BlocksOutermost => pool.page_bytes,
    };
    let layers = (0..group.layers).map(|layer| match side.layer_order {
        LayerOrder::Forward => layer,
        LayerOrder::Reversed => group.layers.saturating_sub(1).saturating_sub(layer),
    });
    let regions = side.kv_regions.count();
    let places = layers.flat_map(|layer| {
        let first = side.first_layer.saturating_add(layer.saturating_mul(regions));
        (0..regions).map(move |region| first.saturating_add(region))
    });
    places.map(|place| u64::from(place).saturating_mul(between)).collect()
}

/// Bytes from one block of a layer to the next.
fn block_stride(pool: &Pool) -> u64 {
    match pool.order {
        PoolOrder::LayersOutermost => pool.page_bytes,
        PoolOrder::BlocksOutermost => {
            u64::from(pool.layers).saturating_mul(pool.page_bytes).saturating_add(pool.block_padding)
        }
    }
}
