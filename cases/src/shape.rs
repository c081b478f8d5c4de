//! The shape of a world: groups, sides and pools, with places relative to memory that is yet to be had.

use std::ops::RangeInclusive;

use pagelift_planner::geometry::{GroupKind, Landing, Lift, Memory};

use crate::draw::Draw;

/// How large worlds are.
#[derive(Clone, Debug)]
pub struct Scale {
    /// The most groups.
    pub groups: u32,
    /// The most layers of a group.
    pub layers: u32,
    /// The most rows of a page, before its other side has a multiple of them.
    pub rows: u32,
    /// Blocks of the pools of main sides.
    pub blocks: RangeInclusive<u32>,
    /// Bytes that a page's rows have together, usually; and once in a while.
    pub page_bytes: [u32; 2],
}

impl Scale {
    /// A world that is only planned with: nothing is ever allocated, so that rows may be long.
    #[must_use]
    pub fn planned(size: u32) -> Self {
        Self {
            groups: size.min(4),
            layers: size.min(5),
            rows: size * 4,
            blocks: 8..=47,
            page_bytes: [u32::MAX; 2],
        }
    }

    /// A world in real memory: a megabyte or so.
    #[must_use]
    pub fn in_memory(size: u32) -> Self {
        Self {
            groups: size.min(3),
            layers: size.min(4),
            rows: size * 3,
            blocks: 3..=16,
            page_bytes: [1024, 41_000],
        }
    }
}

/// What numbers of a world are multiples of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// Of anything.
    Odd,
    /// Of 16, so that accesses are the widest.
    Wide,
}

const ROW_BYTES: [u32; 17] = [1, 2, 3, 4, 6, 8, 12, 16, 48, 132, 280, 576, 584, 656, 1152, 5000, 20_001];
const WIDE_ROW_BYTES: [u32; 7] = [16, 48, 576, 656, 1152, 5008, 20_000];

impl Style {
    /// Bytes of a row, not more than `most` where that can be.
    fn row_bytes(self, draw: &mut Draw, most: u32) -> u32 {
        let all: &[u32] = if self == Self::Wide { &WIDE_ROW_BYTES } else { &ROW_BYTES };
        let fitting = all.partition_point(|&bytes| bytes <= most).max(1);
        draw.pick(&all[..fitting])
    }

    fn alignment(self, draw: &mut Draw) -> u64 {
        if self == Self::Wide { draw.pick(&[16, 256]) } else { draw.pick(&[1, 4, 16, 256]) }
    }

    /// One of these numbers; one that is wide, where all have to be.
    fn pick<T: Copy>(self, draw: &mut Draw, wide: &[T], odd: &[T]) -> T {
        draw.pick(if self == Self::Wide { wide } else { odd })
    }
}

fn up(number: u64, multiple: u64) -> u64 {
    number.div_ceil(multiple) * multiple
}

/// What a page looks like on one side.
#[derive(Clone, Debug)]
pub(crate) struct Inside {
    pub rows: u32,
    /// Region, offset and row stride of each segment.
    pub segments: Vec<(u32, u64, u32)>,
    pub regions: u32,
    /// Bytes of each region.
    pub region_bytes: u64,
}

