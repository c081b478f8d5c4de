//! Consecutive rows from one list of blocks to another.
//!
//! Rows per block may differ by a power of two (logical blocks of 128 tokens, kernel pages of 64). Rows are then paired
//! in *steps*, as many rows as the smaller of the two has: step `k` of a run is part `k % parts` of block `k / parts` on
//! either side. Steps that are the same parts of their blocks make one job with a list, so that a run of any length is
//! at most as many jobs as a block has parts, and one for the rows left over.

use pagelift_abi as abi;

use super::claims::Use;
use super::direction::Direction;
use super::jobs::Piece;
use super::pages::PagePlan;
use crate::error::PlanError;
use crate::geometry::Route;
use crate::id::BlockId;

/// The rows of one run.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    /// The first step, counted from the first block of the lists on either side.
    pub first_step: [u32; 2],
    /// Rows from there on.
    pub count: u64,
    /// Whether the destinations are claimed already.
    pub claimed: bool,
}

/// The geometry of steps on both sides of a route.
#[derive(Clone, Copy)]
pub(super) struct Steps {
    /// Rows of a step.
    pub rows: u32,
    /// Steps of a source block and of a destination block: one of them is 1.
    pub parts: [u32; 2],
}

impl Steps {
    pub fn of(way: &Route) -> Self {
        let rows = way.source_rows.min(way.destination_rows);
        let parts = |block: u32| block.checked_div(rows).unwrap_or(1);
        Self { rows, parts: [parts(way.source_rows), parts(way.destination_rows)] }
    }

    /// Steps that are the same parts of their blocks come again after so many.
    fn period(self) -> u32 {
        let [source, destination] = self.parts;
        source.max(destination)
    }
}

impl<D: Direction> PagePlan<D> {
    /// Adds a run of rows, and claims what it reads and writes. Lists that are too short are the caller's mistake, and
    /// end the run.
    pub(super) fn add_run<S: BlockId, T: BlockId>(
        &mut self,
        way: (u32, Route),
        sources: &[S],
        destinations: &[T],
        run: Rows,
    ) -> Result<(), PlanError> {
        let steps = Steps::of(&way.1);
        let whole = run.count.checked_div(u64::from(steps.rows)).unwrap_or(0);
        let rest = run.count.checked_rem(u64::from(steps.rows)).unwrap_or(0);
        let whole = u32::try_from(whole).unwrap_or(u32::MAX);
        let rest = u32::try_from(rest).unwrap_or(0);
        for class in 0..steps.period().min(whole) {
            self.add_class(
                way,
                sources,
                destinations,
                run,
                steps,
                Class { first: class, end: whole, rows: steps.rows },
            )?;
        }
        let last = Class { first: whole, end: whole.saturating_add(1), rows: rest };
        self.add_class(way, sources, destinations, run, steps, last)
    }

    /// Adds the steps of one class: the same parts of their blocks.
    fn add_class<S: BlockId, T: BlockId>(
        &mut self,
        way: (u32, Route),
        sources: &[S],
        destinations: &[T],
        run: Rows,
        steps: Steps,
        class: Class,
    ) -> Result<(), PlanError> {
        if class.rows == 0 {
            return Ok(());
        }
        let place = |side: usize, step: u32| {
            let first = run.first_step.get(side).copied().unwrap_or(0);
            let parts = steps.parts.get(side).copied().unwrap_or(1);
            let step = first.saturating_add(step);
            let part = step.checked_rem(parts).unwrap_or(0);
            (step.checked_div(parts).unwrap_or(0), part.saturating_mul(steps.rows))
        };
        let block = |step: u32| {
            let index = |side: usize| usize::try_from(place(side, step).0).unwrap_or(usize::MAX);
            let (source, destination) = (sources.get(index(0)), destinations.get(index(1)));
            abi::BlockPair {
                source: source.map_or(u32::MAX, |block| block.raw()),
                destination: destination.map_or(u32::MAX, |block| block.raw()),
            }
        };
        let numbers = || (class.first..class.end).step_by(usize::try_from(steps.period()).unwrap_or(1));
        let piece = Piece {
            source_row: place(0, class.first).1,
            destination_row: place(1, class.first).1,
            rows: class.rows,
            zero: false,
        };
        // Capacity comes first, so that there are never more claims than room was made for.
        self.add(way, numbers().map(block), piece)?;
        for pair in numbers().map(block) {
            let rows = |first: u32| first..first.saturating_add(class.rows);
            self.claim(way.1.source, pair.source, rows(piece.source_row), Use::Read)?;
            if !run.claimed {
                self.claim(way.1.destination, pair.destination, rows(piece.destination_row), Use::Write)?;
            }
        }
        Ok(())
    }
}

/// Steps `first, first + period, … < end` of a run, `rows` rows of each.
#[derive(Clone, Copy)]
struct Class {
    first: u32,
    end: u32,
    rows: u32,
}
