//! Which import holds which blocks and pages, from its reservation to its release.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::PlanError;
use crate::geometry::Geometry;
use crate::id::{GroupId, ImportId};
use crate::import::Import;
use crate::plan::{
    Claim, Conflict, PlanCapacity, Prepared, RestorePlan, TailRows, Use, check_most, filled, renew, room,
};
use crate::quantity::Bytes;

/// Imports between reservation and release.
///
/// An import is reserved when its host blocks and its pages are known, before anything is received. All that can be
/// wrong with its lists is found then: once, and not in each step that lifts it. While it is reserved,
///
/// - a page that is lifted into belongs to it alone;
/// - host blocks, and pages that are only read, may be shared with other imports of the *same* group: prompts that
///   begin alike do;
/// - no block belongs to two groups.
///
/// What the import adds to a plan is kept ready, so that [`RestorePlan::lift_reserved`] copies a few table entries.
/// Memory of released imports is used again.
///
/// ```
/// use std::sync::Arc;
/// use pagelift_planner::geometry::*;
/// use pagelift_planner::id::{HostBlockId, PageId};
/// use pagelift_planner::import::*;
/// use pagelift_planner::layout::PagedLayout;
/// use pagelift_planner::lifecycle::Reservations;
/// use pagelift_planner::plan::{Plan, PlanCapacity, RestorePlan, TailRows};
/// use pagelift_planner::quantity::Tokens;
/// # let mut geometry = GeometryBuilder::new();
/// # let page = 16 * 1152;
/// # let host = geometry.pool(PoolSpec::new("host", Memory::Host, 8, &[Region::new(0x100000, 8 * page)]))?;
/// # let slab = geometry.pool(PoolSpec::new("slab", Memory::Device, 2, &[Region::new(0x900000, 2 * page)]))?;
/// # let layout = PagedLayout::mla_bf16(16)?;
/// # let main = geometry.group(GroupSpec::<Paged> {
/// #     name: "main".into(), layers: 1, landing: Landing::Host, lift: PagedLift::Tail,
/// #     host: Some(SideSpec::packed(host, &[0x100000], &[0], page, layout.clone())),
/// #     device: Some(SideSpec::packed(slab, &[0x900000], &[0], page, layout)),
/// # })?;
/// # let geometry = Arc::new(geometry.build()?);
/// let mut reservations = Reservations::new(Arc::clone(&geometry), 64, PlanCapacity::default())?;
/// let mut plan = RestorePlan::new(geometry, PlanCapacity::default())?;
///
/// // When the request is admitted:
/// let (blocks, pages) = ([3, 1, 4].map(HostBlockId::new), [PageId::new(0)]);
/// let span = PromptSpan::new(Tokens::new(35), Recurrence::None)?;
/// let groups = [ImportGroup::new(main, &blocks, &pages)];
/// let import = reservations.reserve(&Import { span, groups: &groups }, TailRows::Exact)?;
/// // Page 0 is taken now.
/// assert!(reservations.reserve(&Import { span, groups: &groups }, TailRows::Exact).is_err());
///
/// // In the step after its blocks have landed:
/// plan.lift_reserved(&reservations, import)?;
/// assert_eq!(plan.jobs(), 1);
///
/// // When the request has ended:
/// reservations.release(import)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Reservations {
    geometry: Arc<Geometry>,
    stamp: u64,
    /// How many imports were released.
    releases: u64,
    /// Who holds each block of all pools.
    holds: Vec<Hold>,
    slots: Vec<Slot>,
    /// Slots without an import.
    free: Vec<u32>,
    /// Where an import is checked and worked out.
    scratch: RestorePlan,
}

/// Imports that share no page which one of them is lifted into: those of one set of reservations, while none is
/// released. A page that was released may be another import's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Together {
    stamp: u64,
    releases: u64,
}

/// Who holds one block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Hold {
    /// The group of all holders, where there are any.
    group: u32,
    /// How many imports hold it, or [`ALONE`].
    holders: u32,
}

/// Held by one import, which lifts into it.
const ALONE: u32 = u32::MAX;

/// Room for one import.
#[derive(Debug, Default)]
struct Slot {
    /// Counts reservations and releases; an import is reserved here while it is odd.
    generation: u64,
    prepared: Prepared,
    /// The places of all blocks that the import holds.
    held: Vec<u32>,
}

/// Each set of reservations has its own stamp.
static STAMPS: AtomicU64 = AtomicU64::new(1);

impl Reservations {
    /// Room for `imports` at one time, each of at most `each` jobs and block list entries.
    ///
    /// # Errors
    /// As [`RestorePlan::new`], and [`PlanError::Capacity`] for more than [`Reservations::MOST`] imports.
    pub fn new(geometry: Arc<Geometry>, imports: u32, each: PlanCapacity) -> Result<Self, PlanError> {
        check_most("imports", imports.into(), Self::MOST.into())?;
        let scratch = RestorePlan::new(Arc::clone(&geometry), each)?;
        let mut slots = room("imports", imports.into())?;
        // As many jobs as an import usually has, one after the other in memory: steps look at them in that order.
        let groups = u64::try_from(geometry.groups.len()).unwrap_or(u64::MAX);
        for _ in 0..imports {
            let prepared = Prepared::with_room(groups.min(each.jobs.into()))?;
            slots.push(Slot { prepared, ..Slot::default() });
        }
        let mut free = room("imports", imports.into())?;
        // The last is given away first.
        free.extend((0..imports).rev());
        let blocks = scratch.claims().places().into();
        let holds = filled("blocks of all pools", Hold::default(), blocks)?;
        let stamp = STAMPS.fetch_add(1, Ordering::Relaxed);
        Ok(Self { geometry, stamp, releases: 0, holds, slots, free, scratch })
    }

