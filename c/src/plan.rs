//! Plans: what one launch copies, checked against a geometry.

use std::sync::Arc;

use pagelift::geometry;
use pagelift::plan::{self, DigestNumber as RustNumber};
use pagelift::quantity::Bytes;
use pagelift_bindings::keys::{AnyDigest, Way};
use pagelift_bindings::plan::AnyPlan;

use crate::foreign::{In, Out};
use crate::geometry::Geometry;
use crate::handle::{Handle, keep, object};
use crate::import::{self, Import, tail_rows};
use crate::keys::{DigestKey, GroupKey, Keys, RouteKey};
use crate::reservations::{ImportId, Reservations};
use crate::status::{Failure, Outcome, Status, answer, bad_value};

/// What one launch copies: filled, staged by a launcher, cleared and filled again. A call that fails leaves it as it was.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Meaningless but to this library; 0 is none.
    pub value: u64,
}

impl Plan {
    /// What it stands for.
    pub const fn handle(self) -> Handle<Planned> {
        Handle::new(self.value)
    }
}

/// What a handle of a plan stands for.
pub struct Planned {
    /// The plan.
    pub plan: AnyPlan,
    /// What keys of its geometry are of.
    pub keys: Arc<Keys>,
}

object!(Planned, Plan);

/// Which way a plan copies.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the host to the device.
    HostToDevice = 0,
    /// From the device to the host.
    DeviceToHost = 1,
    /// On the device.
    DeviceToDevice = 2,
}

/// As Rust has it.
pub fn way(direction: u32) -> Outcome<Way> {
    match direction {
        0 => Ok(Way::Down),
        1 => Ok(Way::Up),
        2 => Ok(Way::Across),
        _ => Err(bad_value("direction", direction, "a pagelift_direction")),
    }
}

/// How much a plan of pages, or of digests, or a reserved import, has room for. All memory is allocated when the plan is made.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PlanCapacity {
    /// sizeof(pagelift_plan_capacity).
    pub size: u32,
    /// Jobs, about one for each import and group; at most 2^20.
    pub jobs: u32,
    /// Blocks of groups that are lifted or gathered whole; at most 2^24.
    pub list_entries: u32,
}

impl PlanCapacity {
    /// What C asks for; the usual room where it passes null.
    pub fn read(capacity: In<Self>) -> Outcome<plan::PlanCapacity> {
        let capacity = capacity.sized_or_null("capacity")?;
        Ok(capacity.map_or_else(plan::PlanCapacity::default, |Self { jobs, list_entries, .. }| {
            plan::PlanCapacity { jobs, list_entries }
        }))
    }
}

/// Makes a plan for a geometry, and its handle.
pub fn made(
    geometry: Geometry,
    out: Out<Plan>,
    make: impl FnOnce(Arc<geometry::Geometry>) -> Outcome<AnyPlan>,
) -> Status {
    answer(|| {
        let out = out.ready("plan")?;
        let (geometry, keys) =
            geometry.handle().look(|own| Ok((Arc::clone(&own.geometry), Arc::clone(&own.keys))))?;
        out.put(Plan { value: keep(Planned { plan: make(geometry)?, keys })? });
        Ok(())
    })
}

/// Makes a plan of whole blocks in `direction` (a pagelift_direction). `capacity` may be null: 384 jobs, 8192 list
/// entries. Plans from the host to the device are restore plans, those from the device to the host write-back plans.
/// Free it by `pagelift_plan_free`.
///
/// Errors: PAGELIFT_CAPACITY past the most that is allowed, PAGELIFT_OUT_OF_MEMORY, PAGELIFT_BAD_VALUE,
/// PAGELIFT_WRONG_SIZE, those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_page_plan_new(
    geometry: Geometry,
    direction: u32,
    capacity: In<PlanCapacity>,
    plan: Out<Plan>,
) -> Status {
    made(geometry, plan, |geometry| {
        let capacity = PlanCapacity::read(capacity)?;
        Ok(AnyPlan::pages(geometry, way(direction)?, capacity)?)
    })
}

/// Makes a plan that lifts imported blocks into pages.
///
/// Errors: as `pagelift_page_plan_new`.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_restore_plan_new(
    geometry: Geometry,
    capacity: In<PlanCapacity>,
    plan: Out<Plan>,
) -> Status {
    made(geometry, plan, |geometry| Ok(AnyPlan::pages(geometry, Way::Down, PlanCapacity::read(capacity)?)?))
}

/// Makes a plan that writes pages back to host blocks.
///
/// Errors: as `pagelift_page_plan_new`.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_write_back_plan_new(
    geometry: Geometry,
    capacity: In<PlanCapacity>,
    plan: Out<Plan>,
) -> Status {
    made(geometry, plan, |geometry| Ok(AnyPlan::pages(geometry, Way::Up, PlanCapacity::read(capacity)?)?))
}

