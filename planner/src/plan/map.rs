//! The page map: which host block mirrors which page.
//!
//! Kernels read it on the device, so that replaying a graph needs no host code. The host keeps the same map here,
//! checks that it stays injective, and collects changes until a plan is staged with them.

use std::sync::Arc;

use pagelift_abi as abi;

use super::direction::{DeviceToHost, Direction};
use super::pages::{capacity_error, no_route};
use crate::error::PlanError;
use crate::geometry::{Geometry, Group, GroupKey, HasRows};
use crate::id::{GroupId, HostBlockId, PageId, PoolId};

/// The host's copy of a launcher's page maps.
#[derive(Debug)]
pub struct PageMap {
    geometry: Arc<Geometry>,
    /// The block of each page, all groups' maps one after the other.
    entries: Vec<i32>,
    /// For each pool, the map entry that uses each block or page.
    users: Vec<Vec<u32>>,
    /// Changes since the last staging, each entry at most once: they are applied in parallel.
    pending: Vec<abi::MapChange>,
    /// Where each entry's pending change is, or `FREE`.
    pending_at: Vec<u32>,
    capacity: u32,
}

/// Not used, not pending.
const FREE: u32 = u32::MAX;

impl PageMap {
    /// A map of no pages, with room for `capacity` changes a staging.
    pub(super) fn new(geometry: Arc<Geometry>, capacity: u32) -> Self {
        let size = |count: u32| usize::try_from(count).unwrap_or(0);
        let entries = size(geometry.map_entries());
        Self {
            entries: vec![abi::NONE; entries],
            users: geometry.pools().iter().map(|pool| vec![FREE; size(pool.blocks())]).collect(),
            pending: Vec::with_capacity(size(capacity)),
            pending_at: vec![FREE; entries],
            capacity,
            geometry,
        }
    }

    /// Maps `page` of `group` to `block`: from the next staging on, rows written to the page are mirrored there.
    ///
    /// # Errors
    /// Where an id is out of range, the page is mapped, the block mirrors another page, one of them belongs to
    /// another group, or no more changes fit. Nothing has changed then.
    pub fn map<K: HasRows>(
        &mut self,
        group: GroupKey<K>,
        page: PageId,
        block: HostBlockId,
    ) -> Result<(), PlanError> {
        let geometry = Arc::clone(&self.geometry);
        let (own, device_pool, host_pool) = Self::group_of(&geometry, group.id, group.geometry)?;
        let entry = self.entry(own, page)?;
        let mapped = self.entries.get(entry.0).copied().unwrap_or(abi::NONE);
        if let Ok(mapped) = u32::try_from(mapped) {
            return Err(PlanError::PageMapped {
                group: own.name.clone(),
                page: page.to_string(),
                mapped: HostBlockId::new(mapped).to_string(),
                wanted: block.to_string(),
            });
        }
        self.check_free(own, device_pool, page.get(), "page")?;
        let user = self.user(host_pool, block.get()).copied();
        let Some(user) = user else { return Err(self.out_of_range(own, host_pool, block.to_string())) };
        // Pools have no more blocks than an `i32` can name.
        let raw =
            i32::try_from(block.get()).map_err(|_| self.out_of_range(own, host_pool, block.to_string()))?;
        if user != FREE {
            let (other, other_page) = self.owner(user);
            return Err(PlanError::BlockMapped {
                group: own.name.clone(),
                block: block.to_string(),
                page: format!("{other_page} of group `{other}`"),
                wanted: page.to_string(),
            });
        }
        self.change(entry, raw)?;
        self.set_user(device_pool, page.get(), entry.1);
        self.set_user(host_pool, block.get(), entry.1);
        Ok(())
    }

    /// Unmaps `page` of `group`, before it is given away. A page that is not mapped stays so.
    ///
    /// # Errors
    /// Where the page is out of range, or no more changes fit. Nothing has changed then.
    pub fn unmap<K: HasRows>(&mut self, group: GroupKey<K>, page: PageId) -> Result<(), PlanError> {
        let geometry = Arc::clone(&self.geometry);
        let (own, device_pool, host_pool) = Self::group_of(&geometry, group.id, group.geometry)?;
        let entry = self.entry(own, page)?;
        let Ok(block) = u32::try_from(self.entries.get(entry.0).copied().unwrap_or(abi::NONE)) else {
            return Ok(());
        };
        self.change(entry, abi::NONE)?;
        self.set_user(device_pool, page.get(), FREE);
        self.set_user(host_pool, block, FREE);
        Ok(())
    }

    /// The block that mirrors `page` of `group`.
    #[must_use]
    pub fn block_of<K: HasRows>(&self, group: GroupKey<K>, page: PageId) -> Option<HostBlockId> {
        let own = self.geometry.group(group.id).filter(|_| group.geometry == self.geometry.stamp)?;
        let (index, _) = self.entry(own, page).ok()?;
        u32::try_from(*self.entries.get(index)?).ok().map(HostBlockId::new)
    }

