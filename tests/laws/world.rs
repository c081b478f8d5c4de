//! Pools and groups in real memory, with their addresses written down on the way, so that a reference needs nothing
//! of the planner.

use std::sync::Arc;

use pagelift::backends::{Backend, Buffer};
use pagelift::error::PlanError;
use pagelift::geometry::*;
use pagelift::id::{HostBlockId, PageId, PoolId};
use pagelift::import::ImportGroup;
use pagelift::layout::{PagedLayout, RingLayout, Segment, StateLayout};
use pagelift::memory::{RegionId, Registry};
use pagelift::plan::{DigestNumber, DigestPlan};

use crate::image::Image;
use crate::rng::Rng;

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

/// The keys by which digests read a group's two sides, host first.
#[derive(Clone, Copy)]
pub enum Digests {
    Paged([DigestKey<Paged>; 2]),
    Ring([DigestKey<Ring>; 2]),
    State([DigestKey<State>; 2]),
}

impl Digests {
    pub fn host(self, plan: &mut DigestPlan, blocks: &[u32], rows: u64) -> Result<DigestNumber, PlanError> {
        let blocks: Vec<HostBlockId> = blocks.iter().map(|&block| HostBlockId::new(block)).collect();
        match self {
            Self::Paged([key, _]) => plan.host(key, &blocks, rows),
            Self::Ring([key, _]) => plan.host(key, &blocks, rows),
            Self::State([key, _]) => plan.host(key, &blocks, rows),
        }
    }

