//! Random geometries, with their addresses written down on the way, so that a model needs nothing of the planner.

use std::sync::Arc;

use pagelift_planner::error::PlanError;
use pagelift_planner::geometry::*;
use pagelift_planner::id::{HostBlockId, PageId, PoolId};
use pagelift_planner::import::ImportGroup;
use pagelift_planner::layout::{PagedLayout, RingLayout, Segment, StateLayout};
use pagelift_planner::plan::{
    DeviceToDevice, DeviceToHost, DigestNumber, DigestPlan, Direction, HostToDevice, PagePlan,
};

use super::decode::Move;

/// A small generator (splitmix64): a failing case is told by its seed and size.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub fn small(&mut self, end: u32) -> u32 {
        self.below(u64::from(end)) as u32
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    /// `0..count` in random order.
    pub fn order(&mut self, count: u32) -> Vec<u32> {
        let mut order: Vec<u32> = (0..count).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, self.below(i as u64 + 1) as usize);
        }
        order
    }
}

/// A group's key, whatever its kind.
#[derive(Clone, Copy)]
pub enum Key {
    Paged(GroupKey<Paged>),
    Ring(GroupKey<Ring>),
    State(GroupKey<State>),
}

impl Key {
    pub fn lists<'a>(self, blocks: &'a [HostBlockId], pages: &'a [PageId]) -> ImportGroup<'a> {
        match self {
            Self::Paged(key) => ImportGroup::new(key, blocks, pages),
            Self::Ring(key) => ImportGroup::new(key, blocks, pages),
            Self::State(key) => ImportGroup::new(key, blocks, pages),
        }
    }
}

/// What a page looks like on one side.
#[derive(Clone, Debug)]
struct Inside {
    rows: u32,
    /// Region, offset and row stride of each segment.
    segments: Vec<(u32, u64, u32)>,
    regions: u32,
    /// Bytes of each region.
    region_bytes: u64,
}

/// One side: where each block of each layer, region and extent begins.
#[derive(Clone, Debug)]
pub struct SideModel {
    pub rows: u32,
    pub blocks: u32,
    blocks_per_extent: u32,
    /// By layer, region and extent.
    bases: Vec<Vec<Vec<u64>>>,
    block_stride: u64,
    inside: Inside,
}

impl SideModel {
    /// The address formula.
    pub fn row(&self, layer: u32, block: u32, segment: usize, row: u32) -> u64 {
        let (region, offset, stride) = self.inside.segments[segment];
        assert!(row < self.rows && block < self.blocks);
        let base = self.bases[layer as usize][region as usize][(block / self.blocks_per_extent) as usize];
        base + u64::from(block % self.blocks_per_extent) * self.block_stride
            + offset
            + u64::from(row) * u64::from(stride)
    }
}

/// A group and its model.
pub struct GroupModel {
    pub key: Key,
    pub layers: u32,
    pub tokens_per_row: u32,
    pub row_bytes: Vec<u32>,
    pub lift: Lift,
    pub host: SideModel,
    pub device: SideModel,
}

impl GroupModel {
    /// Token slots of a block or page.
    pub fn slots(&self, side: &SideModel) -> u64 {
        u64::from(side.rows) * u64::from(self.tokens_per_row)
    }

    /// Bytes of one row of all layers and segments.
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

/// A way of one group, whatever its kind, with its model.
pub struct Way<D> {
    pub group: usize,
    pub from: SideModel,
    pub to: SideModel,
    /// The numbers of the pools at both ends.
    pub pools: [u32; 2],
    pub key: AnyRoute<D>,
}

/// A route, whatever its kind.
pub enum AnyRoute<D> {
    Paged(RouteKey<D, Paged>),
    Ring(RouteKey<D, Ring>),
    State(RouteKey<D, State>),
}

impl<D: Direction> Way<D> {
    pub fn gather(
        &self,
        plan: &mut PagePlan<D>,
        from: &[D::Source],
        to: &[D::Destination],
    ) -> Result<(), PlanError> {
        match self.key {
            AnyRoute::Paged(key) => plan.gather(key, from, to),
            AnyRoute::Ring(key) => plan.gather(key, from, to),
            AnyRoute::State(key) => plan.gather(key, from, to),
        }
    }
}

/// How the routes of one kind become any routes, by direction.
type Wraps<K> = (
    fn(RouteKey<HostToDevice, K>) -> AnyRoute<HostToDevice>,
    fn(RouteKey<DeviceToHost, K>) -> AnyRoute<DeviceToHost>,
    fn(RouteKey<DeviceToDevice, K>) -> AnyRoute<DeviceToDevice>,
);

/// A side that digests read, with its model.
pub struct Digested {
    pub group: usize,
    pub side: SideModel,
    pub memory: Memory,
    pub key: AnyDigest,
}

impl Digested {
    pub fn add(&self, plan: &mut DigestPlan, blocks: &[u32], rows: u64) -> Result<DigestNumber, PlanError> {
        match self.memory {
            Memory::Host => self.key.host(plan, &super::hosts(blocks), rows),
            Memory::Device => self.key.device(plan, &super::pages(blocks), rows),
        }
    }
}

impl AnyDigest {
    pub fn host(
        &self,
        plan: &mut DigestPlan,
        blocks: &[HostBlockId],
        rows: u64,
    ) -> Result<DigestNumber, PlanError> {
        match *self {
            Self::Paged(key) => plan.host(key, blocks, rows),
            Self::Ring(key) => plan.host(key, blocks, rows),
            Self::State(key) => plan.host(key, blocks, rows),
        }
    }

