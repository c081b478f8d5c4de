//! What a lifecycle's numbers stand for, group by group.

use super::lists::LiftLists;
use crate::error::PlanError;
use crate::geometry::{Geometry, GroupKey, Kind, Lift, Paged, Ring, RouteKey, State};
use crate::id::{GroupId, HostBlockId, PageId};
use crate::import::ImportGroup;
use crate::plan::{Direction, HostToDevice, PageMap, RestorePlan, WriteBackPlan, no_route};

/// Which blocks and pages of a group a lifecycle's numbers stand for: entry `n` of a list is the group's for number `n`.
///
/// | group | host blocks | pages |
/// |---|---|---|
/// | lifts its tail | by the lifecycle's blocks | by the lifecycle's pages |
/// | has all of its pages on the device | by the lifecycle's blocks | so many for each slot of a request, by position |
/// | ring | by the slots of requests | by the slots of requests |
/// | state | by the lifecycle's blocks | by the slots of requests |
#[derive(Clone, Debug)]
pub enum GroupFrames {
    /// A paged group that lifts its tail.
    Paged {
        /// The group.
        group: GroupKey<Paged>,
        /// By the lifecycle's blocks.
        blocks: Vec<HostBlockId>,
        /// By the lifecycle's pages.
        pages: Vec<PageId>,
    },
    /// A paged group that every step reads whole: it lifts all of its pages, or lands on the device.
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
    /// A ring, of which each request has one page and one block.
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
}

/// Where one page of the lifecycle is: whose, and at which position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mapped {
    pub position: u32,
    pub page: PageId,
    pub block: HostBlockId,
}

impl GroupFrames {
    pub(super) const fn id(&self) -> GroupId {
        match self {
            Self::Paged { group, .. } | Self::Whole { group, .. } => group.id(),
            Self::Ring { group, .. } => group.id(),
            Self::State { group, .. } => group.id(),
        }
    }

    /// Refuses frames of another kind than what the group lifts.
    pub(super) fn check(&self, geometry: &Geometry) -> Result<(), PlanError> {
        let group = geometry.group(self.id()).ok_or_else(|| PlanError::ForeignGroup { group: self.id() })?;
        let wrong = match (self, group.lift()) {
            (Self::Paged { .. }, Lift::All) => Some(("frames of all pages", "frames of its tail")),
            (Self::Whole { .. }, Lift::Tail) => Some(("frames of its tail", "frames of all pages")),
            _ => None,
        };
        match wrong {
            Some((expected, found)) => Err(PlanError::Frames { group: group.name.clone(), expected, found }),
            None => Ok(()),
        }
    }

    /// The group's page and block for a page of the lifecycle; none of groups without rows by position, or without a host
    /// side.
    fn ends(
        &self,
        geometry: &Geometry,
        slot: u32,
        mapped: Mapped,
    ) -> Result<Option<(GroupKey<Paged>, PageId, HostBlockId)>, PlanError> {
        let (group, blocks, page) = match self {
            Self::Paged { group, blocks, pages } => (*group, blocks, at(pages, mapped.page.get())),
            Self::Whole { group, blocks, pages, each } => {
                (*group, blocks, whole(pages, *each, slot, mapped.position))
            }
            Self::Ring { .. } | Self::State { .. } => return Ok(None),
        };
        if geometry.spill_route(group).is_none() {
            return Ok(None);
        }
        let block = at(blocks, mapped.block.get());
        let missing = |list| self.missing(geometry, list, mapped.position);
        Ok(Some((group, page.ok_or_else(|| missing("pages"))?, block.ok_or_else(|| missing("host blocks"))?)))
    }

    /// Mirrors a page of the lifecycle.
    pub(super) fn map(
        &self,
        map: &mut PageMap,
        geometry: &Geometry,
        slot: u32,
        mapped: Mapped,
    ) -> Result<(), PlanError> {
        match self.ends(geometry, slot, mapped)? {
            Some((group, page, block)) => map.map(group, page, block),
            None => Ok(()),
        }
    }

