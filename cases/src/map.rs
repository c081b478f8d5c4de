//! The model of a page map: which part of a block mirrors which part of a page.

use std::collections::BTreeMap;

use crate::effect::Refusal;
use crate::world::{GroupModel, World};

/// Which part of a block each part of a page is mirrored by.
#[derive(Clone, Debug)]
pub struct MapModel {
    /// The first entry of each group.
    pub(crate) firsts: Vec<u32>,
    /// What each entry is mapped to: a page's part, and a block's.
    entries: BTreeMap<u32, Mapped>,
    /// Entries that changed since the last staging.
    changed: BTreeMap<u32, i32>,
    /// How many of these one staging carries.
    capacity: usize,
}

/// One entry of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The group.
    pub group: usize,
    /// The page.
    pub page: u32,
    /// The block.
    pub block: u32,
    /// Its part.
    pub block_part: u32,
}

/// Parts of a page and of a block of a group.
pub(crate) fn parts(group: &GroupModel) -> (u32, u32) {
    let step = group.host.rows.min(group.device.rows);
    (group.device.rows / step, group.host.rows / step)
}

impl MapModel {
    /// A map of nothing.
    #[must_use]
    pub fn new(world: &World, capacity: u32) -> Self {
        let mut first = 0;
        let mut next = |group: &GroupModel| {
            let own = first;
            first += group.device.blocks * parts(group).0;
            own
        };
        let firsts = world.groups.iter().map(&mut next).collect();
        let (entries, changed) = (BTreeMap::new(), BTreeMap::new());
        Self { firsts, entries, changed, capacity: capacity as usize }
    }

    /// What a part of a page is mapped to.
    #[must_use]
    pub fn get(&self, world: &World, group: usize, page: u32, part: u32) -> Option<Mapped> {
        self.entries.get(&self.entry(world, group, page, part)).copied()
    }

    /// What an entry holds in the tables.
    pub(crate) fn raw(&self, world: &World, entry: u32) -> i32 {
        let raw = |mapped: &Mapped| mapped.block * parts(&world.groups[mapped.group]).1 + mapped.block_part;
        self.entries.get(&entry).map_or(-1, |mapped| raw(mapped) as i32)
    }

    /// All that is mapped.
    pub fn all(&self) -> impl Iterator<Item = Mapped> {
        self.entries.values().copied()
    }

    /// Changes since the last staging.
    #[must_use]
    pub const fn changed(&self) -> &BTreeMap<u32, i32> {
        &self.changed
    }

    /// Forgets the changes: a staging carried them.
    pub fn staged(&mut self) {
        self.changed.clear();
    }

    fn entry(&self, world: &World, group: usize, page: u32, part: u32) -> u32 {
        self.firsts[group] + page * parts(&world.groups[group]).0 + part
    }

    /// Maps rows of a page to rows of a block.
    ///
    /// # Errors
    /// Where that may not be.
    pub fn map(
        &mut self,
        world: &World,
        group: usize,
        (page, page_row): (u32, u32),
        (block, block_row): (u32, u32),
    ) -> Result<(), Refusal> {
        let model = &world.groups[group];
        let step = model.host.rows.min(model.device.rows);
        let (page_parts, block_parts) = parts(model);
        let (page_part, block_part) = (page_row / step, block_row / step);
        if page_row % step != 0
            || block_row % step != 0
            || page_part >= page_parts
            || block_part >= block_parts
        {
            return Err("a row is not the first of a part");
        }
        if page >= model.device.blocks || block >= model.host.blocks {
            return Err("there is no such page or block");
        }
        for other in self.entries.values() {
            let others = &world.groups[other.group];
            let page_shared = others.device.pool == model.device.pool && other.page == page;
            let block_shared = others.host.pool == model.host.pool && other.block == block;
            if other.group != group && (page_shared || block_shared) {
                return Err("another group has the page or the block");
            }
            if other.group == group && (other.block, other.block_part) == (block, block_part) {
                return Err("the block mirrors something");
            }
        }
        let entry = self.entry(world, group, page, page_part);
        if self.entries.contains_key(&entry) {
            return Err("the page is mapped");
        }
        self.check_room(&[entry])?;
        self.changed.insert(entry, (block * block_parts + block_part) as i32);
        self.entries.insert(entry, Mapped { group, page, block, block_part });
        Ok(())
    }

    /// Unmaps all of a page.
    ///
    /// # Errors
    /// Where that may not be.
    pub fn unmap(&mut self, world: &World, group: usize, page: u32) -> Result<(), Refusal> {
        let model = &world.groups[group];
        if page >= model.device.blocks {
            return Err("there is no such page");
        }
        let entries = (0..parts(model).0).map(|part| self.entry(world, group, page, part));
        let entries: Vec<u32> = entries.filter(|entry| self.entries.contains_key(entry)).collect();
        self.check_room(&entries)?;
        for entry in entries {
            self.entries.remove(&entry);
            self.changed.insert(entry, -1);
        }
        Ok(())
    }

    fn check_room(&self, entries: &[u32]) -> Result<(), Refusal> {
        let new = entries.iter().filter(|entry| !self.changed.contains_key(entry)).count();
        if self.changed.len() + new > self.capacity { Err("there are too many changes") } else { Ok(()) }
    }
}
