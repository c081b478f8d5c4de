//! The page map: which rows of which host block mirror a page.
//!
//! Kernels read it on the device, so that replaying a graph needs no host code. The host keeps the same map here,
//! checks that it stays injective, and collects changes until a plan is staged with them.
//!
//! Where pages and blocks have the same number of rows, an entry is a page and its value a block. Where they differ by a
//! power of two, the larger of them has *parts*: an entry is a part of a page, its value a part of a block, and both have
//! the rows of the smaller one.

use std::sync::Arc;

use pagelift_abi as abi;

use super::MOST_BLOCKS;
use super::direction::{DeviceToHost, Direction};
use super::gather::no_route;
use super::jobs::capacity_error;
use super::run::Steps;
use crate::error::PlanError;
use crate::geometry::{Geometry, GroupKey, HasRows, Memory};
use crate::id::{GroupId, HostBlockId, PageId, PoolId};
use crate::quantity::Rows;
use crate::room::{check_most, filled, with_room};

/// The host's copy of a launcher's page maps.
#[derive(Debug)]
pub struct PageMap {
    geometry: Arc<Geometry>,
    /// The part of a block that each part of a page is mirrored by, all groups' maps one after the other.
    entries: Vec<i32>,
    /// For each group and part of a block, the entry that it mirrors.
    mirrors: Vec<Vec<u32>>,
    /// For each pool and block, the group that uses it and how many of its parts.
    owners: Vec<Vec<Owner>>,
    /// Changes since the last staging, each entry at most once: they are applied in parallel.
    pending: Vec<abi::MapChange>,
    /// Where each entry's pending change is, or `FREE`.
    pending_at: Vec<u32>,
    capacity: u32,
}

/// Who uses a block or page.
#[derive(Clone, Copy, Debug)]
struct Owner {
    group: u32,
    parts: u32,
}

/// Not used, not pending.
const FREE: u32 = u32::MAX;

/// One group's part of the map.
#[derive(Clone, Copy)]
struct Place {
    group: GroupId,
    first: u32,
    pages: PoolId,
    blocks: PoolId,
    steps: Steps,
}

impl PageMap {
    /// A map of no pages, with room for `capacity` changes a staging.
    pub(super) fn new(geometry: Arc<Geometry>, capacity: u32) -> Result<Self, PlanError> {
        let entries = u64::from(geometry.map_entries());
        let free = Owner { group: FREE, parts: 0 };
        let parts = |group: GroupId| -> u32 {
            let place = Place::of(&geometry, group).ok();
            let blocks = place.and_then(|place| Some((geometry.pool(place.blocks)?.blocks(), place)));
            blocks.map_or(0, |(blocks, place)| blocks.saturating_mul(place.block_parts()))
        };
        let groups = (0..).map(GroupId::new).take(geometry.groups().len());
        let sum = |counts: &mut dyn Iterator<Item = u32>| {
            counts.fold(0_u64, |sum, count| sum.saturating_add(u64::from(count)))
        };
        let mirrored = sum(&mut groups.clone().map(parts));
        check_most("blocks that can be mapped", mirrored, MOST_BLOCKS)?;
        let blocks = sum(&mut geometry.pools().iter().map(|pool| pool.blocks()));
        check_most("blocks of all pools", blocks, MOST_BLOCKS)?;
        let mirrors = groups.map(|group| filled("blocks that can be mapped", FREE, parts(group).into()));
        let owners =
            geometry.pools().iter().map(|pool| filled("blocks of a pool", free, pool.blocks().into()));
        Ok(Self {
            entries: filled("page-map entries", abi::NONE, entries)?,
            mirrors: mirrors.collect::<Result<_, _>>()?,
            owners: owners.collect::<Result<_, _>>()?,
            pending: with_room("page-map changes", capacity.into())?,
            pending_at: filled("page-map entries", FREE, entries)?,
            capacity,
            geometry,
        })
    }

