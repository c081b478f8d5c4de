//! Plans: what one launch copies, checked against a geometry.

use std::sync::Mutex;

use pagelift::plan::{self, DigestNumber as RustNumber, PlanCapacity, TailRows};
use pagelift::quantity::Bytes;
use pagelift_bindings::keys::Way;
use pagelift_bindings::plan::AnyPlan;
use pyo3::prelude::*;

use crate::error::OrRaise;
use crate::geometry::Geometry;
use crate::import::Import;
use crate::keys::{DigestKey, GroupKey, RouteKey};
use crate::locks::{lock, turn};
use crate::reservations::{ImportId, Reservations};
use crate::words::{Numbers, Word};

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
    fn jobs(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(turn(py, &self.0)?.jobs())
    }

    /// Bytes that the launch copies (or digests read); `None` where only the device knows (row plans).
    #[getter]
    fn bytes(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        Ok(turn(py, &self.0)?.bytes().map(Bytes::get))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(turn(py, &self.0)?.to_string())
    }
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
    fn clear(slf: &Bound<'_, Self>) -> PyResult<()> {
        change(slf.as_super(), |plan| plan.clear())
    }

    /// Whether nothing is planned.
    #[getter]
    fn is_empty(slf: &Bound<'_, Self>) -> PyResult<bool> {
        Ok(slf.as_super().get().jobs(slf.py())? == 0)
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
        change(slf.as_super(), |plan| plan.gather(&route.0, sources.0, destinations.0))
    }

    /// Writes zeros to rows `first .. first + rows` of a block at the end of a route. Raises `PlanError` where these are not rows
    /// of the block, or are written already.
    fn zero(slf: &Bound<'_, Self>, route: &RouteKey, block: u32, first: u32, rows: u32) -> PyResult<()> {
        change(slf.as_super(), |plan| plan.zero(&route.0, block, first, rows))
    }
}

/// Changes a plan.
pub fn change<T>(
    plan: &Bound<'_, Plan>,
    change: impl FnOnce(&mut AnyPlan) -> pagelift_bindings::Result<T>,
) -> PyResult<T> {
    change(&mut *turn(plan.py(), &plan.get().0)?).or_raise()
}

fn pages(geometry: &Geometry, way: Way, jobs: u32, list_entries: u32) -> PyResult<Plan> {
    let capacity = PlanCapacity { jobs, list_entries };
    Ok(Plan::new(AnyPlan::pages(geometry.0.clone(), way, capacity).or_raise()?))
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
        change(slf.as_super().as_super(), |plan| plan.lift(&import_.0, mode.0))
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
        change(slf.as_super().as_super(), |plan| {
            plan.lift_within(&import_.0, mode.0, &mut progress, &mut budget)
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
        let mut plan = turn(slf.py(), &slf.as_super().as_super().get().0)?;
        let reservations = lock(slf.py(), &reservations.0)?;
        plan.lift_reserved(&reservations, import_id.0).or_raise()
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
        change(slf.as_super().as_super(), |plan| plan.spill(group.key, pages.0, blocks.0))
    }

    /// Writes one request's state back to a host block: the whole page, all layers. Raises as `gather` does; `TypeError` for
    /// another kind of group.
    fn checkpoint(slf: &Bound<'_, Self>, group: &GroupKey, page: u32, block: u32) -> PyResult<()> {
        change(slf.as_super().as_super(), |plan| plan.checkpoint(group.key, page, block))
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
        let plan = AnyPlan::digests(geometry.0.clone(), capacity).or_raise()?;
        Ok(PyClassInitializer::from(Plan::new(plan)).add_subclass(Self))
    }

    /// Empties the plan. Numbers that it gave before are of no use any more.
    fn clear(slf: &Bound<'_, Self>) -> PyResult<()> {
        change(slf.as_super(), |plan| plan.clear())
    }

    /// Adds the first `rows` rows of a list of host blocks. Raises `PlanError` where the side lies on the device, the list has
    /// fewer rows, an id is out of range, or the table is full.
    fn host(slf: &Bound<'_, Self>, side: &DigestKey, blocks: Numbers, rows: u64) -> PyResult<DigestNumber> {
        change(slf.as_super(), |plan| plan.digest_host(side.0, blocks.0, rows)).map(DigestNumber)
    }

    /// Adds the first `rows` rows of a list of pages. Raises `PlanError` where the side lies on the host, and as `host` does.
    fn device(slf: &Bound<'_, Self>, side: &DigestKey, pages: Numbers, rows: u64) -> PyResult<DigestNumber> {
        change(slf.as_super(), |plan| plan.digest_device(side.0, pages.0, rows)).map(DigestNumber)
    }
}
