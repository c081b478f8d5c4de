//! What the producer holds, and how it lands.

use std::ops::Range;

use rayon::prelude::*;

use super::address::{page_place, row_place};
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

impl Piece<'_> {
    /// Puts the bytes into their extent.
    ///
    /// # Errors
    ///
    /// If the extent is not as large as the manifest says.
    pub fn put(&self, extent: &mut [u8]) -> Result<(), ReferenceError> {
        let found = extent.len() as u64;
        let target = usize::try_from(self.offset)
            .ok()
            .and_then(|start| extent.get_mut(start..start.checked_add(self.bytes.len())?));
        match target {
            Some(target) => {
                target.copy_from_slice(self.bytes);
                Ok(())
            }
            None => Err(ReferenceError::ExtentSize {
                pool: self.pool.name.clone(),
                extent: self.extent,
                expected: self.pool.extent_bytes(),
                found,
            }),
        }
    }
}

/// The producer's own memory: for each group `[layers, blocks, page]`, without any padding.
#[derive(Debug)]
pub struct Producer<'m> {
    manifest: &'m Manifest,
    groups: Vec<Vec<u8>>,
}

impl<'m> Producer<'m> {
    /// Fills the producer's side; `progress` hears of every piece of work how many bytes it had.
    ///
    /// # Errors
    ///
    /// If there is not enough memory.
    pub fn new(
        manifest: &'m Manifest,
        seed: u64,
        progress: impl Fn(u64) + Sync,
    ) -> Result<Self, ReferenceError> {
        let contents = Contents::new(seed);
        let produce = |group| produce(manifest, group, contents, &progress);
        let groups = manifest.groups().iter().map(produce).collect::<Result<_, _>>()?;
        Ok(Self { manifest, groups })
    }

    /// The block at a position of the request: one layer of it, its segments one after another.
    #[must_use]
    pub fn page(&self, group: &Group, layer: u32, position: u64) -> Option<&[u8]> {
        let blocks = group.received_blocks(self.manifest.span());
        if position >= blocks || layer >= group.layers {
            return None;
        }
        let bytes = group.shape.page_bytes(0);
        let start = (u64::from(layer) * blocks + position).checked_mul(bytes)?;
        let range = usize::try_from(start).ok()?..usize::try_from(start.checked_add(bytes)?).ok()?;
        self.groups.get(group.index)?.get(range)
    }

    /// Copies a block to its destination, which the model has checked.
    pub(super) fn land<E: From<ReferenceError>>(
        &self,
        group: &Group,
        position: u64,
        side: &Side,
        block: u32,
        mut put: impl FnMut(Piece<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        for layer in 0..group.layers {
            let received = group.received_blocks(self.manifest.span());
            let page = self.page(group, layer, position).ok_or_else(|| ReferenceError::NotProduced {
                group: group.name.clone(),
                position,
                received,
            })?;
            if side.row_padding == 0 {
                let place = page_place(group, side, layer, block);
                put(Piece { pool: &side.pool, extent: place.extent, offset: place.offset, bytes: page })?;
                continue;
            }
            let mut rest = page;
            for (segment, shape) in group.shape.segments.iter().enumerate() {
                for row in 0..group.shape.rows {
                    let (bytes, after) =
                        rest.split_at_checked(shape.row_bytes as usize).unwrap_or((rest, &[]));
                    let place = row_place(group, side, layer, block, segment, row);
                    put(Piece { pool: &side.pool, extent: place.extent, offset: place.offset, bytes })?;
                    rest = after;
                }
            }
        }
        Ok(())
    }
}

fn produce(
    manifest: &Manifest,
    group: &Group,
    contents: Contents,
    progress: &(impl Fn(u64) + Sync),
) -> Result<Vec<u8>, ReferenceError> {
    let blocks = group.received_blocks(manifest.span());
    let page_bytes = group.shape.page_bytes(0);
    let bytes = page_bytes.saturating_mul(blocks).saturating_mul(group.layers.into());
    let out_of_memory = || ReferenceError::OutOfMemory { group: group.name.clone(), bytes };
    let size = usize::try_from(bytes).map_err(|_| out_of_memory())?;
    let page_size = usize::try_from(page_bytes).map_err(|_| out_of_memory())?;
    let mut memory = Vec::new();
    memory.try_reserve_exact(size).map_err(|_| out_of_memory())?;
    memory.resize(size, 0);
    memory.par_chunks_mut(page_size.max(1)).enumerate().for_each(|(index, page)| {
        let (layer, position) = (index as u64 / blocks, index as u64 % blocks);
        let mut rest = page;
        for (segment, shape) in group.shape.segments.iter().enumerate() {
            for row in 0..u64::from(group.shape.rows) {
                let row = position * u64::from(group.shape.rows) + row;
                let stream = contents.produced(group.index, layer as u32, segment, row);
                let (bytes, after) = std::mem::take(&mut rest)
                    .split_at_mut_checked(shape.row_bytes as usize)
                    .unwrap_or((&mut [], &mut []));
                stream.fill(0, bytes);
                rest = after;
            }
        }
        progress(page_bytes);
    });
    Ok(memory)
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
    let mut bytes = Vec::new();
    for layer in 0..group.layers {
        for (segment, shape) in group.shape.segments.iter().enumerate() {
            for row in rows.clone() {
                bytes.resize(shape.row_bytes as usize, 0);
                fill(layer, segment, &mut bytes);
                let place = row_place(group, side, layer, block, segment, row);
                put(Piece { pool: &side.pool, extent: place.extent, offset: place.offset, bytes: &bytes })?;
            }
        }
    }
    Ok(())
}
