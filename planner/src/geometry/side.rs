//! One side of a group: where block `b` of layer `l` begins.

use std::marker::PhantomData;
use std::sync::Arc;

use pagelift_abi as abi;

use super::{Memory, Pool};
use crate::error::GeometryError;
use crate::id::{GroupId, PoolId};
use crate::layout::sealed::Lower;
use crate::layout::{ConvOrder, Segment};

/// Where a group's blocks lie in one pool, and what one of them looks like there.
///
/// Region `r` of block `b` of layer `l` begins at
/// `base(l, r, b / blocks_per_extent) + (b % blocks_per_extent) · block_stride`.
#[derive(Clone, Debug)]
pub struct SideSpec<L> {
    /// The pool.
    pub pool: PoolId,
    /// The address of the first block of each layer, region and extent, layers outermost: `[layer][region][extent]`.
    /// The order of layers is the group's logical one, wherever they lie.
    pub bases: Vec<u64>,
    /// Bytes from one block of a layer to the next.
    pub block_stride: u64,
    /// What a page looks like on this side.
    pub layout: L,
}

impl<L> SideSpec<L> {
    /// Layers at the same offsets in every extent: `extents` are the addresses where the pool's regions begin, one for each;
    /// `layer_offsets` are bytes from there to each layer's first block, one for each layer, and no addresses.
    ///
    /// The two usual arrangements, for `page` bytes of a layer's block:
    ///
    /// | outermost | layer `l` begins at | `block_stride` |
    /// |---|---|---|
    /// | layers (each layer's blocks lie together) | `l · blocks_per_extent · page` | `page` |
    /// | blocks (each block holds all layers) | `l · page` | `layers · page` |
    ///
    /// ```
    /// use pagelift_planner::geometry::*;
    /// use pagelift_planner::layout::PagedLayout;
    /// let layout = PagedLayout::mla_bf16(64)?;
    /// let (layers, blocks, page) = (4_u64, 8_u64, layout.page_bytes().get());
    /// let region = Region::new(0x10000, layers * blocks * page);
    /// let mut builder = GeometryBuilder::new();
    /// let pool = builder.pool(PoolSpec::new("host", Memory::Host, 8, &[region]))?;
    ///
    /// let offsets: Vec<u64> = (0..layers).map(|layer| layer * blocks * page).collect();
    /// let layers_outermost = SideSpec::packed(pool, &[0x10000], &offsets, page, layout.clone());
    /// let offsets: Vec<u64> = (0..layers).map(|layer| layer * page).collect();
    /// let blocks_outermost = SideSpec::packed(pool, &[0x10000], &offsets, layers * page, layout);
    ///
    /// // Block 5 of layer 3:
    /// let address = |side: &SideSpec<_>| side.bases[3] + 5 * side.block_stride;
    /// assert_eq!(address(&layers_outermost), 0x10000 + (3 * blocks + 5) * page);
    /// assert_eq!(address(&blocks_outermost), 0x10000 + (5 * layers + 3) * page);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A sum that does not fit 64 bits is caught when the geometry is built.
    #[must_use]
    pub fn packed(
        pool: PoolId,
        extents: &[u64],
        layer_offsets: &[u64],
        block_stride: u64,
        layout: L,
    ) -> Self {
        let layer = |&offset: &u64| extents.iter().map(move |extent| extent.saturating_add(offset));
        Self { pool, bases: layer_offsets.iter().flat_map(layer).collect(), block_stride, layout }
    }

    /// Each layer, or each region of each layer, an allocation of its own: where its block 0 begins, layers outermost.
    /// An engine that keeps K and V of each layer apart lists `[k0, v0, k1, v1, …]`.
    #[must_use]
    pub fn layer_separate(pool: PoolId, layers: &[u64], block_stride: u64, layout: L) -> Self {
        Self { pool, bases: layers.to_vec(), block_stride, layout }
    }
}

/// A side of one group, with the group's kind in the type.
#[derive(Debug)]
pub struct SideKey<K> {
    pub(crate) index: u32,
    pub(crate) geometry: u64,
    kind: PhantomData<K>,
}

super::key::key!(SideKey<K>: index, geometry);

impl<K> SideKey<K> {
    pub(crate) const fn new(index: u32, geometry: u64) -> Self {
        Self { index, geometry, kind: PhantomData }
    }
}

/// A checked side.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    pub group: GroupId,
    pub memory: Memory,
    pub pool: PoolId,
    pub bases: Vec<u64>,
    pub block_stride: u64,
    pub region_bytes: Vec<u64>,
    /// Rows of a block; 1 for states.
    pub rows: u32,
    /// Slots of a block that a slot mapping counts in.
    pub slots: u32,
    /// Slots that make one row.
    pub slots_per_row: u32,
    pub segments: Vec<Segment>,
    pub conv_order: Option<ConvOrder>,
}

