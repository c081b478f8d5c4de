//! Two engines with memory of their own, arranged differently, and the address of every row worked out anew.

use pagelift_planner::geometry::{
    Geometry, GeometryBuilder, GroupSpec, Landing, Memory, Paged, PagedLift, PoolSpec, Region, Ring,
    SideSpec, State, StateLift,
};
use pagelift_planner::layout::{ConvOrder, PagedLayout, RingLayout, Segment, StateLayout};
use pagelift_planner::quantity::Tokens;
use pagelift_transport::facts::{Element, Exchange, GroupFacts};
use pagelift_transport::offer::Offer;

/// Tokens of a block of a paged group.
pub const BLOCK: u32 = 16;

/// What both engines mean by a group.
#[derive(Clone, Debug)]
pub enum Meaning {
    /// Rows of so many tokens each.
    Paged {
        tokens_per_row: u32,
    },
    Ring,
    State,
}

#[derive(Clone, Debug)]
pub struct GroupMeaning {
    pub name: String,
    pub meaning: Meaning,
    pub layers: u32,
    /// Rows of a block.
    pub rows: u32,
    /// Bytes of a row of each segment.
    pub segments: Vec<u32>,
}

/// How one engine keeps a group.
#[derive(Clone, Debug)]
pub struct Arrangement {
    /// Pages of a block: 1, 2 or 4.
    pub split: u32,
    /// Bytes between rows, and behind the last.
    pub gap: u32,
    /// Each segment in a region of its own.
    pub apart: bool,
    pub reversed: bool,
    pub blocks_outermost: bool,
    pub pages_per_extent: u32,
}

/// A group in the memory of one engine.
#[derive(Clone, Debug)]
pub struct Placed {
    pub split: u32,
    pub page_rows: u32,
    pub stride: u64,
    pub per_extent: u32,
    /// Region, offset, stride.
    places: Vec<(u32, u64, u32)>,
    region_bytes: Vec<u64>,
    /// `[layer][region][extent]`.
    bases: Vec<u64>,
    start: u64,
    end: u64,
}

pub const BLOCKS: u32 = 6;
pub const BASE: u64 = 0x10000;

impl Placed {
    fn new(group: &GroupMeaning, how: &Arrangement, cursor: &mut u64) -> Self {
        let page_rows = group.rows / how.split;
        let count = group.segments.len();
        let mut places = vec![(0, 0, 0); count];
        let regions = if how.apart { count } else { 1 };
        let mut region_bytes = vec![0_u64; regions];
        let order: Vec<usize> = if how.reversed { (0..count).rev().collect() } else { (0..count).collect() };
        for segment in order {
            let region = if how.apart { segment } else { 0 };
            let stride = group.segments[segment] + how.gap;
            places[segment] = (region as u32, region_bytes[region], stride);
            region_bytes[region] += u64::from(stride) * u64::from(page_rows);
        }
        let pages = BLOCKS * how.split;
        let slot = region_bytes.iter().max().unwrap() + u64::from(how.gap);
        let start = *cursor;
        let mut bases = Vec::new();
        let outermost = how.blocks_outermost;
        let per_extent = if outermost { pages } else { how.pages_per_extent.min(pages) };
        let stride = if outermost { slot * u64::from(group.layers) * regions as u64 } else { slot };
        for _ in 0..group.layers {
            for _ in 0..regions {
                if outermost {
                    bases.push(start + slot * bases.len() as u64);
                    continue;
                }
                for first in (0..pages).step_by(per_extent as usize) {
                    bases.push(*cursor);
                    *cursor += slot * u64::from((pages - first).min(per_extent)) + u64::from(how.gap);
                }
            }
        }
        if outermost {
            *cursor += stride * u64::from(pages);
        }
        let end = *cursor;
        Self { split: how.split, page_rows, stride, per_extent, places, region_bytes, bases, start, end }
    }

    /// Where a row of a block lies.
    pub fn row(&self, layer: u32, block: u32, row: u32, segment: usize) -> u64 {
        let page = block * self.split + row / self.page_rows;
        let (region, offset, stride) = self.places[segment];
        let extents = (BLOCKS * self.split).div_ceil(self.per_extent);
        let index = (layer * self.region_bytes.len() as u32 + region) * extents + page / self.per_extent;
        self.bases[index as usize]
            + u64::from(page % self.per_extent) * self.stride
            + offset
            + u64::from(row % self.page_rows) * u64::from(stride)
    }
}

/// One engine.
pub struct Engine {
    pub groups: Vec<Placed>,
    pub bytes: Vec<u8>,
    geometry: Geometry,
    facts: Vec<GroupFacts>,
}

impl Engine {
    pub fn new(memory: Memory, groups: &[GroupMeaning], how: &[Arrangement], seed: u64) -> Self {
        let mut cursor = BASE;
        let mut placed = Vec::new();
        let mut builder = GeometryBuilder::new();
        let mut facts = Vec::new();
        for (group, how) in groups.iter().zip(how) {
            let own = Placed::new(group, how, &mut cursor);
            add(&mut builder, memory, group, &own);
            let mut said = GroupFacts::new(&group.name, memory);
            for (number, bytes) in group.segments.iter().enumerate() {
                said = said.segment(&group.segment_name(number), Element::U8, &[*bytes]);
            }
            facts.push(said);
            placed.push(own);
        }
        let mut state = seed;
        let bytes = (BASE..cursor).map(|_| random(&mut state)).collect();
        Self { groups: placed, bytes, geometry: builder.build().unwrap(), facts }
    }

