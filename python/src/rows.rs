//! Plans of rows: which ones are copied is read on the device, when the launch runs.

use pagelift::id::PageId;
use pagelift::plan::{self, Queries, RowCapacity, SlotWidth};
use pagelift_bindings::keys::Way;
use pagelift_bindings::plan::AnyPlan;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::error::{OrRaise, bad_tensor};
use crate::geometry::Geometry;
use crate::keys::{CompactRouteKey, GroupKey};
use crate::memory::Address;
use crate::plan::{Plan, change};
use crate::words::Word;

/// The device arrays that say which rows a step wrote. Their addresses are fixed when a graph is captured; their contents are read
/// by each replay.
///
/// Each is a `Region` of the registry's, adopted from a tensor in `"device"` memory, or the address of something inside one.
///
/// - `slots`: int64 or int32, one entry for each token: the slot its row was written to. Slot `s` is slot `s % page_slots` of page
///   `s // page_slots`; a negative one is padding.
/// - `capacity`: entries that there is room for, and `width`, their bytes (8 or 4): those of the region unless said. Both are needed
///   for an address.
/// - `count`: int32, the number of valid entries; `None`: all are.
/// - `query_starts`: int32 of `requests + 1` entries, where each request's tokens begin, not falling; the last is the number of
///   tokens. `accepted`: int32 of `requests` entries, the accepted tokens of each request, a prefix; `None`: all are. `requests` is
///   what the region has room for unless said.
/// - `null_page`: a page that means 'no page', where the engine has one.
///
/// Raises `TensorError` for a region of another dtype, or too short.
#[pyclass(frozen, module = "pagelift")]
pub struct RowBinding(pub plan::RowBinding);

#[pymethods]
impl RowBinding {
    #[new]
    #[pyo3(signature = (slots, *, capacity=None, width=None, count=None, query_starts=None, accepted=None, requests=None, null_page=None))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn new(
        slots: Address,
        capacity: Option<u32>,
        width: Option<u32>,
        count: Option<Address>,
        query_starts: Option<Address>,
        accepted: Option<Address>,
        requests: Option<u32>,
        null_page: Option<u32>,
    ) -> PyResult<Self> {
        let width = match (width, dtype(&slots)) {
            (Some(8), None | Some("int64")) | (None, Some("int64")) => SlotWidth::I64,
            (Some(4), None | Some("int32")) | (None, Some("int32")) => SlotWidth::I32,
            (None, None) => {
                return Err(PyTypeError::new_err("`width` is needed: 8 for int64 slots, 4 for int32"));
            }
            (Some(width), None) => {
                return Err(PyValueError::new_err(format!(
                    "width is {width}; expected 8 (int64) or 4 (int32)"
                )));
            }
            (_, Some(found)) => {
                let text = format!(
                    "slots: expected an array of int64 or int32, of the width that is said, found {found}"
                );
                return Err(bad_tensor("WrongDtype", text));
            }
        };
        let capacity = match (capacity, items(&slots)) {
            (Some(capacity), _) => capacity,
            (None, Some(items)) => u32::try_from(items)?,
            (None, None) => {
                return Err(PyTypeError::new_err("`capacity` is needed: entries of the slot mapping"));
            }
        };
        check("slots", &slots, capacity.into(), None)?;
        for (what, address, items) in
            [("count", &count, 1), ("query_starts", &query_starts, 1), ("accepted", &accepted, 0)]
        {
            if let Some(address) = address {
                check(what, address, items, Some("int32"))?;
            }
        }
        let queries = match &query_starts {
            None if accepted.is_some() || requests.is_some() => {
                return Err(PyTypeError::new_err("`accepted` and `requests` come with `query_starts`"));
            }
            None => None,
            Some(starts) => {
                let requests = match (requests, items(starts)) {
                    (Some(requests), _) => requests,
                    (None, Some(items)) => u32::try_from(items.saturating_sub(1))?,
                    (None, None) => {
                        return Err(PyTypeError::new_err("`requests` is needed: how many there may be"));
                    }
                };
                check("query_starts", starts, u64::from(requests).saturating_add(1), Some("int32"))?;
                if let Some(accepted) = &accepted {
                    check("accepted", accepted, requests.into(), Some("int32"))?;
                }
                Some(Queries {
                    starts: starts.get(),
                    accepted: accepted.as_ref().map(Address::get),
                    requests,
                })
            }
        };
        Ok(Self(plan::RowBinding {
            slots: slots.get(),
            width,
            capacity,
            count: count.as_ref().map(Address::get),
            queries,
            null_page: null_page.map(PageId::new),
        }))
    }

    fn __repr__(&self) -> String {
        let plan::RowBinding { slots, width, capacity, .. } = self.0;
        format!("RowBinding(slots={slots:#x}, capacity={capacity}, width={})", width.bytes())
    }
}

/// The dtype of an array, where it is known.
fn dtype(address: &Address) -> Option<&str> {
    match address {
        Address::Region(region) => region.dtype.as_deref(),
        Address::Number(_) => None,
    }
}

/// The entries of an array, where they are known.
fn items(address: &Address) -> Option<u64> {
    match address {
        Address::Region(region) => region.items,
        Address::Number(_) => None,
    }
}

/// Refuses an array that is known to be too short, or of another dtype.
fn check(what: &str, array: &Address, needed: u64, wanted: Option<&str>) -> PyResult<()> {
    if let (Some(wanted), Some(found)) = (wanted, dtype(array))
        && wanted != found
    {
        return Err(bad_tensor(
            "WrongDtype",
            format!("{what}: expected an array of {wanted}, found {found}"),
        ));
    }
    match items(array) {
        Some(found) if found < needed => {
            Err(bad_tensor("TooSmall", format!("{what}: expected at least {needed} entries, found {found}")))
        }
        _ => Ok(()),
    }
}

