//! Which import holds which blocks and pages, from its reservation to its release.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::slab::{Key, Slab};
use crate::error::PlanError;
use crate::geometry::Geometry;
use crate::id::{GroupId, ImportId};
use crate::import::Import;
use crate::plan::{Claim, Conflict, PlanCapacity, Prepared, RestorePlan, TailRows, Use};
use crate::quantity::Bytes;
use crate::room::{check_most, clear_with_room, filled};

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
    imports: Slab<Held>,
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

/// One import, or room for one.
#[derive(Debug, Default)]
struct Held {
    prepared: Prepared,
    /// The places of all blocks that the import holds.
    places: Vec<u32>,
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
        // As many jobs as an import usually has, one after the other in memory: steps look at them in that order.
        let groups = u64::try_from(geometry.groups.len()).unwrap_or(u64::MAX);
        let imports = Slab::new("imports", imports, || {
            let prepared = Prepared::with_room(groups.min(each.jobs.into()))?;
            Ok(Held { prepared, ..Held::default() })
        })?;
        let blocks = scratch.claims().places().into();
        let holds = filled("blocks of all pools", Hold::default(), blocks)?;
        let stamp = STAMPS.fetch_add(1, Ordering::Relaxed);
        Ok(Self { geometry, stamp, releases: 0, holds, imports, scratch })
    }

    /// The most imports at one time.
    pub const MOST: u32 = 1 << 20;

    /// Imports that are reserved.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.imports.len()
    }

    /// Whether none is.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether an import is reserved here still.
    #[must_use]
    pub fn contains(&self, import: ImportId) -> bool {
        self.held(import).is_some()
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
        let capacity = u64::try_from(self.imports.slots()).unwrap_or(u64::MAX);
        let Some((key, held)) = self.imports.next() else {
            let needed = capacity.saturating_add(1);
            return Err(PlanError::Capacity { what: "imports", needed, capacity });
        };
        clear_with_room("blocks of an import", &mut held.places, self.scratch.claims().len())?;
        for (claim, usage) in self.scratch.claims().blocks() {
            if let Err(conflict) = take(&mut self.holds, &mut held.places, claim, usage) {
                give_back(&mut self.holds, &mut held.places);
                return Err(self.scratch.claims().explain(&self.geometry, claim, conflict));
            }
        }
        if let Err(error) = self.scratch.prepare(&mut held.prepared) {
            give_back(&mut self.holds, &mut held.places);
            return Err(error);
        }
        self.imports.open();
        Ok(ImportId::new(key.slot, key.generation, self.stamp))
    }

    /// Gives an import's blocks and pages back. The caller knows that no launch or transfer touches them any more.
    ///
    /// # Errors
    /// [`PlanError::UnknownImport`] where it was released already, or reserved elsewhere.
    pub fn release(&mut self, import: ImportId) -> Result<(), PlanError> {
        let key = self.key(import);
        let held = key.and_then(|key| self.imports.get_mut(key));
        let (key, held) = key.zip(held).ok_or(PlanError::UnknownImport { import })?;
        give_back(&mut self.holds, &mut held.places);
        self.releases = self.releases.wrapping_add(1);
        self.imports.close(key);
        Ok(())
    }

    /// What an import adds to a plan of `geometry`.
    #[inline]
    pub(crate) fn prepared(&self, geometry: &Geometry, import: ImportId) -> Result<&Prepared, PlanError> {
        if geometry.stamp != self.geometry.stamp {
            return Err(PlanError::ForeignReservations);
        }
        self.held(import).map(|held| &held.prepared).ok_or(PlanError::UnknownImport { import })
    }

    /// Bytes that lifting an import copies; `None` where it is not reserved here.
    #[must_use]
    pub fn bytes(&self, import: ImportId) -> Option<Bytes> {
        self.held(import).map(|held| Bytes::new(held.prepared.bytes()))
    }

    /// Which imports it keeps apart now.
    #[inline]
    pub(crate) const fn together(&self) -> Together {
        Together { stamp: self.stamp, releases: self.releases }
    }

    #[inline]
    fn held(&self, import: ImportId) -> Option<&Held> {
        self.imports.get(self.key(import)?)
    }

    /// Where an import is, if these reservations made its id.
    #[inline]
    fn key(&self, import: ImportId) -> Option<Key> {
        let key = Key { slot: import.get(), generation: import.generation() };
        (import.reservations() == self.stamp).then_some(key)
    }
}

/// Adds an import to a block's holders.
fn take(holds: &mut [Hold], places: &mut Vec<u32>, claim: Claim, usage: Use) -> Result<(), Conflict> {
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
    places.push(claim.place);
    Ok(())
}

/// Takes an import from the holders of its blocks.
fn give_back(holds: &mut [Hold], places: &mut Vec<u32>) {
    for place in places.drain(..) {
        let Some(hold) = usize::try_from(place).ok().and_then(|place| holds.get_mut(place)) else { continue };
        hold.holders = if hold.holders == ALONE { 0 } else { hold.holders.saturating_sub(1) };
    }
}
