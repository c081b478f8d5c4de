//! Random imports, and what lifting them does, row by row.

use pagelift_planner::geometry::Lift;
use pagelift_planner::id::{HostBlockId, PageId};
use pagelift_planner::import::{Import, ImportGroup, PromptSpan, Recurrence};
use pagelift_planner::plan::TailRows;
use pagelift_planner::quantity::Tokens;

use crate::draw::Draw;
use crate::effect::{Effect, Refusal, Use};
use crate::ids::{Free, spoil};
use crate::world::{GroupModel, World, hosts, pages};

/// All modes.
pub const MODES: [TailRows; 3] = [TailRows::Whole, TailRows::Exact, TailRows::ExactZeroed];

/// One group's lists.
#[derive(Clone, Debug)]
pub struct Lists {
    /// The group's place in the world.
    pub group: usize,
    /// Its host blocks.
    pub blocks: Vec<u32>,
    /// Its pages.
    pub pages: Vec<u32>,
    /// Whether it landed on the device this time.
    pub landed: bool,
}

/// An import, and how it is lifted.
#[derive(Clone, Debug)]
pub struct LiftCall {
    /// Its tokens.
    pub span: PromptSpan,
    /// Which rows are lifted.
    pub mode: TailRows,
    /// Its groups.
    pub lists: Vec<Lists>,
}

/// A prompt of up to `most` tokens, `most` at least 1.
fn any_span(draw: &mut Draw, most: u64) -> PromptSpan {
    let prompt = Tokens::new(1 + draw.below(most));
    match draw.below(3) {
        0 => PromptSpan::new(prompt, Recurrence::None).unwrap(),
        1 => PromptSpan::new(prompt, Recurrence::State).unwrap(),
        _ => {
            let resume = draw.below(prompt.get());
            let imported = resume + draw.below(2);
            PromptSpan::explicit(prompt, Tokens::new(imported), Tokens::new(resume)).unwrap()
        }
    }
}

/// The first page that a tail has, and the writable one.
fn tail_pages(group: &GroupModel, span: PromptSpan) -> (u64, u64) {
    let (block, page) = (u64::from(group.slots(&group.host)), u64::from(group.slots(&group.device)));
    let block_begins = span.resume_at().get() / block * block;
    (block_begins / page, span.resume_at().get() / page)
}

/// How many host blocks and pages a lifted group must bring.
fn needed(group: &GroupModel, span: PromptSpan) -> (usize, usize) {
    let blocks = span.resume_at().get() / u64::from(group.slots(&group.host)) + 1;
    let (first, writable) = tail_pages(group, span);
    match group.lift {
        Lift::Tail => (blocks as usize, (writable + 1 - first) as usize),
        Lift::All => (blocks as usize, (writable + 1) as usize),
        Lift::State | Lift::None => (1, 1),
    }
}

impl LiftCall {
    /// An import whose blocks and pages nobody else has; `None` where too few are left even for a short one.
    pub fn fitting(draw: &mut Draw, world: &World, free: &mut Free) -> Option<Self> {
        for most in [60, 16, 4, 1] {
            let mut left = free.clone();
            if let Some(call) = Self::within(draw, world, &mut left, most) {
                *free = left;
                return Some(call);
            }
        }
        None
    }

    fn within(draw: &mut Draw, world: &World, free: &mut Free, most: u64) -> Option<Self> {
        let span = any_span(draw, most);
        let mut lists = Vec::new();
        for group in draw.order(world.groups.len() as u32) {
            let group = group as usize;
            let model = &world.groups[group];
            let landed = draw.once_in(8);
            let (blocks, pages) = match model.is_lifted {
                true if landed => (0, draw.below(3) as usize),
                true => needed(model, span),
                false if draw.once_in(2) => continue,
                false => (if landed { 0 } else { draw.below(3) as usize }, draw.below(3) as usize),
            };
            let blocks = free.take(&model.host, blocks)?;
            let pages = free.take(&model.device, pages)?;
            lists.push(Lists { group, blocks, pages, landed });
        }
        Some(Self { span, mode: draw.pick(&MODES), lists })
    }

