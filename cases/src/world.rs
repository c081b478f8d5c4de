//! A shape at addresses: a geometry, and models of its groups that need nothing of the planner.

use std::sync::Arc;

use pagelift_planner::geometry::*;
use pagelift_planner::id::{HostBlockId, PageId, PoolId};
use pagelift_planner::import::ImportGroup;
use pagelift_planner::layout::{PagedLayout, RingLayout, Segment, StateLayout};
use pagelift_planner::plan::{DeviceToDevice, DeviceToHost, Direction, HostToDevice};

use crate::decode::Move;
use crate::draw::Draw;
use crate::shape::{BLOCK_SIDES, Draft, Inside, SIDES, Scale, Shape, SideShape};

/// One side: where each block of each layer, region and extent begins.
#[derive(Clone, Debug)]
pub struct SideModel {
    /// Its place among all sides of the world.
    pub number: usize,
    /// Its group's place among the world's groups.
    pub group: usize,
    /// Its pool's place among the geometry's pools.
    pub pool: usize,
    /// Which memory that is.
    pub memory: Memory,
    /// Rows of a block.
    pub rows: u32,
    /// Blocks of the pool.
    pub blocks: u32,
    blocks_per_extent: u32,
    /// By layer, region and extent.
    bases: Vec<Vec<Vec<u64>>>,
    block_stride: u64,
    inside: Inside,
}

impl SideModel {
    /// The address formula.
    #[must_use]
    pub fn row(&self, layer: u32, block: u32, segment: usize, row: u32) -> u64 {
        let (region, offset, stride) = self.inside.segments[segment];
        assert!(row < self.rows && block < self.blocks);
        let base = self.bases[layer as usize][region as usize][(block / self.blocks_per_extent) as usize];
        base + u64::from(block % self.blocks_per_extent) * self.block_stride
            + offset
            + u64::from(row) * u64::from(stride)
    }
}

/// A group's key, whatever its kind.
#[derive(Clone, Copy, Debug)]
pub enum Key {
    /// Rows of tokens.
    Paged(GroupKey<Paged>),
    /// Slots.
    Ring(GroupKey<Ring>),
    /// A state.
    State(GroupKey<State>),
}

impl Key {
    /// The group of an import.
    #[must_use]
    pub fn lists<'a>(self, blocks: &'a [HostBlockId], pages: &'a [PageId]) -> ImportGroup<'a> {
        match self {
            Self::Paged(key) => ImportGroup::new(key, blocks, pages),
            Self::Ring(key) => ImportGroup::new(key, blocks, pages),
            Self::State(key) => ImportGroup::new(key, blocks, pages),
        }
    }

    /// The group of an import whose blocks landed on the device.
    #[must_use]
    pub fn landed<'a>(self, pages: &'a [PageId]) -> ImportGroup<'a> {
        match self {
            Self::Paged(key) => ImportGroup::landed(key, pages),
            Self::Ring(key) => ImportGroup::landed(key, pages),
            Self::State(key) => ImportGroup::landed(key, pages),
        }
    }
}

/// A route, whatever its kind.
#[derive(Clone, Copy, Debug)]
pub enum AnyRoute<D> {
    /// Rows of tokens.
    Paged(RouteKey<D, Paged>),
    /// Slots.
    Ring(RouteKey<D, Ring>),
    /// A state.
    State(RouteKey<D, State>),
}

/// A route into a compact buffer, whatever its kind.
#[derive(Clone, Copy, Debug)]
pub enum AnyCompactRoute<D> {
    /// Rows of tokens.
    Paged(CompactRouteKey<D, Paged>),
    /// Slots.
    Ring(CompactRouteKey<D, Ring>),
}

/// A digest key, whatever its kind.
#[derive(Clone, Copy, Debug)]
pub enum AnyDigest {
    /// Rows of tokens.
    Paged(DigestKey<Paged>),
    /// Slots.
    Ring(DigestKey<Ring>),
    /// A state.
    State(DigestKey<State>),
}

/// A group and its model.
#[derive(Clone, Debug)]
pub struct GroupModel {
    /// Its key.
    pub key: Key,
    /// Its kind.
    pub kind: GroupKind,
    /// Layers.
    pub layers: u32,
    /// Tokens of a row.
    pub tokens_per_row: u32,
    /// Bytes of a row of each segment.
    pub row_bytes: Vec<u32>,
    /// Whether imports must bring blocks of it.
    pub is_lifted: bool,
    /// What of it is lifted.
    pub lift: Lift,
    /// Its main side on the host.
    pub host: SideModel,
    /// Its main side on the device.
    pub device: SideModel,
}

impl GroupModel {
    /// Whether rows can be copied one by one.
    #[must_use]
    pub fn has_rows(&self) -> bool {
        self.kind != GroupKind::State
    }

