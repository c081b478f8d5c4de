//! Where a row lies, and which row a token belongs to.

use crate::manifest::{Family, Group, LayerOrder, PoolOrder, Side};

/// A place in a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The extent.
    pub extent: u32,
    /// Bytes from its beginning.
    pub offset: u64,
}

/// Where the page of one layer of a group begins: `layer_offset[l] + block · block_stride`, within its extent.
///
/// `layer` is the group's, below its number of layers; the manifest's limits keep the sum within 64 bits.
#[must_use]
pub fn page_place(group: &Group, side: &Side, layer: u32, block: u32) -> Place {
    let pool = &side.pool;
    let extent = block / pool.blocks_per_extent;
    let index = u64::from(block % pool.blocks_per_extent);
    let layer = u64::from(pool_layer(group, side, layer));
    let offset = match pool.order {
        PoolOrder::LayersOutermost => {
            layer * u64::from(pool.blocks_per_extent) * pool.page_bytes + index * pool.page_bytes
        }
        PoolOrder::BlocksOutermost => {
            index * (u64::from(pool.layers) * pool.page_bytes + pool.block_padding) + layer * pool.page_bytes
        }
    };
    Place { extent, offset }
}

/// Where a row of a segment begins: its page's place `+ segment.offset + row · segment.row_stride`.
#[must_use]
pub fn row_place(group: &Group, side: &Side, layer: u32, block: u32, segment: usize, row: u32) -> Place {
    let page = page_place(group, side, layer, block);
    Place { offset: page.offset + row_offset(group, side, segment, row), ..page }
}

/// Bytes from the beginning of a page to a row: the rows of all segments before its own, then those before it.
pub fn row_offset(group: &Group, side: &Side, segment: usize, row: u32) -> u64 {
    let Some(shape) = group.shape.segments.get(segment) else { return 0 };
    let padding = u64::from(side.row_padding);
    let before = u64::from(group.shape.rows) * (shape.bytes_before + segment as u64 * padding);
    before + u64::from(row) * (u64::from(shape.row_bytes) + padding)
}

fn pool_layer(group: &Group, side: &Side, layer: u32) -> u32 {
    match side.layer_order {
        LayerOrder::Forward => side.first_layer + layer,
        LayerOrder::Reversed => side.first_layer + (group.layers - 1).saturating_sub(layer),
    }
}

/// Which layer of the group a layer of the pool is, if any.
pub fn group_layer(group: &Group, side: &Side, pool_layer: u32) -> Option<u32> {
    let number = pool_layer.checked_sub(side.first_layer).filter(|number| *number < group.layers)?;
    // Either order is its own inverse.
    let layer = self::pool_layer(group, side, number).checked_sub(side.first_layer);
    debug_assert!(layer.is_some_and(|layer| self::pool_layer(group, side, layer) == pool_layer));
    layer
}

/// The slot that the engine writes when it has computed a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// The page, by position in the request: 0 for rings and states.
    pub page: u64,
    /// The row within the page: 0 for states.
    pub row: u32,
}

/// The slot of a token, or `None` if its row waits for more tokens: a row of several tokens is written with the last
/// of them.
#[must_use]
pub fn slot(group: &Group, block_tokens: u32, position: u64) -> Option<Slot> {
    let small = |row: u64| u32::try_from(row).ok();
    match group.shape.family {
        Family::Tokens { tokens_per_row } => {
            let (block_tokens, tokens_per_row) = (u64::from(block_tokens), u64::from(tokens_per_row));
            let complete = position % tokens_per_row == tokens_per_row - 1;
            let row = small(position % block_tokens / tokens_per_row)?;
            complete.then_some(Slot { page: position / block_tokens, row })
        }
        Family::Ring => Some(Slot { page: 0, row: small(position % u64::from(group.shape.rows))? }),
        Family::State => Some(Slot { page: 0, row: 0 }),
    }
}
