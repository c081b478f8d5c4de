//! From memory, a geometry and a plan to a work: the ways of doing it, by multiprocessor budget and without the kernel.

use std::num::NonZeroU32;
use std::sync::Arc;

use pagelift::backends::Launchable;
use pagelift::error::PlanError;
use pagelift::geometry::{Geometry, GroupKey, GroupSpec, Landing, Memory, Paged, PagedLift, SideKey};
use pagelift::launcher::{Launcher, LauncherOptions};
use pagelift::layout::PagedLayout;
use pagelift::memory::{RegionId, Registry};
use pagelift::plan::{Direction, PagePlan};

use super::BenchError;
use super::bed::{Bed, Move, Pages, Pool};
use super::measure::{EAGER, KERNEL, Way, Work};
use super::rig::Rig;

/// The budget of launches that nobody gives one.
pub const USUAL: NonZeroU32 = NonZeroU32::new(4).unwrap();

/// What figures are asked for with.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Multiprocessors, ascending.
    pub budgets: Vec<NonZeroU32>,
    /// What all randomness follows from.
    pub seed: u64,
    /// Whether works are small.
    pub small: bool,
}

impl Asked {
    /// A number of layers, requests or rows; fewer where works are small.
    pub fn count(&self, full: u32) -> u32 {
        if self.small { full.div_ceil(16) } else { full }
    }
}

/// A work in the making.
pub struct Draft<'r, B> {
    pub rig: &'r B,
    pub bed: Bed,
    pub asked: Asked,
}

/// What a work moves, besides its plan.
pub struct Moved {
    /// From memory to memory.
    pub from: Memory,
    pub to: Memory,
    pub moves: Vec<Move>,
    /// Arrays that the launch reads.
    pub arrays: Vec<(RegionId, Vec<u8>)>,
}

impl<'r, B: Rig> Draft<'r, B> {
    pub fn new(rig: &'r B, asked: &Asked) -> Self {
        Self { rig, bed: Bed::new(asked.seed, asked.small), asked: asked.clone() }
    }

    /// Allocates a pool.
    pub fn pool(&mut self, name: &str, pages: Pages) -> Result<Pool, BenchError> {
        self.bed.pool(self.rig, name, pages)
    }

    /// A group whose only side so far is in one memory.
    pub fn one_sided(
        &mut self,
        place: Memory,
        pool: &Pool,
        layout: &PagedLayout,
    ) -> Result<(GroupKey<Paged>, SideKey<Paged>), BenchError> {
        let side = |memory| (place == memory).then(|| pool.side(layout.clone()));
        let builder = &mut self.bed.builder;
        let key = builder.group(GroupSpec::<Paged> {
            name: "rows".into(),
            layers: 1,
            landing: if place == Memory::Host { Landing::Host } else { Landing::Device },
            lift: PagedLift::None,
            host: side(Memory::Host),
            device: side(Memory::Device),
        })?;
        Ok((key, builder.main_side(key, place).ok_or(PlanError::ForeignKey)?))
    }

    /// Finishes the geometry.
    pub fn geometry(&mut self) -> Result<Arc<Geometry>, BenchError> {
        Ok(Arc::new(std::mem::take(&mut self.bed.builder).build()?))
    }

    /// The work of what one plan does, against a contiguous copy of as many bytes.
    pub fn work<P: Launchable + 'r>(
        mut self,
        moved: &Moved,
        plan: impl FnMut() -> Result<P, BenchError>,
    ) -> Result<Work<'r>, BenchError> {
        let bytes = moved.moves.iter().map(|one| one.bytes).sum();
        let mut scratch = |place| self.bed.allocate(self.rig, place, bytes);
        let (from, to) = (scratch(moved.from)?, scratch(moved.to)?);
        self.bed.fill(&moved.moves)?;
        for (array, bytes) in &moved.arrays {
            self.bed.memory.write(*array, 0, bytes)?;
        }
        let run = self.rig.contiguous(from, to, bytes);
        let ways = self.kernels(Way::beside("contiguous copy", run), plan)?;
        Ok(Work { bed: self.bed, ways, bytes, fragments: fragments(&moved.moves) })
    }

    /// The work of a page plan: also as the copies that one would make without the kernel.
    pub fn page_work<D: Direction>(
        self,
        moved: &Moved,
        plan: impl Fn() -> Result<PagePlan<D>, BenchError>,
    ) -> Result<Work<'r>, BenchError> {
        let rig = self.rig;
        let mut work = self.work(moved, &plan)?;
        work.ways.extend(rig.plain(plan()?, &mut work.bed.memory)?);
        Ok(work)
    }

    /// A way, and the kernel with each budget after it.
    pub fn kernels<P: Launchable + 'r>(
        &mut self,
        first: Way<'r>,
        mut plan: impl FnMut() -> Result<P, BenchError>,
    ) -> Result<Vec<Way<'r>>, BenchError> {
        let mut ways = vec![first];
        for budget in self.asked.budgets.clone() {
            let launcher = self.staged(budget, plan()?)?;
            let run = self.rig.repeated(launcher, &mut self.bed.memory)?;
            ways.push(Way::new(KERNEL, run).within(budget.get()));
        }
        let usual = self.asked.budgets.iter().rev().find(|budget| **budget <= USUAL).copied();
        if let Some(budget) = usual.filter(|_| B::GRAPHS) {
            let mut launcher = self.staged(budget, plan()?)?;
            let run = move |memory: &mut Registry| launcher.launch(memory);
            ways.push(Way::new(EAGER, Box::new(run)).within(budget.get()));
        }
        Ok(ways)
    }

    /// A launcher whose plan runs in each launch.
    fn staged<P: Launchable>(
        &self,
        budget: NonZeroU32,
        mut plan: P,
    ) -> Result<Launcher<&'r B, P>, BenchError> {
        let options = LauncherOptions { workers: Some(budget), repeat: true, ..LauncherOptions::default() };
        let mut launcher = Launcher::bind(self.rig, &self.bed.memory, &mut plan, options)?;
        launcher.stage(&self.bed.memory, &mut plan)?;
        Ok(launcher)
    }
}

/// How many pieces there are that lie together on both sides.
fn fragments(moves: &[Move]) -> u64 {
    let joins = |pair: &[Move]| matches!(pair, [one, next] if one.from.plus(one.bytes) == next.from && one.to.plus(one.bytes) == next.to);
    (moves.len() - moves.windows(2).filter(|pair| joins(pair)).count()) as u64
}

/// One side of a copy: pages of a pool, as a layout has them.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    pub pool: &'a Pool,
    pub layout: &'a PagedLayout,
    pub block: u32,
    pub row: u32,
}

/// Rows that must come from one page to another, in each of these layers.
pub fn rows(layers: u32, from: Rows<'_>, to: Rows<'_>, count: u32) -> Vec<Move> {
    let mut moves = Vec::new();
    for layer in 0..layers {
        let ends = [from, to].map(|end| end.pool.page(layer, end.block));
        for (source, target) in from.layout.segments().iter().zip(to.layout.segments()) {
            for row in 0..count {
                let at = |stride: u32, first: u32| u64::from(stride) * u64::from(first + row);
                moves.push(Move {
                    from: ends[0].plus(source.offset() + at(source.row_stride(), from.row)),
                    to: ends[1].plus(target.offset() + at(target.row_stride(), to.row)),
                    bytes: u64::from(source.row_bytes()),
                });
            }
        }
    }
    moves
}