    /// Maps `page` of `group` to `block`: from the next staging on, rows written to the page are mirrored there.
    ///
    /// # Errors
    /// Where pages and blocks of the group differ in rows (see [`PageMap::map_rows`]), an id is out of range, the page
    /// is mapped, the block mirrors another page, one of them belongs to another group, or no more changes fit. Nothing
    /// has changed then.
    pub fn map<K: HasRows>(
        &mut self,
        group: GroupKey<K>,
        page: PageId,
        block: HostBlockId,
    ) -> Result<(), PlanError> {
        let place = self.place(group)?;
        if (place.page_parts(), place.block_parts()) != (1, 1) {
            let rows = |memory| self.geometry.block_rows(group, memory).map_or(0, Rows::get);
            return Err(PlanError::UnequalRows {
                group: self.geometry.group_name(group.id),
                page_rows: rows(Memory::Device),
                block_rows: rows(Memory::Host),
            });
        }
        self.map_part(place, (page, 0), (block, 0))
    }

    /// Maps the rows of a page from some row on to those of a block from some row on, where pages and blocks differ in
    /// rows: as many as the smaller of the two has. Each comes with its first row, a multiple of that number.
    ///
    /// # Errors
    /// As [`PageMap::map`], and where a first row is not the first of a part. Nothing has changed then.
    pub fn map_rows<K: HasRows>(
        &mut self,
        group: GroupKey<K>,
        page: (PageId, Rows),
        block: (HostBlockId, Rows),
    ) -> Result<(), PlanError> {
        let ((page, page_row), (block, block_row)) = (page, block);
        let place = self.place(group)?;
        let part = |row: Rows, parts: u32| {
            let part = row.get().checked_div(place.steps.rows);
            let first = row.get().checked_rem(place.steps.rows) == Some(0);
            part.filter(|part| first && *part < parts).ok_or_else(|| PlanError::RowsOutOfRange {
                group: self.geometry.group_name(group.id),
                first: row.get(),
                rows: place.steps.rows,
                block_rows: place.steps.rows.saturating_mul(parts),
            })
        };
        let (page_part, block_part) =
            (part(page_row, place.page_parts())?, part(block_row, place.block_parts())?);
        self.map_part(place, (page, page_part), (block, block_part))
    }

    fn map_part(
        &mut self,
        place: Place,
        (page, page_part): (PageId, u32),
        (block, block_part): (HostBlockId, u32),
    ) -> Result<(), PlanError> {
        let group = || self.geometry.group_name(place.group);
        let entry = self.entry(place, page, page_part)?;
        let mapped = self.entries.get(index(entry)).copied().unwrap_or(abi::NONE);
        if let Ok(mapped) = u32::try_from(mapped) {
            return Err(PlanError::PageMapped {
                group: group(),
                page: page.to_string(),
                mapped: place.block_of(mapped).to_string(),
                wanted: block.to_string(),
            });
        }
        self.check_owner(place, place.pages, page.get(), || page.to_string())?;
        self.check_mirrored(place, block, page)?;
        let part = block.get().saturating_mul(place.block_parts()).saturating_add(block_part);
        let raw =
            i32::try_from(part).map_err(|_| self.out_of_range(place, place.blocks, block.to_string()))?;
        if let Some(other) = self.mirror(place.group, part) {
            return Err(self.block_mapped(place, (place, other), block, page));
        }
        self.change(entry, raw)?;
        self.set_mirror(place, part, entry);
        self.own(place, place.pages, page.get());
        self.own(place, place.blocks, block.get());
        Ok(())
    }

    /// Unmaps all of `page` of `group`, before it is given away. What is not mapped stays so.
    ///
    /// # Errors
    /// Where the page is out of range, or no more changes fit. Nothing has changed then.
    pub fn unmap<K: HasRows>(&mut self, group: GroupKey<K>, page: PageId) -> Result<(), PlanError> {
        let place = self.place(group)?;
        let first = self.entry(place, page, 0)?;
        let entries = first..first.saturating_add(place.page_parts());
        let new = entries.clone().filter(|entry| {
            let free = |list: Option<u32>| list == Some(FREE);
            self.mapped(*entry).is_some() && free(self.pending_at.get(index(*entry)).copied())
        });
        self.check_room(new.count())?;
        entries.into_iter().try_for_each(|entry| self.unmap_entry(place, page, entry))
    }

    /// Takes back what [`PageMap::map_rows`] has mapped since the last staging: that part of the page, and no other.
    pub(crate) fn undo_rows<K: HasRows>(
        &mut self,
        group: GroupKey<K>,
        (page, row): (PageId, Rows),
    ) -> Result<(), PlanError> {
        let place = self.place(group)?;
        let part = row.get().checked_div(place.steps.rows).unwrap_or(0);
        let entry = self.entry(place, page, part)?;
        self.unmap_entry(place, page, entry)
    }

