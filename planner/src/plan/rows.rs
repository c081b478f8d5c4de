//! A plan of row jobs: which rows is read on the device, when the launch runs.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use pagelift_abi as abi;
use serde::{Deserialize, Serialize};

use super::direction::{DeviceToHost, Direction};
use super::map::PageMap;
use super::pages::{capacity_error, no_route};
use super::{Plan, PlanSummary, Staging, table_bytes, write_table};
use crate::error::PlanError;
use crate::geometry::{Geometry, Group, GroupKey, HasRows, Region, RouteRef};
use crate::id::PageId;
use crate::quantity::Bytes;

/// How wide a slot-mapping entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SlotWidth {
    /// `i32`.
    I32,
    /// `i64`, as vLLM keeps it.
    I64,
}

impl SlotWidth {
    /// Bytes of an entry.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            Self::I32 => 4,
            Self::I64 => 8,
        }
    }
}

/// Where each request's tokens begin, and how many of them were accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Queries {
    /// Device address of `i32[requests + 1]`, not falling; the last entry is the number of tokens. Unused requests
    /// at the end repeat it.
    pub starts: u64,
    /// Device address of `i32[requests]`: the accepted tokens of each request, a prefix. `None`: all are.
    pub accepted: Option<u64>,
    /// Requests.
    pub requests: u32,
}

/// The device arrays that say which rows a step wrote. Their addresses are fixed when a graph is captured; their
/// contents are read by each replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RowBinding {
    /// Device address of the slot mapping: one entry for each token, the slot that its row was written to. Slot `s`
    /// is slot `s % page_slots` of page `s / page_slots`; a negative one is padding.
    pub slots: u64,
    /// How wide an entry is.
    pub width: SlotWidth,
    /// Entries that there is room for.
    pub capacity: u32,
    /// Device address of an `i32`, the valid entries; `None`: all are.
    pub count: Option<u64>,
    /// Requests, where drafts may be rejected.
    pub queries: Option<Queries>,
    /// A page that means 'no page'. Page 0 does in some engines, and is an ordinary page in others.
    pub null_page: Option<PageId>,
}

impl RowBinding {
    /// All `capacity` entries of an `i64` slot mapping.
    #[must_use]
    pub const fn new(slots: u64, capacity: u32) -> Self {
        Self { slots, width: SlotWidth::I64, capacity, count: None, queries: None, null_page: None }
    }

    /// The arrays that a launch reads.
    fn arrays(&self) -> impl Iterator<Item = Region> + use<> {
        let requests = self.queries.map_or(0, |queries| u64::from(queries.requests));
        let slots = u64::from(self.capacity).saturating_mul(u64::from(self.width.bytes()));
        let starts = requests.saturating_add(1).saturating_mul(4);
        [
            Some(Region::new(self.slots, slots)),
            self.count.map(|address| Region::new(address, 4)),
            self.queries.map(|queries| Region::new(queries.starts, starts)),
            self.queries
                .and_then(|queries| queries.accepted)
                .map(|at| Region::new(at, requests.saturating_mul(4))),
        ]
        .into_iter()
        .flatten()
    }

    /// Refuses addresses that a kernel could not read.
    fn check(&self, group: &Group) -> Result<(), PlanError> {
        let wrong = |what: String| Err(PlanError::Binding { group: group.name.clone(), what });
        let queries = self.queries;
        let addresses = [
            ("slots", Some(self.slots), self.width.bytes()),
            ("count", self.count, 4),
            ("query starts", queries.map(|queries| queries.starts), 4),
            ("accepted counts", queries.and_then(|queries| queries.accepted), 4),
        ];
        for (what, address, align) in addresses {
            let Some(address) = address else { continue };
            if address == 0 {
                return wrong(format!("expected the address of the {what}, found 0"));
            }
            if address.checked_rem(u64::from(align)) != Some(0) {
                return wrong(format!("expected {what} aligned to {align} bytes, found {address:#x}"));
            }
        }
        if self.arrays().any(|array| array.end().is_none()) {
            return wrong("an array ends past 64 bits".into());
        }
        if i32::try_from(self.capacity).is_err() {
            return wrong(format!("expected a capacity below 2^31, found {}", self.capacity));
        }
        match self.queries {
            Some(Queries { requests, .. }) if i32::try_from(requests).is_err() => {
                wrong(format!("expected fewer than 2^31 requests, found {requests}"))
            }
            _ => Ok(()),
        }
    }
}

