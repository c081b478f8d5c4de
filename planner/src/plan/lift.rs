//! Lifting: the imported blocks of each group into pages.

use std::ops::Range;
use std::sync::Arc;

use pagelift_abi as abi;
use serde::{Deserialize, Serialize};

use super::claims::Use;
use super::direction::{Direction, HostToDevice};
use super::gather::no_route;
use super::jobs::Piece;
use super::pages::PagePlan;
use super::run::{Rows, Steps};
use crate::error::PlanError;
use crate::geometry::{Geometry, Group, GroupKey, Lift, Memory, Paged, Route, Side};
use crate::id::PageId;
use crate::import::{BlockSpan, Import, ImportGroup, PromptSpan};
use crate::quantity::Bytes;

/// Which rows of a partly filled page are lifted.
///
/// | | imported rows | rows after them |
/// |---|---|---|
/// | `Whole` | copied | copied; they mean nothing |
/// | `Exact` | copied | left alone |
/// | `ExactZeroed` | copied | zeros |
///
/// Pages before the writable one are full, and states are whole: they are copied whole in every mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TailRows {
    /// The whole final block: one contiguous copy a segment.
    #[default]
    Whole,
    /// The complete imported rows.
    Exact,
    /// The complete imported rows, and zeros up to the page's end.
    ExactZeroed,
}

/// Where an import that is lifted over several plans goes on.
///
/// ```
/// use pagelift_planner::plan::LiftProgress;
/// assert!(!LiftProgress::default().is_finished());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiftProgress {
    /// Groups of the import that are lifted.
    groups: usize,
    /// Steps of the next group that are.
    steps: u32,
    finished: bool,
}

impl LiftProgress {
    /// One that was taken apart by [`LiftProgress::parts`], for callers who keep it as numbers.
    #[doc(hidden)]
    #[must_use]
    pub const fn of_parts((groups, steps, finished): (usize, u32, bool)) -> Self {
        Self { groups, steps, finished }
    }

    /// Its parts: groups that are lifted, steps of the next one, and whether nothing is left.
    #[doc(hidden)]
    #[must_use]
    pub const fn parts(self) -> (usize, u32, bool) {
        (self.groups, self.steps, self.finished)
    }

    /// Whether nothing is left to lift.
    #[must_use]
    pub const fn is_finished(self) -> bool {
        self.finished
    }
}

impl PagePlan<HostToDevice> {
    /// Adds an import: what each of its groups lifts. All of its lists are checked; an import that is
    /// [reserved](crate::lifecycle::Reservations) is checked once, and [`PagePlan::lift_reserved`] costs less.
    ///
    /// Groups that are not lifted may be listed too; their blocks are then known to belong to this import.
    ///
    /// # Errors
    /// Where a lifted group is missing or comes twice, a list has another length than the tokens need, an id is out
    /// of range, rows are written twice, a block belongs to another group, or the table is full. The plan is then as
    /// it was.
    pub fn lift(&mut self, import: &Import<'_>, mode: TailRows) -> Result<(), PlanError> {
        let mut everything = Bytes::new(u64::MAX);
        self.lift_within(import, mode, &mut LiftProgress::default(), &mut everything)
    }

    /// Adds as much of an import as `budget` allows, and takes that from it; `progress` says where the next plan goes on.
    ///
    /// Rows are lifted in whole pages of all layers (or steps of them, where host blocks are smaller), the smallest
    /// amount that a job can name; states are lifted whole. An empty plan takes at least one of these, however small
    /// the budget, so that every plan gets ahead.
    ///
    /// Keep the old progress until the plan is staged: a plan that is thrown away is then made again with nothing lost
    /// or lifted twice.
    ///
    /// # Errors
    /// As [`PagePlan::lift`]. Plan, progress and budget are then as they were.
    pub fn lift_within(
        &mut self,
        import: &Import<'_>,
        mode: TailRows,
        progress: &mut LiftProgress,
        budget: &mut Bytes,
    ) -> Result<(), PlanError> {
        let mark = self.begin();
        let (mut at, mut left) = (*progress, *budget);
        self.lift_groups(import, mode, &mut at, &mut left).inspect_err(|_| self.rewind(mark))?;
        (*progress, *budget) = (at, left);
        Ok(())
    }