    fn unmap_entry(&mut self, place: Place, page: PageId, entry: u32) -> Result<(), PlanError> {
        let Some(part) = self.mapped(entry) else { return Ok(()) };
        self.change(entry, abi::NONE)?;
        self.set_mirror(place, part, FREE);
        self.disown(place.pages, page.get());
        self.disown(place.blocks, place.block_of(part).get());
        Ok(())
    }

    /// The block that mirrors the first rows of `page` of `group`.
    #[must_use]
    pub fn block_of<K: HasRows>(&self, group: GroupKey<K>, page: PageId) -> Option<HostBlockId> {
        let place = self.place(group).ok()?;
        let entry = self.entry(place, page, 0).ok()?;
        self.mapped(entry).map(|part| place.block_of(part))
    }

    /// Changes that no staged plan has carried yet.
    #[must_use]
    pub fn pending(&self) -> &[abi::MapChange] {
        &self.pending
    }

    /// What all groups' maps hold, one after the other.
    pub(super) fn entries(&self) -> &[i32] {
        &self.entries
    }

    /// Forgets the pending changes: a plan that carried them was staged.
    pub(super) fn staged(&mut self) {
        for change in self.pending.drain(..) {
            if let Some(at) = self.pending_at.get_mut(index(change.entry)) {
                *at = FREE;
            }
        }
    }

    fn place<K>(&self, group: GroupKey<K>) -> Result<Place, PlanError> {
        if group.geometry != self.geometry.stamp {
            return Err(PlanError::ForeignGroup { group: group.id });
        }
        Place::of(&self.geometry, group.id)
    }

    /// The part of a block that an entry is mapped to.
    fn mapped(&self, entry: u32) -> Option<u32> {
        u32::try_from(*self.entries.get(index(entry))?).ok()
    }

    /// The entry that a part of a block mirrors.
    fn mirror(&self, group: GroupId, part: u32) -> Option<u32> {
        let entry = self.mirrors.get(index(group.get()))?.get(index(part))?;
        (*entry != FREE).then_some(*entry)
    }

    /// The entry of a part of a page.
    fn entry(&self, place: Place, page: PageId, part: u32) -> Result<u32, PlanError> {
        let pages = self.geometry.pool(place.pages).map_or(0, |pool| pool.blocks());
        let entry = page.get().checked_mul(place.page_parts()).and_then(|entry| entry.checked_add(part));
        let entry = entry.and_then(|entry| entry.checked_add(place.first)).filter(|_| page.get() < pages);
        entry.ok_or_else(|| self.out_of_range(place, place.pages, page.to_string()))
    }

    /// Refuses a block that another group uses, or that its pool does not have.
    fn check_owner(
        &self,
        place: Place,
        pool: PoolId,
        block: u32,
        words: impl Fn() -> String,
    ) -> Result<(), PlanError> {
        let owner = self.owners.get(index(pool.get())).and_then(|owners| owners.get(index(block)));
        match owner {
            None => Err(self.out_of_range(place, pool, words())),
            Some(owner) if owner.group != FREE && owner.group != place.group.get() => {
                Err(PlanError::BlockOfTwoGroups {
                    block: words(),
                    pool: self.pool_name(pool),
                    first: self.geometry.group_name(GroupId::new(owner.group)),
                    second: self.geometry.group_name(place.group),
                })
            }
            Some(_) => Ok(()),
        }
    }

    /// Refuses a block that mirrors pages of another group, or that its pool does not have.
    fn check_mirrored(&self, place: Place, block: HostBlockId, page: PageId) -> Result<(), PlanError> {
        let refused = self.check_owner(place, place.blocks, block.get(), || block.to_string());
        refused.map_err(|error| {
            let owners = self.owners.get(index(place.blocks.get()));
            let owner = owners.and_then(|owners| owners.get(index(block.get())));
            let owner = owner.and_then(|owner| Place::of(&self.geometry, GroupId::new(owner.group)).ok());
            let Some(other) = owner else { return error };
            let first = block.get().saturating_mul(other.block_parts());
            let mut parts = first..first.saturating_add(other.block_parts());
            let entry = parts.find_map(|part| self.mirror(other.group, part));
            entry.map_or(error, |entry| self.block_mapped(place, (other, entry), block, page))
        })
    }