/// Room of a row plan and of its table.
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

/// Rows that a step wrote, in one launch, in direction `D`.
///
/// Bindings stay from step to step; [`RowPlan::page_map`] changes as pages come and go.
#[derive(Debug)]
pub struct RowPlan<D> {
    geometry: Arc<Geometry>,
    capacity: RowCapacity,
    jobs: Vec<abi::RowJob>,
    bindings: Vec<RowBinding>,
    map: PageMap,
    direction: PhantomData<D>,
}

impl<D: Direction> RowPlan<D> {
    /// A plan with no bindings and an empty page map.
    #[must_use]
    pub fn new(geometry: Arc<Geometry>, capacity: RowCapacity) -> Self {
        let room = usize::try_from(capacity.jobs).unwrap_or(0);
        Self {
            map: PageMap::new(Arc::clone(&geometry), capacity.changes),
            jobs: Vec::with_capacity(room),
            bindings: Vec::with_capacity(room),
            geometry,
            capacity,
            direction: PhantomData,
        }
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
        let own = self.geometry.group(group.id).filter(|_| group.geometry == self.geometry.stamp);
        let own = own.ok_or(PlanError::ForeignGroup { group: group.id })?;
        let route = own.to_host.ok_or_else(|| no_route(own, DeviceToHost::NAME))?;
        if self.jobs.iter().any(|job| job.route == route.index) {
            return Err(PlanError::GroupTwice { group: own.name.clone() });
        }
        binding.check(own)?;
        self.check_numbers(own, route, binding.capacity)?;
        let null_page = match binding.null_page {
            None => abi::NONE,
            Some(page) => i32::try_from(page.get()).map_err(|_| PlanError::Binding {
                group: own.name.clone(),
                what: format!("expected a null page below 2^31, found {page}"),
            })?,
        };
        if self.jobs.len() >= usize::try_from(self.capacity.jobs).unwrap_or(usize::MAX) {
            let needed = u64::from(self.capacity.jobs).saturating_add(1);
            return Err(capacity_error("row bindings", needed, self.capacity.jobs));
        }
        let queries = binding.queries;
        self.jobs.push(abi::RowJob {
            slots: binding.slots,
            count: binding.count.unwrap_or(0),
            query_starts: queries.map_or(0, |queries| queries.starts),
            accepted: queries.and_then(|queries| queries.accepted).unwrap_or(0),
            route: route.index,
            capacity: binding.capacity,
            requests: queries.map_or(0, |queries| queries.requests),
            slot_bytes: binding.width.bytes(),
            page_slots: own.slots,
            tokens_per_row: own.slots_per_row,
            map: own.map_first,
            null_page,
            map_rows: own.rows,
            block_rows: own.rows,
            flags: 0,
            reserved: 0,
        });
        self.bindings.push(binding);
        Ok(())
    }

    /// Refuses what kernels, which number slots and units in 32 bits, could not count.
    fn check_numbers(&self, group: &Group, route: RouteRef, capacity: u32) -> Result<(), PlanError> {
        let wrong = |what: String| Err(PlanError::Binding { group: group.name.clone(), what });
        let limit = u64::from(u32::MAX).saturating_add(1);
        let slots = u64::from(group.map_entries).saturating_mul(u64::from(group.slots));
        if slots > limit {
            return wrong(format!("expected at most 2^32 slots in all pages of the pool, found {slots}"));
        }
        let route = usize::try_from(route.index).ok().and_then(|index| self.geometry.routes().get(index));
        let runs = route.map_or(0, |route| u64::from(route.layers).saturating_mul(u64::from(route.segments)));
        let units = u64::from(capacity).saturating_mul(runs);
        if units >= limit {
            return wrong(format!(
                "expected fewer than 2^32 rows to copy, found {units}: {capacity} entries of {runs} runs each"
            ));
        }
        Ok(())
    }
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

    fn staged(&mut self) {
        self.map.staged();
    }
}

impl<D: Direction> fmt::Display for RowPlan<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.summary().fmt(f)
    }
}