    fn lift_groups(
        &mut self,
        import: &Import<'_>,
        mode: TailRows,
        progress: &mut LiftProgress,
        budget: &mut Bytes,
    ) -> Result<(), PlanError> {
        let geometry = Arc::clone(&self.geometry);
        self.check_groups(&geometry, import)?;
        let mut open = !progress.finished;
        for (number, lists) in import.groups.iter().enumerate() {
            let group = geometry.group(lists.group).ok_or(PlanError::ForeignGroup { group: lists.group })?;
            if !group.is_lifted() || lists.landed {
                self.hold_lists(group, lists)?;
                continue;
            }
            let lifting = Lifting::new(&geometry, lists, group, import.span, mode)?;
            let done = match number.cmp(&progress.groups) {
                std::cmp::Ordering::Less => lifting.steps(),
                std::cmp::Ordering::Equal => progress.steps,
                std::cmp::Ordering::Greater => 0,
            };
            let taken = if open { self.take(&lifting, done, budget) } else { 0 };
            self.lift_group(&lifting, done, taken)?;
            let reached = done.saturating_add(taken);
            if open && reached < lifting.steps() {
                (progress.groups, progress.steps, open) = (number, reached, false);
            }
        }
        progress.finished = progress.finished || open;
        Ok(())
    }

    /// Refuses an import that brings a group twice, or not at all though it is lifted.
    fn check_groups(&mut self, geometry: &Geometry, import: &Import<'_>) -> Result<(), PlanError> {
        self.imports = self.imports.wrapping_add(1);
        for lists in import.groups {
            let own = geometry.group(lists.group).filter(|_| lists.geometry == geometry.stamp);
            let group = own.ok_or(PlanError::ForeignGroup { group: lists.group })?;
            let seen = usize::try_from(lists.group.get()).ok().and_then(|index| self.seen.get_mut(index));
            if seen.is_some_and(|seen| std::mem::replace(seen, self.imports) == self.imports) {
                return Err(PlanError::GroupTwice { group: group.name.clone() });
            }
        }
        let mut unseen = geometry.groups.iter().zip(&self.seen).filter(|(_, seen)| **seen != self.imports);
        match unseen.find(|(group, _)| group.is_lifted()) {
            Some((group, _)) => Err(PlanError::GroupMissing { group: group.name.clone() }),
            None => Ok(()),
        }
    }

    fn hold_lists(&mut self, group: &Group, lists: &ImportGroup<'_>) -> Result<(), PlanError> {
        let name = |side: &'static str| PlanError::NoRoute {
            group: group.name.clone(),
            side,
            direction: HostToDevice::NAME,
        };
        if !lists.blocks.is_empty() {
            self.hold(group.host.ok_or_else(|| name("host"))?, lists.blocks)?;
        }
        if lists.pages.is_empty() {
            return Ok(());
        }
        let device = group.device.ok_or_else(|| name("device"))?;
        if !lists.landed {
            return self.hold(device, lists.pages);
        }
        // What landed there is read by this import, alone or not: no other may be lifted into it.
        let rows = self.geometry.side_at(device).map_or(0, |side| side.rows);
        lists.pages.iter().try_for_each(|page| self.claim(device, page.get(), 0..rows, Use::Read))
    }

    /// Takes from the budget as many more steps of a group as it allows; of an empty plan one at least.
    fn take(&self, lifting: &Lifting<'_>, done: u32, budget: &mut Bytes) -> u32 {
        let left = lifting.steps().saturating_sub(done);
        let bytes = |steps: u32| lifting.bytes(done, done.saturating_add(steps));
        // The last step may have fewer rows than others.
        let taken = if bytes(left) <= *budget {
            left
        } else {
            let affordable = budget.get().checked_div(lifting.step_bytes()).unwrap_or(u64::MAX);
            let least = u64::from(self.is_empty());
            u32::try_from(affordable.max(least)).unwrap_or(u32::MAX).min(left)
        };
        *budget = budget.saturating_sub(bytes(taken));
        taken
    }

    /// Lifts `taken` steps of a group after the `done` first ones; with the last, what the mode says of the rows after.
    fn lift_group(&mut self, lifting: &Lifting<'_>, done: u32, taken: u32) -> Result<(), PlanError> {
        let way = (lifting.index, lifting.way);
        self.hold(way.1.source, lifting.lists.blocks)?;
        // All of each page is this import's, also what other plans lift and what is not lifted: the decoder writes there.
        for page in lifting.lists.pages {
            self.claim(way.1.destination, page.get(), 0..way.1.destination_rows, Use::Write)?;
        }
        let end = done.saturating_add(taken);
        let [source, destination] = lifting.first_step;
        let run = Rows {
            first_step: [source.saturating_add(done), destination.saturating_add(done)],
            count: lifting.rows_of(end).saturating_sub(lifting.rows_of(done)),
            claimed: true,
        };
        self.add_run(way, lifting.lists.blocks, lifting.lists.pages, run)?;
        match lifting.writable {
            Some(writable) if taken > 0 && end == lifting.steps() => self.zero_rest(way, writable),
            _ => Ok(()),
        }
    }

    /// Zeroes the rows of the writable page after the lifted ones, where the mode says so.
    fn zero_rest(&mut self, way: (u32, Route), page: Writable) -> Result<(), PlanError> {
        let Writable { page, lifted, rows, zero } = page;
        if !zero {
            return Ok(());
        }
        let rest = rows.saturating_sub(lifted);
        let piece = Piece { source_row: 0, destination_row: lifted, rows: rest, zero: true };
        let pair = abi::BlockPair { source: 0, destination: page.get() };
        self.add(way, std::iter::once(pair), piece)
    }
}