    /// Token slots of a block or page.
    #[must_use]
    pub fn slots(&self, side: &SideModel) -> u32 {
        side.rows * self.tokens_per_row
    }

    /// Bytes of one row of all layers and segments.
    #[must_use]
    pub fn all_row_bytes(&self) -> u64 {
        u64::from(self.layers) * self.row_bytes.iter().map(|&bytes| u64::from(bytes)).sum::<u64>()
    }

    /// One row of all layers and segments, from one place to another; or zeros.
    pub fn copy_row(
        &self,
        from: Option<(&SideModel, u32, u32)>,
        (to, block, row): (&SideModel, u32, u32),
        moves: &mut Vec<Move>,
    ) {
        for layer in 0..self.layers {
            for (segment, &bytes) in self.row_bytes.iter().enumerate() {
                let from = from.map(|(side, block, row)| side.row(layer, block, segment, row));
                moves.push(Move { to: to.row(layer, block, segment, row), from, bytes: u64::from(bytes) });
            }
        }
    }
}

/// A way between two sides of a group, with its model.
#[derive(Clone, Debug)]
pub struct Way<D> {
    /// Where rows come from.
    pub from: SideModel,
    /// Where they go.
    pub to: SideModel,
    /// Its key.
    pub key: AnyRoute<D>,
}

/// A way into a compact buffer, with its model.
#[derive(Clone, Debug)]
pub struct CompactWay<D> {
    /// Where rows come from.
    pub from: SideModel,
    /// The buffer.
    pub to: SideModel,
    /// Its key.
    pub key: AnyCompactRoute<D>,
}

/// A side that digests read, with its model.
#[derive(Clone, Debug)]
pub struct Digested {
    /// The side.
    pub side: SideModel,
    /// Its key.
    pub key: AnyDigest,
}

/// All ways of one direction.
#[derive(Clone, Debug)]
pub struct Ways<D> {
    /// Between all sides of each group.
    pub whole: Vec<Way<D>>,
    /// Into the compact buffers of each group that has rows.
    pub compact: Vec<CompactWay<D>>,
}

/// A geometry, and the model of its groups.
#[derive(Debug)]
pub struct World {
    /// What plans are made for.
    pub geometry: Arc<Geometry>,
    /// Its groups.
    pub groups: Vec<GroupModel>,
    /// From host to device.
    pub down: Ways<HostToDevice>,
    /// From device to host.
    pub up: Ways<DeviceToHost>,
    /// On the device.
    pub across: Ways<DeviceToDevice>,
    /// What digests may read.
    pub digested: Vec<Digested>,
}

/// A direction, with what a world has of it.
pub trait Bearing: Direction + Sized {
    /// The ways of that direction.
    fn ways(world: &World) -> &Ways<Self>;
    /// A source by its number.
    fn source(block: u32) -> Self::Source;
    /// A destination by its number.
    fn destination(block: u32) -> Self::Destination;
}

macro_rules! bearing {
    ($direction:ident, $field:ident, $source:ident, $destination:ident) => {
        impl Bearing for $direction {
            fn ways(world: &World) -> &Ways<Self> {
                &world.$field
            }
            fn source(block: u32) -> $source {
                $source::new(block)
            }
            fn destination(block: u32) -> $destination {
                $destination::new(block)
            }
        }
    };
}

bearing!(HostToDevice, down, HostBlockId, PageId);
bearing!(DeviceToHost, up, PageId, HostBlockId);
bearing!(DeviceToDevice, across, PageId, PageId);

/// Host blocks by their numbers.
#[must_use]
pub fn hosts(ids: &[u32]) -> Vec<HostBlockId> {
    ids.iter().copied().map(HostBlockId::new).collect()
}

/// Pages by their numbers.
#[must_use]
pub fn pages(ids: &[u32]) -> Vec<PageId> {
    ids.iter().copied().map(PageId::new).collect()
}

impl World {
    /// A random world at addresses that nobody has.
    #[must_use]
    pub fn draw(draw: &mut Draw, scale: &Scale) -> Self {
        let shape = Shape::draw(draw, scale);
        shape.build(&shape.nowhere())
    }

    /// The group of a side.
    #[must_use]
    pub fn group_of(&self, side: &SideModel) -> &GroupModel {
        &self.groups[side.group]
    }
}

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
        let mut maker = Maker { builder, pools, world: World::empty(), sides: 0 };
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

impl World {
    fn empty() -> Self {
        let geometry = Arc::new(GeometryBuilder::new().build().unwrap());
        let down = Ways { whole: Vec::new(), compact: Vec::new() };
        let up = Ways { whole: Vec::new(), compact: Vec::new() };
        let across = Ways { whole: Vec::new(), compact: Vec::new() };
        Self { geometry, groups: Vec::new(), down, up, across, digested: Vec::new() }
    }
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
