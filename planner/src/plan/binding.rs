//! The device arrays that say which rows are copied.

use std::sync::Arc;

use pagelift_abi as abi;
use serde::{Deserialize, Serialize};

use crate::error::PlanError;
use crate::geometry::Region;
use crate::id::PageId;

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
    /// is slot `s % page_slots` of page `s / page_slots`; a negative one is padding. A slot that comes twice names its row
    /// twice: the row is copied, and counted, once for each.
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
    pub(super) fn arrays(&self) -> impl Iterator<Item = Region> + use<> {
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
    pub(super) fn check(&self, group: &Arc<str>) -> Result<(), PlanError> {
        let wrong = |what: String| Err(PlanError::Binding { group: group.clone(), what });
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

    /// The null page as kernels compare it.
    pub(super) fn null(&self, group: &Arc<str>) -> Result<i32, PlanError> {
        let Some(page) = self.null_page else { return Ok(abi::NONE) };
        i32::try_from(page.get()).map_err(|_| PlanError::Binding {
            group: group.clone(),
            what: format!("expected a null page below 2^31, found {page}"),
        })
    }
}
