//! Random geometries, with their addresses written down on the way, so that a model needs nothing of the planner.

use std::sync::Arc;

use pagelift_planner::geometry::*;
use pagelift_planner::id::{HostBlockId, PageId, PoolId};
use pagelift_planner::import::ImportGroup;
use pagelift_planner::layout::{PagedLayout, RingLayout, Segment, StateLayout};

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
    /// Offset and row stride of each segment.
    segments: Vec<(u64, u32)>,
    page_bytes: u64,
}

/// One side: where each block of each layer and extent begins.
#[derive(Clone, Debug)]
pub struct SideModel {
    blocks_per_extent: u32,
    bases: Vec<Vec<u64>>,
    block_stride: u64,
    inside: Inside,
}

impl SideModel {
    /// The address formula.
    pub fn row(&self, layer: u32, block: u32, segment: usize, row: u32) -> u64 {
        let base = self.bases[layer as usize][(block / self.blocks_per_extent) as usize];
        let (offset, stride) = self.inside.segments[segment];
        base + u64::from(block % self.blocks_per_extent) * self.block_stride
            + offset
            + u64::from(row) * u64::from(stride)
    }
}

/// A group and its model.
pub struct GroupModel {
    pub key: Key,
    pub layers: u32,
    pub rows: u32,
    pub tokens_per_row: u32,
    pub row_bytes: Vec<u32>,
    pub lift: Lift,
    pub host: SideModel,
    pub device: SideModel,
}

impl GroupModel {
    pub fn slots(&self) -> u64 {
        u64::from(self.rows) * u64::from(self.tokens_per_row)
    }
}

/// A geometry and the model of its groups, all of which share one host pool and one device pool.
pub struct World {
    pub geometry: Arc<Geometry>,
    pub groups: Vec<GroupModel>,
    pub blocks: u32,
    pub pages: u32,
}

const ROW_BYTES: [u32; 16] = [1, 2, 3, 4, 6, 8, 12, 16, 48, 132, 280, 576, 584, 656, 1152, 20_001];
const ALIGNMENTS: [u64; 4] = [1, 4, 16, 256];

fn up(number: u64, multiple: u64) -> u64 {
    number.div_ceil(multiple) * multiple
}

/// Places segments in random order, rows and segments with random gaps.
fn inside(rng: &mut Rng, rows: u32, row_bytes: &[u32]) -> Inside {
    let align = rng.pick(&ALIGNMENTS);
    let mut segments = vec![(0, 0); row_bytes.len()];
    let mut end = 0;
    for segment in rng.order(row_bytes.len() as u32) {
        let bytes = row_bytes[segment as usize];
        let stride = bytes + rng.pick(&[0, 0, 0, 1, 8, 16]);
        let offset = up(end + rng.pick(&[0, 0, 5, 64]), align);
        segments[segment as usize] = (offset, stride);
        end = offset + u64::from(rows - 1) * u64::from(stride) + u64::from(bytes);
    }
    Inside { segments, page_bytes: up(end + rng.pick(&[0, 0, 7, 128]), align) }
}

/// The pages of all groups in one pool: each group packs its layers into a block from its first byte on, and pads it to
/// the largest group's size; or each layer of each group has memory of its own.
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
    let largest =
        groups.iter().map(|(layers, inside)| up(inside.page_bytes, align) * u64::from(*layers)).max();
    let slab_stride = largest.unwrap_or(1) + rng.pick(&[0, 0, 16, 33]);
    let extent_bytes = |stride: u64| u64::from(blocks_per_extent) * stride;
    let mut sides: Vec<SideModel> = Vec::new();
    let slab: Vec<u64> = match packed {
        true => (0..extents).map(|_| region(rng, extent_bytes(slab_stride))).collect(),
        false => Vec::new(),
    };
    for (layers, inside) in groups {
        let page = up(inside.page_bytes, align);
        let order = rng.order(*layers);
        let stride = if packed { slab_stride } else { page + rng.pick(&[0, 0, 3]) };
        let bases = order.iter().map(|&place| {
            (0..extents as usize)
                .map(|extent| match packed {
                    true => slab[extent] + u64::from(place) * page,
                    false => region(rng, extent_bytes(stride)),
                })
                .collect()
        });
        let bases = bases.collect();
        sides.push(SideModel { blocks_per_extent, bases, block_stride: stride, inside: inside.clone() });
    }
    let order = rng.order(regions.len() as u32);
    (blocks_per_extent, order.iter().map(|&i| regions[i as usize]).collect(), sides)
}

