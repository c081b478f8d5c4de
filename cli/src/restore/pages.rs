//! Pages and host blocks of a growing request.

use std::sync::Arc;

use pagelift::id::{HostBlockId, PageId};
use pagelift::lifecycle::OpenPage;
use pagelift::quantity::Rows;

use super::RestoreError;
use crate::manifest::{Family, Group, Landing, Lift, Manifest, Pool, Side, SplitMix64};
use crate::reference::slot;

/// Refuses more tokens than the pools have room for, before anything is allocated.
pub fn check_room(manifest: &Manifest, tokens: u32) -> Result<(), RestoreError> {
    for pool in manifest.pools() {
        let (needed, free) = (blocks_for(manifest, pool, tokens.into()), free_blocks(manifest, pool));
        if needed > free {
            let (pool, tokens, most) = (pool.name.clone(), tokens.into(), room(manifest));
            return Err(RestoreError::PoolTooSmall { pool, tokens, needed, free, most });
        }
    }
    Ok(())
}

/// How many tokens all pools have room for.
fn room(manifest: &Manifest) -> u64 {
    let pools = || manifest.pools().iter();
    let fits =
        |tokens: u64| pools().all(|pool| blocks_for(manifest, pool, tokens) <= free_blocks(manifest, pool));
    // More tokens never need fewer blocks, and none need none.
    let (mut fit, mut too_many) = (0, u64::from(u32::MAX) + 1);
    while too_many - fit > 1 {
        let middle = fit.midpoint(too_many);
        if fits(middle) { fit = middle } else { too_many = middle }
    }
    fit
}

fn free_blocks(manifest: &Manifest, pool: &Pool) -> u64 {
    manifest.spare_blocks(pool).len() as u64
}

/// How many more blocks of a pool the request takes for so many tokens.
fn blocks_for(manifest: &Manifest, pool: &Pool, tokens: u64) -> u64 {
    let Some(before_last) = tokens.checked_sub(1) else { return 0 };
    let resume_at = manifest.span().resume_at;
    // The last step's drafts may reach past the last token that is kept.
    let last = resume_at.saturating_add(before_last).saturating_add(manifest.speculative_tokens().into());
    let grows = |group: &&Group| matches!(group.shape.family, Family::Tokens { .. }) && on_device(group);
    let more = |side: &Side| (last / u64::from(side.page_tokens)) - (resume_at / u64::from(side.page_tokens));
    let takes = |group: &Group| {
        let sides = [group.device.as_ref(), group.host.as_ref().filter(|_| group.mirror)];
        let here = sides.into_iter().flatten().filter(|side| side.pool.index == pool.index);
        here.map(more).sum::<u64>()
    };
    manifest.groups().iter().filter(grows).map(takes).sum()
}

fn on_device(group: &Group) -> bool {
    group.lift != Lift::None || group.landing == Landing::Gpu
}

/// Free blocks of all pools, drawn in a scattered order that follows from the manifest.
#[derive(Debug)]
pub struct FreeBlocks {
    by_pool: Vec<(Vec<u32>, SplitMix64)>,
}

impl FreeBlocks {
    pub fn new(manifest: &Manifest) -> Self {
        let spare =
            |pool: &Arc<Pool>| (manifest.spare_blocks(pool).to_vec(), SplitMix64::new(pool.index as u64));
        Self { by_pool: manifest.pools().iter().map(spare).collect() }
    }

    /// A block for the token at `position`.
    pub fn take(&mut self, pool: &Pool, position: u64) -> Result<u32, RestoreError> {
        let free = self.by_pool.get_mut(pool.index).filter(|(free, _)| !free.is_empty());
        let block = free.map(|(free, random)| free.swap_remove(random.below(free.len())));
        block.ok_or_else(|| RestoreError::PoolExhausted { pool: pool.name.clone(), position })
    }
}

/// A page of the request that rows are written to.
#[derive(Debug)]
pub struct Writable {
    /// Its position in the request: 0 for rings and states.
    pub position: u64,
    /// The page on the device.
    pub page: u32,
    /// Where its first row is mirrored, until it is sealed.
    pub open: Option<OpenPage>,
}

/// A part of a page and the part of a block that mirrors it: a page and its row, a block and its row.
pub type Part = ((u32, Rows), (u32, Rows));

