//! A plan of row jobs: which rows is read on the device, when the launch runs.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use pagelift_abi as abi;
use serde::{Deserialize, Serialize};

use super::binding::RowBinding;
use super::direction::{DeviceToHost, Direction, block_words};
use super::gather::no_route;
use super::jobs::capacity_error;
use super::map::PageMap;
use super::table::{table_bytes, write_table};
use super::{Plan, PlanSummary, Staging};
use crate::error::PlanError;
use crate::geometry::{CompactRouteKey, Geometry, GroupKey, HasRows, Region, Route, RouteKey};
use crate::quantity::Bytes;
use crate::room::{check_most, with_room};

/// Room of a row plan and of its table: at most [`RowCapacity::MOST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowCapacity {
    /// Bindings: one for each mirrored group.
    pub jobs: u32,
    /// Page-map changes of one staging.
    pub changes: u32,
}

impl Default for RowCapacity {
    /// 16 groups, 1024 changes: a table of about 9 KiB.
    fn default() -> Self {
        Self { jobs: 16, changes: 1024 }
    }
}

impl RowCapacity {
    /// The largest capacity that a plan is made with.
    pub const MOST: Self = Self { jobs: 1 << 16, changes: 1 << 24 };

    /// Refuses a capacity past the largest.
    fn check(self) -> Result<(), PlanError> {
        check_most("row bindings", self.jobs.into(), Self::MOST.jobs.into())?;
        check_most("page-map changes", self.changes.into(), Self::MOST.changes.into())
    }
}

/// Rows that a step wrote, or that an index list names, in one launch, in direction `D`.
///
/// Bindings stay from step to step; [`RowPlan::page_map`] changes as pages come and go. The map is kept on the device by
/// the launcher that was bound with this plan last; others refuse the plan.
#[derive(Debug)]
pub struct RowPlan<D> {
    geometry: Arc<Geometry>,
    capacity: RowCapacity,
    jobs: Vec<abi::RowJob>,
    bindings: Vec<RowBinding>,
    map: PageMap,
    /// The launcher that keeps the map; 0 for none.
    launcher: u64,
    direction: PhantomData<D>,
}

impl<D: Direction> RowPlan<D> {
    /// A plan with no bindings and an empty page map. All its memory is allocated here.
    ///
    /// # Errors
    /// [`PlanError::Capacity`] where the capacity is past [`RowCapacity::MOST`], the geometry's pools have more than 2²⁶
    /// blocks together, or as many can be mapped; [`PlanError::OutOfMemory`] where there is no memory for so much.
    pub fn new(geometry: Arc<Geometry>, capacity: RowCapacity) -> Result<Self, PlanError> {
        capacity.check()?;
        Ok(Self {
            map: PageMap::new(Arc::clone(&geometry), capacity.changes)?,
            jobs: with_room("row bindings", capacity.jobs.into())?,
            bindings: with_room("row bindings", capacity.jobs.into())?,
            geometry,
            capacity,
            launcher: 0,
            direction: PhantomData,
        })
    }

    /// Which host block mirrors which page.
    #[must_use]
    pub const fn page_map(&self) -> &PageMap {
        &self.map
    }

    /// Changes which host block mirrors which page.
    pub fn page_map_mut(&mut self) -> &mut PageMap {
        &mut self.map
    }

    /// Forgets all bindings, and keeps the page map.
    pub fn clear_bindings(&mut self) {
        self.jobs.clear();
        self.bindings.clear();
    }

    /// Calls `body` with the plan as it would be without its bindings: to stage one that copies nothing. They stay.
    #[doc(hidden)]
    pub fn unbound<T>(&mut self, body: impl FnOnce(&mut Self) -> T) -> T {
        let bound = (std::mem::take(&mut self.jobs), std::mem::take(&mut self.bindings));
        let done = body(self);
        (self.jobs, self.bindings) = bound;
        done
    }

    /// What is planned, to be read or serialised.
    #[must_use]
    pub fn summary(&self) -> PlanSummary {
        PlanSummary::of_rows(D::NAME, &self.geometry, &self.jobs)
    }
}

