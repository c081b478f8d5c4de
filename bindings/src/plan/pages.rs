//! Calls of plans of whole blocks, and of digests.

use pagelift::id::{HostBlockId, ImportId, PageId};
use pagelift::lifecycle::Reservations;
use pagelift::plan::{
    DigestNumber, DigestPlan, Direction, LiftProgress, PagePlan, RestorePlan, TailRows, WriteBackPlan,
};
use pagelift::quantity::{Bytes, Rows};

use super::{AnyPlan, Numbered, ids};
use crate::import::OwnedImport;
use crate::keys::{AnyDigest, AnyGroup, AnyRoute, ByKind, ByWay, Routes, Way, of_kind, of_rows};
use crate::{Mismatch, Result};

impl AnyPlan {
    /// Copies whole blocks along a route; see [`PagePlan::gather`].
    ///
    /// # Errors
    /// [`Mismatch::Plan`] but for a plan of pages, [`Mismatch::Way`] for a route of another direction, and as that.
    pub fn gather(&mut self, route: &AnyRoute, sources: Vec<u32>, destinations: Vec<u32>) -> Result {
        match (self, route) {
            (Self::Restore(plan), ByWay::Down(route)) => gather(plan, route, sources, destinations),
            (Self::WriteBack(plan), ByWay::Up(route)) => gather(plan, route, sources, destinations),
            (Self::Across(plan), ByWay::Across(route)) => gather(plan, route, sources, destinations),
            (plan, route) => plan.refuse_route(route),
        }
    }

    /// Writes zeros to rows of a block at the end of a route; see [`PagePlan::zero`].
    ///
    /// # Errors
    /// [`Mismatch::Group`] for a state, and as [`AnyPlan::gather`] and that.
    pub fn zero(&mut self, route: &AnyRoute, block: u32, first: u32, rows: u32) -> Result {
        match (self, route) {
            (Self::Restore(plan), ByWay::Down(route)) => zero(plan, route, block, first, rows),
            (Self::WriteBack(plan), ByWay::Up(route)) => zero(plan, route, block, first, rows),
            (Self::Across(plan), ByWay::Across(route)) => zero(plan, route, block, first, rows),
            (plan, route) => plan.refuse_route(route),
        }
    }

    fn refuse_route(&self, route: &AnyRoute) -> Result {
        let expected = match self {
            Self::Restore(_) => Way::Down,
            Self::WriteBack(_) => Way::Up,
            Self::Across(_) => Way::Across,
            _ => return self.refuse("a plan of pages"),
        };
        Err(Mismatch::Way { expected, found: route.way() }.into())
    }

    /// Adds an import; see [`PagePlan::lift`](RestorePlan::lift).
    ///
    /// # Errors
    /// [`Mismatch::Plan`] but for a restore plan, and as that.
    pub fn lift(&mut self, import: &OwnedImport, mode: TailRows) -> Result {
        let plan: &mut RestorePlan = self.typed()?;
        Ok(import.with(|import| plan.lift(import, mode))?)
    }

    /// Adds as much of an import as `budget` allows; see [`PagePlan::lift_within`](RestorePlan::lift_within).
    ///
    /// # Errors
    /// [`Mismatch::Plan`] but for a restore plan, and as that.
    pub fn lift_within(
        &mut self,
        import: &OwnedImport,
        mode: TailRows,
        progress: &mut LiftProgress,
        budget: &mut Bytes,
    ) -> Result {
        let plan: &mut RestorePlan = self.typed()?;
        Ok(import.with(|import| plan.lift_within(import, mode, progress, budget))?)
    }

    /// Adds a reserved import; see [`PagePlan::lift_reserved`](RestorePlan::lift_reserved).
    ///
    /// # Errors
    /// [`Mismatch::Plan`] but for a restore plan, and as that.
    pub fn lift_reserved(&mut self, reservations: &Reservations, import: ImportId) -> Result {
        Ok(self.typed::<RestorePlan>()?.lift_reserved(reservations, import)?)
    }

    /// Writes pages of a paged group back, whole; see [`PagePlan::spill`](WriteBackPlan::spill).
    ///
    /// # Errors
    /// [`Mismatch::Plan`] but for a write-back plan, [`Mismatch::Group`] for another kind, and as that.
    pub fn spill(&mut self, group: AnyGroup, pages: Vec<u32>, blocks: Vec<u32>) -> Result {
        let plan: &mut WriteBackPlan = self.typed()?;
        let ByKind::Paged(key) = group else {
            let rule = "pages of rows are spilled, and states are checkpointed";
            return Err(Mismatch::Group { found: group.kind(), rule }.into());
        };
        Ok(plan.spill(key, &ids(pages), &ids(blocks))?)
    }

    /// Writes one request's state back; see [`PagePlan::checkpoint`](WriteBackPlan::checkpoint).
    ///
    /// # Errors
    /// As [`AnyPlan::spill`].
    pub fn checkpoint(&mut self, group: AnyGroup, page: u32, block: u32) -> Result {
        let plan: &mut WriteBackPlan = self.typed()?;
        let ByKind::State(key) = group else {
            let rule = "states are checkpointed, and pages of rows are spilled";
            return Err(Mismatch::Group { found: group.kind(), rule }.into());
        };
        Ok(plan.checkpoint(key, PageId::new(page), HostBlockId::new(block))?)
    }

    /// Adds the first rows of a list of host blocks; see [`DigestPlan::host`].
    ///
    /// # Errors
    /// [`Mismatch::Plan`] but for a digest plan, and as that.
    pub fn digest_host(&mut self, side: AnyDigest, blocks: Vec<u32>, rows: u64) -> Result<DigestNumber> {
        let plan: &mut DigestPlan = self.typed()?;
        Ok(of_kind!(side, side => plan.host(side, &ids(blocks), rows))?)
    }

    /// Adds the first rows of a list of pages; see [`DigestPlan::device`].
    ///
    /// # Errors
    /// As [`AnyPlan::digest_host`].
    pub fn digest_device(&mut self, side: AnyDigest, pages: Vec<u32>, rows: u64) -> Result<DigestNumber> {
        let plan: &mut DigestPlan = self.typed()?;
        Ok(of_kind!(side, side => plan.device(side, &ids(pages), rows))?)
    }
}

fn gather<D>(plan: &mut PagePlan<D>, route: &Routes<D>, from: Vec<u32>, to: Vec<u32>) -> Result
where
    D: Direction<Source: Numbered, Destination: Numbered>,
{
    Ok(of_kind!(route, route => plan.gather(*route, &ids(from), &ids(to)))?)
}

fn zero<D>(plan: &mut PagePlan<D>, route: &Routes<D>, block: u32, first: u32, rows: u32) -> Result
where
    D: Direction<Destination: Numbered>,
{
    let (block, first, rows) = (D::Destination::numbered(block), Rows::new(first), Rows::new(rows));
    Ok(of_rows!(route.with_rows()?, route => plan.zero(route, block, first, rows))?)
}