impl Inside {
    /// Places segments in one or more regions: one after the other in random order, rows and segments with random gaps;
    /// or side by side in each row, in their order, so that some of them are one run to a kernel.
    fn draw(draw: &mut Draw, style: Style, kind: GroupKind, rows: u32, row_bytes: &[u32]) -> Self {
        let align = style.alignment(draw);
        let count = row_bytes.len() as u32;
        let most_regions = if kind == GroupKind::Paged { 3 } else { 1 };
        let regions = 1 + draw.small(count.min(most_regions));
        let mut region_of: Vec<u32> =
            (0..count).map(|s| if s < regions { s } else { draw.small(regions) }).collect();
        if draw.once_in(2) {
            region_of.sort_unstable();
        }
        let bytes_of = |segment: u32| row_bytes[segment as usize];
        // A ring's slots begin at its page's first byte.
        let gaps: &[u64] = if kind == GroupKind::Ring { &[0] } else { &[0, 0, 5, 64] };
        let wide_gaps: &[u64] = if kind == GroupKind::Ring { &[0] } else { &[0, 64] };
        let mut segments = vec![(0, 0, 0); row_bytes.len()];
        let mut region_bytes = 0;
        for region in 0..regions {
            let own = draw.order(count);
            let mut own: Vec<u32> = own.into_iter().filter(|&s| region_of[s as usize] == region).collect();
            let mut end = 0;
            if draw.once_in(2) {
                own.sort_unstable();
                let padding = style.pick(draw, &[0, 16], &[0, 0, 0, 8]);
                let stride = own.iter().map(|&s| bytes_of(s)).sum::<u32>() + padding;
                let mut offset = up(style.pick(draw, wide_gaps, gaps), align);
                for segment in own {
                    segments[segment as usize] = (region, offset, stride);
                    offset += u64::from(bytes_of(segment));
                }
                end = offset + u64::from(rows - 1) * u64::from(stride);
            } else {
                for segment in own {
                    let bytes = bytes_of(segment);
                    let stride = bytes + style.pick(draw, &[0, 0, 16], &[0, 0, 0, 1, 8, 16]);
                    let offset = up(end + style.pick(draw, wide_gaps, gaps), align);
                    segments[segment as usize] = (region, offset, stride);
                    end = offset + u64::from(rows - 1) * u64::from(stride) + u64::from(bytes);
                }
            }
            region_bytes = region_bytes.max(up(end + style.pick(draw, &[0, 128], &[0, 0, 7, 128]), align));
        }
        Self { rows, segments, regions, region_bytes }
    }
}

/// A group that is yet to be placed.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub kind: GroupKind,
    pub layers: u32,
    pub tokens_per_row: u32,
    pub row_bytes: Vec<u32>,
    pub landing: Landing,
    pub lift: Lift,
    /// Its main sides on host and device, one more on each, and, where it has rows, a compact buffer on each.
    inside: Vec<Inside>,
}

/// Which memory the sides of a draft lie in, by their numbers.
pub(crate) const SIDES: [Memory; 6] =
    [Memory::Host, Memory::Device, Memory::Host, Memory::Device, Memory::Host, Memory::Device];
/// Sides whose pool has many blocks.
pub(crate) const BLOCK_SIDES: usize = 4;

impl Draft {
    fn draw(draw: &mut Draw, style: Style, scale: &Scale) -> Self {
        let kind = draw.pick(&[GroupKind::Paged, GroupKind::Paged, GroupKind::Ring, GroupKind::State]);
        // Some pages are larger than a unit, and some rows.
        let large = draw.once_in(if style == Style::Wide { 3 } else { 8 });
        let few = scale.page_bytes[0] != u32::MAX && large;
        let rows = match kind {
            GroupKind::State => 1,
            _ if few => 1 + draw.small(3),
            _ => 1 + draw.small(scale.rows),
        };
        let tokens_per_row = if kind == GroupKind::Paged { draw.pick(&[1, 1, 4, 3]) } else { 1 };
        let segments = if kind == GroupKind::Ring { 1 } else { 1 + draw.small(4) };
        let most = scale.page_bytes[usize::from(large)] / rows;
        let row_bytes: Vec<u32> = (0..segments).map(|_| style.row_bytes(draw, most)).collect();
        let lift = match kind {
            GroupKind::Paged => draw.pick(&[Lift::Tail, Lift::Tail, Lift::All, Lift::All, Lift::None]),
            _ => draw.pick(&[Lift::State, Lift::State, Lift::None]),
        };
        let on_device = lift == Lift::None && draw.once_in(2);
        let landing = if on_device { Landing::Device } else { Landing::Host };
        let layers = if few { 1 } else { 1 + draw.small(scale.layers) };
        let buffers = if kind == GroupKind::State { 0 } else { 2 };
        let inside = (0..BLOCK_SIDES + buffers).map(|side| {
            let rows = match kind {
                _ if side >= BLOCK_SIDES => 1 + draw.small(rows * 2),
                // Rows of a page and of a block may differ by a power of two.
                GroupKind::Paged => rows * draw.pick(&[1, 1, 1, 2, 4]),
                GroupKind::Ring | GroupKind::State => rows,
            };
            Inside::draw(draw, style, kind, rows, &row_bytes)
        });
        let inside = inside.collect();
        Self { kind, layers, tokens_per_row, row_bytes, landing, lift, inside }
    }