/// What one group keeps of the request's end: its pages, and the host blocks that mirror them.
///
/// Pages and blocks may differ in tokens. A page and a block are paired in parts, each as large as the smaller of them.
#[derive(Debug)]
pub struct GroupPages<'m> {
    pub group: &'m Group,
    device: &'m Side,
    /// Where rows are mirrored, if they are.
    host: Option<&'m Side>,
    /// Pages that are written, by position.
    pub writable: Vec<Writable>,
    /// Host blocks with their positions.
    blocks: Vec<(u64, u32)>,
    /// Parts of the request before this one are mapped, or need not be.
    unmapped: u64,
}

impl<'m> GroupPages<'m> {
    /// The writable page of a group after the lift; `None` for a group that is not on the device.
    pub fn after_import(manifest: &'m Manifest, group: &'m Group) -> Option<Self> {
        let device = group.device.as_ref().filter(|_| on_device(group))?;
        let page = *device.blocks.last()?;
        let host = group.host.as_ref().filter(|_| group.mirror);
        let mut pages = Self { group, device, host, writable: Vec::new(), blocks: Vec::new(), unmapped: 0 };
        let resume_at = manifest.span().resume_at;
        let position = if pages.has_tokens() { resume_at / u64::from(device.page_tokens) } else { 0 };
        let first = position.saturating_mul(device.page_tokens.into());
        if let Some(host) = host {
            pages.blocks = (0..).zip(host.blocks.iter().copied()).collect();
            pages.blocks.retain(|(at, _)| *at >= first / u64::from(host.page_tokens));
            pages.unmapped = first / pages.part_tokens();
        }
        // The row that is replayed is written again: it is not durable yet, though it was imported.
        pages.push_page(position, page, pages.complete_rows(resume_at.saturating_sub(first)));
        Some(pages)
    }

    fn has_tokens(&self) -> bool {
        matches!(self.group.shape.family, Family::Tokens { .. })
    }

    /// Tokens of a part.
    fn part_tokens(&self) -> u64 {
        self.host.map_or(self.device.page_tokens, |host| host.page_tokens.min(self.device.page_tokens)).into()
    }

    /// The most parts that one step of so many tokens maps, the first one with those of the page before it.
    pub fn most_parts(&self, tokens: u32) -> u64 {
        u64::from(tokens) / self.part_tokens() + u64::from(self.group.parts()) + 1
    }

    /// Takes pages and blocks up to that of the token at `last`.
    pub fn grow(&mut self, free: &mut FreeBlocks, last: u64) -> Result<(), RestoreError> {
        if !self.has_tokens() {
            return Ok(());
        }
        let next = |have: Option<u64>| have.map_or(0, |have| have.saturating_add(1));
        let pages = next(self.writable.last().map(|page| page.position));
        // Blocks first, because a page is told where its first row is mirrored.
        if let Some(host) = self.host {
            let blocks = next(self.blocks.last().map(|(at, _)| *at));
            for at in blocks..=last / u64::from(host.page_tokens) {
                self.blocks.push((at, free.take(&host.pool, last)?));
            }
        }
        for at in pages..=last / u64::from(self.device.page_tokens) {
            let page = free.take(&self.device.pool, last)?;
            self.push_page(at, page, Rows::ZERO);
        }
        Ok(())
    }

    /// The parts up to that of the token at `last` that were not given out before.
    pub fn parts_up_to(&mut self, last: u64) -> Vec<Part> {
        let Some(host) = self.host else { return Vec::new() };
        let tokens = self.part_tokens();
        // A ring is one part.
        let end = if self.has_tokens() { last / tokens } else { 0 };
        let parts = (self.unmapped..=end).filter_map(|part| {
            let first = part.saturating_mul(tokens);
            let page = self.page_at(first / u64::from(self.device.page_tokens))?;
            let block = self.block_at(first / u64::from(host.page_tokens))?;
            let row = |side: &Side| self.complete_rows(first % u64::from(side.page_tokens));
            let rows =
                if self.has_tokens() { (row(self.device), row(host)) } else { (Rows::ZERO, Rows::ZERO) };
            Some(((page, rows.0), (block, rows.1)))
        });
        let parts = parts.collect();
        self.unmapped = self.unmapped.max(end.saturating_add(1));
        parts
    }

