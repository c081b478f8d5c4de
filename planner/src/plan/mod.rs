//! What one launch copies, checked and encoded into a job table.
//!
//! | plan | made of | launch |
//! |---|---|---|
//! | [`RestorePlan`] | [`lift`](PagePlan::lift)s of many imports, [reserved](PagePlan::lift_reserved) or not | host → device pages |
//! | [`WriteBackPlan`] | [`checkpoint`](PagePlan::checkpoint)s of states, [`spill`](PagePlan::spill)s of pages | device → host pages |
//! | any [`PagePlan`] | [`gather`](PagePlan::gather)s along routes, [`zero`](PagePlan::zero)s | whole blocks |
//! | [`MirrorPlan`] | [`bind`](RowPlan::bind)ings of groups, page-map changes | device → host rows, read on the device |
//! | any [`RowPlan`] | [`gather_rows`](RowPlan::gather_rows) by index lists | rows into a compact buffer |
//! | [`DigestPlan`] | blocks of a side | one number for each list of blocks |
//!
//! A plan carries its direction in its type, so that a launcher of one direction takes no plan of another. It is
//! filled, staged, cleared and filled again; after its capacity is allocated once, none of that allocates. A call
//! that fails leaves the plan as it was.
//!
//! # Example
//! ```
//! use pagelift_planner::geometry::*;
//! use pagelift_planner::id::{HostBlockId, PageId};
//! use pagelift_planner::import::*;
//! use pagelift_planner::layout::PagedLayout;
//! use pagelift_planner::plan::{Plan, PlanCapacity, RestorePlan, TailRows};
//! use pagelift_planner::quantity::{Bytes, Tokens};
//! # let mut geometry = GeometryBuilder::new();
//! # let page = 16 * 1152;
//! # let host = geometry.pool(PoolSpec::new("host", Memory::Host, 8, &[Region::new(0x100000, 8 * page)]))?;
//! # let slab = geometry.pool(PoolSpec::new("slab", Memory::Device, 2, &[Region::new(0x900000, 2 * page)]))?;
//! # let layout = PagedLayout::mla_bf16(16)?;
//! # let main = geometry.group(GroupSpec::<Paged> {
//! #     name: "main".into(), layers: 1, landing: Landing::Host, lift: PagedLift::Tail,
//! #     host: Some(SideSpec::packed(host, &[0x100000], &[0], page, layout.clone())),
//! #     device: Some(SideSpec::packed(slab, &[0x900000], &[0], page, layout)),
//! # })?;
//! # let geometry = std::sync::Arc::new(geometry.build()?);
//! let mut plan = RestorePlan::new(geometry, PlanCapacity::default())?;
//! let blocks = [3, 1, 4].map(HostBlockId::new);
//! let span = PromptSpan::new(Tokens::new(35), Recurrence::None)?;
//! let pages = [PageId::new(0)];
//! let groups = [ImportGroup::new(main, &blocks, &pages)];
//! plan.lift(&Import { span, groups: &groups }, TailRows::Exact)?;
//! assert_eq!((plan.jobs(), plan.bytes()), (1, Some(Bytes::new(3 * 1152))));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod binding;
mod claims;
mod copies;
mod digest;
mod direction;
mod gather;
mod jobs;
mod lift;
mod map;
mod pages;
mod prepared;
mod rows;
mod run;
mod summary;
mod table;

use std::sync::Arc;

pub(crate) use claims::{Claim, Conflict, Use};
pub(crate) use gather::no_route;
pub(crate) use prepared::Prepared;

pub use binding::{Queries, RowBinding, SlotWidth};
pub use copies::CopyRun;
pub use digest::{DigestNumber, DigestPlan};
pub use direction::{DeviceToDevice, DeviceToHost, Direction, HostToDevice};
pub use jobs::PlanCapacity;
pub(crate) use lift::paged_extent;
pub use lift::{LiftProgress, TailRows};
pub use map::PageMap;
pub use pages::PagePlan;
pub use rows::{RowCapacity, RowPlan};
pub use summary::{JobSummary, PlanSummary};

use crate::error::PlanError;
use crate::geometry::{Geometry, Region};
use crate::id::Ticket;
use crate::quantity::Bytes;

/// A plan that lifts imported blocks into pages. Its methods are those of [`PagePlan`].
pub type RestorePlan = PagePlan<HostToDevice>;
/// A plan that writes pages back to host blocks. Its methods are those of [`PagePlan`].
pub type WriteBackPlan = PagePlan<DeviceToHost>;
/// A plan that writes newly generated rows back to host blocks. Its methods are those of [`RowPlan`].
pub type MirrorPlan = RowPlan<DeviceToHost>;

/// What the launcher adds to a plan when it stages it.
#[derive(Clone, Copy, Debug)]
pub struct Staging {
    /// The plan's number.
    pub ticket: Ticket,
    /// Device address of the completion record that the launch writes.
    pub completion: u64,
    /// Whether every replay runs the plan, and not only the first.
    pub repeat: bool,
}

mod sealed {
    pub trait Sealed {}
    impl<D> Sealed for super::PagePlan<D> {}
    impl<D> Sealed for super::RowPlan<D> {}
    impl Sealed for super::DigestPlan {}
}

/// What a launcher needs to know of a plan. Sealed: what a launch does to memory follows from checks made here.
pub trait Plan: sealed::Sealed {
    /// The geometry that it was checked against.
    fn geometry(&self) -> &Arc<Geometry>;

    /// Jobs planned.
    fn jobs(&self) -> usize;

    /// Bytes that the launch copies, where the host knows it.
    fn bytes(&self) -> Option<Bytes>;

    /// Bytes of a table with room for the plan at its capacity.
    fn table_bytes(&self) -> usize;

    /// Writes header, jobs, block lists and page-map changes to `table`, and returns the bytes used.
    ///
    /// # Errors
    /// [`PlanError::Buffer`] where `table` is too small.
    fn encode(&self, staging: Staging, table: &mut [u8]) -> Result<usize, PlanError>;

    /// The arrays, besides pools, that the launch will read.
    fn arrays(&self) -> impl Iterator<Item = Region> {
        std::iter::empty()
    }

    /// Words that the launch adds results to: one for each job of a digest plan at its capacity.
    #[doc(hidden)]
    fn sums(&self) -> u32 {
        0
    }

    /// Tells what was added to the plan since it was last cleared from what was before, where results are told by it.
    #[doc(hidden)]
    fn filling(&self) -> u64 {
        0
    }

    /// The launcher that keeps this plan's page maps; `None` for plans without any, which every launcher takes.
    #[doc(hidden)]
    fn launcher(&self) -> Option<u64> {
        None
    }

    /// What the plan's page maps hold, pending changes included.
    #[doc(hidden)]
    fn maps(&self) -> &[i32] {
        &[]
    }

    /// Gives the plan's page maps, as they are, into the keeping of a launcher. Nothing is pending any more.
    #[doc(hidden)]
    fn attach(&mut self, _launcher: u64) {}

    /// Tells the plan that it was staged: page-map changes are no longer pending.
    #[doc(hidden)]
    fn staged(&mut self) {}
}

/// The most blocks, parts of blocks or pages that one plan keeps track of, over all pools: what it keeps for each is
/// written when the plan is made.
const MOST_BLOCKS: u64 = 1 << 26;
