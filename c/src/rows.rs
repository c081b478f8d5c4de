//! Plans of rows: which ones are copied is read on the device, when the launch runs.

use pagelift::id::PageId;
use pagelift::plan::{self, Queries, SlotWidth};
use pagelift_bindings::keys::Way;
use pagelift_bindings::plan::AnyPlan;

use crate::foreign::{In, Out};
use crate::geometry::Geometry;
use crate::keys::{CompactRouteKey, GroupKey};
use crate::plan::{Plan, made, way};
use crate::status::{Failure, Outcome, Status, answer, bad_value};

/// How much a plan of rows has room for.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RowCapacity {
    /// sizeof(pagelift_row_capacity).
    pub size: u32,
    /// Bindings; at most 2^16.
    pub jobs: u32,
    /// Page-map changes of one staging; at most 2^24.
    pub changes: u32,
}

impl RowCapacity {
    /// What C asks for; the usual room where it passes null.
    pub fn read(capacity: In<Self>) -> Outcome<plan::RowCapacity> {
        let capacity = capacity.sized_or_null("capacity")?;
        Ok(capacity.map_or_else(plan::RowCapacity::default, |Self { jobs, changes, .. }| plan::RowCapacity {
            jobs,
            changes,
        }))
    }
}

/// A page, or a block, that means: none.
pub const PAGELIFT_NONE: u32 = u32::MAX;

/// The device arrays that say which rows a step wrote. Addresses are fixed when a graph is captured; contents are read
/// by each replay. All lie in registered memory of the device.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RowBinding {
    /// sizeof(pagelift_row_binding).
    pub size: u32,
    /// Bytes of an entry of `slots`: 8 (int64_t) or 4 (int32_t).
    pub width: u32,
    /// The slot mapping: an entry for each token, the slot its row was written to. Slot `s` is slot `s % page_slots` of page
    /// `s / page_slots`; a negative one is padding.
    pub slots: u64,
    /// int32_t, the number of valid entries; 0: all are.
    pub count: u64,
    /// int32_t, `requests + 1` of them, where each request's tokens begin, not falling; the last is the number of
    /// tokens. 0: no requests.
    pub query_starts: u64,
    /// int32_t, `requests` of them, the accepted tokens of each request, a prefix; 0: all are. Only with `query_starts`.
    pub accepted: u64,
    /// Entries that there is room for in `slots`.
    pub capacity: u32,
    /// Requests; 0 without `query_starts`.
    pub requests: u32,
    /// A page that means 'no page', where the engine has one; PAGELIFT_NONE where it has none.
    pub null_page: u32,
    /// 0.
    pub reserved: u32,
}

impl RowBinding {
    /// As Rust has it.
    pub fn read(binding: In<Self>, what: &str) -> Outcome<plan::RowBinding> {
        let own = binding.sized(what)?;
        let width = match own.width {
            4 => SlotWidth::I32,
            8 => SlotWidth::I64,
            width => return Err(bad_value("width", width, "8 (int64_t) or 4 (int32_t)")),
        };
        if own.reserved != 0 {
            return Err(bad_value("reserved", own.reserved, "0"));
        }
        let some = |address: u64| (address != 0).then_some(address);
        let queries = match some(own.query_starts) {
            Some(starts) => Some(Queries { starts, accepted: some(own.accepted), requests: own.requests }),
            None if own.accepted != 0 || own.requests != 0 => {
                let text = "`accepted` and `requests` come with `query_starts`";
                return Err(Failure::new(Status::BadValue, text));
            }
            None => None,
        };
        let null_page = (own.null_page != PAGELIFT_NONE).then(|| PageId::new(own.null_page));
        let (slots, capacity, count) = (own.slots, own.capacity, some(own.count));
        Ok(plan::RowBinding { slots, width, capacity, count, queries, null_page })
    }
}

/// Makes a plan of rows in `direction` (a pagelift_direction). `capacity` may be null: 16 bindings, 1024 changes. Plans
/// from the device to the host are mirror plans. Free it by `pagelift_plan_free`.
///
/// Errors: as `pagelift_page_plan_new`.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_row_plan_new(
    geometry: Geometry,
    direction: u32,
    capacity: In<RowCapacity>,
    plan: Out<Plan>,
) -> Status {
    made(geometry, plan, |geometry| {
        let capacity = RowCapacity::read(capacity)?;
        Ok(AnyPlan::rows(geometry, way(direction)?, capacity)?)
    })
}

/// Makes a plan that writes newly generated rows back to host blocks: bindings say which rows, the page map where to.
/// The launcher that was bound with it last keeps its page map on the device; others refuse the plan.
///
/// Errors: as `pagelift_page_plan_new`.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_mirror_plan_new(
    geometry: Geometry,
    capacity: In<RowCapacity>,
    plan: Out<Plan>,
) -> Status {
    made(geometry, plan, |geometry| Ok(AnyPlan::rows(geometry, Way::Up, RowCapacity::read(capacity)?)?))
}

