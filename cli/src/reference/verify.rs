//! Whether the memory agrees with the model.
//!
//! An extent is taken apart into its pages and the padding after its blocks. For each of these the image that must be
//! there is built (what was there before the run, with the rows of its group laid over it) and compared. What is
//! compared therefore adds up to the extent, whoever uses what of it.

use rayon::prelude::*;

use super::address::{RowAt, group_layer, rows_in_order};
use super::content::Stream;
use super::error::{Mismatch, ReferenceError, Region};
use super::model::{Model, Page};
use crate::manifest::{Group, Pool, PoolOrder, Side};

/// A page, or the padding after a block.
#[derive(Debug, Clone, Copy)]
struct Piece {
    offset: u64,
    bytes: u64,
    block: u32,
    /// The layer of the pool; `None` is the padding.
    layer: Option<u32>,
}

impl Model<'_> {
    /// Fills an extent with what it holds before the run.
    ///
    /// # Errors
    ///
    /// If the extent is not as large as the manifest says.
    pub fn fill_untouched(&self, pool: &Pool, extent: u32, bytes: &mut [u8]) -> Result<(), ReferenceError> {
        check_size(pool, extent, bytes)?;
        self.contents().untouched(pool.index, extent).fill(0, bytes);
        Ok(())
    }

    /// Compares every byte of an extent, and returns how many these were. `progress` hears of every piece of work
    /// how many bytes it had.
    ///
    /// # Errors
    ///
    /// [`ReferenceError::Mismatch`] with the first byte that is wrong; or if the extent is not as large as the
    /// manifest says.
    pub fn verify(
        &self,
        pool: &Pool,
        extent: u32,
        bytes: &[u8],
        progress: impl Fn(u64) + Sync,
    ) -> Result<u64, ReferenceError> {
        check_size(pool, extent, bytes)?;
        let pieces = Pieces { pool, first_block: extent * pool.blocks_per_extent };
        // Small pieces are compared many at a time, large ones alone.
        let batch = (BATCH / pool.page_bytes.max(1)).max(1);
        let batches = pieces.count().div_ceil(batch);
        let compare = |image: &mut Vec<u8>, number: u64| {
            let mut compared = 0;
            let end = number.saturating_add(1).saturating_mul(batch).min(pieces.count());
            for piece in (number * batch..end).map(|index| pieces.at(index)) {
                if let Some(mismatch) = self.compare(pool, extent, piece, bytes, image) {
                    return Err(Box::new(mismatch));
                }
                compared += piece.bytes;
            }
            progress(compared);
            Ok(compared)
        };
        let (mismatch, compared) = (0..batches)
            .into_par_iter()
            .map_init(Vec::new, compare)
            .map(|result| match result {
                Ok(compared) => (None, compared),
                Err(mismatch) => (Some(mismatch), 0),
            })
            // Of two mismatches the left one comes first in the extent.
            .reduce(|| (None, 0), |left, right| (left.0.or(right.0), left.1 + right.1));
        mismatch.map_or(Ok(compared), |mismatch| Err(mismatch.into()))
    }

    fn compare(
        &self,
        pool: &Pool,
        extent: u32,
        piece: Piece,
        bytes: &[u8],
        image: &mut Vec<u8>,
    ) -> Option<Mismatch> {
        image.resize(piece.bytes as usize, 0);
        let owner = self.owner(pool, piece);
        let untouched = self.contents().untouched(pool.index, extent);
        let rest = owner.as_ref().map_or(0, |owner| self.lay_rows(owner, untouched, piece.offset, image));
        untouched.fill(piece.offset + rest as u64, image.get_mut(rest..).unwrap_or_default());
        let start = piece.offset as usize;
        let there = bytes.get(start..start + image.len()).unwrap_or_default();
        if there == image.as_slice() {
            return None;
        }
        let differs = |(_, (expected, found)): &(u64, (&u8, &u8))| expected != found;
        let (at, (expected, found)) = (0..).zip(image.iter().zip(there)).find(differs)?;
        Some(Mismatch {
            pool: pool.name.clone(),
            extent,
            offset: piece.offset + at,
            region: region(piece, owner.as_ref(), at),
            expected: *expected,
            found: *found,
        })
    }

    /// Who uses a page, if a group does.
    fn owner(&self, pool: &Pool, piece: Piece) -> Option<Owner<'_>> {
        let page = self.page(pool, piece.block)?;
        let group = self.group(page.group)?;
        let side = group.side(pool.memory)?;
        let (layer, region) = group_layer(group, side, piece.layer?)?;
        Some(Owner { group, side, layer, region, page })
    }

    /// Lays the rows of a page into its image, and what was there before the run between them. Returns where the last
    /// row ends.
    fn lay_rows(&self, owner: &Owner<'_>, untouched: Stream, offset: u64, image: &mut [u8]) -> usize {
        let Owner { group, side, layer, region, page } = *owner;
        let mut last = 0;
        for RowAt { segment, row, start, end } in rows_in_order(group, side, region) {
            untouched.fill(offset + last as u64, image.get_mut(last..start).unwrap_or_default());
            if let Some(holds) = page.rows.get(row as usize) {
                self.fill(group, layer, segment, *holds, image.get_mut(start..end).unwrap_or_default());
            }
            last = end;
        }
        last
    }
}