/// Makes a plan of digests: one number of 64 bits for each list of blocks, the same for the same rows wherever they lie,
/// and whatever lies in holes and padding.
///
/// Errors: as `pagelift_page_plan_new`.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_digest_plan_new(
    geometry: Geometry,
    capacity: In<PlanCapacity>,
    plan: Out<Plan>,
) -> Status {
    made(geometry, plan, |geometry| Ok(AnyPlan::digests(geometry, PlanCapacity::read(capacity)?)?))
}

/// Empties a plan of pages or of digests, and keeps its memory. Numbers of digests that it gave before are of no use any more.
/// A hot call.
///
/// Errors: PAGELIFT_WRONG_PLAN for a plan of rows, whose bindings stay from step to step
/// (`pagelift_row_plan_clear_bindings`); those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_plan_clear(plan: Plan) -> Status {
    answer(|| plan.handle().change(|own| Ok(own.plan.clear()?)))
}

/// Counts the jobs that are planned.
///
/// Errors: those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_plan_jobs(plan: Plan, jobs: Out<usize>) -> Status {
    answer(|| {
        let jobs = jobs.ready("jobs")?;
        jobs.put(plan.handle().look(|own| Ok(own.plan.jobs()))?);
        Ok(())
    })
}

/// Tells the bytes that the launch copies, or that digests read.
///
/// Errors: PAGELIFT_WRONG_PLAN for a plan of rows, of which only the device knows; those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_plan_bytes(plan: Plan, bytes: Out<u64>) -> Status {
    answer(|| {
        let bytes = bytes.ready("bytes")?;
        bytes.put(plan.handle().look(|own| {
            let unknown = "which rows a plan of rows copies, only the device knows";
            let known = own.plan.bytes().map(Bytes::get);
            known.ok_or_else(|| Failure::new(Status::WrongPlan, unknown))
        })?);
        Ok(())
    })
}

/// Frees a plan.
///
/// Errors: those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_plan_free(plan: Plan) -> Status {
    answer(|| plan.handle().take().map(drop))
}

/// Copies whole blocks along a route, `sources[i]` to `destinations[i]`. Where rows per block differ, both lists are
/// read as one row of rows after another: two blocks of 128 fill four pages of 64.
///
/// Errors: PAGELIFT_PLAN where the lists do not fit each other, an id is out of range, a row is written twice, or read
/// and written, or a block belongs to another group; PAGELIFT_CAPACITY; PAGELIFT_WRONG_PLAN for a route of another
/// direction; those of handles and keys.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_page_plan_gather(
    plan: Plan,
    route: RouteKey,
    sources: In<u32>,
    sources_count: usize,
    destinations: In<u32>,
    destinations_count: usize,
) -> Status {
    answer(|| {
        let sources = sources.list(sources_count, "sources")?;
        let destinations = destinations.list(destinations_count, "destinations")?;
        plan.handle().change(|own| Ok(own.plan.gather(own.keys.route(route)?, sources, destinations)?))
    })
}

/// Writes zeros to rows `first` to `first + rows - 1` of a block at the end of a route.
///
/// Errors: PAGELIFT_PLAN where these are not rows of the block, or are written already; otherwise as
/// `pagelift_page_plan_gather`.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_page_plan_zero(
    plan: Plan,
    route: RouteKey,
    block: u32,
    first: u32,
    rows: u32,
) -> Status {
    answer(|| plan.handle().change(|own| Ok(own.plan.zero(own.keys.route(route)?, block, first, rows)?)))
}

/// Adds an import: what each of its groups lifts. `mode` is a pagelift_tail_rows. All of its lists are checked.
///
/// Errors: PAGELIFT_PLAN where a lifted group is missing or comes twice, a list has another length than the tokens need,
/// an id is out of range, rows are written twice, or a block belongs to another group; PAGELIFT_CAPACITY; PAGELIFT_SPAN;
/// PAGELIFT_WRONG_PLAN; PAGELIFT_BAD_VALUE, PAGELIFT_WRONG_SIZE; those of handles and keys.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_restore_plan_lift(plan: Plan, import: In<Import>, mode: u32) -> Status {
    answer(|| {
        plan.handle().change(|own| {
            let (import, mode) = (import::read(import, &own.keys)?, tail_rows(mode)?);
            Ok(own.plan.lift(&import, mode)?)
        })
    })
}

/// Where an import that is lifted over several plans goes on. All 0 is the beginning.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiftProgress {
    /// Groups that are lifted.
    pub groups: u64,
    /// Steps of the next one that are.
    pub steps: u32,
    /// 1 where nothing is left to lift.
    pub is_finished: u32,
}