    /// Changes that no staged plan has carried yet.
    #[must_use]
    pub fn pending(&self) -> &[abi::MapChange] {
        &self.pending
    }

    /// Forgets the pending changes: a plan that carried them was staged.
    pub(super) fn staged(&mut self) {
        for change in self.pending.drain(..) {
            let at = usize::try_from(change.entry).ok().and_then(|entry| self.pending_at.get_mut(entry));
            if let Some(at) = at {
                *at = FREE;
            }
        }
    }

    /// The group and its two pools.
    fn group_of(geometry: &Geometry, id: GroupId, stamp: u64) -> Result<(&Group, PoolId, PoolId), PlanError> {
        let group = geometry.group(id).filter(|_| stamp == geometry.stamp);
        let group = group.ok_or(PlanError::ForeignGroup { group: id })?;
        match (group.device_pool(), group.host_pool()) {
            (Some(device), Some(host)) => Ok((group, device, host)),
            _ => Err(no_route(group, DeviceToHost::NAME)),
        }
    }

    /// The page's entry, as an index and as a number.
    fn entry(&self, group: &Group, page: PageId) -> Result<(usize, u32), PlanError> {
        let inside = page.get() < group.map_entries;
        let number = group.map_first.checked_add(page.get()).filter(|_| inside);
        let index = number.and_then(|number| usize::try_from(number).ok());
        match (index, number, group.device_pool()) {
            (Some(index), Some(number), _) => Ok((index, number)),
            (_, _, Some(pool)) => Err(self.out_of_range(group, pool, page.to_string())),
            _ => Err(no_route(group, DeviceToHost::NAME)),
        }
    }

    /// Refuses a page that another group's entry uses.
    fn check_free(&self, group: &Group, pool: PoolId, id: u32, word: &str) -> Result<(), PlanError> {
        match self.user(pool, id) {
            Some(&user) if user != FREE => {
                let (other, _) = self.owner(user);
                Err(PlanError::BlockOfTwoGroups {
                    block: format!("{word} {id}"),
                    pool: self.pool_name(pool),
                    first: other,
                    second: group.name.clone(),
                })
            }
            _ => Ok(()),
        }
    }

    /// Records a change of one entry.
    fn change(&mut self, (index, number): (usize, u32), block: i32) -> Result<(), PlanError> {
        let at = self.pending_at.get(index).copied().unwrap_or(FREE);
        let change = abi::MapChange { entry: number, block };
        match usize::try_from(at).ok().and_then(|at| self.pending.get_mut(at)) {
            Some(earlier) => *earlier = change,
            None => {
                let position = u32::try_from(self.pending.len()).unwrap_or(FREE);
                if position >= self.capacity {
                    let needed = u64::from(position).saturating_add(1);
                    return Err(capacity_error("page-map changes", needed, self.capacity));
                }
                self.pending.push(change);
                if let Some(at) = self.pending_at.get_mut(index) {
                    *at = position;
                }
            }
        }
        if let Some(entry) = self.entries.get_mut(index) {
            *entry = block;
        }
        Ok(())
    }

    fn user(&self, pool: PoolId, id: u32) -> Option<&u32> {
        self.users.get(usize::try_from(pool.get()).ok()?)?.get(usize::try_from(id).ok()?)
    }

    fn set_user(&mut self, pool: PoolId, id: u32, user: u32) {
        let users = usize::try_from(pool.get()).ok().and_then(|pool| self.users.get_mut(pool));
        let slot = users.and_then(|users| users.get_mut(usize::try_from(id).ok()?));
        if let Some(slot) = slot {
            *slot = user;
        }
    }

    /// The group and page of an entry.
    fn owner(&self, entry: u32) -> (Arc<str>, PageId) {
        let holds = |group: &&Group| {
            entry >= group.map_first && entry.saturating_sub(group.map_first) < group.map_entries
        };
        match self.geometry.groups().iter().find(holds) {
            Some(group) => (group.name.clone(), PageId::new(entry.saturating_sub(group.map_first))),
            None => (Arc::from("?"), PageId::new(entry)),
        }
    }

    fn pool_name(&self, pool: PoolId) -> Arc<str> {
        self.geometry.pool(pool).map_or_else(|| Arc::from(pool.to_string()), |pool| pool.spec.name.clone())
    }

    fn out_of_range(&self, group: &Group, pool: PoolId, block: String) -> PlanError {
        PlanError::OutOfRange {
            group: group.name.clone(),
            pool: self.pool_name(pool),
            block,
            blocks: self.geometry.pool(pool).map_or(0, |pool| pool.blocks()),
        }
    }
}