/// The group that uses a page.
struct Owner<'a> {
    group: &'a Group,
    side: &'a Side,
    layer: u32,
    region: u32,
    page: Page<'a>,
}

/// Bytes that a thread compares before it asks for more.
const BATCH: u64 = 1 << 20;

/// The extent, in pieces that follow each other without a gap.
#[derive(Clone, Copy)]
struct Pieces<'a> {
    pool: &'a Pool,
    first_block: u32,
}

impl Pieces<'_> {
    /// How many there are.
    fn count(self) -> u64 {
        let (blocks, layers) = (u64::from(self.pool.blocks_per_extent), u64::from(self.pool.layers));
        match self.pool.order {
            PoolOrder::LayersOutermost => blocks * layers,
            PoolOrder::BlocksOutermost => blocks * (layers + 1),
        }
    }

    /// The piece with a number below the count.
    fn at(self, index: u64) -> Piece {
        let (pool, page_bytes) = (self.pool, self.pool.page_bytes);
        let (blocks, layers) = (u64::from(pool.blocks_per_extent), u64::from(pool.layers));
        // Each quotient and remainder is below a number of 32 bits.
        match pool.order {
            PoolOrder::LayersOutermost => {
                let (layer, block) = ((index / blocks) as u32, (index % blocks) as u32);
                let (block, layer) = (self.first_block + block, Some(layer));
                Piece { offset: index * page_bytes, bytes: page_bytes, block, layer }
            }
            PoolOrder::BlocksOutermost => {
                let (block, layer) = (index / (layers + 1), index % (layers + 1));
                let start = block * (layers * page_bytes + pool.block_padding);
                let (offset, block) = (start + layer * page_bytes, self.first_block + block as u32);
                if layer == layers {
                    Piece { offset, bytes: pool.block_padding, block, layer: None }
                } else {
                    Piece { offset, bytes: page_bytes, block, layer: Some(layer as u32) }
                }
            }
        }
    }
}

/// What byte `at` of a piece belongs to.
fn region(piece: Piece, owner: Option<&Owner<'_>>, at: u64) -> Region {
    let Piece { block, layer, .. } = piece;
    match (layer, owner) {
        (None, _) => Region::BlockPadding { block },
        (Some(layer), None) => Region::Unused { layer, block },
        (Some(layer), Some(owner)) => row_at(owner, block, at).unwrap_or_else(|| Region::Padding {
            group: owner.group.name.clone(),
            layer,
            block,
        }),
    }
}

/// The row that byte `at` of a page belongs to, found by looking at all of them.
fn row_at(owner: &Owner<'_>, block: u32, at: u64) -> Option<Region> {
    let Owner { group, side, layer, region, page } = *owner;
    let at = usize::try_from(at).ok()?;
    let covers = |found: &RowAt| (found.start..found.end).contains(&at);
    let RowAt { segment, row, start, .. } = rows_in_order(group, side, region).find(covers)?;
    Some(Region::Row {
        group: group.name.clone(),
        layer,
        block,
        segment: group.shape.segments.get(segment)?.name.clone(),
        row,
        byte: (at - start) as u32,
        holds: page.rows.get(row as usize)?.to_string(),
    })
}

fn check_size(pool: &Pool, extent: u32, bytes: &[u8]) -> Result<(), ReferenceError> {
    let (expected, found) = (pool.extent_bytes(), bytes.len() as u64);
    let exists = extent < pool.extents();
    if exists && expected == found {
        Ok(())
    } else {
        // An extent that does not exist has no bytes.
        let expected = if exists { expected } else { 0 };
        Err(ReferenceError::ExtentSize { pool: pool.name.clone(), extent, expected, found })
    }
}