/// Rows that a step wrote, in one launch, in `direction`.
///
/// Bindings stay from step to step. `bindings` is the room for them (at most 2**16), `changes` that for page-map changes of one
/// staging (at most 2**24).
#[pyclass(frozen, subclass, extends = Plan, module = "pagelift")]
pub struct RowPlan;

#[pymethods]
impl RowPlan {
    #[new]
    #[pyo3(signature = (geometry, direction, *, bindings=16, changes=1024))]
    fn new(
        geometry: &Geometry,
        direction: Word<Way>,
        bindings: u32,
        changes: u32,
    ) -> PyResult<PyClassInitializer<Self>> {
        Ok(PyClassInitializer::from(rows(geometry, direction.0, bindings, changes)?).add_subclass(Self))
    }

    /// Gathers rows by an index list into a compact buffer: entry `i` of `list` names row `r % rows` of block `r // rows` of the
    /// source side, which goes to row `i` of the buffer. Negative entries leave their row alone.
    ///
    /// Raises `PlanError` where the key is of another geometry or bound already, another binding writes to the buffer or reads it, or
    /// the list has room for more entries than the buffer has rows; `TypeError` for a route of another direction.
    fn gather_rows(slf: &Bound<'_, Self>, route: &CompactRouteKey, list: &RowBinding) -> PyResult<()> {
        change(slf.as_super(), |plan| plan.gather_rows(&route.0, list.0))
    }

    /// Forgets all bindings, and keeps the page map.
    fn clear_bindings(slf: &Bound<'_, Self>) -> PyResult<()> {
        change(slf.as_super(), |plan| plan.clear_bindings())
    }
}

fn rows(geometry: &Geometry, way: Way, jobs: u32, changes: u32) -> PyResult<Plan> {
    let capacity = RowCapacity { jobs, changes };
    Ok(Plan::new(AnyPlan::rows(geometry.0.clone(), way, capacity).or_raise()?))
}

/// A plan that writes newly generated rows back to host blocks: bindings say which rows, `page_map` where to.
///
/// The launcher that was bound with it last keeps its page map on the device; others refuse the plan.
#[pyclass(frozen, extends = RowPlan, module = "pagelift")]
pub struct MirrorPlan;

#[pymethods]
impl MirrorPlan {
    #[new]
    #[pyo3(signature = (geometry, *, bindings=16, changes=1024))]
    fn new(geometry: &Geometry, bindings: u32, changes: u32) -> PyResult<PyClassInitializer<Self>> {
        let plan = rows(geometry, Way::Up, bindings, changes)?;
        Ok(PyClassInitializer::from(plan).add_subclass(RowPlan).add_subclass(Self))
    }

    /// Mirrors the rows of a paged or ring group that a step wrote, as `binding` will say on the device.
    ///
    /// Raises `PlanError` where the group has no host side or is bound already, an address is 0 or misaligned, or no more bindings
    /// fit; `TypeError` for a state, which is checkpointed.
    fn bind(slf: &Bound<'_, Self>, group: &GroupKey, binding: &RowBinding) -> PyResult<()> {
        change(slf.as_super().as_super(), |plan| plan.bind(group.key, binding.0))
    }

    /// Which host block mirrors which page.
    #[getter]
    fn page_map(slf: &Bound<'_, Self>) -> PageMap {
        PageMap { plan: slf.as_super().as_super().clone().unbind() }
    }
}

/// Which host block mirrors which page of each group. Changes take effect when the plan is staged; a page is unmapped before it is
/// given away.
#[pyclass(frozen, module = "pagelift")]
pub struct PageMap {
    plan: Py<Plan>,
}

#[pymethods]
impl PageMap {
    /// Maps `page` of `group` to host block `block`.
    ///
    /// Raises `PlanError` where an id is out of range, the page is mapped, the block mirrors another page, one of them belongs to
    /// another group, pages and blocks differ in rows (see `map_rows`), or (`CapacityError`) no more changes fit.
    fn map(&self, py: Python<'_>, group: &GroupKey, page: u32, block: u32) -> PyResult<()> {
        change(self.plan.bind(py), |plan| plan.map(group.key, page, block))
    }

    /// Maps the rows of a page from `page_row` on to those of a block from `block_row` on, where pages and blocks differ in rows: as
    /// many as the smaller of the two has. Raises as `map` does, and where a first row is no multiple of that number.
    fn map_rows(
        &self,
        py: Python<'_>,
        group: &GroupKey,
        page: u32,
        page_row: u32,
        block: u32,
        block_row: u32,
    ) -> PyResult<()> {
        let (from, to) = ((page, page_row), (block, block_row));
        change(self.plan.bind(py), |plan| plan.map_rows(group.key, from, to))
    }

    /// Unmaps all of `page` of `group`. What is not mapped stays so. Raises `PlanError` where the page is out of range, or
    /// (`CapacityError`) no more changes fit.
    fn unmap(&self, py: Python<'_>, group: &GroupKey, page: u32) -> PyResult<()> {
        change(self.plan.bind(py), |plan| plan.unmap(group.key, page))
    }

    /// The host block that mirrors the first rows of `page` of `group`, or `None`.
    fn block_of(&self, py: Python<'_>, group: &GroupKey, page: u32) -> PyResult<Option<u32>> {
        change(self.plan.bind(py), |plan| plan.block_of(group.key, page))
    }

    /// Changes that no staged plan has carried yet.
    #[getter]
    fn pending(&self, py: Python<'_>) -> PyResult<usize> {
        change(self.plan.bind(py), |plan| Ok(plan.page_map()?.pending().len()))
    }
}
