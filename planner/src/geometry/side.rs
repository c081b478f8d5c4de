//! One side of a group: where block `b` of layer `l` begins.

use std::sync::Arc;

use pagelift_abi as abi;

use super::Pool;
use super::group::Kind;
use crate::error::GeometryError;
use crate::id::PoolId;

/// Where a group's blocks lie in one pool, and what one of them looks like there.
///
/// Block `b` of layer `l` begins at `base(l, b / blocks_per_extent) + (b % blocks_per_extent) · block_stride`.
#[derive(Clone, Debug)]
pub struct SideSpec<L> {
    /// The pool.
    pub pool: PoolId,
    /// The address of the first block of each layer and extent, layers outermost: `[layer][extent]`. The order of
    /// layers is the group's logical one, wherever they lie.
    pub bases: Vec<u64>,
    /// Bytes from one block of a layer to the next.
    pub block_stride: u64,
    /// What a page looks like on this side.
    pub layout: L,
}

impl<L> SideSpec<L> {
    /// Layers at the same offsets in every extent: block-outermost slabs, and layer-outermost pools allocated
    /// extent by extent. A sum that does not fit 64 bits is caught when the geometry is built.
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

    /// Each layer an allocation of its own: `layers[l]` is where block 0 of layer `l` begins.
    #[must_use]
    pub fn layer_separate(pool: PoolId, layers: &[u64], block_stride: u64, layout: L) -> Self {
        Self { pool, bases: layers.to_vec(), block_stride, layout }
    }
}

/// A checked side.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    pub pool: PoolId,
    pub bases: Vec<u64>,
    pub block_stride: u64,
    pub page_bytes: u64,
}

/// One layer's blocks in one extent: an arithmetic progression of pages.
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
    pub fn new<K: Kind>(
        place: &Arc<str>,
        spec: &SideSpec<K::Layout>,
        layers: u32,
        pool: &Pool,
        page_bytes: u64,
    ) -> Result<Self, GeometryError> {
        let expected = u64::from(layers).saturating_mul(u64::from(pool.extents));
        let found = u64::try_from(spec.bases.len()).unwrap_or(u64::MAX);
        if expected != found {
            return Err(GeometryError::Bases { place: place.clone(), expected, found });
        }
        if pool.spec.blocks_per_extent > 1 && pool.spec.blocks > 1 && spec.block_stride < page_bytes {
            return Err(GeometryError::BlocksOverlap {
                place: place.clone(),
                page_bytes,
                block_stride: spec.block_stride,
            });
        }
        let side =
            Self { pool: spec.pool, bases: spec.bases.clone(), block_stride: spec.block_stride, page_bytes };
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

    /// The runs of all layers and extents, or what of one does not fit 64 bits.
    pub fn runs(&self, side: u32, pool: &Pool) -> impl Iterator<Item = Result<Run, &'static str>> {
        let pairs = (0..).flat_map(|layer| (0..pool.extents).map(move |extent| (layer, extent)));
        self.bases.iter().zip(pairs).map(move |(&base, (layer, extent))| {
            let last = u64::from(pool.blocks_in_extent(extent).saturating_sub(1));
            let end = last
                .checked_mul(self.block_stride)
                .and_then(|bytes| bytes.checked_add(self.page_bytes))
                .and_then(|bytes| bytes.checked_add(base))
                .ok_or("a block's end")?;
            Ok(Run {
                base,
                end,
                stride: self.block_stride,
                page_bytes: self.page_bytes,
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
        let first = u32::try_from(bases.len())
            .map_err(|_| GeometryError::Overflow { place: place.clone(), what: "the number of bases" })?;
        bases.extend_from_slice(&self.bases);
        Ok(abi::Side {
            bases: first,
            layer_bases: pool.extents,
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
}

/// The largest power of two up to 16 that divides every number or-ed into `bits`.
pub(crate) fn alignment_of(bits: u64) -> u64 {
    1_u64.checked_shl(bits.trailing_zeros().min(4)).unwrap_or(1)
}