/// The first page that is lifted into: of a tail that of the last block's first row, which is the writable one unless blocks
/// are larger, by `parts`, than pages.
fn first_page(lift: Lift, blocks: BlockSpan, pages: BlockSpan, parts: u32) -> u32 {
    match lift {
        Lift::Tail => blocks.tail_page().saturating_mul(parts).min(pages.tail_page()),
        _ => 0,
    }
}

/// Which host blocks and which pages an import of a paged group lists, counted from the prompt's first; `None` for a group
/// that is not lifted.
pub(crate) fn paged_extent(
    geometry: &Geometry,
    group: GroupKey<Paged>,
    span: PromptSpan,
) -> Result<Option<[Range<u32>; 2]>, PlanError> {
    let lift = geometry.group(group.id).map(|group| group.lift).filter(|lift| *lift != Lift::None);
    let way = geometry.lift_route(group).and_then(|route| geometry.way(route.index));
    let slots = |memory| geometry.block_slots(group.id, memory);
    let sides = slots(Memory::Host).zip(slots(Memory::Device));
    let Some(((lift, way), (host, device))) = lift.zip(way).zip(sides) else { return Ok(None) };
    let (blocks, pages) = (span.in_blocks_of(host)?, span.in_blocks_of(device)?);
    let [parts, _] = Steps::of(&way).parts;
    Ok(Some([0..blocks.endpoints(), first_page(lift, blocks, pages, parts)..pages.endpoints()]))
}

/// What one group of an import is lifted by.
struct Lifting<'a> {
    lists: ImportGroup<'a>,
    index: u32,
    way: Route,
    step_rows: u32,
    /// Where the lifted rows begin in the lists, in steps.
    first_step: [u32; 2],
    /// Rows that are lifted.
    rows: u64,
    /// The page that is written next; none of rings and states, which are whole.
    writable: Option<Writable>,
}

/// The page that is written next.
#[derive(Clone, Copy)]
struct Writable {
    page: PageId,
    /// Rows that are lifted into it.
    lifted: u32,
    /// Rows that it has.
    rows: u32,
    /// Whether the others become zeros.
    zero: bool,
}