/// One region of one layer's blocks in one extent: an arithmetic progression of pages.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub base: u64,
    pub end: u64,
    pub stride: u64,
    pub page_bytes: u64,
    pub first_block: u32,
    pub pool: PoolId,
    pub side: u32,
    pub layer: u32,
}

impl Side {
    /// Checks that every block of every layer lies in one region of the pool.
    pub fn new<L: Lower>(
        place: &Arc<str>,
        group: GroupId,
        spec: &SideSpec<L>,
        layers: u32,
        pool: &Pool,
    ) -> Result<Self, GeometryError> {
        let shape = spec.layout.shape();
        let regions = u64::try_from(shape.region_bytes.len()).unwrap_or(u64::MAX);
        let expected = u64::from(layers).saturating_mul(regions).saturating_mul(u64::from(pool.extents));
        let found = u64::try_from(spec.bases.len()).unwrap_or(u64::MAX);
        if expected != found {
            return Err(GeometryError::Bases { place: place.clone(), expected, found });
        }
        let page_bytes = shape.region_bytes.iter().copied().max().unwrap_or(0);
        if pool.spec.blocks_per_extent > 1 && pool.spec.blocks > 1 && spec.block_stride < page_bytes {
            return Err(GeometryError::BlocksOverlap {
                place: place.clone(),
                page_bytes,
                block_stride: spec.block_stride,
            });
        }
        let side = Self {
            group,
            memory: pool.memory(),
            pool: spec.pool,
            bases: spec.bases.clone(),
            block_stride: spec.block_stride,
            region_bytes: shape.region_bytes.to_vec(),
            rows: shape.rows,
            slots: shape.slots,
            slots_per_row: shape.slots_per_row,
            segments: shape.segments.to_vec(),
            conv_order: shape.conv_order,
        };
        for run in side.runs(0, pool) {
            let run = run.map_err(|what| GeometryError::Overflow { place: place.clone(), what })?;
            if !pool.holds(run.base, run.end) {
                let extent = run.first_block.checked_div(pool.spec.blocks_per_extent).unwrap_or(0);
                return Err(GeometryError::OutsideRegions {
                    place: place.clone(),
                    layer: run.layer,
                    extent,
                    start: run.base,
                    end: run.end,
                });
            }
        }
        Ok(side)
    }

    /// The runs of all layers, regions and extents, or what of one does not fit 64 bits.
    pub fn runs(&self, side: u32, pool: &Pool) -> impl Iterator<Item = Result<Run, &'static str>> {
        let extents = move |layer, bytes: u64| (0..pool.extents).map(move |extent| (layer, bytes, extent));
        let regions = move |layer| self.region_bytes.iter().flat_map(move |bytes| extents(layer, *bytes));
        let places = (0..).flat_map(regions);
        self.bases.iter().zip(places).map(move |(&base, (layer, page_bytes, extent))| {
            let last = u64::from(pool.blocks_in_extent(extent).saturating_sub(1));
            let end = last
                .checked_mul(self.block_stride)
                .and_then(|bytes| bytes.checked_add(page_bytes))
                .and_then(|bytes| bytes.checked_add(base))
                .ok_or("a block's end")?;
            Ok(Run {
                base,
                end,
                stride: self.block_stride,
                page_bytes,
                first_block: extent.saturating_mul(pool.spec.blocks_per_extent),
                pool: self.pool,
                side,
                layer,
            })
        })
    }

    /// The side as kernels see it, its bases appended to `bases`.
    pub fn encode(
        &self,
        place: &Arc<str>,
        pool: &Pool,
        bases: &mut Vec<u64>,
    ) -> Result<abi::Side, GeometryError> {
        let overflow = || GeometryError::Overflow { place: place.clone(), what: "the number of bases" };
        let first = u32::try_from(bases.len()).map_err(|_| overflow())?;
        // Kernels add up the index of any base in 32 bits.
        u32::try_from(bases.len().saturating_add(self.bases.len())).map_err(|_| overflow())?;
        bases.extend_from_slice(&self.bases);
        let regions = u32::try_from(self.region_bytes.len()).map_err(|_| overflow())?;
        Ok(abi::Side {
            bases: first,
            layer_bases: regions.checked_mul(pool.extents).ok_or_else(overflow)?,
            blocks_per_extent: pool.spec.blocks_per_extent,
            blocks: pool.spec.blocks,
            block_stride: self.block_stride,
        })
    }

    /// The largest power of two up to 16 that divides every block's address.
    pub fn alignment(&self) -> u64 {
        let bits = self.bases.iter().fold(self.block_stride, |bits, base| bits | base);
        alignment_of(bits)
    }

    /// Bytes of one row of all segments.
    pub fn row_bytes(&self) -> u64 {
        self.segments.iter().fold(0, |sum, segment| sum.saturating_add(u64::from(segment.row_bytes())))
    }
}

/// The largest power of two up to 16 that divides every number or-ed into `bits`.
pub(crate) fn alignment_of(bits: u64) -> u64 {
    1_u64.checked_shl(bits.trailing_zeros().min(4)).unwrap_or(1)
}