    pub fn device(
        &self,
        plan: &mut DigestPlan,
        pages: &[PageId],
        rows: u64,
    ) -> Result<DigestNumber, PlanError> {
        match *self {
            Self::Paged(key) => plan.device(key, pages, rows),
            Self::Ring(key) => plan.device(key, pages, rows),
            Self::State(key) => plan.device(key, pages, rows),
        }
    }
}

/// A digest key, whatever its kind.
pub enum AnyDigest {
    Paged(DigestKey<Paged>),
    Ring(DigestKey<Ring>),
    State(DigestKey<State>),
}

/// A geometry and the model of its groups, all of which share one host pool and one device pool.
pub struct World {
    pub geometry: Arc<Geometry>,
    pub groups: Vec<GroupModel>,
    pub blocks: u32,
    pub pages: u32,
    /// Ways between all sides of each group, by direction.
    pub down: Vec<Way<HostToDevice>>,
    pub up: Vec<Way<DeviceToHost>>,
    pub across: Vec<Way<DeviceToDevice>>,
    pub digested: Vec<Digested>,
}

const ROW_BYTES: [u32; 16] = [1, 2, 3, 4, 6, 8, 12, 16, 48, 132, 280, 576, 584, 656, 1152, 20_001];
const ALIGNMENTS: [u64; 4] = [1, 4, 16, 256];

fn up(number: u64, multiple: u64) -> u64 {
    number.div_ceil(multiple) * multiple
}

/// Places segments in one or more regions: one after the other in random order, rows and segments with random gaps; or
/// side by side in each row, in their order, so that some of them are one run to a kernel.
fn inside(rng: &mut Rng, rows: u32, row_bytes: &[u32], most_regions: u32) -> Inside {
    let align = rng.pick(&ALIGNMENTS);
    let count = row_bytes.len() as u32;
    let regions = 1 + rng.small(count.min(most_regions));
    let mut region_of: Vec<u32> =
        (0..count).map(|s| if s < regions { s } else { rng.small(regions) }).collect();
    if rng.below(2) == 0 {
        region_of.sort_unstable();
    }
    let mut segments = vec![(0, 0, 0); row_bytes.len()];
    let mut region_bytes = 0;
    for region in 0..regions {
        let own: Vec<u32> =
            rng.order(count).into_iter().filter(|&s| region_of[s as usize] == region).collect();
        let mut end = 0;
        if rng.below(2) == 0 {
            let mut own = own;
            own.sort_unstable();
            let bytes = |s: &u32| row_bytes[*s as usize];
            let stride = own.iter().map(bytes).sum::<u32>() + rng.pick(&[0, 0, 0, 8]);
            let mut offset = up(rng.pick(&[0, 0, 5, 64]), align);
            for segment in &own {
                segments[*segment as usize] = (region, offset, stride);
                offset += u64::from(bytes(segment));
            }
            end = offset + u64::from(rows - 1) * u64::from(stride);
        } else {
            for segment in own {
                let bytes = row_bytes[segment as usize];
                let stride = bytes + rng.pick(&[0, 0, 0, 1, 8, 16]);
                let offset = up(end + rng.pick(&[0, 0, 5, 64]), align);
                segments[segment as usize] = (region, offset, stride);
                end = offset + u64::from(rows - 1) * u64::from(stride) + u64::from(bytes);
            }
        }
        region_bytes = region_bytes.max(up(end + rng.pick(&[0, 0, 7, 128]), align));
    }
    Inside { rows, segments, regions, region_bytes }
}

/// The pages of all groups in one pool: each group packs its layers and regions into a block from its first byte on, and
/// pads it to the largest group's size; or each region of each layer of each group has memory of its own.
fn sides(
    rng: &mut Rng,
    start: u64,
    blocks: u32,
    groups: &[(u32, Inside)],
) -> (u32, Vec<Region>, Vec<SideModel>) {
    let blocks_per_extent = 1 + rng.small(blocks);
    let extents = blocks.div_ceil(blocks_per_extent);
    let mut at = start + rng.pick(&[0, 2, 16]);
    let mut regions = Vec::new();
    let mut region = |rng: &mut Rng, bytes: u64| {
        let base = at;
        regions.push(Region::new(base, bytes));
        at = up(base + bytes + rng.pick(&[0, 1, 4096]), rng.pick(&ALIGNMENTS));
        base
    };
    let packed = rng.below(2) == 0;
    let align = rng.pick(&ALIGNMENTS);
    let runs = |(layers, inside): &(u32, Inside)| layers * inside.regions;
    let largest = groups.iter().map(|group| up(group.1.region_bytes, align) * u64::from(runs(group))).max();
    let slab_stride = largest.unwrap_or(1) + rng.pick(&[0, 0, 16, 33]);
    let extent_bytes = |stride: u64| u64::from(blocks_per_extent) * stride;
    let mut sides: Vec<SideModel> = Vec::new();
    let slab: Vec<u64> = match packed {
        true => (0..extents).map(|_| region(rng, extent_bytes(slab_stride))).collect(),
        false => Vec::new(),
    };
    for group in groups {
        let (_, inside) = group;
        let page = up(inside.region_bytes, align);
        let order = rng.order(runs(group));
        let stride = if packed { slab_stride } else { page + rng.pick(&[0, 0, 3]) };
        let bases = order.iter().map(|&place| {
            (0..extents as usize)
                .map(|extent| match packed {
                    true => slab[extent] + u64::from(place) * page,
                    false => region(rng, extent_bytes(stride)),
                })
                .collect()
        });
        let bases: Vec<Vec<u64>> = bases.collect();
        let bases = bases.chunks(inside.regions as usize).map(<[_]>::to_vec).collect();
        sides.push(SideModel {
            rows: inside.rows,
            blocks,
            blocks_per_extent,
            bases,
            block_stride: stride,
            inside: inside.clone(),
        });
    }
    let order = rng.order(regions.len() as u32);
    (blocks_per_extent, order.iter().map(|&i| regions[i as usize]).collect(), sides)
}

/// A group to be.
struct Draft {
    kind: GroupKind,
    tokens_per_row: u32,
    row_bytes: Vec<u32>,
    lift: Lift,
    layers: u32,
    /// On the host, on the device, and once more on either.
    inside: [Inside; 4],
}

impl Draft {
    fn random(rng: &mut Rng, size: u32) -> Self {
        let kind = rng.pick(&[GroupKind::Paged, GroupKind::Paged, GroupKind::Ring, GroupKind::State]);
        let rows = if kind == GroupKind::State { 1 } else { 1 + rng.small(size * 4) };
        let tokens_per_row = if kind == GroupKind::Paged { rng.pick(&[1, 1, 4, 3]) } else { 1 };
        let segments = if kind == GroupKind::Ring { 1 } else { 1 + rng.small(3) };
        let row_bytes: Vec<u32> = (0..segments).map(|_| rng.pick(&ROW_BYTES)).collect();
        let lift = match kind {
            GroupKind::Paged => rng.pick(&[Lift::Tail, Lift::Tail, Lift::All, Lift::None]),
            _ => rng.pick(&[Lift::State, Lift::State, Lift::None]),
        };
        let layers = 1 + rng.small(size.min(5));
        let regions = if kind == GroupKind::Paged { 3 } else { 1 };
        let inside = [(); 4].map(|()| {
            // Rows of a page and of a block may differ by a power of two.
            let ratio = if kind == GroupKind::Paged { rng.pick(&[1, 1, 1, 2, 4]) } else { 1 };
            let mut inside = inside(rng, rows * ratio, &row_bytes, regions);
            if kind == GroupKind::Ring {
                // A ring's slots begin at its page's first byte.
                inside.region_bytes -= inside.segments[0].1;
                inside.segments[0].1 = 0;
            }
            inside
        });
        Self { kind, tokens_per_row, row_bytes, lift, layers, inside }
    }
}

impl World {
    /// A world of up to `size` groups, layers and rows.
    pub fn random(rng: &mut Rng, size: u32) -> Self {
        let count = 1 + rng.small(size.min(4));
        let (blocks, pages) = (8 + rng.small(40), 8 + rng.small(40));
        let drafts: Vec<Draft> = (0..count).map(|_| Draft::random(rng, size)).collect();
        let mut builder = GeometryBuilder::new();
        let mut add = |rng: &mut Rng, name: &str, memory, start: u64, blocks: u32, on: &[(u32, Inside)]| {
            let (per_extent, regions, sides) = sides(rng, start, blocks, on);
            let spec = PoolSpec::new(name, memory, blocks, &regions).extents_of(per_extent);
            (builder.pool(spec).unwrap(), sides)
        };
        let main =
            |side: usize| -> Vec<_> { drafts.iter().map(|d| (d.layers, d.inside[side].clone())).collect() };
        let (host, hosts) = add(rng, "host", Memory::Host, HOST_START, blocks, &main(0));
        let (device, devices) = add(rng, "device", Memory::Device, DEVICE_START, pages, &main(1));
        let more: Vec<[(PoolId, SideModel); 2]> = (1..)
            .zip(&drafts)
            .map(|(i, draft)| {
                [(2, Memory::Host, HOST_START), (3, Memory::Device, DEVICE_START)].map(
                    |(side, memory, start)| {
                        let on = [(draft.layers, draft.inside[side].clone())];
                        let name = format!("{} {i}", memory.name());
                        let few = 1 + rng.small(12);
                        let (pool, mut sides) = add(rng, &name, memory, start + i * FAR, few, &on);
                        (pool, sides.remove(0))
                    },
                )
            })
            .collect();
        let geometry = Arc::new(GeometryBuilder::new().build().unwrap());
        let (groups, down, across) = (Vec::new(), Vec::new(), Vec::new());
        let digested = Vec::new();
        let mut world = Self { geometry, groups, blocks, pages, down, up: Vec::new(), across, digested };
        for (((draft, main_host), main_device), more) in drafts.iter().zip(hosts).zip(devices).zip(more) {
            let sides = [(host, main_host), (device, main_device), more[0].clone(), more[1].clone()];
            world.add(&mut builder, draft, sides);
        }
        world.geometry = Arc::new(builder.build().unwrap());
        world
    }