impl RowPlan<DeviceToHost> {
    /// Mirrors the rows of `group` that a step wrote, as `binding` will say on the device.
    ///
    /// # Errors
    /// Where the group has no host side or is bound already, an address is null or misaligned, slots or rows need more
    /// than 32 bits, or no more bindings fit. The plan is then as it was.
    pub fn bind<K: HasRows>(&mut self, group: GroupKey<K>, binding: RowBinding) -> Result<(), PlanError> {
        if group.geometry != self.geometry.stamp {
            return Err(PlanError::ForeignGroup { group: group.id });
        }
        let route = self.geometry.spill_route(group);
        let route = route.ok_or_else(|| no_route(&self.geometry, group.id, DeviceToHost::NAME))?;
        let map = self.geometry.group(group.id).map_or(0, |group| group.map_first);
        self.push(route, binding, Target::Mapped { first_entry: map })
    }

    /// Whether rows of `group` are bound, by [`RowPlan::bind`].
    #[must_use]
    pub fn is_bound<K: HasRows>(&self, group: GroupKey<K>) -> bool {
        let route = self.geometry.spill_route(group);
        route.is_some_and(|route| self.jobs.iter().any(|job| job.route == route.index))
    }
}

impl<D: Direction> RowPlan<D> {
    /// Gathers rows by an index list into a compact buffer: entry `i` of the list names a row of the source side
    /// (row `r % rows` of block `r / rows`), which goes to row `i`. Negative entries leave their row alone.
    ///
    /// # Errors
    /// Where the key is of another geometry or bound already, another binding writes to the buffer or one reads it, the
    /// list has room for more entries than the buffer has rows, an address is null or misaligned, or no more bindings
    /// fit. The plan is then as it was.
    pub fn gather_rows<K: HasRows>(
        &mut self,
        route: CompactRouteKey<D, K>,
        list: RowBinding,
    ) -> Result<(), PlanError> {
        self.push(route.0, list, Target::Compact)
    }

    fn push<K>(&mut self, key: RouteKey<D, K>, binding: RowBinding, target: Target) -> Result<(), PlanError> {
        let way = self.geometry.way(key.index).filter(|_| key.geometry == self.geometry.stamp);
        let way = way.ok_or(PlanError::ForeignKey)?;
        let name = self.geometry.group_name(way.group);
        if self.jobs.iter().any(|job| job.route == key.index) {
            return Err(PlanError::BoundTwice { group: name });
        }
        self.check_buffers(&way, target, &name)?;
        binding.check(&name)?;
        let wrong = |what: String| Err(PlanError::Binding { group: name.clone(), what });
        let source = self.geometry.side_at(way.source).ok_or(PlanError::ForeignKey)?;
        let blocks = self.geometry.pool(source.pool).map_or(0, |pool| pool.blocks());
        // A compact copy names rows and not tokens.
        let (slots, slots_per_row) = match target {
            Target::Mapped { .. } => (source.slots, source.slots_per_row),
            Target::Compact => (source.rows, 1),
        };
        // Kernels number slots and units in 32 bits.
        let limit = u64::from(u32::MAX).saturating_add(1);
        let all_slots = u64::from(blocks).saturating_mul(u64::from(slots));
        if all_slots > limit {
            return wrong(format!("expected at most 2^32 slots in all pages of the pool, found {all_slots}"));
        }
        let runs = usize::try_from(key.index).ok().and_then(|index| self.geometry.routes().get(index));
        let runs = runs.map_or(0, |route| u64::from(route.layers).saturating_mul(u64::from(route.segments)));
        let units = u64::from(binding.capacity.max(1)).saturating_mul(runs);
        if units >= limit {
            return wrong(format!(
                "expected fewer than 2^32 rows to copy, found {units}: {} entries of {runs} runs each",
                binding.capacity
            ));
        }
        if matches!(target, Target::Compact) && binding.capacity > way.destination_rows {
            return wrong(format!(
                "expected a list of at most {} entries, the rows of the compact buffer, found {}",
                way.destination_rows, binding.capacity
            ));
        }
        let null_page = binding.null(&name)?;
        if self.jobs.len() >= usize::try_from(self.capacity.jobs).unwrap_or(usize::MAX) {
            let needed = u64::from(self.capacity.jobs).saturating_add(1);
            return Err(capacity_error("row bindings", needed, self.capacity.jobs));
        }
        let queries = binding.queries;
        let (map, flags) = match target {
            Target::Mapped { first_entry } => (first_entry, 0),
            Target::Compact => (0, abi::row_job::COMPACT),
        };
        self.jobs.push(abi::RowJob {
            slots: binding.slots,
            count: binding.count.unwrap_or(0),
            query_starts: queries.map_or(0, |queries| queries.starts),
            accepted: queries.and_then(|queries| queries.accepted).unwrap_or(0),
            route: key.index,
            capacity: binding.capacity,
            requests: queries.map_or(0, |queries| queries.requests),
            slot_bytes: binding.width.bytes(),
            page_slots: slots,
            tokens_per_row: slots_per_row,
            map,
            null_page,
            map_rows: way.source_rows.min(way.destination_rows),
            block_rows: way.destination_rows,
            flags,
            reserved: 0,
        });
        self.bindings.push(binding);
        Ok(())
    }