    /// What it sends to a peer, with its first byte at `base`: geometries count from [`BASE`].
    pub fn offer(&self, base: u64) -> Offer {
        let exchange = Exchange::new(Tokens::new(BLOCK.into()));
        let address = |region: Region| region.address() - BASE + base;
        Offer::of(&self.geometry, &exchange, &self.facts, address).unwrap()
    }

    pub fn at(&mut self, address: u64, bytes: u64) -> &mut [u8] {
        let start = usize::try_from(address - BASE).unwrap();
        &mut self.bytes[start..start + usize::try_from(bytes).unwrap()]
    }
}

fn random(state: &mut u64) -> u8 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 56) as u8
}

fn add(builder: &mut GeometryBuilder, memory: Memory, group: &GroupMeaning, own: &Placed) {
    let region = Region::new(own.start, own.end - own.start);
    let spec = PoolSpec::new(&format!("pool of {}", group.name), memory, BLOCKS * own.split, &[region]);
    let pool = builder.pool(spec.extents_of(own.per_extent)).unwrap();
    let segment = |number: usize| {
        let (region, offset, stride) = own.places[number];
        Segment::new(&group.segment_name(number), offset, group.segments[number], stride)
            .unwrap()
            .in_region(region)
    };
    let landing = if memory == Memory::Host { Landing::Host } else { Landing::Device };
    fn sides<L>(memory: Memory, side: SideSpec<L>) -> (Option<SideSpec<L>>, Option<SideSpec<L>>) {
        if memory == Memory::Host { (Some(side), None) } else { (None, Some(side)) }
    }
    let (name, layers) = (group.name.as_str().into(), group.layers);
    let (bases, block_stride) = (own.bases.clone(), own.stride);
    match group.meaning {
        Meaning::Paged { tokens_per_row } => {
            let mut layout =
                PagedLayout::builder(own.page_rows * tokens_per_row).tokens_per_row(tokens_per_row);
            for number in 0..group.segments.len() {
                layout = layout.segment_at(segment(number));
            }
            let layout = layout.build().unwrap();
            let (host, device) = sides(memory, SideSpec { pool, bases, block_stride, layout });
            let lift = PagedLift::None;
            builder.group(GroupSpec::<Paged> { name, layers, landing, lift, host, device }).unwrap();
        }
        Meaning::Ring => {
            let (_, _, stride) = own.places[0];
            let padding = stride - group.segments[0];
            let layout = RingLayout::builder(group.rows, group.segments[0]).slot_padding(padding);
            let layout = layout.build().unwrap();
            let (host, device) = sides(memory, SideSpec { pool, bases, block_stride, layout });
            let lift = StateLift::None;
            builder.group(GroupSpec::<Ring> { name, layers, landing, lift, host, device }).unwrap();
        }
        Meaning::State => {
            let names: Vec<String> =
                (0..group.segments.len()).map(|number| group.segment_name(number)).collect();
            let parts = names.iter().zip(&group.segments).zip(&own.places);
            let parts: Vec<(&str, u64, u32)> =
                parts.map(|((name, bytes), (_, offset, _))| (name.as_str(), *offset, *bytes)).collect();
            let layout = StateLayout::at(&parts, None).unwrap().with_conv_order(ConvOrder::Sd);
            let (host, device) = sides(memory, SideSpec { pool, bases, block_stride, layout });
            let lift = StateLift::None;
            builder.group(GroupSpec::<State> { name, layers, landing, lift, host, device }).unwrap();
        }
    }
}

impl GroupMeaning {
    pub fn new(name: &str, meaning: Meaning, layers: u32, rows: u32, segments: &[u32]) -> Self {
        Self { name: name.into(), meaning, layers, rows, segments: segments.to_vec() }
    }

    fn segment_name(&self, number: usize) -> String {
        match self.meaning {
            // It has one, which the planner names.
            Meaning::Ring => "slot".into(),
            _ => format!("s{number}"),
        }
    }
}

impl Arrangement {
    /// Blocks of so many pages, and nothing else about them that would be special.
    pub fn plain(split: u32) -> Self {
        let (apart, reversed, blocks_outermost) = (false, false, false);
        Self { split, gap: 0, apart, reversed, blocks_outermost, pages_per_extent: 64 }
    }

    /// As it may be for a group: only paged blocks are several pages, and a state is in one region.
    #[must_use]
    pub fn of(mut self, group: &GroupMeaning) -> Self {
        if !matches!(group.meaning, Meaning::Paged { .. }) {
            (self.split, self.apart) = (1, false);
        }
        self
    }
}

/// How P keeps groups, and D: in pages of other sizes, with other strides, in other orders. D has `gap` bytes between rows.
pub fn arranged(groups: &[GroupMeaning], producer: bool, gap: u32) -> Vec<Arrangement> {
    let own = if producer {
        Arrangement { blocks_outermost: true, pages_per_extent: 4, ..Arrangement::plain(2) }
    } else {
        Arrangement { gap, apart: true, reversed: true, pages_per_extent: 4, ..Arrangement::plain(1) }
    };
    groups.iter().map(|group| own.clone().of(group)).collect()
}
