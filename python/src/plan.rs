//! Plans: what one launch copies, checked against a geometry.

use std::sync::Mutex;

use pagelift::error::PlanError;
use pagelift::geometry::{self, Kind, Paged, Ring, State};
use pagelift::id::{BlockId, HostBlockId, PageId};
use pagelift::plan::{
    self, DeviceToDevice, DigestNumber as RustNumber, Direction, HostToDevice, PagePlan as RustPages,
    Plan as _, PlanCapacity, RowPlan as RustRows, TailRows,
};
use pagelift::quantity::{Bytes, Rows};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::error::OrRaise;
use crate::geometry::Geometry;
use crate::import::Import;
use crate::keys::{AnyDigest, ByKind, DigestKey, GroupKey, RouteKey};
use crate::locks::lock;
use crate::reservations::{ImportId, Reservations};
use crate::words::{Numbers, Way, Word};

/// A plan of any type.
pub enum AnyPlan {
    /// Pages from the host to the device.
    Restore(plan::RestorePlan),
    /// Pages from the device to the host.
    WriteBack(plan::WriteBackPlan),
    /// Pages on the device.
    Across(RustPages<DeviceToDevice>),
    /// Rows from the host to the device.
    RowsDown(RustRows<HostToDevice>),
    /// Rows from the device to the host.
    Mirror(plan::MirrorPlan),
    /// Rows on the device.
    RowsAcross(RustRows<DeviceToDevice>),
    /// Digests.
    Digest(plan::DigestPlan),
}

/// The same for whichever plan it is.
macro_rules! on_plan {
    ($plan:expr, $own:ident => $body:expr) => {
        match $plan {
            $crate::plan::AnyPlan::Restore($own) => $body,
            $crate::plan::AnyPlan::WriteBack($own) => $body,
            $crate::plan::AnyPlan::Across($own) => $body,
            $crate::plan::AnyPlan::RowsDown($own) => $body,
            $crate::plan::AnyPlan::Mirror($own) => $body,
            $crate::plan::AnyPlan::RowsAcross($own) => $body,
            $crate::plan::AnyPlan::Digest($own) => $body,
        }
    };
}
pub(crate) use on_plan;

/// Any plan: what one launch copies. Filled, staged by a `Launcher`, cleared and filled again. A call that fails leaves it as it
/// was.
#[pyclass(frozen, subclass, module = "pagelift")]
pub struct Plan(pub Mutex<AnyPlan>);

impl Plan {
    pub(crate) fn new(plan: AnyPlan) -> Self {
        Self(Mutex::new(plan))
    }
}

#[pymethods]
impl Plan {
    /// Jobs planned.
    #[getter]
    fn jobs(&self, py: Python<'_>) -> usize {
        on_plan!(&*lock(py, &self.0), plan => plan.jobs())
    }

    /// Bytes that the launch copies (or digests read); `None` where only the device knows (row plans).
    #[getter]
    fn bytes(&self, py: Python<'_>) -> Option<u64> {
        on_plan!(&*lock(py, &self.0), plan => plan.bytes().map(Bytes::get))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        on_plan!(&*lock(py, &self.0), plan => plan.to_string())
    }
}

/// A call that this plan's direction does not have.
fn wrong_way() -> PyErr {
    PyTypeError::new_err("the key is of another direction or kind than this plan takes")
}

/// Whole blocks, in one launch, in `direction`: `"host to device"`, `"device to host"` or `"device to device"`.
///
/// `jobs` is the room for jobs, about one for each import and group; `list_entries` that for blocks of groups that are lifted or
/// gathered whole. All memory is allocated here. Raises `CapacityError` past 2**20 jobs or 2**24 entries.
#[pyclass(frozen, subclass, extends = Plan, module = "pagelift")]
pub struct PagePlan;

#[pymethods]
impl PagePlan {
    #[new]
    #[pyo3(signature = (geometry, direction, *, jobs=384, list_entries=8192))]
    fn new(
        geometry: &Geometry,
        direction: Word<Way>,
        jobs: u32,
        list_entries: u32,
    ) -> PyResult<PyClassInitializer<Self>> {
        Ok(PyClassInitializer::from(pages(geometry, direction.0, jobs, list_entries)?).add_subclass(Self))
    }

