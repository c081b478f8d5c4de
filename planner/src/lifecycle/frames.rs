//! What a lifecycle's numbers stand for, group by group.

use super::lists::LiftLists;
use crate::error::PlanError;
use crate::geometry::{
    Geometry, GroupKey, GroupKind, Kind, Landing, Lift, Memory, Paged, Ring, RouteKey, State,
};
use crate::id::{GroupId, HostBlockId, PageId};
use crate::import::{ImportGroup, PromptSpan};
use crate::plan::{
    Direction, HostToDevice, MirrorPlan, PageMap, RestorePlan, WriteBackPlan, no_route, paged_extent,
};
use crate::quantity::Rows;

/// Which blocks and pages of a group a lifecycle's numbers stand for.
///
/// | group | host blocks | pages |
/// |---|---|---|
/// | lifts its tail | by the lifecycle's blocks | by the lifecycle's pages |
/// | has all of its pages on the device | by the lifecycle's blocks | so many for each slot of a request, by position |
/// | ring | by the slots of requests | by the slots of requests |
/// | state | by the lifecycle's blocks | by the slots of requests |
///
/// A lifecycle's blocks have as many tokens as the largest block or page of all groups. Where a group's own are smaller, a
/// number stands for several of them: entries `2 n` and `2 n + 1` of a list are number `n`'s where it is two. What no request
/// reaches may be missing at a list's end, and be [`GroupFrames::NONE`] elsewhere.
#[derive(Clone, Debug)]
pub enum GroupFrames {
    /// A paged group that lands in host blocks, and lifts its tail.
    Paged {
        /// The group.
        group: GroupKey<Paged>,
        /// By the lifecycle's blocks.
        blocks: Vec<HostBlockId>,
        /// By the lifecycle's pages.
        pages: Vec<PageId>,
    },
    /// A paged group that every step reads whole: it lifts all of its pages, or lands on the device. What lands there is in no
    /// host block: where it has a host side, it is [`GroupFrames::ReadOnly`].
    Whole {
        /// The group.
        group: GroupKey<Paged>,
        /// By the lifecycle's blocks.
        blocks: Vec<HostBlockId>,
        /// By the slots of requests: `each` for a slot, by position.
        pages: Vec<PageId>,
        /// Pages of a slot.
        each: u32,
    },
    /// A ring, of which each request has one page and one block. One that lands on the device and has a host side is
    /// [`GroupFrames::ReadOnly`].
    Ring {
        /// The group.
        group: GroupKey<Ring>,
        /// By the slots of requests.
        blocks: Vec<HostBlockId>,
        /// By the slots of requests.
        pages: Vec<PageId>,
    },
    /// A group of states, of which each request has one page.
    State {
        /// The group.
        group: GroupKey<State>,
        /// By the lifecycle's blocks.
        blocks: Vec<HostBlockId>,
        /// By the slots of requests.
        pages: Vec<PageId>,
    },
    /// A group that is lifted, and never written back: what steps write to it is on the device alone. So its pages stay with
    /// their request, and are those of [`GroupFrames::Whole`], also where only a tail is lifted.
    ReadOnly(Box<Self>),
}

/// What frames are read with.
#[derive(Clone, Copy)]
pub(super) struct Scale<'a> {
    pub geometry: &'a Geometry,
    /// Tokens of the lifecycle's blocks.
    pub block_tokens: u64,
}

impl Scale<'_> {
    /// How many of a group's blocks or pages are one of the lifecycle's.
    pub fn each(self, group: GroupId, memory: Memory) -> usize {
        let slots = self.geometry.block_slots(group, memory).map_or(1, |slots| slots.get());
        usize::try_from(self.block_tokens.checked_div(slots).unwrap_or(1)).unwrap_or(1).max(1)
    }
}

/// Where one page of the lifecycle is: whose, and at which position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mapped {
    pub position: u32,
    pub page: PageId,
    pub block: HostBlockId,
}

/// A group's pages and blocks for one page of the lifecycle.
struct Ends<'a> {
    group: GroupKey<Paged>,
    pages: &'a [PageId],
    blocks: &'a [HostBlockId],
}

/// A page, or a block, and the first row of a part of it.
type Part<T> = (T, Rows);

