//! How a shape becomes a world: each group, with all its sides and the ways between them, in a geometry.

use std::sync::Arc;

use pagelift_planner::geometry::*;
use pagelift_planner::id::PoolId;
use pagelift_planner::layout::{PagedLayout, RingLayout, Segment, StateLayout};
use pagelift_planner::plan::HostToDevice;

use crate::shape::{BLOCK_SIDES, Draft, Inside, SIDES, Shape, SideShape};
use crate::world::{
    AnyCompactRoute, AnyDigest, AnyRoute, CompactWay, Digested, GroupModel, Key, SideModel, Way, Ways, World,
};

impl Shape {
    /// An address for each arena, in no memory at all.
    #[must_use]
    pub fn nowhere(&self) -> Vec<u64> {
        let (mut host, mut device) = (0x1000, 0x7F00_0000_0000);
        let mut next = |memory: Memory, bytes: u64| {
            let end: &mut u64 = if memory == Memory::Host { &mut host } else { &mut device };
            let start = *end;
            *end = (start + bytes + 0x1000).next_multiple_of(0x1000);
            start
        };
        self.arenas().iter().map(|arena| next(arena.memory, arena.bytes)).collect()
    }

    /// The world with its arenas at these addresses. Built twice, it is two geometries, whose keys are strangers to each
    /// other.
    #[must_use]
    pub fn build(&self, arenas: &[u64]) -> World {
        let address = |chunk: usize, offset: u64| {
            let chunk = &self.chunks[chunk];
            arenas[chunk.arena] + chunk.offset + offset
        };
        let mut builder = GeometryBuilder::new();
        let pools: Vec<PoolId> = (0..)
            .zip(&self.pools)
            .map(|(number, pool)| {
                let region = |&chunk: &usize| Region::new(address(chunk, 0), self.chunks[chunk].bytes);
                let regions: Vec<Region> = pool.chunks.iter().map(region).collect();
                let name = format!("{} {number}", pool.memory.name());
                let spec = PoolSpec::new(&name, pool.memory, pool.blocks, &regions);
                builder.pool(spec.extents_of(pool.blocks_per_extent)).unwrap()
            })
            .collect();
        let mut maker = Maker { builder, pools, world: empty(), sides: 0 };
        for (draft, sides) in self.drafts.iter().zip(&self.sides) {
            let models =
                sides.iter().enumerate().map(|(side, shape)| self.model(&maker, side, shape, address));
            let models: Vec<SideModel> = models.collect();
            maker.sides += models.len();
            match draft.kind {
                GroupKind::Paged => {
                    let group = maker.add::<Paged>(draft, &models);
                    maker.add_compact(group, &models);
                }
                GroupKind::Ring => {
                    let group = maker.add::<Ring>(draft, &models);
                    maker.add_compact(group, &models);
                }
                GroupKind::State => drop(maker.add::<State>(draft, &models)),
            }
        }
        maker.world.geometry = Arc::new(maker.builder.build().unwrap());
        maker.world
    }

    fn model(
        &self,
        maker: &Maker,
        side: usize,
        shape: &SideShape,
        address: impl Fn(usize, u64) -> u64,
    ) -> SideModel {
        let pool = &self.pools[shape.pool];
        let mut bases: Vec<Vec<Vec<u64>>> = Vec::new();
        for layer in &shape.bases {
            let extents = |extents: &Vec<(usize, u64)>| extents.iter().map(|&(c, o)| address(c, o)).collect();
            bases.push(layer.iter().map(extents).collect());
        }
        SideModel {
            number: maker.sides + side,
            group: maker.world.groups.len(),
            pool: shape.pool,
            memory: pool.memory,
            rows: shape.inside.rows,
            blocks: pool.blocks,
            blocks_per_extent: pool.blocks_per_extent,
            bases,
            block_stride: shape.block_stride,
            inside: shape.inside.clone(),
        }
    }
}

