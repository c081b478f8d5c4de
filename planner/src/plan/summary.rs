//! A plan in words and as data.

use std::cmp::Reverse;
use std::fmt;

use pagelift_abi as abi;
use serde::Serialize;

use super::jobs::{PageJobs, is_list, units_of_block};
use crate::geometry::Geometry;

/// What one launch will do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanSummary {
    /// The direction.
    pub direction: &'static str,
    /// The jobs, in the table's order.
    pub jobs: Vec<JobSummary>,
    /// Units that warps share; 0 for row jobs, whose number is read on the device.
    pub units: u32,
    /// Bytes copied, without rows that are zeroed; `None` for row jobs.
    pub bytes: Option<u64>,
}

/// One job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JobSummary {
    /// The group.
    pub group: String,
    /// Layers.
    pub layers: u32,
    /// Pairs of blocks; `None` for row jobs.
    pub blocks: Option<u32>,
    /// First row of each destination block.
    pub first_row: u32,
    /// First row of each source block; means nothing where rows are zeroed.
    pub source_row: u32,
    /// Rows of each block, or the most tokens of a step.
    pub rows: u32,
    /// Whether rows are zeroed, not copied.
    pub zero: bool,
    /// Units of the job that warps share; `None` for row jobs.
    pub units: Option<u32>,
    /// Bytes written, rows that are zeroed included; `None` for row jobs.
    pub bytes: Option<u64>,
    /// Bytes of one access, each width that occurs, the widest first.
    pub widths: Vec<u32>,
}

/// The access widths of a route's runs.
fn widths_of(geometry: &Geometry, route: u32) -> Vec<u32> {
    let index = |index: u32| usize::try_from(index).unwrap_or(usize::MAX);
    let Some(route) = geometry.tables.routes.get(index(route)) else { return Vec::new() };
    let pairs = geometry.tables.segments.iter().skip(index(route.first_segment)).take(index(route.segments));
    let mut widths: Vec<u32> = pairs.map(|pair| u32::from(pair.width)).collect();
    widths.sort_unstable_by_key(|width| Reverse(*width));
    widths.dedup();
    widths
}

/// The group and layers of a route.
fn group_of(geometry: &Geometry, route: u32) -> (String, u32) {
    let group = geometry.way(route).and_then(|way| geometry.group(way.group));
    group.map_or_else(|| ("?".into(), 0), |group| (group.name().into(), group.layers()))
}

impl PlanSummary {
    pub(super) fn of_pages(direction: &'static str, geometry: &Geometry, of: &PageJobs) -> Self {
        let jobs = of.jobs.iter().map(|job| {
            let (group, layers) = group_of(geometry, job.route);
            let blocks = if is_list(job) { job.destination } else { 1 };
            let units = units_of_block(geometry, job.route, job.rows).saturating_mul(blocks.into());
            let row_bytes = geometry.way(job.route).map_or(0, |way| way.row_bytes);
            let rows = u64::from(job.rows).saturating_mul(blocks.into());
            JobSummary {
                group,
                layers,
                blocks: Some(blocks),
                first_row: job.destination_row,
                source_row: job.source_row,
                rows: job.rows,
                zero: job.flags & abi::job::ZERO != 0,
                units: u32::try_from(units).ok(),
                bytes: Some(row_bytes.saturating_mul(rows)),
                widths: widths_of(geometry, job.route),
            }
        });
        Self { direction, jobs: jobs.collect(), units: of.units, bytes: Some(of.bytes) }
    }

    pub(super) fn of_rows(direction: &'static str, geometry: &Geometry, jobs: &[abi::RowJob]) -> Self {
        let jobs = jobs.iter().map(|job| {
            let (group, layers) = group_of(geometry, job.route);
            JobSummary {
                group,
                layers,
                blocks: None,
                first_row: 0,
                source_row: 0,
                rows: job.capacity,
                zero: false,
                units: None,
                bytes: None,
                widths: widths_of(geometry, job.route),
            }
        });
        Self { direction, jobs: jobs.collect(), units: 0, bytes: None }
    }
}

impl fmt::Display for PlanSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.direction, Count(self.jobs.len(), "job"))?;
        if let Some(bytes) = self.bytes {
            write!(f, ", {}, {bytes} B", Count(self.units, "unit"))?;
        }
        for job in &self.jobs {
            let JobSummary { group, layers, first_row, rows, zero, .. } = job;
            let verb = if *zero { "zero" } else { "copy" };
            let layers = Count(*layers, "layer");
            match job.blocks {
                Some(blocks) => {
                    let end = first_row.saturating_add(*rows);
                    let blocks = Count(blocks, "block");
                    write!(f, "\n  {verb} `{group}`: {blocks}, rows {first_row}..{end}, {layers}")?;
                }
                None => write!(f, "\n  mirror `{group}`: up to {} a step, {layers}", Count(*rows, "token"))?,
            }
        }
        Ok(())
    }
}

/// A number of things, in words.
struct Count<N>(N, &'static str);

impl<N: fmt::Display + PartialEq + From<u8>> fmt::Display for Count<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(number, thing) = self;
        let plural = if *number == N::from(1) { "" } else { "s" };
        write!(f, "{number} {thing}{plural}")
    }
}
