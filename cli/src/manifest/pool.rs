//! How large a pool is, and where its extents end.

use super::error::{At, Located, Problem, divide, within};
use super::format::{Memory, PoolOrder, PoolSpec};

/// A pool of blocks, in one or more extents of equal size, each an allocation of its own.
///
/// The page of layer `l` and block `b` lies in extent `b / blocks_per_extent`; with `i = b % blocks_per_extent` it
/// begins there at
///
/// - layers outermost: `(l · blocks_per_extent + i) · page_bytes`
/// - blocks outermost: `i · (layers · page_bytes + block_padding) + l · page_bytes`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// Its number: the position in [`Manifest::pools`](super::Manifest::pools).
    pub index: usize,
    /// Its name.
    pub name: String,
    /// The memory it lies in.
    pub memory: Memory,
    /// Which index varies slowest.
    pub order: PoolOrder,
    /// Layers; at least 1.
    pub layers: u32,
    /// Blocks of all extents; at least 1.
    pub blocks: u32,
    /// Blocks of an extent; divides `blocks`.
    pub blocks_per_extent: u32,
    /// Bytes of one layer's part of a block, padding included.
    pub page_bytes: u64,
    /// Bytes after each block; 0 where layers are outermost.
    pub block_padding: u64,
    /// An id that is never handed out, if the engine keeps one as its null block.
    pub null_block: Option<u32>,
}

impl Pool {
    /// Checks a pool; `place` is where it stands.
    pub(super) fn check(index: usize, spec: PoolSpec, place: &str) -> Result<Self, Located> {
        let PoolSpec { name, memory, order, layers, blocks, page_bytes, block_padding, null_block, .. } =
            spec;
        if block_padding > 0 && order == PoolOrder::LayersOutermost {
            return Err(Problem::PaddingOfSplitBlocks).at(format!("{place}.block_padding"));
        }
        let blocks_per_extent = spec.blocks_per_extent.unwrap_or(blocks);
        divide("`blocks`", blocks.into(), "`blocks_per_extent`", blocks_per_extent.into())
            .at(format!("{place}.blocks_per_extent"))?;
        if let Some(id) = null_block {
            within(id.into(), 0, u64::from(blocks) - 1).at(format!("{place}.null_block"))?;
        }
        Ok(Self {
            index,
            name,
            memory,
            order,
            layers,
            blocks,
            blocks_per_extent,
            page_bytes,
            block_padding,
            null_block,
        })
    }

    /// Number of extents.
    #[must_use]
    pub fn extents(&self) -> u32 {
        self.blocks / self.blocks_per_extent.max(1)
    }

    /// Bytes of an extent. Limits keep this and [`bytes`](Self::bytes) far below 2⁶⁴.
    #[must_use]
    pub fn extent_bytes(&self) -> u64 {
        let block = u64::from(self.layers).saturating_mul(self.page_bytes).saturating_add(self.block_padding);
        block.saturating_mul(self.blocks_per_extent.into())
    }

    /// Pages of all extents: one a layer and block.
    #[must_use]
    pub fn pages(&self) -> u64 {
        u64::from(self.layers).saturating_mul(self.blocks.into())
    }

    /// Bytes that allocations of all extents take: whole pages of the machine's, and one for the allocator.
    #[must_use]
    pub fn allocated_bytes(&self) -> u64 {
        const GRANULE: u64 = 4096;
        let extent = self.extent_bytes().div_ceil(GRANULE).saturating_add(1).saturating_mul(GRANULE);
        extent.saturating_mul(self.extents().into())
    }

    /// Bytes of all extents.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.extent_bytes().saturating_mul(self.extents().into())
    }
}