    /// Empties the plan, and keeps its memory.
    fn clear(slf: &Bound<'_, Self>) {
        match &mut *lock(slf.py(), &slf.as_super().get().0) {
            AnyPlan::Restore(plan) => plan.clear(),
            AnyPlan::WriteBack(plan) => plan.clear(),
            AnyPlan::Across(plan) => plan.clear(),
            _ => {}
        }
    }

    /// Whether nothing is planned.
    #[getter]
    fn is_empty(slf: &Bound<'_, Self>) -> bool {
        slf.as_super().get().jobs(slf.py()) == 0
    }

    /// Copies whole blocks along a route, `sources[i]` to `destinations[i]`: sequences of block ids.
    ///
    /// Where rows per block differ, both lists are read as one row of rows after another: two blocks of 128 fill four pages of 64.
    /// Raises `PlanError` where the lists do not fit each other, an id is out of range, a row is written twice, or read and
    /// written, a block belongs to another group, or (`CapacityError`) the table is full; `TypeError` for a route of another
    /// direction.
    fn gather(
        slf: &Bound<'_, Self>,
        route: &RouteKey,
        sources: Numbers,
        destinations: Numbers,
    ) -> PyResult<()> {
        let (blocks, pages) = (Numbers::blocks, Numbers::pages);
        match &mut *lock(slf.py(), &slf.as_super().get().0) {
            AnyPlan::Restore(plan) => gather(plan, route, &blocks(&sources), &pages(&destinations)),
            AnyPlan::WriteBack(plan) => gather(plan, route, &pages(&sources), &blocks(&destinations)),
            AnyPlan::Across(plan) => gather(plan, route, &pages(&sources), &pages(&destinations)),
            _ => Err(wrong_way()),
        }
    }

    /// Writes zeros to rows `first .. first + rows` of a block at the end of a route. Raises `PlanError` where these are not rows
    /// of the block, or are written already.
    fn zero(slf: &Bound<'_, Self>, route: &RouteKey, block: u32, first: u32, rows: u32) -> PyResult<()> {
        match &mut *lock(slf.py(), &slf.as_super().get().0) {
            AnyPlan::Restore(plan) => zero(plan, route, PageId::new(block), first, rows),
            AnyPlan::WriteBack(plan) => zero(plan, route, HostBlockId::new(block), first, rows),
            AnyPlan::Across(plan) => zero(plan, route, PageId::new(block), first, rows),
            _ => Err(wrong_way()),
        }
    }
}

fn pages(geometry: &Geometry, way: Way, jobs: u32, list_entries: u32) -> PyResult<Plan> {
    let (geometry, capacity) = (geometry.0.clone(), PlanCapacity { jobs, list_entries });
    Ok(Plan::new(match way {
        Way::Down => AnyPlan::Restore(RustPages::new(geometry, capacity).or_raise()?),
        Way::Up => AnyPlan::WriteBack(RustPages::new(geometry, capacity).or_raise()?),
        Way::Across => AnyPlan::Across(RustPages::new(geometry, capacity).or_raise()?),
    }))
}

fn key_of<D: Direction, K: Kind>(route: &RouteKey) -> Option<geometry::RouteKey<D, K>> {
    route.key.downcast_ref().copied()
}

fn gather<D: Direction>(
    plan: &mut RustPages<D>,
    route: &RouteKey,
    sources: &[D::Source],
    destinations: &[D::Destination],
) -> PyResult<()> {
    if let Some(key) = key_of::<D, Paged>(route) {
        plan.gather(key, sources, destinations).or_raise()
    } else if let Some(key) = key_of::<D, Ring>(route) {
        plan.gather(key, sources, destinations).or_raise()
    } else if let Some(key) = key_of::<D, State>(route) {
        plan.gather(key, sources, destinations).or_raise()
    } else {
        Err(wrong_way())
    }
}

fn zero<D: Direction>(
    plan: &mut RustPages<D>,
    route: &RouteKey,
    block: D::Destination,
    first: u32,
    rows: u32,
) -> PyResult<()> {
    let (first, rows) = (Rows::new(first), Rows::new(rows));
    if let Some(key) = key_of::<D, Paged>(route) {
        plan.zero(key, block, first, rows).or_raise()
    } else if let Some(key) = key_of::<D, Ring>(route) {
        plan.zero(key, block, first, rows).or_raise()
    } else {
        Err(wrong_way())
    }
}

