//! Routes: a pair of sides, with the segment pairs and the access width that both allow.

use std::marker::PhantomData;
use std::sync::Arc;

use pagelift_abi as abi;

use super::Tables;
use super::group::GroupKind;
use super::pool::Pool;
use super::side::{Side, alignment_of};
use crate::error::{GeometryError, segment_words};
use crate::id::GroupId;
use crate::layout::Segment;

/// The most segment pairs of all routes of a geometry together. Kernels find a unit's pair by counting along, and rows
/// that lie apart are split into columns of 16 KiB: this is a gigabyte of them.
const MOST_PAIRS: u64 = 65_536;

/// A way between two sides of one group, with direction and kind in the type.
#[derive(Debug)]
pub struct RouteKey<D, K> {
    pub(crate) index: u32,
    pub(crate) geometry: u64,
    types: PhantomData<fn(D, K)>,
}

super::key::key!(RouteKey<D, K>: index, geometry);

impl<D, K> RouteKey<D, K> {
    pub(crate) const fn new(index: u32, geometry: u64) -> Self {
        Self { index, geometry, types: PhantomData }
    }
}

/// A way into a compact buffer, whose row `i` takes the `i`-th row of a list.
#[derive(Debug)]
pub struct CompactRouteKey<D, K>(pub(crate) RouteKey<D, K>);

super::key::key!(CompactRouteKey<D, K>: 0);

/// What plans need to know of a route.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub group: GroupId,
    /// Indices of the sides.
    pub source: u32,
    pub destination: u32,
    pub source_rows: u32,
    pub destination_rows: u32,
    /// Bytes of one row of all layers and segments.
    pub row_bytes: u64,
}

/// One end of a route to be.
pub(crate) struct End<'a> {
    pub index: u32,
    pub side: &'a Side,
    pub pool: &'a Pool,
}

/// What the blocks of a route's ends must have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocks {
    /// As many rows: in which slot of a ring a token lies depends on their number.
    Equal,
    /// Rows that differ by a power of two: logical blocks and kernel pages.
    Paired,
    /// The destination is one block of any number of rows.
    Compact,
}

impl Blocks {
    /// What the blocks of two sides of a group must have in common.
    pub const fn of(kind: GroupKind) -> Self {
        match kind {
            GroupKind::Paged => Self::Paired,
            GroupKind::Ring | GroupKind::State => Self::Equal,
        }
    }
}

/// Refuses sides that do not hold the same rows.
fn check_agree(
    group: &Arc<str>,
    source: &End<'_>,
    destination: &End<'_>,
    blocks: Blocks,
) -> Result<(), GeometryError> {
    let differ = |what, from: String, to: String| {
        Err(GeometryError::SidesDiffer { group: group.clone(), what, from, to })
    };
    let (from, to) = (source.side, destination.side);
    let (low, high) = (from.rows.min(to.rows), from.rows.max(to.rows));
    let paired = high.checked_rem(low) == Some(0) && high.checked_div(low).is_some_and(u32::is_power_of_two);
    let fits = match blocks {
        Blocks::Equal => low == high,
        Blocks::Paired => paired,
        Blocks::Compact => true,
    };
    if !fits {
        return differ("rows per block", from.rows.to_string(), to.rows.to_string());
    }
    if blocks == Blocks::Compact && destination.pool.blocks() != 1 {
        return differ("blocks of a compact buffer", "any".into(), destination.pool.blocks().to_string());
    }
    if from.slots_per_row != to.slots_per_row {
        return differ("tokens_per_row", from.slots_per_row.to_string(), to.slots_per_row.to_string());
    }
    let same = |(a, b): (&Segment, &Segment)| a.name() == b.name() && a.row_bytes() == b.row_bytes();
    if from.segments.len() != to.segments.len() || !from.segments.iter().zip(&to.segments).all(same) {
        return differ("the list of segments", segment_words(&from.segments), segment_words(&to.segments));
    }
    if from.conv_order != to.conv_order {
        let (group, from, to) = (group.clone(), from.conv_order, to.conv_order);
        return Err(GeometryError::ConvOrder { group, from, to });
    }
    Ok(())
}

/// Appends the route from `source` to `destination` to the tables.
pub(crate) fn encode(
    group: &Arc<str>,
    layers: u32,
    source: &End<'_>,
    destination: &End<'_>,
    blocks: Blocks,
    tables: &mut Tables,
) -> Result<u32, GeometryError> {
    check_agree(group, source, destination, blocks)?;
    let overflow = |what| GeometryError::Overflow { place: group.clone(), what };
    let index = u32::try_from(tables.routes.len()).map_err(|_| overflow("the number of routes"))?;
    let alignment = source.side.alignment().min(destination.side.alignment());
    let (first_segment, segments) = push_all(group, &joined(source, destination), alignment, tables)?;
    tables.routes.push(abi::Route {
        source: source.side.encode(group, source.pool, &mut tables.bases)?,
        destination: destination.side.encode(group, destination.pool, &mut tables.bases)?,
        layers,
        segments,
        first_segment,
        reserved: 0,
    });
    tables.ways.push(Route {
        group: source.side.group,
        source: source.index,
        destination: destination.index,
        source_rows: source.side.rows,
        destination_rows: destination.side.rows,
        row_bytes: source.side.row_bytes().saturating_mul(u64::from(layers)),
    });
    Ok(index)
}

/// Where the rows of one or more segments that lie together on both sides begin, and how long they are.
#[derive(Clone, Copy)]
struct Pair {
    offsets: [u64; 2],
    bases: [u32; 2],
    strides: [u32; 2],
    row_bytes: u32,
    /// Whether there is a second row, so that strides mean something.
    many_rows: bool,
}

