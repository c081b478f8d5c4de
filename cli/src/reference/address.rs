//! Where a row lies, and which row a token belongs to.

use crate::manifest::{
    Dense, Family, Group, HeadOrder, KvRegions, LayerOrder, Part, PoolOrder, Segment, Side,
};

/// A place in a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The extent.
    pub extent: u32,
    /// Bytes from its beginning.
    pub offset: u64,
}

/// Where a region of the page of one layer of a group begins: `layer_offset[l] + block · block_stride`, within its
/// extent.
///
/// `layer` is the group's, below its number of layers; the manifest's limits keep the sum within 64 bits.
#[must_use]
pub fn page_place(group: &Group, side: &Side, (layer, region): (u32, u32), block: u32) -> Place {
    let pool = &side.pool;
    let extent = block / pool.blocks_per_extent;
    let index = u64::from(block % pool.blocks_per_extent);
    let layer = u64::from(pool_layer(group, side, layer, region));
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

/// Where a row of a segment begins: the place of its region of the page `+ segment.offset + row · segment.row_stride`.
#[must_use]
pub fn row_place(group: &Group, side: &Side, layer: u32, block: u32, segment: usize, row: u32) -> Place {
    let (region, offset) = within_page(group, side, segment, row);
    let page = page_place(group, side, (layer, region), block);
    Place { offset: page.offset + offset, ..page }
}

/// The region of a page that a row lies in, and how many bytes from its beginning.
fn within_page(group: &Group, side: &Side, segment: usize, row: u32) -> (u32, u64) {
    let Some(shape) = group.shape.segments.get(segment) else { return (0, 0) };
    let (rows, row, row_bytes) = (u64::from(side.rows), u64::from(row), u64::from(shape.row_bytes));
    // The values of K, or of V.
    let values = |dense: Dense| rows * u64::from(dense.heads) * u64::from(dense.head_bytes);
    match (shape.part, side.kv_regions) {
        // The rows of all segments before its own, then those before it.
        (Part::Plane { bytes_before }, _) => {
            let padding = u64::from(side.row_padding);
            (0, rows * (bytes_before + segment as u64 * padding) + row * (row_bytes + padding))
        }
        (Part::Head { tensor, head, dense }, regions) => {
            let heads_before = match side.head_order {
                HeadOrder::Nhd => row * u64::from(dense.heads) + u64::from(head),
                HeadOrder::Hnd => u64::from(head) * rows + row,
            };
            let offset = heads_before * u64::from(dense.head_bytes);
            match regions {
                KvRegions::One => (0, u64::from(tensor) * values(dense) + offset),
                KvRegions::Two => (tensor, offset),
            }
        }
        (Part::Scales { tensor, dense }, KvRegions::One) => {
            (0, 2 * values(dense) + (u64::from(tensor) * rows + row) * row_bytes)
        }
        (Part::Scales { tensor, dense }, KvRegions::Two) => (tensor, values(dense) + row * row_bytes),
    }
}

/// A row of a segment, and where it begins in its region of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowAt {
    /// The segment.
    pub segment: usize,
    /// The row.
    pub row: u32,
    /// Bytes from the beginning of the region.
    pub start: usize,
    /// Bytes from there to the end of the row.
    pub end: usize,
}

/// All rows of one region of a page, in the order in which they lie there.
pub fn rows_in_order(group: &Group, side: &Side, region: u32) -> impl Iterator<Item = RowAt> {
    // The heads of a token lie side by side if heads are inside rows; every other segment lies alone.
    let side_by_side = |one: &Segment, next: &Segment| match (one.part, next.part) {
        (Part::Head { tensor: one, .. }, Part::Head { tensor: next, .. }) => {
            side.head_order == HeadOrder::Nhd && one == next
        }
        _ => false,
    };
    let mut first = 0;
    let runs = group.shape.segments.chunk_by(side_by_side).map(move |run| {
        let segments = first..first + run.len();
        first = segments.end;
        segments
    });
    let rows = runs.flat_map(|segments| {
        (0..side.rows).flat_map(move |row| segments.clone().map(move |segment| (segment, row)))
    });
    rows.filter_map(move |(segment, row)| {
        let (in_region, start) = within_page(group, side, segment, row);
        let bytes = group.shape.segments.get(segment)?.row_bytes;
        // A page is far smaller than the address space.
        let start = start as usize;
        (in_region == region).then_some(RowAt { segment, row, start, end: start + bytes as usize })
    })
}

/// The layer of the pool that holds a region of a layer of the group: K's layer is followed by V's where they are
/// apart.
fn pool_layer(group: &Group, side: &Side, layer: u32, region: u32) -> u32 {
    let number = match side.layer_order {
        LayerOrder::Forward => layer,
        LayerOrder::Reversed => (group.layers - 1).saturating_sub(layer),
    };
    side.first_layer + number * side.kv_regions.count() + region
}

/// Which layer of the group, and which region of it, a layer of the pool is, if any.
pub fn group_layer(group: &Group, side: &Side, pool_layer: u32) -> Option<(u32, u32)> {
    let (regions, number) = (side.kv_regions.count(), pool_layer.checked_sub(side.first_layer)?);
    let (number, region) = (number / regions, number % regions);
    let layer = match side.layer_order {
        LayerOrder::Forward => number,
        LayerOrder::Reversed => group.layers.checked_sub(number + 1)?,
    };
    (layer < group.layers).then_some((layer, region))
}

/// The slot that the engine writes, or that mirrors it, when a token is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// The page, by position in the request: 0 for rings and states.
    pub page: u64,
    /// The row within the page: 0 for states.
    pub row: u32,
}

/// The slot of a token on a side, or `None` if its row waits for more tokens: a row of several tokens is written with the last
/// of them.
#[must_use]
pub fn slot(group: &Group, side: &Side, position: u64) -> Option<Slot> {
    let small = |row: u64| u32::try_from(row).ok();
    match group.shape.family {
        Family::Tokens { tokens_per_row } => {
            let (page_tokens, tokens_per_row) = (u64::from(side.page_tokens), u64::from(tokens_per_row));
            let complete = position % tokens_per_row == tokens_per_row - 1;
            let row = small(position % page_tokens / tokens_per_row)?;
            complete.then_some(Slot { page: position / page_tokens, row })
        }
        Family::Ring => Some(Slot { page: 0, row: small(position % u64::from(side.rows))? }),
        Family::State => Some(Slot { page: 0, row: 0 }),
    }
}