    pub fn device(self, plan: &mut DigestPlan, pages: &[u32], rows: u64) -> Result<DigestNumber, PlanError> {
        let pages: Vec<PageId> = pages.iter().map(|&page| PageId::new(page)).collect();
        match self {
            Self::Paged([_, key]) => plan.device(key, &pages, rows),
            Self::Ring([_, key]) => plan.device(key, &pages, rows),
            Self::State([_, key]) => plan.device(key, &pages, rows),
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

/// One side: where each block of each layer begins.
#[derive(Clone, Debug)]
pub struct SideModel {
    pub pool: PoolId,
    pub blocks: u32,
    blocks_per_extent: u32,
    /// By layer, then extent.
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
    pub digests: Digests,
    pub layers: u32,
    pub rows: u32,
    pub tokens_per_row: u32,
    pub row_bytes: Vec<u32>,
    pub lift: Lift,
    pub host: SideModel,
    pub device: SideModel,
}

impl GroupModel {
    pub fn slots(&self) -> u32 {
        self.rows * self.tokens_per_row
    }

    pub fn paged(&self) -> GroupKey<Paged> {
        let Key::Paged(key) = self.key else { panic!("a paged group") };
        key
    }

    /// One row of all layers and segments, to the page or (`up`) to the host block; returns its bytes.
    pub fn copy_row(&self, image: &mut Image, up: bool, block: u32, page: u32, row: u32) -> u64 {
        for layer in 0..self.layers {
            for (segment, &bytes) in self.row_bytes.iter().enumerate() {
                let host = self.host.row(layer, block, segment, row);
                let device = self.device.row(layer, page, segment, row);
                let (from, to) = if up { (device, host) } else { (host, device) };
                image.copy(Some(from), to, bytes);
            }
        }
        let row: u64 = self.row_bytes.iter().map(|&bytes| u64::from(bytes)).sum();
        row * u64::from(self.layers)
    }

    /// One row of a host block as it was before.
    pub fn restore_row(&self, image: &mut Image, before: &mut Image, block: u32, row: u32) {
        for layer in 0..self.layers {
            for (segment, &bytes) in self.row_bytes.iter().enumerate() {
                image.restore(before, self.host.row(layer, block, segment, row), bytes);
            }
        }
    }

    /// Zeros in one row of a page, all layers and segments.
    pub fn zero_row(&self, image: &mut Image, page: u32, row: u32) {
        for layer in 0..self.layers {
            for (segment, &bytes) in self.row_bytes.iter().enumerate() {
                image.copy(None, self.device.row(layer, page, segment, row), bytes);
            }
        }
    }
}

/// An engine's own memory, which a registry has adopted.
pub struct Own(*mut [u8]);

// SAFETY: it owns its bytes, as a box does.
unsafe impl Send for Own {}

impl Own {
    fn new(bytes: u64) -> Self {
        Self(Box::into_raw(vec![0; bytes as usize].into_boxed_slice()))
    }

    /// Lends it to a registry.
    fn buffer(&self) -> Buffer {
        // SAFETY: (1) worlds drop their registry before what it adopted, and (2) nobody reads it before.
        unsafe { Buffer::adopt(self.0.cast(), self.0.len()) }.unwrap()
    }

    /// Its address and bytes, when no registry has it any more.
    pub fn read(&self, _gone: &Gone) -> (u64, Vec<u8>) {
        // SAFETY: it is ours again.
        (self.0.addr() as u64, unsafe { &*self.0 }.to_vec())
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // SAFETY: it came from a box, and goes once.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

/// Says that the registry of a world was dropped.
pub struct Gone(());

/// Memory, a geometry in it, and the model of its groups.
pub struct World {
    pub memory: Registry,
    /// What of it is adopted: dropped after the registry.
    pub own: Vec<Own>,
    pub regions: Vec<RegionId>,
    pub geometry: Arc<Geometry>,
    pub groups: Vec<GroupModel>,
}

/// A group before it has a place.
struct Draft {
    kind: GroupKind,
    layers: u32,
    rows: u32,
    tokens_per_row: u32,
    row_bytes: Vec<u32>,
    lift: Lift,
    host: Inside,
    device: Inside,
}

const ROW_BYTES: [u32; 17] = [1, 2, 3, 4, 6, 8, 12, 16, 48, 132, 280, 576, 584, 656, 1152, 5000, 20_001];
/// Those that allow the widest accesses.
const WIDE_ROW_BYTES: [u32; 7] = [16, 48, 576, 656, 1152, 5008, 20_000];

/// What numbers of a world are multiples of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Odd,
    Wide,
}

impl Style {
    fn row_bytes(self) -> &'static [u32] {
        if self == Self::Wide { &WIDE_ROW_BYTES } else { &ROW_BYTES }
    }

    fn alignment(self, rng: &mut Rng) -> u64 {
        if self == Self::Wide { rng.pick(&[16, 256]) } else { rng.pick(&[1, 4, 16, 256]) }
    }

    /// One of these numbers, the first where it has to be wide.
    fn pick<T: Copy>(self, rng: &mut Rng, wide: T, odd: &[T]) -> T {
        let odd = rng.pick(odd);
        if self == Self::Wide { wide } else { odd }
    }
}

fn up(number: u64, multiple: u64) -> u64 {
    number.div_ceil(multiple) * multiple
}

/// Places segments in random order, rows and segments with random gaps.
fn inside(rng: &mut Rng, style: Style, kind: GroupKind, rows: u32, row_bytes: &[u32]) -> Inside {
    let align = style.alignment(rng);
    let mut segments = vec![(0, 0); row_bytes.len()];
    let mut end = 0;
    for segment in rng.order(row_bytes.len() as u32) {
        let bytes = row_bytes[segment as usize];
        let padding = style.pick(rng, 16, &[1, 8, 16]);
        let stride = bytes + rng.pick(&[0, padding]);
        // A ring's slots begin at its page's first byte.
        let gap = if kind == GroupKind::Ring { 0 } else { style.pick(rng, 64, &[0, 0, 5, 64]) };
        let offset = up(end + gap, align);
        segments[segment as usize] = (offset, stride);
        end = offset + u64::from(rows - 1) * u64::from(stride) + u64::from(bytes);
    }
    Inside { segments, page_bytes: up(end + rng.pick(&[0, 0, 7, 128]), align) }
}

impl Draft {
    fn random(rng: &mut Rng, style: Style, size: u32) -> Self {
        let kind = rng.pick(&[GroupKind::Paged, GroupKind::Paged, GroupKind::Ring, GroupKind::State]);
        // Some pages are larger than a unit, and some rows.
        let large = rng.once_in(if style == Style::Wide { 3 } else { 8 });
        let rows = match kind {
            GroupKind::State => 1,
            _ if large => 1 + rng.small(3),
            _ => 1 + rng.small(size * 3),
        };
        let tokens_per_row = if kind == GroupKind::Paged { rng.pick(&[1, 1, 4, 3]) } else { 1 };
        let budget = if large { 41_000 } else { 2048 } / rows;
        let row_bytes = |rng: &mut Rng| loop {
            let bytes = rng.pick(style.row_bytes());
            if bytes <= budget {
                break bytes;
            }
        };
        let segments = if kind == GroupKind::Ring { 1 } else { 1 + rng.small(3) };
        let row_bytes: Vec<u32> = (0..segments).map(|_| row_bytes(rng)).collect();
        let lift = match kind {
            GroupKind::Paged => rng.pick(&[Lift::Tail, Lift::Tail, Lift::All, Lift::All, Lift::None]),
            _ => rng.pick(&[Lift::State, Lift::State, Lift::None]),
        };
        let layers = if large { 1 } else { 1 + rng.small(size.min(4)) };
        let mut one = || inside(rng, style, kind, rows, &row_bytes);
        let (host, device) = (one(), one());
        Self { kind, layers, rows, tokens_per_row, row_bytes, lift, host, device }
    }

    fn inside(&self, memory: Memory) -> &Inside {
        match memory {
            Memory::Host => &self.host,
            Memory::Device => &self.device,
        }
    }
}

/// What worlds are made with.
struct Maker<'a, B> {
    rng: &'a mut Rng,
    style: Style,
    backend: &'a B,
    memory: Registry,
    /// Whether pools lie in memory of the test's own.
    adopts: bool,
    own: Vec<Own>,
    regions: Vec<RegionId>,
    builder: GeometryBuilder,
}

impl<B: Backend> Maker<'_, B> {
    /// Ranges of these sizes, apart from each other: each an allocation of its own, or all in one in random order.
    fn ranges(&mut self, memory: Memory, sizes: &[u64]) -> Vec<Region> {
        let odd = self.style.pick(self.rng, 16, &[0, 0, 1, 4, 8, 16]);
        let mut allocate = |bytes: u64| {
            let id = if self.adopts {
                self.own.push(Own::new(bytes));
                self.memory.adopt(memory, self.own.last().unwrap().buffer()).unwrap()
            } else {
                self.memory.allocate(self.backend, memory, bytes).unwrap()
            };
            self.regions.push(id);
            self.memory.region(id).unwrap().address()
        };
        if self.rng.once_in(2) {
            let range = |&bytes: &u64| Region::new(allocate(odd + bytes + 24) + odd, bytes);
            return sizes.iter().map(range).collect();
        }
        let room: u64 = sizes.iter().map(|bytes| bytes + 300).sum();
        let mut at = allocate(odd + room) + odd;
        let mut ranges = vec![Region::new(0, 0); sizes.len()];
        for index in self.rng.order(sizes.len() as u32) {
            let bytes = sizes[index as usize];
            ranges[index as usize] = Region::new(at, bytes);
            at = up(at - odd + bytes + self.rng.pick(&[0, 1, 40]), self.style.alignment(self.rng)) + odd;
        }
        ranges
    }

    /// A pool that all of `drafts` alias: each packs its layers into a block, in random order, and pads it to the
    /// largest group's size; or each layer of each group has memory of its own.
    fn pool(&mut self, memory: Memory, drafts: &[&Draft]) -> Vec<SideModel> {
        let blocks = 3 + self.rng.small(14);
        let blocks_per_extent = 1 + self.rng.small(blocks);
        let extents = blocks.div_ceil(blocks_per_extent) as usize;
        let align = self.style.alignment(self.rng);
        let page = |draft: &Draft| up(draft.inside(memory).page_bytes, align);
        let packed = self.rng.once_in(2);
        let padding = self.style.pick(self.rng, 16, &[0, 0, 16, 33]);
        let slab = drafts.iter().map(|draft| page(draft) * u64::from(draft.layers)).max().unwrap() + padding;
        let stride = |draft: &Draft| if packed { slab } else { page(draft) + padding };
        let extent = |stride: u64| u64::from(blocks_per_extent) * stride;
        let sizes: Vec<u64> = if packed {
            vec![extent(slab); extents]
        } else {
            let layers = |draft: &&Draft| vec![extent(stride(draft)); draft.layers as usize * extents];
            drafts.iter().flat_map(layers).collect()
        };
        let ranges = self.ranges(memory, &sizes);
        let name = format!("{} pool {}", memory.name(), self.rng.next());
        let spec = PoolSpec::new(&name, memory, blocks, &ranges).extents_of(blocks_per_extent);
        let pool = self.builder.pool(spec).unwrap();

        let mut own = ranges.iter().map(|range| range.address());
        let mut sides = Vec::new();
        for draft in drafts {
            let layer = |place: u32| -> Vec<u64> {
                if packed {
                    let offset = u64::from(place) * page(draft);
                    ranges.iter().map(|range| range.address() + offset).collect()
                } else {
                    own.by_ref().take(extents).collect()
                }
            };
            let bases: Vec<Vec<u64>> = self.rng.order(draft.layers).into_iter().map(layer).collect();
            let (block_stride, inside) = (stride(draft), draft.inside(memory).clone());
            sides.push(SideModel { pool, blocks, blocks_per_extent, bases, block_stride, inside });
        }
        sides
    }

    /// One side of all groups: in one pool, or in a pool for each.
    fn sides(&mut self, memory: Memory, drafts: &[Draft]) -> Vec<SideModel> {
        let all: Vec<&Draft> = drafts.iter().collect();
        if self.rng.once_in(2) {
            return self.pool(memory, &all);
        }
        all.into_iter().flat_map(|draft| self.pool(memory, &[draft])).collect()
    }

    fn group(&mut self, index: usize, draft: &Draft, host: &SideModel, device: &SideModel) -> Key {
        let whole = if draft.lift == Lift::None { StateLift::None } else { StateLift::State };
        let rest = (format!("group{index}"), draft.layers, host, device);
        match draft.kind {
            GroupKind::Paged => {
                let lift = match draft.lift {
                    Lift::All => PagedLift::All,
                    Lift::None => PagedLift::None,
                    _ => PagedLift::Tail,
                };
                Key::Paged(self.builder.group(spec(rest, lift, |inside| paged(draft, inside))).unwrap())
            }
            GroupKind::Ring => {
                Key::Ring(self.builder.group(spec(rest, whole, |inside| ring(draft, inside))).unwrap())
            }
            GroupKind::State => {
                Key::State(self.builder.group(spec(rest, whole, |inside| state(draft, inside))).unwrap())
            }
        }
    }

    fn finish(mut self, drafts: Vec<Draft>) -> World {
        let (hosts, devices) = (self.sides(Memory::Host, &drafts), self.sides(Memory::Device, &drafts));
        let mut groups = Vec::new();
        for ((index, draft), (host, device)) in
            drafts.into_iter().enumerate().zip(hosts.into_iter().zip(devices))
        {
            let key = self.group(index, &draft, &host, &device);
            let Draft { layers, rows, tokens_per_row, row_bytes, lift, .. } = draft;
            let digests = match key {
                Key::Paged(key) => Digests::Paged(digests(&mut self.builder, key)),
                Key::Ring(key) => Digests::Ring(digests(&mut self.builder, key)),
                Key::State(key) => Digests::State(digests(&mut self.builder, key)),
            };
            groups.push(GroupModel {
                key,
                digests,
                layers,
                rows,
                tokens_per_row,
                row_bytes,
                lift,
                host,
                device,
            });
        }
        let geometry = Arc::new(self.builder.build().unwrap());
        let mut world = World { memory: self.memory, own: self.own, regions: self.regions, geometry, groups };
        world.fill(self.rng);
        world
    }
}

/// Lets digests read both sides of a group.
fn digests<K: Kind>(builder: &mut GeometryBuilder, key: GroupKey<K>) -> [DigestKey<K>; 2] {
    [Memory::Host, Memory::Device].map(|memory| {
        let side = builder.main_side(key, memory).unwrap();
        builder.digest(side).unwrap()
    })
}

/// A group that lands on the host.
fn spec<K: Kind>(
    (name, layers, host, device): (String, u32, &SideModel, &SideModel),
    lift: K::Lift,
    layout: impl Fn(&Inside) -> K::Layout,
) -> GroupSpec<K> {
    let side = |side: &SideModel| SideSpec {
        pool: side.pool,
        bases: side.bases.concat(),
        block_stride: side.block_stride,
        layout: layout(&side.inside),
    };
    let (host, device) = (Some(side(host)), Some(side(device)));
    GroupSpec { name: name.into(), layers, landing: Landing::Host, lift, host, device }
}

fn paged(draft: &Draft, inside: &Inside) -> PagedLayout {
    let builder = PagedLayout::builder(draft.rows * draft.tokens_per_row)
        .tokens_per_row(draft.tokens_per_row)
        .page_bytes(inside.page_bytes);
    let segments = draft.row_bytes.iter().zip(&inside.segments).enumerate();
    segments
        .map(|(i, (&bytes, &(offset, stride)))| {
            Segment::new(&format!("s{i}"), offset, bytes, stride).unwrap()
        })
        .fold(builder, |builder, segment| builder.segment_at(segment))
        .build()
        .unwrap()
}

fn ring(draft: &Draft, inside: &Inside) -> RingLayout {
    let bytes = draft.row_bytes[0];
    RingLayout::builder(draft.rows, bytes)
        .slot_padding(inside.segments[0].1 - bytes)
        .page_bytes(inside.page_bytes)
        .build()
        .unwrap()
}

fn state(draft: &Draft, inside: &Inside) -> StateLayout {
    let names: Vec<String> = (0..draft.row_bytes.len()).map(|i| format!("s{i}")).collect();
    let parts = names.iter().zip(&inside.segments).zip(&draft.row_bytes);
    let parts: Vec<(&str, u64, u32)> =
        parts.map(|((name, &(offset, _)), &bytes)| (name.as_str(), offset, bytes)).collect();
    StateLayout::at(&parts, Some(inside.page_bytes)).unwrap()
}

impl World {
    /// A random world of one to three groups, all its memory random.
    pub fn random(rng: &mut Rng, size: u32, backend: &impl Backend) -> Self {
        Self::random_in(rng, size, backend, false)
    }

