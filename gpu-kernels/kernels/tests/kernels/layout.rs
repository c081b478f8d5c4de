//! Random layouts: two sides that agree in layers, segments and row bytes, and in nothing else.

use std::ops::Range;

use pagelift_abi::{Route, SegmentPair, Side, CONTIGUOUS, UNIT_BYTES};
use proptest::prelude::*;

use crate::memory::{address, Memory};

/// A segment, as both sides keep it. Lengths are in grains of `1 << grain` bytes.
#[derive(Clone, Debug)]
pub struct SegmentShape {
    pub grain: u32,
    pub row: u32,
    /// Between two rows, on each side.
    pub row_padding: [u32; 2],
    /// Before the segment, on each side.
    pub gap: [u32; 2],
    /// Which of the side's regions it lies in, counted round.
    pub region: [u32; 2],
    /// Split by bytes where possible.
    pub by_bytes: bool,
    pub rows_log2: u16,
}

/// How one side keeps its blocks.
#[derive(Clone, Debug)]
pub struct SideShape {
    pub rows: u32,
    pub blocks: u32,
    pub blocks_per_extent: u32,
    /// Regions of a layer: memory that is allocated, and has bases, of its own.
    pub regions: u32,
    /// All layers of a block together, or each layer in a region of its own.
    pub packed: bool,
    /// Bytes behind each block, and between extents.
    pub padding: u32,
    /// Extents lie in reverse order.
    pub reverse: bool,
}

#[derive(Clone, Debug)]
pub struct RouteShape {
    pub layers: u32,
    pub segments: Vec<SegmentShape>,
    pub sides: [SideShape; 2],
}

fn any_segment() -> impl Strategy<Value = SegmentShape> {
    // Nominal rows, odd ones, and long ones that take several units.
    let row = prop_oneof![8 => 1u32..90, 1 => 1000u32..2600];
    let padding = || prop_oneof![2 => Just(0u32), 1 => 1u32..4];
    let region = [0u32..3, 0u32..3];
    (0u32..5, row, [padding(), padding()], [0u32..3, 0u32..3], region, any::<bool>(), 0u16..4).prop_map(
        |(grain, row, row_padding, gap, region, by_bytes, rows_log2)| SegmentShape {
            grain,
            row,
            row_padding,
            gap,
            region,
            by_bytes,
            rows_log2,
        },
    )
}

fn any_side() -> impl Strategy<Value = SideShape> {
    let padding = prop_oneof![Just(0u32), Just(16), 0u32..40];
    (1u32..14, 1u32..7, 1u32..7, 1u32..4, any::<bool>(), padding, any::<bool>()).prop_map(
        |(rows, blocks, blocks_per_extent, regions, packed, padding, reverse)| SideShape {
            rows,
            blocks,
            blocks_per_extent,
            regions,
            packed,
            padding,
            reverse,
        },
    )
}

pub fn any_route() -> impl Strategy<Value = RouteShape> {
    (1u32..4, prop::collection::vec(any_segment(), 1..4), [any_side(), any_side()])
        .prop_map(|(layers, segments, sides)| RouteShape { layers, segments, sides })
}

/// Where everything of one side lies, in bytes from the start of its memory.
pub struct PlacedSide {
    /// Start of each `[region][layer][block]`.
    blocks: Vec<Vec<Vec<usize>>>,
    segments: Vec<PlacedSegment>,
    pub rows: u32,
}

/// The rows of a segment, in the blocks of its region.
struct PlacedSegment {
    region: usize,
    offset: usize,
    stride: usize,
    row: usize,
}

impl PlacedSide {
    /// The bytes of one row.
    pub fn row(&self, layer: u32, block: u32, segment: usize, row: u32) -> Range<usize> {
        let PlacedSegment { region, offset, stride, row: length } = self.segments[segment];
        let at = self.blocks[region][layer as usize][block as usize] + offset + row as usize * stride;
        at..at + length
    }
}

/// Memory with some routes, and the geometry tables that describe them.
pub struct World {
    pub routes: Vec<Route>,
    pub pairs: Vec<SegmentPair>,
    pub bases: Vec<u64>,
    /// Source and destination of each route.
    pub placed: Vec<[PlacedSide; 2]>,
    pub source: Memory,
    pub destination: Memory,
}

impl World {
    pub fn new(shapes: &[RouteShape], seed: u64) -> Self {
        let mut ends = [16usize; 2];
        let (mut routes, mut pairs, mut placed) = (Vec::new(), Vec::<SegmentPair>::new(), Vec::new());
        // Which side a base belongs to, and how far from its start.
        let mut bases: Vec<(usize, usize)> = Vec::new();
        for shape in shapes {
            let mut sides = [Side::default(); 2];
            let here: [PlacedSide; 2] = std::array::from_fn(|end| {
                let (side, placed) = place(shape, end, &mut ends[end], &mut bases);
                sides[end] = side;
                placed
            });
            let first_segment = pairs.len() as u32;
            for (n, segment) in shape.segments.iter().enumerate() {
                pairs.push(pair(segment, n, &here, &sides, &bases, shape.layers));
            }
            routes.push(Route {
                source: sides[0],
                destination: sides[1],
                layers: shape.layers,
                segments: shape.segments.len() as u32,
                first_segment,
                reserved: 0,
            });
            placed.push(here);
        }
        let mut memory = ends.map(|end| Memory::random(end + 16, seed ^ end as u64));
        // Not the same bytes on both sides, even where the sides are equally long.
        memory[1] = Memory::random(ends[1] + 16, !seed);
        let starts = memory.each_mut().map(Memory::address);
        let bases = bases.into_iter().map(|(end, at)| starts[end] + at as u64).collect();
        let [source, destination] = memory;
        Self { routes, pairs, bases, placed, source, destination }
    }

