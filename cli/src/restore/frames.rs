//! Which of a manifest's blocks and pages the lifecycle's numbers stand for.
//!
//! A page of the lifecycle stands for those pages of each group that hold the same tokens, and a block likewise: it has as many
//! tokens as the largest of them. What the manifest lists comes first, so that block `n` of the first request is that of
//! position `n`, and page 0 the writable one.
//!
//! | group | its pages are |
//! |---|---|
//! | token rows of which the tail is lifted, and rows are mirrored | dealt out by the lifecycle, and given away when they are sealed |
//! | other token rows on the device | the request's own, by position |
//! | ring, state | the request's one |
//!
//! A state has one block, too: each checkpoint takes the place of the one before.

use std::sync::Arc;

use pagelift::id::{HostBlockId, PageId};
use pagelift::lifecycle::{GroupFrames, PageState, RequestView};
use pagelift::plan::{PlanCapacity, RowCapacity};

use super::RestoreError;
use super::world::AnyKey;
use crate::manifest::{Family, Group, Landing, Lift, Manifest, Pool, Side, SplitMix64};
use crate::reference::slot;

/// The lifecycle's blocks and pages, and what they stand for.
#[derive(Debug)]
pub struct Frames<'m> {
    /// Tokens of a block, and of a page.
    pub tokens: u32,
    /// Blocks.
    pub blocks: u32,
    /// Pages.
    pub pages: u32,
    /// By group.
    pub groups: Vec<Frame<'m>>,
}

/// One group's blocks and pages.
#[derive(Debug)]
pub struct Frame<'m> {
    pub group: &'m Group,
    /// Host blocks, by the lifecycle's blocks.
    blocks: Vec<u32>,
    pages: Pages,
    /// Tokens of the lifecycle's blocks.
    tokens: u64,
}

/// A group's pages.
#[derive(Debug)]
enum Pages {
    /// By the lifecycle's pages.
    Dealt(Vec<u32>),
    /// The request's own, of which the first is at this position.
    Own(u64, Vec<u32>),
}

/// Where a request is, in the lifecycle's numbers.
#[derive(Debug, Default)]
pub struct Places {
    /// By position.
    blocks: Vec<HostBlockId>,
    /// Position, page, and whether its rows are mirrored.
    pages: Vec<(u32, PageId, bool)>,
    /// The position of its state.
    pub state: Option<u32>,
}

impl Places {
    /// Where a request is now.
    pub fn of(request: RequestView<'_>) -> Self {
        let mapped = |state| state != PageState::Private;
        Self {
            blocks: request.blocks().to_vec(),
            pages: request.pages().map(|(position, page, state)| (position, page, mapped(state))).collect(),
            state: request.state().map(|(_, position)| position),
        }
    }

    /// The first position that it has a page for.
    pub fn first(&self) -> u64 {
        self.pages.first().map_or(0, |(position, ..)| (*position).into())
    }

    fn page(&self, position: u64) -> Option<(PageId, bool)> {
        let held = self.pages.iter().find(|(own, ..)| u64::from(*own) == position);
        held.map(|(_, page, mapped)| (*page, *mapped))
    }
}

impl<'m> Frames<'m> {
    /// What a request takes that generates `tokens` tokens, and goes on after it was preempted where `resumed`.
    ///
    /// # Errors
    /// Where the pools have too few blocks for so much.
    pub fn new(manifest: &'m Manifest, tokens: u32, resumed: bool) -> Result<Self, RestoreError> {
        Self::with(manifest, tokens, Demand::of(manifest, tokens.into(), resumed))
    }

    /// The same, where all of the import lands on the device.
    ///
    /// # Errors
    /// As [`Frames::new`].
    #[cfg(feature = "nixl")]
    pub fn landing_on_device(manifest: &'m Manifest, tokens: u32) -> Result<Self, RestoreError> {
        let demand = Demand { landed: true, ..Demand::of(manifest, tokens.into(), false) };
        Self::with(manifest, tokens, demand)
    }