    /// The same in memory of the test's own.
    pub fn adopted(rng: &mut Rng, size: u32, backend: &impl Backend) -> Self {
        Self::random_in(rng, size, backend, true)
    }

    fn random_in(rng: &mut Rng, size: u32, backend: &impl Backend, adopts: bool) -> Self {
        let count = 1 + rng.small(3);
        let style = rng.pick(&[Style::Odd, Style::Odd, Style::Wide]);
        let drafts = (0..count).map(|_| Draft::random(rng, style, size)).collect();
        Self::of(rng, style, backend, drafts, adopts)
    }

    /// Drops the registry: what it had adopted is the test's alone again.
    pub fn take_back(self) -> (Vec<Own>, Gone) {
        let Self { memory, own, .. } = self;
        drop(memory);
        (own, Gone(()))
    }

    /// Group 0 lifts its tail: two layers, four rows a page. Group 1 is a state that is checkpointed.
    pub fn small(backend: &impl Backend) -> Self {
        let rng = &mut Rng(7);
        let mut draft = |kind, layers, rows, row_bytes: &[u32], lift| {
            let mut one = || inside(rng, Style::Odd, kind, rows, row_bytes);
            let (host, device) = (one(), one());
            Draft { kind, layers, rows, tokens_per_row: 1, row_bytes: row_bytes.into(), lift, host, device }
        };
        let main = draft(GroupKind::Paged, 2, 4, &[16, 4], Lift::Tail);
        let state = draft(GroupKind::State, 1, 1, &[100], Lift::None);
        Self::of(&mut Rng(7), Style::Odd, backend, vec![main, state], false)
    }