impl Ends<'_> {
    /// What mirrors what: parts of as many rows as the smaller of the two has. What no request reaches is not mirrored.
    fn parts(&self, geometry: &Geometry) -> impl Iterator<Item = (Part<PageId>, Part<HostBlockId>)> {
        let rows = |memory| geometry.block_rows(self.group, memory).map_or(1, Rows::get).max(1);
        let (page_rows, block_rows) = (rows(Memory::Device), rows(Memory::Host));
        let all = page_rows.saturating_mul(u32::try_from(self.pages.len()).unwrap_or(u32::MAX));
        let step = usize::try_from(page_rows.min(block_rows)).unwrap_or(1);
        (0..all).step_by(step).filter_map(move |row| {
            let page = at(self.pages, row.checked_div(page_rows)?)?;
            let block = at(self.blocks, row.checked_div(block_rows)?)?;
            let real = page.get() != GroupFrames::NONE && block.get() != GroupFrames::NONE;
            let first = |rows: u32| Some(Rows::new(row.checked_rem(rows)?));
            Some(((page, first(page_rows)?), (block, first(block_rows)?))).filter(|_| real)
        })
    }

    /// Takes back the first so many parts that were mapped.
    fn undo(&self, map: &mut PageMap, geometry: &Geometry, parts: usize) -> Result<(), PlanError> {
        self.parts(geometry).take(parts).try_for_each(|(page, _)| map.undo_rows(self.group, page))
    }
}

impl GroupFrames {
    /// An entry that stands for nothing: no pool has so many pages or blocks.
    pub const NONE: u32 = u32::MAX;

    pub(super) fn id(&self) -> GroupId {
        match self {
            Self::Paged { group, .. } | Self::Whole { group, .. } => group.id(),
            Self::Ring { group, .. } => group.id(),
            Self::State { group, .. } => group.id(),
            Self::ReadOnly(frames) => frames.id(),
        }
    }

    fn is_of(&self, geometry: &Geometry) -> bool {
        match self {
            Self::Paged { group, .. } | Self::Whole { group, .. } => geometry.has(*group),
            Self::Ring { group, .. } => geometry.has(*group),
            Self::State { group, .. } => geometry.has(*group),
            Self::ReadOnly(frames) => frames.is_of(geometry),
        }
    }

    /// Refuses frames of another geometry, of another kind than what the group lifts, or of blocks that do not fit into the
    /// lifecycle's.
    pub(super) fn check(&self, Scale { geometry, block_tokens }: Scale<'_>) -> Result<(), PlanError> {
        let own = geometry.group(self.id()).filter(|_| self.is_of(geometry));
        let group = own.ok_or_else(|| PlanError::ForeignGroup { group: self.id() })?;
        let on_device = group.landing() == Landing::Device;
        let slots = [Memory::Host, Memory::Device].map(|memory| geometry.block_slots(self.id(), memory));
        let divides = |slots: u64| block_tokens.checked_rem(slots) == Some(0);
        let wrong = match (self, group.lift()) {
            (Self::Paged { .. }, Lift::All) => Some(("frames of all pages", "frames of its tail")),
            (Self::Whole { .. }, Lift::Tail) => Some(("frames of its tail", "frames of all pages")),
            // Of what lands in other pages than the writable one, nobody would know where it lies.
            (Self::Paged { .. }, _) if !group.is_lifted() => {
                Some(("frames of all pages, as its tail is not lifted", "frames of its tail"))
            }
            (Self::ReadOnly(frames), _) if matches!(**frames, Self::Paged { .. } | Self::ReadOnly(_)) => {
                Some(("frames of pages that stay with their request", "others"))
            }
            // Its host blocks never have the rows that were imported: nothing can be lifted again from them.
            (Self::Whole { .. } | Self::Ring { .. }, _) if on_device && group.to_host.is_some() => {
                Some(("frames that are only read, as it lands on the device", "frames that are written back"))
            }
            _ if group.kind() == GroupKind::Paged
                && !slots.into_iter().flatten().all(|slots| divides(slots.get())) =>
            {
                Some(("blocks and pages whose tokens divide those of the lifecycle's blocks", "others"))
            }
            _ => None,
        };
        match wrong {
            Some((expected, found)) => Err(PlanError::Frames { group: group.name.clone(), expected, found }),
            None => Ok(()),
        }
    }

