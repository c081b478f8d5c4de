//! What the producer holds, and how it lands.

use std::ops::Range;

use rayon::prelude::*;

use super::address::{Place, RowAt, page_place, row_place, rows_in_order};
use super::content::Contents;
use super::error::ReferenceError;
use crate::manifest::{Group, Manifest, Pool, Side};

/// Bytes on their way to a place in a pool.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'a> {
    /// The pool.
    pub pool: &'a Pool,
    /// The extent.
    pub extent: u32,
    /// Bytes from its beginning.
    pub offset: u64,
    /// What to put there.
    pub bytes: &'a [u8],
}

/// What the producer holds: every row of every layer of the blocks that it hands over. Their bytes follow from the
/// seed, and are made as they are handed over.
#[derive(Debug, Clone, Copy)]
pub struct Producer<'m> {
    manifest: &'m Manifest,
    contents: Contents,
}

/// Bytes that are made at a time, and bytes that a thread makes of these before it asks for more.
const BATCH: usize = 8 << 20;
const SHARE: usize = 256 << 10;

/// One region of one layer of a group on the way to its side.
#[derive(Clone, Copy)]
pub struct Plane<'a> {
    pub group: &'a Group,
    pub side: &'a Side,
    pub layer: u32,
    pub region: u32,
}

impl<'m> Producer<'m> {
    /// The producer whose bytes follow from this seed.
    #[must_use]
    pub const fn new(manifest: &'m Manifest, seed: u64) -> Self {
        Self { manifest, contents: Contents::new(seed) }
    }

    /// Writes the rows of the block at a position of the request, in the order in which they are to lie, without any
    /// padding between them.
    pub fn page(self, to: Plane<'_>, position: u64, mut page: &mut [u8]) {
        let Plane { group, side, layer, region } = to;
        let first = position.saturating_mul(side.rows.into());
        for RowAt { segment, row, start, end } in rows_in_order(group, side, region) {
            let (bytes, after) =
                std::mem::take(&mut page).split_at_mut_checked(end - start).unwrap_or((&mut [], &mut []));
            self.contents
                .produced(group.index, layer, segment, first.saturating_add(row.into()))
                .fill(0, bytes);
            page = after;
        }
    }

    /// Copies blocks, from that of a position on, to their destinations, which the model has checked: layer by layer.
    pub(super) fn land<E: From<ReferenceError>>(
        self,
        group: &Group,
        side: &Side,
        (position, blocks): (u64, &[u32]),
        mut put: impl FnMut(Piece<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let received = group.received_blocks(side, self.manifest.span());
        if position.saturating_add(blocks.len() as u64) > received {
            let (group, position) = (group.name.clone(), received);
            return Err(ReferenceError::NotProduced { group, position, received }.into());
        }
        // At least 1, and at most `limits::PAGE_BYTES`.
        let page_bytes = (group.shape.content_bytes(side.rows) / u64::from(side.kv_regions.count())) as usize;
        let (at_once, share) = ((BATCH / page_bytes).max(1), (SHARE / page_bytes).max(1));
        let mut memory = vec![0; page_bytes * at_once.min(blocks.len())];
        let regions = 0..side.kv_regions.count();
        for (layer, region) in (0..group.layers).flat_map(|layer| regions.clone().map(move |r| (layer, r))) {
            let to = Plane { group, side, layer, region };
            for (number, blocks) in blocks.chunks(at_once).enumerate() {
                let pages = memory.get_mut(..page_bytes * blocks.len()).unwrap_or_default();
                let first = number * at_once;
                pages.par_chunks_mut(page_bytes * share).enumerate().for_each(|(number, pages)| {
                    let first = position + (first + number * share) as u64;
                    for (position, page) in (first..).zip(pages.chunks_mut(page_bytes)) {
                        self.page(to, position, page);
                    }
                });
                for (block, page) in blocks.iter().zip(pages.chunks(page_bytes)) {
                    to.land(*block, page, &mut put)?;
                }
            }
        }
        Ok(())
    }
}

impl Plane<'_> {
    /// Copies the rows of a block to where they lie; those that lie together at once.
    fn land<E>(
        self,
        block: u32,
        page: &[u8],
        put: &mut impl FnMut(Piece<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { group, side, layer, region } = self;
        let Place { extent, offset } = page_place(group, side, (layer, region), block);
        let mut rest = page;
        let mut put_run = |run: &Range<usize>| {
            let (bytes, after) = rest.split_at_checked(run.len()).unwrap_or((rest, &[]));
            rest = after;
            put(Piece { pool: &side.pool, extent, offset: offset + run.start as u64, bytes })
        };
        let mut run = 0..0;
        for RowAt { start, end, .. } in rows_in_order(group, side, region) {
            if start != run.end {
                put_run(&run)?;
                run.start = start;
            }
            run.end = end;
        }
        put_run(&run)
    }
}

/// Puts rows of a block in place, every layer and segment of them, with the bytes that `fill` gives them.
pub fn place_rows<E>(
    group: &Group,
    side: &Side,
    block: u32,
    rows: Range<u32>,
    mut put: impl FnMut(Piece<'_>) -> Result<(), E>,
    fill: impl Fn(u32, usize, &mut [u8]),
) -> Result<(), E> {
    let longest = group.shape.segments.iter().map(|segment| segment.row_bytes as usize).max();
    let mut memory = vec![0; longest.unwrap_or(0)];
    for layer in 0..group.layers {
        for (segment, shape) in group.shape.segments.iter().enumerate() {
            let bytes = memory.get_mut(..shape.row_bytes as usize).unwrap_or_default();
            for row in rows.clone() {
                fill(layer, segment, bytes);
                let place = row_place(group, side, layer, block, segment, row);
                put(Piece { pool: &side.pool, extent: place.extent, offset: place.offset, bytes })?;
            }
        }
    }
    Ok(())
}