/// Gathers rows by an index list into a compact buffer: entry `i` of `list->slots` names row `r % rows` of block `r /
/// rows` of the source side, which goes to row `i` of the buffer. Negative entries leave their row alone.
///
/// Errors: PAGELIFT_PLAN where the key is bound already, another binding writes to the buffer or reads it, or the list
/// has room for more entries than the buffer has rows; PAGELIFT_WRONG_PLAN for a route of another direction;
/// PAGELIFT_BAD_VALUE, PAGELIFT_WRONG_SIZE, those of handles and keys.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_row_plan_gather_rows(
    plan: Plan,
    route: CompactRouteKey,
    list: In<RowBinding>,
) -> Status {
    answer(|| {
        let list = RowBinding::read(list, "list")?;
        plan.handle().change(|own| Ok(own.plan.gather_rows(own.keys.compact(route)?, list)?))
    })
}

/// Forgets all bindings of a plan of rows, and keeps the page map.
///
/// Errors: PAGELIFT_WRONG_PLAN, those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_row_plan_clear_bindings(plan: Plan) -> Status {
    answer(|| plan.handle().change(|own| Ok(own.plan.clear_bindings()?)))
}

/// Mirrors the rows of a paged or ring group that a step wrote, as `binding` will say on the device.
///
/// Errors: PAGELIFT_PLAN where the group has no host side or is bound already, an address is 0 or misaligned;
/// PAGELIFT_CAPACITY; PAGELIFT_WRONG_PLAN for a state; PAGELIFT_BAD_VALUE, PAGELIFT_WRONG_SIZE, those of handles and
/// keys.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_mirror_plan_bind(plan: Plan, group: GroupKey, binding: In<RowBinding>) -> Status {
    answer(|| {
        let binding = RowBinding::read(binding, "binding")?;
        plan.handle().change(|own| Ok(own.plan.bind(*own.keys.group(group)?, binding)?))
    })
}

/// Maps `page` of `group` to host block `block`, in the page map of a mirror plan. Takes effect when the plan is staged.
/// A hot call.
///
/// Errors: PAGELIFT_PLAN where an id is out of range, the page is mapped, the block mirrors another page, one of them
/// belongs to another group, or pages and blocks differ in rows (see `pagelift_page_map_map_rows`); PAGELIFT_CAPACITY;
/// PAGELIFT_WRONG_PLAN; those of handles and keys.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_page_map_map(plan: Plan, group: GroupKey, page: u32, block: u32) -> Status {
    answer(|| plan.handle().change(|own| Ok(own.plan.map(*own.keys.group(group)?, page, block)?)))
}

/// Maps the rows of a page from `page_row` on to those of a block from `block_row` on, where pages and blocks differ in
/// rows: as many as the smaller of the two has.
///
/// Errors: as `pagelift_page_map_map`; PAGELIFT_PLAN where a first row is no multiple of that number.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_page_map_map_rows(
    plan: Plan,
    group: GroupKey,
    page: u32,
    page_row: u32,
    block: u32,
    block_row: u32,
) -> Status {
    answer(|| {
        let (from, to) = ((page, page_row), (block, block_row));
        plan.handle().change(|own| Ok(own.plan.map_rows(*own.keys.group(group)?, from, to)?))
    })
}

/// Unmaps all of `page` of `group`, before the page is given away. What is not mapped stays so. A hot call.
///
/// Errors: PAGELIFT_PLAN where the page is out of range; PAGELIFT_CAPACITY; PAGELIFT_WRONG_PLAN; those of handles and keys.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_page_map_unmap(plan: Plan, group: GroupKey, page: u32) -> Status {
    answer(|| plan.handle().change(|own| Ok(own.plan.unmap(*own.keys.group(group)?, page)?)))
}

/// Tells the host block that mirrors the first rows of `page` of `group`: PAGELIFT_NONE where none does.
///
/// Errors: PAGELIFT_WRONG_PLAN, those of handles and keys.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_page_map_block_of(
    plan: Plan,
    group: GroupKey,
    page: u32,
    block: Out<u32>,
) -> Status {
    answer(|| {
        let block = block.ready("block")?;
        block
            .put(plan.handle().look(|own| {
                Ok(own.plan.block_of(*own.keys.group(group)?, page)?.unwrap_or(PAGELIFT_NONE))
            })?);
        Ok(())
    })
}

/// Counts the changes of the page map that no staged plan has carried yet.
///
/// Errors: PAGELIFT_WRONG_PLAN, those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_page_map_pending(plan: Plan, changes: Out<usize>) -> Status {
    answer(|| {
        let changes = changes.ready("changes")?;
        changes.put(plan.handle().look(|own| Ok(own.plan.page_map()?.pending().len()))?);
        Ok(())
    })
}
