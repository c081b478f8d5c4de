//! What a plan copies, spelled out: for what copies memory without reading a table, such as a GPU's copy engines.

use super::direction::Direction;
use super::jobs::pairs_of;
use super::pages::PagePlan;
use crate::geometry::Geometry;
use pagelift_abi as abi;

/// Rows of one length at equal distances, which one copy moves: most often one row, that is, bytes that lie together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyRun {
    /// Address of the first row; `None` where zeros are written.
    pub source: Option<u64>,
    /// Address that it goes to.
    pub destination: u64,
    /// Bytes of a row.
    pub bytes: u64,
    /// Rows; at least 1.
    pub rows: u32,
    /// Bytes from one source row to the next. Of one row it means nothing.
    pub source_stride: u64,
    /// Bytes from one destination row to the next. Of one row it means nothing.
    pub destination_stride: u64,
}

impl CopyRun {
    /// Bytes of all rows.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.bytes.saturating_mul(self.rows.into())
    }

    /// Each row by itself.
    pub fn each(self) -> impl Iterator<Item = Self> {
        (0..u64::from(self.rows)).map(move |row| Self {
            source: self.source.map(|at| at.saturating_add(row.saturating_mul(self.source_stride))),
            destination: self.destination.saturating_add(row.saturating_mul(self.destination_stride)),
            rows: 1,
            ..self
        })
    }

    /// Sorts runs by their destination, and makes one of those that lie together on both sides.
    ///
    /// ```
    /// # use pagelift_planner::plan::CopyRun;
    /// let run = |source, destination| {
    ///     CopyRun { source: Some(source), destination, bytes: 16, rows: 1, source_stride: 16, destination_stride: 16 }
    /// };
    /// let mut runs = vec![run(116, 16), run(300, 32), run(100, 0)];
    /// CopyRun::join(&mut runs);
    /// assert_eq!(runs, [CopyRun { bytes: 32, ..run(100, 0) }, run(300, 32)]);
    /// ```
    pub fn join(runs: &mut Vec<Self>) {
        runs.sort_unstable_by_key(|run| run.destination);
        runs.dedup_by(|next, last| last.takes(next));
    }

    /// Makes one of runs that follow each other and lie together on both sides: what [`CopyRun::join`] does, without sorting them.
    ///
    /// ```
    /// # use pagelift_planner::plan::CopyRun;
    /// let run = |source, destination| {
    ///     CopyRun { source: Some(source), destination, bytes: 16, rows: 1, source_stride: 16, destination_stride: 16 }
    /// };
    /// let runs = CopyRun::joined([run(100, 0), run(116, 16), run(300, 32)]);
    /// assert!(runs.eq([CopyRun { bytes: 32, ..run(100, 0) }, run(300, 32)]));
    /// ```
    pub fn joined(runs: impl IntoIterator<Item = Self>) -> impl Iterator<Item = Self> {
        let mut runs = runs.into_iter();
        let mut next = runs.next();
        std::iter::from_fn(move || {
            let mut run = next.take()?;
            next = runs.by_ref().find(|after| !run.takes(after));
            Some(run)
        })
    }

    /// Takes in a run that continues each row of this one, where it does.
    fn takes(&mut self, next: &Self) -> bool {
        let after = |at: u64| at.checked_add(self.bytes);
        let sources = match (self.source, next.source) {
            (Some(own), Some(next)) => after(own) == Some(next),
            (None, None) => true,
            _ => false,
        };
        let strides = |run: &Self| (run.source_stride, run.destination_stride);
        let alike = self.rows == next.rows && (self.rows == 1 || strides(self) == strides(next));
        let joins = sources && alike && after(self.destination) == Some(next.destination);
        if joins {
            self.bytes = self.bytes.saturating_add(next.bytes);
            *self = self.packed();
        }
        joins
    }

    /// The same as one row, where all rows lie together.
    fn packed(self) -> Self {
        let together = |stride: u64| stride == self.bytes;
        let sources = self.source.is_none() || together(self.source_stride);
        if sources && together(self.destination_stride) {
            return Self { bytes: self.total(), rows: 1, ..self };
        }
        self
    }
}

impl<D: Direction> PagePlan<D> {
    /// What the plan copies, run by run: what a launch of its table does.
    pub fn copies(&self) -> impl Iterator<Item = CopyRun> {
        let (geometry, lists) = (&*self.geometry, &self.jobs.lists);
        let routed =
            self.jobs.jobs.iter().filter_map(|job| Some((job, entry(geometry.routes(), job.route)?)));
        routed.flat_map(move |(job, route)| {
            pairs_of(job, lists).flat_map(move |blocks| {
                let layers = 0..route.layers;
                layers.flat_map(move |layer| {
                    segments(geometry, route)
                        .iter()
                        .map(move |pair| run(geometry, route, job, blocks, layer, pair))
                })
            })
        })
    }
}

/// The segment pairs of a route.
fn segments<'a>(geometry: &'a Geometry, route: &abi::Route) -> &'a [abi::SegmentPair] {
    let index = |index: u32| usize::try_from(index).unwrap_or(usize::MAX);
    let rest = geometry.segments().get(index(route.first_segment)..).unwrap_or_default();
    rest.get(..index(route.segments)).unwrap_or_default()
}

/// Rows of one job in one pair of blocks, one layer and one pair of segments.
fn run(
    geometry: &Geometry,
    route: &abi::Route,
    job: &abi::PageJob,
    blocks: abi::BlockPair,
    layer: u32,
    pair: &abi::SegmentPair,
) -> CopyRun {
    let at = |side: &abi::Side, block: u32, base: u32, offset: u64, row: u32, stride: u32| {
        let row = u64::from(row).saturating_mul(stride.into());
        address(geometry, side, layer, block, base).saturating_add(offset).saturating_add(row)
    };
    let source = || {
        let (base, offset, stride) = (pair.source_base, pair.source_offset, pair.source_stride);
        at(&route.source, blocks.source, base, offset, job.source_row, stride)
    };
    let (base, offset, stride) = (pair.destination_base, pair.destination_offset, pair.destination_stride);
    let run = CopyRun {
        source: (job.flags & abi::job::ZERO == 0).then(source),
        destination: at(&route.destination, blocks.destination, base, offset, job.destination_row, stride),
        bytes: pair.row_bytes.into(),
        rows: job.rows,
        source_stride: pair.source_stride.into(),
        destination_stride: stride.into(),
    };
    // A page of one row is contiguous whatever its stride.
    run.packed()
}

/// Where a block of a layer begins, or one region of it: the formula of [`abi::Side`].
fn address(geometry: &Geometry, side: &abi::Side, layer: u32, block: u32, region: u32) -> u64 {
    let extent = block.checked_div(side.blocks_per_extent).unwrap_or(0);
    let within = block.checked_rem(side.blocks_per_extent).unwrap_or(0);
    let layer = layer.saturating_mul(side.layer_bases);
    let index = side.bases.saturating_add(layer).saturating_add(region).saturating_add(extent);
    let base = entry(geometry.bases(), index).copied().unwrap_or(0);
    base.saturating_add(u64::from(within).saturating_mul(side.block_stride))
}

/// Entry `index` of a table.
fn entry<T>(table: &[T], index: u32) -> Option<&T> {
    usize::try_from(index).ok().and_then(|index| table.get(index))
}
