//! Calls of plans of rows.

use pagelift::id::{HostBlockId, PageId};
use pagelift::plan::{MirrorPlan, PageMap, RowBinding};
use pagelift::quantity::Rows;

use super::AnyPlan;
use crate::keys::{AnyCompactRoute, AnyGroup, ByWay, Way, of_rows};
use crate::{Mismatch, Result};

impl AnyPlan {
    /// Gathers rows by an index list into a compact buffer; see [`RowPlan::gather_rows`](MirrorPlan::gather_rows).
    ///
    /// # Errors
    /// [`Mismatch::Plan`] but for a plan of rows, [`Mismatch::Way`] for a route of another direction, and as that.
    pub fn gather_rows(&mut self, route: &AnyCompactRoute, list: RowBinding) -> Result {
        match (&mut *self, *route) {
            (Self::RowsDown(plan), ByWay::Down(route)) => {
                Ok(of_rows!(route, key => plan.gather_rows(key, list))?)
            }
            (Self::Mirror(plan), ByWay::Up(route)) => {
                Ok(of_rows!(route, key => plan.gather_rows(key, list))?)
            }
            (Self::RowsAcross(plan), ByWay::Across(route)) => {
                Ok(of_rows!(route, key => plan.gather_rows(key, list))?)
            }
            (plan, route) => {
                let expected = match plan {
                    Self::RowsDown(_) => Way::Down,
                    Self::Mirror(_) => Way::Up,
                    Self::RowsAcross(_) => Way::Across,
                    _ => return plan.refuse("a plan of rows"),
                };
                Err(Mismatch::Way { expected, found: route.way() }.into())
            }
        }
    }

    /// Forgets all bindings of a plan of rows, and keeps the page map.
    ///
    /// # Errors
    /// [`Mismatch::Plan`] but for a plan of rows.
    pub fn clear_bindings(&mut self) -> Result {
        match self {
            Self::RowsDown(plan) => plan.clear_bindings(),
            Self::Mirror(plan) => plan.clear_bindings(),
            Self::RowsAcross(plan) => plan.clear_bindings(),
            other => return other.refuse("a plan of rows"),
        }
        Ok(())
    }

    /// Mirrors the rows of a group that a step wrote; see [`RowPlan::bind`](MirrorPlan::bind).
    ///
    /// # Errors
    /// [`Mismatch::Plan`] but for a mirror plan, [`Mismatch::Group`] for a state, and as that.
    pub fn bind(&mut self, group: AnyGroup, binding: RowBinding) -> Result {
        bind(self.typed()?, group, binding)
    }

    /// Maps a page to a host block; see [`PageMap::map`].
    ///
    /// # Errors
    /// As [`AnyPlan::bind`], and as that.
    pub fn map(&mut self, group: AnyGroup, page: u32, block: u32) -> Result {
        let (page, block) = (PageId::new(page), HostBlockId::new(block));
        let map = self.typed::<MirrorPlan>()?.page_map_mut();
        Ok(of_rows!(group.with_rows()?, group => map.map(group, page, block))?)
    }

    /// Maps rows of a page to rows of a host block; see [`PageMap::map_rows`].
    ///
    /// # Errors
    /// As [`AnyPlan::bind`], and as that.
    pub fn map_rows(&mut self, group: AnyGroup, from: (u32, u32), to: (u32, u32)) -> Result {
        let from = (PageId::new(from.0), Rows::new(from.1));
        let to = (HostBlockId::new(to.0), Rows::new(to.1));
        let map = self.typed::<MirrorPlan>()?.page_map_mut();
        Ok(of_rows!(group.with_rows()?, group => map.map_rows(group, from, to))?)
    }

    /// Unmaps all of a page; see [`PageMap::unmap`].
    ///
    /// # Errors
    /// As [`AnyPlan::bind`], and as that.
    pub fn unmap(&mut self, group: AnyGroup, page: u32) -> Result {
        let map = self.typed::<MirrorPlan>()?.page_map_mut();
        Ok(of_rows!(group.with_rows()?, group => map.unmap(group, PageId::new(page)))?)
    }

    /// The page map of a mirror plan.
    ///
    /// # Errors
    /// [`Mismatch::Plan`] for another type.
    pub fn page_map(&self) -> Result<&PageMap> {
        match self {
            Self::Mirror(plan) => Ok(plan.page_map()),
            other => other.refuse("a mirror plan"),
        }
    }

    /// The host block that mirrors the first rows of a page; see [`PageMap::block_of`].
    ///
    /// # Errors
    /// As [`AnyPlan::bind`].
    pub fn block_of(&self, group: AnyGroup, page: u32) -> Result<Option<u32>> {
        let map = self.page_map()?;
        let block = of_rows!(group.with_rows()?, group => map.block_of(group, PageId::new(page)));
        Ok(block.map(HostBlockId::get))
    }
}

/// Mirrors the rows of a group, by a plan that is known to mirror.
pub(crate) fn bind(plan: &mut MirrorPlan, group: AnyGroup, binding: RowBinding) -> Result {
    Ok(of_rows!(group.with_rows()?, group => plan.bind(group, binding))?)
}
