//! Routes: a pair of sides, with the segment pairs and the access width that both allow.

use std::sync::Arc;

use pagelift_abi as abi;

use super::Tables;
use super::group::RouteRef;
use super::pool::Pool;
use super::side::{Side, alignment_of};
use crate::error::{GeometryError, segment_words};
use crate::layout::{Segment, Shape};

/// One side of a route to be.
pub(crate) struct End<'a> {
    pub side: &'a Side,
    pub pool: &'a Pool,
    pub shape: Shape<'a>,
}

/// Refuses sides that do not hold the same rows.
pub(crate) fn check_agree(
    group: &Arc<str>,
    host: &Shape<'_>,
    device: &Shape<'_>,
) -> Result<(), GeometryError> {
    let differ = |what, host: String, device: String| {
        Err(GeometryError::SidesDiffer { group: group.clone(), what, host, device })
    };
    if host.rows != device.rows {
        return differ("rows per block", host.rows.to_string(), device.rows.to_string());
    }
    if host.slots_per_row != device.slots_per_row {
        return differ("tokens_per_row", host.slots_per_row.to_string(), device.slots_per_row.to_string());
    }
    let same = |(a, b): (&Segment, &Segment)| a.name() == b.name() && a.row_bytes() == b.row_bytes();
    if host.segments.len() != device.segments.len() || !host.segments.iter().zip(device.segments).all(same) {
        return differ("the list of segments", segment_words(host.segments), segment_words(device.segments));
    }
    Ok(())
}

/// Appends the route from `source` to `destination` to the tables.
pub(crate) fn encode(
    group: &Arc<str>,
    layers: u32,
    source: &End<'_>,
    destination: &End<'_>,
    tables: &mut Tables,
) -> Result<RouteRef, GeometryError> {
    let overflow = |what| GeometryError::Overflow { place: group.clone(), what };
    let index = u32::try_from(tables.routes.len()).map_err(|_| overflow("the number of routes"))?;
    let first_segment =
        u32::try_from(tables.segments.len()).map_err(|_| overflow("the number of segments"))?;
    let alignment = source.side.alignment().min(destination.side.alignment());
    let rows = source.shape.rows;
    for (from, to) in source.shape.segments.iter().zip(destination.shape.segments) {
        push_pairs(from, to, rows, alignment, &mut tables.segments);
    }
    let segments = u32::try_from(tables.segments.len())
        .ok()
        .and_then(|end| end.checked_sub(first_segment))
        .ok_or_else(|| overflow("the number of segments"))?;
    let route = abi::Route {
        source: source.side.encode(group, source.pool, &mut tables.bases)?,
        destination: destination.side.encode(group, destination.pool, &mut tables.bases)?,
        layers,
        segments,
        first_segment,
        reserved: 0,
    };
    tables.routes.push(route);
    let row = source.shape.segments.iter().fold(0_u64, |sum, s| sum.saturating_add(u64::from(s.row_bytes())));
    Ok(RouteRef { index, row_bytes: row.saturating_mul(u64::from(layers)) })
}

/// The pairs of one segment: one, unless its rows lie apart and are longer than a unit, when they are split into
/// columns.
fn push_pairs(from: &Segment, to: &Segment, rows: u32, alignment: u64, pairs: &mut Vec<abi::SegmentPair>) {
    let row_bytes = from.row_bytes();
    let contiguous = rows == 1 || (from.row_stride() == row_bytes && to.row_stride() == row_bytes);
    // Bytes that lie between the rows' starts matter only where there is a second row.
    let strides = if rows == 1 { 0 } else { u64::from(from.row_stride() | to.row_stride()) };
    let bits = from.offset() | to.offset() | u64::from(row_bytes) | strides;
    let width = u16::try_from(alignment_of(bits).min(alignment)).unwrap_or(1);
    let pair = |column: u32, bytes: u32, rows_log2: u16| abi::SegmentPair {
        source_offset: from.offset().saturating_add(u64::from(column)),
        destination_offset: to.offset().saturating_add(u64::from(column)),
        source_base: 0,
        destination_base: 0,
        source_stride: from.row_stride(),
        destination_stride: to.row_stride(),
        row_bytes: bytes,
        width,
        rows_log2,
    };
    if contiguous {
        pairs.push(pair(0, row_bytes, abi::CONTIGUOUS));
        return;
    }
    let mut column = 0_u32;
    while column < row_bytes {
        let bytes = row_bytes.saturating_sub(column).min(abi::UNIT_BYTES);
        let rows_log2 = abi::UNIT_BYTES.checked_div(bytes).and_then(u32::checked_ilog2).unwrap_or(0);
        pairs.push(pair(column, bytes, u16::try_from(rows_log2).unwrap_or(0)));
        column = column.saturating_add(abi::UNIT_BYTES);
    }
}