/// A kind of group, with what is different between kinds.
trait AnyKind: Kind + Sized {
    fn layout(draft: &Draft, inside: &Inside) -> Self::Layout;
    fn lift(lift: Lift) -> Self::Lift;
    fn key(key: GroupKey<Self>) -> Key;
    fn route<D>(key: RouteKey<D, Self>) -> AnyRoute<D>;
    fn digest(key: DigestKey<Self>) -> AnyDigest;
}

/// A kind of group that has rows.
trait AnyRows: AnyKind + HasRows {
    fn compact<D>(key: CompactRouteKey<D, Self>) -> AnyCompactRoute<D>;
}

macro_rules! kinds {
    ($($kind:ident: $layout:ident, $lift:ident);+) => { $(
        impl AnyKind for $kind {
            fn layout(draft: &Draft, inside: &Inside) -> Self::Layout {
                $layout(draft, inside)
            }
            fn lift(lift: Lift) -> Self::Lift {
                $lift(lift)
            }
            fn key(key: GroupKey<Self>) -> Key {
                Key::$kind(key)
            }
            fn route<D>(key: RouteKey<D, Self>) -> AnyRoute<D> {
                AnyRoute::$kind(key)
            }
            fn digest(key: DigestKey<Self>) -> AnyDigest {
                AnyDigest::$kind(key)
            }
        }
    )+ };
}

kinds! { Paged: paged_layout, paged_lift; Ring: ring_layout, state_lift; State: state_layout, state_lift }

impl AnyRows for Paged {
    fn compact<D>(key: CompactRouteKey<D, Self>) -> AnyCompactRoute<D> {
        AnyCompactRoute::Paged(key)
    }
}

impl AnyRows for Ring {
    fn compact<D>(key: CompactRouteKey<D, Self>) -> AnyCompactRoute<D> {
        AnyCompactRoute::Ring(key)
    }
}

fn paged_lift(lift: Lift) -> PagedLift {
    match lift {
        Lift::Tail => PagedLift::Tail,
        Lift::All => PagedLift::All,
        Lift::State | Lift::None => PagedLift::None,
    }
}

fn state_lift(lift: Lift) -> StateLift {
    if lift == Lift::None { StateLift::None } else { StateLift::State }
}

fn paged_layout(draft: &Draft, inside: &Inside) -> PagedLayout {
    let builder = PagedLayout::builder(inside.rows * draft.tokens_per_row)
        .tokens_per_row(draft.tokens_per_row)
        .page_bytes(inside.region_bytes);
    let segments = draft.row_bytes.iter().zip(&inside.segments).enumerate();
    segments
        .map(|(i, (&bytes, &(region, offset, stride)))| {
            Segment::new(&format!("s{i}"), offset, bytes, stride).unwrap().in_region(region)
        })
        .fold(builder, |builder, segment| builder.segment_at(segment))
        .build()
        .unwrap()
}

fn ring_layout(draft: &Draft, inside: &Inside) -> RingLayout {
    let bytes = draft.row_bytes[0];
    RingLayout::builder(inside.rows, bytes)
        .slot_padding(inside.segments[0].2 - bytes)
        .page_bytes(inside.region_bytes)
        .build()
        .unwrap()
}

fn state_layout(draft: &Draft, inside: &Inside) -> StateLayout {
    let names: Vec<String> = (0..draft.row_bytes.len()).map(|i| format!("s{i}")).collect();
    let parts = names.iter().zip(&inside.segments).zip(&draft.row_bytes);
    let parts: Vec<(&str, u64, u32)> =
        parts.map(|((name, &(_, offset, _)), &bytes)| (name.as_str(), offset, bytes)).collect();
    StateLayout::at(&parts, Some(inside.region_bytes)).unwrap()
}

/// A world without groups.
fn empty() -> World {
    let geometry = Arc::new(GeometryBuilder::new().build().unwrap());
    let down = Ways { whole: Vec::new(), compact: Vec::new() };
    let up = Ways { whole: Vec::new(), compact: Vec::new() };
    let across = Ways { whole: Vec::new(), compact: Vec::new() };
    World { geometry, groups: Vec::new(), down, up, across, digested: Vec::new() }
}

/// A world on its way.
struct Maker {
    builder: GeometryBuilder,
    pools: Vec<PoolId>,
    world: World,
    /// Sides so far.
    sides: usize,
}

