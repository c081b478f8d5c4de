//! Whether the memory agrees with the model.
//!
//! An extent is taken apart into its pages and the padding after its blocks. For each of these the image that must be
//! there is built (what was there before the run, with the rows of its group laid over it) and compared. What is
//! compared therefore adds up to the extent, whoever uses what of it.

use rayon::prelude::*;

use super::address::{group_layer, row_offset};
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
        let stream = self.contents().untouched(pool.index, extent);
        const CHUNK: usize = 1 << 20;
        bytes.par_chunks_mut(CHUNK).enumerate().for_each(|(index, chunk)| {
            stream.fill((index * CHUNK) as u64, chunk);
        });
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
        let pieces = pieces(pool, extent);
        let compare = |image: &mut Vec<u8>, piece: &Piece| {
            let mismatch = self.compare(pool, extent, *piece, bytes, image);
            progress(piece.bytes);
            mismatch
        };
        match pieces.par_iter().map_init(Vec::new, compare).find_first(Option::is_some).flatten() {
            Some(mismatch) => Err(Box::new(mismatch).into()),
            None => Ok(pieces.iter().map(|piece| piece.bytes).sum()),
        }
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
        self.contents().untouched(pool.index, extent).fill(piece.offset, image);
        let owner = self.owner(pool, piece);
        if let Some(owner) = &owner {
            self.overlay(owner, image);
        }
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
        let layer = group_layer(group, side, piece.layer?)?;
        Some(Owner { group, side, layer, page })
    }

    fn overlay(&self, owner: &Owner<'_>, image: &mut [u8]) {
        let Owner { group, side, layer, page } = *owner;
        for (segment, shape) in group.shape.segments.iter().enumerate() {
            for (row, holds) in (0..group.shape.rows).zip(&page.rows) {
                let start = row_offset(group, side, segment, row) as usize;
                if let Some(bytes) = image.get_mut(start..start + shape.row_bytes as usize) {
                    self.fill(group, layer, segment, *holds, bytes);
                }
            }
        }
    }
}

/// The group that uses a page.
struct Owner<'a> {
    group: &'a Group,
    side: &'a Side,
    layer: u32,
    page: &'a Page,
}

/// The extent, in pieces that follow each other without a gap.
fn pieces(pool: &Pool, extent: u32) -> Vec<Piece> {
    let first = extent * pool.blocks_per_extent;
    let blocks = first..first + pool.blocks_per_extent;
    let page = |block, layer| (block, Some(layer), pool.page_bytes);
    let in_order: Vec<(u32, Option<u32>, u64)> = match pool.order {
        PoolOrder::LayersOutermost => {
            (0..pool.layers).flat_map(|layer| blocks.clone().map(move |block| page(block, layer))).collect()
        }
        PoolOrder::BlocksOutermost => blocks
            .flat_map(|block| {
                (0..pool.layers).map(move |layer| page(block, layer)).chain([(
                    block,
                    None,
                    pool.block_padding,
                )])
            })
            .collect(),
    };
    let mut offset = 0;
    let place = |(block, layer, bytes): (u32, Option<u32>, u64)| {
        let piece = Piece { offset, bytes, block, layer };
        offset += bytes;
        piece
    };
    in_order.into_iter().map(place).collect()
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
    let Owner { group, side, layer, page } = *owner;
    for (index, segment) in group.shape.segments.iter().enumerate() {
        for (row, holds) in (0..group.shape.rows).zip(&page.rows) {
            let start = row_offset(group, side, index, row);
            if let Some(byte) = at.checked_sub(start)
                && byte < segment.row_bytes.into()
            {
                let (group, segment, holds) = (group.name.clone(), segment.name.clone(), holds.to_string());
                return Some(Region::Row { group, layer, block, segment, row, byte: byte as u32, holds });
            }
        }
    }
    None
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
