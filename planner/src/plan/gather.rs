//! Gathers: whole blocks between any two sides, zeros, and copies back to the host.

use super::claims::Use;
use super::direction::{DeviceToHost, Direction};
use super::jobs::Piece;
use super::pages::PagePlan;
use super::run::Rows;
use crate::error::PlanError;
use crate::geometry::{GroupKey, HasRows, Kind, Paged, RouteKey, State};
use crate::id::{BlockId, HostBlockId, PageId};
use crate::quantity;

impl<D: Direction> PagePlan<D> {
    /// Copies whole blocks along a route, `sources[i]` to `destinations[i]`.
    ///
    /// Where rows per block differ, both lists are read as one row of rows after another: two blocks of 128 fill four
    /// pages of 64, and 160 tokens need two blocks but three pages. One side's last block may then be used in part, as
    /// far as the other side goes; a block that would not be used at all is refused.
    ///
    /// # Errors
    /// Where the lists do not fit each other, an id is out of range, a row is written twice or read and written, a block
    /// belongs to another group, or the table is full. The plan is then as it was.
    pub fn gather<K: Kind>(
        &mut self,
        route: RouteKey<D, K>,
        sources: &[D::Source],
        destinations: &[D::Destination],
    ) -> Result<(), PlanError> {
        let mark = self.begin();
        let way = self.way(route)?;
        let length = |blocks: usize| u64::try_from(blocks).unwrap_or(u64::MAX);
        let (from, to) = (length(sources.len()), length(destinations.len()));
        let rows_of = [way.1.source_rows, way.1.destination_rows].map(|rows| u64::from(rows.max(1)));
        let [available, room] = [from.saturating_mul(rows_of[0]), to.saturating_mul(rows_of[1])];
        let rows = available.min(room);
        if [from, to] != rows_of.map(|block| rows.div_ceil(block)) {
            return Err(PlanError::ListLength {
                group: self.geometry.group_name(way.1.group),
                list: "destinations",
                expected: available.div_ceil(rows_of[1]),
                found: to,
            });
        }
        let run = Rows { first_step: [0, 0], count: rows, claimed: false };
        self.add_run(way, sources, destinations, run).inspect_err(|_| self.rewind(mark))
    }

    /// Writes zeros to rows `first..first + rows` of a block at the end of a route: what an import did not cover.
    ///
    /// # Errors
    /// Where the rows are not the block's, they are written already, or the table is full. The plan is then as it was.
    pub fn zero<K: HasRows>(
        &mut self,
        route: RouteKey<D, K>,
        block: D::Destination,
        first: quantity::Rows,
        rows: quantity::Rows,
    ) -> Result<(), PlanError> {
        let mark = self.begin();
        let way = self.way(route)?;
        let end = first.checked_add(rows).filter(|end| end.get() <= way.1.destination_rows);
        let Some(end) = end else {
            return Err(PlanError::RowsOutOfRange {
                group: self.geometry.group_name(way.1.group),
                first: first.get(),
                rows: rows.get(),
                block_rows: way.1.destination_rows,
            });
        };
        let piece = Piece { source_row: 0, destination_row: first.get(), rows: rows.get(), zero: true };
        let pair = pagelift_abi::BlockPair { source: 0, destination: block.raw() };
        self.add(way, std::iter::once(pair), piece)
            .and_then(|()| self.claim(way.1.destination, block.raw(), first.get()..end.get(), Use::Write))
            .inspect_err(|_| self.rewind(mark))
    }
}

impl PagePlan<DeviceToHost> {
    /// Writes pages of a paged group back to host blocks, whole.
    ///
    /// # Errors
    /// As [`PagePlan::gather`], and where the group has no host side.
    pub fn spill(
        &mut self,
        group: GroupKey<Paged>,
        pages: &[PageId],
        blocks: &[HostBlockId],
    ) -> Result<(), PlanError> {
        let route = self.spill_route(group)?;
        self.gather(route, pages, blocks)
    }

    /// Writes one request's state back to a host block: the whole page, all layers.
    ///
    /// # Errors
    /// As [`PagePlan::gather`], and where the group has no host side.
    pub fn checkpoint(
        &mut self,
        group: GroupKey<State>,
        page: PageId,
        block: HostBlockId,
    ) -> Result<(), PlanError> {
        let route = self.spill_route(group)?;
        self.gather(route, &[page], &[block])
    }

    fn spill_route<K: Kind>(&self, group: GroupKey<K>) -> Result<RouteKey<DeviceToHost, K>, PlanError> {
        if group.geometry != self.geometry.stamp {
            return Err(PlanError::ForeignGroup { group: group.id });
        }
        self.geometry.spill_route(group).ok_or_else(|| no_route(&self.geometry, group.id, DeviceToHost::NAME))
    }
}

/// What a group lacks that cannot be copied in that direction.
pub(crate) fn no_route(
    geometry: &crate::geometry::Geometry,
    id: crate::id::GroupId,
    direction: &'static str,
) -> PlanError {
    let side = match geometry.group(id).map(|group| (group.host, group.device)) {
        Some((None, Some(_))) => "host",
        Some((Some(_), None)) => "device",
        _ => "host or device",
    };
    PlanError::NoRoute { group: geometry.group_name(id), side, direction }
}