    fn with(manifest: &'m Manifest, tokens: u32, demand: Demand) -> Result<Self, RestoreError> {
        demand.check(manifest, tokens)?;
        let mut free = FreeBlocks::new(manifest);
        let groups = manifest.groups().iter().map(|group| demand.frame(group, &mut free)).collect();
        let small = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        Ok(Self {
            tokens: small(demand.block),
            blocks: small(demand.blocks()),
            pages: small(demand.pages()),
            groups,
        })
    }

    /// The same for a rank's plans.
    pub fn of_rank(&self, keys: &[AnyKey]) -> Vec<GroupFrames> {
        let all = self.groups.iter().zip(keys);
        all.filter_map(|(frame, key)| frame.of_rank(*key, self.blocks)).collect()
    }

    /// The same of every group, for what is imported into them.
    #[cfg(feature = "nixl")]
    pub fn of_import(&self, keys: &[AnyKey]) -> Vec<GroupFrames> {
        self.groups.iter().zip(keys).map(|(frame, key)| frame.numbers(*key, self.blocks)).collect()
    }

    /// Room for what a step's plans have in them.
    pub fn room(&self) -> (PlanCapacity, RowCapacity) {
        let small = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let sum = |count: &dyn Fn(&Frame<'_>) -> usize| self.groups.iter().map(count).sum::<usize>();
        let parts = |frame: &Frame<'_>| usize::try_from(frame.parts()).unwrap_or(usize::MAX);
        let (pages, groups) = (self.pages as usize, self.groups.len());
        // A job for each of the parts that a block or page has, one for the rows left over, one for zeros, of all pages that may
        // be written back at one time; and a list of all blocks or pages, whichever are more.
        let plans = PlanCapacity {
            jobs: small(sum(&|frame| parts(frame).saturating_add(2).saturating_mul(pages.max(1)))),
            list_entries: small(sum(&|frame| frame.blocks.len().saturating_add(frame.pages.all().len()))),
        };
        // All pages may come and go in one step.
        let changes = sum(&|frame| parts(frame).saturating_mul(pages.saturating_add(1)).saturating_mul(2));
        (plans, RowCapacity { jobs: small(groups), changes: small(changes) })
    }
}

impl Frame<'_> {
    const fn has_tokens(&self) -> bool {
        matches!(self.group.shape.family, Family::Tokens { .. })
    }

    /// The device page at a position of the request, in the group's own pages; 0 of rings and states.
    pub fn page_at(&self, places: &Places, position: u64) -> Option<u32> {
        let real = |page: &u32| *page != GroupFrames::NONE;
        let index = |index: u64| usize::try_from(index).ok();
        match &self.pages {
            Pages::Own(first, pages) => pages.get(index(position.checked_sub(*first)?)?),
            Pages::Dealt(pages) => {
                let each = self.each(self.group.device.as_ref()?);
                let (number, _) = places.page(position / each)?;
                pages.get(index(u64::from(number.get()) * each + position % each)?)
            }
        }
        .copied()
        .filter(real)
    }

    /// The host block at a position of the request, in the group's own blocks; 0 of rings and states.
    pub fn block_at(&self, places: &Places, position: u64) -> Option<u32> {
        if !self.has_tokens() {
            return self.blocks.first().copied();
        }
        let each = self.each(self.group.host.as_ref()?);
        let number = places.blocks.get(usize::try_from(position / each).ok()?)?;
        self.blocks_of(*number).get(usize::try_from(position % each).ok()?).copied()
    }

    /// The host blocks that a block of the lifecycle stands for.
    pub fn blocks_of(&self, number: HostBlockId) -> &[u32] {
        let each = self.group.host.as_ref().map_or(1, |host| self.each(host));
        let each = usize::try_from(each).unwrap_or(1);
        let own = self.blocks.get(each.saturating_mul(number.get() as usize)..).unwrap_or_default();
        own.get(..each).unwrap_or(own)
    }