    /// Addresses of routes, pairs and bases.
    pub fn geometry(&mut self) -> [u64; 3] {
        [address(&mut self.routes), address(&mut self.pairs), address(&mut self.bases)]
    }
}

/// Places one side of a route behind `end`.
fn place(
    shape: &RouteShape,
    which: usize,
    end: &mut usize,
    bases: &mut Vec<(usize, usize)>,
) -> (Side, PlacedSide) {
    let side = &shape.sides[which];
    // Blocks and extents begin where the coarsest segment may: what breaks the alignment is the padding.
    let regions = side.regions as usize;
    let mut lengths = vec![0usize; regions];
    let mut segments = Vec::new();
    for segment in &shape.segments {
        let grain = 1usize << segment.grain;
        let region = segment.region[which] as usize % regions;
        let offset = (lengths[region] + segment.gap[which] as usize * grain).next_multiple_of(grain);
        let row = segment.row as usize * grain;
        let stride = row + segment.row_padding[which] as usize * grain;
        lengths[region] = offset + stride * side.rows as usize;
        segments.push(PlacedSegment { region, offset, stride, row });
    }
    // A side has one stride, which is that of the longest region.
    let length = lengths.into_iter().fold(0, usize::max).next_multiple_of(16) + side.padding as usize;
    let layers = shape.layers as usize;
    let extents = side.blocks.div_ceil(side.blocks_per_extent) as usize;
    let per_extent = side.blocks_per_extent as usize;
    let stride = if side.packed { length * layers } else { length };

    // An extent of a region is of all layers, or of one.
    let count = regions * extents * if side.packed { 1 } else { layers };
    let extent_length = stride * per_extent + side.padding as usize;
    let start_of =
        |number: usize| *end + extent_length * if side.reverse { count - 1 - number } else { number };
    let base_of = |region: usize, layer: usize, extent: usize| {
        if side.packed {
            start_of(region * extents + extent) + layer * length
        } else {
            start_of((layer * regions + region) * extents + extent)
        }
    };
    let first = bases.len() as u32;
    for layer in 0..layers {
        for region in 0..regions {
            bases.extend((0..extents).map(|extent| (which, base_of(region, layer, extent))));
        }
    }
    let block_at =
        |region, layer, block| base_of(region, layer, block / per_extent) + block % per_extent * stride;
    let blocks_of =
        |region, layer| (0..side.blocks as usize).map(|block| block_at(region, layer, block)).collect();
    let blocks =
        (0..regions).map(|region| (0..layers).map(|layer| blocks_of(region, layer)).collect()).collect();
    *end += extent_length * count;
    let described = Side {
        bases: first,
        layer_bases: (regions * extents) as u32,
        blocks_per_extent: side.blocks_per_extent,
        blocks: side.blocks,
        block_stride: stride as u64,
    };
    (described, PlacedSide { blocks, segments, rows: side.rows })
}

/// Describes a segment: its width is what all addresses and lengths on both sides have in common.
fn pair(
    shape: &SegmentShape,
    n: usize,
    placed: &[PlacedSide; 2],
    sides: &[Side; 2],
    bases: &[(usize, usize)],
    layers: u32,
) -> SegmentPair {
    let [from, to] = placed.each_ref().map(|side| &side.segments[n]);
    let mut all = from.offset | from.stride | from.row | to.offset | to.stride;
    for side in sides {
        all |= side.block_stride as usize;
        let first = side.bases as usize;
        for (_, base) in &bases[first..first + (layers * side.layer_bases) as usize] {
            all |= base;
        }
    }
    let contiguous = from.stride == from.row && to.stride == to.row;
    let mut rows_log2 = shape.rows_log2;
    while rows_log2 > 0 && from.row << rows_log2 > UNIT_BYTES as usize {
        rows_log2 -= 1;
    }
    let base_of = |side: &Side, region: usize| side.blocks.div_ceil(side.blocks_per_extent) * region as u32;
    SegmentPair {
        source_base: base_of(&sides[0], from.region),
        destination_base: base_of(&sides[1], to.region),
        source_offset: from.offset as u64,
        destination_offset: to.offset as u64,
        source_stride: from.stride as u32,
        destination_stride: to.stride as u32,
        row_bytes: from.row as u32,
        width: 1 << all.trailing_zeros().min(4),
        rows_log2: if contiguous && shape.by_bytes { CONTIGUOUS } else { rows_log2 },
    }
}