impl<'a> Lifting<'a> {
    /// Works out what is lifted, and refuses lists of another length than that needs.
    fn new(
        geometry: &Geometry,
        lists: &ImportGroup<'a>,
        group: &Group,
        span: PromptSpan,
        mode: TailRows,
    ) -> Result<Self, PlanError> {
        let sides = |index: Option<u32>| index.and_then(|index| geometry.side_at(index));
        let missing = || no_route(geometry, lists.group, HostToDevice::NAME);
        let (host, device) = sides(group.host).zip(sides(group.device)).ok_or_else(missing)?;
        let index = group.to_device.ok_or_else(missing)?;
        let way = geometry.way(index).ok_or_else(missing)?;
        let mut lifting = Self {
            lists: *lists,
            index,
            way,
            step_rows: Steps::of(&way).rows,
            first_step: [0, 0],
            rows: u64::from(host.rows),
            writable: None,
        };
        match group.lift {
            Lift::State | Lift::None => {
                lifting.expect(geometry, "host blocks", lists.blocks.len(), 1)?;
                lifting.expect(geometry, "pages", lists.pages.len(), 1)?;
            }
            Lift::Tail | Lift::All => lifting.place(geometry, group.lift, (host, device), span, mode)?,
        }
        Ok(lifting)
    }

    /// Which rows of a paged group are lifted, and where they lie.
    fn place(
        &mut self,
        geometry: &Geometry,
        lift: Lift,
        (host, device): (&Side, &Side),
        span: PromptSpan,
        mode: TailRows,
    ) -> Result<(), PlanError> {
        let slots = |side: &Side| crate::quantity::Tokens::new(u64::from(side.slots));
        let (blocks, pages) = (span.in_blocks_of(slots(host))?, span.in_blocks_of(slots(device))?);
        self.expect(geometry, "host blocks", self.lists.blocks.len(), blocks.endpoints().into())?;
        let steps = Steps::of(&self.way);
        let [source_parts, destination_parts] = steps.parts;
        let first_page = first_page(lift, blocks, pages, source_parts);
        let needed = u64::from(pages.endpoints().saturating_sub(first_page));
        self.expect(geometry, "pages", self.lists.pages.len(), needed)?;
        // Source steps are counted from the list's first block, which is the prompt's.
        self.first_step = [first_page.saturating_mul(destination_parts), 0];

        let page_rows = u64::from(device.rows);
        let first_row = u64::from(first_page).saturating_mul(page_rows);
        let writable_row = u64::from(pages.tail_page()).saturating_mul(page_rows);
        let last_row = writable_row.saturating_add(page_rows);
        let received = u64::from(blocks.received()).saturating_mul(u64::from(host.rows));
        let complete = span.imported().get().checked_div(u64::from(host.slots_per_row)).unwrap_or(0);
        let end = match mode {
            TailRows::Whole => received.min(last_row),
            TailRows::Exact | TailRows::ExactZeroed => complete.min(last_row),
        };
        self.rows = end.saturating_sub(first_row);
        let lifted = u32::try_from(end.saturating_sub(writable_row)).unwrap_or(device.rows);
        self.writable = self.lists.pages.last().map(|page| Writable {
            page: *page,
            lifted,
            rows: device.rows,
            zero: mode == TailRows::ExactZeroed,
        });
        Ok(())
    }

    /// Steps that are lifted. One at least: with the last, a writable page into which nothing is lifted is zeroed.
    fn steps(&self) -> u32 {
        u32::try_from(self.rows.div_ceil(u64::from(self.step_rows.max(1)))).unwrap_or(u32::MAX).max(1)
    }

    /// Rows of the first so many steps.
    fn rows_of(&self, steps: u32) -> u64 {
        u64::from(steps).saturating_mul(self.step_rows.into()).min(self.rows)
    }

    /// Bytes of steps `first..end`.
    fn bytes(&self, first: u32, end: u32) -> Bytes {
        Bytes::new(self.rows_of(end).saturating_sub(self.rows_of(first)).saturating_mul(self.way.row_bytes))
    }

    /// Bytes of each step but the last.
    fn step_bytes(&self) -> u64 {
        self.way.row_bytes.saturating_mul(u64::from(self.step_rows).min(self.rows))
    }

    /// Refuses a list of another length than the tokens need.
    fn expect(
        &self,
        geometry: &Geometry,
        list: &'static str,
        found: usize,
        expected: u64,
    ) -> Result<(), PlanError> {
        let found = u64::try_from(found).unwrap_or(u64::MAX);
        if found == expected {
            return Ok(());
        }
        Err(PlanError::ListLength { group: geometry.group_name(self.lists.group), list, expected, found })
    }
}