    fn add(&mut self, builder: &mut GeometryBuilder, draft: &Draft, sides: [(PoolId, SideModel); 4]) {
        let name = format!("group{}", self.groups.len());
        let &Draft { kind, tokens_per_row, ref row_bytes, lift, layers, .. } = draft;
        let key = match kind {
            GroupKind::Paged => {
                let lift = match lift {
                    Lift::All => PagedLift::All,
                    Lift::None => PagedLift::None,
                    _ => PagedLift::Tail,
                };
                let specs = sides.clone().map(|(pool, side)| {
                    spec(pool, &side, |side| paged_layout(tokens_per_row, row_bytes, &side.inside))
                });
                let key = self.add_kind::<Paged>(
                    builder,
                    group(&name, layers, lift, &specs),
                    &specs,
                    &sides,
                    (AnyRoute::Paged, AnyRoute::Paged, AnyRoute::Paged),
                    AnyDigest::Paged,
                );
                Key::Paged(key)
            }
            GroupKind::Ring => {
                let specs = sides
                    .clone()
                    .map(|(pool, side)| spec(pool, &side, |side| ring_layout(row_bytes[0], &side.inside)));
                let key = self.add_kind::<Ring>(
                    builder,
                    group(&name, layers, whole(lift), &specs),
                    &specs,
                    &sides,
                    (AnyRoute::Ring, AnyRoute::Ring, AnyRoute::Ring),
                    AnyDigest::Ring,
                );
                Key::Ring(key)
            }
            GroupKind::State => {
                let specs = sides
                    .clone()
                    .map(|(pool, side)| spec(pool, &side, |side| state_layout(row_bytes, &side.inside)));
                let key = self.add_kind::<State>(
                    builder,
                    group(&name, layers, whole(lift), &specs),
                    &specs,
                    &sides,
                    (AnyRoute::State, AnyRoute::State, AnyRoute::State),
                    AnyDigest::State,
                );
                Key::State(key)
            }
        };
        let row_bytes = row_bytes.clone();
        let [host, device, ..] = sides.map(|(_, side)| side);
        self.groups.push(GroupModel { key, layers, tokens_per_row, row_bytes, lift, host, device });
    }