    /// Where a token's row is written, if it is: the page and the row.
    pub fn written_at(&self, places: &Places, token: u64) -> Option<(u32, u32)> {
        let slot = slot(self.group, self.group.device.as_ref()?, token)?;
        Some((self.page_at(places, slot.page)?, slot.row))
    }

    /// Where a token's row is mirrored, if it is: the host block and the row. What is written to a copy of others' blocks
    /// stays there.
    pub fn mirrored_at(&self, places: &Places, token: u64) -> Option<(u32, u32)> {
        let host = self.group.host.as_ref().filter(|_| self.group.mirror)?;
        let slot = slot(self.group, host, token)?;
        let mapped = !self.has_tokens() || places.page(token / self.tokens).is_some_and(|(_, mapped)| mapped);
        Some((self.block_at(places, slot.page).filter(|_| mapped)?, slot.row))
    }

    /// The number in a slot mapping of the slot of a token.
    pub fn slot_number(&self, places: &Places, token: u64) -> Option<u64> {
        let device = self.group.device.as_ref()?;
        let slots = u64::from(if self.has_tokens() { device.page_tokens } else { device.rows });
        let position = if self.has_tokens() { token / slots } else { 0 };
        Some(u64::from(self.page_at(places, position)?) * slots + token % slots)
    }

    /// How many blocks or pages of a side are one of the lifecycle's.
    fn each(&self, side: &Side) -> u64 {
        self.tokens / u64::from(side.page_tokens)
    }

    /// Into how many parts a block of the lifecycle is cut, so that blocks and pages pair.
    fn parts(&self) -> u64 {
        let sides = [&self.group.host, &self.group.device].into_iter().flatten();
        if self.has_tokens() { sides.map(|side| self.each(side)).max().unwrap_or(1) } else { 1 }
    }

    /// The same for a rank's plans; nothing where it neither lifts the group nor writes it back.
    fn of_rank(&self, key: AnyKey, numbers: u32) -> Option<GroupFrames> {
        if self.group.lift == Lift::None && !self.group.mirror {
            return None;
        }
        let frames = self.numbers(key, numbers);
        Some(if self.group.mirror { frames } else { GroupFrames::ReadOnly(Box::new(frames)) })
    }

    /// What the lifecycle's numbers stand for, of whichever use that is.
    fn numbers(&self, key: AnyKey, numbers: u32) -> GroupFrames {
        let blocks: Vec<_> = self.blocks.iter().copied().map(HostBlockId::new).collect();
        let (first, pages) = match &self.pages {
            Pages::Dealt(pages) => (0, pages),
            Pages::Own(first, pages) => (usize::try_from(*first).unwrap_or(usize::MAX), pages),
        };
        let before = std::iter::repeat_n(GroupFrames::NONE, first);
        let pages: Vec<_> = before.chain(pages.iter().copied()).map(PageId::new).collect();
        match (key, &self.pages) {
            (AnyKey::Paged(group), Pages::Dealt(_)) => GroupFrames::Paged { group, blocks, pages },
            (AnyKey::Paged(group), Pages::Own(..)) => {
                let each = u32::try_from(pages.len()).unwrap_or(u32::MAX);
                GroupFrames::Whole { group, blocks, pages, each }
            }
            (AnyKey::Ring(group), _) => GroupFrames::Ring { group, blocks, pages },
            (AnyKey::State(group), _) => {
                let blocks = blocks.first().map(|block| vec![*block; numbers as usize]).unwrap_or_default();
                GroupFrames::State { group, blocks, pages }
            }
        }
    }
}

impl Pages {
    fn all(&self) -> &[u32] {
        let (Self::Dealt(pages) | Self::Own(_, pages)) = self;
        pages
    }
}