/// The segments of two sides as pairs. Neighbours whose rows lie side by side on both sides are one pair: the heads of a
/// token are copied together from NHD to NHD, and one by one between NHD and HND.
fn joined(source: &End<'_>, destination: &End<'_>) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = Vec::with_capacity(source.side.segments.len());
    for (from, to) in source.side.segments.iter().zip(&destination.side.segments) {
        let next = Pair {
            offsets: [from.offset(), to.offset()],
            bases: [
                from.region().saturating_mul(source.pool.extents),
                to.region().saturating_mul(destination.pool.extents),
            ],
            strides: [from.row_stride(), to.row_stride()],
            row_bytes: from.row_bytes(),
            many_rows: source.side.rows > 1 || destination.side.rows > 1,
        };
        match pairs.last_mut() {
            Some(last) if last.joins(&next) => last.row_bytes = last.row_bytes.saturating_add(next.row_bytes),
            _ => pairs.push(next),
        }
    }
    pairs
}

impl Pair {
    /// Whether `next` continues each row of this pair on both sides.
    fn joins(&self, next: &Self) -> bool {
        let bytes = u64::from(self.row_bytes);
        let adjacent = |side: usize| {
            let (here, there) = (self.offsets.get(side), next.offsets.get(side));
            here.zip(there).is_some_and(|(here, there)| here.checked_add(bytes) == Some(*there))
        };
        let strides = self.strides == next.strides || !self.many_rows;
        let fits = self.row_bytes.checked_add(next.row_bytes).is_some();
        fits && strides && self.bases == next.bases && adjacent(0) && adjacent(1)
    }

    /// Whether all rows lie one after the other on both sides.
    fn is_contiguous(&self) -> bool {
        !self.many_rows || self.strides == [self.row_bytes, self.row_bytes]
    }

    /// Entries of the table: one, unless rows lie apart and are longer than a unit, when they are split into columns.
    fn columns(&self) -> u64 {
        if self.is_contiguous() { 1 } else { u64::from(self.row_bytes.div_ceil(abi::UNIT_BYTES)) }
    }

    /// Appends the pair's entries.
    fn push(&self, alignment: u64, pairs: &mut Vec<abi::SegmentPair>) {
        let Self { offsets, bases, strides, row_bytes, many_rows } = *self;
        let mut bits = offsets.iter().fold(u64::from(row_bytes), |bits, offset| bits | offset);
        if many_rows {
            bits = strides.iter().fold(bits, |bits, stride| bits | u64::from(*stride));
        }
        let width = u16::try_from(alignment_of(bits).min(alignment)).unwrap_or(1);
        let [source_offset, destination_offset] = offsets;
        let [source_base, destination_base] = bases;
        let [source_stride, destination_stride] = strides;
        let pair = |column: u32, bytes: u32, rows_log2: u16| abi::SegmentPair {
            source_offset: source_offset.saturating_add(u64::from(column)),
            destination_offset: destination_offset.saturating_add(u64::from(column)),
            source_base,
            destination_base,
            source_stride,
            destination_stride,
            row_bytes: bytes,
            width,
            rows_log2,
        };
        if self.is_contiguous() {
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
}

/// Appends pairs to the tables, where they fit; returns the first one's number, and how many entries there are.
fn push_all(
    group: &Arc<str>,
    pairs: &[Pair],
    alignment: u64,
    tables: &mut Tables,
) -> Result<(u32, u32), GeometryError> {
    let overflow = || GeometryError::Overflow { place: group.clone(), what: "the number of segment pairs" };
    let columns = pairs.iter().fold(0_u64, |sum, pair| sum.saturating_add(pair.columns()));
    let first = u32::try_from(tables.segments.len()).map_err(|_| overflow())?;
    let all = columns.saturating_add(u64::from(first));
    let count = u32::try_from(columns).ok().filter(|_| all <= MOST_PAIRS).ok_or_else(overflow)?;
    pairs.iter().for_each(|pair| pair.push(alignment, &mut tables.segments));
    Ok((first, count))
}

/// Appends the route by which a digest reads a side. Its destination fields say what each run is logically.
pub(crate) fn encode_digest(
    group: &Arc<str>,
    layers: u32,
    end: &End<'_>,
    tables: &mut Tables,
) -> Result<u32, GeometryError> {
    let overflow = |what| GeometryError::Overflow { place: group.clone(), what };
    let index = u32::try_from(tables.routes.len()).map_err(|_| overflow("the number of routes"))?;
    let whole = |(number, segment): (u32, &Segment)| Pair {
        offsets: [segment.offset(), 0],
        bases: [segment.region().saturating_mul(end.pool.extents), number],
        // A stride that is no row's length keeps the rows apart, so that each begins a word of its own.
        strides: [segment.row_stride(), 0],
        row_bytes: segment.row_bytes(),
        many_rows: true,
    };
    let pairs: Vec<Pair> = (0..).zip(&end.side.segments).map(whole).collect();
    let (first_segment, segments) = push_all(group, &pairs, end.side.alignment(), tables)?;
    let source = end.side.encode(group, end.pool, &mut tables.bases)?;
    tables.routes.push(abi::Route {
        source,
        destination: source,
        layers,
        segments,
        first_segment,
        reserved: 0,
    });
    tables.ways.push(Route {
        group: end.side.group,
        source: end.index,
        destination: end.index,
        source_rows: end.side.rows,
        destination_rows: end.side.rows,
        row_bytes: end.side.row_bytes().saturating_mul(u64::from(layers)),
    });
    Ok(index)
}