    /// The most imports at one time.
    pub const MOST: u32 = 1 << 20;

    /// Imports that are reserved.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.slots.len().saturating_sub(self.free.len())
    }

    /// Whether none is.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether an import is reserved here still.
    #[must_use]
    pub fn contains(&self, import: ImportId) -> bool {
        self.slot(import).is_some()
    }

    /// Takes an import's blocks and pages for it, and works out what lifting it in `mode` takes.
    ///
    /// # Errors
    /// As [`RestorePlan::lift`]; [`PlanError::Reserved`] where another import lifts into one of its pages, or holds one
    /// that it would lift into; [`PlanError::BlockOfTwoGroups`]; [`PlanError::Capacity`] where all imports are taken.
    /// Nothing is held then that was not before.
    pub fn reserve(&mut self, import: &Import<'_>, mode: TailRows) -> Result<ImportId, PlanError> {
        self.scratch.clear();
        self.scratch.lift(import, mode)?;
        let Some(number) = self.free.last().copied() else {
            let capacity = u64::try_from(self.slots.len()).unwrap_or(u64::MAX);
            return Err(PlanError::Capacity {
                what: "imports",
                needed: capacity.saturating_add(1),
                capacity,
            });
        };
        let slot = usize::try_from(number).ok().and_then(|number| self.slots.get_mut(number));
        let slot = slot.ok_or(PlanError::Capacity { what: "imports", needed: 1, capacity: 0 })?;
        renew("blocks of an import", &mut slot.held, self.scratch.claims().len())?;
        for (claim, usage) in self.scratch.claims().blocks() {
            if let Err(conflict) = take(&mut self.holds, &mut slot.held, claim, usage) {
                give_back(&mut self.holds, &mut slot.held);
                return Err(self.scratch.claims().explain(&self.geometry, claim, conflict));
            }
        }
        if let Err(error) = self.scratch.prepare(&mut slot.prepared) {
            give_back(&mut self.holds, &mut slot.held);
            return Err(error);
        }
        slot.generation = slot.generation.wrapping_add(1);
        self.free.pop();
        Ok(ImportId::new(number, slot.generation, self.stamp))
    }

    /// Gives an import's blocks and pages back. The caller knows that no launch or transfer touches them any more.
    ///
    /// # Errors
    /// [`PlanError::UnknownImport`] where it was released already, or reserved elsewhere.
    pub fn release(&mut self, import: ImportId) -> Result<(), PlanError> {
        let unknown = PlanError::UnknownImport { import };
        self.slot(import).ok_or_else(|| unknown.clone())?;
        let slot = usize::try_from(import.get()).ok().and_then(|number| self.slots.get_mut(number));
        let slot = slot.ok_or(unknown)?;
        give_back(&mut self.holds, &mut slot.held);
        slot.generation = slot.generation.wrapping_add(1);
        self.releases = self.releases.wrapping_add(1);
        self.free.push(import.get());
        Ok(())
    }

    /// What an import adds to a plan of `geometry`.
    #[inline]
    pub(crate) fn prepared(&self, geometry: &Geometry, import: ImportId) -> Result<&Prepared, PlanError> {
        if geometry.stamp != self.geometry.stamp {
            return Err(PlanError::ForeignReservations);
        }
        self.slot(import).map(|slot| &slot.prepared).ok_or(PlanError::UnknownImport { import })
    }

    /// Bytes that lifting an import copies; `None` where it is not reserved here.
    #[must_use]
    pub fn bytes(&self, import: ImportId) -> Option<Bytes> {
        self.slot(import).map(|slot| Bytes::new(slot.prepared.bytes()))
    }

    /// Which imports it keeps apart now.
    #[inline]
    pub(crate) const fn together(&self) -> Together {
        Together { stamp: self.stamp, releases: self.releases }
    }

    #[inline]
    fn slot(&self, import: ImportId) -> Option<&Slot> {
        let slot = self.slots.get(usize::try_from(import.get()).ok()?)?;
        (import.reservations() == self.stamp && import.generation() == slot.generation).then_some(slot)
    }
}

/// Adds an import to a block's holders.
fn take(holds: &mut [Hold], held: &mut Vec<u32>, claim: Claim, usage: Use) -> Result<(), Conflict> {
    let hold = usize::try_from(claim.place).ok().and_then(|place| holds.get_mut(place));
    // Claims come from a plan of the same geometry, which knows no other blocks.
    let Some(hold) = hold else { return Ok(()) };
    if hold.holders > 0 && hold.group != claim.group.get() {
        return Err(Conflict::OtherGroup(GroupId::new(hold.group)));
    }
    let holders = match (hold.holders, usage) {
        (0, Use::Write) => ALONE,
        (ALONE, _) | (_, Use::Write) => return Err(Conflict::Reserved),
        (others, Use::Read | Use::Hold) => others.saturating_add(1),
    };
    *hold = Hold { group: claim.group.get(), holders };
    held.push(claim.place);
    Ok(())
}

/// Takes an import from the holders of its blocks.
fn give_back(holds: &mut [Hold], held: &mut Vec<u32>) {
    for place in held.drain(..) {
        let Some(hold) = usize::try_from(place).ok().and_then(|place| holds.get_mut(place)) else { continue };
        hold.holders = if hold.holders == ALONE { 0 } else { hold.holders.saturating_sub(1) };
    }
}