    fn of(rng: &mut Rng, style: Style, backend: &impl Backend, drafts: Vec<Draft>, adopts: bool) -> Self {
        let (memory, builder) = (Registry::new(), GeometryBuilder::new());
        let (own, regions) = (Vec::new(), Vec::new());
        Maker { rng, style, backend, memory, adopts, own, regions, builder }.finish(drafts)
    }

    /// Random bytes everywhere: what is to be overwritten too.
    pub fn fill(&mut self, rng: &mut Rng) {
        for &id in &self.regions {
            let mut bytes = vec![0; self.memory.region(id).unwrap().bytes() as usize];
            rng.fill(&mut bytes);
            self.memory.write(id, 0, &bytes).unwrap();
        }
    }

    /// Changes the bytes at an address of the regions.
    pub fn edit<T>(&mut self, address: u64, bytes: usize, edit: impl FnOnce(&mut [u8]) -> T) -> T {
        let holds = |id: &&RegionId| {
            let region = self.memory.region(**id).unwrap();
            (region.address()..region.end().unwrap()).contains(&address)
        };
        let id = *self.regions.iter().find(holds).unwrap();
        let at = address - self.memory.region(id).unwrap().address();
        let mut row = vec![0; bytes];
        self.memory.read(id, at, &mut row).unwrap();
        let result = edit(&mut row);
        self.memory.write(id, at, &row).unwrap();
        result
    }

    /// Memory on the device beside the pools.
    pub fn scratch(&mut self, backend: &impl Backend, bytes: u64) -> RegionId {
        let id = self.memory.allocate(backend, Memory::Device, bytes).unwrap();
        self.regions.push(id);
        id
    }

    /// What all memory holds.
    pub fn image(&self) -> Image {
        Image::of(&self.memory, &self.regions)
    }

    /// Fails where any byte differs.
    pub fn assert_is(&self, expected: &Image) {
        assert_eq!(expected.difference(&self.memory, &self.regions), None);
    }

    /// The unused ids of each pool, in random order.
    pub fn free_ids(&self, rng: &mut Rng) -> Vec<Vec<u32>> {
        self.geometry.pools().iter().map(|pool| rng.order(pool.blocks())).collect()
    }
}