    /// One with so many layers and rows on every side, each of one token, that lands on the host.
    fn known(
        draw: &mut Draw,
        kind: GroupKind,
        [layers, rows]: [u32; 2],
        row_bytes: &[u32],
        lift: Lift,
    ) -> Self {
        let sides = if kind == GroupKind::State { BLOCK_SIDES } else { SIDES.len() };
        let inside = (0..sides).map(|_| Inside::draw(draw, Style::Odd, kind, rows, row_bytes)).collect();
        let row_bytes = row_bytes.to_vec();
        Self { kind, layers, tokens_per_row: 1, row_bytes, landing: Landing::Host, lift, inside }
    }
}

/// One range of memory, allocated or registered at once.
#[derive(Clone, Copy, Debug)]
pub struct Arena {
    /// Which memory it has to be.
    pub memory: Memory,
    /// Its size.
    pub bytes: u64,
}

/// A part of an arena that one pool has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk {
    pub memory: Memory,
    pub arena: usize,
    pub offset: u64,
    pub bytes: u64,
}

/// A pool that is yet to be placed.
#[derive(Clone, Debug)]
pub(crate) struct PoolShape {
    pub memory: Memory,
    pub blocks: u32,
    pub blocks_per_extent: u32,
    /// Its chunks, in random order.
    pub chunks: Vec<usize>,
}

/// A side that is yet to be placed.
#[derive(Clone, Debug)]
pub(crate) struct SideShape {
    pub pool: usize,
    /// Chunk and offset by layer, region and extent.
    pub bases: Vec<Vec<Vec<(usize, u64)>>>,
    pub block_stride: u64,
    pub inside: Inside,
}

/// A world without addresses: [`Shape::build`] gives it some.
#[derive(Clone, Debug)]
pub struct Shape {
    arenas: Vec<Arena>,
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) pools: Vec<PoolShape>,
    pub(crate) drafts: Vec<Draft>,
    /// By group, then by number.
    pub(crate) sides: Vec<Vec<SideShape>>,
}

impl Shape {
    /// A random one.
    #[must_use]
    pub fn draw(draw: &mut Draw, scale: &Scale) -> Self {
        let style = draw.pick(&[Style::Odd, Style::Odd, Style::Wide]);
        let count = 1 + draw.small(scale.groups);
        let drafts = (0..count).map(|_| Draft::draw(draw, style, scale)).collect();
        Self::of(draw, style, scale.blocks.clone(), drafts)
    }

    /// One that worked cases know: group 0 lifts its tail, and has two layers, and four rows of one token a page. Group 1 is
    /// a state, of which nothing is lifted. Main sides have four blocks or more.
    #[must_use]
    pub fn small() -> Self {
        let draw = &mut Draw::seeded(7);
        let main = Draft::known(draw, GroupKind::Paged, [2, 4], &[16, 4], Lift::Tail);
        let state = Draft::known(draw, GroupKind::State, [1, 1], &[100], Lift::None);
        Self::of(draw, Style::Odd, 4..=8, vec![main, state])
    }

    /// Places groups in pools, and pools in memory; main sides have so many blocks.
    fn of(draw: &mut Draw, style: Style, blocks: RangeInclusive<u32>, drafts: Vec<Draft>) -> Self {
        let (least, most) = blocks.into_inner();
        let sides = vec![Vec::new(); drafts.len()];
        let mut shape = Self { arenas: Vec::new(), chunks: Vec::new(), pools: Vec::new(), drafts, sides };
        for side in 0..SIDES.len() {
            let members: Vec<usize> =
                (0..shape.drafts.len()).filter(|&group| shape.drafts[group].inside.len() > side).collect();
            let blocks = |draw: &mut Draw| match side {
                0 | 1 => least + draw.small(most - least + 1),
                _ if side < BLOCK_SIDES => 1 + draw.small(least + 4),
                _ => 1,
            };
            // Main sides of all groups may alias the blocks of one pool.
            if side < 2 && !draw.once_in(3) {
                let blocks = blocks(draw);
                shape.add_pool(draw, style, side, blocks, &members);
            } else {
                for group in members {
                    let blocks = blocks(draw);
                    shape.add_pool(draw, style, side, blocks, &[group]);
                }
            }
        }
        shape.place(draw, style);
        shape
    }