    /// Refuses a compact buffer that another binding writes, or that one of them reads: it is one block, which no page
    /// map gives to one of them.
    fn check_buffers(&self, way: &Route, target: Target, group: &Arc<str>) -> Result<(), PlanError> {
        let pools = |way: &Route| {
            [way.source, way.destination].map(|side| self.geometry.side_at(side).map(|side| side.pool))
        };
        let block = || block_words(D::DESTINATION, 0);
        let [source, buffer] = pools(way);
        let compact = matches!(target, Target::Compact);
        if compact && source == buffer {
            return Err(PlanError::Overlap { group: group.clone(), block: block() });
        }
        for job in self.jobs.iter().filter(|job| compact || job.flags & abi::row_job::COMPACT != 0) {
            let Some([other_source, other_buffer]) = self.geometry.way(job.route).as_ref().map(pools) else {
                continue;
            };
            if other_buffer == buffer {
                let (first, end) = (0, way.destination_rows);
                return Err(PlanError::WrittenTwice { group: group.clone(), block: block(), first, end });
            }
            if other_source == buffer || other_buffer == source {
                return Err(PlanError::Overlap { group: group.clone(), block: block() });
            }
        }
        Ok(())
    }
}

/// Where rows go.
#[derive(Clone, Copy)]
enum Target {
    /// Where the page map says.
    Mapped { first_entry: u32 },
    /// To the row of the entry's number.
    Compact,
}

impl<D: Direction> Plan for RowPlan<D> {
    fn geometry(&self) -> &Arc<Geometry> {
        &self.geometry
    }

    fn jobs(&self) -> usize {
        self.jobs.len()
    }

    fn bytes(&self) -> Option<Bytes> {
        None
    }

    fn table_bytes(&self) -> usize {
        table_bytes(size_of::<abi::RowJob>(), self.capacity.jobs, 0, self.capacity.changes)
    }

    fn encode(&self, staging: Staging, table: &mut [u8]) -> Result<usize, PlanError> {
        write_table(staging, 0, &self.jobs, &[], self.map.pending(), table)
    }

    fn arrays(&self) -> impl Iterator<Item = Region> {
        self.bindings.iter().flat_map(RowBinding::arrays)
    }

    fn launcher(&self) -> Option<u64> {
        // Launchers are counted from 1: what nobody keeps belongs to none of them.
        Some(self.launcher)
    }

    fn maps(&self) -> &[i32] {
        self.map.entries()
    }

    fn attach(&mut self, launcher: u64) {
        self.launcher = launcher;
        self.map.staged();
    }

    fn staged(&mut self) {
        self.map.staged();
    }
}

impl<D: Direction> fmt::Display for RowPlan<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.summary().fmt(f)
    }
}
