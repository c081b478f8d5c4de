//! From a lifecycle's numbers to the blocks that an import fills, group by group: nobody copies block lists by hand.

use std::ops::Range;
use std::sync::Arc;

use pagelift_planner::geometry::{Geometry, Landing, Lift, Memory};
use pagelift_planner::id::{GroupId, HostBlockId, PageId};
use pagelift_planner::import::Arrival;
use pagelift_planner::lifecycle::{GroupFrames, RequestId, RequestView};
use pagelift_planner::quantity::Tokens;

use crate::error::WantedError;
use crate::plan::{BlockTable, BlockTables};

/// What a lifecycle has said of an import, and what its numbers stand for.
#[derive(Clone, Copy, Debug)]
pub struct WantedBy<'a> {
    /// The geometry of the groups.
    pub geometry: &'a Geometry,
    /// Every group that is imported: also those that are neither lifted nor written back, which the plans of steps do not
    /// have.
    pub frames: &'a [GroupFrames],
    /// Tokens of the lifecycle's blocks.
    pub block_tokens: Tokens,
    /// The request as it is.
    pub view: RequestView<'a>,
}

/// The position of a ring: there is one.
pub const RING: u32 = 0;

/// The position of a state that has absorbed so many tokens, in a table of its group: that of the block which holds the last of
/// them. None where it has absorbed nothing.
#[must_use]
pub fn state_position(absorbed: Tokens, block_tokens: Tokens) -> Option<u32> {
    let last = absorbed.get().checked_sub(1)?;
    u32::try_from(last.checked_div(block_tokens.get())?).ok()
}

impl WantedBy<'_> {
    /// The blocks and pages to be read into, where `Effect::Read` names these positions: in the memory where each group lands,
    /// by position in blocks of its own size there. Rings and states come whole.
    ///
    /// # Errors
    /// Where the frames lack what the request has, or are of another geometry.
    pub fn tables(&self, request: RequestId, reads: Range<u32>) -> Result<BlockTables, WantedError> {
        let mut tables = BlockTables::new();
        if reads.is_empty() {
            return Ok(tables);
        }
        for frames in self.frames {
            let (id, _) = parts(frames);
            let group = self.geometry.group(id).ok_or(WantedError::ForeignGroup { group: id })?;
            let name: Arc<str> = group.name().into();
            let memory = match (group.landing(), self.view.arrival()) {
                // What is not lifted has no pages to land in.
                (Landing::Host, Arrival::Device) if group.lift() != Lift::None => Memory::Device,
                (Landing::Host, _) => Memory::Host,
                (Landing::Device, _) => Memory::Device,
            };
            let table = self.table(frames, memory, request.slot(), reads.clone());
            tables = tables.with(
                &name,
                table.map_err(|position| WantedError::Missing {
                    group: name.clone(),
                    memory: memory.name(),
                    position,
                })?,
            );
        }
        Ok(tables)
    }

    /// The table of a group; or a position at which it has nothing.
    fn table(
        &self,
        frames: &GroupFrames,
        memory: Memory,
        slot: u32,
        reads: Range<u32>,
    ) -> Result<BlockTable, u64> {
        let (id, frames) = parts(frames);
        let one = |position: u32, number: Option<u32>| {
            let number = number.filter(|number| *number != GroupFrames::NONE).ok_or(u64::from(position))?;
            Ok(BlockTable::at(position, vec![Some(number)]))
        };
        let imported = self.view.span().imported();
        match (frames, memory) {
            (GroupFrames::Ring { blocks, .. }, Memory::Host) => one(RING, entry(blocks, slot.into())),
            (GroupFrames::Ring { pages, .. }, Memory::Device) => one(RING, entry(pages, slot.into())),
            (GroupFrames::State { blocks, pages, .. }, _) => {
                let Some(position) = state_position(imported, self.block_tokens) else {
                    return Ok(BlockTable::default());
                };
                one(
                    position,
                    match memory {
                        Memory::Host => self.block(position.into()).and_then(|block| entry(blocks, block)),
                        Memory::Device => entry(pages, slot.into()),
                    },
                )
            }
            (
                GroupFrames::Paged { .. } | GroupFrames::Whole { .. } | GroupFrames::ReadOnly(_),
                Memory::Host | Memory::Device,
            ) => {
                let own = self.geometry.block_slots(id, memory).map_or(1, Tokens::get).max(1);
                let each = self.block_tokens.get().checked_div(own).unwrap_or(1).max(1);
                let first = u64::from(reads.start).saturating_mul(each);
                let end = u64::from(reads.end).saturating_mul(each).min(imported.get().div_ceil(own));
                let number = |position: u64| {
                    let whose = position.checked_div(each)?;
                    let inside = position.checked_rem(each)?;
                    match (frames, memory) {
                        (
                            GroupFrames::Paged { blocks, .. } | GroupFrames::Whole { blocks, .. },
                            Memory::Host,
                        ) => entry(blocks, self.block(whose)?.checked_mul(each)?.checked_add(inside)?),
                        (GroupFrames::Paged { pages, .. }, Memory::Device) => {
                            let mut held = self.view.pages();
                            let (_, page, _) = held.find(|(at, ..)| u64::from(*at) == whose)?;
                            entry(pages, u64::from(page.get()).checked_mul(each)?.checked_add(inside)?)
                        }
                        (GroupFrames::Whole { pages, each, .. }, Memory::Device) => {
                            let first = u64::from(slot).checked_mul(u64::from(*each))?;
                            (position < u64::from(*each))
                                .then(|| entry(pages, first.checked_add(position)?))?
                        }
                        _ => None,
                    }
                    .filter(|number| *number != GroupFrames::NONE)
                };
                let blocks = (first..end).map(|position| number(position).map(Some).ok_or(position));
                let blocks = blocks.collect::<Result<Vec<_>, _>>()?;
                Ok(BlockTable::at(u32::try_from(first).map_err(|_| first)?, blocks))
            }
        }
    }

    /// The lifecycle's block at a position of the request.
    fn block(&self, position: u64) -> Option<u64> {
        let block = self.view.blocks().get(usize::try_from(position).ok()?)?;
        Some(block.get().into())
    }
}

/// A group's id, and its frames without what says that they are only read.
fn parts(frames: &GroupFrames) -> (GroupId, &GroupFrames) {
    match frames {
        GroupFrames::Paged { group, .. } | GroupFrames::Whole { group, .. } => (group.id(), frames),
        GroupFrames::Ring { group, .. } => (group.id(), frames),
        GroupFrames::State { group, .. } => (group.id(), frames),
        GroupFrames::ReadOnly(frames) => parts(frames),
    }
}

fn entry<N: Number>(list: &[N], index: u64) -> Option<u32> {
    list.get(usize::try_from(index).ok()?).map(|number| number.number())
}

/// Blocks and pages have numbers.
trait Number {
    fn number(&self) -> u32;
}

impl Number for HostBlockId {
    fn number(&self) -> u32 {
        self.get()
    }
}

impl Number for PageId {
    fn number(&self) -> u32 {
        self.get()
    }
}
