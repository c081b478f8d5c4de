//! What a launcher has done.

use pagelift_planner::quantity::Bytes;

use super::ring::Totals;
use crate::backends::Pieces;

/// Sums since a launcher was bound. They are software accounting: what plans said, and what kernels reported, not what
/// a bus was seen to carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Plans staged.
    pub staged: u64,
    /// Launches made, those that had nothing to do included.
    pub launches: u64,
    /// Jobs of the staged plans.
    pub jobs: u64,
    /// Bytes that the staged plans copy, or that digests read; `None` where only the device knows (row plans).
    pub bytes: Option<u64>,
    /// Plans that were carried out.
    pub done: u64,
    /// Plans that were overwritten before they ran.
    pub superseded: u64,
    /// Plans whose table had another version.
    pub refused: u64,
    /// Rows copied by row plans; `None` for page plans, whose rows nobody counts.
    pub rows: Option<u64>,
    /// Entries of slot mappings rightly skipped; `None` for page plans.
    pub skipped: Option<u64>,
    /// Bad entries met on the device.
    pub bad: u64,
}

impl Counters {
    /// Of plans that copy pages or read them, and whose bytes the host knows; or of plans whose rows kernels count.
    pub(super) fn of(pieces: Pieces) -> Self {
        match pieces {
            Pieces::Pages => Self { bytes: Some(0), ..Self::default() },
            Pieces::Rows => Self { rows: Some(0), skipped: Some(0), ..Self::default() },
        }
    }

    pub(super) fn staged(&mut self, jobs: usize, bytes: Option<Bytes>) {
        self.staged += 1;
        self.jobs += jobs as u64;
        self.bytes = self.bytes.zip(bytes).map(|(sum, bytes)| sum.saturating_add(bytes.get()));
    }

    pub(super) fn launched(&mut self) {
        self.launches += 1;
    }

    /// Together with what kernels reported.
    pub(super) fn with(mut self, totals: Totals) -> Self {
        let Totals { done, superseded, refused, bad, rows, skipped } = totals;
        (self.done, self.superseded, self.refused, self.bad) = (done, superseded, refused, bad);
        (self.rows, self.skipped) = (self.rows.map(|_| rows), self.skipped.map(|_| skipped));
        self
    }
}