    /// The group's pages and blocks for a page of the lifecycle; none of groups without rows by position, or that are not
    /// written back.
    fn ends(&self, scale: Scale<'_>, slot: u32, mapped: Mapped) -> Result<Option<Ends<'_>>, PlanError> {
        let Some(group) = self.written_back(scale.geometry) else { return Ok(None) };
        let [own_blocks, own_pages] =
            [Memory::Host, Memory::Device].map(|memory| scale.each(group.id(), memory));
        let (blocks, pages) = match self {
            Self::Paged { blocks, pages, .. } => (blocks, some(pages, mapped.page.get(), own_pages)),
            Self::Whole { blocks, pages, each, .. } => {
                (blocks, some(whole(pages, *each, slot), mapped.position, own_pages))
            }
            Self::Ring { .. } | Self::State { .. } | Self::ReadOnly(_) => return Ok(None),
        };
        let blocks = some(blocks, mapped.block.get(), own_blocks);
        let missing = |list| Err(self.missing(scale.geometry, list, mapped.position));
        match (pages, blocks) {
            ([], _) => missing("pages"),
            (_, []) => missing("host blocks"),
            _ => Ok(Some(Ends { group, pages, blocks })),
        }
    }

    /// The paged group whose pages are written back, if that is one.
    fn written_back(&self, geometry: &Geometry) -> Option<GroupKey<Paged>> {
        let (Self::Paged { group, .. } | Self::Whole { group, .. }) = self else { return None };
        geometry.spill_route(*group).map(|_| *group)
    }

    /// Refuses a group whose rows are mirrored, where a plan does not know which rows a step writes.
    pub(super) fn check_bound(&self, plan: &MirrorPlan, geometry: &Geometry) -> Result<(), PlanError> {
        let bound = match self {
            Self::Ring { group, .. } => geometry.spill_route(*group).is_none() || plan.is_bound(*group),
            _ => self.written_back(geometry).is_none_or(|group| plan.is_bound(group)),
        };
        if bound { Ok(()) } else { Err(PlanError::Unbound { group: geometry.group_name(self.id()) }) }
    }

    /// Mirrors a page of the lifecycle, or changes nothing.
    pub(super) fn map(
        &self,
        map: &mut PageMap,
        scale: Scale<'_>,
        slot: u32,
        mapped: Mapped,
    ) -> Result<(), PlanError> {
        let Some(ends) = self.ends(scale, slot, mapped)? else { return Ok(()) };
        for (done, (page, block)) in ends.parts(scale.geometry).enumerate() {
            if let Err(error) = map.map_rows(ends.group, page, block) {
                ends.undo(map, scale.geometry, done)?;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Takes back what [`GroupFrames::map`] has done.
    pub(super) fn undo(
        &self,
        map: &mut PageMap,
        scale: Scale<'_>,
        slot: u32,
        mapped: Mapped,
    ) -> Result<(), PlanError> {
        match self.ends(scale, slot, mapped)? {
            Some(ends) => ends.undo(map, scale.geometry, usize::MAX),
            None => Ok(()),
        }
    }

    /// Mirrors it no more.
    pub(super) fn unmap(
        &self,
        map: &mut PageMap,
        scale: Scale<'_>,
        slot: u32,
        mapped: Mapped,
    ) -> Result<(), PlanError> {
        match self.ends(scale, slot, mapped)? {
            Some(Ends { group, pages, .. }) => {
                let mut real = pages.iter().filter(|page| page.get() != Self::NONE);
                real.try_for_each(|page| map.unmap(group, *page))
            }
            None => Ok(()),
        }
    }

    /// Mirrors a request's ring, from its slot's first request on: page and block stay the slot's.
    pub(super) fn map_ring(
        &self,
        map: &mut PageMap,
        geometry: &Geometry,
        slot: u32,
    ) -> Result<(), PlanError> {
        let Self::Ring { group, blocks, pages } = self else { return Ok(()) };
        if geometry.spill_route(*group).is_none() {
            return Ok(());
        }
        let missing = |list| self.missing(geometry, list, slot);
        let page = at(pages, slot).ok_or_else(|| missing("pages"))?;
        let block = at(blocks, slot).ok_or_else(|| missing("host blocks"))?;
        match map.block_of(*group, page) {
            Some(mapped) if mapped == block => Ok(()),
            _ => map.map(*group, page, block),
        }
    }

    /// Writes a page of the lifecycle back.
    pub(super) fn spill(
        &self,
        plan: &mut WriteBackPlan,
        scale: Scale<'_>,
        slot: u32,
        mapped: Mapped,
    ) -> Result<(), PlanError> {
        match self.ends(scale, slot, mapped)? {
            Some(Ends { group, pages, blocks }) => plan.spill(group, pages, blocks),
            None => Ok(()),
        }
    }

    /// Writes a request's ring back.
    pub(super) fn spill_ring(
        &self,
        plan: &mut WriteBackPlan,
        geometry: &Geometry,
        slot: u32,
    ) -> Result<(), PlanError> {
        let Self::Ring { group, blocks, pages } = self else { return Ok(()) };
        match geometry.spill_route(*group).zip(at(pages, slot)).zip(at(blocks, slot)) {
            Some(((route, page), block)) => plan.gather(route, &[page], &[block]),
            None => Ok(()),
        }
    }

    /// Writes a request's states to the lifecycle's block, which is at that position.
    pub(super) fn checkpoint(
        &self,
        plan: &mut WriteBackPlan,
        geometry: &Geometry,
        slot: u32,
        (position, block): (u32, Option<HostBlockId>),
    ) -> Result<(), PlanError> {
        let Self::State { group, blocks, pages } = self else { return Ok(()) };
        if geometry.spill_route(*group).is_none() {
            return Ok(());
        }
        let page = at(pages, slot).ok_or_else(|| self.missing(geometry, "pages", slot))?;
        let block = block.and_then(|block| at(blocks, block.get()));
        plan.checkpoint(*group, page, block.ok_or_else(|| self.missing(geometry, "host blocks", position))?)
    }

    /// What of the group lies where of a request: blocks, and pages. Of an import's, what it takes; else what holds tokens.
    pub(super) fn lists(
        &self,
        scale: Scale<'_>,
        (slot, order): (u32, &LiftLists),
        span: Option<PromptSpan>,
        lists: &mut GroupLists,
    ) -> Result<(), PlanError> {
        let GroupLists { blocks: from, pages: to } = lists;
        from.clear();
        to.clear();
        match self {
            Self::Paged { group, blocks, pages } => {
                let (own, of_page) =
                    (self.extent(scale, *group, order, span)?, scale.each(group.id(), Memory::Device));
                from.extend(
                    own.blocks.filter_map(|own| ordered(scale, group.id(), (blocks, &order.blocks), own)),
                );
                to.extend(own.pages.filter_map(|own| {
                    let position = u32::try_from(own.checked_div(of_page)?).ok()?;
                    let (_, page) = order.pages.iter().find(|(at, _)| *at == position)?;
                    some(pages, page.get(), of_page).get(own.checked_rem(of_page)?).copied()
                }));
            }
            Self::Whole { group, blocks, pages, each } => {
                let own = self.extent(scale, *group, order, span)?;
                from.extend(
                    own.blocks.filter_map(|own| ordered(scale, group.id(), (blocks, &order.blocks), own)),
                );
                to.extend(own.pages.filter_map(|own| whole(pages, *each, slot).get(own).copied()));
            }
            Self::Ring { blocks, pages, .. } => {
                from.extend(at(blocks, slot));
                to.extend(at(pages, slot));
            }
            Self::State { blocks, pages, .. } => {
                let block = order.state.and_then(|position| at(&order.blocks, position));
                from.extend(block.and_then(|block| at(blocks, block.get())));
                to.extend(at(pages, slot));
            }
            Self::ReadOnly(frames) => frames.lists(scale, (slot, order), span, lists)?,
        }
        Ok(())
    }

    /// Which of a group's blocks and pages are in its lists, counted from the request's first.
    fn extent(
        &self,
        scale: Scale<'_>,
        group: GroupKey<Paged>,
        order: &LiftLists,
        span: Option<PromptSpan>,
    ) -> Result<Extent, PlanError> {
        let memories = [Memory::Host, Memory::Device];
        if let Some(span) = span.filter(|_| !order.landed())
            && let Some([blocks, pages]) = paged_extent(scale.geometry, group, span)?
        {
            let range = |range: std::ops::Range<u32>| index(range.start.into())..index(range.end.into());
            return Ok(Extent { blocks: range(blocks), pages: range(pages) });
        }
        // Pages of a tail begin at a position; there are as many as hold tokens, or have landed.
        let first = match self {
            Self::Paged { .. } => order.pages.first().map_or(0, |(position, _)| u64::from(*position)),
            _ => 0,
        };
        let positions = u64::try_from(order.blocks.len()).unwrap_or(u64::MAX);
        let first = first.saturating_mul(scale.block_tokens);
        let end = match span {
            Some(_) => positions.saturating_mul(scale.block_tokens),
            None => order.tokens,
        };
        let [blocks, pages] = memories.map(|memory| {
            let slots = scale.geometry.block_slots(group.id(), memory).map_or(1, |slots| slots.get().max(1));
            index(first.checked_div(slots).unwrap_or(0))..index(end.div_ceil(slots))
        });
        Ok(Extent { blocks, pages })
    }

    /// The group's part of an import.
    pub(super) fn import<'a>(
        &self,
        geometry: &Geometry,
        order: &LiftLists,
        lists: &'a GroupLists,
    ) -> ImportGroup<'a> {
        let lifted = geometry.group(self.id()).is_some_and(|group| group.is_lifted());
        // A request without a state begins with none.
        let landed = order.landed() || !lifted || lists.blocks.is_empty();
        let GroupLists { blocks, pages } = lists;
        match self {
            Self::Paged { group, .. } | Self::Whole { group, .. } => part(*group, landed, blocks, pages),
            Self::Ring { group, .. } => part(*group, landed, blocks, pages),
            Self::State { group, .. } => part(*group, landed, blocks, pages),
            Self::ReadOnly(frames) => frames.import(geometry, order, lists),
        }
    }

    /// Adds what a request had before it was preempted: whole pages with rows in them, its ring, its state. What is never
    /// written back stays in its slot's pages.
    pub(super) fn lift_again(
        &self,
        plan: &mut RestorePlan,
        scale: Scale<'_>,
        (slot, order): (u32, &LiftLists),
        lists: &mut GroupLists,
    ) -> Result<(), PlanError> {
        self.lists(scale, (slot, order), None, lists)?;
        let (geometry, GroupLists { blocks: from, pages: to }) = (scale.geometry, lists);
        match self {
            Self::Paged { group, .. } => {
                let route = geometry.lift_route(*group);
                let route = route.ok_or_else(|| no_route(geometry, group.id(), HostToDevice::NAME))?;
                gather(plan, Some(route), from, to)
            }
            Self::Whole { group, .. } => gather(plan, geometry.lift_route(*group), from, to),
            Self::Ring { group, .. } => gather(plan, geometry.lift_route(*group), from, to),
            Self::State { group, .. } => gather(plan, geometry.lift_route(*group), from, to),
            Self::ReadOnly(_) => Ok(()),
        }
    }

    /// A list has no entry for a number.
    #[cold]
    fn missing(&self, geometry: &Geometry, list: &'static str, number: u32) -> PlanError {
        let (expected, found) = (u64::from(number).saturating_add(1), number.into());
        PlanError::ListLength { group: geometry.group_name(self.id()), list, expected, found }
    }
}

/// Which of a group's blocks and pages, counted from the request's first.
struct Extent {
    blocks: std::ops::Range<usize>,
    pages: std::ops::Range<usize>,
}

/// One group's lists of an import: memory that is used again.
#[derive(Debug, Default)]
pub(super) struct GroupLists {
    pub blocks: Vec<HostBlockId>,
    pub pages: Vec<PageId>,
}

fn part<'a, K: Kind>(
    group: GroupKey<K>,
    landed: bool,
    blocks: &'a [HostBlockId],
    pages: &'a [PageId],
) -> ImportGroup<'a> {
    if landed { ImportGroup::landed(group, pages) } else { ImportGroup::new(group, blocks, pages) }
}