/// What a request takes of blocks and pages.
#[derive(Clone, Copy, Debug)]
struct Demand {
    /// Tokens of the lifecycle's blocks.
    block: u64,
    /// The first token that is computed, and the last that may be.
    resume_at: u64,
    last: u64,
    drafts: u64,
    /// Whether any page may come to be at any position.
    resumed: bool,
    /// Whether the import lands in pages, all of them.
    landed: bool,
}

impl Demand {
    fn of(manifest: &Manifest, tokens: u64, resumed: bool) -> Self {
        let resume_at = manifest.span().resume_at;
        let drafts = u64::from(manifest.speculative_tokens());
        // The last step's drafts may reach past the last token that is kept.
        let last = match tokens.checked_sub(1) {
            Some(before_last) => resume_at.saturating_add(before_last).saturating_add(drafts),
            None => resume_at,
        };
        let block = block_tokens(manifest);
        Self { block, resume_at, last, drafts, resumed, landed: false }
    }

    fn tail(self) -> u64 {
        self.resume_at / self.block
    }

    fn blocks(self) -> u64 {
        (self.last / self.block).saturating_add(1)
    }

    /// Pages that a request has at one time: those that a step writes, and one whose rows are not all safe yet.
    fn pages(self) -> u64 {
        if self.landed {
            return self.blocks();
        }
        let written = self.drafts.div_ceil(self.block).saturating_add(1);
        written.saturating_add(1).min(self.blocks().saturating_sub(self.tail()))
    }

    /// How many more of a side's blocks are taken than the import has.
    fn more(self, group: &Group, side: &Side, dealt: bool) -> u64 {
        let tokens = u64::from(side.page_tokens);
        if dealt && (self.resumed || self.landed || self.blocks() > self.tail().saturating_add(1)) {
            let pages = self.pages().saturating_mul(self.block / tokens);
            return pages.saturating_sub(group.device_pages().len() as u64);
        }
        self.last / tokens - self.resume_at / tokens
    }

    /// How many more blocks of a pool are taken than the import has.
    fn of_pool(self, manifest: &Manifest, pool: &Pool) -> u64 {
        let of_group = |group: &Group| {
            let host = group.host.as_ref().filter(|_| group.mirror).map(|side| (side, false));
            let device = group.device.as_ref().map(|side| (side, is_dealt(group)));
            let sides = host.into_iter().chain(device).filter(|(side, _)| side.pool.index == pool.index);
            sides.map(|(side, dealt)| self.more(group, side, dealt)).fold(0, u64::saturating_add)
        };
        let grows = manifest.groups().iter().filter(|group| has_tokens(group) && is_on_device(group));
        grows.map(of_group).fold(0, u64::saturating_add)
    }

    fn check(self, manifest: &Manifest, tokens: u32) -> Result<(), RestoreError> {
        for pool in manifest.pools() {
            let (needed, free) = (self.of_pool(manifest, pool), manifest.spare_blocks(pool).len() as u64);
            if needed > free {
                let most = room(manifest, self.resumed);
                let (pool, tokens) = (pool.name.clone(), tokens.into());
                return Err(RestoreError::PoolTooSmall { pool, tokens, needed, free, most });
            }
        }
        Ok(())
    }