/// Where an import that is lifted over several plans goes on. `RestorePlan.lift_within` returns the next one.
#[pyclass(frozen, module = "pagelift")]
#[derive(Clone, Copy, Default)]
pub struct LiftProgress(plan::LiftProgress);

#[pymethods]
impl LiftProgress {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Whether nothing is left to lift.
    #[getter]
    fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    fn __repr__(&self) -> String {
        format!("LiftProgress(is_finished={})", self.0.is_finished())
    }
}

/// A plan that lifts imported blocks into pages.
///
/// `mode` is which rows of a partly filled page are lifted: `"whole"` (all of the final block; rows after the imported ones mean
/// nothing), `"exact"` (the imported rows; others are left alone) or `"exact-zeroed"` (the imported rows, and zeros after them).
#[pyclass(frozen, extends = PagePlan, module = "pagelift")]
pub struct RestorePlan;

#[pymethods]
impl RestorePlan {
    #[new]
    #[pyo3(signature = (geometry, *, jobs=384, list_entries=8192))]
    fn new(geometry: &Geometry, jobs: u32, list_entries: u32) -> PyResult<PyClassInitializer<Self>> {
        let plan = pages(geometry, Way::Down, jobs, list_entries)?;
        Ok(PyClassInitializer::from(plan).add_subclass(PagePlan).add_subclass(Self))
    }

    /// Adds an import: what each of its groups lifts. All of its lists are checked.
    ///
    /// Raises `PlanError` where a lifted group is missing or comes twice, a list has another length than the tokens need, an id is
    /// out of range, rows are written twice, a block belongs to another group, or (`CapacityError`) the table is full.
    #[pyo3(signature = (import_, mode=Word(TailRows::Whole)))]
    fn lift(slf: &Bound<'_, Self>, import_: &Import, mode: Word<TailRows>) -> PyResult<()> {
        restore(slf, |plan| import_.with(|import| plan.lift(import, mode.0)))
    }

    /// Adds as much of an import as `budget` bytes allow. Returns the progress after it and the bytes that are left.
    ///
    /// An empty plan takes at least one page, however small the budget. Keep the old progress until the plan is staged. Raises as
    /// `lift` does.
    fn lift_within(
        slf: &Bound<'_, Self>,
        import_: &Import,
        mode: Word<TailRows>,
        progress: &LiftProgress,
        budget: u64,
    ) -> PyResult<(LiftProgress, u64)> {
        let (mut progress, mut budget) = (progress.0, Bytes::new(budget));
        restore(slf, |plan| {
            import_.with(|import| plan.lift_within(import, mode.0, &mut progress, &mut budget))
        })?;
        Ok((LiftProgress(progress), budget.get()))
    }

    /// Adds a reserved import, whose lists were checked when it was reserved: a hot call, which takes no lists.
    ///
    /// Raises `PlanError` where it was released or reserved elsewhere, its rows are written already, or the table is full.
    fn lift_reserved(
        slf: &Bound<'_, Self>,
        reservations: &Reservations,
        import_id: &ImportId,
    ) -> PyResult<()> {
        let py = slf.py();
        restore(slf, |plan| plan.lift_reserved(&lock(py, &reservations.0), import_id.0))
    }
}

/// Calls a restore plan.
fn restore<T>(
    slf: &Bound<'_, RestorePlan>,
    call: impl FnOnce(&mut plan::RestorePlan) -> Result<T, PlanError>,
) -> PyResult<T> {
    match &mut *lock(slf.py(), &slf.as_super().as_super().get().0) {
        AnyPlan::Restore(plan) => call(plan).or_raise(),
        _ => Err(wrong_way()),
    }
}

/// A plan that writes pages back to host blocks.
#[pyclass(frozen, extends = PagePlan, module = "pagelift")]
pub struct WriteBackPlan;

#[pymethods]
impl WriteBackPlan {
    #[new]
    #[pyo3(signature = (geometry, *, jobs=384, list_entries=8192))]
    fn new(geometry: &Geometry, jobs: u32, list_entries: u32) -> PyResult<PyClassInitializer<Self>> {
        let plan = pages(geometry, Way::Up, jobs, list_entries)?;
        Ok(PyClassInitializer::from(plan).add_subclass(PagePlan).add_subclass(Self))
    }