fn gather<K: Kind>(
    plan: &mut RestorePlan,
    route: Option<RouteKey<HostToDevice, K>>,
    blocks: &[HostBlockId],
    pages: &[PageId],
) -> Result<(), PlanError> {
    match route {
        // What has no host side was never given away: it is in the slot's pages still.
        Some(route) if !blocks.is_empty() => plan.gather(route, blocks, pages),
        _ => Ok(()),
    }
}

/// The pages of a slot, by position.
fn whole(pages: &[PageId], each: u32, slot: u32) -> &[PageId] {
    let (first, each) = (u64::from(slot).saturating_mul(each.into()), index(each.into()));
    let own = pages.get(index(first)..).unwrap_or_default();
    own.get(..each).unwrap_or(own)
}

/// A request's own block of a group: the list by the lifecycle's blocks, and the request's blocks there.
fn ordered(
    scale: Scale<'_>,
    group: GroupId,
    (blocks, order): (&[HostBlockId], &[HostBlockId]),
    own: usize,
) -> Option<HostBlockId> {
    let each = scale.each(group, Memory::Host);
    let number = order.get(own.checked_div(each)?)?;
    some(blocks, number.get(), each).get(own.checked_rem(each)?).copied()
}

/// The entries of a number that stands for `each` of them, as far as there are any.
fn some<T>(list: &[T], number: u32, each: usize) -> &[T] {
    let first = index(number.into()).saturating_mul(each);
    let own = list.get(first..).unwrap_or_default();
    own.get(..each).unwrap_or(own)
}

fn at<T: Copy>(list: &[T], number: u32) -> Option<T> {
    list.get(index(number.into())).copied()
}

/// A number as an index; one that does not fit finds nothing.
fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