    /// A group with routes between all its sides, and digests of each.
    fn add_kind<K: Kind>(
        &mut self,
        builder: &mut GeometryBuilder,
        group: GroupSpec<K>,
        specs: &[SideSpec<K::Layout>; 4],
        models: &[(PoolId, SideModel); 4],
        wrap: Wraps<K>,
        digest: fn(DigestKey<K>) -> AnyDigest,
    ) -> GroupKey<K> {
        let key = builder.group(group).unwrap();
        let sides = [
            builder.main_side(key, Memory::Host).unwrap(),
            builder.main_side(key, Memory::Device).unwrap(),
            builder.side(key, &specs[2]).unwrap(),
            builder.side(key, &specs[3]).unwrap(),
        ];
        let group = self.groups.len();
        for (i, from) in sides.into_iter().enumerate() {
            let memory = if i % 2 == 0 { Memory::Host } else { Memory::Device };
            let key = digest(builder.digest(from).unwrap());
            self.digested.push(Digested { group, side: models[i].1.clone(), memory, key });
            for (j, to) in sides.into_iter().enumerate() {
                let ends = || (models[i].1.clone(), models[j].1.clone());
                let pools = [models[i].0.get(), models[j].0.get()];
                match (i % 2, j % 2) {
                    (0, 1) => {
                        let (key, (from, to)) = (wrap.0(builder.route(from, to).unwrap()), ends());
                        self.down.push(Way { group, from, to, pools, key });
                    }
                    (1, 0) => {
                        let (key, (from, to)) = (wrap.1(builder.route(from, to).unwrap()), ends());
                        self.up.push(Way { group, from, to, pools, key });
                    }
                    (1, 1) => {
                        let (key, (from, to)) = (wrap.2(builder.route(from, to).unwrap()), ends());
                        self.across.push(Way { group, from, to, pools, key });
                    }
                    _ => assert!(builder.route::<HostToDevice, K>(from, to).is_err()),
                }
            }
        }
        key
    }
}

const HOST_START: u64 = 0x1000;
const DEVICE_START: u64 = 0x7F00_0000_0000;
/// Farther than any pool reaches.
const FAR: u64 = 1 << 38;

fn whole(lift: Lift) -> StateLift {
    if lift == Lift::None { StateLift::None } else { StateLift::State }
}

fn group<K: Kind>(name: &str, layers: u32, lift: K::Lift, sides: &[SideSpec<K::Layout>; 4]) -> GroupSpec<K>
where
    K::Layout: Clone,
{
    GroupSpec {
        name: name.into(),
        layers,
        landing: Landing::Host,
        lift,
        host: Some(sides[0].clone()),
        device: Some(sides[1].clone()),
    }
}

fn spec<L>(pool: PoolId, side: &SideModel, layout: impl Fn(&SideModel) -> L) -> SideSpec<L> {
    let bases = side.bases.concat().concat();
    SideSpec { pool, bases, block_stride: side.block_stride, layout: layout(side) }
}

fn paged_layout(tokens_per_row: u32, row_bytes: &[u32], inside: &Inside) -> PagedLayout {
    let builder = PagedLayout::builder(inside.rows * tokens_per_row)
        .tokens_per_row(tokens_per_row)
        .page_bytes(inside.region_bytes);
    let segments = row_bytes.iter().zip(&inside.segments).enumerate();
    segments
        .map(|(i, (&bytes, &(region, offset, stride)))| {
            Segment::new(&format!("s{i}"), offset, bytes, stride).unwrap().in_region(region)
        })
        .fold(builder, |builder, segment| builder.segment_at(segment))
        .build()
        .unwrap()
}

fn ring_layout(slot_bytes: u32, inside: &Inside) -> RingLayout {
    let padding = inside.segments[0].2 - slot_bytes;
    RingLayout::builder(inside.rows, slot_bytes)
        .slot_padding(padding)
        .page_bytes(inside.region_bytes)
        .build()
        .unwrap()
}

fn state_layout(bytes: &[u32], inside: &Inside) -> StateLayout {
    let names: Vec<String> = (0..bytes.len()).map(|i| format!("s{i}")).collect();
    let parts = names.iter().zip(&inside.segments).zip(bytes);
    let parts: Vec<(&str, u64, u32)> =
        parts.map(|((name, &(_, offset, _)), &bytes)| (name.as_str(), offset, bytes)).collect();
    StateLayout::at(&parts, Some(inside.region_bytes)).unwrap()
}
