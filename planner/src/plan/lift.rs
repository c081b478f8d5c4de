//! Lifting: the imported blocks of each group into pages.

use serde::{Deserialize, Serialize};

use super::claims::Use;
use super::direction::HostToDevice;
use super::pages::{PagePlan, Piece};
use crate::error::PlanError;
use crate::geometry::{Group, GroupKind, Lift, Memory};
use crate::id::{BlockId, GroupId, HostBlockId, PageId};
use crate::import::{BlockSpan, Import, ImportGroup, PromptSpan};

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

/// What all groups of an import are lifted by.
#[derive(Clone, Copy)]
struct Lifting<'a> {
    id: GroupId,
    group: &'a Group,
    lists: ImportGroup<'a>,
    mode: TailRows,
}

impl PagePlan<HostToDevice> {
    /// Adds an import: what each of its groups lifts.
    ///
    /// Groups that are not lifted may be listed too; their blocks are then known to belong to this import.
    ///
    /// # Errors
    /// Where a lifted group is missing or comes twice, a list has another length than the tokens need, an id is out
    /// of range, rows are written twice, a block belongs to another group, or the table is full. The plan is then as
    /// it was.
    pub fn lift(&mut self, import: &Import<'_>, mode: TailRows) -> Result<(), PlanError> {
        let mark = self.mark();
        self.lift_groups(import, mode).inspect_err(|_| self.rewind(mark))
    }

    fn lift_groups(&mut self, import: &Import<'_>, mode: TailRows) -> Result<(), PlanError> {
        let geometry = self.geometry.clone();
        self.imports = self.imports.wrapping_add(1);
        for lists in import.groups {
            let group = Self::group_of(&geometry, lists.group, lists.geometry)?;
            if !self.mark_seen(lists.group) {
                return Err(PlanError::GroupTwice { group: group.name.clone() });
            }
            let lifting = Lifting { id: lists.group, group, lists: *lists, mode };
            match group.lift {
                _ if !group.is_lifted() => self.hold_lists(lifting)?,
                Lift::Tail => self.lift_tail(lifting, import.span)?,
                Lift::All => self.lift_all(lifting, import.span)?,
                Lift::State | Lift::None => self.lift_state(lifting)?,
            }
        }
        let mut unseen = geometry.groups.iter().zip(&self.seen).filter(|(_, seen)| **seen != self.imports);
        match unseen.find(|(group, _)| group.is_lifted()) {
            Some((group, _)) => Err(PlanError::GroupMissing { group: group.name.clone() }),
            None => Ok(()),
        }
    }

    /// Notes that this import brought the group; false where it did before.
    fn mark_seen(&mut self, group: GroupId) -> bool {
        let seen = usize::try_from(group.get()).ok().and_then(|index| self.seen.get_mut(index));
        seen.is_some_and(|seen| std::mem::replace(seen, self.imports) != self.imports)
    }

    fn hold_lists(&mut self, lifting: Lifting<'_>) -> Result<(), PlanError> {
        self.hold(lifting.id, Memory::Host, lifting.lists.blocks)?;
        self.hold(lifting.id, Memory::Device, lifting.lists.pages)
    }

    /// The writable page alone.
    fn lift_tail(&mut self, lifting: Lifting<'_>, span: PromptSpan) -> Result<(), PlanError> {
        let blocks = span.in_blocks_of(lifting.group.page_slots())?;
        lifting.expect("host blocks", lifting.lists.blocks, u64::from(blocks.endpoints()))?;
        lifting.expect("pages", lifting.lists.pages, 1)?;
        let (Some((&tail, before)), [page]) = (lifting.lists.blocks.split_last(), lifting.lists.pages) else {
            return Ok(());
        };
        self.hold(lifting.id, Memory::Host, before)?;
        self.lift_writable(lifting, blocks, tail, *page)
    }

    /// All pages up to the writable one: full ones in one job, then the writable one.
    fn lift_all(&mut self, lifting: Lifting<'_>, span: PromptSpan) -> Result<(), PlanError> {
        let blocks = span.in_blocks_of(lifting.group.page_slots())?;
        lifting.expect("host blocks", lifting.lists.blocks, u64::from(blocks.endpoints()))?;
        lifting.expect("pages", lifting.lists.pages, u64::from(blocks.endpoints()))?;
        let lists = (lifting.lists.blocks.split_last(), lifting.lists.pages.split_last());
        let (Some((&tail, full)), Some((&page, full_pages))) = lists else { return Ok(()) };
        let rows = lifting.group.rows().get();
        self.push(lifting.id, full, full_pages, Piece { first_row: 0, rows, zero: false })?;
        self.lift_writable(lifting, blocks, tail, page)
    }

    /// The writable page: as many rows as the mode says, and zeros where it says so.
    fn lift_writable(
        &mut self,
        lifting: Lifting<'_>,
        blocks: BlockSpan,
        tail: HostBlockId,
        page: PageId,
    ) -> Result<(), PlanError> {
        let rows = lifting.group.rows().get();
        let received = blocks.received() > blocks.tail_page();
        let complete = lifting.complete_rows(blocks);
        let copied = match lifting.mode {
            TailRows::Whole if received => rows,
            TailRows::Whole => 0,
            TailRows::Exact | TailRows::ExactZeroed => complete,
        };
        let piece = Piece { first_row: 0, rows: copied, zero: false };
        self.add(lifting.id, &[tail], &[page], piece)?;
        if lifting.mode == TailRows::ExactZeroed {
            let after = Piece { first_row: complete, rows: rows.saturating_sub(complete), zero: true };
            self.add(lifting.id, &[tail], &[page], after)?;
        }
        let usage = if copied == 0 { Use::Hold } else { Use::Read };
        self.claim(lifting.id, Memory::Host, tail.get(), piece, usage)?;
        // All of the page is this import's, however little is lifted: the decoder writes the rest of it.
        let all = Piece { first_row: 0, rows, zero: false };
        self.claim(lifting.id, Memory::Device, page.get(), all, Use::Write)
    }

    /// A ring's or state's one page.
    fn lift_state(&mut self, lifting: Lifting<'_>) -> Result<(), PlanError> {
        lifting.expect("host blocks", lifting.lists.blocks, 1)?;
        lifting.expect("pages", lifting.lists.pages, 1)?;
        let piece = Piece { first_row: 0, rows: lifting.group.rows().get(), zero: false };
        self.push(lifting.id, lifting.lists.blocks, lifting.lists.pages, piece)
    }
}

impl Lifting<'_> {
    /// Refuses a list of another length than the tokens need.
    fn expect<B: BlockId>(&self, list: &'static str, blocks: &[B], expected: u64) -> Result<(), PlanError> {
        let found = u64::try_from(blocks.len()).unwrap_or(u64::MAX);
        if found == expected {
            return Ok(());
        }
        Err(PlanError::ListLength { group: self.group.name.clone(), list, expected, found })
    }

    /// Rows of the writable page whose tokens were all imported.
    fn complete_rows(&self, blocks: BlockSpan) -> u32 {
        debug_assert_eq!(self.group.kind, GroupKind::Paged, "only paged groups have a writable page");
        let rows = blocks.tail_tokens().get().checked_div(u64::from(self.group.slots_per_row)).unwrap_or(0);
        u32::try_from(rows).unwrap_or(u32::MAX).min(self.group.rows)
    }
}