/// Adds as much of an import as `budget` bytes allow, and takes that from it; `progress` says where the next plan goes
/// on. An empty plan takes at least one page, however small the budget. Keep the old progress until the plan is staged.
///
/// Errors: as `pagelift_restore_plan_lift`; plan, progress and budget are then as they were.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_restore_plan_lift_within(
    plan: Plan,
    import: In<Import>,
    mode: u32,
    progress: Out<LiftProgress>,
    budget: Out<u64>,
) -> Status {
    answer(|| {
        let (progress, budget) = (progress.ready("progress")?, budget.ready("budget")?);
        let (LiftProgress { groups, steps, is_finished }, bytes) = (progress.get(), budget.get());
        if is_finished > 1 {
            return Err(bad_value("progress->is_finished", is_finished, "0 or 1"));
        }
        let groups = usize::try_from(groups).unwrap_or(usize::MAX);
        let mut at = plan::LiftProgress::of_parts((groups, steps, is_finished == 1));
        let mut left = Bytes::new(bytes);
        plan.handle().change(|own| {
            let (import, mode) = (import::read(import, &own.keys)?, tail_rows(mode)?);
            Ok(own.plan.lift_within(&import, mode, &mut at, &mut left)?)
        })?;
        let (groups, steps, finished) = at.parts();
        progress.put(LiftProgress { groups: groups as u64, steps, is_finished: finished.into() });
        budget.put(left.get());
        Ok(())
    })
}

/// Adds a reserved import, whose lists were checked when it was reserved. A hot call, which takes no lists.
///
/// Errors: PAGELIFT_PLAN where it was released or reserved elsewhere, or its rows are written already; PAGELIFT_CAPACITY;
/// PAGELIFT_WRONG_PLAN; those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_restore_plan_lift_reserved(
    plan: Plan,
    reservations: Reservations,
    import: ImportId,
) -> Status {
    answer(|| {
        plan.handle().change(|own| {
            let plan = &mut own.plan;
            reservations.handle().look(|own| Ok(plan.lift_reserved(&own.reservations, import.id())?))
        })
    })
}

/// Writes pages of a paged group back to host blocks, whole.
///
/// Errors: as `pagelift_page_plan_gather`; PAGELIFT_WRONG_PLAN for another kind of group.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_write_back_plan_spill(
    plan: Plan,
    group: GroupKey,
    pages: In<u32>,
    pages_count: usize,
    blocks: In<u32>,
    blocks_count: usize,
) -> Status {
    answer(|| {
        let pages = pages.list(pages_count, "pages")?;
        let blocks = blocks.list(blocks_count, "blocks")?;
        plan.handle().change(|own| Ok(own.plan.spill(*own.keys.group(group)?, pages, blocks)?))
    })
}

/// Writes one request's state back to a host block: the whole page, all layers.
///
/// Errors: as `pagelift_page_plan_gather`; PAGELIFT_WRONG_PLAN for another kind of group.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_write_back_plan_checkpoint(
    plan: Plan,
    group: GroupKey,
    page: u32,
    block: u32,
) -> Status {
    answer(|| plan.handle().change(|own| Ok(own.plan.checkpoint(*own.keys.group(group)?, page, block)?)))
}

/// Which of a plan's digests a call added.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestNumber {
    /// Tells the fillings of plans apart.
    pub filling: u64,
    /// Its first job.
    pub first: u32,
    /// One past its last.
    pub end: u32,
}

impl DigestNumber {
    fn of(number: RustNumber) -> Self {
        let jobs = number.jobs();
        Self { filling: number.filling(), first: jobs.start, end: jobs.end }
    }

    /// As Rust has it.
    pub fn number(self) -> RustNumber {
        RustNumber::of_parts(self.filling, self.first..self.end)
    }
}

/// Adds the first `rows` rows of a list of host blocks.
///
/// Errors: PAGELIFT_PLAN where the side lies on the device, the list has fewer rows, or an id is out of range;
/// PAGELIFT_CAPACITY; PAGELIFT_WRONG_PLAN; those of handles and keys.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_digest_plan_host(
    plan: Plan,
    side: DigestKey,
    blocks: In<u32>,
    blocks_count: usize,
    rows: u64,
    number: Out<DigestNumber>,
) -> Status {
    let list = || blocks.list(blocks_count, "blocks");
    digest(plan, side, list, number, |plan, side, blocks| plan.digest_host(side, blocks, rows))
}

/// Adds the first `rows` rows of a list of pages.
///
/// Errors: PAGELIFT_PLAN where the side lies on the host; otherwise as `pagelift_digest_plan_host`.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_digest_plan_device(
    plan: Plan,
    side: DigestKey,
    pages: In<u32>,
    pages_count: usize,
    rows: u64,
    number: Out<DigestNumber>,
) -> Status {
    let list = || pages.list(pages_count, "pages");
    digest(plan, side, list, number, |plan, side, pages| plan.digest_device(side, pages, rows))
}

fn digest(
    plan: Plan,
    side: DigestKey,
    list: impl FnOnce() -> Outcome<Vec<u32>>,
    number: Out<DigestNumber>,
    add: impl FnOnce(&mut AnyPlan, AnyDigest, Vec<u32>) -> pagelift_bindings::Result<RustNumber>,
) -> Status {
    answer(|| {
        let number = number.ready("number")?;
        let list = list()?;
        let added = plan.handle().change(|own| Ok(add(&mut own.plan, *own.keys.digest(side)?, list)?))?;
        number.put(DigestNumber::of(added));
        Ok(())
    })
}