    /// Adds the page at a position, whose first `durable` rows are safe in host blocks.
    fn push_page(&mut self, position: u64, page: u32, durable: Rows) {
        let first = position.saturating_mul(self.device.page_tokens.into());
        let block = self.host.and_then(|host| self.block_at(first / u64::from(host.page_tokens)));
        let rows = Rows::new(self.device.rows);
        let open = block
            .filter(|_| self.has_tokens())
            .map(|block| OpenPage::new(PageId::new(page), HostBlockId::new(block), rows, durable));
        self.writable.push(Writable { position, page, open });
    }

    /// Forgets pages before that of a token, but for the last one, and the blocks that only they had: nothing is written
    /// there any more.
    pub fn forget_before(&mut self, token: u64) {
        if !self.has_tokens() {
            return;
        }
        let tokens = u64::from(self.device.page_tokens);
        let Some(last) = self.writable.last().map(|page| page.position) else { return };
        let first = last.min(token / tokens);
        self.writable.retain(|page| page.position >= first);
        if let Some(host) = self.host {
            self.blocks.retain(|(at, _)| *at >= first.saturating_mul(tokens) / u64::from(host.page_tokens));
        }
    }

    /// The page at a position.
    pub fn page_at(&self, position: u64) -> Option<u32> {
        self.writable.iter().rev().find(|page| page.position == position).map(|page| page.page)
    }

    /// The host block at a position.
    pub fn block_at(&self, position: u64) -> Option<u32> {
        self.blocks.iter().rev().find(|(at, _)| *at == position).map(|(_, block)| *block)
    }

    /// Where a token's row is written, if it is: the page and the row.
    pub fn written_at(&self, token: u64) -> Option<(u32, u32)> {
        let slot = slot(self.group, self.device, token)?;
        Some((self.page_at(slot.page)?, slot.row))
    }

    /// Where a token's row is mirrored, if it is: the host block and the row.
    pub fn mirrored_at(&self, token: u64) -> Option<(u32, u32)> {
        let slot = slot(self.group, self.host?, token)?;
        Some((self.block_at(slot.page)?, slot.row))
    }

    /// The number in a slot mapping of the slot of a token.
    pub fn slot_number(&self, token: u64) -> Option<u64> {
        let slots = if self.has_tokens() { self.device.page_tokens } else { self.device.rows };
        let position = if self.has_tokens() { token / u64::from(slots) } else { 0 };
        let first = u64::from(self.page_at(position)?).saturating_mul(slots.into());
        Some(first.saturating_add(token % u64::from(slots)))
    }

    /// Notes that the tokens up to `end` are safe, and seals the pages at or after that of the token at `from` that have
    /// all of their rows. `sealed` hears of each: its block, and where its rows are mirrored.
    pub fn note_durable(
        &mut self,
        (from, end): (u64, u64),
        mut sealed: impl FnMut(HostBlockId, Option<Vec<(u32, u32)>>) -> Result<(), RestoreError>,
    ) -> Result<(), RestoreError> {
        let tokens = u64::from(self.device.page_tokens);
        for index in 0..self.writable.len() {
            let Some(at) = self.writable.get(index).map(|page| page.position) else { continue };
            let rows = self.complete_rows(end.saturating_sub(at.saturating_mul(tokens)).min(tokens));
            let reached = at >= from / tokens;
            let Some(page) = self.writable.get_mut(index).filter(|_| reached) else { continue };
            let Some(mut open) = page.open.take() else { continue };
            open.durable_up_to(rows);
            match open.seal() {
                Err(open) => page.open = Some(open),
                Ok(page) => sealed(page.block(), self.mirrors_of(at))?,
            }
        }
        Ok(())
    }

    /// The host block and row of each row of the page at a position, if all have one.
    fn mirrors_of(&self, position: u64) -> Option<Vec<(u32, u32)>> {
        let host = self.host?;
        let rows = u64::from(self.device.rows);
        let first = position.saturating_mul(rows);
        let place = |row: u64| {
            let block = self.block_at(row / u64::from(host.rows))?;
            Some((block, u32::try_from(row % u64::from(host.rows)).ok()?))
        };
        (first..first.saturating_add(rows)).map(place).collect()
    }

    /// Rows that are complete when a page holds its first `tokens` tokens.
    fn complete_rows(&self, tokens: u64) -> Rows {
        match self.group.shape.family {
            Family::Tokens { tokens_per_row } => {
                let rows = tokens / u64::from(tokens_per_row.max(1));
                Rows::new(u32::try_from(rows).unwrap_or(u32::MAX))
            }
            Family::Ring | Family::State => Rows::new(self.device.rows),
        }
    }
}