    /// Gives a group its blocks and pages: those of the manifest, and others that nobody has.
    fn frame<'m>(self, group: &'m Group, free: &mut FreeBlocks) -> Frame<'m> {
        let mut blocks = group.host_blocks().to_vec();
        let pages = self.pages_of(group, free);
        if let Some(host) = group.host.as_ref().filter(|_| group.mirror && has_tokens(group)) {
            blocks.extend((0..self.more(group, host, false)).map_while(|_| free.take(&host.pool)));
        }
        Frame { group, blocks, pages, tokens: self.block }
    }

    fn pages_of(self, group: &Group, free: &mut FreeBlocks) -> Pages {
        let listed = group.device_pages();
        let span_first = self.first_page(group);
        let Some(device) = group.device.as_ref().filter(|_| has_tokens(group) && is_on_device(group)) else {
            return Pages::Own(0, listed.to_vec());
        };
        if !is_dealt(group) {
            let more = (0..self.more(group, device, false)).map_while(|_| free.take(&device.pool));
            return Pages::Own(span_first, listed.iter().copied().chain(more).collect());
        }
        // Page 0 is at the tail's position: what is listed comes to lie there in its place.
        let each = self.block / u64::from(device.page_tokens);
        let count = usize::try_from(self.pages().saturating_mul(each)).unwrap_or(0);
        let first = usize::try_from(span_first.saturating_sub(self.tail().saturating_mul(each))).unwrap_or(0);
        let mut pages = vec![GroupFrames::NONE; count];
        for (entry, page) in pages.iter_mut().skip(first).zip(listed) {
            *entry = *page;
        }
        // Those that are written first come first: before the listed ones nothing is, until they are dealt out again.
        let end = first.saturating_add(listed.len());
        let (before, after) = pages.split_at_mut_checked(end).unwrap_or_default();
        for entry in after.iter_mut().chain(before.iter_mut().take(first)) {
            *entry = free.take(&device.pool).unwrap_or(GroupFrames::NONE);
        }
        Pages::Dealt(pages)
    }

    /// The position of the first of a group's listed pages.
    fn first_page(self, group: &Group) -> u64 {
        let Some(device) = group.device.as_ref().filter(|_| has_tokens(group)) else { return 0 };
        let writable = self.resume_at / u64::from(device.page_tokens);
        writable.saturating_add(1).saturating_sub(group.device_pages().len() as u64)
    }
}

/// Tokens of the lifecycle's blocks: of the largest block or page of all groups.
pub fn block_tokens(manifest: &Manifest) -> u64 {
    let sides = manifest.groups().iter().filter(|group| has_tokens(group));
    let sides = sides.flat_map(|group| group.host.iter().chain(&group.device));
    let largest = sides.map(|side| side.page_tokens).max().unwrap_or(0);
    largest.max(manifest.span().block_tokens).into()
}

/// How many tokens all pools have room for.
fn room(manifest: &Manifest, resumed: bool) -> u64 {
    let fits = |tokens: u64| {
        let demand = Demand::of(manifest, tokens, resumed);
        let fits =
            |pool: &Arc<Pool>| demand.of_pool(manifest, pool) <= manifest.spare_blocks(pool).len() as u64;
        manifest.pools().iter().all(fits)
    };
    // More tokens never need fewer blocks.
    let (mut fit, mut too_many) = (0, u64::from(u32::MAX) + 1);
    while too_many - fit > 1 {
        let middle = fit.midpoint(too_many);
        if fits(middle) { fit = middle } else { too_many = middle }
    }
    fit
}

const fn has_tokens(group: &Group) -> bool {
    matches!(group.shape.family, Family::Tokens { .. })
}

fn is_on_device(group: &Group) -> bool {
    group.lift != Lift::None || group.landing == Landing::Gpu
}

/// Whether the lifecycle deals out a group's pages.
fn is_dealt(group: &Group) -> bool {
    group.mirror && group.lift == Lift::Tail
}

/// Free blocks of all pools, drawn in a scattered order that follows from the manifest.
struct FreeBlocks {
    by_pool: Vec<(Vec<u32>, SplitMix64)>,
}

impl FreeBlocks {
    fn new(manifest: &Manifest) -> Self {
        let spare =
            |pool: &Arc<Pool>| (manifest.spare_blocks(pool).to_vec(), SplitMix64::new(pool.index as u64));
        Self { by_pool: manifest.pools().iter().map(spare).collect() }
    }

    fn take(&mut self, pool: &Pool) -> Option<u32> {
        let (free, random) = self.by_pool.get_mut(pool.index).filter(|(free, _)| !free.is_empty())?;
        Some(free.swap_remove(random.below(free.len())))
    }
}