    /// The same with something wrong, most likely.
    pub fn spoil(&mut self, draw: &mut Draw, world: &World) {
        let count = self.lists.len();
        let at = draw.below(count as u64) as usize;
        match draw.below(6) {
            0 if count > 0 => drop(self.lists.remove(at)),
            1 if count > 0 => self.lists.push(self.lists[at].clone()),
            2 => self.span = any_span(draw, 60),
            _ if count > 0 => {
                let Lists { group, blocks, pages, landed } = &mut self.lists[at];
                let model = &world.groups[*group];
                match draw.once_in(2) && !*landed {
                    true => spoil(draw, blocks, model.host.blocks),
                    false => spoil(draw, pages, model.device.blocks),
                }
            }
            _ => {}
        }
    }

    /// Calls `body` with the import, by the keys of `world` or of one built from the same shape.
    pub fn with<T>(&self, world: &World, body: impl FnOnce(&Import<'_>) -> T) -> T {
        let ids = self.lists.iter().map(|lists| (hosts(&lists.blocks), pages(&lists.pages)));
        let ids: Vec<(Vec<HostBlockId>, Vec<PageId>)> = ids.collect();
        let mut groups: Vec<ImportGroup<'_>> = Vec::new();
        for (lists, (blocks, pages)) in self.lists.iter().zip(&ids) {
            let key = world.groups[lists.group].key;
            groups.push(if lists.landed { key.landed(pages) } else { key.lists(blocks, pages) });
        }
        body(&Import { span: self.span, groups: &groups })
    }

    /// The most bytes that one step copies.
    #[must_use]
    pub fn largest_step(&self, world: &World) -> u64 {
        let step = |lists: &Lists| {
            let group = &world.groups[lists.group];
            group.all_row_bytes() * u64::from(group.host.rows.min(group.device.rows))
        };
        self.lists.iter().map(step).max().unwrap_or(0)
    }

    /// What lifting it does.
    ///
    /// # Errors
    /// Where groups or lists are not those that the tokens need, or an id is out of range.
    pub fn effect<'w>(&self, world: &'w World) -> Result<Effect<'w>, Refusal> {
        for (index, group) in world.groups.iter().enumerate() {
            match self.lists.iter().filter(|lists| lists.group == index).count() {
                0 if group.is_lifted => return Err("a lifted group is missing"),
                0 | 1 => {}
                _ => return Err("a group comes twice"),
            }
        }
        let mut effect = Effect::default();
        for lists in &self.lists {
            self.lift_group(&world.groups[lists.group], lists, &mut effect)?;
        }
        Ok(effect)
    }

    fn lift_group<'w>(
        &self,
        group: &'w GroupModel,
        lists: &Lists,
        effect: &mut Effect<'w>,
    ) -> Result<(), Refusal> {
        let blocks = if lists.landed { &[][..] } else { &lists.blocks };
        for &block in blocks {
            effect.claim(&group.host, block, 0..1, Use::Hold)?;
        }
        let rows = 0..group.device.rows;
        let usage = match group.is_lifted && !lists.landed {
            // All of each page is this import's, lifted or not: the decoder writes there.
            true => Use::Write,
            // What landed there is read by this import.
            false if lists.landed => Use::Read,
            false => Use::Hold,
        };
        for &page in &lists.pages {
            effect.claim(&group.device, page, rows.clone(), usage)?;
        }
        if usage != Use::Write {
            return Ok(());
        }
        if (blocks.len(), lists.pages.len()) != needed(group, self.span) {
            return Err("a list has another length than the tokens need");
        }
        if group.lift == Lift::State {
            return rows.into_iter().try_for_each(|row| {
                let from = (&group.host, blocks[0], row);
                effect.copy_claimed(Some(from), (&group.device, lists.pages[0], row))
            });
        }
        self.lift_rows(group, lists, effect)
    }

    /// Row by row: where the row of a page comes from, if it comes from anywhere.
    fn lift_rows<'w>(
        &self,
        group: &'w GroupModel,
        lists: &Lists,
        effect: &mut Effect<'w>,
    ) -> Result<(), Refusal> {
        let [block_rows, page_rows] = [&group.host, &group.device].map(|side| u64::from(side.rows));
        let imported = self.span.imported().get();
        let end = match self.mode {
            TailRows::Whole => imported.div_ceil(u64::from(group.slots(&group.host))) * block_rows,
            TailRows::Exact | TailRows::ExactZeroed => imported / u64::from(group.tokens_per_row),
        };
        let first = if group.lift == Lift::Tail { tail_pages(group, self.span).0 } else { 0 };
        for (&page, number) in lists.pages.iter().zip(first..) {
            for (at, row) in (number * page_rows..).zip(0..group.device.rows) {
                let to = (&group.device, page, row);
                if at < end {
                    let block = lists.blocks[(at / block_rows) as usize];
                    effect.copy_claimed(Some((&group.host, block, (at % block_rows) as u32)), to)?;
                } else if self.mode == TailRows::ExactZeroed {
                    effect.copy_claimed(None, to)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::{Move, merged};
    use crate::shape::Scale;

    /// What lifting a group does whose pages are as large as its blocks: page by page, and not row by row.
    fn page_by_page(call: &LiftCall, group: &GroupModel, lists: &Lists) -> Vec<Move> {
        let mut moves = Vec::new();
        let (rows, slots) = (group.device.rows, u64::from(group.slots(&group.device)));
        let mut copy = |block: u32, page: u32, rows: u32| {
            for row in 0..rows {
                let from = (&group.host, block, row);
                group.copy_row(Some(from), (&group.device, page, row), &mut moves);
            }
        };
        if group.lift == Lift::State {
            copy(lists.blocks[0], lists.pages[0], rows);
            return moves;
        }
        let tail = call.span.resume_at().get() / slots;
        if group.lift == Lift::All {
            (0..tail as usize).for_each(|index| copy(lists.blocks[index], lists.pages[index], rows));
        }
        let tokens = call.span.imported().get() - tail * slots;
        let complete = (tokens / u64::from(group.tokens_per_row)) as u32;
        let (block, page) = (lists.blocks[tail as usize], *lists.pages.last().unwrap());
        match call.mode {
            TailRows::Whole if tokens == 0 => {}
            TailRows::Whole => copy(block, page, rows),
            TailRows::Exact => copy(block, page, complete),
            TailRows::ExactZeroed => {
                copy(block, page, complete);
                (complete..rows).for_each(|row| group.copy_row(None, (&group.device, page, row), &mut moves));
            }
        }
        moves
    }

    #[test]
    fn pages_as_large_as_blocks_are_lifted_page_by_page() {
        let mut compared = 0;
        for seed in 0..400 {
            let mut draw = Draw::seeded(seed);
            let world = World::draw(&mut draw, &Scale::planned(3));
            let mut free = Free::all(&mut draw, &world);
            let Some(call) = LiftCall::fitting(&mut draw, &world, &mut free) else { continue };
            for lists in &call.lists {
                let group = &world.groups[lists.group];
                if !group.is_lifted || lists.landed || group.host.rows != group.device.rows {
                    continue;
                }
                let mut effect = Effect::default();
                call.lift_group(group, lists, &mut effect).unwrap();
                let expected = merged(page_by_page(&call, group, lists));
                assert_eq!(merged(effect.moves(&world)), expected, "seed {seed}: {call:?}");
                compared += 1;
            }
        }
        assert!(compared > 200, "{compared}");
    }
}