    /// Mirrors it no more.
    pub(super) fn unmap(
        &self,
        map: &mut PageMap,
        geometry: &Geometry,
        slot: u32,
        mapped: Mapped,
    ) -> Result<(), PlanError> {
        match self.ends(geometry, slot, mapped)? {
            Some((group, page, _)) => map.unmap(group, page),
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
        geometry: &Geometry,
        slot: u32,
        mapped: Mapped,
    ) -> Result<(), PlanError> {
        match self.ends(geometry, slot, mapped)? {
            Some((group, page, block)) => plan.spill(group, &[page], &[block]),
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
        let page = at(pages, slot).ok_or_else(|| self.missing(geometry, "pages", slot))?;
        let block = block.and_then(|block| at(blocks, block.get()));
        plan.checkpoint(*group, page, block.ok_or_else(|| self.missing(geometry, "host blocks", position))?)
    }

    /// What of the group lies where of a request: blocks, and pages.
    pub(super) fn lists(&self, slot: u32, order: &LiftLists, lists: &mut GroupLists) {
        let GroupLists { blocks: from, pages: to } = lists;
        from.clear();
        to.clear();
        match self {
            Self::Paged { blocks, pages, .. } => {
                from.extend(order.blocks.iter().filter_map(|block| at(blocks, block.get())));
                to.extend(order.pages.iter().filter_map(|(_, page)| at(pages, page.get())));
            }
            Self::Whole { blocks, pages, each, .. } => {
                from.extend(order.blocks.iter().filter_map(|block| at(blocks, block.get())));
                let positions = (0..).take(order.blocks.len());
                to.extend(positions.filter_map(|position| whole(pages, *each, slot, position)));
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
        }
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
        }
    }

    /// Adds what a request had before it was preempted: whole pages with rows in them, its ring, its state.
    pub(super) fn lift_again(
        &self,
        plan: &mut RestorePlan,
        (geometry, block_tokens): (&Geometry, u64),
        (slot, order): (u32, &LiftLists),
        lists: &mut GroupLists,
    ) -> Result<(), PlanError> {
        self.lists(slot, order, lists);
        let GroupLists { blocks: from, pages: to } = lists;
        let filled = |position: u32| u64::from(position).saturating_mul(block_tokens) < order.tokens;
        match self {
            Self::Paged { group, blocks, .. } => {
                from.clear();
                // Positions go up, so that pages without rows are the last ones.
                let positions = order.pages.iter().map(|(position, _)| *position);
                let numbers = positions.filter(|at| filled(*at)).filter_map(|own| at(&order.blocks, own));
                from.extend(numbers.filter_map(|block| at(blocks, block.get())));
                to.truncate(from.len());
                let route = geometry.lift_route(*group);
                let route = route.ok_or_else(|| no_route(geometry, group.id(), HostToDevice::NAME))?;
                gather(plan, Some(route), from, to)
            }
            Self::Whole { group, .. } => {
                let count = (0..).take(from.len()).take_while(|position| filled(*position)).count();
                from.truncate(count);
                to.truncate(count);
                gather(plan, geometry.lift_route(*group), from, to)
            }
            Self::Ring { group, .. } => gather(plan, geometry.lift_route(*group), from, to),
            Self::State { group, .. } => gather(plan, geometry.lift_route(*group), from, to),
        }
    }

    /// A list has no entry for a number.
    #[cold]
    fn missing(&self, geometry: &Geometry, list: &'static str, number: u32) -> PlanError {
        let (expected, found) = (u64::from(number).saturating_add(1), number.into());
        PlanError::ListLength { group: geometry.group_name(self.id()), list, expected, found }
    }
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

/// The page of a slot at a position.
fn whole(pages: &[PageId], each: u32, slot: u32, position: u32) -> Option<PageId> {
    let first = slot.checked_mul(each)?;
    at(pages, first.checked_add(position).filter(|_| position < each)?)
}

fn at<T: Copy>(list: &[T], number: u32) -> Option<T> {
    list.get(usize::try_from(number).ok()?).copied()
}
