//! Pages and host blocks of a growing request.

use std::sync::Arc;

use pagelift::id::{HostBlockId, PageId};
use pagelift::lifecycle::OpenPage;
use pagelift::quantity::{Rows, Tokens};

use super::RestoreError;
use crate::manifest::{Family, Group, Lift, Manifest, Pool, SplitMix64};

/// Refuses more tokens than the pools have room for, before anything is allocated.
pub fn check_room(manifest: &Manifest, tokens: u32) -> Result<(), RestoreError> {
    let most = room(manifest);
    let tokens = u64::from(tokens);
    let span = manifest.span();
    // The last step's drafts may reach past the last token that is kept.
    let reach = tokens.saturating_sub(1).saturating_add(manifest.speculative_tokens().into());
    let last = span.resume_at.saturating_add(reach);
    let pages = (last / u64::from(span.block_tokens.max(1))).saturating_sub(span.tail_page());
    for pool in manifest.pools() {
        let needed = blocks_a_page(manifest, pool).saturating_mul(pages);
        let free = manifest.spare_blocks(pool).len() as u64;
        if tokens > 0 && needed > free {
            let pool = pool.name.clone();
            return Err(RestoreError::PoolTooSmall { pool, tokens, needed, free, most });
        }
    }
    Ok(())
}

/// How many tokens all pools have room for.
fn room(manifest: &Manifest) -> u64 {
    let span = manifest.span();
    let tokens = |pages: u64| {
        let end = span.tail_page().saturating_add(pages).saturating_add(1);
        let end = end.saturating_mul(span.block_tokens.into());
        end.saturating_sub(span.resume_at).saturating_sub(manifest.speculative_tokens().into())
    };
    let pages = |pool: &Arc<Pool>| {
        let free = manifest.spare_blocks(pool).len() as u64;
        free.checked_div(blocks_a_page(manifest, pool))
    };
    manifest.pools().iter().filter_map(pages).min().map_or(u64::MAX, tokens)
}

/// How many blocks of a pool each further page of the request takes.
fn blocks_a_page(manifest: &Manifest, pool: &Pool) -> u64 {
    let grows = |group: &&Group| {
        matches!(group.shape.family, Family::Tokens { .. })
            && GroupPages::after_import(manifest, group).is_some()
    };
    let takes = |group: &Group| {
        let device = group.device.as_ref().is_some_and(|side| side.pool.index == pool.index);
        let host = group.host.as_ref().is_some_and(|side| side.pool.index == pool.index);
        u64::from(device) + u64::from(host && group.mirror)
    };
    manifest.groups().iter().filter(grows).map(takes).sum()
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
    /// Where it is mirrored, until it is sealed.
    pub open: Option<OpenPage>,
    /// Its host block, if it has one.
    pub block: Option<u32>,
}

/// What one group keeps on the device of the request's end.
#[derive(Debug)]
pub struct GroupPages<'m> {
    pub group: &'m Group,
    /// Pages that are written, the last of them first in need of a successor.
    pub writable: Vec<Writable>,
}

impl<'m> GroupPages<'m> {
    /// The writable page of a group after the lift; `None` for a group that is not on the device.
    pub fn after_import(manifest: &'m Manifest, group: &'m Group) -> Option<Self> {
        let on_device = group.lift != Lift::None || group.landing == crate::manifest::Landing::Gpu;
        let page = *group.device_pages().last().filter(|_| on_device)?;
        let tokens = matches!(group.shape.family, Family::Tokens { .. });
        let block = group.host_blocks().last().copied().filter(|_| group.mirror);
        let mut pages = Self { group, writable: Vec::new() };
        let span = manifest.span();
        let position = if tokens { span.tail_page() } else { 0 };
        // The row that is replayed is written again: it is not durable yet, though it was imported.
        let before_resume = span.resume_at.saturating_sub(position.saturating_mul(span.block_tokens.into()));
        pages.push(position, page, block, pages.complete_rows(before_resume));
        Some(pages)
    }

    /// Adds the page at a position, whose first `durable` rows are safe in its host block.
    pub fn push(&mut self, position: u64, page: u32, block: Option<u32>, durable: Rows) {
        let tokens = matches!(self.group.shape.family, Family::Tokens { .. });
        let rows = Rows::new(self.group.shape.rows);
        let open = block
            .filter(|_| tokens)
            .map(|block| OpenPage::new(PageId::new(page), HostBlockId::new(block), rows, durable));
        self.writable.push(Writable { position, page, open, block });
    }

    /// Forgets pages before a position, but for the last one: nothing is written there any more.
    pub fn forget_before(&mut self, position: u64) {
        if matches!(self.group.shape.family, Family::Tokens { .. })
            && let Some(last) = self.writable.last().map(|page| page.position)
        {
            self.writable.retain(|page| page.position >= position.min(last));
        }
    }

    /// The page at a position.
    pub fn at(&self, position: u64) -> Option<&Writable> {
        self.writable.iter().rev().find(|page| page.position == position)
    }

    /// Rows that are complete when a page holds its first `tokens` tokens.
    pub fn complete_rows(&self, tokens: u64) -> Rows {
        let tokens = Tokens::new(tokens);
        match self.group.shape.family {
            Family::Tokens { tokens_per_row } => {
                let rows = tokens.get().checked_div(tokens_per_row.into()).unwrap_or(0);
                Rows::new(u32::try_from(rows).unwrap_or(u32::MAX).min(self.group.shape.rows))
            }
            Family::Ring | Family::State => Rows::new(self.group.shape.rows),
        }
    }
}