    /// Why `block` cannot mirror `wanted`: it mirrors the page of another entry, maybe of another group.
    fn block_mapped(
        &self,
        place: Place,
        (owner, entry): (Place, u32),
        block: HostBlockId,
        wanted: PageId,
    ) -> PlanError {
        let name = |group| self.geometry.group_name(group);
        PlanError::BlockMapped {
            group: name(place.group),
            block: block.to_string(),
            page: format!("{} of group `{}`", owner.page_of(entry), name(owner.group)),
            wanted: wanted.to_string(),
        }
    }

    /// Refuses more new changes than one staging carries.
    fn check_room(&self, new: usize) -> Result<(), PlanError> {
        let needed = self.pending.len().saturating_add(new);
        if needed > usize::try_from(self.capacity).unwrap_or(usize::MAX) {
            let needed = u64::try_from(needed).unwrap_or(u64::MAX);
            return Err(capacity_error("page-map changes", needed, self.capacity));
        }
        Ok(())
    }

    /// Records a change of one entry.
    fn change(&mut self, entry: u32, block: i32) -> Result<(), PlanError> {
        let at = self.pending_at.get(index(entry)).copied().unwrap_or(FREE);
        let change = abi::MapChange { entry, block };
        match self.pending.get_mut(index(at)).filter(|_| at != FREE) {
            Some(earlier) => *earlier = change,
            None => {
                self.check_room(1)?;
                if let Some(at) = self.pending_at.get_mut(index(entry)) {
                    *at = u32::try_from(self.pending.len()).unwrap_or(FREE);
                }
                self.pending.push(change);
            }
        }
        if let Some(mapped) = self.entries.get_mut(index(entry)) {
            *mapped = block;
        }
        Ok(())
    }

    fn set_mirror(&mut self, place: Place, part: u32, entry: u32) {
        let mirror = self.mirrors.get_mut(index(place.group.get())).and_then(|m| m.get_mut(index(part)));
        if let Some(mirror) = mirror {
            *mirror = entry;
        }
    }

    fn own(&mut self, place: Place, pool: PoolId, block: u32) {
        if let Some(owner) = self.owner_mut(pool, block) {
            *owner = Owner { group: place.group.get(), parts: owner.parts.saturating_add(1) };
        }
    }

    fn disown(&mut self, pool: PoolId, block: u32) {
        if let Some(owner) = self.owner_mut(pool, block) {
            owner.parts = owner.parts.saturating_sub(1);
            if owner.parts == 0 {
                owner.group = FREE;
            }
        }
    }

    fn owner_mut(&mut self, pool: PoolId, block: u32) -> Option<&mut Owner> {
        self.owners.get_mut(index(pool.get()))?.get_mut(index(block))
    }

    fn pool_name(&self, pool: PoolId) -> Arc<str> {
        self.geometry.pool(pool).map_or_else(|| Arc::from(pool.to_string()), |pool| pool.spec.name.clone())
    }

    fn out_of_range(&self, place: Place, pool: PoolId, block: String) -> PlanError {
        PlanError::OutOfRange {
            group: self.geometry.group_name(place.group),
            pool: self.pool_name(pool),
            block,
            blocks: self.geometry.pool(pool).map_or(0, |pool| pool.blocks()),
        }
    }
}

impl Place {
    /// A group's part of the map, where it has both main sides.
    fn of(geometry: &Geometry, id: GroupId) -> Result<Self, PlanError> {
        let missing = || no_route(geometry, id, DeviceToHost::NAME);
        let group = geometry.group(id).ok_or_else(missing)?;
        let way = group.to_host.and_then(|index| geometry.way(index)).ok_or_else(missing)?;
        let pool = |memory| geometry.pool_of(id, memory).ok_or_else(missing);
        Ok(Self {
            group: id,
            first: group.map_first,
            pages: pool(Memory::Device)?,
            blocks: pool(Memory::Host)?,
            steps: Steps::of(&way),
        })
    }

    const fn page_parts(self) -> u32 {
        self.steps.parts[0]
    }

    const fn block_parts(self) -> u32 {
        self.steps.parts[1]
    }

    fn block_of(self, part: u32) -> HostBlockId {
        HostBlockId::new(part.checked_div(self.block_parts()).unwrap_or(part))
    }

    fn page_of(self, entry: u32) -> PageId {
        PageId::new(entry.saturating_sub(self.first).checked_div(self.page_parts()).unwrap_or(entry))
    }
}

/// A number as an index; one that does not fit finds nothing.
fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