    /// The memory that it needs.
    #[must_use]
    pub fn arenas(&self) -> &[Arena] {
        &self.arenas
    }

    /// One side of some groups in one pool: each group packs its layers and regions into a block, from its first byte on,
    /// in random order, and pads it to the largest group's size; or each region of each layer of each group has memory of
    /// its own.
    fn add_pool(&mut self, draw: &mut Draw, style: Style, side: usize, blocks: u32, groups: &[usize]) {
        let memory = SIDES[side];
        let blocks_per_extent = 1 + draw.small(blocks);
        let extents = blocks.div_ceil(blocks_per_extent) as usize;
        let align = style.alignment(draw);
        let packed = draw.once_in(2);
        let first_chunk = self.chunks.len();
        let chunk = |chunks: &mut Vec<Chunk>, stride: u64| {
            let bytes = u64::from(blocks_per_extent) * stride;
            chunks.push(Chunk { memory, arena: 0, offset: 0, bytes });
            chunks.len() - 1
        };
        let member = |group: usize| {
            let Draft { layers, inside, .. } = &self.drafts[group];
            (layers * inside[side].regions, up(inside[side].region_bytes, align))
        };
        let largest = groups.iter().map(|&group| member(group)).map(|(runs, page)| u64::from(runs) * page);
        let slab_stride = largest.max().unwrap_or(1) + style.pick(draw, &[0, 16], &[0, 0, 16, 33]);
        let slab: Vec<usize> = match packed {
            true => (0..extents).map(|_| chunk(&mut self.chunks, slab_stride)).collect(),
            false => Vec::new(),
        };
        for &group in groups {
            let (runs, page) = member(group);
            let block_stride =
                if packed { slab_stride } else { page + style.pick(draw, &[0, 16], &[0, 0, 3]) };
            let inside = self.drafts[group].inside[side].clone();
            let bases: Vec<Vec<(usize, u64)>> = draw
                .order(runs)
                .into_iter()
                .map(|place| match packed {
                    true => slab.iter().map(|&chunk| (chunk, u64::from(place) * page)).collect(),
                    false => (0..extents).map(|_| (chunk(&mut self.chunks, block_stride), 0)).collect(),
                })
                .collect();
            let bases = bases.chunks(inside.regions as usize).map(<[_]>::to_vec).collect();
            let pool = self.pools.len();
            self.sides[group].push(SideShape { pool, bases, block_stride, inside });
        }
        let order = draw.order((self.chunks.len() - first_chunk) as u32);
        let chunks = order.into_iter().map(|index| first_chunk + index as usize).collect();
        self.pools.push(PoolShape { memory, blocks, blocks_per_extent, chunks });
    }

    /// Gives each chunk its place: in an arena of its own, or in one for all chunks of its memory, in random order.
    fn place(&mut self, draw: &mut Draw, style: Style) {
        for memory in [Memory::Host, Memory::Device] {
            let odd = style.pick(draw, &[0, 16], &[0, 0, 1, 2, 4, 8, 16]);
            let alone = draw.once_in(2);
            let mut end = odd;
            for index in draw.order(self.chunks.len() as u32) {
                let chunk = &mut self.chunks[index as usize];
                if chunk.memory != memory {
                    continue;
                }
                (chunk.arena, chunk.offset) = (self.arenas.len(), end);
                let gap = style.pick(draw, &[0, 0, 48], &[0, 0, 1, 40]);
                if alone {
                    self.arenas.push(Arena { memory, bytes: odd + chunk.bytes + gap });
                } else {
                    end = odd + up(end - odd + chunk.bytes + gap, style.alignment(draw));
                }
            }
            if !alone {
                self.arenas.push(Arena { memory, bytes: end + 24 });
            }
        }
    }
}