impl Maker {
    /// A group with routes between all its sides, and digests of each.
    fn add<K: AnyKind>(&mut self, draft: &Draft, models: &[SideModel]) -> Added<K> {
        let specs: Vec<SideSpec<K::Layout>> = models
            .iter()
            .map(|side| SideSpec {
                pool: self.pools[side.pool],
                bases: side.bases.concat().concat(),
                block_stride: side.block_stride,
                layout: K::layout(draft, &side.inside),
            })
            .collect();
        let mut specs = specs.into_iter();
        let key = self.builder.group(GroupSpec::<K> {
            name: format!("group{}", self.world.groups.len()).into(),
            layers: draft.layers,
            landing: draft.landing,
            lift: K::lift(draft.lift),
            host: specs.next(),
            device: specs.next(),
        });
        let key = key.unwrap();
        let mains = [Memory::Host, Memory::Device].map(|memory| self.builder.main_side(key, memory).unwrap());
        let more: Vec<SideKey<K>> = specs.map(|spec| self.builder.side(key, &spec).unwrap()).collect();
        let sides: Vec<SideKey<K>> = mains.into_iter().chain(more).collect();
        for (&from, model) in sides.iter().zip(models) {
            let key = K::digest(self.builder.digest(from).unwrap());
            self.world.digested.push(Digested { side: model.clone(), key });
        }
        let Self { builder, world, .. } = self;
        for i in 0..BLOCK_SIDES {
            for j in 0..BLOCK_SIDES {
                let (from, to) = (models[i].clone(), models[j].clone());
                match (SIDES[i], SIDES[j]) {
                    (Memory::Host, Memory::Device) => {
                        let key = K::route(builder.route(sides[i], sides[j]).unwrap());
                        world.down.whole.push(Way { from, to, key });
                    }
                    (Memory::Device, Memory::Host) => {
                        let key = K::route(builder.route(sides[i], sides[j]).unwrap());
                        world.up.whole.push(Way { from, to, key });
                    }
                    (Memory::Device, Memory::Device) => {
                        let key = K::route(builder.route(sides[i], sides[j]).unwrap());
                        world.across.whole.push(Way { from, to, key });
                    }
                    (Memory::Host, Memory::Host) => {
                        assert!(builder.route::<HostToDevice, K>(sides[i], sides[j]).is_err());
                    }
                }
            }
        }
        self.world.groups.push(GroupModel {
            key: K::key(key),
            kind: draft.kind,
            layers: draft.layers,
            tokens_per_row: draft.tokens_per_row,
            row_bytes: draft.row_bytes.clone(),
            is_lifted: draft.landing == Landing::Host && draft.lift != Lift::None,
            lift: draft.lift,
            host: models[0].clone(),
            device: models[1].clone(),
        });
        Added { sides }
    }

    /// Routes from all sides of a group that has rows into its compact buffers.
    fn add_compact<K: AnyRows>(&mut self, Added { sides }: Added<K>, models: &[SideModel]) {
        let Self { builder, world, .. } = self;
        for i in 0..BLOCK_SIDES {
            for j in BLOCK_SIDES..sides.len() {
                let (from, to) = (models[i].clone(), models[j].clone());
                match (SIDES[i], SIDES[j]) {
                    (Memory::Host, Memory::Device) => {
                        let key = K::compact(builder.compact_route(sides[i], sides[j]).unwrap());
                        world.down.compact.push(CompactWay { from, to, key });
                    }
                    (Memory::Device, Memory::Host) => {
                        let key = K::compact(builder.compact_route(sides[i], sides[j]).unwrap());
                        world.up.compact.push(CompactWay { from, to, key });
                    }
                    (Memory::Device, Memory::Device) => {
                        let key = K::compact(builder.compact_route(sides[i], sides[j]).unwrap());
                        world.across.compact.push(CompactWay { from, to, key });
                    }
                    (Memory::Host, Memory::Host) => {}
                }
            }
        }
    }
}

/// The sides of a group that was added.
struct Added<K> {
    sides: Vec<SideKey<K>>,
}
