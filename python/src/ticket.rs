//! What became of staged plans.

use pagelift::id;
use pagelift::launcher::{self, TicketState};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The number of one staged plan, counted from 1 by each launcher. Tickets of two launchers are never equal.
#[pyclass(frozen, eq, hash, from_py_object, module = "pagelift")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Ticket(pub id::Ticket);

#[pymethods]
impl Ticket {
    /// Its number, from 1.
    #[getter]
    fn number(&self) -> u64 {
        self.0.number()
    }

    /// The `id` of the launcher that gave it.
    #[getter]
    fn launcher(&self) -> u64 {
        self.0.launcher()
    }

    fn __repr__(&self) -> String {
        format!("Ticket({} of launcher {})", self.0.number(), self.0.launcher())
    }
}

/// What a launch reported of one plan.
#[pyclass(frozen, eq, get_all, module = "pagelift")]
#[derive(Clone, PartialEq, Eq)]
pub struct Report {
    /// Rows that a row plan copied; 0 for page plans.
    rows: u32,
    /// Entries of slot mappings that were rightly left alone: padding, pages without a mirror, tokens that were not accepted.
    skipped: u32,
    /// Entries on the device that made no sense: skipped too, never written somewhere else.
    bad: u32,
}

#[pymethods]
impl Report {
    fn __repr__(&self) -> String {
        format!("Report(rows={}, skipped={}, bad={})", self.rows, self.skipped, self.bad)
    }
}

impl From<launcher::Report> for Report {
    fn from(report: launcher::Report) -> Self {
        Self { rows: report.rows, skipped: report.skipped, bad: report.bad }
    }
}

/// The word of a state, as `Launcher.state` returns it.
pub fn word(state: TicketState) -> &'static str {
    match state {
        TicketState::Pending => "pending",
        TicketState::Done(_) => "done",
        TicketState::Superseded => "superseded",
        TicketState::Refused => "refused",
        TicketState::Lost => "lost",
        TicketState::Unknown => "unknown",
    }
}

/// Sums since a launcher was bound: software accounting of what plans said and kernels reported, not what a bus carried.
/// What nobody counts is `None`, never 0.
#[pyclass(frozen, eq, get_all, module = "pagelift")]
#[derive(Clone, PartialEq, Eq)]
pub struct Counters {
    /// Plans staged.
    staged: u64,
    /// Launches made, those that had nothing to do included; replays of graphs are not among them.
    launches: u64,
    /// Jobs of the staged plans.
    jobs: u64,
    /// Bytes that the staged plans copy, or that digests read; `None` for row plans.
    bytes: Option<u64>,
    /// Plans that were carried out.
    done: u64,
    /// Plans that were overwritten before they ran.
    superseded: u64,
    /// Plans whose table had another version.
    refused: u64,
    /// Rows copied by row plans; `None` for page plans.
    rows: Option<u64>,
    /// Entries of slot mappings rightly skipped; `None` for page plans.
    skipped: Option<u64>,
    /// Bad entries met on the device.
    bad: u64,
}

impl From<launcher::Counters> for Counters {
    fn from(counters: launcher::Counters) -> Self {
        let launcher::Counters {
            staged,
            launches,
            jobs,
            bytes,
            done,
            superseded,
            refused,
            rows,
            skipped,
            bad,
        } = counters;
        Self { staged, launches, jobs, bytes, done, superseded, refused, rows, skipped, bad }
    }
}

#[pymethods]
impl Counters {
    /// All of them by name, for a metrics exporter.
    fn as_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        let counts = [
            ("staged", Some(self.staged)),
            ("launches", Some(self.launches)),
            ("jobs", Some(self.jobs)),
            ("bytes", self.bytes),
            ("done", Some(self.done)),
            ("superseded", Some(self.superseded)),
            ("refused", Some(self.refused)),
            ("rows", self.rows),
            ("skipped", self.skipped),
            ("bad", Some(self.bad)),
        ];
        counts.into_iter().try_for_each(|(name, count)| all.set_item(name, count))?;
        Ok(all)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let words = self.as_dict(py)?.iter().map(|(name, count)| Ok(format!("{name}={}", count.repr()?)));
        Ok(format!("Counters({})", words.collect::<PyResult<Vec<String>>>()?.join(", ")))
    }
}