    /// Writes pages of a paged group back to host blocks, whole. Raises as `gather` does; `TypeError` for another kind of group.
    fn spill(slf: &Bound<'_, Self>, group: &GroupKey, pages: Numbers, blocks: Numbers) -> PyResult<()> {
        let ByKind::Paged(group) = group.key else {
            return Err(PyTypeError::new_err("pages of rows are spilled; states are checkpointed"));
        };
        write_back(slf, |plan| plan.spill(group, &pages.pages(), &blocks.blocks()))
    }

    /// Writes one request's state back to a host block: the whole page, all layers. Raises as `gather` does; `TypeError` for
    /// another kind of group.
    fn checkpoint(slf: &Bound<'_, Self>, group: &GroupKey, page: u32, block: u32) -> PyResult<()> {
        let ByKind::State(group) = group.key else {
            return Err(PyTypeError::new_err("states are checkpointed; pages of rows are spilled"));
        };
        write_back(slf, |plan| plan.checkpoint(group, PageId::new(page), HostBlockId::new(block)))
    }
}

/// Calls a write-back plan.
fn write_back(
    slf: &Bound<'_, WriteBackPlan>,
    call: impl FnOnce(&mut plan::WriteBackPlan) -> Result<(), PlanError>,
) -> PyResult<()> {
    match &mut *lock(slf.py(), &slf.as_super().as_super().get().0) {
        AnyPlan::WriteBack(plan) => call(plan).or_raise(),
        _ => Err(wrong_way()),
    }
}

/// Which of a plan's digests a call added; `Launcher.digest` takes it.
#[pyclass(frozen, module = "pagelift")]
pub struct DigestNumber(pub RustNumber);

/// Digests of rows, in one launch: one number for each list of blocks, the same for the same rows wherever they lie, and whatever
/// lies in holes and padding.
#[pyclass(frozen, extends = Plan, module = "pagelift")]
pub struct DigestPlan;

#[pymethods]
impl DigestPlan {
    #[new]
    #[pyo3(signature = (geometry, *, jobs=384, list_entries=8192))]
    fn new(geometry: &Geometry, jobs: u32, list_entries: u32) -> PyResult<PyClassInitializer<Self>> {
        let capacity = PlanCapacity { jobs, list_entries };
        let plan = plan::DigestPlan::new(geometry.0.clone(), capacity).or_raise()?;
        Ok(PyClassInitializer::from(Plan::new(AnyPlan::Digest(plan))).add_subclass(Self))
    }

    /// Empties the plan. Numbers that it gave before are of no use any more.
    fn clear(slf: &Bound<'_, Self>) {
        if let AnyPlan::Digest(plan) = &mut *lock(slf.py(), &slf.as_super().get().0) {
            plan.clear();
        }
    }

    /// Adds the first `rows` rows of a list of host blocks. Raises `PlanError` where the side lies on the device, the list has
    /// fewer rows, an id is out of range, or the table is full.
    fn host(slf: &Bound<'_, Self>, side: &DigestKey, blocks: Numbers, rows: u64) -> PyResult<DigestNumber> {
        digest(slf, side, &blocks.blocks(), |plan, key, blocks| match key {
            ByKind::Paged(key) => plan.host(key, blocks, rows),
            ByKind::Ring(key) => plan.host(key, blocks, rows),
            ByKind::State(key) => plan.host(key, blocks, rows),
        })
    }

    /// Adds the first `rows` rows of a list of pages. Raises `PlanError` where the side lies on the host, and as `host` does.
    fn device(slf: &Bound<'_, Self>, side: &DigestKey, pages: Numbers, rows: u64) -> PyResult<DigestNumber> {
        digest(slf, side, &pages.pages(), |plan, key, pages| match key {
            ByKind::Paged(key) => plan.device(key, pages, rows),
            ByKind::Ring(key) => plan.device(key, pages, rows),
            ByKind::State(key) => plan.device(key, pages, rows),
        })
    }
}

/// Adds to a digest plan.
fn digest<B: BlockId>(
    slf: &Bound<'_, DigestPlan>,
    side: &DigestKey,
    blocks: &[B],
    call: impl FnOnce(&mut plan::DigestPlan, AnyDigest, &[B]) -> Result<RustNumber, PlanError>,
) -> PyResult<DigestNumber> {
    match &mut *lock(slf.py(), &slf.as_super().get().0) {
        AnyPlan::Digest(plan) => Ok(DigestNumber(call(plan, side.0, blocks).or_raise()?)),
        _ => Err(wrong_way()),
    }
}