impl World {
    /// A world of up to `size` groups, layers and rows.
    pub fn random(rng: &mut Rng, size: u32) -> Self {
        let count = 1 + rng.small(size.min(4));
        let (blocks, pages) = (8 + rng.small(40), 8 + rng.small(40));
        let mut drafts = Vec::new();
        for _ in 0..count {
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
            let one = |rng: &mut Rng| {
                let mut inside = inside(rng, rows, &row_bytes);
                if kind == GroupKind::Ring {
                    // A ring's slots begin at its page's first byte.
                    inside.page_bytes -= inside.segments[0].0;
                    inside.segments[0].0 = 0;
                }
                inside
            };
            let (host, device) = (one(rng), one(rng));
            drafts.push((kind, rows, tokens_per_row, row_bytes, lift, layers, host, device));
        }
        let on = |host: bool| -> Vec<(u32, Inside)> {
            drafts.iter().map(|d| (d.5, if host { d.6.clone() } else { d.7.clone() })).collect()
        };
        let mut builder = GeometryBuilder::new();
        let mut add = |rng: &mut Rng, memory: Memory, start: u64, blocks: u32| {
            let (per_extent, regions, sides) = sides(rng, start, blocks, &on(memory == Memory::Host));
            let spec = PoolSpec::new(memory.name(), memory, blocks, &regions).extents_of(per_extent);
            (builder.pool(spec).unwrap(), sides)
        };
        let (host_pool, hosts) = add(rng, Memory::Host, 0x1000, blocks);
        let (device_pool, devices) = add(rng, Memory::Device, 0x7FFF_0000_0000, pages);
        let mut groups = Vec::new();
        for ((index, draft), (host, device)) in drafts.iter().enumerate().zip(hosts.into_iter().zip(devices))
        {
            let &(kind, rows, tokens_per_row, ref row_bytes, lift, layers, ..) = draft;
            let name = format!("group{index}");
            let key = match kind {
                GroupKind::Paged => {
                    let layout =
                        |side: &SideModel| paged_layout(rows, tokens_per_row, row_bytes, &side.inside);
                    let lift = match lift {
                        Lift::All => PagedLift::All,
                        Lift::None => PagedLift::None,
                        _ => PagedLift::Tail,
                    };
                    let (host, device) = (spec(host_pool, &host, layout), spec(device_pool, &device, layout));
                    Key::Paged(builder.group(group(&name, layers, lift, host, device)).unwrap())
                }
                GroupKind::Ring => {
                    let layout = |side: &SideModel| ring_layout(rows, row_bytes[0], &side.inside);
                    let (host, device) = (spec(host_pool, &host, layout), spec(device_pool, &device, layout));
                    Key::Ring(builder.group(group(&name, layers, whole(lift), host, device)).unwrap())
                }
                GroupKind::State => {
                    let layout = |side: &SideModel| state_layout(row_bytes, &side.inside);
                    let (host, device) = (spec(host_pool, &host, layout), spec(device_pool, &device, layout));
                    Key::State(builder.group(group(&name, layers, whole(lift), host, device)).unwrap())
                }
            };
            let row_bytes = row_bytes.clone();
            groups.push(GroupModel { key, layers, rows, tokens_per_row, row_bytes, lift, host, device });
        }
        Self { geometry: Arc::new(builder.build().unwrap()), groups, blocks, pages }
    }
}

fn whole(lift: Lift) -> StateLift {
    if lift == Lift::None { StateLift::None } else { StateLift::State }
}

fn group<K: Kind>(
    name: &str,
    layers: u32,
    lift: K::Lift,
    host: SideSpec<K::Layout>,
    device: SideSpec<K::Layout>,
) -> GroupSpec<K> {
    GroupSpec {
        name: name.into(),
        layers,
        landing: Landing::Host,
        lift,
        host: Some(host),
        device: Some(device),
    }
}

fn spec<L>(pool: PoolId, side: &SideModel, layout: impl Fn(&SideModel) -> L) -> SideSpec<L> {
    SideSpec { pool, bases: side.bases.concat(), block_stride: side.block_stride, layout: layout(side) }
}

fn paged_layout(rows: u32, tokens_per_row: u32, row_bytes: &[u32], inside: &Inside) -> PagedLayout {
    let builder = PagedLayout::builder(rows * tokens_per_row)
        .tokens_per_row(tokens_per_row)
        .page_bytes(inside.page_bytes);
    let segments = row_bytes.iter().zip(&inside.segments).enumerate();
    segments
        .map(|(i, (&bytes, &(offset, stride)))| {
            Segment::new(&format!("s{i}"), offset, bytes, stride).unwrap()
        })
        .fold(builder, |builder, segment| builder.segment_at(segment))
        .build()
        .unwrap()
}

fn ring_layout(slots: u32, slot_bytes: u32, inside: &Inside) -> RingLayout {
    let padding = inside.segments[0].1 - slot_bytes;
    RingLayout::builder(slots, slot_bytes)
        .slot_padding(padding)
        .page_bytes(inside.page_bytes)
        .build()
        .unwrap()
}

fn state_layout(bytes: &[u32], inside: &Inside) -> StateLayout {
    let names: Vec<String> = (0..bytes.len()).map(|i| format!("s{i}")).collect();
    let parts = names.iter().zip(&inside.segments).zip(bytes);
    let parts: Vec<(&str, u64, u32)> =
        parts.map(|((name, &(offset, _)), &bytes)| (name.as_str(), offset, bytes)).collect();
    StateLayout::at(&parts, Some(inside.page_bytes)).unwrap()
}
